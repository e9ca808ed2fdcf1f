/* SPDX-License-Identifier: BSD-2-Clause */
/* Native runs: started, watched, ended. */
#include "chain/native.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/team.h"
#include "device/cross.h"
#include "session/ep.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#define LOOK_MS		100
#define GRACE_MS	3000	/* for the endpoint to tell why */
#define BATCH		16

/* ---- the start --------------------------------------------------------- */

static void put(const struct request *r)
{
	const struct ibv_sge *sge = &r->send.sge;

	switch (r->kind) {
	case REQUEST_WAIT:
		rdmamsg__cross_wait(r->to, false, r->wait.num, r->wait.index);
		break;
	case REQUEST_SEND:
		rdmamsg__cross_send(r->to, true, r->send.tag,
				    sge->length ? sge : NULL);
		break;
	case REQUEST_CALC:
		rdmamsg__cross_calc(r->to, r->signaled, &r->calc);
		break;
	}
}

/* Posts the requests of one queue pair. */
static int post(const struct native *n, const struct cross *to)
{
	rdmamsg__cross_begin(to, 0);
	for (uint32_t i = 0; i < n->request_count; i++)
		if (n->requests[i].to == to)
			put(&n->requests[i]);
	return rdmamsg__cross_end(to);
}

static int post_all(struct native *n)
{
	const struct rdmamsg_chain *c = n->chain;
	int err = 0;

	for (uint32_t i = 0; i < n->end_count && !err; i++) {
		struct channel *ch = n->ends[i]->channel;

		if (!ch->requests)
			continue;
		ch->undrained += ch->requests;
		err = post(n, &ch->cross);
	}
	for (uint32_t i = 0; i < c->queue_count && !err; i++) {
		struct nqueue *q = n->queues[i];

		if (!q->requests)
			continue;
		q->undrained += q->requests;
		err = post(n, &q->cross);
	}
	return err;
}

/* Writes all that the run does to 'all', and returns how much it is. */
static uint32_t all_of(const struct native *n,
		       struct cond all[static NATIVE_WAITS])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n->end_count; i++) {
		const struct channel *ch = n->ends[i]->channel;

		if (ch->used != ch->was_used)
			all[count++] = (struct cond){ ch->recv_num, ch->used };
		if (ch->sent != ch->was_sent)
			all[count++] = (struct cond){ ch->send_num, ch->sent };
	}
	for (uint32_t i = 0; i < n->chain->queue_count; i++) {
		const struct nqueue *q = n->queues[i];

		if (q->marks != q->first_mark)
			all[count++] = (struct cond){ q->num, q->marks };
	}
	return count;
}

/* The last wait completes. The run of an endpoint has at least one. */
static int post_end(struct native *n)
{
	const struct cross *to = &n->end;
	struct cond all[NATIVE_WAITS];
	const uint32_t count = all_of(n, all);

	rdmamsg__cross_begin(to, (uint64_t)CHAIN_KEY << 32 | n->handle);
	for (uint32_t i = 0; i < count; i++)
		rdmamsg__cross_wait(to, i + 1 == count, all[i].num,
				    all[i].index);
	return rdmamsg__cross_end(to);
}

/* Returns the first endpoint of the chain, which has one. */
static const struct chain_ep *first_end(const struct rdmamsg_chain *c)
{
	uint32_t i = 0;

	while (!c->steps[i].end)
		i++;
	return c->steps[i].end;
}

static int start(struct rdmamsg_chain *c)
{
	struct native *n;
	int err = c->native ? 0 :
		  rdmamsg__native_open(c, first_end(c)->channel->dev,
				       &c->native);

	n = c->native;
	if (!err)
		err = rdmamsg__native_compile(n);
	if (err)
		return err;
	n->runs = true;
	err = post_all(n);
	if (!err)
		err = post_end(n);
	if (n->look.pos < 0)
		rdmamsg__timer_set(&n->ctx->loop.timers, &n->look, LOOK_MS);
	return err ? rdmamsg__fail(-EIO, "chain: posting its requests: %s",
				   strerror(-err)) : 0;
}

/* ---- messages and errors ----------------------------------------------- */

static void broke(struct native *n, struct chain_ep *end,
		  enum ibv_wc_status status)
{
	if (n->broken_at)
		return;
	n->broken_at = rdmamsg__now_ms();
	n->broken_end = end;
	(void)snprintf(n->broken_text, sizeof(n->broken_text), "%s",
		       rdmamsg__wc_text(status));
}

/* Polls the queue of marks empty. */
static void drain(struct native *n, struct ibv_cq *cq)
{
	struct ibv_wc wc[BATCH];
	int got;

	do {
		got = ibv_poll_cq(cq, BATCH, wc);
		for (int i = 0; i < got; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				broke(n, NULL, wc[i].status);
	} while (got == BATCH);
}

static void confirm(struct native *n, struct chain_ep *end)
{
	const enum ibv_wc_status status =
		rdmamsg__channel_poll_sends(end->channel);

	if (status != IBV_WC_SUCCESS)
		broke(n, end, status);
}

static void receive(struct native *n, struct chain_ep *end)
{
	const enum ibv_wc_status status =
		rdmamsg__channel_poll_receives(end->channel);

	if (status != IBV_WC_SUCCESS)
		broke(n, end, status);
}

static bool has_come(const struct expected *e)
{
	return rdmamsg__channel_has(e->end->channel, e->index);
}

/* Returns the first step that waits for a message of the endpoint. */
static uint32_t missing_of(struct native *n, struct chain_ep *end)
{
	for (uint32_t i = 0; i < n->expected_count; i++) {
		const struct expected *e = &n->expected[i];

		if (e->end != end)
			continue;
		receive(n, end);
		if (!has_come(e))
			return e->step;
	}
	return NO_STEP;
}

/*
 * Returns true if the member runs another operation, in the loop, which has
 * ended the run: its message is at the endpoint.
 */
static bool runs_in_loop(const struct native *n, const struct expected *e)
{
	const struct kept *k = rdmamsg__chain_head(e->end);

	return n->chain->team && k &&
	       rdmamsg__team_same_number(k->tag,
					 n->chain->steps[e->step].tag) &&
	       !rdmamsg__chain_matches(n->chain, e->step, k->len, k->tag);
}

static size_t len_of(const struct channel *ch, uint32_t slot)
{
	return rdmamsg__channel_len(rdmamsg__channel_slot(ch, slot),
				    ch->got[slot].len);
}

/*
 * Looks at what has come for the run. Returns how many messages are missing, or
 * -EPROTO if one is of another step, which has ended the run.
 */
static int look(struct native *n)
{
	int missing = 0;

	for (uint32_t i = 0; i < n->expected_count && !n->broken_at; i++) {
		const struct expected *e = &n->expected[i];
		const struct channel *ch = e->end->channel;
		const uint32_t slot = e->index % CHANNEL_SLOTS;

		if (!has_come(e))
			receive(n, e->end);
		if (n->broken_at)
			break;		/* it has come with an error */
		if (!has_come(e) && runs_in_loop(n, e))
			return -EPROTO;
		if (!has_come(e))
			missing++;
		else if (!rdmamsg__chain_matches(n->chain, e->step,
						 len_of(ch, slot),
						 ch->got[slot].tag))
			return -EPROTO;
	}
	return missing;
}

/* ---- endpoints that have ended ----------------------------------------- */

/* Returns the first step that sends to one. */
static uint32_t sends_to_ended(const struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->steps[i].kind == STEP_SEND && !c->steps[i].end->ep)
			return i;
	return NO_STEP;
}

/* Returns the first step that waits for a message of one. */
static uint32_t missing_of_ended(struct native *n)
{
	uint32_t ret = NO_STEP;

	for (uint32_t i = 0; i < n->end_count && ret == NO_STEP; i++)
		if (!n->ends[i]->ep)
			ret = missing_of(n, n->ends[i]);
	return ret;
}

int rdmamsg__native_start(struct rdmamsg_chain *c)
{
	uint32_t step = sends_to_ended(c);
	int err = step == NO_STEP ? start(c) : 0;

	if (!err && step == NO_STEP)
		step = missing_of_ended(c->native);
	if (step != NO_STEP)
		rdmamsg__chain_fail(c, step, -ESHUTDOWN, "%s",
				    c->steps[step].end->why.text);
	return err;
}

/* ---- the end of a run -------------------------------------------------- */

static int tidy_channel(struct native *n, struct chain_ep *end)
{
	struct channel *ch = end->channel;

	ch->in_run = false;
	if (!end->ep) {
		/* it may have messages for the next operation of a team */
		if (!end->team)
			rdmamsg__channel_close(end);
		return 0;
	}
	if (ch->undrained > CHANNEL_SENDS / 2) {
		confirm(n, end);
		ch->undrained = 0;
	}
	return ch->posted - ch->used > CHANNEL_SLOTS / 2 ? 0 :
	       rdmamsg__channel_refill(ch);
}

/* Makes room for the next run. */
static int tidy(struct native *n)
{
	int err = 0;

	for (uint32_t i = 0; i < n->end_count && !err; i++)
		err = tidy_channel(n, n->ends[i]);
	for (uint32_t i = 0; i < n->chain->queue_count; i++) {
		struct nqueue *q = n->queues[i];

		if (q->undrained <= NATIVE_CALCS / 2)
			continue;
		drain(n, q->cq);
		q->undrained = 0;
	}
	return err;
}

/* Returns true if no run of the chain can begin any more. */
static bool is_over(const struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->use_count; i++)
		if (!c->uses[i].end->ep)
			return true;
	return false;
}

static void let_go(struct rdmamsg_chain *c)
{
	if (!c->native || c->native->runs || !is_over(c))
		return;
	rdmamsg__native_free(c->native);
	c->native = NULL;
}

/* The handlers may free n. */
static void finish(struct native *n)
{
	struct rdmamsg_chain *c = n->chain;
	const int ret = look(n);

	/* -EPROTO: n is gone */
	if (ret >= 0 && n->broken_at)
		return;		/* the look at it ends the run */
	if (ret >= 0) {
		n->runs = false;
		rdmamsg__native_results(n);
		if (tidy(n))
			broke(n, NULL, IBV_WC_LOC_QP_OP_ERR);
		rdmamsg__chain_finish(c);
		let_go(c);
	}
	/* in the loop there is no reason to wait for the settling */
	if (c->state == CHAIN_ENDED)
		rdmamsg__chain_tell(c);
}

void rdmamsg__native_completed(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	struct native *n = rdmamsg__handle_of(&ctx->chains->natives,
					      (uint32_t)wc->wr_id);

	if (!n || !n->runs)
		return;
	if (unlikely(wc->status != IBV_WC_SUCCESS))
		broke(n, NULL, wc->status);
	else
		finish(n);
}

void rdmamsg__native_spoil(struct rdmamsg_chain *c)
{
	struct chain_ep *ends[NATIVE_ENDS];
	struct native *n = c->native;
	uint32_t count;

	if (!n || !n->runs)
		return;
	c->native = NULL;
	count = n->end_count;
	memcpy(ends, n->ends, sizeof(ends));
	/* no queue can be destroyed while a request waits for it */
	for (uint32_t i = 0; i < count; i++)
		rdmamsg__channel_stop(ends[i]->channel);
	rdmamsg__native_free(n);
	for (uint32_t i = 0; i < count; i++)
		rdmamsg__chain_spoil_end(ends[i]);
}

bool rdmamsg__native_needs(struct chain_ep *end)
{
	struct native *n = end->busy ? end->busy->native : NULL;

	if (end->channel && !end->busy)
		rdmamsg__channel_close(end);
	return end->channel && end->channel->in_run && n &&
	       missing_of(n, end) != NO_STEP;
}

/* The same as runs_in_loop(), the other way round. */
static bool runs_natively(struct native *n, uint32_t step)
{
	struct rdmamsg_chain *c = n->chain;
	const struct step *s = &c->steps[step];
	const struct channel *ch;
	uint32_t slot;

	if (s->kind != STEP_RECV || !s->end->channel)
		return false;
	receive(n, s->end);
	ch = s->end->channel;
	slot = ch->used % CHANNEL_SLOTS;
	return ch->arrived != ch->used &&
	       rdmamsg__team_same_number(ch->got[slot].tag, s->tag) &&
	       !rdmamsg__chain_matches(c, step, ch->got[slot].len,
				       ch->got[slot].tag);
}

static void look_at_loop(struct native *n)
{
	struct rdmamsg_chain *c = n->chain;

	if (!c->team || c->state != CHAIN_RUNS)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		if (runs_natively(n, i))
			return;
	rdmamsg__timer_set(&n->ctx->loop.timers, &n->look, LOOK_MS);
}

static struct dev *any_dev(const struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->steps[i].end && c->steps[i].end->channel)
			return c->steps[i].end->channel->dev;
	return NULL;
}

void rdmamsg__native_watch(struct rdmamsg_chain *c)
{
	struct dev *dev = c->native ? NULL : any_dev(c);

	if (dev && rdmamsg__try(rdmamsg__native_open(c, dev, &c->native)))
		log_info("team: an operation in the loop is not watched: %s",
			 rdmamsg__text());
	if (c->native && c->native->look.pos < 0)
		rdmamsg__timer_set(&c->ctx->loop.timers, &c->native->look,
				   LOOK_MS);
}

void rdmamsg__natives_let_go(struct chain_ep *end)
{
	struct list *n;

	list_for_each(n, &end->uses)
		let_go(list_entry(n, struct chain_use, node)->chain);
}

/* A channel breaks if the peer dies, and then the endpoint soon tells why. */
static void give_up(struct native *n)
{
	struct rdmamsg_chain *c = n->chain;
	char text[sizeof(n->broken_text)];

	memcpy(text, n->broken_text, sizeof(text));
	if (c->team)
		rdmamsg__team_broken(c->team, n->broken_end ?
				     n->broken_end->rank : c->team->rank, text);
	else
		rdmamsg__chain_fail(c, NO_STEP, -EIO, "chain: a channel has "
				    "failed: %s", text);
}

void rdmamsg__native_look(struct timer *timer)
{
	struct native *n = list_entry(timer, struct native, look);

	if (!n->runs) {
		look_at_loop(n);
		return;
	}
	if (!n->broken_at && look(n) < 0)
		return;		/* n is gone */
	for (uint32_t i = 0; i < n->end_count; i++)
		confirm(n, n->ends[i]);
	if (n->broken_at && rdmamsg__now_ms() - n->broken_at >= GRACE_MS)
		give_up(n);
	else
		rdmamsg__timer_set(&n->ctx->loop.timers, &n->look, LOOK_MS);
}
