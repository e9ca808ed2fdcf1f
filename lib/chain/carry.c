/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A carried run copies each message that it sends to memory of the channel, and
 * each that it receives from there. Two queue pairs wake the loop: each waits
 * for one queue of the channel, and completes on a queue that the loop polls.
 *
 * Waiting, as long as a run is carried:
 *	sent != confirmed  =>  wakes[SENDS] waits
 *	arrived < target   =>  wakes[RECEIVES] waits
 *
 * Two chains may send each other more than the slots of their channel before
 * they receive. So if few slots are left, the messages for later steps of the
 * run are kept in memory.
 */
#include "chain/carry.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "device/cq.h"
#include "device/cross.h"
#include "device/device.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CARRIES		(1u << 20)
#define WAKES_SENDS	(1u << 30)	/* beside CARRY_WAKES; else receives */
#define HALF		(CHANNEL_SLOTS / 2)
#define OUT_ROOM	((size_t)CHANNEL_SLOTS * CHANNEL_FIRST)
#define HEAD		(CHANNEL_FIRST - CHANNEL_BYTES)
#define GRACE_MS	3000		/* for the endpoint to tell why */

enum way { RECEIVES, SENDS, WAYS };

/* A message, or a piece of one, that has come before its step. */
struct piece {
	struct piece *next;
	uint32_t len, tag;
	uint8_t data[];
};

struct carry {
	struct rdmamsg *ctx;
	struct chain_ep *end;
	struct channel *channel;
	uint32_t number;		/* in wr_id */
	struct cq *cq;			/* of the context */
	struct cross wakes[WAYS];
	bool waits[WAYS];		/* wakes[] has a request */
	uint8_t *out;			/* slots of sends, by number */
	struct ibv_mr *mr;
	struct timer grace;
	enum ibv_wc_status broken;	/* IBV_WC_SUCCESS: it works */

	/* the run */
	uint8_t queues[WAYS];		/* that waits, or NO_QUEUE */
	uint32_t target;		/* channel->used when it has all */
	size_t received, sent;		/* bytes of the steps in progress */
	struct piece *kept, **last;
};

static struct carry *carry_of(const struct chain_ep *end)
{
	return end->channel ? end->channel->carry : NULL;
}

/* ---- opening and closing ----------------------------------------------- */

static void free_pieces(struct carry *y)
{
	struct piece *p;

	while ((p = y->kept)) {
		y->kept = p->next;
		free(p);
	}
	y->last = &y->kept;
}

void rdmamsg__carry_close(struct channel *ch)
{
	struct carry *y = ch->carry;

	if (!y)
		return;
	ch->carry = NULL;
	rdmamsg__timer_stop(&y->ctx->loop.timers, &y->grace);
	rdmamsg__timers_release(&y->ctx->loop.timers, 1);
	if (y->number)
		rdmamsg__handle_take(&y->ctx->chains->carries, y, y->number);
	for (int way = 0; way < WAYS; way++)
		rdmamsg__cross_close(ch->dev->device, &y->wakes[way]);
	if (y->cq)
		rdmamsg__cq_put(ch->dev, y->cq, WAYS);
	rdmamsg__channel_unmap(ch->dev, y->out, OUT_ROOM, y->mr);
	free_pieces(y);
	free(y);
}

/* The endpoint has not told why. */
static void give_up(struct timer *t)
{
	struct carry *y = list_entry(t, struct carry, grace);
	const struct chain_ep *end = y->end;
	struct rdmamsg_chain *c = end->busy;

	if (!c || !c->carried)
		return;
	if (end->ep)
		rdmamsg__chain_fail(c, NO_STEP, -EIO, "chain: a channel has "
				    "failed: %s", rdmamsg__wc_text(y->broken));
	else
		rdmamsg__chain_fail(c, NO_STEP, -ESHUTDOWN, "chain: an "
				    "endpoint has ended: %s", end->why.text);
}

static int open_parts(struct carry *y)
{
	struct dev *dev = y->channel->dev;
	int err = rdmamsg__handle_give(&y->ctx->chains->carries, y, 1, CARRIES,
				       &y->number);

	if (err)
		return rdmamsg__fail(err, "no memory for a carried run");
	err = rdmamsg__channel_memory(dev, OUT_ROOM, 0, &y->out, &y->mr);
	if (!err)
		err = rdmamsg__cq_get(dev, WAYS, VECTOR_ANY, false, &y->cq);
	for (int way = 0; way < WAYS && !err; way++)
		err = rdmamsg__channel_circle(dev, y->cq->ibv, 1,
					      &y->wakes[way]);
	return err;
}

/* Makes what carried runs of the endpoint need, unless it is there. */
static int open_carry(struct chain_ep *end)
{
	struct channel *ch = end->channel;
	struct carry *y = ch->carry ? NULL : calloc(1, sizeof(*y));
	int err;

	if (ch->carry)
		return 0;
	if (!y || rdmamsg__timers_reserve(&ch->dev->ctx->loop.timers, 1)) {
		free(y);
		return rdmamsg__fail(-ENOMEM, "no memory for a carried run");
	}
	y->ctx = ch->dev->ctx;
	y->end = end;
	y->channel = ch;
	y->last = &y->kept;
	rdmamsg__timer_init(&y->grace, give_up);
	ch->carry = y;
	err = open_parts(y);
	if (err)
		rdmamsg__carry_close(ch);
	return err;
}

/* ---- waiting ----------------------------------------------------------- */

/* A channel breaks if the peer dies, and then the endpoint soon tells why. */
static void broke(struct carry *y, enum ibv_wc_status status)
{
	if (y->broken != IBV_WC_SUCCESS || status == IBV_WC_SUCCESS)
		return;
	y->broken = status;
	rdmamsg__timer_set(&y->ctx->loop.timers, &y->grace,
			   y->end->ep ? GRACE_MS : 0);
}

static void poll(struct carry *y, enum way way)
{
	broke(y, way == SENDS ? rdmamsg__channel_poll_sends(y->channel) :
		 rdmamsg__channel_poll_receives(y->channel));
}

/*
 * Lets wakes[way] wait, if the run needs it. Half of the slots for sends are a
 * good deal of room, and the peer may hold back the last.
 */
static int await(struct carry *y, enum way way)
{
	const struct channel *ch = y->channel;
	const struct cross *to = &y->wakes[way];
	const uint32_t out = ch->sent - ch->confirmed;
	uint32_t num = ch->send_num, index = ch->sent - (out > HALF ? HALF : 0);
	int err;

	if (way == RECEIVES) {
		num = ch->recv_num;
		index = ch->arrived + 1;
	}
	if (y->waits[way] || y->broken != IBV_WC_SUCCESS ||
	    (way == SENDS ? !out : (int32_t)(y->target - ch->arrived) <= 0))
		return 0;
	rdmamsg__cross_begin(to, (uint64_t)CHAIN_KEY << 32 | CARRY_WAKES |
				 (way == SENDS ? WAKES_SENDS : 0) | y->number);
	rdmamsg__cross_wait(to, true, num, index);
	err = rdmamsg__cross_end(to);
	y->waits[way] = !err;
	return err;
}

/* Moves the message of a slot to memory. */
static int keep(struct carry *y)
{
	struct channel *ch = y->channel;
	const uint32_t slot = ch->used % CHANNEL_SLOTS;
	const uint32_t len = ch->got[slot].len;
	struct piece *p = malloc(sizeof(*p) + len);

	if (!p)
		return -ENOMEM;
	p->next = NULL;
	p->len = len;
	p->tag = ch->got[slot].tag;
	memcpy(p->data, rdmamsg__channel_slot(ch, slot), len);
	*y->last = p;
	y->last = &p->next;
	ch->used++;
	return 0;
}

/* Returns true if the slot of the next message has it. */
static bool has_come(const struct carry *y)
{
	return y->broken == IBV_WC_SUCCESS &&
	       rdmamsg__channel_has(y->channel, y->channel->used);
}

static int refill(struct channel *ch)
{
	return ch->posted - ch->used > HALF ? 0 : rdmamsg__channel_refill(ch);
}

/* Lets the peer send more, and the run wait for it. */
static void settle(struct carry *y, struct rdmamsg_chain *c)
{
	struct channel *ch = y->channel;
	int err = 0;

	while (!err && ch->posted - ch->arrived <= HALF && has_come(y) &&
	       ch->used != y->target)
		err = keep(y);
	if (!err)
		err = refill(ch);
	if (!err)
		err = await(y, RECEIVES);
	if (!err)
		err = await(y, SENDS);
	if (err)
		rdmamsg__chain_fail(c, NO_STEP, err, "chain: a message on a "
				    "channel: %s", strerror(-err));
}

/* ---- steps ------------------------------------------------------------- */

/* Returns true if another piece can be sent. */
static bool has_room(struct carry *y)
{
	const struct channel *ch = y->channel;

	if (ch->sent - ch->confirmed == CHANNEL_SLOTS)
		poll(y, SENDS);
	return y->broken == IBV_WC_SUCCESS &&
	       ch->sent - ch->confirmed < CHANNEL_SLOTS;
}

/* Sends the message of the step, or the next piece of it. */
static int put(struct carry *y, const struct step *s)
{
	struct channel *ch = y->channel;
	const size_t len = min(s->len - y->sent, (size_t)CHANNEL_BYTES);
	const size_t head = !y->sent && len != s->len ? HEAD : 0;
	uint8_t *const slot = y->out + (size_t)(ch->sent % CHANNEL_SLOTS) *
			      CHANNEL_FIRST;
	const uint64_t all = htobe64(s->len);
	const struct ibv_sge sge = {
		(uintptr_t)slot, (uint32_t)(head + len), y->mr->lkey,
	};
	int err;

	memcpy(slot, &all, head);
	if (len)
		rdmamsg__channel_copy(slot + head,
				      (const uint8_t *)s->a + y->sent, len);
	rdmamsg__cross_begin(&ch->cross, 0);
	rdmamsg__cross_send(&ch->cross, true, s->tag, len ? &sge : NULL);
	err = rdmamsg__cross_end(&ch->cross);
	if (err)
		return err;
	ch->sent++;
	y->sent += len;
	return 0;
}

bool rdmamsg__carry_send(struct rdmamsg_chain *c, uint32_t queue,
			 uint32_t number)
{
	const struct step *s = &c->steps[number];
	struct carry *y = carry_of(s->end);
	bool done = false;
	int err = 0;

	y->queues[SENDS] = NO_QUEUE;
	if (!s->end->ep) {
		rdmamsg__chain_fail(c, number, -ESHUTDOWN, "%s",
				    s->end->why.text);
		return false;
	}
	while (!err && !done && has_room(y)) {
		err = put(y, s);
		done = y->sent == s->len;
	}
	if (!err)
		err = await(y, SENDS);
	if (err) {
		rdmamsg__chain_fail(c, number, err, "%s", strerror(-err));
		return false;
	}
	if (done)
		y->sent = 0;
	else
		y->queues[SENDS] = (uint8_t)queue;
	return done;
}

/* Gives the step a message, or the next piece. Returns false if it is none. */
static bool take(struct carry *y, struct rdmamsg_chain *c, uint32_t number,
		 const uint8_t *data, uint32_t len, uint32_t tag)
{
	const struct step *s = &c->steps[number];
	const size_t part = min(s->len - y->received, (size_t)CHANNEL_BYTES);
	const size_t head = !y->received && part != s->len ? HEAD : 0;

	if (!y->received &&
	    !rdmamsg__chain_matches(c, number, rdmamsg__channel_len(data, len),
				    tag))
		return false;
	if (len != head + part || tag != s->tag) {
		rdmamsg__chain_fail(c, number, -EPROTO, "the peer has sent a "
				    "piece of %u bytes with tag %u", len, tag);
		return false;
	}
	if (part)
		rdmamsg__channel_copy((uint8_t *)s->dst + y->received,
				      data + head, part);
	y->received += part;
	return true;
}

static bool take_kept(struct carry *y, struct rdmamsg_chain *c, uint32_t number)
{
	struct piece *p = y->kept;
	bool ret;

	y->kept = p->next;
	if (!y->kept)
		y->last = &y->kept;
	/* a step that fails closes the channel */
	ret = take(y, c, number, p->data, p->len, p->tag);
	free(p);
	return ret;
}

static bool take_slot(struct carry *y, struct rdmamsg_chain *c, uint32_t number)
{
	struct channel *ch = y->channel;
	const uint32_t slot = ch->used % CHANNEL_SLOTS;
	int err;

	if (!take(y, c, number, rdmamsg__channel_slot(ch, slot),
		  ch->got[slot].len, ch->got[slot].tag))
		return false;
	ch->used++;
	err = refill(ch);
	if (err)
		rdmamsg__chain_fail(c, number, err, "%s", strerror(-err));
	return !err;
}

bool rdmamsg__carry_recv(struct rdmamsg_chain *c, uint32_t queue,
			 uint32_t number)
{
	const struct step *s = &c->steps[number];
	struct carry *y = carry_of(s->end);

	y->queues[RECEIVES] = NO_QUEUE;
	if (!y->kept && !has_come(y))
		poll(y, RECEIVES);
	while (y->kept || has_come(y)) {
		if (!(y->kept ? take_kept(y, c, number) :
		      take_slot(y, c, number)))
			return false;
		if (y->received == s->len) {
			y->received = 0;
			return true;
		}
	}
	if (!s->end->ep)
		rdmamsg__chain_fail(c, number, s->end->why.error ?
				    s->end->why.error : -ESHUTDOWN, "%s",
				    s->end->why.text);
	else
		y->queues[RECEIVES] = (uint8_t)queue;
	return false;
}

/* ---- the run ----------------------------------------------------------- */

/* Counts the pieces that the steps of the run receive. */
static void set_targets(const struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->use_count; i++) {
		struct carry *y = carry_of(c->uses[i].end);

		if (!y)
			continue;
		y->queues[SENDS] = y->queues[RECEIVES] = NO_QUEUE;
		y->target = y->channel->used;
		y->sent = y->received = 0;
	}
	for (uint32_t i = 0; i < c->count; i++) {
		const struct step *s = &c->steps[i];

		if (s->kind == STEP_RECV && s->end->channel)
			carry_of(s->end)->target += !s->len ? 1 :
				(uint32_t)((s->len - 1) / CHANNEL_BYTES) + 1;
	}
}

int rdmamsg__carry_start(struct rdmamsg_chain *c)
{
	int err = 0;

	for (uint32_t i = 0; i < c->use_count && !err; i++)
		if (c->uses[i].end->channel)
			err = open_carry(c->uses[i].end);
	if (err)
		return err;
	set_targets(c);
	c->carried = true;
	for (uint32_t i = 0; i < c->use_count && c->carried; i++) {
		struct carry *y = carry_of(c->uses[i].end);

		if (!y)
			continue;
		poll(y, RECEIVES);
		settle(y, c);
	}
	if (c->carried)
		rdmamsg__chain_loop(c);
	return 0;
}

static bool is_confirmed(struct carry *y)
{
	const struct channel *ch = y->channel;

	if (ch->sent != ch->confirmed)
		poll(y, SENDS);
	return ch->sent == ch->confirmed && y->broken == IBV_WC_SUCCESS;
}

bool rdmamsg__carry_ends(struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < c->use_count; i++) {
		struct carry *y = carry_of(c->uses[i].end);

		if (y && !is_confirmed(y))
			return false;
	}
	c->carried = false;
	for (uint32_t i = 0; i < c->use_count; i++) {
		struct chain_ep *end = c->uses[i].end;

		if (!end->ep)
			rdmamsg__channel_close(end);
		else if (end->channel)
			end->channel->undrained = 0;
	}
	return true;
}

void rdmamsg__carry_spoil(struct rdmamsg_chain *c)
{
	c->carried = false;
	for (uint32_t i = 0; i < c->use_count; i++)
		if (c->uses[i].end->channel)
			rdmamsg__chain_spoil_end(c->uses[i].end);
}

uint8_t rdmamsg__carry_waits(const struct chain_ep *end)
{
	const struct carry *y = carry_of(end);

	if (!y || !end->busy || !end->busy->carried)
		return NO_QUEUE;
	return y->queues[RECEIVES] != NO_QUEUE ? y->queues[RECEIVES] :
	       y->queues[SENDS];
}

bool rdmamsg__carry_broken(const struct chain_ep *end)
{
	const struct carry *y = carry_of(end);

	return y && y->broken != IBV_WC_SUCCESS && end->busy &&
	       end->busy->carried;
}

/* The run goes on with the queue that has waited, or ends. */
static void wake(struct carry *y, struct rdmamsg_chain *c, enum way way)
{
	const uint8_t queue = y->queues[way];

	y->queues[way] = NO_QUEUE;
	if (queue != NO_QUEUE || !c->left)
		rdmamsg__chain_wake(c, queue == NO_QUEUE ? 0 : queue);
}

void rdmamsg__carry_woken(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	const enum way way = wc->wr_id & WAKES_SENDS ? SENDS : RECEIVES;
	struct carry *y = rdmamsg__handle_of(&ctx->chains->carries,
					     (uint32_t)wc->wr_id &
					     (CARRIES - 1));
	struct rdmamsg_chain *c;

	if (!y)
		return;
	y->waits[way] = false;
	c = y->end->busy;
	if (!c || !c->carried)
		return;		/* a step was done before its wake came */
	if (unlikely(wc->status != IBV_WC_SUCCESS))
		broke(y, wc->status);
	else
		poll(y, way);
	wake(y, c, way);
	if (c->carried)
		settle(y, c);
	/* in the loop there is no reason to wait for the settling */
	if (c->state == CHAIN_ENDED)
		rdmamsg__chain_tell(c);
}
