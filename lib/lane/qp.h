/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of a lane. A function that fails returns -errno and sets the
 * text. rdmamsg__lane_unmake() also frees a lane that is only partly made.
 */
#ifndef RDMAMSG_LIB_QP_H
#define RDMAMSG_LIB_QP_H

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "device/late.h"
#include "lane/lane.h"

/* Checks that the device allows what the options ask for. */
int rdmamsg__lane_check(const struct lane *l,
			const struct rdmamsg_ep_options *o);
/*
 * Makes the queues, the share of a CQ, and the queue pair. The lane has dev, v
 * and srq.
 */
int rdmamsg__lane_make(struct lane *l, const struct rdmamsg_ep_options *o);
void rdmamsg__lane_unmake(struct lane *l);
/* Ends all access to memory. Has no effect if there is no queue pair. */
void rdmamsg__lane_destroy_qp(struct lane *l);
/*
 * Gives the queue pair, if there is one, to the caller, who destroys it in
 * another thread. The device uses no more memory for it, and its completions
 * have no endpoint. On failure the lane keeps it.
 */
void rdmamsg__lane_give_qp(struct lane *l, struct late_qp *ret);
/*
 * Makes one step of the queue pair, with the attributes of lane_events.attr().
 */
int rdmamsg__lane_step(struct lane *l, enum ibv_qp_state state,
		       struct ibv_qp_attr *attr);
/* Connects from IBV_QPS_INIT to IBV_QPS_RTS. l->port must be known. */
int rdmamsg__lane_connect(struct lane *l);
/*
 * Flushes posted requests. rdmamsg__lane_is_drained() then returns true when
 * all have completed.
 */
int rdmamsg__lane_error(struct lane *l);
bool rdmamsg__lane_is_drained(const struct lane *l);

#endif
