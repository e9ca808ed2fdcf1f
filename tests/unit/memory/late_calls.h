/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA, on which definitions of keys are done when the test says so, or
 * fail.
 */
#ifndef TESTS_UNIT_LATE_CALLS_H
#define TESTS_UNIT_LATE_CALLS_H

#include "../soft_calls.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/mlx5dv.h>

#define DEFINERS	8u

/* Queues of queue pairs that define keys. */
static struct ibv_cq *definers[DEFINERS];
static bool held;			/* their completions do not come */
static bool failing;			/* they are errors */
static unsigned int defined;		/* completions that were taken */

static inline struct ibv_cq **find_definer(const struct ibv_cq *cq)
{
	for (unsigned int i = 0; i < DEFINERS; i++)
		if (definers[i] == cq)
			return &definers[i];
	return NULL;
}

static inline struct ibv_qp *late_create_qp(struct ibv_context *verbs,
					    struct ibv_qp_init_attr_ex *attr,
					    struct mlx5dv_qp_init_attr *mlx5)
{
	struct ibv_qp *qp = rdmamsg__verbs_soft.mlx5_create_qp(verbs, attr,
							       mlx5);

	if (qp && mlx5->send_ops_flags & MLX5DV_QP_EX_WITH_MR_LIST)
		*find_definer(NULL) = attr->send_cq;
	return qp;
}

static inline int late_destroy_cq(struct ibv_cq *cq)
{
	struct ibv_cq **d = find_definer(cq);

	if (d)
		*d = NULL;
	return rdmamsg__verbs_soft.destroy_cq(cq);
}

static inline int late_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	const bool is_definer = find_definer(cq) != NULL;
	int n;

	if (is_definer && held)
		return 0;
	n = soft_ops.poll_cq(cq, room, wc);
	if (is_definer && n > 0) {
		defined += (unsigned int)n;
		if (failing)
			wc->status = IBV_WC_MW_BIND_ERR;
	}
	return n;
}

/* The event waits in the channel, too. */
static inline int late_get_cq_event(struct ibv_comp_channel *channel,
				    struct ibv_cq **cq, void **context)
{
	for (unsigned int i = 0; held && i < DEFINERS; i++)
		if (definers[i] && definers[i]->channel == channel) {
			errno = EAGAIN;
			return -1;
		}
	return rdmamsg__verbs_soft.get_cq_event(channel, cq, context);
}

/* Contexts that are opened from now on use this device. */
static inline void replace_definitions(void)
{
	for (unsigned int i = 0; i < DEFINERS; i++)
		definers[i] = NULL;
	held = failing = false;
	defined = 0;
	replace_calls(late_poll_cq, NULL);
	soft_table.mlx5_create_qp = late_create_qp;
	soft_table.destroy_cq = late_destroy_cq;
	soft_table.get_cq_event = late_get_cq_event;
}

#endif
