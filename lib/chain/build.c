/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains: created, filled with steps, freed. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/op.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/meet.h"
#include "chain/native.h"
#include "session/ep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/post.h>

#define STEPS_FEW	16

static const struct queue no_queue = {
	.first = NO_STEP, .last = NO_STEP, .head = NO_STEP,
};

static void timed_out(struct timer *t)
{
	struct rdmamsg_chain *c = list_entry(t, struct rdmamsg_chain, timer);

	rdmamsg__chain_fail(c, NO_STEP, -ETIMEDOUT, "chain: %u ms "
			    "(timeout_ms) have passed", c->opts.timeout_ms);
}

struct rdmamsg_chain *rdmamsg__chain_new(struct rdmamsg *ctx)
{
	struct rdmamsg_chain *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ctx = ctx;
	c->opts.timeout_ms = RDMAMSG_NONE;
	c->end.size = sizeof(c->end);
	list_init(&c->node);
	list_init(&c->ended_node);
	rdmamsg__timer_init(&c->timer, timed_out);
	for (uint32_t i = 0; i < RDMAMSG_CHAIN_QUEUES; i++)
		c->queues[i] = no_queue;
	return c;
}

void rdmamsg__chain_delete(struct rdmamsg_chain *c)
{
	rdmamsg__chain_stop(c);
	rdmamsg__chain_unwait(c);
	(void)rdmamsg__meeting_free(c);
	rdmamsg__native_free(c->native);
	for (uint32_t i = 0; i < c->use_count; i++) {
		list_del(&c->uses[i].node);
		rdmamsg__chain_ep_put(c->uses[i].end);
	}
	if (c->opts.timeout_ms != RDMAMSG_NONE)
		rdmamsg__timers_release(&c->ctx->loop.timers, 1);
	list_del(&c->node);
	free(c->uses);
	free(c->steps);
	free(c);
}

void rdmamsg__chain_clear(struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->queue_count; i++)
		c->queues[i] = no_queue;
	c->count = c->queue_count = 0;
	c->managed = 0;
}

int rdmamsg__chain_room(struct rdmamsg_chain *c, uint32_t n)
{
	uint32_t room = max(c->room, (uint32_t)STEPS_FEW);
	struct step *steps;

	if (n > RDMAMSG_CHAIN_STEPS - c->count)
		return rdmamsg__fail(-ENOSPC, "chain: more than %u steps",
				     RDMAMSG_CHAIN_STEPS);
	if (c->count + n <= c->room)
		return 0;
	while (room < c->count + n)
		room *= 2;
	steps = realloc(c->steps, room * sizeof(*steps));
	if (!steps)
		return rdmamsg__fail(-ENOMEM, "chain: no memory for %u steps",
				     room);
	c->steps = steps;
	c->room = room;
	return 0;
}

/*
 * The uses of the chain have a new address, and keep their places in the lists
 * of their endpoints. No list has two uses of one chain.
 */
static void relink(struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->use_count; i++) {
		struct list *n = &c->uses[i].node;

		n->prev->next = n->next->prev = n;
	}
}

int rdmamsg__chain_use(struct rdmamsg_chain *c, struct chain_ep *end,
		       struct chain_use **ret)
{
	struct chain_use *uses;
	uint32_t room;

	for (uint32_t i = 0; i < c->use_count; i++) {
		if (c->uses[i].end == end) {
			*ret = &c->uses[i];
			return 0;
		}
	}
	if (c->use_count == c->use_room) {
		room = max(2 * c->use_room, 4u);
		uses = realloc(c->uses, room * sizeof(*uses));
		if (!uses)
			return rdmamsg__fail(-ENOMEM, "chain: no memory for an "
					     "endpoint");
		c->uses = uses;
		c->use_room = room;
		relink(c);
	}
	end->refs++;
	*ret = &c->uses[c->use_count++];
	**ret = (struct chain_use){
		.chain = c, .end = end, .sends = NO_QUEUE, .receives = NO_QUEUE,
	};
	list_add_tail(&end->uses, &(*ret)->node);
	return 0;
}

uint32_t rdmamsg__chain_add(struct rdmamsg_chain *c, uint32_t queue,
			    const struct step *s)
{
	struct queue *q = &c->queues[queue];
	uint32_t number = c->count++;

	c->steps[number] = *s;
	c->steps[number].next = NO_STEP;
	if (q->count++)
		c->steps[q->last].next = number;
	else
		q->first = number;
	q->last = number;
	c->queue_count = max(c->queue_count, queue + 1);
	return number;
}

const char *rdmamsg__step_text(const struct rdmamsg_chain *c, uint32_t number,
			       char *buf, size_t size)
{
	const struct step *s = &c->steps[number];

	switch ((enum step_kind)s->kind) {
	case STEP_SEND:
		(void)snprintf(buf, size, "step %u (send of %zu bytes)", number,
			       s->len);
		break;
	case STEP_RECV:
		(void)snprintf(buf, size, "step %u (receive of %zu bytes)",
			       number, s->len);
		break;
	case STEP_WAIT:
		(void)snprintf(buf, size, "step %u (wait for %u of queue %u)",
			       number, s->n, s->other);
		break;
	case STEP_ENABLE:
		(void)snprintf(buf, size, "step %u (enable %u of queue %u)",
			       number, s->n, s->other);
		break;
	case STEP_CALC:
		(void)snprintf(buf, size, "step %u (calculate %zu elements)",
			       number, s->len);
		break;
	}
	return buf;
}

/* ---- public ----------------------------------------------------------- */

static int set_options(struct rdmamsg_chain *c,
		       const struct rdmamsg_chain_options *opts)
{
	int ret = rdmamsg__opts_copy(&c->opts, sizeof(c->opts), opts,
				     "rdmamsg_chain_options");

	if (!ret)
		ret = rdmamsg__opts_copy(&c->on, sizeof(c->on),
					 c->opts.handlers,
					 "rdmamsg_chain_handlers");
	if (!ret && c->opts.path > RDMAMSG_CHAIN_NATIVE)
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_chain_create: path %u: "
				    "there is none", c->opts.path);
	if (!c->opts.timeout_ms || ret)
		c->opts.timeout_ms = RDMAMSG_NONE;
	if (ret || c->opts.timeout_ms == RDMAMSG_NONE)
		return ret;
	ret = rdmamsg__timers_reserve(&c->ctx->loop.timers, 1);
	if (ret) {
		c->opts.timeout_ms = RDMAMSG_NONE;
		return rdmamsg__fail(ret, "no memory for a timer");
	}
	return 0;
}

int rdmamsg_chain_create(struct rdmamsg *ctx,
			 const struct rdmamsg_chain_options *opts,
			 struct rdmamsg_chain **ret_chain)
{
	int ret = ctx && ret_chain ? rdmamsg__ctx_check(ctx) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_chain_create: %s is NULL",
				ctx ? "ret" : "ctx");
	struct rdmamsg_chain *c;

	if (ret)
		return ret;
	c = rdmamsg__chain_new(ctx);
	if (!c)
		return rdmamsg__fail(-ENOMEM, "no memory for a chain");
	ret = set_options(c, opts);
	if (ret) {
		rdmamsg__chain_delete(c);
		return ret;
	}
	list_add_tail(&ctx->chains->all, &c->node);
	*ret_chain = c;
	return 0;
}

/* In a forked child the chain is the parent's. */
static bool is_foreign(const struct rdmamsg_chain *c)
{
	return rdmamsg__try(rdmamsg__ctx_check(c->ctx)) != 0;
}

void rdmamsg_chain_destroy(struct rdmamsg_chain *c)
{
	if (c && !is_foreign(c))
		rdmamsg__chain_delete(c);
}

void *rdmamsg_chain_user(const struct rdmamsg_chain *c)
{
	return c ? c->opts.user : NULL;
}

/* Checks what all steps have in common, and makes room for a step. */
static int begin(struct rdmamsg_chain *c, uint32_t queue)
{
	int ret = c ? rdmamsg__ctx_check(c->ctx) :
		  rdmamsg__fail(-EINVAL, "chain: the chain is NULL");

	if (ret)
		return ret;
	if (c->state != CHAIN_IDLE)
		return rdmamsg__fail(-EBUSY, "chain: it runs until on_done");
	if (queue >= RDMAMSG_CHAIN_QUEUES)
		return rdmamsg__fail(-EINVAL, "chain: queue %u: queues are 0 "
				     "to %u", queue, RDMAMSG_CHAIN_QUEUES - 1);
	return rdmamsg__chain_room(c, 1);
}

static int append(struct rdmamsg_chain *c, uint32_t queue, const struct step *s)
{
	c->checked = false;
	c->fits = FITS_UNKNOWN;
	return (int)rdmamsg__chain_add(c, queue, s);
}

/* The endpoint's messages go in the order of one queue. */
static int claim(uint8_t *owner, uint32_t queue, const char *what)
{
	if (*owner != NO_QUEUE && *owner != queue)
		return rdmamsg__fail(-EINVAL, "chain: queue %u %s this "
				     "endpoint already, so queue %u cannot",
				     *owner, what, queue);
	*owner = (uint8_t)queue;
	return 0;
}

static int find_use(struct rdmamsg_chain *c, struct rdmamsg_ep *ep,
		    struct chain_use **ret)
{
	struct chain_ep *end;
	int err = rdmamsg__chain_own(c->ctx, ep, &end);

	if (err)
		return err;
	if (end->team)
		return rdmamsg__fail(-EBUSY, "chain: the endpoint is in a "
				     "team");
	return rdmamsg__chain_use(c, end, ret);
}

/* No cookie: on_done tells of the run, and no call of one step. */
static const struct op_taker taker = {
	.call = "rdmamsg_chain_add", .kinds = OP_KIND(SEND),
	.send = OP_HAS(sge) | OP_HAS(count) | OP_HAS(tag),
};

static int take_send(const struct rdmamsg_op *given, struct step *s)
{
	struct iovec piece[RDMAMSG_SEGMENTS_MAX] = { { NULL, 0 } };
	struct rdmamsg_op op;
	int ret = rdmamsg__op_take(&op, given, &taker);

	if (!ret)
		ret = rdmamsg__op_plain(&op, &taker, piece);
	if (ret)
		return ret;
	if (op.count > 1)
		return rdmamsg__fail(-EOPNOTSUPP, "%s: %u entries: a step "
				     "sends from one", taker.call, op.count);
	if (!piece->iov_base && piece->iov_len)
		return rdmamsg__fail(-EINVAL, "%s: data is NULL", taker.call);
	*s = (struct step){
		.kind = STEP_SEND, .tag = op.tag, .len = piece->iov_len,
		.a = piece->iov_base,
	};
	return 0;
}

int rdmamsg_chain_add(struct rdmamsg_chain *c, uint32_t queue,
		      struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	struct chain_use *use;
	struct step s;
	int ret = begin(c, queue);

	if (!ret)
		ret = take_send(op, &s);
	if (!ret)
		ret = find_use(c, ep, &use);
	if (!ret)
		ret = claim(&use->sends, queue, "sends on");
	if (ret)
		return ret;
	s.end = use->end;
	return append(c, queue, &s);
}

int rdmamsg_chain_recv(struct rdmamsg_chain *c, uint32_t queue,
		       struct rdmamsg_ep *ep, void *buf, size_t len,
		       uint32_t tag)
{
	struct step s = { .kind = STEP_RECV, .tag = tag, .len = len,
			  .dst = buf };
	struct chain_use *use;
	int ret = begin(c, queue);

	if (!ret && !buf && len)
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_chain_recv: buf is NULL");
	if (!ret)
		ret = find_use(c, ep, &use);
	if (!ret)
		ret = claim(&use->receives, queue, "receives from");
	if (ret)
		return ret;
	s.end = use->end;
	return append(c, queue, &s);
}

static int other_queue(struct rdmamsg_chain *c, uint32_t queue, uint32_t other)
{
	int ret = begin(c, queue);

	if (ret || other < RDMAMSG_CHAIN_QUEUES)
		return ret;
	return rdmamsg__fail(-EINVAL, "chain: queue %u: queues are 0 to %u",
			     other, RDMAMSG_CHAIN_QUEUES - 1);
}

int rdmamsg_chain_wait(struct rdmamsg_chain *c, uint32_t queue, uint32_t other,
		       uint32_t n)
{
	const struct step s = { .kind = STEP_WAIT, .other = (uint8_t)other,
				.n = n };
	int ret = other_queue(c, queue, other);

	return ret ? ret : append(c, queue, &s);
}

int rdmamsg_chain_enable(struct rdmamsg_chain *c, uint32_t queue,
			 uint32_t other, uint32_t n)
{
	const struct step s = { .kind = STEP_ENABLE, .other = (uint8_t)other,
				.n = n };
	int ret = other_queue(c, queue, other);

	if (ret)
		return ret;
	c->managed |= 1ull << other;
	return append(c, queue, &s);
}

int rdmamsg_chain_calc(struct rdmamsg_chain *c, uint32_t queue,
		       enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
		       void *dst, const void *a, const void *b, size_t count)
{
	const struct step s = { .kind = STEP_CALC, .op = (uint8_t)op,
				.type = (uint8_t)type, .len = count,
				.dst = dst, .a = a, .b = b };
	int ret = begin(c, queue);

	if (ret)
		return ret;
	if ((uint32_t)op > RDMAMSG_CALC_MAX ||
	    (uint32_t)type > RDMAMSG_CALC_DOUBLE)
		return rdmamsg__fail(-EINVAL, "rdmamsg_chain_calc: operation "
				     "%u, type %u: there is none", op, type);
	if (count > SIZE_MAX / 8 || (count && (!dst || !a || !b)))
		return rdmamsg__fail(-EINVAL, "rdmamsg_chain_calc: dst, a or b "
				     "is NULL, or count %zu is too large",
				     count);
	return append(c, queue, &s);
}
