/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the device that a program asks about. */
#ifndef RDMAMSG_LIB_QUERY_H
#define RDMAMSG_LIB_QUERY_H

#include <infiniband/verbs.h>

#include "device/verbs_api.h"

/*
 * Opens the device of that name, "hw", "soft", or NULL for the default. The
 * caller closes *ret. -ENODEV: there is no RDMA device; -ENXIO: no device has
 * that name; -EACCES, -EMFILE, -ENOMEM.
 */
int rdmamsg__open_asked(const char *asked, const struct verbs_api **ret_v,
			struct ibv_context **ret);

#endif
