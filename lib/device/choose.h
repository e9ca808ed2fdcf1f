/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The choice of a device. The program asks by an option, else by
 * RDMAMSG_DEVICE, for a device by name, for "hw" or for "soft". If it asks for
 * nothing, the soft HCA serves if there is no other device, for loopback
 * addresses that no other device reaches, and for a peer to none of whose
 * addresses another device leads (cm/rdma/dial.c). A peer that a device leads
 * to and that does not answer is an error of the network, not a reason to be
 * slow.
 */
#ifndef RDMAMSG_LIB_CHOOSE_H
#define RDMAMSG_LIB_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "device/verbs_api.h"

/* Returns the option, else RDMAMSG_DEVICE, else NULL. */
const char *rdmamsg__asked(const char *option);
/* Returns true if 'asked' names one device. */
bool rdmamsg__asked_by_name(const char *asked);
/* Returns the table for 'asked', or NULL if the address decides. */
const struct verbs_api *rdmamsg__choose_table(const char *asked);
/*
 * Returns true for the table of the soft HCA. A soft HCA that rdmamsg-soft(1)
 * preloads uses the table of libibverbs, and has KIND_SOFT of quirks.h.
 */
bool rdmamsg__is_soft(const struct verbs_api *v);
/*
 * Returns the table to connect to an address. If *or_soft is true, this is the
 * table of the soft HCA. Sets *or_soft if the soft HCA is to be tried next, in
 * case the table does not reach the address.
 */
const struct verbs_api *rdmamsg__choose_dial(const char *asked,
					     const struct sockaddr *to,
					     bool *or_soft);
/*
 * Returns the table to join a group: the soft HCA's if there is no other
 * device.
 */
const struct verbs_api *rdmamsg__choose_group(const char *asked);
/*
 * Returns true if the soft HCA listens at the address, too. 'ret' is the result
 * of listening on other devices. Called if rdmamsg__choose_table() gave NULL.
 */
bool rdmamsg__choose_soft_listens(const struct sockaddr *at, int ret);
/*
 * Returns why the soft HCA has no port for other hosts, which it tries again, or
 * NULL: it has one, or needs none.
 */
const char *rdmamsg__soft_alone(const struct verbs_api *v);
/*
 * Chooses a device without the CM. 'local' is an address of this side, or NULL.
 * Replaces *ret_name. -ENODEV, -ENXIO, -EACCES, -EOPNOTSUPP, -ENOMEM.
 */
int rdmamsg__choose_device(const char *asked, const struct sockaddr *local,
			   const struct verbs_api **ret_v, char **ret_name);

/*
 * path.c: finds the port with the address, else the first active port, else 0.
 * Returns 0, or -errno and a text if no port has the address and one could not
 * be queried. Then *ret_port is a port that may have it, or 0.
 */
int rdmamsg__find_port(const struct verbs_api *v, struct ibv_context *verbs,
		       const struct sockaddr *local, uint8_t *ret_port,
		       bool *ret_has);

#endif
