/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet frames of raw queue pairs, which stay in the fabric: no packet
 * socket, no other network. Every process of the fabric is a port of one
 * switch. Like datagrams (ud.c), frames are dropped silently: if no flow takes
 * them, no receive is long enough, or they are longer than the MTU.
 */
#include "soft/engine/eth.h"

#include <string.h>

#include "base/util.h"
#include "soft/engine/resp.h"
#include "soft/engine/tso.h"
#include "soft/engine/ud.h"
#include "soft/fabric/count.h"
#include "soft/fabric/frame.h"
#include "soft/fabric/frame_sum.h"
#include "soft/fabric/push.h"
#include "soft/verbs/access.h"
#include "soft/verbs/flow.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/wq.h"

/* ---- sending ---------------------------------------------------------- */

/* Returns false if the ring is full. Then push again later. */
static bool push_to(struct soft_dev *dev, struct soft_qp *qp, uint32_t node,
		    const uint8_t *frame, uint32_t len)
{
	struct soft_wire *w = dev->to[node];
	struct soft_rec *rec;

	if (unlikely(!w)) {
		const int ret = soft_wire_get(dev, node, &w);

		/* the backlog of the peer is full: this frame is lost */
		if (ret && ret != -EAGAIN)
			qp->raw->members[node / 64] &= ~(1ull << node % 64);
		if (ret)
			return true;
		soft_wire_put(dev, w);
	}
	rec = soft_rec_new(dev, w, len);
	if (unlikely(!rec))
		return soft_give_up(dev, qp, w, SOFT_STALL_GROUP_NS);
	w->full_since = 0;
	memset(rec, 0, sizeof(*rec));
	rec->op = SOFT_FRAME;
	rec->flags = SOFT_F_LAST | SOFT_F_UNRELIABLE;
	rec->bytes = rec->total = len;
	rec->dst = SOFT_QPN_MCAST;
	rec->src = qp->ibv.qp_num;
	memcpy(rec + 1, frame, len);
	soft_rec_commit(dev, w, len);
	soft_count_xmit(dev, qp->attr.port_num, len);
	return true;
}

static bool push_frame(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe, const uint8_t *frame,
		       uint32_t len)
{
	soft_flow_members(dev, qp->raw, frame);
	for (uint32_t n = wqe->sent; n < SOFT_NODES; n++) {
		uint64_t row = qp->raw->members[n / 64] >> n % 64;

		if (!row) {
			n |= 63;
			continue;
		}
		if (!(row & 1))
			continue;
		wqe->sent = n;		/* continue at this node */
		if (!push_to(dev, qp, n, frame, len))
			return false;
	}
	return true;
}

/* Sends segment after segment. wqe->raddr counts those that are sent. */
static bool push_segments(struct soft_dev *dev, struct soft_qp *qp,
			  struct soft_swqe *wqe)
{
	uint8_t frame[FRAME_MAX];

	for (; wqe->raddr < soft_tso_count(wqe); wqe->raddr++) {
		uint32_t len = soft_tso_build(qp, wqe, (uint32_t)wqe->raddr,
					      frame);

		if (!len) {
			wqe->status = IBV_WC_LOC_PROT_ERR;
			return true;
		}
		if (wqe->flags & IBV_SEND_IP_CSUM)
			soft_frame_sum(frame, len);
		if (!push_frame(dev, qp, wqe, frame, len))
			return false;
		wqe->sent = 0;
	}
	wqe->raddr = 0;		/* for a duplicate */
	return true;
}

bool soft_eth_push(struct soft_dev *dev, struct soft_qp *qp,
		   struct soft_swqe *wqe)
{
	uint8_t frame[FRAME_MAX];

	if (wqe->op == IBV_WR_TSO)
		return push_segments(dev, qp, wqe);
	if (unlikely(wqe->length > FRAME_MAX))
		return true;
	if (wqe->inlined) {
		memcpy(frame, wqe->data, wqe->length);
	} else if (soft_gather(qp, wqe->sge, wqe->num_sge, 0, frame,
			       wqe->length)) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		return true;
	}
	if (wqe->flags & IBV_SEND_IP_CSUM)
		soft_frame_sum(frame, wqe->length);
	return push_frame(dev, qp, wqe, frame, wqe->length);
}

/* ---- receiving -------------------------------------------------------- */

/* A frame as a queue gets it. */
struct arrival {
	uint8_t bytes[FRAME_MAX + FRAME_FCS];
	uint32_t len;
	uint16_t tci;		/* of the tag that was stripped */
	unsigned int wc_flags;
};

static void prepare(struct arrival *a, const uint8_t *frame, uint32_t len,
		    bool strips, bool fcs)
{
	const uint32_t macs = 2 * FRAME_MAC;
	struct soft_frame f;

	soft_frame_parse(&f, frame, len);
	a->tci = 0;
	a->wc_flags = soft_frame_sum_ok(frame, len) ? IBV_WC_IP_CSUM_OK : 0;
	memcpy(a->bytes, frame, len);
	a->len = len;
	/* of the frame as it was on the wire */
	if (fcs)
		soft_frame_fcs(frame, len, a->bytes + len);
	if (fcs)
		a->len += FRAME_FCS;
	if (!strips || !f.tagged)
		return;
	a->tci = f.tci;
	a->len -= FRAME_TAG;
	memmove(a->bytes + macs, a->bytes + macs + FRAME_TAG, a->len - macs);
}

/* Into the receive at the head of a queue. Returns false if it does not fit. */
static bool scatter(struct soft_dev *dev, uint8_t port,
		    const struct ibv_pd *pd, const struct soft_rwqe *wqe,
		    const struct arrival *a, struct ibv_wc *wc)
{
	if (!wqe || wqe->length < a->len) {
		soft_count(dev, port, SOFT_NO_BUFFER, 1);
		return false;
	}
	soft_count_rcv(dev, port, a->len);
	*wc = (struct ibv_wc) {
		.opcode = IBV_WC_RECV, .byte_len = a->len,
		.wc_flags = a->wc_flags, .pkey_index = a->tci,
	};
	if (soft_scatter_in(dev, pd, wqe->sge, wqe->num_sge, 0, a->bytes,
			    a->len))
		wc->status = IBV_WC_LOC_PROT_ERR;
	return true;
}

static void deliver_wq(struct soft_dev *dev, struct soft_wq *wq, uint8_t port,
		       const uint8_t *frame, uint32_t len)
{
	const struct soft_rwqe *wqe = wq->rq.head == wq->rq.tail ? NULL :
				      &wq->rq.wqe[wq->rq.head & wq->rq.mask];
	struct arrival a;
	struct ibv_wc wc;

	if (wq->ibv.state != IBV_WQS_RDY)
		return;
	prepare(&a, frame, len, wq->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING,
		wq->flags & IBV_WQ_FLAGS_SCATTER_FCS);
	if (!scatter(dev, port, wq->ibv.pd, wqe, &a, &wc))
		return;
	soft_wq_complete(dev, wq, &wc);
	if (wc.status)
		soft_wq_fatal(dev, wq);
}

static void deliver_qp(struct soft_dev *dev, struct soft_qp *qp,
		       const uint8_t *frame, uint32_t len)
{
	struct arrival a;
	struct ibv_wc wc;

	if (!soft_can_receive(qp))
		return;
	prepare(&a, frame, len,
		qp->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING,
		qp->create_flags & IBV_QP_CREATE_SCATTER_FCS);
	if (!scatter(dev, qp->attr.port_num, qp->recv_pd, soft_receive(qp), &a,
		     &wc))
		return;
	soft_rq_complete(dev, qp, &wc, false);
	if (wc.status)
		soft_qp_error(dev, qp);
}

static void deliver(struct soft_dev *dev, const struct soft_flow *flow,
		    const uint8_t *frame, uint32_t len)
{
	struct soft_qp *qp = flow->qp;

	if (unlikely(dev->faulty) && !soft_port_carries(dev, flow->port))
		return;
	if (qp->rss)
		deliver_wq(dev, soft_rss_choose(qp->rss, frame, len),
			   flow->port, frame, len);
	else
		deliver_qp(dev, qp, frame, len);
}

void soft_eth_arrives(struct soft_dev *dev, struct soft_wire *w,
		      const struct soft_rec *rec, const void *payload)
{
	uint8_t frame[FRAME_MAX];

	if (rec->total < FRAME_HEADER || rec->total > FRAME_MAX ||
	    rec->bytes != rec->total) {
		w->rx.broken = true;
		return;
	}
	/* copy once, because the peer can change the ring after a check */
	memcpy(frame, payload, rec->total);
	if (list_empty(&dev->flows))
		return;
	soft_flow_match(dev, frame, rec->total, deliver);
}
