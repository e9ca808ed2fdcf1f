/* SPDX-License-Identifier: BSD-2-Clause */
/* The way up of a queue pair: ibv_modify_qp(3) has what each step must set. */
#ifndef TESTS_QP_WALK_H
#define TESTS_QP_WALK_H

#include <infiniband/verbs.h>
#include <stdbool.h>

static inline int qp_step_mask(enum ibv_qp_type type, enum ibv_qp_state to)
{
	const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			 IBV_QP_RQ_PSN;
	const int asked = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int asks = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
			 IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;
	bool ud = type == IBV_QPT_UD;

	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		return IBV_QP_STATE | (ud ? 0 : path) |
		       (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV ?
			asked : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND ?
			asks : 0);
	default:
		return IBV_QP_STATE;
	}
}

/*
 * Up to that state, with what is in *attr, and with a path from its port if it
 * has none. 0, or what the call returned.
 */
static inline int qp_walk(int (*modify)(struct ibv_qp *, struct ibv_qp_attr *,
					int),
			  struct ibv_qp *qp, struct ibv_qp_attr *attr,
			  enum ibv_qp_state last)
{
	int ret = 0;

	if (!attr->ah_attr.port_num) {
		attr->ah_attr.port_num = attr->port_num;
		attr->ah_attr.is_global = 1;
	}
	for (int to = IBV_QPS_INIT; to <= (int)last && !ret; to++) {
		attr->qp_state = (enum ibv_qp_state)to;
		ret = modify(qp, attr, qp_step_mask(qp->qp_type,
						    attr->qp_state));
	}
	return ret;
}

#endif
