/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The choice of a device. The program asks by an option, else RDMAMSG_DEVICE
 * does: for a device by name, "hw" or "soft". If nothing asks, the address
 * decides. Then the soft HCA serves addresses of this host that no other device
 * reaches.
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
/* Whether it names one device. */
bool rdmamsg__asked_by_name(const char *asked);
/* The table with what is asked for, or NULL: the address decides. */
const struct verbs_api *rdmamsg__choose_table(const char *asked);
/*
 * The table to connect to an address through. If *or_soft is true, that is the
 * soft HCA's. On return *or_soft tells whether the soft HCA comes next if the
 * table does not reach the address.
 */
const struct verbs_api *rdmamsg__choose_dial(const char *asked,
					     const struct sockaddr *to,
					     bool *or_soft);
/* The table to join a group through: the soft HCA's if there is no other. */
const struct verbs_api *rdmamsg__choose_group(const char *asked);
/*
 * Returns true if the soft HCA listens at the address, after listening on the
 * other devices returned 'ret'. Called if rdmamsg__choose_table() gave NULL.
 */
bool rdmamsg__choose_soft_listens(const struct sockaddr *at, int ret);
/*
 * Without the CM: 'local' is an address of this side, or NULL. Replaces
 * *ret_name.
 * -ENODEV, -EACCES, -EOPNOTSUPP, -ENOMEM
 */
int rdmamsg__choose_device(const char *asked, const struct sockaddr *local,
			   const struct verbs_api **ret_v, char **ret_name);

/* path.c: the port with the address, else the first active one, else 0 */
uint8_t rdmamsg__find_port(const struct verbs_api *v, struct ibv_context *verbs,
			   const struct sockaddr *local, bool *ret_has);

#endif
