/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which device is used. What the program asks for comes first (an option, else
 * RDMAMSG_DEVICE): a device by name, "hw" or "soft". If it asks for nothing, the
 * address decides, and the soft HCA is for addresses of this host where no other
 * device leads.
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
 * To connect to an address. *or_soft: it is the soft HCA's turn; on return, that
 * this comes next if the address is not reached through the table.
 */
const struct verbs_api *rdmamsg__choose_dial(const char *asked,
					     const struct sockaddr *to,
					     bool *or_soft);
/*
 * To listen at an address, if choose_table() leaves it open: whether the soft HCA
 * listens there, after what came of listening on the other devices.
 */
bool rdmamsg__choose_soft_listens(const struct sockaddr *at, int ret);
/*
 * Without the CM: 'local' is an address of this side, or NULL. Replaces the name.
 * -ENODEV, -EACCES, -EOPNOTSUPP, -ENOMEM
 */
int rdmamsg__choose_device(const char *asked, const struct sockaddr *local,
			   const struct verbs_api **ret_v, char **ret_name);

/* path.c: the port with the address, else the first active one, else 0 */
uint8_t rdmamsg__find_port(const struct verbs_api *v, struct ibv_context *verbs,
			   const struct sockaddr *local, bool *ret_has);

#endif
