/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes requests as they arrive. The queue pair keeps due answers until
 * resp_push.c can push them.
 */
#include "soft/engine/resp.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/order.h"
#include "soft/engine/masked.h"
#include "soft/fabric/count.h"
#include "soft/fabric/memory.h"
#include "soft/fabric/vm.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/access.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"

static void nak(struct soft_dev *dev, struct soft_qp *qp, enum soft_nak code)
{
	qp->dropping = true;
	qp->in_message = qp->recv_taken = false;
	qp->offset = 0;
	if (qp->unreliable)
		return;
	qp->nak_due = (uint8_t)code;
	qp->nak_aux = qp->attr.min_rnr_timer;
	qp->nak_psn = qp->epsn;
	soft_qp_pend(dev, qp);
}

void soft_refuse(struct soft_dev *dev, struct soft_qp *qp,
		 enum soft_nak code, enum ibv_event_type event)
{
	nak(dev, qp, code);
	if (qp->unreliable)
		return;
	soft_qp_error(dev, qp);
	soft_async_qp(dev, qp, event);
}

/* Refuses a shown payload. soft_vm_fetch() has failed with err. */
static void nak_shown(struct soft_dev *dev, struct soft_qp *qp, int err)
{
	nak(dev, qp, err == -EFAULT ? SOFT_NAK_FAULT : SOFT_NAK_PUSH);
	qp->nak_aux = err == -EPERM;
}

static void recv_failed(struct soft_dev *dev, struct soft_qp *qp,
			enum ibv_wc_status status, enum soft_nak code)
{
	struct ibv_wc wc = { .status = status, .opcode = IBV_WC_RECV };

	/* UC drops a message that is too long, as rxe_responder() in Linux */
	if (qp->unreliable && status == IBV_WC_LOC_LEN_ERR) {
		nak(dev, qp, code);
		return;
	}
	soft_rq_complete(dev, qp, &wc, true);
	nak(dev, qp, code);
	soft_qp_error(dev, qp);
}

struct soft_rwqe *soft_receive(struct soft_qp *qp)
{
	struct soft_rq *rq = &qp->rq;

	if (qp->srq && rq->head == rq->tail)
		soft_srq_take(soft_dev_of(qp->ibv.context), qp);
	return rq->head == rq->tail ? NULL : &rq->wqe[rq->head & rq->mask];
}

static void done(struct soft_dev *dev, struct soft_qp *qp)
{
	qp->epsn = (qp->epsn + 1) & SOFT_PSN_MASK;
	qp->offset = 0;
	qp->in_message = qp->recv_taken = false;
	if (qp->unreliable)
		return;
	qp->ack_due = true;
	soft_qp_pend(dev, qp);
}

static void complete_recv(struct soft_dev *dev, struct soft_qp *qp,
			  const struct soft_rec *rec, enum ibv_wc_opcode op)
{
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS, .opcode = op, .byte_len = rec->total,
		.src_qp = rec->src, .pkey_index = qp->attr.pkey_index,
	};

	if (rec->flags & SOFT_F_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = rec->imm;
	}
	if (rec->flags & SOFT_F_INV) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = rec->imm;
	}
	soft_rq_complete(dev, qp, &wc, rec->flags & SOFT_F_SOLICITED);
}

/*
 * Takes a receive for the first segment of a message. If that fails, refuses
 * the message and returns false.
 */
static bool take_receive(struct soft_dev *dev, struct soft_qp *qp,
			 const struct soft_rec *rec)
{
	const struct soft_rwqe *wqe = soft_receive(qp);

	if (!wqe && unlikely(dev->iwarp)) {
		/* iWARP has no RNR: RFC 5041, 7.1, the stream ends */
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return false;
	}
	if (!wqe) {
		soft_count(dev, qp->attr.port_num, SOFT_NO_BUFFER, 1);
		nak(dev, qp, SOFT_NAK_RNR);
		return false;
	}
	qp->recv_taken = true;
	if (rec->op == SOFT_SEND && rec->total > wqe->length) {
		recv_failed(dev, qp, IBV_WC_LOC_LEN_ERR, SOFT_NAK_INV_REQ);
		return false;
	}
	return true;
}

static void on_send(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_rec *rec, const void *payload)
{
	const struct soft_rwqe *wqe;
	int err;

	if (!rec->offset && !take_receive(dev, qp, rec))
		return;
	wqe = soft_receive(qp);
	/* the packets of a far peer do not tell the length at first */
	if (wqe && unlikely(qp->far) && rec->total > wqe->length) {
		recv_failed(dev, qp, IBV_WC_LOC_LEN_ERR, SOFT_NAK_INV_REQ);
		return;
	}
	if (!wqe || rec->total > wqe->length) {
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (likely(rec->code != SOFT_SHOWN))
		err = soft_scatter_in(dev, qp->recv_pd, wqe->sge,
				      wqe->num_sge, rec->offset, payload,
				      rec->bytes);
	else
		err = soft_vm_scatter(dev, qp->recv_pd, wqe->sge,
				      wqe->num_sge, rec->offset, payload,
				      rec->bytes);
	if (err == -EACCES) {
		recv_failed(dev, qp, IBV_WC_LOC_PROT_ERR, SOFT_NAK_OP);
		return;
	}
	if (err) {
		nak_shown(dev, qp, err);
		return;
	}
	qp->offset += rec->bytes;
	if (!(rec->flags & SOFT_F_LAST))
		return;
	if (rec->flags & SOFT_F_INV && soft_mr_invalidate(dev, qp, rec->imm,
							   true)) {
		soft_refuse(dev, qp, SOFT_NAK_OP, IBV_EVENT_QP_ACCESS_ERR);
		return;
	}
	complete_recv(dev, qp, rec, IBV_WC_RECV);
	done(dev, qp);
}

/*
 * Returns the protection domain for the rkey of a request. For XRC this is the
 * domain of the shared receive queue that the request names.
 */
static const struct ibv_pd *remote_pd(const struct soft_dev *dev,
				      const struct soft_qp *qp,
				      const struct soft_rec *rec)
{
	const struct soft_srq *srq;

	if (likely(!qp->xrcd))
		return &qp->pd->ibv;
	srq = soft_srq_find(dev, rec->srqn);
	return srq && srq->xrcd && srq->xrcd->domain == qp->xrcd->domain ?
	       srq->ibv.pd : NULL;
}

static void *remote(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_rec *rec, uint32_t len, int access)
{
	void *at = soft_remote_at(dev, qp, remote_pd(dev, qp, rec), rec->rkey,
				  rec->raddr, len, access);

	if (!at)
		soft_refuse(dev, qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
	return at;
}

/*
 * Returns the memory of an atomic, which may be inside of one block of a
 * layout. Otherwise refuses the request and returns NULL.
 */
static void *operand_at(struct soft_dev *dev, struct soft_qp *qp,
			const struct soft_rec *rec, uint32_t len)
{
	const struct ibv_pd *pd = remote_pd(dev, qp, rec);
	void *at = soft_remote_at(dev, qp, pd, rec->rkey, rec->raddr, len,
				  IBV_ACCESS_REMOTE_ATOMIC);
	uint32_t block = len;

	if (unlikely(!at))
		at = soft_layout_block(dev, pd, rec->rkey, rec->raddr, &block,
				       IBV_ACCESS_REMOTE_ATOMIC);
	if (unlikely(!at || block < len)) {
		soft_refuse(dev, qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		return NULL;
	}
	/* an aligned address of a key may be memory that is not */
	if ((uintptr_t)at % len) {
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return NULL;
	}
	return at;
}

/*
 * Fetches a shown payload. If that fails, refuses the request and returns
 * false.
 */
static bool fetch(struct soft_dev *dev, struct soft_qp *qp,
		  const struct soft_rec *rec, const void *payload, void *at)
{
	int err = soft_vm_fetch(payload, at, rec->bytes);

	if (err == -EACCES)
		soft_refuse(dev, qp, SOFT_NAK_OP, IBV_EVENT_QP_ACCESS_ERR);
	else if (err)
		nak_shown(dev, qp, err);
	return !err;
}

#define PARTS	256u	/* of a shown payload; others are copied */

/* Fetches a shown payload into a layout. Returns false after a refusal. */
static bool fetch_parts(struct soft_dev *dev, struct soft_qp *qp,
			const struct soft_rec *rec, const void *payload,
			const struct soft_mr *mr)
{
	struct iovec parts[PARTS + 1];
	const uint32_t n = soft_layout_parts(dev, mr, rec->raddr + rec->offset,
					     rec->bytes,
					     IBV_ACCESS_REMOTE_WRITE, parts,
					     PARTS);
	int err = n > PARTS ? -EAGAIN : n ?
		  soft_vm_read(payload, parts, n, rec->bytes) : -EACCES;

	if (err == -EACCES)
		soft_refuse(dev, qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
	else if (err)
		nak_shown(dev, qp, err);
	return !err;
}

/* Writes a segment to a layout. Returns false after a refusal. */
static __attribute__((noinline)) bool
write_parts(struct soft_dev *dev, struct soft_qp *qp,
	    const struct soft_rec *rec, const void *payload)
{
	const struct soft_mr *mr =
		soft_layout_of(dev, remote_pd(dev, qp, rec), rec->rkey,
			       rec->raddr, rec->total, IBV_ACCESS_REMOTE_WRITE);

	if (!mr) {
		soft_refuse(dev, qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		return false;
	}
	if (!qp->recv_taken && rec->flags & SOFT_F_IMM &&
	    !take_receive(dev, qp, rec))
		return false;
	if (rec->code == SOFT_SHOWN && rec->bytes)
		return fetch_parts(dev, qp, rec, payload, mr);
	if (!soft_layout_write(dev, mr, rec->raddr + rec->offset, payload,
			       rec->bytes))
		return true;
	soft_refuse(dev, qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
	return false;
}

/* Writes a segment to one piece of memory. Returns false after a refusal. */
static bool write_piece(struct soft_dev *dev, struct soft_qp *qp,
			const struct soft_rec *rec, const void *payload,
			uint8_t *at)
{
	if (!qp->recv_taken && rec->flags & SOFT_F_IMM &&
	    !take_receive(dev, qp, rec))
		return false;
	if (unlikely(rec->code == SOFT_SHOWN))
		return fetch(dev, qp, rec, payload, at + rec->offset);
	soft_copy(at + rec->offset, payload, rec->bytes);
	return true;
}

static void on_write(struct soft_dev *dev, struct soft_qp *qp,
		     const struct soft_rec *rec, const void *payload)
{
	/* a write of 0 bytes needs no key, and programs use it as keepalive */
	if (rec->total) {
		uint8_t *at = soft_remote_at(dev, qp, remote_pd(dev, qp, rec),
					     rec->rkey, rec->raddr, rec->total,
					     IBV_ACCESS_REMOTE_WRITE);

		if (likely(at) ? !write_piece(dev, qp, rec, payload, at) :
		    !write_parts(dev, qp, rec, payload))
			return;
	} else if (rec->flags & SOFT_F_IMM && !take_receive(dev, qp, rec)) {
		return;
	}
	qp->offset += rec->bytes;
	if (!(rec->flags & SOFT_F_LAST))
		return;
	if (rec->flags & SOFT_F_IMM) {
		if (!soft_receive(qp)) {
			soft_refuse(dev, qp, SOFT_NAK_INV_REQ,
				    IBV_EVENT_QP_REQ_ERR);
			return;
		}
		complete_recv(dev, qp, rec, IBV_WC_RECV_RDMA_WITH_IMM);
	}
	done(dev, qp);
}

/*
 * Returns a free entry of rd[]. If there is none, refuses the request and
 * returns NULL.
 */
static struct soft_rd *new_rd(struct soft_dev *dev, struct soft_qp *qp,
			      const struct soft_rec *rec)
{
	struct soft_rd *rd;

	if (qp->rd_tail - qp->rd_head >= max(qp->attr.max_dest_rd_atomic, 1)) {
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return NULL;
	}
	rd = &qp->rd[qp->rd_tail % SOFT_MAX_RD];
	memset(rd, 0, sizeof(*rd));
	rd->psn = rec->psn;
	rd->total = rec->total;
	rd->aux = rec->aux;
	rd->known = true;
	return rd;
}

/* Queues a read. If that fails, refuses the read and returns false. */
static bool take_read(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rec *rec)
{
	struct soft_rd *rd = new_rd(dev, qp, rec);
	const struct ibv_pd *pd = remote_pd(dev, qp, rec);
	const bool parts = rec->total &&
			   soft_layout_of(dev, pd, rec->rkey, rec->raddr,
					  rec->total, IBV_ACCESS_REMOTE_READ);

	if (!rd || (rec->total && !parts &&
		    !remote(dev, qp, rec, rec->total, IBV_ACCESS_REMOTE_READ)))
		return false;
	rd->raddr = rec->raddr;
	rd->src_rkey = rec->rkey;
	rd->pd = pd;
	rd->parts = parts;
	rd->show = rec->code == SOFT_SHOWN && !parts &&
		   soft_vm_shows(qp->wire, rec->total);
	qp->rd_tail++;
	if (unlikely(dev->iwarp))
		soft_order_read(dev, qp);
	return true;
}

static void on_read(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_rec *rec)
{
	if (take_read(dev, qp, rec))
		done(dev, qp);
}

static void on_atomic(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rec *rec, const void *payload)
{
	uint64_t operand[2], *at;
	struct soft_rd *rd;

	if (rec->bytes != sizeof(operand) || rec->raddr % 8) {
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	rd = new_rd(dev, qp, rec);
	at = rd ? operand_at(dev, qp, rec, sizeof(*at)) : NULL;
	if (!at)
		return;
	memcpy(operand, payload, sizeof(operand));
	rd->atomic = true;
	rd->total = sizeof(rd->value[0]);
	if (rec->op == SOFT_FAA) {
		rd->value[0] = __atomic_fetch_add(at, operand[0],
						  __ATOMIC_SEQ_CST);
	} else {
		rd->value[0] = operand[0];
		(void)__atomic_compare_exchange_n(at, rd->value, operand[1],
						  false, __ATOMIC_SEQ_CST,
						  __ATOMIC_SEQ_CST);
	}
	qp->rd_tail++;
	done(dev, qp);
}

/* Copies the operand once: the peer can change the ring after the check. */
static bool take_masked(const struct soft_dev *dev, const struct soft_rec *rec,
			const void *payload, struct masked *ret)
{
	if (rec->bytes != sizeof(*ret))
		return false;
	memcpy(ret, payload, sizeof(*ret));
	return masked_ok(ret) && dev->masked.sizes & ret->size &&
	       rec->total == ret->size && !(rec->raddr % ret->size);
}

static void on_masked(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rec *rec, const void *payload)
{
	struct soft_rd *rd;
	struct masked m;
	void *at;

	if (!take_masked(dev, rec, payload, &m)) {
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	rd = new_rd(dev, qp, rec);
	at = rd ? operand_at(dev, qp, rec, m.size) : NULL;
	if (!at)
		return;
	rd->atomic = true;
	soft_masked_do(&m, at, rd->value);
	if (dev->masked.swapped)
		masked_swap_bytes(rd->value, m.size);
	qp->rd_tail++;
	done(dev, qp);
}

/*
 * Finds the entry of rd[] for a repeated read or atomic, and moves rd_tail
 * there. Drops answers that wait for an earlier try. The request reuses its old
 * entry, so that it overwrites no other. Returns false if there is no entry.
 */
static bool find_rd(struct soft_qp *qp, const struct soft_rec *rec)
{
	uint32_t s = 0;

	if (qp->rd_head != qp->rd_tail &&
	    qp->rd[qp->rd_head % SOFT_MAX_RD].aux != rec->aux)
		qp->rd_head = qp->rd_tail;
	while (s < SOFT_MAX_RD && (!qp->rd[s].known ||
				   qp->rd[s].psn != rec->psn))
		s++;
	if (s == SOFT_MAX_RD ||
	    qp->rd[s].atomic != (rec->op != SOFT_READ))
		return false;
	if (qp->rd_tail % SOFT_MAX_RD == s)
		return true;
	if (qp->rd_head != qp->rd_tail)
		return false;
	qp->rd_tail += (s - qp->rd_tail) % SOFT_MAX_RD;
	qp->rd_head = qp->rd_tail;
	return true;
}

/* Repeats a read. Answers a repeated atomic with the value of the first try. */
static void repeat(struct soft_dev *dev, struct soft_qp *qp,
		   const struct soft_rec *rec)
{
	struct soft_rd *rd;

	soft_count(dev, qp->attr.port_num, SOFT_DUPLICATES, 1);
	qp->ack_due = qp->ack_asked = true;
	soft_qp_pend(dev, qp);
	if (rec->op < SOFT_READ || !find_rd(qp, rec))
		return;
	if (rec->op == SOFT_READ) {
		(void)take_read(dev, qp, rec);
		return;
	}
	rd = &qp->rd[qp->rd_tail++ % SOFT_MAX_RD];
	rd->aux = rec->aux;
	rd->sent = 0;		/* push the whole answer again */
}

/*
 * Returns true if the queue pair permits the operation. The rkey is checked
 * later.
 */
static bool allowed(const struct soft_qp *qp, const struct soft_rec *rec)
{
	static const unsigned int needs[] = {
		[SOFT_SEND] = 0, [SOFT_WRITE] = IBV_ACCESS_REMOTE_WRITE,
		[SOFT_READ] = IBV_ACCESS_REMOTE_READ,
		[SOFT_CAS] = IBV_ACCESS_REMOTE_ATOMIC,
		[SOFT_FAA] = IBV_ACCESS_REMOTE_ATOMIC,
		[SOFT_MASKED] = IBV_ACCESS_REMOTE_ATOMIC,
	};

	return (qp->attr.qp_access_flags & needs[rec->op]) == needs[rec->op];
}

static bool makes_sense(const struct soft_rec *rec)
{
	bool last = rec->flags & SOFT_F_LAST;

	if (rec->total > SOFT_MAX_MSG)
		return false;
	if (rec->op != SOFT_SEND && rec->op != SOFT_WRITE)
		return !rec->offset && last;
	return rec->offset <= rec->total &&
	       rec->bytes <= rec->total - rec->offset &&
	       last == (rec->offset + rec->bytes == rec->total) &&
	       (rec->bytes || last);
}

/*
 * On UC a first segment always starts a new message. If a segment was lost, the
 * later segments of its message are dropped.
 */
static bool uc_in_order(struct soft_qp *qp, const struct soft_rec *rec)
{
	if (rec->op != SOFT_SEND && rec->op != SOFT_WRITE)
		return false;
	if (!rec->offset) {
		qp->epsn = rec->psn & SOFT_PSN_MASK;
		qp->offset = 0;
		qp->in_message = qp->recv_taken = qp->dropping = false;
		return true;
	}
	if (!qp->dropping && rec->psn == qp->epsn && rec->offset == qp->offset)
		return true;
	qp->dropping = true;
	return false;
}

static void out_of_order(struct soft_dev *dev, struct soft_qp *qp,
			 const struct soft_rec *rec)
{
	soft_count(dev, qp->attr.port_num, SOFT_DISORDER, 1);
	soft_wire_lost(qp->wire, rec);
}

static void count_request(struct soft_dev *dev, const struct soft_qp *qp,
			  const struct soft_rec *rec)
{
	const bool write = rec->op == SOFT_WRITE;

	if (rec->op != SOFT_SEND && !rec->offset)
		soft_count(dev, qp->attr.port_num, write ? SOFT_RX_WRITES :
			   rec->op == SOFT_READ ? SOFT_RX_READS :
			   SOFT_RX_ATOMICS, 1);
}

void soft_resp_request(struct soft_dev *dev, struct soft_qp *qp,
		       const struct soft_rec *rec, const void *payload)
{
	uint32_t ahead;

	if (qp->unreliable && !uc_in_order(qp, rec))
		return;
	ahead = (rec->psn - qp->epsn) & SOFT_PSN_MASK;

	/* this end of XRC or DC accepts no requests */
	if (unlikely(qp->sends_only)) {
		soft_wire_lost(qp->wire, rec);
		return;
	}
	/* the message starts over, because its rest was lost */
	if (unlikely(!ahead && !rec->offset && qp->offset)) {
		qp->offset = 0;
		qp->in_message = qp->recv_taken = false;
	}
	if (unlikely(ahead || rec->offset != qp->offset)) {
		if (ahead > SOFT_PSN_MASK / 2)
			repeat(dev, qp, rec);
		/* if dropping, the request follows a refused request */
		else if (!qp->dropping)
			out_of_order(dev, qp, rec);
		return;
	}
	qp->dropping = false;
	if (unlikely(qp->gate & SOFT_GATE_MUTE)) {
		qp->gate &= (uint8_t)~SOFT_GATE_MUTE;
		soft_qp_pend(dev, qp);
	}
	qp->ack_asked |= rec->flags & SOFT_F_ACK;
	if (unlikely(!makes_sense(rec) || !allowed(qp, rec) ||
		     (qp->xrcd && !soft_xrc_choose(dev, qp, rec->srqn)))) {
		soft_refuse(dev, qp, SOFT_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	switch (rec->op) {
	case SOFT_SEND:
		on_send(dev, qp, rec, payload);
		break;
	case SOFT_WRITE:
		on_write(dev, qp, rec, payload);
		break;
	case SOFT_READ:
		on_read(dev, qp, rec);
		break;
	case SOFT_MASKED:
		on_masked(dev, qp, rec, payload);
		break;
	default:
		on_atomic(dev, qp, rec, payload);
	}
	count_request(dev, qp, rec);
}
