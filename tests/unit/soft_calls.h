/* SPDX-License-Identifier: BSD-2-Clause */
/* The soft HCA with polling or posting replaced by the test's own functions. */
#ifndef TESTS_UNIT_SOFT_CALLS_H
#define TESTS_UNIT_SOFT_CALLS_H

#include "device/verbs_api.h"

#include <stddef.h>

#include <infiniband/verbs.h>

typedef int poll_cq_fn(struct ibv_cq *cq, int room, struct ibv_wc *wc);
typedef int post_send_fn(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad);

static struct ibv_context_ops soft_ops;	/* the soft HCA's own */
static struct verbs_api soft_table;
static poll_cq_fn *test_poll_cq;	/* NULL: not replaced */
static post_send_fn *test_post_send;

static inline struct ibv_context *open_replaced(struct ibv_device *device)
{
	struct ibv_context *verbs = rdmamsg__verbs_soft.open_device(device);

	if (!verbs)
		return NULL;
	soft_ops = verbs->ops;
	if (test_poll_cq)
		verbs->ops.poll_cq = test_poll_cq;
	if (test_post_send)
		verbs->ops.post_send = test_post_send;
	return verbs;
}

/* Contexts that are opened from now on call these. */
static inline void replace_calls(poll_cq_fn *poll_cq, post_send_fn *post_send)
{
	test_poll_cq = poll_cq;
	test_post_send = post_send;
	soft_table = rdmamsg__verbs_soft;
	soft_table.open_device = open_replaced;
	rdmamsg__verbs = &soft_table;
}

#endif
