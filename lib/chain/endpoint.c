/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint that belongs to chains. Its handlers are replaced: messages are
 * for steps that receive, and wait here until such a step comes. Credits and
 * max_lent bound the messages that wait, as if the program kept them.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "chain/carry.h"
#include "chain/chain.h"
#include "chain/team.h"
#include "chain/channel.h"
#include "chain/native.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "session/send.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

#define INBOX_FEW	8	/* a power of two */

void rdmamsg__chain_ep_put(struct chain_ep *end)
{
	const struct kept *k;

	if (--end->refs)
		return;
	while ((k = rdmamsg__chain_next(end)))
		rdmamsg_msg_free(k->msg);
	rdmamsg__channel_close(end);
	free(end->inbox);
	free(end);
}

static inline struct kept *inbox_at(const struct chain_ep *end, uint32_t i)
{
	return &end->inbox[(end->inbox_at + i) & (end->inbox_room - 1)];
}

const struct kept *rdmamsg__chain_head(const struct chain_ep *end)
{
	return end->inbox_count ? inbox_at(end, 0) : NULL;
}

const struct kept *rdmamsg__chain_next(struct chain_ep *end)
{
	const struct kept *k = inbox_at(end, 0);

	if (!end->inbox_count)
		return NULL;
	end->inbox_count--;
	end->inbox_at++;
	return k;
}

static int grow(struct chain_ep *end)
{
	uint32_t room = end->inbox_room * 2;
	struct kept *inbox = calloc(room, sizeof(*inbox));

	if (!inbox)
		return -ENOMEM;
	for (uint32_t i = 0; i < end->inbox_count; i++)
		inbox[i] = *inbox_at(end, i);
	free(end->inbox);
	end->inbox = inbox;
	end->inbox_at = 0;
	end->inbox_room = room;
	return 0;
}

/*
 * Without memory the endpoint ends, because a message would be lost. The limit
 * on copies keeps the peer from running ahead without end.
 */
static void keep(struct chain_ep *end, struct rdmamsg_msg *msg)
{
	struct kept *k;

	if (unlikely(end->inbox_count == end->inbox_room && grow(end))) {
		rdmamsg_msg_free(msg);
		rdmamsg__ep_abort(end->ep, RDMAMSG_CAUSE_RESOURCES, -ENOMEM,
				  "no memory to keep a message of a chain");
		return;
	}
	k = inbox_at(end, end->inbox_count);
	k->msg = msg;
	k->len = msg->len;
	k->tag = msg->tag;
	if (k->len <= KEPT_SMALL && end->inbox_count < INBOX_FEW &&
	    likely(msg->data)) {
		memcpy(k->data, msg->data, k->len);
		rdmamsg_msg_free(msg);
		k->msg = NULL;
	}
	end->inbox_count++;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct chain_ep *end = ep->chain;
	uint8_t queue = end->receives;

	if (unlikely(msg->tag == PROTO_TEAM_FAIL_TAG && end->team &&
		     rdmamsg__team_takes(end, msg))) {
		rdmamsg_msg_free(msg);
	} else if (queue != NO_QUEUE) {
		end->receives = NO_QUEUE;
		rdmamsg__chain_take(end->busy, queue, msg);
	} else {
		keep(end, msg);
	}
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct chain_ep *end = ep->chain;
	uint8_t queue = end->sends;

	if (end->fail_due)
		rdmamsg__team_writable(end);
	if (queue != NO_QUEUE) {
		end->sends = NO_QUEUE;
		rdmamsg__chain_wake(end->busy, queue);
	}
	rdmamsg__tell(&ep->ctx->loop, end->on.on_writable, ep);
}

/* Returns a queue whose step waits for the endpoint, or NO_QUEUE. */
static uint8_t queue_of(const struct chain_ep *end)
{
	if (end->receives != NO_QUEUE)
		return end->receives;
	return end->sends != NO_QUEUE ? end->sends : rdmamsg__carry_waits(end);
}

/*
 * A run goes on after a graceful close, until a step needs the endpoint. So a
 * peer that has no more steps can close.
 */
static void fail_run(struct chain_ep *end)
{
	struct rdmamsg_chain *c = end->busy;
	uint8_t queue = queue_of(end);

	if (end->team)
		return;
	if (c && queue != NO_QUEUE)
		rdmamsg__chain_wake(c, queue);	/* the step finds the end */
	/* has no effect if the run has ended */
	if (c && end->why.error)
		rdmamsg__chain_fail(c, NO_STEP, end->why.error, "chain: an "
				    "endpoint has ended: %s", end->why.text);
	else if (rdmamsg__native_needs(end) || rdmamsg__carry_broken(end))
		rdmamsg__chain_fail(c, NO_STEP, -ESHUTDOWN, "chain: an "
				    "endpoint has ended: %s", end->why.text);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct chain_ep *end = ep->chain;
	struct rdmamsg *ctx = ep->ctx;

	end->ep = NULL;
	end->why = *why;
	end->why.data = NULL;
	end->why.data_len = 0;
	ep->on = end->on;
	ep->chain = NULL;
	if (end->team)
		rdmamsg__team_closed(end);
	fail_run(end);
	rdmamsg__natives_let_go(end);
	rdmamsg__tell(&ctx->loop, ep->on.on_closed, ep, why);
	rdmamsg__chain_ep_put(end);
}

bool rdmamsg__chain_ep_runs(const struct chain_ep *end)
{
	const struct rdmamsg_chain *c = end->team ? end->team->chain :
					end->busy;

	return c && c->state != CHAIN_IDLE;
}

int rdmamsg__chain_own(struct rdmamsg *ctx, struct rdmamsg_ep *ep,
		       struct chain_ep **ret_end)
{
	struct chain_ep *end;
	int ret = rdmamsg__tx_check(ep);

	if (ret)
		return ret;
	if (ep->ctx != ctx)
		return rdmamsg__fail(-EINVAL, "chain: the endpoint belongs to "
				     "another context");
	if (ep->chain) {
		*ret_end = ep->chain;
		return 0;
	}
	end = calloc(1, sizeof(*end));
	if (end)
		end->inbox = calloc(INBOX_FEW, sizeof(*end->inbox));
	if (!end || !end->inbox) {
		free(end);
		return rdmamsg__fail(-ENOMEM, "chain: no memory for an "
				     "endpoint");
	}
	end->ep = ep;
	end->refs = 1;
	list_init(&end->uses);
	end->receives = end->sends = NO_QUEUE;
	end->inbox_room = INBOX_FEW;
	end->on = ep->on;
	ep->on.on_message = on_message;
	ep->on.on_writable = on_writable;
	ep->on.on_closed = on_closed;
	ep->chain = end;
	while (ep->inbox)
		keep(end, rdmamsg__inbox_take(ep));
	rdmamsg__ep_ready(ep);
	*ret_end = end;
	return 0;
}
