/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs of chains. A queue goes on until its head step waits: for a message, for
 * room to send, for another queue, or to be enabled. The event wakes the queue.
 * on_done is called in the loop, or when the context settles, so never inside a
 * call of the program.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/carry.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/meet.h"
#include "chain/native.h"
#include "chain/team.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/chain.h>

/* ---- the end of a run ------------------------------------------------- */

void rdmamsg__chain_spoil_end(struct chain_ep *end)
{
	rdmamsg__channel_close(end);
	end->met = MET_OVER;
	if (end->ep && !end->team)
		rdmamsg__ep_abort(end->ep, RDMAMSG_CAUSE_ABORTED, -ECANCELED,
				  "a native run of a chain with this endpoint "
				  "ended early");
}

/* The peers may know something else than this side. */
static void spoil_meeting(struct rdmamsg_chain *c)
{
	const bool begun = rdmamsg__meeting_free(c);

	for (uint32_t i = 0; begun && i < c->use_count; i++)
		if (c->uses[i].end->met == MET_NOT)
			rdmamsg__chain_spoil_end(c->uses[i].end);
}

/* Takes the chain from its endpoints. Only head steps can wait for one. */
static void detach(struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->queue_count && c->left; i++) {
		uint32_t head = c->queues[i].head;
		struct chain_ep *end = head == NO_STEP ? NULL :
				       c->steps[head].end;

		if (end)
			end->receives = end->sends = NO_QUEUE;
	}
	rdmamsg__native_spoil(c);
	if (c->carried)
		rdmamsg__carry_spoil(c);
	if (c->meets)
		spoil_meeting(c);
	for (uint32_t i = 0; i < c->use_count; i++)
		c->uses[i].end->busy = NULL;
	if (c->opts.timeout_ms != RDMAMSG_NONE)
		rdmamsg__timer_stop(&c->ctx->loop.timers, &c->timer);
}

static void end_run(struct rdmamsg_chain *c)
{
	struct rdmamsg *ctx = c->ctx;

	detach(c);
	c->ready = 0;
	c->state = CHAIN_ENDED;
	list_add_tail(&ctx->chains->ended, &c->ended_node);
	if (rdmamsg__loop_idle(&ctx->loop))
		rdmamsg__loop_kick(&ctx->loop);
	ctx->loop.work = true;
}

void rdmamsg__chain_fail(struct rdmamsg_chain *c, uint32_t step, int status,
			 const char *fmt, ...)
{
	char text[80] = "";
	va_list ap;
	int len = 0;

	if (c->state != CHAIN_RUNS)
		return;
	c->end.status = status;
	c->end.step = step == NO_STEP ? RDMAMSG_NONE : step;
	if (step != NO_STEP && !c->team)
		len = snprintf(c->end.text, sizeof(c->end.text), "chain: %s: ",
			       rdmamsg__step_text(c, step, text,
						  sizeof(text)));
	va_start(ap, fmt);
	vsnprintf(c->end.text + len, sizeof(c->end.text) - (size_t)len, fmt,
		  ap);
	va_end(ap);
	end_run(c);
}

void rdmamsg__chain_stop(struct rdmamsg_chain *c)
{
	if (c->state == CHAIN_RUNS)
		detach(c);
	list_del(&c->ended_node);
	c->ready = 0;
	c->state = CHAIN_IDLE;
}

/* ---- steps ------------------------------------------------------------ */

/*
 * Copies the message, so that the memory of the step is free on return. Returns
 * 0 or -errno, as rdmamsg_send().
 */
static int send_copy(const struct step *s)
{
	struct rdmamsg_ep *ep = s->end->ep;
	struct rdmamsg_msg *msg = NULL;
	int ret;

	if (unlikely(!ep))
		return rdmamsg__fail(-ESHUTDOWN, "%s", s->end->why.text);
	if (likely(s->len <= ep->tuning.max_copy))
		return rdmamsg_send(ep, s->a ? s->a : "", s->len, s->tag, NULL);
	ret = rdmamsg_msg_alloc(ep, s->len, &msg);
	if (ret)
		return ret;
	memcpy(rdmamsg_msg_data(msg), s->a, s->len);
	ret = rdmamsg_msg_send(ep, msg, s->tag, NULL);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

static bool do_send(struct rdmamsg_chain *c, uint32_t queue, uint32_t number)
{
	const struct step *s = &c->steps[number];
	int ret;

	if (c->carried && s->end->channel)
		return rdmamsg__carry_send(c, queue, number);
	ret = rdmamsg__try(send_copy(s));
	if (likely(!ret))
		return true;
	if (ret == -EAGAIN)
		s->end->sends = (uint8_t)queue;
	else
		rdmamsg__chain_fail(c, number, ret, "%s", rdmamsg__text());
	return false;
}

bool rdmamsg__chain_matches(struct rdmamsg_chain *c, uint32_t number,
			    size_t len, uint32_t tag)
{
	const struct step *s = &c->steps[number];

	if (likely(len == s->len && tag == s->tag))
		return true;
	rdmamsg__chain_fail(c, number, -EPROTO, "the peer has sent %zu bytes "
			    "with tag %u instead of %zu bytes with tag %u",
			    len, tag, s->len, s->tag);
	return false;
}

/* Returns false if the message is not that of the step. */
static bool take(struct rdmamsg_chain *c, uint32_t number, const void *data,
		 size_t len, uint32_t tag)
{
	if (unlikely(len && !data)) {
		rdmamsg__chain_fail(c, number, -EINVAL, "the message is in a "
				    "layout: rdmamsg_layout_recv()");
		return false;
	}
	if (unlikely(!rdmamsg__chain_matches(c, number, len, tag)))
		return false;
	if (len)
		memcpy(c->steps[number].dst, data, len);
	return true;
}

static bool do_recv(struct rdmamsg_chain *c, uint32_t queue, uint32_t number)
{
	const struct step *s = &c->steps[number];
	const struct kept *k;
	bool ret;

	if (c->carried && s->end->channel)
		return rdmamsg__carry_recv(c, queue, number);
	k = rdmamsg__chain_next(s->end);
	if (k) {
		ret = take(c, number, k->msg ? k->msg->data : k->data, k->len,
			   k->tag);
		rdmamsg_msg_free(k->msg);
		return ret;
	}
	if (unlikely(!s->end->ep))
		rdmamsg__chain_fail(c, number, s->end->why.error ?
				    s->end->why.error : -ESHUTDOWN, "%s",
				    s->end->why.text);
	else
		s->end->receives = (uint8_t)queue;
	return false;
}

static bool do_wait(struct rdmamsg_chain *c, uint32_t queue,
		    const struct step *s)
{
	if (c->queues[s->other].done >= s->n)
		return true;
	c->queues[s->other].watchers |= 1ull << queue;
	return false;
}

static void enable(struct rdmamsg_chain *c, const struct step *s)
{
	struct queue *q = &c->queues[s->other];
	uint32_t n = s->n ? s->n : q->count;

	q->allowed = max(q->allowed, n);
	c->ready |= 1ull << s->other;
}

/* Returns true if the step is done. Else it waits, or the run has ended. */
static bool do_step(struct rdmamsg_chain *c, uint32_t queue, uint32_t number)
{
	const struct step *s = &c->steps[number];

	switch ((enum step_kind)s->kind) {
	case STEP_SEND:
		return do_send(c, queue, number);
	case STEP_RECV:
		return do_recv(c, queue, number);
	case STEP_WAIT:
		return do_wait(c, queue, s);
	case STEP_ENABLE:
		enable(c, s);
		break;
	case STEP_CALC:
		rdmamsg__calc((enum rdmamsg_calc_op)s->op,
			      (enum rdmamsg_calc_type)s->type, s->dst, s->a,
			      s->b, s->len);
		break;
	}
	return true;
}

/* The head step of the queue is done. */
static void advance(struct rdmamsg_chain *c, struct queue *q)
{
	q->done++;
	q->head = c->steps[q->head].next;
	c->left--;
	c->ready |= q->watchers;
	q->watchers = 0;
}

static void go_on(struct rdmamsg_chain *c)
{
	while (c->ready) {
		uint32_t queue = (uint32_t)__builtin_ctzll(c->ready);
		struct queue *q = &c->queues[queue];

		c->ready &= c->ready - 1;
		while (q->head != NO_STEP && q->done < q->allowed &&
		       do_step(c, queue, q->head))
			advance(c, q);
	}
	if (!c->left && c->state == CHAIN_RUNS &&
	    (!c->carried || rdmamsg__carry_ends(c)))
		end_run(c);
}

void rdmamsg__chain_wake(struct rdmamsg_chain *c, uint32_t queue)
{
	c->ready |= 1ull << queue;
	go_on(c);
}

void rdmamsg__chain_take(struct rdmamsg_chain *c, uint32_t queue,
			 struct rdmamsg_msg *msg)
{
	struct queue *q = &c->queues[queue];
	bool ret = take(c, q->head, msg->data, msg->len, msg->tag);

	rdmamsg_msg_free(msg);
	if (unlikely(!ret))
		return;
	advance(c, q);
	rdmamsg__chain_wake(c, queue);
	/* in the loop there is no reason to wait for the settling */
	if (c->state == CHAIN_ENDED)
		rdmamsg__chain_tell(c);
}

/* ---- the start -------------------------------------------------------- */

static void rewind_queues(struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->queue_count; i++) {
		struct queue *q = &c->queues[i];

		q->head = q->first;
		q->done = 0;
		q->allowed = c->managed >> i & 1 ? 0 : UINT32_MAX;
		q->watchers = 0;
		c->ready |= (uint64_t)(q->count != 0) << i;
	}
	c->left = c->count;
}

void rdmamsg__chain_hold(struct rdmamsg_chain *c)
{
	c->left = 0;
	c->end.status = 0;
	c->end.step = RDMAMSG_NONE;
	c->end.text[0] = '\0';
	c->state = CHAIN_RUNS;
	for (uint32_t i = 0; i < c->use_count; i++)
		c->uses[i].end->busy = c;
	if (c->opts.timeout_ms != RDMAMSG_NONE)
		rdmamsg__timer_set(&c->ctx->loop.timers, &c->timer,
				   c->opts.timeout_ms);
}

void rdmamsg__chain_finish(struct rdmamsg_chain *c)
{
	end_run(c);
}

void rdmamsg__chain_loop(struct rdmamsg_chain *c)
{
	rewind_queues(c);
	go_on(c);
}

void rdmamsg__chain_start(struct rdmamsg_chain *c)
{
	rdmamsg__chain_hold(c);
	rdmamsg__chain_loop(c);
}

/* ---- native runs ------------------------------------------------------- */

/* Returns the number of endpoints of the chain with this state. */
static uint32_t count_met(const struct rdmamsg_chain *c, enum met met)
{
	uint32_t ret = 0;

	for (uint32_t i = 0; i < c->use_count; i++)
		ret += c->uses[i].end->met == met;
	return ret;
}

/* Starts a native run. -EOPNOTSUPP: the chain does not run natively. */
static int try_natively(struct rdmamsg_chain *c)
{
	int err = -EOPNOTSUPP;

	if (c->fits == FITS_NO || count_met(c, MET_YES) != c->use_count)
		return err;
	err = rdmamsg__try(rdmamsg__native_start(c));
	if (err == -EOPNOTSUPP) {
		log_info("%s: it runs in the loop", rdmamsg__text());
		rdmamsg__native_free(c->native);
		c->native = NULL;
	}
	if (!err || err == -EOPNOTSUPP)
		c->fits = err ? FITS_NO : FITS_YES;
	return err;
}

/* Messages of endpoints that have met natively go over channels. */
static void run_met(struct rdmamsg_chain *c)
{
	int err;

	if (count_met(c, MET_OVER)) {
		rdmamsg__chain_fail(c, NO_STEP, -ESHUTDOWN, "chain: an "
				    "endpoint ends, because a run with it "
				    "ended early");
		return;
	}
	err = try_natively(c);
	if (err == -EOPNOTSUPP)
		err = rdmamsg__try(rdmamsg__carry_start(c));
	if (err)
		rdmamsg__chain_fail(c, NO_STEP, err, "%s", rdmamsg__text());
}

void rdmamsg__chain_met(struct rdmamsg_chain *c)
{
	if (c->team)
		rdmamsg__team_go(c->team);
	else if (count_met(c, MET_NO) == c->use_count)
		rdmamsg__chain_loop(c);
	else
		run_met(c);
}

/* Meets the peers of the endpoints that have not met yet. */
static int start_natively(struct rdmamsg_chain *c)
{
	const uint32_t count = count_met(c, MET_NOT);
	int err = count ? rdmamsg__meeting_new(c, count) : 0;

	if (err)
		return err;
	rdmamsg__chain_hold(c);
	for (uint32_t i = 0; i < c->use_count; i++)
		if (c->uses[i].end->met == MET_NOT)
			rdmamsg__meeting_add(c, c->uses[i].end);
	if (count)
		rdmamsg__meeting_start(c);
	else
		rdmamsg__chain_met(c);
	return 0;
}

/* Returns 0 if both sides take messages of this length. */
static int check_len(const struct rdmamsg_chain *c, uint32_t number)
{
	const struct step *s = &c->steps[number];
	uint32_t most;
	char text[80];

	if ((s->kind != STEP_SEND && s->kind != STEP_RECV) || !s->end->ep)
		return 0;
	most = s->kind == STEP_SEND ? s->end->ep->connect.peer.max_msg :
	       s->end->ep->opts.max_msg_size;
	if (s->len <= most)
		return 0;
	return rdmamsg__fail(-EMSGSIZE, "chain: %s: %s takes at most %u "
			     "(max_msg_size)",
			     rdmamsg__step_text(c, number, text, sizeof(text)),
			     s->kind == STEP_SEND ? "the peer" : "this side",
			     most);
}

int rdmamsg__chain_sizes(const struct rdmamsg_chain *c)
{
	int ret = 0;

	for (uint32_t i = 0; i < c->count && !ret; i++)
		ret = check_len(c, i);
	return ret;
}

static int check_ends(const struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->use_count; i++) {
		const struct chain_ep *end = c->uses[i].end;

		if (!end->ep)
			return rdmamsg__fail(-ESHUTDOWN, "chain: an endpoint "
					     "has ended: %s", end->why.text);
		if (end->busy || end->team)
			return rdmamsg__fail(-EBUSY, "chain: an endpoint is in "
					     "a %s", end->team ? "team" :
					     "chain that runs");
	}
	return 0;
}

int rdmamsg_chain_post(struct rdmamsg_chain *c)
{
	int ret = c ? rdmamsg__ctx_check(c->ctx) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_chain_post: chain is NULL");

	if (ret)
		return ret;
	if (c->state != CHAIN_IDLE)
		return rdmamsg__fail(-EBUSY, "rdmamsg_chain_post: it runs "
				     "until on_done");
	ret = rdmamsg__ctx_takes(c->ctx);
	if (!ret)
		ret = check_ends(c);
	if (!ret && !c->checked)
		ret = rdmamsg__chain_sizes(c);
	if (!ret && !c->checked)
		ret = rdmamsg__chain_check(c);
	if (ret)
		return ret;
	c->checked = true;
	if (c->opts.path == RDMAMSG_CHAIN_NATIVE)
		return start_natively(c);
	rdmamsg__chain_start(c);
	return 0;
}

uint32_t rdmamsg_chain_path(const struct rdmamsg_chain *c)
{
	if (!c || c->opts.path != RDMAMSG_CHAIN_NATIVE || !c->use_count ||
	    count_met(c, MET_NO) || c->fits == FITS_NO)
		return RDMAMSG_CHAIN_LOOP;
	return count_met(c, MET_NOT) || c->fits == FITS_UNKNOWN ?
	       RDMAMSG_CHAIN_AUTO : RDMAMSG_CHAIN_NATIVE;
}

void rdmamsg_chain_cancel(struct rdmamsg_chain *c)
{
	if (c && !rdmamsg__try(rdmamsg__ctx_check(c->ctx)))
		rdmamsg__chain_fail(c, NO_STEP, -ECANCELED, "chain: the "
				    "program has canceled it");
}
