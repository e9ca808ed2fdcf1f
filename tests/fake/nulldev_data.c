/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data path. Its functions are named null_*, which is how
 * tests/bench/instructions tells them from the library's.
 */
#include "nulldev_objects.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct nulldev_counts nulldev_counts;
bool null_is_cut;
uint32_t nulldev_takes;

/* An inline copy, because a call of memcpy() would count for the library. */
static inline void copy(void *dst, const void *src, size_t len)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len)
			 : : "memory");
#else
	uint8_t *d = dst;
	const uint8_t *s = src;

	while (len--)
		*d++ = *s++;
#endif
}

__attribute__((noinline)) static void null_raise(struct null_cq *cq)
{
	struct null_channel *ch = (struct null_channel *)cq->ibv.channel;
	uint64_t one = 1;

	cq->armed = false;
	nulldev_counts.events++;
	if (cq->raised || !ch)
		return;
	cq->raised = true;
	cq->next = ch->pending;
	ch->pending = cq;
	(void)!write(ch->ibv.fd, &one, sizeof(one));
}

static inline void complete(struct ibv_cq *ibv, const struct ibv_qp *qp,
			    uint64_t wr_id, enum ibv_wc_status status,
			    enum ibv_wc_opcode opcode, uint32_t len)
{
	struct null_cq *cq = (struct null_cq *)ibv;
	struct ibv_wc *wc = &cq->ring[cq->tail & cq->mask];

	wc->wr_id = wr_id;
	wc->status = status;
	wc->opcode = opcode;
	wc->vendor_err = 0;
	wc->byte_len = len;
	wc->qp_num = qp->qp_num;
	wc->wc_flags = 0;
	cq->tail++;
	if (__builtin_expect(cq->armed, 0))
		null_raise(cq);
}

static struct null_held *take_held(struct null_qp *qp)
{
	struct null_held *h = qp->held;

	qp->held = h->next;
	if (!qp->held)
		qp->held_end = &qp->held;
	qp->told -= h->told;
	return h;
}

__attribute__((noinline)) void null_fail(struct null_qp *qp)
{
	qp->ibv.state = IBV_QPS_ERR;
	while (qp->held) {
		struct null_held *h = take_held(qp);

		if (!h->told)
			complete(qp->ibv.send_cq, &qp->ibv, h->wr.wr_id,
				 IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND, 0);
		free(h);
	}
	while (qp->head != qp->tail)
		complete(qp->ibv.recv_cq, &qp->ibv,
			 qp->recvs[qp->head++ & qp->mask].wr_id,
			 IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0);
}

static inline uint32_t gather(uint8_t *dst, const struct ibv_send_wr *wr)
{
	uint32_t len = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		copy(dst + len, (void *)(uintptr_t)wr->sg_list[i].addr,
		     wr->sg_list[i].length);
		len += wr->sg_list[i].length;
	}
	return len;
}

/* Adds immediate data to the last completion. */
static inline void add_imm(struct ibv_cq *ibv, const struct ibv_send_wr *wr)
{
	struct null_cq *cq = (struct null_cq *)ibv;
	struct ibv_wc *wc = &cq->ring[(cq->tail - 1) & cq->mask];

	if (wr->opcode == IBV_WR_SEND)
		return;
	wc->imm_data = wr->imm_data;
	wc->wc_flags = IBV_WC_WITH_IMM;
}

static inline enum ibv_wc_status do_send(struct null_qp *qp,
					 const struct ibv_send_wr *wr)
{
	struct null_qp *peer = qp->peer;
	struct null_recv *r;

	if (!peer || peer->ibv.state == IBV_QPS_ERR)
		return IBV_WC_RETRY_EXC_ERR;
	if (peer->head == peer->tail)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	r = &peer->recvs[peer->head++ & peer->mask];
	complete(peer->ibv.recv_cq, &peer->ibv, r->wr_id, IBV_WC_SUCCESS,
		 IBV_WC_RECV, gather(r->addr, wr));
	add_imm(peer->ibv.recv_cq, wr);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status write_imm(struct null_qp *qp,
				    const struct ibv_send_wr *wr)
{
	struct null_qp *peer = qp->peer;

	if (!peer || peer->ibv.state == IBV_QPS_ERR)
		return IBV_WC_RETRY_EXC_ERR;
	if (peer->head == peer->tail)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	complete(peer->ibv.recv_cq, &peer->ibv,
		 peer->recvs[peer->head++ & peer->mask].wr_id, IBV_WC_SUCCESS,
		 IBV_WC_RECV_RDMA_WITH_IMM, 0);
	add_imm(peer->ibv.recv_cq, wr);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status null_do(struct null_qp *qp,
				  const struct ibv_send_wr *wr)
{
	uint8_t *remote;

	if (qp->ibv.state == IBV_QPS_ERR)
		return IBV_WC_WR_FLUSH_ERR;
	remote = wr->num_sge ? null_memory(wr->wr.rdma.rkey,
					   wr->wr.rdma.remote_addr) : NULL;
	if (wr->num_sge && !remote)
		return IBV_WC_REM_ACCESS_ERR;
	switch (wr->opcode) {
	case IBV_WR_RDMA_READ:
		for (int i = 0; i < wr->num_sge; i++) {
			copy((void *)(uintptr_t)wr->sg_list[i].addr, remote,
			     wr->sg_list[i].length);
			remote += wr->sg_list[i].length;
		}
		return IBV_WC_SUCCESS;
	case IBV_WR_RDMA_WRITE:
		(void)gather(remote, wr);
		return IBV_WC_SUCCESS;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		(void)gather(remote, wr);
		return write_imm(qp, wr);
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

static inline __attribute__((always_inline)) void
null_run(struct null_qp *qp, const struct ibv_send_wr *wr)
{
	bool send = wr->opcode == IBV_WR_SEND_WITH_IMM ||
		    wr->opcode == IBV_WR_SEND;
	enum ibv_wc_status status = send && qp->ibv.state != IBV_QPS_ERR ?
				    do_send(qp, wr) : null_do(qp, wr);

	if (wr->send_flags & IBV_SEND_SIGNALED || qp->all_signaled || status)
		complete(qp->ibv.send_cq, &qp->ibv, wr->wr_id, status,
			 IBV_WC_SEND, 0);
	if (status && qp->ibv.state != IBV_QPS_ERR)
		null_fail(qp);
}

/* Completes requests that are still held, up to nulldev_takes. */
static void tell_held(struct null_qp *qp)
{
	for (struct null_held *h = qp->held;
	     h && qp->told < nulldev_takes; h = h->next) {
		if (h->told || h->wr.opcode == IBV_WR_RDMA_READ)
			continue;
		h->told = true;
		qp->told++;
		complete(qp->ibv.send_cq, &qp->ibv, h->wr.wr_id, IBV_WC_SUCCESS,
			 IBV_WC_SEND, 0);
	}
}

/*
 * Copies the request, because its lists and inline data end with
 * ibv_post_send().
 */
__attribute__((noinline)) static int null_hold(struct null_qp *qp,
					       const struct ibv_send_wr *wr)
{
	struct null_held *h = calloc(1, sizeof(*h));

	if (!h)
		return ENOMEM;
	h->wr = *wr;
	h->wr.next = NULL;
	h->wr.sg_list = h->sge;
	for (int i = 0; i < wr->num_sge; i++)
		h->sge[i] = wr->sg_list[i];
	if (wr->send_flags & IBV_SEND_INLINE) {
		h->sge[0].length = gather(h->inlined, wr);
		h->sge[0].addr = (uintptr_t)h->inlined;
		h->wr.num_sge = h->sge[0].length != 0;
	}
	*qp->held_end = h;
	qp->held_end = &h->next;
	tell_held(qp);
	return 0;
}

void null_pass(struct null_qp *qp, uint32_t n)
{
	while (n-- && qp->held) {
		struct null_held *h = take_held(qp);

		if (h->told)
			h->wr.send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
		null_run(qp, &h->wr);
		free(h);
	}
	tell_held(qp);
}

void null_drop(struct null_qp *qp)
{
	while (qp->held)
		free(take_held(qp));
}

static int null_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	nulldev_counts.doorbells++;
	for (; wr; wr = wr->next) {
		nulldev_counts.sends++;
		if (__builtin_expect(!null_is_cut, 1) ||
		    ibv->state == IBV_QPS_ERR) {
			null_run(qp, wr);
		} else if (null_hold(qp, wr)) {
			*bad = wr;
			return ENOMEM;
		}
	}
	return 0;
}

static int null_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	nulldev_counts.recv_posts++;
	for (; wr; wr = wr->next) {
		struct null_recv *r = &qp->recvs[qp->tail & qp->mask];

		if (qp->tail - qp->head > qp->mask) {
			*bad = wr;
			return ENOMEM;
		}
		r->wr_id = wr->wr_id;
		r->addr = (void *)(uintptr_t)wr->sg_list->addr;
		r->length = wr->sg_list->length;
		qp->tail++;
		nulldev_counts.recvs++;
		if (ibv->state == IBV_QPS_ERR)
			null_fail(qp);
	}
	return 0;
}

static int null_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct null_cq *cq = (struct null_cq *)ibv;
	int got = 0;

	nulldev_counts.polls++;
	while (got < n && cq->head != cq->tail)
		copy(&wc[got++], &cq->ring[cq->head++ & cq->mask], sizeof(*wc));
	nulldev_counts.empty_polls += !got;
	return got;
}

static int null_req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	nulldev_counts.arms++;
	((struct null_cq *)ibv)->armed = true;
	return 0;
}

void null_ops(struct ibv_context_ops *ops)
{
	ops->post_send = null_post_send;
	ops->post_recv = null_post_recv;
	ops->poll_cq = null_poll_cq;
	ops->req_notify_cq = null_req_notify_cq;
}
