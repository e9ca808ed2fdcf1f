/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pushes answers while the ring has room: reads in order, then either one ACK
 * for all executed requests or the NAK.
 */
#include "soft/engine/resp.h"

#include <string.h>

#include "base/util.h"
#include "soft/fabric/count.h"
#include "soft/fabric/push.h"
#include "soft/fabric/vm.h"
#include "soft/verbs/access.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/upward.h"

static void answer(struct soft_rec *rec, const struct soft_qp *qp, uint8_t op,
		   uint32_t psn)
{
	memset(rec, 0, sizeof(*rec));
	rec->op = op;
	rec->dst = qp->attr.dest_qp_num;
	rec->src = qp->ibv.qp_num;
	rec->psn = psn;
}

/* Pushes the migration state. Returns false if the ring is full. */
static __attribute__((noinline)) bool push_path(struct soft_dev *dev,
						struct soft_qp *qp)
{
	struct soft_rec *rec;

	if (qp->wire && !qp->wire->dead &&
	    soft_port_carries(dev, qp->attr.port_num)) {
		rec = soft_rec_new(dev, qp->wire, 0);
		if (!rec)
			return false;
		answer(rec, qp, SOFT_PATH, 0);
		rec->flags = qp->path |
			     (qp->unreliable ? SOFT_F_UNRELIABLE : 0);
		rec->code = (uint8_t)qp->attr.path_mig_state;
		soft_rec_commit(dev, qp->wire, 0);
	}
	qp->path_due = false;
	return true;
}

/*
 * Copies n bytes of a read of a layout. The check for each segment notices that
 * a region is gone.
 */
static __attribute__((noinline)) bool
read_parts(struct soft_dev *dev, const struct soft_rd *rd, void *dst,
	   uint32_t n)
{
	const struct soft_mr *mr =
		soft_layout_of(dev, rd->pd, rd->src_rkey, rd->raddr, rd->total,
			       IBV_ACCESS_REMOTE_READ);

	return mr && !soft_layout_read(dev, mr, rd->raddr + rd->sent, dst, n);
}

/* Pushes a segment of the oldest read. Returns false if the ring is full. */
static bool push_rd(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_rd *rd = &qp->rd[qp->rd_head % SOFT_MAX_RD];
	uint32_t most = rd->show ? SOFT_SHOW_MAX : SOFT_SEGMENT;
	uint32_t n = rd->atomic ? rd->total : min(rd->total - rd->sent, most);
	uint32_t bytes = rd->show ? sizeof(struct soft_shown) : n;
	struct soft_rec *rec = soft_rec_new(dev, qp->wire, bytes);
	const uint8_t *at;

	if (!rec)
		return false;
	if (rd->atomic) {
		memcpy(rec + 1, rd->value, n);
	} else if (rd->total) {
		/* check for each segment, because the region may be gone */
		at = rd->parts ? NULL :
		     soft_remote_at(dev, qp, rd->pd, rd->src_rkey, rd->raddr,
				    rd->total, IBV_ACCESS_REMOTE_READ);
		if (!at && (!rd->parts || !read_parts(dev, rd, rec + 1, n))) {
			qp->rd_head = qp->rd_tail;
			soft_refuse(dev, qp, SOFT_NAK_ACCESS,
				    IBV_EVENT_QP_ACCESS_ERR);
			qp->nak_psn = rd->psn;
			return true;
		}
		if (rd->show)
			bytes = (uint32_t)soft_vm_show_at(
				dev, qp->wire, at + rd->sent, n, rd->src_rkey,
				(struct soft_shown *)(rec + 1));
		else if (at)
			memcpy(rec + 1, at + rd->sent, n);
	}
	answer(rec, qp, rd->atomic ? SOFT_ATOMIC_RESP : SOFT_READ_RESP,
	       rd->psn);
	rec->bytes = bytes;
	if (rd->show)
		rec->code = SOFT_SHOWN;
	rec->offset = rd->sent;
	rec->aux = rd->aux;
	soft_rec_commit(dev, qp->wire, bytes);
	soft_count_xmit(dev, qp->attr.port_num, n);
	rd->sent += n;
	if (rd->atomic || rd->sent == rd->total)
		qp->rd_head++;
	return true;
}

bool soft_resp_push(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_rec *rec;
	bool reads;

	if (unlikely(qp->path_due) && !push_path(dev, qp))
		return false;
	reads = qp->rd_head != qp->rd_tail &&
		likely(!qp->reads_late || qp->nak_due);
	if (unlikely(qp->far))
		return soft_verbs_up->far_answer(dev, qp);
	if (!reads && !qp->ack_due && !qp->nak_due)
		return true;
	if (!qp->wire || qp->wire->dead) {
		qp->rd_head = qp->rd_tail;
		qp->ack_due = false;
		qp->nak_due = 0;
		return true;
	}
	while (reads && qp->rd_head != qp->rd_tail)
		if (!push_rd(dev, qp))
			return false;
	rec = soft_rec_new(dev, qp->wire, 0);
	if (!rec)
		return false;
	if (qp->nak_due) {
		answer(rec, qp, SOFT_NAK, qp->nak_psn);
		rec->code = qp->nak_due;
		rec->aux = qp->nak_aux;
		dev->rnr.sent += qp->nak_due == SOFT_NAK_RNR;
		qp->rnr.sent += qp->nak_due == SOFT_NAK_RNR;
	} else {
		answer(rec, qp, SOFT_ACK, (qp->epsn - 1) & SOFT_PSN_MASK);
	}
	if (qp->nak_due || qp->ack_asked)
		soft_rec_commit(dev, qp->wire, 0);
	else
		soft_rec_commit_quiet(dev, qp->wire);
	qp->ack_due = qp->ack_asked = false;
	qp->nak_due = 0;
	return true;
}
