/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data path of the simulated device. A posted request waits until the
 * scheduler executes it: the peer has the data then. Later the scheduler
 * acknowledges it, and its completion becomes visible. If the queue pair fails
 * between both, the request fails although the peer has the data. That is the
 * device that completes in order; the order of a loose one is in loose.c.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- completions ------------------------------------------------------- */

static void raise_event(struct sim_cq *cq)
{
	struct sim_channel *ch = (struct sim_channel *)cq->ibv.channel;
	struct sim_cq **at;

	cq->armed = false;
	if (cq->raised || !ch)
		return;
	cq->raised = true;
	cq->next = NULL;
	for (at = &ch->pending; *at; at = &(*at)->next)
		;
	*at = cq;
	sim_fd_add(ch->ibv.fd, 1);
}

static void complete(struct ibv_cq *ibv, const struct ibv_wc *wc)
{
	struct sim_cq *cq = (struct sim_cq *)ibv;

	if (cq->tail - cq->head > cq->mask)
		sim_fail("a completion queue overruns");
	cq->ring[cq->tail++ & cq->mask] = *wc;
	if (cq->armed)
		raise_event(cq);
}

static enum ibv_wc_opcode opcode_of(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

void sim_complete(struct sim_qp *qp, const struct sim_wqe *w,
		  enum ibv_wc_status status)
{
	const struct ibv_wc wc = {
		.wr_id = w->wr_id, .opcode = opcode_of(w->opcode),
		.qp_num = qp->ibv.qp_num, .status = status,
	};

	if (!status && !(w->flags & IBV_SEND_SIGNALED) && !qp->signal_all)
		return;
	sim_trace("sim: qp %u completes request %u, status %d\n",
		  qp->ibv.qp_num, (uint32_t)w->wr_id, status);
	complete(qp->ibv.send_cq, &wc);
}

/* ---- executing --------------------------------------------------------- */

bool sim_is_up(const struct sim_qp *qp)
{
	return qp && (qp->ibv.state == IBV_QPS_RTR ||
		      qp->ibv.state == IBV_QPS_RTS);
}

bool sim_is_read(const struct sim_wqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ ||
	       w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* A fenced request waits for the answers to the reads before it. */
static bool is_fenced(const struct sim_qp *qp)
{
	if (!(qp->sends[qp->done & qp->smask].flags & IBV_SEND_FENCE))
		return false;
	for (uint32_t i = qp->head; i != qp->done; i++)
		if (sim_is_read(&qp->sends[i & qp->smask]))
			return true;
	return false;
}

bool sim_can_execute(const struct sim_qp *qp)
{
	if (sim_loose)
		return loose_can_execute(qp);
	return qp->ibv.state == IBV_QPS_RTS && qp->done != qp->tail &&
	       !is_fenced(qp) &&
	       !qp->cut && sim_is_up(sim_qp_find(qp->dest));
}

uint32_t sim_used(const struct sim_qp *qp)
{
	return sim_loose ? loose_used(qp) : qp->tail - qp->head;
}

/* Nobody will ever acknowledge what is posted. */
bool sim_can_time_out(const struct sim_qp *qp)
{
	const struct sim_qp *peer = sim_qp_find(qp->dest);

	if (sim_loose)
		return loose_can_time_out(qp);
	return qp->ibv.state == IBV_QPS_RTS && sim_used(qp) &&
	       (qp->cut || ((!peer || peer->ibv.state == IBV_QPS_ERR) &&
			    !sim_end_waits(qp)));
}

/*
 * The library's keys must be valid as long as a request is posted. An entry of
 * no bytes needs none.
 */
static void *local(const struct ibv_sge *s, int access)
{
	void *p = sim_memory(s->lkey, s->addr, s->length, access);

	if (!p && s->length)
		sim_fail("a request has no key of its memory (lkey 0x%x, %u "
			 "bytes)", s->lkey, s->length);
	return p;
}

uint32_t sim_length(const struct sim_wqe *w)
{
	uint32_t len = w->flags & IBV_SEND_INLINE ? w->inlined : 0;

	for (uint32_t i = 0; i < w->sges && !(w->flags & IBV_SEND_INLINE); i++)
		len += w->sge[i].length;
	return len;
}

void sim_gather(uint8_t *dst, const struct sim_wqe *w)
{
	if (w->flags & IBV_SEND_INLINE) {
		memcpy(dst, w->data, w->inlined);
		return;
	}
	for (uint32_t i = 0; i < w->sges; i++) {
		const void *src = local(&w->sge[i], 0);

		if (src)
			memcpy(dst, src, w->sge[i].length);
		dst += w->sge[i].length;
	}
}

void sim_scatter(const struct sim_wqe *w, const uint8_t *src)
{
	for (uint32_t i = 0; i < w->sges; i++) {
		void *dst = local(&w->sge[i], IBV_ACCESS_LOCAL_WRITE);

		if (dst)
			memcpy(dst, src, w->sge[i].length);
		src += w->sge[i].length;
	}
}

/* The bytes that the device has taken, or those of the program. */
static void give(uint8_t *dst, const struct sim_wqe *w)
{
	if (w->taken)
		memcpy(dst, w->taken, sim_length(w));
	else
		sim_gather(dst, w);
}

/* The answer stays with the device, if it has memory for it. */
static void answer(const struct sim_wqe *w, const void *src)
{
	if (w->taken)
		memcpy(w->taken, src, sim_length(w));
	else
		sim_scatter(w, src);
}

/* Uses the next receive of the peer. */
static void deliver(struct sim_qp *peer, const struct sim_wqe *w, bool data)
{
	struct sim_recv *r;
	struct ibv_wc *wc;
	uint32_t len = 0;

	if (peer->rhead == peer->rtail)
		sim_fail("a message finds no receive at qp %u",
			 peer->ibv.qp_num);
	r = &peer->recvs[peer->rhead++ & peer->rmask];
	if (data) {
		void *to = sim_memory(r->lkey, (uintptr_t)r->addr, r->len,
				      IBV_ACCESS_LOCAL_WRITE);

		if (!to)
			sim_fail("a receive has no key of its memory");
		len = sim_length(w);
		if (len > r->len)
			sim_fail("a message is longer than its receive");
		give(to, w);
	}
	if (data && w->opcode == IBV_WR_SEND)
		sim_trace("sim: header type %u, credit %u, number %u, tag "
			  "%u\n", r->addr[0], r->addr[4], r->addr[8],
			  r->addr[12]);
	wc = &peer->came[peer->ctail++ & peer->rmask];
	*wc = (struct ibv_wc){
		.wr_id = r->wr_id, .opcode = data ? IBV_WC_RECV :
		IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = len,
		.qp_num = peer->ibv.qp_num,
	};
	if (w->opcode == IBV_WR_SEND_WITH_IMM ||
	    w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		wc->imm_data = w->imm;
		wc->wc_flags = IBV_WC_WITH_IMM;
	}
}

static void do_atomic(const struct sim_wqe *w, uint64_t *remote)
{
	uint64_t old = *remote;

	if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		*remote += w->compare;
	else if (old == w->compare)
		*remote = w->swap;
	answer(w, &old);
}

static bool do_remote(const struct sim_wqe *w)
{
	const bool reads = w->opcode == IBV_WR_RDMA_READ;
	const bool writes = w->opcode == IBV_WR_RDMA_WRITE ||
			    w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint32_t len = sim_length(w);
	void *remote;

	if (!len)
		return true;
	remote = sim_memory(w->rkey, w->raddr, len, reads ?
			    IBV_ACCESS_REMOTE_READ : writes ?
			    IBV_ACCESS_REMOTE_WRITE :
			    IBV_ACCESS_REMOTE_ATOMIC);
	if (!remote)
		return false;
	if (reads)
		answer(w, remote);
	else if (writes)
		give(remote, w);
	else
		do_atomic(w, remote);
	return true;
}

void sim_carry_out(struct sim_qp *qp, struct sim_wqe *w)
{
	struct sim_qp *peer = sim_qp_find(qp->dest);

	sim_trace("sim: qp %u executes request %u, opcode %d, %u bytes\n",
		  qp->ibv.qp_num, (uint32_t)w->wr_id, w->opcode, sim_length(w));
	switch (w->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		deliver(peer, w, true);
		return;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (do_remote(w)) {
			deliver(peer, w, false);
			return;
		}
		break;
	default:
		if (do_remote(w))
			return;
	}
	/* nobody uses a wrong key, and a refusal would be forgiven once */
	sim_fail("queue pair %u: request %u has a wrong key", qp->ibv.qp_num,
		 (uint32_t)w->wr_id);
}

void sim_execute(struct sim_qp *qp)
{
	if (sim_loose)
		loose_execute(qp);
	else
		sim_carry_out(qp, &qp->sends[qp->done++ & qp->smask]);
}

/* ---- what becomes visible ---------------------------------------------- */

bool sim_can_ack(const struct sim_qp *qp)
{
	if (sim_loose)
		return loose_can_ack(qp);
	/* an acknowledgement that is lost with the lane does not come */
	return qp->ibv.state == IBV_QPS_ERR ? qp->head != qp->tail :
	       qp->head != qp->done && !qp->cut;
}

void sim_ack(struct sim_qp *qp)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	if (sim_loose) {
		loose_ack(qp);
		return;
	}
	if (qp->ibv.state == IBV_QPS_ERR && (int32_t)(qp->head - qp->bad) >= 0)
		status = qp->head == qp->bad ? qp->why : IBV_WC_WR_FLUSH_ERR;
	sim_complete(qp, &qp->sends[qp->head++ & qp->smask], status);
}

/* Bytes and acknowledgements of the peer are ahead of the end. */
bool sim_end_waits(const struct sim_qp *qp)
{
	const struct sim_qp *peer = sim_qp_find(qp->dest);

	if (sim_rude || qp->cut)
		return false;
	if (qp->chead != qp->ctail)
		return true;
	if (!sim_loose)
		return qp->head != qp->done;
	return loose_owes(qp) || (peer && loose_is_ahead(peer));
}

/* The completion of the request that has failed comes before any flush. */
static bool has_failed(const struct sim_qp *qp)
{
	return qp->ibv.state == IBV_QPS_ERR &&
	       (qp->why == IBV_WC_WR_FLUSH_ERR ||
		(int32_t)(qp->head - qp->bad) > 0);
}

bool sim_can_arrive(const struct sim_qp *qp)
{
	return !qp->gone && (qp->chead != qp->ctail ||
	       (qp->rhead != qp->rtail && has_failed(qp)));
}

void sim_arrive(struct sim_qp *qp)
{
	struct ibv_wc wc = {
		.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV,
		.qp_num = qp->ibv.qp_num,
	};

	if (qp->chead != qp->ctail)
		wc = qp->came[qp->chead++ & qp->rmask];
	else
		wc.wr_id = qp->recvs[qp->rhead++ & qp->rmask].wr_id;
	sim_trace("sim: qp %u completes receive %u, status %d\n",
		  qp->ibv.qp_num, (uint32_t)wc.wr_id & 0x7fffffffu, wc.status);
	complete(qp->ibv.recv_cq, &wc);
}

void sim_qp_fail(struct sim_qp *qp, enum ibv_wc_status why)
{
	uint32_t unacked = qp->done - qp->head;

	sim_trace("sim: qp %u fails, status %d, %u executed and not "
		  "acknowledged, %u not executed\n", qp->ibv.qp_num, why,
		  unacked, qp->tail - qp->done);
	qp->ibv.state = IBV_QPS_ERR;
	qp->why = why;
	if (sim_loose) {
		loose_fail(qp);
		return;
	}
	qp->bad = qp->head + sim_below(unacked + 1);
	if (qp->bad == qp->tail && why != IBV_WC_WR_FLUSH_ERR && unacked)
		qp->bad--;
}

/* ---- calls of the library ---------------------------------------------- */

static void copy_request(struct sim_wqe *w, const struct ibv_send_wr *wr)
{
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	w->imm = wr->imm_data;
	w->sges = (uint32_t)wr->num_sge;
	w->inlined = 0;
	w->told = w->asked = w->answered = false;
	w->taken = NULL;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->raddr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
	} else {
		w->raddr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		w->sge[i] = wr->sg_list[i];
		if (!(wr->send_flags & IBV_SEND_INLINE))
			continue;
		memcpy(w->data + w->inlined,
		       (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		w->inlined += wr->sg_list[i].length;
	}
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;
	struct sim_wqe *w;

	for (; wr; wr = wr->next) {
		if (sim_used(qp) == qp->depth)
			sim_fail("a send queue overruns");
		w = &qp->sends[qp->tail & qp->smask];
		copy_request(w, wr);
		if (sim_loose)
			loose_post(qp, w);
		qp->tail++;
		sim_trace("sim: qp %u gets request %u, opcode %d\n",
			  ibv->qp_num, (uint32_t)wr->wr_id, wr->opcode);
	}
	return 0;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;

	for (; wr; wr = wr->next) {
		struct sim_recv *r = &qp->recvs[qp->rtail & qp->rmask];

		if (qp->rtail - qp->rhead > qp->rmask)
			sim_fail("a receive queue overruns");
		r->wr_id = wr->wr_id;
		r->addr = (void *)(uintptr_t)wr->sg_list->addr;
		r->len = wr->sg_list->length;
		r->lkey = wr->sg_list->lkey;
		qp->rtail++;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct sim_cq *cq = (struct sim_cq *)ibv;
	int got = 0;

	while (got < n && cq->head != cq->tail)
		wc[got++] = cq->ring[cq->head++ & cq->mask];
	return got;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	((struct sim_cq *)ibv)->armed = true;
	return 0;
}

void sim_ops(struct ibv_context_ops *ops)
{
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
}
