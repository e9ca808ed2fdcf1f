/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of a lane. What fails returns -errno and leaves a text; a lane
 * that is made in part is taken down like a whole one.
 */
#ifndef RDMAMSG_LIB_QP_H
#define RDMAMSG_LIB_QP_H

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "lane/lane.h"

/* Whether the device allows what the options ask for. */
int rdmamsg__lane_check(const struct lane *l,
			const struct rdmamsg_ep_options *o);
/* Queues, the share of a CQ, the queue pair. The lane has dev, v and srq. */
int rdmamsg__lane_make(struct lane *l, const struct rdmamsg_ep_options *o);
void rdmamsg__lane_unmake(struct lane *l);
/* Ends all reading and writing. Nothing if there is no queue pair. */
void rdmamsg__lane_destroy_qp(struct lane *l);
/* One step of the queue pair, by the session's attributes. */
int rdmamsg__lane_step(struct lane *l, enum ibv_qp_state state,
		       struct ibv_qp_attr *attr);
/* From IBV_QPS_INIT to IBV_QPS_RTS; the port is known. */
int rdmamsg__lane_connect(struct lane *l);
/* Has what is posted flushed, and whether all of that has completed. */
int rdmamsg__lane_error(struct lane *l);
bool rdmamsg__lane_is_drained(const struct lane *l);

#endif
