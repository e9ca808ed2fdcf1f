/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: requests become packets, and answers end requests. A request
 * stays in the send queue until it is answered, so that a packet that was lost
 * is made again from it.
 */
#include "soft/transport/far.h"

#include <endian.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "soft/fabric/count.h"
#include "soft/verbs/access.h"
#include "soft/verbs/qp.h"

#define ASK_EVERY	16u	/* packets; an answer is asked for */
#define PART		16u	/* most packets of the answer to a request */

/* ---- sending ---------------------------------------------------------- */

static uint32_t unanswered(const struct soft_far *far)
{
	return (far->next - far->qp->una) & SOFT_PSN_MASK;
}

/* Returns true if the window does not permit n more, which one always has. */
static bool is_full(struct soft_far *far, uint32_t n)
{
	const uint32_t out = unanswered(far);
	const bool ret = out && out + n > soft_window_psns(far);

	far->full |= ret;
	return ret;
}

static void sent(struct soft_dev *dev, struct soft_far *far, uint32_t psn,
		 uint32_t n, bool ack)
{
	if (ack)
		soft_window_sent(far, (psn + n - 1) & SOFT_PSN_MASK);
	if (soft_far_before(psn, far->end))
		dev->packets.retransmits++;
	far->next = (psn + n) & SOFT_PSN_MASK;
	if (soft_far_before(far->end, far->next))
		far->end = far->next;
	if (list_empty(&far->timer.node))
		soft_timer_set(dev, &far->timer, soft_window_wait(far));
}

static uint8_t opcode_of(const struct soft_swqe *wqe, bool first, bool last)
{
	const bool imm = wqe->op == IBV_WR_SEND_WITH_IMM ||
			 wqe->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	const bool write = wqe->op == IBV_WR_RDMA_WRITE ||
			   wqe->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	const uint8_t kind = write ? PACKET_WRITE_FIRST : PACKET_SEND_FIRST;

	if (last && wqe->op == IBV_WR_SEND_WITH_INV)
		return first ? PACKET_SEND_ONLY_INV : PACKET_SEND_LAST_INV;
	/* first, middle, last, last with immediate data, only, likewise */
	return (uint8_t)(kind + (!last ? !first : first ? 4 + imm : 2 + imm));
}

/* Returns 0 or -EACCES. */
static int put_payload(struct soft_qp *qp, const struct soft_swqe *wqe,
		       uint8_t *at, uint32_t n)
{
	int err = 0;

	if (wqe->inlined)
		memcpy(at, wqe->data + wqe->sent, n);
	else
		err = soft_gather(qp, wqe->sge, wqe->num_sge, wqe->sent, at,
				  n);
	memset(at + n, 0, 4);		/* the padding */
	return err;
}

/* A key to invalidate is in host order, and immediate data is not. */
static uint32_t imm_of(const struct soft_swqe *wqe)
{
	return wqe->op == IBV_WR_SEND_WITH_INV ? htobe32(wqe->imm) : wqe->imm;
}

/* Sends the packets of a SEND or WRITE. Returns true after the last one. */
static bool push_data(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_swqe *wqe)
{
	struct soft_far *far = qp->far;
	bool last;

	do {
		const uint32_t n = min(wqe->length - wqe->sent, far->mtu);
		const uint32_t psn = (wqe->psn + wqe->sent / far->mtu) &
				     SOFT_PSN_MASK;
		struct packet p = { .dst = qp->attr.dest_qp_num, .psn = psn,
				    .addr = wqe->raddr, .rkey = wqe->rkey,
				    .length = wqe->length,
				    .imm = imm_of(wqe), .bytes = n };
		uint8_t *at;
		uint32_t head;

		if (is_full(far, 1))
			return false;
		at = soft_net_room(dev);
		if (!at)
			return false;
		last = wqe->sent + n == wqe->length;
		p.opcode = opcode_of(wqe, !wqe->sent, last);
		p.solicited = last && wqe->flags & IBV_SEND_SOLICITED;
		p.ack = last || !(psn % ASK_EVERY) ||
			unanswered(far) + 1 >= soft_window_psns(far);
		head = packet_put(&p, at);
		if (put_payload(qp, wqe, at + head, n)) {
			wqe->status = IBV_WC_LOC_PROT_ERR;
			return true;
		}
		soft_net_put(dev, &far->path, head + n + p.pad);
		soft_count_xmit(dev, qp->attr.port_num, n);
		wqe->sent += n;
		sent(dev, far, psn, 1, p.ack);
	} while (!last);
	return true;
}

/* Packets of the answer that have arrived. */
static uint32_t arrived(const struct soft_far *far, const struct soft_swqe *wqe)
{
	return wqe->sent / far->mtu;
}

/* Requests for parts of a read, or for an atomic, that are not answered. */
static uint32_t parts_out(const struct soft_far *far,
			  const struct soft_swqe *wqe)
{
	const uint32_t have = arrived(far, wqe);

	return wqe->done || wqe->asked <= have ? 0 :
	       (wqe->asked - 1) / wqe->part - have / wqe->part + 1;
}

/* Changes what is asked for of a read or an atomic. */
static void set_asked(struct soft_qp *qp, struct soft_swqe *wqe, uint32_t to)
{
	qp->reads_out -= parts_out(qp->far, wqe);
	wqe->asked = to;
	qp->reads_out += parts_out(qp->far, wqe);
}

/* The answer has n packets. */
static bool may_ask(const struct soft_qp *qp, uint32_t n)
{
	return qp->reads_out < max(qp->attr.max_rd_atomic, 1) &&
	       !is_full(qp->far, n);
}

/* Returns how many packets a part has: a power of 2, half a window at most. */
static uint8_t part_of(const struct soft_far *far)
{
	uint32_t part = PART;

	while (part > 1 && 2 * part > soft_window_psns(far))
		part /= 2;
	return (uint8_t)part;
}

/*
 * Asks for parts of a read. What is asked for again after a loss is the rest of
 * a part, because Soft-RoCE answers no request that spans two earlier ones.
 * Returns true if all of the read is asked for.
 */
static bool push_read(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_swqe *wqe)
{
	struct soft_far *far = qp->far;

	if (!wqe->part)
		wqe->part = part_of(far);
	while (!wqe->done && wqe->asked != wqe->packets) {
		const uint32_t at = wqe->asked * far->mtu;
		const uint32_t n = min(wqe->part - wqe->asked % wqe->part,
				       wqe->packets - wqe->asked);
		struct packet p = { .opcode = PACKET_READ, .ack = true,
				    .dst = qp->attr.dest_qp_num,
				    .rkey = wqe->rkey,
				    .psn = (wqe->psn + wqe->asked) &
					   SOFT_PSN_MASK,
				    .addr = wqe->raddr + at,
				    .length = min(wqe->length - at,
						  n * far->mtu) };
		uint8_t *to = may_ask(qp, n) ? soft_net_room(dev) : NULL;

		if (!to)
			return false;
		soft_net_put(dev, &far->path, packet_put(&p, to));
		soft_count_xmit(dev, qp->attr.port_num, 0);
		set_asked(qp, wqe, wqe->asked + n);
		sent(dev, far, p.psn, n, true);
	}
	return true;
}

static bool push_atomic(struct soft_dev *dev, struct soft_qp *qp,
			struct soft_swqe *wqe)
{
	struct soft_far *far = qp->far;
	const bool cas = wqe->op == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct packet p = { .opcode = cas ? PACKET_CAS : PACKET_FAA,
			    .ack = true, .dst = qp->attr.dest_qp_num,
			    .psn = wqe->psn, .addr = wqe->raddr,
			    .rkey = wqe->rkey,
			    .swap = cas ? wqe->swap : wqe->compare_add,
			    .compare = cas ? wqe->compare_add : 0 };
	uint8_t *at;

	if (wqe->done)
		return true;
	if (wqe->op == SOFT_WR_MASKED) {
		wqe->status = IBV_WC_REM_INV_REQ_ERR;	/* no such packet */
		return true;
	}
	at = may_ask(qp, 1) ? soft_net_room(dev) : NULL;
	if (!at)
		return false;
	soft_net_put(dev, &far->path, packet_put(&p, at));
	soft_count_xmit(dev, qp->attr.port_num, 16);
	wqe->part = 1;
	set_asked(qp, wqe, 1);
	sent(dev, far, p.psn, 1, true);
	return true;
}

bool soft_far_push(struct soft_dev *dev, struct soft_qp *qp,
		   struct soft_swqe *wqe)
{
	if (unlikely(!qp->far->asks)) {
		qp->far->asks = true;
		qp->far->next = qp->far->end = qp->una;
	}
	return wqe->op == IBV_WR_RDMA_READ ? push_read(dev, qp, wqe) :
	       is_read(wqe) ? push_atomic(dev, qp, wqe) :
	       push_data(dev, qp, wqe);
}

/* ---- going back ------------------------------------------------------- */

/* Returns the index of the request that has the PSN, or of the next one. */
static uint32_t index_of(struct soft_qp *qp, uint32_t psn)
{
	uint32_t i = qp->sq_head;

	for (; i != qp->sq_next; i++) {
		const struct soft_swqe *wqe = wqe_at(qp, i);

		if (!is_local(wqe) && !soft_far_before(soft_last_psn(wqe), psn))
			break;
	}
	return i;
}

/* Takes a request back, so that it goes out again from the PSN on. */
static void take_back(struct soft_qp *qp, struct soft_swqe *wqe, uint32_t psn)
{
	const struct soft_far *far = qp->far;

	if (is_local(wqe) || wqe->done)
		return;
	if (is_read(wqe)) {
		set_asked(qp, wqe, arrived(far, wqe));
		/* smaller parts lie within the ones before */
		wqe->part = min(wqe->part, part_of(far));
	} else {
		wqe->sent = soft_far_before(wqe->psn, psn) ?
			    ((psn - wqe->psn) & SOFT_PSN_MASK) * far->mtu : 0;
	}
	wqe->started = false;
}

/* Sends again from the PSN on, which is not before una. */
static void go_back(struct soft_dev *dev, struct soft_far *far, uint32_t psn)
{
	struct soft_qp *qp = far->qp;
	const uint32_t i = index_of(qp, psn);

	for (uint32_t at = i; at != qp->sq_tail && at != qp->sq_next + 1; at++)
		take_back(qp, wqe_at(qp, at), psn);
	qp->sq_next = i;
	far->next = psn;
	far->timing = false;
	soft_qp_pend(dev, qp);
}

/* ---- the timer -------------------------------------------------------- */

static bool is_over(const struct soft_far *far)
{
	const struct soft_qp *qp = far->qp;

	return qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD;
}

static void run_timer(struct soft_dev *dev, struct soft_far *far)
{
	soft_timer_stop(&far->timer);
	if (unanswered(far))
		soft_timer_set(dev, &far->timer, soft_window_wait(far));
}

/*
 * A packet goes out again as soon as its answer is late, which is long before
 * the ack timeout ends. Each ack timeout without progress uses up a retry.
 */
void soft_far_timer(struct soft_dev *dev, struct soft_timer *t)
{
	struct soft_far *far = list_entry(t, struct soft_far, timer);
	struct soft_qp *qp = far->qp;
	const uint64_t all = 4096ull << qp->attr.timeout;

	if (is_over(far) || !unanswered(far))
		return;
	soft_count(dev, qp->attr.port_num, SOFT_ACK_TIMEOUTS, 1);
	far->waited += soft_window_wait(far);
	far->timeouts++;
	if (qp->attr.timeout && far->waited >= all) {
		far->waited = 0;
		if (!qp->retries--) {
			soft_req_fail(dev, qp, index_of(qp, qp->una),
				      IBV_WC_RETRY_EXC_ERR);
			return;
		}
	}
	soft_window_lost(far, true);
	go_back(dev, far, qp->una);
	soft_timer_set(dev, &far->timer, soft_window_wait(far));
	soft_req_push(dev, qp);
}

/* ---- answers ---------------------------------------------------------- */

/*
 * Returns the PSN up to which an acknowledgement of all before 'to' holds. A
 * read ends with its answer only, which may have come before others.
 */
static uint32_t up_to(struct soft_qp *qp, uint32_t to)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		const struct soft_swqe *wqe = wqe_at(qp, i);
		uint32_t have;

		if (is_local(wqe))
			continue;
		if (soft_far_before(to, wqe->psn))
			break;
		if (is_read(wqe) && wqe->done) {
			have = (soft_last_psn(wqe) + 1) & SOFT_PSN_MASK;
			if (soft_far_before(to, have))
				to = have;
			continue;
		}
		if (wqe->psn == to)
			break;
		have = (wqe->psn + arrived(qp->far, wqe)) & SOFT_PSN_MASK;
		if (is_read(wqe) && soft_far_before(have, to))
			return have;
	}
	return to;
}

/*
 * The answer to what was sent before going back has come after all: goes on
 * with what is behind it.
 */
static void skip_to(struct soft_far *far, uint32_t to)
{
	struct soft_qp *qp = far->qp;
	struct soft_swqe *wqe = wqe_at(qp, qp->sq_next);

	while (qp->sq_next != qp->sq_tail &&
	       (is_local(wqe) ? wqe->done :
		soft_far_before(soft_last_psn(wqe), to))) {
		wqe->sent = wqe->length;
		wqe->started = true;
		wqe = wqe_at(qp, ++qp->sq_next);
	}
	if (qp->sq_next != qp->sq_tail && !is_local(wqe) && !is_read(wqe) &&
	    soft_far_before(wqe->psn, to))
		wqe->sent = ((to - wqe->psn) & SOFT_PSN_MASK) * far->mtu;
	far->next = to;
}

/* All before 'to' is answered. Ends the requests that this completes. */
static void advance(struct soft_dev *dev, struct soft_far *far, uint32_t to)
{
	struct soft_qp *qp = far->qp;
	const uint32_t n = (to - qp->una) & SOFT_PSN_MASK;

	if (!n)
		return;
	soft_window_answered(far, to, n);
	qp->una = to;
	if (soft_far_before(far->next, to)) {
		soft_window_not_lost(far);
		skip_to(far, to);
	}
	qp->retries = qp->attr.retry_cnt;
	soft_req_complete(dev, qp);
	run_timer(dev, far);
	if (qp->sq_next != qp->sq_tail)
		soft_qp_pend(dev, qp);
}

/* The answer to a read is missing, although something behind it has come. */
static void ask_again(struct soft_dev *dev, struct soft_far *far)
{
	if (far->asked_again)
		return;
	far->asked_again = true;
	soft_window_lost(far, false);
	go_back(dev, far, far->qp->una);
}

static void acknowledged(struct soft_dev *dev, struct soft_far *far,
			 uint32_t to)
{
	const uint32_t holds = up_to(far->qp, to);

	if (soft_far_before(far->qp->una, holds))
		advance(dev, far, holds);
	if (soft_far_before(holds, to) && !is_over(far))
		ask_again(dev, far);
}

static const enum ibv_wc_status nak_status[] = {
	[PACKET_NAK_INVALID] = IBV_WC_REM_INV_REQ_ERR,
	[PACKET_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
	[PACKET_NAK_OP] = IBV_WC_REM_OP_ERR,
};

static void refused(struct soft_dev *dev, struct soft_far *far,
		    const struct packet *p)
{
	struct soft_qp *qp = far->qp;
	const uint8_t code = p->syndrome & (uint8_t)~PACKET_SYNDROME;
	const bool rnr = (p->syndrome & PACKET_SYNDROME) == PACKET_RNR;
	uint32_t i;

	dev->packets.naks_received += !rnr;
	acknowledged(dev, far, p->psn);
	/* an earlier read has to end first */
	if (is_over(far) || qp->una != p->psn || qp->sq_head == qp->sq_tail)
		return;
	/* a doubled one says nothing new: all behind it is taken back */
	if (!unanswered(far) && (code == PACKET_NAK_PSN || rnr))
		return;
	if (rnr) {
		far->waited = 0;
		far->timeouts = 0;
		go_back(dev, far, p->psn);
		soft_timer_stop(&far->timer);
		soft_req_rnr(dev, qp, index_of(qp, p->psn), code & 31);
		return;
	}
	if (code == PACKET_NAK_PSN) {
		soft_window_lost(far, false);
		go_back(dev, far, p->psn);
		run_timer(dev, far);
		return;
	}
	i = index_of(qp, p->psn);
	soft_req_fail(dev, qp, i, code < sizeof(nak_status) /
		      sizeof(*nak_status) ? nak_status[code] :
		      IBV_WC_REM_OP_ERR);
}

/* Returns the request that the packet of an answer is for, or NULL. */
static struct soft_swqe *asker(struct soft_qp *qp, uint32_t psn)
{
	const uint32_t i = index_of(qp, psn);
	struct soft_swqe *wqe;

	if (i == qp->sq_tail)
		return NULL;
	wqe = wqe_at(qp, i);
	return is_local(wqe) || !is_read(wqe) || wqe->done ||
	       ((psn - wqe->psn) & SOFT_PSN_MASK) >= wqe->packets ? NULL : wqe;
}

static void take_answer(struct soft_dev *dev, struct soft_far *far,
			const struct packet *p)
{
	struct soft_qp *qp = far->qp;
	struct soft_swqe *wqe;
	const bool atomic = p->flags & PACKET_F_ATOMIC_ACK;
	uint32_t at;

	/* it acknowledges what came before */
	acknowledged(dev, far, p->psn);
	if (is_over(far))
		return;
	wqe = asker(qp, p->psn);
	if (!wqe || atomic != (wqe->op != IBV_WR_RDMA_READ))
		return;
	at = (p->psn - wqe->psn) & SOFT_PSN_MASK;
	if (at != arrived(far, wqe)) {
		if (at > arrived(far, wqe))
			ask_again(dev, far);
		return;
	}
	if (p->bytes != (atomic ? 0 : min(wqe->length - wqe->sent, far->mtu)) ||
	    soft_scatter(qp, wqe->sge, wqe->num_sge, wqe->sent,
			 atomic ? (const void *)&p->value : p->payload,
			 atomic ? 8 : p->bytes)) {
		soft_req_fail(dev, qp, index_of(qp, p->psn),
			      p->bytes ? IBV_WC_LOC_PROT_ERR :
			      IBV_WC_BAD_RESP_ERR);
		return;
	}
	far->asked_again = false;
	qp->reads_out -= parts_out(far, wqe);
	wqe->sent += atomic ? 8 : p->bytes;
	wqe->done = wqe->sent == wqe->length;
	/* it may be the answer to what was asked before going back */
	wqe->asked = max(wqe->asked, arrived(far, wqe));
	qp->reads_out += parts_out(far, wqe);
	/* an earlier read may still miss a packet */
	acknowledged(dev, far, (p->psn + 1) & SOFT_PSN_MASK);
}

void soft_far_answered(struct soft_dev *dev, struct soft_far *far,
		       const struct packet *p)
{
	struct soft_qp *qp = far->qp;
	const uint32_t at = (p->psn - qp->una) & SOFT_PSN_MASK;

	/* without a request, an answer is of an earlier connection */
	if (is_over(far) || !far->asks ||
	    at >= ((far->end - qp->una) & SOFT_PSN_MASK))
		return;
	if ((p->opcode & PACKET_OP) != PACKET_ACK)
		take_answer(dev, far, p);
	else if ((p->syndrome & PACKET_SYNDROME) == PACKET_ACKS)
		acknowledged(dev, far, (p->psn + 1) & SOFT_PSN_MASK);
	else if ((p->syndrome & 0x80) == 0)
		refused(dev, far, p);
}
