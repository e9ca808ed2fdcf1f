/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the device that a program asks about, and its attributes. */
#ifndef RDMAMSG_LIB_QUERY_H
#define RDMAMSG_LIB_QUERY_H

#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#include "device/verbs_api.h"

/*
 * Opens the device of that name, "hw", "soft", or NULL for the default. The
 * caller closes *ret. -ENODEV: there is no RDMA device; -ENXIO: no device has
 * that name; -EACCES, -EMFILE, -ENOMEM.
 */
int rdmamsg__open_asked(const char *asked, const struct verbs_api **ret_v,
			struct ibv_context **ret);
/* Fills in all but ports_active. x: NULL if the device has no such query. */
void rdmamsg__fill_device(struct rdmamsg_device_attr *a,
			  const struct verbs_api *v, struct ibv_context *verbs,
			  const struct ibv_device_attr *d,
			  const struct ibv_device_attr_ex *x);
/* caps: device_cap_flags of the device */
void rdmamsg__fill_port(struct rdmamsg_port_attr *a,
			const struct ibv_context *verbs, uint32_t caps,
			uint32_t port, const struct ibv_port_attr *d);

#endif
