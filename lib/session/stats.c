/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds up the counters of endpoints, and counts their ends. */
#include "base/base.h"
#include "base/ctx.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

/* The fields behind size, which are all counters. */
#define FIRST		offsetof(struct rdmamsg_stats, msgs_sent)
#define COUNTER_NUM	(sizeof(struct ep_counters) / sizeof(uint64_t))

#define IS_AT(field)                                                    \
	_Static_assert(offsetof(struct rdmamsg_stats, field) - FIRST == \
			       offsetof(struct ep_counters, field),     \
		       #field)
IS_AT(completions);
IS_AT(rma_writes);
IS_AT(msgs_repeated);

void rdmamsg__ep_stats_add(struct rdmamsg_stats *s, const struct rdmamsg_ep *ep)
{
	uint64_t *to = &s->msgs_sent;
	const uint64_t *from = &ep->st.msgs_sent;

	for (size_t i = 0; i < COUNTER_NUM; i++)
		to[i] += from[i];
	/* the fast paths do not count here, so add their counts */
	s->msgs_received += rdmamsg__rx_count(&ep->lane);
	s->bytes_received += ep->recv.bytes;
	s->completions += rdmamsg__rx_count(&ep->lane);
	s->msgs_sent += ep->lane.hot.sq_posted + ep->st.sent_inline +
			ep->st.sent_eager + ep->st.sent_pieces +
			ep->st.sent_rendezvous;
	s->sent_inline += ep->lane.hot.sq_posted;
	s->bytes_sent += ep->lane.hot.bytes_sent;
}

void rdmamsg__ep_stats_ended(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_reason *r = &ep->close.reason;
	struct rdmamsg_stats *s = &ep->ctx->sessions->st;
	const bool unwanted = r->who == RDMAMSG_WHO_LOCAL &&
			      r->cause == RDMAMSG_CAUSE_ABORTED;

	/* a carrier is a part of another endpoint */
	if (ep->connect.carrier)
		return;
	s->ended[r->cause]++;
	s->ended_by[r->who]++;
	if (ep->connect.told || unwanted)
		return;
	s->connects_failed += !ep->connect.passive;
	s->accepts_failed += ep->connect.passive;
}
