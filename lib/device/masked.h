/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics of devices. A card of mlx5 executes operands of 4 and 8 bytes
 * as raw requests of a builder (mlx5dv_wr_raw_wqe(3)), and no other call of
 * rdma-core has any. The soft HCA takes those requests, too. No raw request has
 * a larger operand, so the soft HCA has a call of its own for 16 and 32 bytes:
 * struct verbs_api, post_masked().
 */
#ifndef RDMAMSG_LIB_DEVICE_MASKED_H
#define RDMAMSG_LIB_DEVICE_MASKED_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "base/masked.h"

struct rdmamsg_device;
struct trial;
struct verbs_api;

/*
 * Returns the masked atomics of a device. Unless the table of the device tells
 * them, the first call tries them, over two queue pairs of the device.
 */
struct masked_caps rdmamsg__device_masked(struct rdmamsg_device *d);

/*
 * Creates the queue pair of type RC that rdmamsg__v_create_qp() creates, which
 * takes raw requests besides. attr->send_ops_flags is ignored. Returns -errno
 * without a text. -EOPNOTSUPP: libmlx5 is absent, or not for this device.
 */
int rdmamsg__raw_create_qp(const struct rdmamsg_device *d,
			   struct ibv_qp_init_attr_ex *attr,
			   struct ibv_qp **ret);
/*
 * Posts a masked atomic, whose answer goes to the only gather entry of wr. raw:
 * the queue pair takes raw requests. Returns 0 or -errno, without a text.
 * -EOPNOTSUPP: the device has no such operand.
 */
int rdmamsg__post_masked(const struct verbs_api *v, struct ibv_qp *qp, bool raw,
			 struct ibv_send_wr *wr, const struct masked *m);

/* trial_masked.c */
/*
 * Executes masked atomics of each size until one fails. Tells the sizes that
 * work and the byte order of the answers. Returns 0, or -errno with a text if
 * the smallest fails.
 */
int rdmamsg__trial_masked(struct trial *t, struct masked_caps *ret);

#endif
