/* SPDX-License-Identifier: BSD-2-Clause */
/* Cross-channel queue pairs: which queues a request names, and who waits. */
#include "soft/verbs/cross.h"

#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/verbs/cq.h"

void soft_cross_wake(struct soft_dev *dev, struct soft_qp *qp)
{
	if (list_empty(&qp->pend_node))
		list_add_tail(&dev->pending, &qp->pend_node);
	/* the program may call nothing else that makes the engine run */
	dev->woken = dev->bells_due = true;
}

void soft_cross_woken(struct soft_dev *dev, struct soft_cq *cq)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &cq->waiters) {
		struct soft_qp *qp = list_entry(n, struct soft_qp, wait_node);

		if ((int32_t)(cq->produced - qp->wait_index) < 0)
			continue;
		list_del(n);
		soft_cross_wake(dev, qp);
	}
}

struct soft_cq *soft_cross_cq(struct soft_dev *dev, uint32_t num)
{
	struct list *n;

	list_for_each(n, &dev->cq_buckets[num % SOFT_CQ_BUCKETS]) {
		struct soft_cq *cq = list_entry(n, struct soft_cq, bucket_node);

		if (cq->num == num)
			return cq;
	}
	return NULL;
}

struct soft_qp *soft_cross_qp(struct soft_dev *dev, uint32_t qpn,
			      uint32_t managed)
{
	struct soft_qp *qp = soft_qp_find(dev, qpn);

	return qp && qp->ibv.qp_num == qpn && qp->create_flags & managed ?
	       qp : NULL;
}

bool soft_cross_posted(const struct soft_qp *qp, uint8_t op, uint32_t index)
{
	const uint32_t end = op == SOFT_WR_SEND_ENABLE ? qp->sq_tail :
			     qp->rq.tail + qp->rq_held;

	return (int32_t)(end - index) >= 0;
}

bool soft_cross_names(struct soft_dev *dev, const struct soft_swqe *wqe)
{
	const struct soft_qp *to;

	if (wqe->op == SOFT_WR_WAIT)
		return soft_cross_cq(dev, wqe->rkey);
	if (wqe->op != SOFT_WR_SEND_ENABLE && wqe->op != SOFT_WR_RECV_ENABLE)
		return true;
	to = soft_cross_qp(dev, wqe->rkey, wqe->op == SOFT_WR_SEND_ENABLE ?
			   SOFT_MANAGED_SEND : SOFT_MANAGED_RECV);
	return to && soft_cross_posted(to, wqe->op, wqe->imm);
}

void soft_cross_show(struct soft_qp *qp)
{
	qp->rq.tail += qp->rq_held;
	qp->rq_held = 0;
}

void soft_cross_hide(struct soft_qp *qp, uint32_t tail)
{
	qp->rq_held = qp->rq.tail - tail;
	qp->rq.tail = tail;
}
