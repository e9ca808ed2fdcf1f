/* SPDX-License-Identifier: BSD-2-Clause */
/* One verbs object of an endpoint, a queue pair, or a queue of XRC. */
#ifndef RDMAMSG_TESTS_VERBS_OF_H
#define RDMAMSG_TESTS_VERBS_OF_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/verbs.h>

/* All are NULL if the call fails. */
static inline struct rdmamsg_qp_objects verbs_of(const struct rdmamsg_qp *qp)
{
	struct rdmamsg_qp_objects v = { .size = sizeof(v) };

	(void)rdmamsg_qp_verbs(qp, &v);
	return v;
}

static inline struct rdmamsg_ep_objects ep_verbs_of(const struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep_objects v = { .size = sizeof(v) };

	(void)rdmamsg_ep_verbs(ep, &v);
	return v;
}

static inline struct rdmamsg_xrc_srq_objects
xrc_verbs_of(const struct rdmamsg_xrc_srq *srq)
{
	struct rdmamsg_xrc_srq_objects v = { .size = sizeof(v) };

	(void)rdmamsg_xrc_srq_verbs(srq, &v);
	return v;
}

static inline struct ibv_wq *wq_of(const struct rdmamsg_qp *qp, uint32_t i)
{
	const struct rdmamsg_qp_objects v = verbs_of(qp);

	return i < v.queues ? v.wqs[i] : NULL;
}

#endif
