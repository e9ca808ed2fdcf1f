/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Native runs: the steps of a chain with one queue become requests. A step that
 * receives leaves its message in the slot, and later steps use it there. A
 * calculation has a new place for its result. So nothing is overwritten that a
 * send may still read.
 */
#include "chain/native.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/team.h"
#include "device/cross.h"
#include "device/device.h"
#include "wire/team.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#define LOOK_MS		100
#define GRACE_MS	3000	/* for the endpoint to tell why */
#define BATCH		16

/* ---- places ------------------------------------------------------------ */

/* The device calculates in network order. */
static void copy(const struct native *n, uint8_t *to, const uint8_t *from,
		 size_t len)
{
	uint64_t x;

	if (!n->swaps) {
		memcpy(to, from, len);
		return;
	}
	for (size_t i = 0; i < len; i += sizeof(x)) {
		memcpy(&x, from + i, sizeof(x));
		x = htobe64(x);
		memcpy(to + i, &x, sizeof(x));
	}
}

static struct place *find_place(struct native *n, const void *user)
{
	for (uint32_t i = 0; i < n->place_count; i++)
		if (n->places[i].user == user)
			return &n->places[i];
	return NULL;
}

static uint8_t *new_area(struct native *n, size_t len)
{
	uint8_t *ret = n->areas + n->area_used;

	n->area_used += len;
	return ret;
}

/* The step reads what the program has at 'user'. */
static uint8_t *source(struct native *n, const void *user, size_t len)
{
	struct place *p = find_place(n, user);

	if (p)
		return p->at;
	p = &n->places[n->place_count++];
	*p = (struct place){ .user = user, .at = new_area(n, len), .len = len };
	copy(n, p->at, user, len);
	return p->at;
}

/* The step's result for 'user' will be here. */
static void result(struct native *n, const void *user, uint8_t *at, size_t len)
{
	struct place *p = find_place(n, user);

	if (!p)
		p = &n->places[n->place_count++];
	*p = (struct place){
		.user = user, .at = at, .len = len, .result = true,
	};
}

static void copy_results(const struct native *n)
{
	for (uint32_t i = 0; i < n->place_count; i++) {
		const struct place *p = &n->places[i];

		if (p->result)
			copy(n, (uint8_t *)(uintptr_t)p->user, p->at, p->len);
	}
}

/* ---- steps ------------------------------------------------------------- */

/*
 * Waits for all steps before: for the last mark, and for the messages that have
 * no mark yet, because no calculation has needed them.
 */
static void wait_for_all(const struct native *n, const struct cross *c)
{
	if (n->marks != n->first_mark)
		rdmamsg__cross_wait(c, false, n->mark_num, n->marks);
	for (uint32_t i = n->unmarked; i < n->expected_count; i++) {
		const struct expected *e = &n->expected[i];

		rdmamsg__cross_wait(c, false, n->channels[e->rank].recv_num,
				    e->index + 1);
	}
}

static int post_send(struct native *n, const struct step *s)
{
	struct channel *ch = &n->channels[s->end->rank];
	struct ibv_sge sge = { .length = (uint32_t)s->len };

	if (s->len) {
		sge.addr = (uintptr_t)source(n, s->a, s->len);
		sge.lkey = n->mr->lkey;
	}
	rdmamsg__cross_begin(&ch->cross, 0);
	wait_for_all(n, &ch->cross);
	rdmamsg__cross_send(&ch->cross, true, s->tag, s->len ? &sge : NULL);
	ch->sent++;
	n->targets |= 1ull << s->end->rank;
	return rdmamsg__cross_end(&ch->cross);
}

/* Whoever needs the message waits for it. */
static void add_recv(struct native *n, const struct step *s, uint32_t number)
{
	struct channel *ch = &n->channels[s->end->rank];
	const uint32_t index = ch->used++;

	n->expected[n->expected_count++] = (struct expected){
		.step = number, .rank = s->end->rank, .index = index,
	};
	if (s->len)
		result(n, s->dst, ch->slots +
		       index % NATIVE_SLOTS * NATIVE_BYTES, s->len);
}

static enum cross_op op_of(const struct step *s)
{
	switch ((enum rdmamsg_calc_op)s->op) {
	case RDMAMSG_CALC_ADD:
		return CROSS_ADD;
	case RDMAMSG_CALC_AND:
		return CROSS_AND;
	case RDMAMSG_CALC_OR:
		return CROSS_OR;
	default:
		return CROSS_XOR;
	}
}

static int post_calc(struct native *n, const struct step *s)
{
	const size_t len = s->len * sizeof(uint64_t);
	const uint8_t *a, *b;
	uint8_t *to;

	if (!len)
		return 0;
	a = source(n, s->a, len);
	b = source(n, s->b, len);
	to = new_area(n, len);
	rdmamsg__cross_begin(&n->queue, 0);
	wait_for_all(n, &n->queue);
	for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
		const struct cross_calc calc = {
			.op = op_of(s), .a = (uintptr_t)a + at,
			.b = (uintptr_t)b + at, .lkey = n->mr->lkey,
			.to = (uintptr_t)to + at, .rkey = n->mr->rkey,
		};

		rdmamsg__cross_calc(&n->queue, at + sizeof(uint64_t) == len,
				    &calc);
	}
	n->marks++;
	n->unmarked = n->expected_count;
	result(n, s->dst, to, len);
	return rdmamsg__cross_end(&n->queue);
}

static int post_end(struct native *n)
{
	rdmamsg__cross_begin(&n->end, (uint64_t)CHAIN_KEY << 32 | n->handle);
	for (uint64_t left = n->targets; left; left &= left - 1) {
		const struct channel *ch =
			&n->channels[__builtin_ctzll(left)];

		rdmamsg__cross_wait(&n->end, false, ch->send_num, ch->sent);
	}
	wait_for_all(n, &n->end);
	/* a wait for what has come, because the last one completes */
	rdmamsg__cross_wait(&n->end, true, n->mark_num, n->first_mark);
	return rdmamsg__cross_end(&n->end);
}

static int post_step(struct native *n, uint32_t number)
{
	const struct step *s = &n->team->chain->steps[number];

	switch ((enum step_kind)s->kind) {
	case STEP_SEND:
		return post_send(n, s);
	case STEP_RECV:
		add_recv(n, s, number);
		return 0;
	default:
		return post_calc(n, s);
	}
}

int rdmamsg__native_start(struct native *n, bool swaps)
{
	struct rdmamsg_chain *c = n->team->chain;
	struct timers *timers = &n->ctx->loop.timers;
	int err = 0;

	n->runs = true;
	n->swaps = swaps;
	n->first_mark = n->marks;
	n->area_used = 0;
	n->place_count = n->expected_count = n->unmarked = 0;
	n->targets = 0;
	rdmamsg__chain_hold(c);
	for (uint32_t i = c->queues[0].first; i != NO_STEP && !err;
	     i = c->steps[i].next)
		err = post_step(n, i);
	if (!err)
		err = post_end(n);
	if (n->look.pos < 0)
		rdmamsg__timer_set(timers, &n->look, LOOK_MS);
	return err ? rdmamsg__fail(err, "posting requests of a team: %s",
				   strerror(-err)) : 0;
}

/* ---- messages and errors ----------------------------------------------- */

static void broke(struct native *n, uint32_t rank, enum ibv_wc_status status)
{
	if (n->broken_at)
		return;
	n->broken_at = rdmamsg__now_ms();
	n->broken_rank = rank;
	(void)snprintf(n->broken_text, sizeof(n->broken_text), "%s",
		       rdmamsg__wc_text(status));
}

/* Drops the completions of sends. */
static void drain(struct native *n, struct ibv_cq *cq, uint32_t rank)
{
	struct ibv_wc wc[BATCH];
	int got;

	do {
		got = ibv_poll_cq(cq, BATCH, wc);
		for (int i = 0; i < got; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				broke(n, rank, wc[i].status);
	} while (got == BATCH);
}

static void receive(struct native *n, uint32_t rank)
{
	struct channel *ch = &n->channels[rank];
	struct ibv_wc wc[NATIVE_SLOTS];
	const int got = ibv_poll_cq(ch->recv_cq, NATIVE_SLOTS, wc);

	for (int i = 0; i < got; i++) {
		const uint32_t slot = ch->arrived++ % NATIVE_SLOTS;

		if (wc[i].status != IBV_WC_SUCCESS)
			broke(n, rank, wc[i].status);
		ch->got[slot].len = wc[i].byte_len;
		ch->got[slot].tag = be32toh(wc[i].imm_data);
	}
}

static bool has_come(const struct native *n, const struct expected *e)
{
	return (int32_t)(n->channels[e->rank].arrived - e->index) > 0;
}

/* Returns false if the message is of another operation, which ends the run. */
static bool check(const struct native *n, const struct expected *e)
{
	const struct channel *ch = &n->channels[e->rank];
	const uint32_t slot = e->index % NATIVE_SLOTS;

	return rdmamsg__chain_matches(n->team->chain, e->step,
				      ch->got[slot].len, ch->got[slot].tag);
}

/*
 * Looks at what has come for the run. Returns how many messages are missing, or
 * -EPROTO if the run has been ended.
 */
static int look(struct native *n)
{
	int missing = 0;

	for (uint32_t i = 0; i < n->expected_count; i++) {
		const struct expected *e = &n->expected[i];

		if (!has_come(n, e))
			receive(n, e->rank);
		if (n->broken_at)
			return 0;
		if (!has_come(n, e))
			missing++;
		else if (!check(n, e))
			return -EPROTO;
	}
	return missing;
}

bool rdmamsg__native_needs(struct native *n, uint32_t rank)
{
	for (uint32_t i = 0; n->runs && i < n->expected_count; i++) {
		const struct expected *e = &n->expected[i];

		if (e->rank != rank)
			continue;
		receive(n, rank);
		if (!has_come(n, e))
			return true;
	}
	return false;
}

/* ---- the end of a run -------------------------------------------------- */

static int refill(struct native *n)
{
	int err = 0;

	for (uint32_t i = 0; i < n->expected_count && !err; i++)
		err = rdmamsg__channel_refill(n,
			&n->channels[n->expected[i].rank]);
	for (uint64_t left = n->targets; left; left &= left - 1) {
		const uint32_t rank = (uint32_t)__builtin_ctzll(left);

		drain(n, n->channels[rank].send_cq, rank);
	}
	drain(n, n->mark_cq, n->team->rank);
	return err;
}

/* The handlers may free n. */
static void finish(struct native *n)
{
	struct rdmamsg_chain *c = n->team->chain;
	const int ret = look(n);
	int err;

	if (n->broken_at)
		return;		/* the look at it tells the team */
	n->runs = false;
	if (!ret) {
		copy_results(n);
		err = refill(n);
		if (err)
			broke(n, n->team->rank, IBV_WC_LOC_QP_OP_ERR);
		rdmamsg__chain_finish(c);
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
		broke(n, n->team->rank, wc->status);
	else
		finish(n);
}

/*
 * A channel breaks if the peer dies, and then the endpoint soon tells why.
 */
static void give_up(struct native *n)
{
	char text[sizeof(n->broken_text)];

	memcpy(text, n->broken_text, sizeof(text));
	rdmamsg__team_broken(n->team, n->broken_rank, text);
}

void rdmamsg__native_look(struct timer *timer)
{
	struct native *n = list_entry(timer, struct native, look);

	if (!n->runs)
		return;
	if (!n->broken_at && look(n) < 0) {
		n->runs = false;
		return;			/* the settling tells the team */
	}
	if (n->broken_at && rdmamsg__now_ms() - n->broken_at >= GRACE_MS) {
		give_up(n);
		return;
	}
	rdmamsg__timer_set(&n->ctx->loop.timers, &n->look, LOOK_MS);
}
