/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams. The device drops a datagram silently if the destination does not
 * exist, if its Q_Key differs, or if it has no receive that is long enough. It
 * also drops a datagram longer than the MTU. Datagrams to a stopped peer are
 * dropped, so that senders go on.
 */
#include "soft/engine/ud.h"

#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/resp.h"
#include "soft/fabric/count.h"
#include "soft/fabric/push.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/upward.h"

/* The header in front of the payload. */
struct dgram {
	uint8_t grh[40];
	uint8_t mgid[16];
	uint16_t slid;
	uint8_t sl;
	uint8_t port;			/* of the destination; 0: any */
	uint32_t pad;
};
_Static_assert(sizeof(struct dgram) == 64, "a multiple of the alignment");

bool soft_give_up(struct soft_dev *dev, struct soft_qp *qp, struct soft_wire *w,
		  uint64_t after)
{
	uint64_t now = soft_now(), head;

	/*
	 * Read head after the clock. This process may have been off the
	 * processor since the ring was full, while the peer made progress.
	 */
	head = atomic_load_explicit(&w->tx.shm->head, memory_order_relaxed);
	if (!w->full_since || w->full_head != head) {
		w->full_since = now;
		w->full_head = head;
	}
	if (now - w->full_since >= after) {
		soft_count(dev, qp->attr.port_num, SOFT_XMIT_DISCARDS, 1);
		return true;
	}
	soft_qp_pend(dev, qp);
	if (list_empty(&qp->timer.node))
		soft_timer_set(dev, &qp->timer, after);
	return false;
}

/* ---- sending ---------------------------------------------------------- */

static void fill(struct soft_rec *rec, const struct soft_qp *qp,
		 const struct soft_swqe *wqe, uint32_t dst)
{
	const struct soft_ah *ah = wqe->ah;
	struct dgram *dg = (struct dgram *)(rec + 1);

	memset(rec, 0, sizeof(*rec));
	memset(dg, 0, sizeof(*dg));
	rec->op = SOFT_DATAGRAM;
	rec->flags = SOFT_F_LAST | SOFT_F_UNRELIABLE;
	if (wqe->op == IBV_WR_SEND_WITH_IMM)
		rec->flags |= SOFT_F_IMM;
	if (wqe->flags & IBV_SEND_SOLICITED)
		rec->flags |= SOFT_F_SOLICITED;
	if (ah->attr.is_global) {
		rec->flags |= SOFT_F_GRH;
		soft_ah_header(ah, wqe->length, dg->grh);
	}
	if (ah->mcast)
		memcpy(dg->mgid, ah->attr.grh.dgid.raw, 16);
	dg->slid = ah->slid;
	dg->sl = ah->sl;
	dg->port = ah->port;
	rec->bytes = (uint32_t)sizeof(*dg) + wqe->length;
	rec->dst = dst;
	rec->src = qp->ibv.qp_num;
	/* the number that the receiver sees */
	rec->srqn = qp->create_flags & IBV_QP_CREATE_SOURCE_QPN ?
		    qp->source_qpn : qp->ibv.qp_num;
	rec->psn = wqe->psn;
	rec->imm = wqe->imm;
	/* the highest bit selects the Q_Key of the queue pair */
	rec->rkey = wqe->qkey >> 31 ? qp->attr.qkey : wqe->qkey;
	rec->total = wqe->length;
}

/* Returns false if the ring is full. Then push again later. */
static bool push_to(struct soft_dev *dev, struct soft_qp *qp,
		    struct soft_swqe *wqe, uint32_t node, uint32_t dst)
{
	const size_t len = sizeof(struct dgram) + wqe->length;
	struct soft_wire *w = dev->to[node];
	struct soft_rec *rec;
	uint8_t *at;

	if (unlikely(!w)) {
		const int ret = soft_wire_get(dev, node, &w);

		/* the backlog of the peer is full: this datagram is lost */
		if (ret && ret != -EAGAIN)
			soft_mcast_unreachable(wqe->ah, node);
		if (ret)
			return true;
		soft_wire_put(dev, w);
	}
	rec = soft_rec_new(dev, w, len);
	if (unlikely(!rec))
		return soft_give_up(dev, qp, w, wqe->ah->mcast ?
				    SOFT_STALL_GROUP_NS : SOFT_STALL_NS);
	w->full_since = 0;
	at = (uint8_t *)(rec + 1) + sizeof(struct dgram);
	if (wqe->inlined) {
		memcpy(at, wqe->data, wqe->length);
	} else if (soft_gather(qp, wqe->sge, wqe->num_sge, 0, at,
			       wqe->length)) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		return true;
	}
	fill(rec, qp, wqe, dst);
	soft_rec_commit(dev, w, len);
	soft_count_xmit(dev, qp->attr.port_num, wqe->length);
	if (wqe->ah->mcast)
		soft_count(dev, qp->attr.port_num, SOFT_XMIT_MCAST, 1);
	return true;
}

static bool push_group(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe)
{
	struct soft_ah *ah = wqe->ah;

	if (!wqe->sent)
		soft_mcast_members(dev, ah);
	for (uint32_t n = wqe->sent; n < SOFT_NODES; n++) {
		if (!ah->members[n / 64]) {
			n |= 63;
			continue;
		}
		if (!(ah->members[n / 64] >> n % 64 & 1))
			continue;
		wqe->sent = n;		/* continue at this node */
		if (!push_to(dev, qp, wqe, n, SOFT_QPN_MCAST))
			return false;
		if (wqe->status)
			break;
	}
	return true;
}

bool soft_ud_push(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_swqe *wqe)
{
	uint32_t node = wqe->dest_qpn >> SOFT_QPN_BITS;
	const struct soft_ah *ah = wqe->ah;

	/* C10-93.1.1: no packet and no error, as rxe_requester() in Linux */
	if (unlikely(wqe->length > SOFT_MTU))
		return true;
	if (unlikely(ah->far) && !wqe->went) {
		soft_verbs_up->far_datagram(dev, qp, wqe);
		wqe->went = true;	/* a group has members here as well */
	}
	if (ah->mcast)
		return wqe->status || push_group(dev, qp, wqe);
	if (unlikely(ah->far))
		return true;
	if (node >= SOFT_NODES || (ah->node >= 0 && ah->node != (int)node))
		return true;
	return push_to(dev, qp, wqe, node, wqe->dest_qpn);
}

/* ---- receiving -------------------------------------------------------- */

static void deliver(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_rec *rec, const struct dgram *dg)
{
	const struct soft_rwqe *wqe;
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV,
		.byte_len = SOFT_GRH + rec->total, .src_qp = rec->srqn & 0xffffff,
		.pkey_index = qp->attr.pkey_index, .slid = dg->slid,
		.sl = dg->sl,
	};

	/* with a number of others, a queue pair only sends */
	if (qp->create_flags & IBV_QP_CREATE_SOURCE_QPN)
		return;
	if (qp->ibv.qp_type != IBV_QPT_UD || !soft_can_receive(qp) ||
	    (unlikely(dev->faulty) &&
	     !soft_port_carries(dev, qp->attr.port_num)) ||
	    rec->rkey != qp->attr.qkey ||
	    (dg->port && dg->port != qp->attr.port_num))
		return;
	wqe = soft_receive(qp);
	if (!wqe || wqe->length < SOFT_GRH + rec->total) {
		soft_count(dev, qp->attr.port_num, SOFT_NO_BUFFER, 1);
		return;
	}
	soft_count_rcv(dev, qp->attr.port_num, rec->total);
	if (rec->dst == SOFT_QPN_MCAST)
		soft_count(dev, qp->attr.port_num, SOFT_RCV_MCAST, 1);
	if (rec->flags & SOFT_F_GRH)
		wc.wc_flags |= IBV_WC_GRH;
	if (rec->flags & SOFT_F_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = rec->imm;
	}
	if ((rec->flags & SOFT_F_GRH &&
	     soft_scatter_in(dev, qp->recv_pd, wqe->sge, wqe->num_sge, 0,
			     dg->grh, SOFT_GRH)) ||
	    soft_scatter_in(dev, qp->recv_pd, wqe->sge, wqe->num_sge,
			    SOFT_GRH, dg + 1, rec->total))
		wc.status = IBV_WC_LOC_PROT_ERR;
	soft_rq_complete(dev, qp, &wc, rec->flags & SOFT_F_SOLICITED);
	if (wc.status)
		soft_qp_error(dev, qp);
}

static void arrives(struct soft_dev *dev, const struct soft_rec *rec,
		    const struct dgram *dg)
{
	struct dgram head;
	struct soft_group *g;
	struct soft_qp *qp;
	struct list *n, *t;

	if (rec->dst != SOFT_QPN_MCAST) {
		qp = rec->dst >> SOFT_QPN_BITS == dev->node ?
		     soft_qp_find(dev, rec->dst) : NULL;
		if (qp)
			deliver(dev, qp, rec, dg);
		return;
	}
	memcpy(&head, dg, sizeof(head));
	g = soft_group_find(dev, head.mgid);
	if (!g)
		return;
	list_for_each_safe(n, t, &g->members) {
		qp = list_entry(n, struct soft_member, node)->qp;
		if (qp->ibv.qp_num == rec->src && qp->create_flags &
		    IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
			continue;
		deliver(dev, qp, rec, dg);
	}
}

void soft_ud_arrives(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_rec *rec, const void *payload)
{
	const struct dgram *dg = payload;

	if (rec->bytes < sizeof(*dg) || rec->total > SOFT_MTU ||
	    rec->bytes != sizeof(*dg) + rec->total)
		w->rx.broken = true;
	else
		arrives(dev, rec, dg);
}

void soft_ud_packet(struct soft_dev *dev, const struct soft_rec *rec,
		    const struct soft_path *back, const void *payload)
{
	struct {
		struct dgram head;
		uint8_t data[SOFT_MTU];
	} d;

	memset(&d.head, 0, sizeof(d.head));
	soft_ah_arrived(dev, back, rec->total, d.head.grh, &d.head.sl);
	memcpy(d.head.mgid, back->from, 16);
	memcpy(d.data, payload, rec->total);
	arrives(dev, rec, &d.head);
}
