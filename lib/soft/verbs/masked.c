/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests for masked atomics. */
#include "base/masked.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"

/* iWARP has no atomics. */
static struct masked_caps caps_of(const struct soft_dev *dev)
{
	return dev->iwarp ? (struct masked_caps){ .sizes = 0 } : dev->masked;
}

void soft_query_masked(struct ibv_context *verbs, struct masked_caps *ret)
{
	*ret = caps_of(soft_dev_of(verbs));
}

static bool is_valid(const struct soft_qp *qp, const struct ibv_send_wr *wr,
		     const struct masked *m)
{
	const struct soft_dev *dev = soft_dev_of(qp->ibv.context);

	return qp->ibv.qp_type == IBV_QPT_RC && masked_ok(m) &&
	       caps_of(dev).sizes & m->size && wr->num_sge >= 0 &&
	       (uint32_t)wr->num_sge <= qp->cap.max_send_sge &&
	       !(wr->send_flags & IBV_SEND_INLINE);
}

static uint64_t copy_list(struct soft_swqe *wqe, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	wqe->num_sge = (uint32_t)wr->num_sge;
	return length;
}

static int post_one(struct soft_qp *qp, const struct ibv_send_wr *wr,
		    const struct masked *m)
{
	const uint32_t i = qp->sq_tail & qp->sq_mask;
	struct soft_swqe *wqe = &qp->sq[i];

	if (soft_sq_used(qp) >= qp->cap.max_send_wr)
		return ENOMEM;
	if (!is_valid(qp, wr, m) || copy_list(wqe, wr) != m->size)
		return EINVAL;
	if (!qp->sq_masked)
		qp->sq_masked = calloc(qp->sq_mask + 1, sizeof(*m));
	if (!qp->sq_masked)
		return ENOMEM;
	qp->sq_masked[i] = *m;
	wqe->op = SOFT_WR_MASKED;
	wqe->wr_id = wr->wr_id;
	wqe->length = m->size;
	wqe->flags = wr->send_flags;
	wqe->signaled = qp->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	wqe->status = IBV_WC_SUCCESS;
	wqe->started = wqe->done = wqe->again = wqe->inlined = false;
	wqe->told = false;
	wqe->sent = wqe->imm = wqe->srqn = 0;
	wqe->raddr = wr->wr.atomic.remote_addr;
	wqe->rkey = wr->wr.atomic.rkey;
	soft_sq_commit(qp, wqe);
	return 0;
}

int soft_post_masked(struct ibv_qp *ibv, struct ibv_send_wr *wr,
		     const struct masked *m)
{
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_dev *dev = soft_dev_of(ibv->context);
	const bool both = soft_sq_lock(dev, qp);
	int ret = soft_sq_may_post(qp);

	if (!ret)
		ret = post_one(qp, wr, m);
	soft_sq_kick(dev, qp);
	soft_sq_unlock(dev, qp, both);
	return ret;
}
