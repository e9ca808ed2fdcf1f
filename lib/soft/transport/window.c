/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window: how much may be unanswered. It doubles with each round trip until
 * packets are lost or the round trip grows, then it grows by a packet. It
 * shrinks by half after a loss and, as queues build up, by an eighth.
 */
#include "soft/transport/far.h"

#include "base/util.h"

#define FIRST		32u
#define LEAST		16u	/* so that some packets tell of a loss */
#define MOST_BYTES	(256u << 10)
#define WAIT_FIRST	20000000ull	/* ns, before a round trip is known */
#define WAIT_LEAST	1000000ull	/* more, for the other end to run */
#define WAIT_MOST	2000000000ull
#define QUEUE		500000ull	/* ns that a round trip may grow by */

static uint32_t most(const struct soft_far *far)
{
	return max(MOST_BYTES / far->mtu, FIRST);
}

void soft_window_begin(struct soft_far *far)
{
	far->window = FIRST;
	far->threshold = most(far);
	far->grown = 0;
	far->timing = false;
	far->rtt = far->rtt_var = far->rtt_least = 0;
	far->waited = 0;
	far->timeouts = 0;
}

void soft_window_sent(struct soft_far *far, uint32_t psn)
{
	if (far->timing || soft_far_before(psn, far->end))
		return;
	far->timing = true;
	far->timed = psn;
	far->timed_at = soft_now();
}

static void measure(struct soft_far *far, uint64_t ns)
{
	const uint64_t off = ns > far->rtt ? ns - far->rtt : far->rtt - ns;

	if (!far->rtt) {
		far->rtt = far->rtt_least = ns;
		far->rtt_var = ns / 2;
		return;
	}
	/* as TCP: RFC 6298, 2.3 */
	far->rtt_var += off / 4 - far->rtt_var / 4;
	far->rtt += ns / 8 - far->rtt / 8;
	far->rtt_least = min(far->rtt_least, ns);
	if (ns > 2 * far->rtt_least + QUEUE) {
		far->window = max(far->window - far->window / 8, LEAST);
		far->threshold = far->window;
	}
}

void soft_window_answered(struct soft_far *far, uint32_t una, uint32_t n)
{
	if (far->timing && soft_far_before(far->timed, una)) {
		far->timing = false;
		measure(far, soft_now() - far->timed_at);
	}
	far->waited = 0;
	far->timeouts = 0;
	far->grown += n;
	if (far->window < far->threshold) {
		far->window += far->grown;
		far->grown = 0;
	} else if (far->grown >= far->window) {
		far->grown = 0;
		far->window++;
	}
	far->window = min(far->window, most(far));
}

void soft_window_lost(struct soft_far *far, bool all)
{
	far->timing = false;
	far->threshold = max(far->window / 2, LEAST);
	far->window = all ? LEAST : far->threshold;
	far->grown = 0;
}

uint64_t soft_window_wait(const struct soft_far *far)
{
	uint64_t ns = far->rtt ? far->rtt + max(4 * far->rtt_var, WAIT_LEAST) :
				 WAIT_FIRST;

	ns <<= min(far->timeouts, 10u);
	return min(ns, WAIT_MOST);
}
