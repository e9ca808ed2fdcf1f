/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds up the counters of endpoints. */
#include "base/base.h"
#include "session/ep.h"

#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

/* The fields after size, which are all counters. */
#define FIRST		offsetof(struct rdmamsg_counters, msgs_sent)
#define COUNTERS(s)	((uint64_t *)((char *)(s) + FIRST))
#define COUNTER_NUM	((sizeof(struct rdmamsg_counters) - FIRST) / \
			 sizeof(uint64_t))

void rdmamsg__ep_stats_add(struct rdmamsg_counters *s,
			   const struct rdmamsg_ep *ep)
{
	for (size_t i = 0; i < COUNTER_NUM; i++)
		COUNTERS(s)[i] += COUNTERS(&ep->st)[i];
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
