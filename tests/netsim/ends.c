/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends: their queue pairs, and what their programs do when. */
#include "netsim.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/qp.h"

#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		 IBV_ACCESS_MW_BIND)
#define CQ_ROOM	128
#define DRAIN_NS 3000000u

struct end ends[2];

static struct ibv_pd *pd;
static union ibv_gid gid;

void ends_init(struct ibv_context *c)
{
	pd = soft_alloc_pd(c);
	if (!pd || soft_query_gid(c, 1, 0, &gid))
		sim_fail("no protection domain or no GID");
	for (int i = 0; i < 2; i++) {
		struct end *e = &ends[i];

		e->index = i;
		e->peer = &ends[!i];
		e->plan = &plan.end[i];
		e->mem = calloc(1, sizeof(*e->mem));
		e->mr = soft_reg_mr(pd, e->mem, sizeof(*e->mem), ACCESS);
		e->mw = soft_alloc_mw(pd, IBV_MW_TYPE_2);
		e->send_cq = soft_create_cq(c, CQ_ROOM, NULL, NULL, 0);
		e->recv_cq = soft_create_cq(c, CQ_ROOM, NULL, NULL, 0);
		if (!e->mem || !e->mr || !e->mw || !e->send_cq || !e->recv_cq)
			sim_fail("no objects for end %d", i);
		e->window_key = e->mw->rkey;
	}
}

/* ---- queue pairs -------------------------------------------------------- */

static void modify(struct end *e, struct ibv_qp_attr *a, int mask)
{
	int err = soft_modify_qp(e->qp, a, mask | IBV_QP_STATE);

	if (err)
		sim_fail("end %d: state %d: %s", e->index, a->qp_state,
			 strerror(err));
}

static void create(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH_MAX, .max_recv_wr = DEPTH_MAX,
			 .max_send_sge = 2, .max_recv_sge = 2,
			 .max_inline_data = 64 },
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = ACCESS & ~IBV_ACCESS_MW_BIND,
	};

	e->qp = soft_create_qp(pd, &init);
	if (!e->qp)
		sim_fail("end %d: no queue pair", e->index);
	modify(e, &a, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void connect_end(struct end *e)
{
	const struct end_plan *p = e->plan, *peer = e->peer->plan;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = plan.path_mtu,
		.dest_qp_num = e->peer->qp->qp_num, .rq_psn = peer->psn,
		.max_dest_rd_atomic = peer->reads,
		.min_rnr_timer = p->rnr_timer,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = p->psn,
		.timeout = p->timeout, .retry_cnt = p->retries,
		.rnr_retry = p->rnr_retries, .max_rd_atomic = p->reads,
	};

	modify(e, &rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	       IBV_QP_MIN_RNR_TIMER);
	modify(e, &rts, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	if (!soft_qp(e->qp)->far)
		sim_fail("end %d: the peer is not far", e->index);
}

static void clear(struct end *e)
{
	e->acts_at = e->receives_at = sim_now;
	e->resumes_at = SIM_NEVER;
	e->drained = false;
	e->posted = e->completed = e->messages = e->versions = 0;
	e->succeeded = SIM_NONE;
	e->receives = e->received = e->flushed = 0;
	e->window = WINDOW_IDLE;
	memset(e->word, 0, sizeof(e->word));
	memset(e->mem->word, 0, sizeof(e->mem->word));
	for (uint32_t i = 0; i < SLOTS; i++) {
		memcpy(e->image[i], bytes_of_slot(i, 0, 0), plan.most);
		memcpy(e->mem->slot[i], e->image[i], plan.most);
	}
}

void ends_open(void)
{
	for (int i = 0; i < 2; i++) {
		clear(&ends[i]);
		create(&ends[i]);
	}
	for (int i = 0; i < 2; i++)
		connect_end(&ends[i]);
}

void ends_close(void)
{
	for (int i = 0; i < 2; i++)
		if (soft_destroy_qp(ends[i].qp))
			sim_fail("end %d: the queue pair stays", i);
}

/* ---- receives ----------------------------------------------------------- */

static void post_receive(struct end *e)
{
	const uint32_t at = e->receives % DEPTH_MAX;
	uint8_t *buf = e->mem->in[at];
	const uint32_t cut = sim_once_in(2) ? sim_below(plan.most + 1) :
					      plan.most;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)buf, cut, e->mr->lkey },
		{ (uintptr_t)buf + cut, plan.most - cut, e->mr->lkey },
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = e->receives, .sg_list = sge, .num_sge = 2,
	};
	int err;

	memset(buf, 0xa5, plan.most + GUARD);
	e->receives++;
	err = soft_post_recv(e->qp, &wr, &bad);
	if (err)
		sim_fail("end %d: receive: %s", e->index, strerror(err));
}

static bool is_up(const struct end *e)
{
	return soft_qp(e->qp)->state == IBV_QPS_RTS ||
	       soft_qp(e->qp)->state == IBV_QPS_SQD;
}

static uint32_t receives_free(const struct end *e)
{
	const uint32_t left = e->peer->plan->requests - e->receives;

	return is_up(e) ? min(left, e->plan->receives -
				    (e->receives - e->received)) : 0;
}

static void post_receives(struct end *e)
{
	uint32_t n = receives_free(e);

	if (!n || e->receives_at > sim_now)
		return;
	for (n = 1 + sim_below(n); n; n--)
		post_receive(e);
	e->receives_at = sim_now + sim_below(e->plan->late);
	sim_trace("%d: has posted %u receives\n", e->index, e->receives);
}

/* ---- the program -------------------------------------------------------- */

static bool can_post(const struct end *e)
{
	return is_up(e) && e->posted < e->plan->requests &&
	       e->posted - e->completed < e->plan->depth;
}

static bool can_poll(const struct ibv_cq *cq)
{
	const struct soft_cq *c = (const struct soft_cq *)cq;

	return c->head != c->tail;
}

uint64_t end_next(const struct end *e)
{
	uint64_t next = SIM_NEVER;

	if (can_post(e) || can_poll(e->send_cq) || can_poll(e->recv_cq))
		next = sim_now;
	else if (receives_free(e))
		next = e->receives_at;
	next = min(next, e->resumes_at);
	return next == SIM_NEVER ? next : max(next, e->acts_at);
}

static void poll_some(struct end *e, struct ibv_cq *cq)
{
	struct ibv_wc wc[4];
	int n = soft_poll_cq(cq, 1 + (int)sim_below(4), wc);

	if (n < 0)
		sim_fail("end %d: a queue has overrun", e->index);
	for (int i = 0; i < n; i++) {
		if (wc[i].qp_num != e->qp->qp_num)
			sim_fail("end %d: completion of queue pair %u",
				 e->index, wc[i].qp_num);
		if (cq == e->send_cq)
			rules_completed(e, &wc[i]);
		else
			rules_received(e, &wc[i]);
	}
}

static void set_state(struct end *e, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = { .qp_state = to };

	/* a queue pair in the error state stays there */
	if (is_up(e))
		modify(e, &a, 0);
}

/* Stops sending for a moment, once. */
static void drain(struct end *e)
{
	if (e->resumes_at <= sim_now) {
		e->resumes_at = SIM_NEVER;
		set_state(e, IBV_QPS_RTS);
	} else if (!e->drained && e->posted > e->plan->drains) {
		e->drained = true;
		e->resumes_at = sim_now + sim_below(DRAIN_NS);
		set_state(e, IBV_QPS_SQD);
	}
}

void end_act(struct end *e)
{
	if (end_next(e) > sim_now)
		return;
	drain(e);
	switch (sim_below(4)) {
	case 0:
		if (can_post(e))
			requests_post(e);
		break;
	case 1:
		post_receives(e);
		break;
	case 2:
		poll_some(e, e->send_cq);
		break;
	default:
		poll_some(e, e->recv_cq);
		break;
	}
	e->acts_at = sim_now + 1 + sim_below(e->plan->pause);
}

bool end_is_over(const struct end *e)
{
	return e->completed == e->posted &&
	       (!is_up(e) || e->posted == e->plan->requests);
}
