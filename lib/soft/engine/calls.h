/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program may tell the engine, beyond verbs. */
#ifndef SOFT_ENGINE_CALLS_H
#define SOFT_ENGINE_CALLS_H

#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * The peer of the queue pair will be told that it may read these bytes. If its
 * device is told, too, its read needs no answer. Whether that happens changes
 * nothing but the time.
 */
void soft_offer_read(struct ibv_qp *qp, const struct ibv_mr *mr, uint64_t raddr,
		     uint64_t len);

#endif
