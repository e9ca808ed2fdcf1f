/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: puts packets in order, and gives each to engine/resp.c as a
 * record that executes its part of the request. Answers go out as the records'
 * do: reads in order, then one acknowledgement or the NAK.
 */
#include "soft/transport/far.h"

#include <endian.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/resp.h"
#include "soft/fabric/count.h"
#include "soft/fabric/rec.h"
#include "soft/verbs/access.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/qp.h"

#define BURST	256u	/* packets of reads in one turn */

static bool is_write(uint8_t op)
{
	return op >= PACKET_WRITE_FIRST && op <= PACKET_WRITE_ONLY_IMM;
}

static bool is_atomic(uint8_t op)
{
	return op == PACKET_CAS || op == PACKET_FAA;
}

static void acknowledge(struct soft_dev *dev, struct soft_qp *qp)
{
	qp->ack_due = true;
	soft_qp_pend(dev, qp);
}

static void refuse_order(struct soft_dev *dev, struct soft_far *far)
{
	struct soft_qp *qp = far->qp;

	soft_count(dev, qp->attr.port_num, SOFT_DISORDER, 1);
	if (far->nak_sent || qp->dropping)
		return;
	far->nak_sent = true;
	far->gap = true;
	acknowledge(dev, qp);
}

/* ---- records ---------------------------------------------------------- */

/* Returns false if this packet cannot follow the ones before. */
static bool follows(const struct soft_far *far, const struct packet *p)
{
	const uint8_t op = p->opcode & PACKET_OP;
	const uint8_t kind = op == PACKET_READ || is_atomic(op) ? FAR_NONE :
			     is_write(op) ? FAR_WRITE : FAR_SEND;

	return p->flags & PACKET_F_FIRST ? far->in == FAR_NONE :
	       far->in == kind;
}

/* Fills the record of a SEND or WRITE. Returns false if it makes no sense. */
static bool fill_data(struct soft_far *far, const struct packet *p,
		      struct soft_rec *rec)
{
	const bool last = p->flags & PACKET_F_LAST;
	const uint8_t op = p->opcode & PACKET_OP;

	/* only the last packet is shorter, and none but an only one empty */
	if ((!last && p->bytes != far->mtu) || p->bytes > far->mtu ||
	    (last && !p->bytes && !(p->flags & PACKET_F_FIRST)))
		return false;
	if (p->flags & PACKET_F_FIRST)
		far->offset = 0;
	if (p->flags & PACKET_F_RETH) {
		far->addr = p->addr;
		far->rkey = p->rkey;
		far->total = p->length;
	}
	rec->op = is_write(op) ? SOFT_WRITE : SOFT_SEND;
	rec->offset = far->offset;
	rec->bytes = p->bytes;
	/* a SEND does not tell its length: at least one byte will follow */
	rec->total = is_write(op) ? far->total :
		     far->offset + p->bytes + !last;
	rec->raddr = far->addr;
	rec->rkey = far->rkey;
	if (op == PACKET_SEND_LAST_INV || op == PACKET_SEND_ONLY_INV) {
		rec->flags |= SOFT_F_INV;
		rec->imm = be32toh(p->imm);
	} else if (p->flags & PACKET_F_IMM) {
		rec->flags |= SOFT_F_IMM;
		rec->imm = p->imm;
	}
	if (last)
		rec->flags |= SOFT_F_LAST;
	return true;
}

static void fill_read(const struct packet *p, struct soft_rec *rec,
		      uint64_t operands[2])
{
	const uint8_t op = p->opcode & PACKET_OP;

	rec->op = op == PACKET_READ ? SOFT_READ :
		  op == PACKET_CAS ? SOFT_CAS : SOFT_FAA;
	rec->flags |= SOFT_F_LAST;
	rec->raddr = p->addr;
	rec->rkey = p->rkey;
	rec->total = op == PACKET_READ ? p->length : 8;
	if (op == PACKET_READ)
		return;
	rec->bytes = 2 * sizeof(operands[0]);
	operands[0] = op == PACKET_CAS ? p->compare : p->swap;
	operands[1] = p->swap;
}

/* Returns how many packets the answer to a read of this length has. */
static uint32_t packets_of(const struct soft_far *far, uint32_t length)
{
	return max((length + far->mtu - 1) / far->mtu, 1u);
}

static void run(struct soft_dev *dev, struct soft_far *far,
		const struct packet *p, struct soft_rec *rec,
		const void *payload)
{
	struct soft_qp *qp = far->qp;

	rec->psn = p->psn;
	rec->src = qp->attr.dest_qp_num;
	rec->dst = qp->ibv.qp_num;
	rec->flags |= p->solicited ? SOFT_F_SOLICITED : 0;
	qp->epsn = p->psn;
	qp->offset = rec->offset;
	soft_resp_request(dev, qp, rec, payload);
	soft_count_rcv(dev, qp->attr.port_num, p->bytes);
}

static void execute(struct soft_dev *dev, struct soft_far *far,
		    const struct packet *p)
{
	const uint8_t op = p->opcode & PACKET_OP;
	const bool data = p->flags & PACKET_F_DATA;
	struct soft_qp *qp = far->qp;
	uint64_t operands[2];
	struct soft_rec rec = { .code = 0 };
	bool ok = follows(far, p);

	if (data)
		ok = ok && fill_data(far, p, &rec);
	else
		fill_read(p, &rec, operands);
	if (!ok) {
		qp->epsn = p->psn;
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	run(dev, far, p, &rec, data ? (const void *)p->payload : operands);
	if (qp->dropping || !soft_can_receive(qp))
		return;			/* refused, perhaps for a while only */
	far->epsn = (p->psn + (op == PACKET_READ ?
			       packets_of(far, p->length) : 1)) & SOFT_PSN_MASK;
	far->offset += p->bytes;
	far->in = p->flags & PACKET_F_LAST ? FAR_NONE :
		  is_write(op) ? FAR_WRITE : FAR_SEND;
	if (p->flags & PACKET_F_LAST)
		far->msn = (far->msn + 1) & SOFT_PSN_MASK;
	if (p->ack)
		acknowledge(dev, qp);
}

/* ---- duplicates ------------------------------------------------------- */

/* The answer of an atomic is kept, because it must not run twice. */
static void repeat_atomic(struct soft_dev *dev, struct soft_far *far,
			  const struct packet *p)
{
	struct soft_qp *qp = far->qp;

	for (uint32_t i = 0; i < SOFT_MAX_RD; i++) {
		struct soft_rd *rd = &qp->rd[i];

		if (!rd->known || !rd->atomic || rd->psn != p->psn)
			continue;
		rd->again = true;
		far->repeats = true;
		soft_qp_pend(dev, qp);
		return;
	}
}

/* Returns the PSN of the next packet that answers a read. */
static uint32_t next_psn(const struct soft_far *far, const struct soft_rd *rd)
{
	return (rd->psn + rd->sent / far->mtu) & SOFT_PSN_MASK;
}

/* Returns true if that packet, or one behind it, has this PSN. */
static bool will_send(const struct soft_far *far, const struct soft_rd *rd,
		      uint32_t psn)
{
	const uint32_t end = rd->psn + packets_of(far, rd->total);

	return !soft_far_before(psn, next_psn(far, rd)) &&
	       soft_far_before(psn, end & SOFT_PSN_MASK);
}

/*
 * Returns true if an answer that is not complete has this PSN. The oldest one
 * goes back to it, as long as it occupies an entry of rd[]: the peer needs no
 * other answer before it sends the next read.
 */
static bool is_pending(struct soft_far *far, uint32_t psn)
{
	struct soft_qp *qp = far->qp;

	for (uint32_t i = qp->rd_head; i != qp->rd_tail; i++) {
		struct soft_rd *rd = &qp->rd[i % SOFT_MAX_RD];
		const uint32_t at = (psn - rd->psn) & SOFT_PSN_MASK;

		if (at >= packets_of(far, rd->total))
			continue;
		rd->sent = min(rd->sent, at * far->mtu);
		return true;
	}
	for (uint32_t i = far->redo_head; i != far->redo_tail; i++)
		if (will_send(far, &far->redo[i % SOFT_MAX_RD], psn))
			return true;
	return false;
}

/*
 * A read runs again from where the peer misses it. A packet that a network has
 * doubled or delayed may be of a read that ended long ago, with its memory. It
 * takes no entry of rd[], where the results of atomics are kept.
 */
static void repeat_read(struct soft_dev *dev, struct soft_far *far,
			const struct packet *p)
{
	struct soft_qp *qp = far->qp;
	const struct ibv_pd *pd = &qp->pd->ibv;
	struct soft_rd *rd;
	bool parts;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
	    p->length > SOFT_MAX_MSG ||
	    packets_of(far, p->length) >
	    ((far->epsn - p->psn) & SOFT_PSN_MASK) || is_pending(far, p->psn))
		return;
	parts = p->length && !soft_remote_at(dev, qp, pd, p->rkey, p->addr,
					     p->length, IBV_ACCESS_REMOTE_READ);
	if (parts && !soft_layout_of(dev, pd, p->rkey, p->addr, p->length,
				     IBV_ACCESS_REMOTE_READ))
		return;
	/* the peer has gone back: what is behind will be asked for again */
	while (far->redo_tail != far->redo_head &&
	       !soft_far_before(far->redo[(far->redo_tail - 1) %
					  SOFT_MAX_RD].psn, p->psn))
		far->redo_tail--;
	if (far->redo_tail - far->redo_head == SOFT_MAX_RD)
		return;
	rd = &far->redo[far->redo_tail++ % SOFT_MAX_RD];
	*rd = (struct soft_rd){
		.psn = p->psn, .src_rkey = p->rkey, .total = p->length,
		.raddr = p->addr, .pd = pd, .parts = parts,
	};
	soft_qp_pend(dev, qp);
}

static void repeat(struct soft_dev *dev, struct soft_far *far,
		   const struct packet *p)
{
	const uint8_t op = p->opcode & PACKET_OP;

	soft_count(dev, far->qp->attr.port_num, SOFT_DUPLICATES, 1);
	dev->packets.duplicates++;
	if (op == PACKET_READ)
		repeat_read(dev, far, p);
	else if (is_atomic(op))
		repeat_atomic(dev, far, p);
	else
		acknowledge(dev, far->qp);
}

void soft_far_request(struct soft_dev *dev, struct soft_far *far,
		      const struct packet *p)
{
	struct soft_qp *qp = far->qp;

	if (unlikely(!far->hears)) {
		far->hears = true;
		far->epsn = qp->epsn;
	}
	if (likely(p->psn == far->epsn)) {
		far->nak_sent = false;
		execute(dev, far, p);
	} else if (soft_far_before(p->psn, far->epsn)) {
		repeat(dev, far, p);
	} else {
		refuse_order(dev, far);
	}
}

/* ---- answers ---------------------------------------------------------- */

static bool put(struct soft_dev *dev, struct soft_far *far, struct packet *p)
{
	uint8_t *at = soft_net_room(dev);

	if (!at)
		return false;
	p->dst = far->qp->attr.dest_qp_num;
	p->msn = far->msn;
	soft_net_put(dev, &far->path, packet_put(p, at));
	return true;
}

static bool put_atomic(struct soft_dev *dev, struct soft_far *far,
		       const struct soft_rd *rd)
{
	struct packet p = { .opcode = PACKET_ATOMIC_ACK, .psn = rd->psn,
			    .syndrome = PACKET_NO_CREDITS,
			    .value = rd->value[0] };

	return put(dev, far, &p);
}

/* Copies the next n bytes of a read. Returns false if its memory is gone. */
static bool copy_read(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rd *rd, uint8_t *to, uint32_t n)
{
	const struct soft_mr *mr;
	const uint8_t *at;

	if (!rd->total)
		return true;
	if (rd->parts) {
		mr = soft_layout_of(dev, rd->pd, rd->src_rkey, rd->raddr,
				    rd->total, IBV_ACCESS_REMOTE_READ);
		return mr && !soft_layout_read(dev, mr, rd->raddr + rd->sent,
					       to, n);
	}
	at = soft_remote_at(dev, qp, rd->pd, rd->src_rkey, rd->raddr,
			    rd->total, IBV_ACCESS_REMOTE_READ);
	if (!at)
		return false;
	memcpy(to, at + rd->sent, n);
	return true;
}

enum put { PUT_MORE, PUT_ALL, PUT_NO_ROOM, PUT_NO_MEMORY };

/* Sends the next packet of a read. */
static enum put put_read(struct soft_dev *dev, struct soft_far *far,
			 struct soft_rd *rd)
{
	struct soft_qp *qp = far->qp;
	const uint32_t n = min(rd->total - rd->sent, far->mtu);
	const bool first = !rd->sent, last = rd->sent + n == rd->total;
	struct packet p = { .opcode = last ? first ? PACKET_READ_ONLY :
					    PACKET_READ_LAST :
					    first ? PACKET_READ_FIRST :
					    PACKET_READ_MIDDLE,
			    .dst = qp->attr.dest_qp_num,
			    .psn = next_psn(far, rd),
			    .syndrome = PACKET_NO_CREDITS, .msn = far->msn,
			    .bytes = n };
	uint8_t *at = soft_net_room(dev);
	uint32_t head;

	if (!at)
		return PUT_NO_ROOM;
	head = packet_put(&p, at);
	memset(at + head + n, 0, 4);
	if (!copy_read(dev, qp, rd, at + head, n))
		return PUT_NO_MEMORY;
	soft_net_put(dev, &far->path, head + n + p.pad);
	soft_count_xmit(dev, qp->attr.port_num, n);
	rd->sent += n;
	return last ? PUT_ALL : PUT_MORE;
}

/* Sends the answer to the oldest read or atomic. Returns false without room. */
static bool put_oldest(struct soft_dev *dev, struct soft_far *far)
{
	struct soft_qp *qp = far->qp;
	struct soft_rd *rd = &qp->rd[qp->rd_head % SOFT_MAX_RD];
	uint32_t psn;

	if (rd->atomic) {
		if (!put_atomic(dev, far, rd))
			return false;
		qp->rd_head++;
		return true;
	}
	psn = next_psn(far, rd);
	switch (put_read(dev, far, rd)) {
	case PUT_NO_ROOM:
		return false;
	case PUT_NO_MEMORY:
		qp->rd_head = qp->rd_tail;
		soft_refuse(dev, qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		qp->nak_psn = psn;
		break;
	case PUT_ALL:
		qp->rd_head++;
		break;
	default:
		break;
	}
	return true;
}

/* Answers reads, for a while. Returns false if there is no room. */
static bool put_reads(struct soft_dev *dev, struct soft_far *far)
{
	struct soft_qp *qp = far->qp;
	uint32_t left = BURST;

	for (; far->redo_head != far->redo_tail && left; left--) {
		const enum put put = put_read(dev, far, &far->redo[
				far->redo_head % SOFT_MAX_RD]);

		if (put == PUT_NO_ROOM)
			return false;
		far->redo_head += put != PUT_MORE;
	}
	for (; qp->rd_head != qp->rd_tail && left; left--)
		if (!put_oldest(dev, far))
			return false;
	return true;
}

static bool put_repeats(struct soft_dev *dev, struct soft_far *far)
{
	for (uint32_t i = 0; far->repeats && i < SOFT_MAX_RD; i++) {
		struct soft_rd *rd = &far->qp->rd[i];

		if (rd->again && !put_atomic(dev, far, rd))
			return false;
		rd->again = false;
	}
	far->repeats = false;
	return true;
}

static uint8_t syndrome_of(const struct soft_qp *qp)
{
	switch (qp->nak_due) {
	case SOFT_NAK_RNR:
		return PACKET_RNR | (qp->nak_aux & 31);
	case SOFT_NAK_INV_REQ:
		return PACKET_NAK | PACKET_NAK_INVALID;
	case SOFT_NAK_ACCESS:
		return PACKET_NAK | PACKET_NAK_ACCESS;
	default:
		return PACKET_NAK | PACKET_NAK_OP;
	}
}

bool soft_far_answer(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_far *far = qp->far;
	struct packet p = { .opcode = PACKET_ACK,
			    .psn = (far->epsn - 1) & SOFT_PSN_MASK,
			    .syndrome = PACKET_NO_CREDITS };

	/* soft_far_room() pends it when there is room again */
	if (!put_reads(dev, far) || !put_repeats(dev, far))
		return true;
	/* others have their turn */
	if (qp->rd_head != qp->rd_tail || far->redo_head != far->redo_tail)
		return false;
	if (!qp->ack_due && !qp->nak_due)
		return true;
	if (qp->nak_due) {
		p.psn = qp->nak_psn;
		p.syndrome = syndrome_of(qp);
		dev->rnr.sent += qp->nak_due == SOFT_NAK_RNR;
		qp->rnr.sent += qp->nak_due == SOFT_NAK_RNR;
	} else if (far->gap) {
		p.psn = far->epsn;
		p.syndrome = PACKET_NAK | PACKET_NAK_PSN;
	}
	if (!put(dev, far, &p))
		return true;
	dev->packets.naks_sent += (p.syndrome & PACKET_SYNDROME) == PACKET_NAK;
	qp->ack_due = qp->ack_asked = far->gap = false;
	qp->nak_due = 0;
	return true;
}
