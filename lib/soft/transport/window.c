/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window: how much may be unanswered. It doubles with each round trip until
 * packets are lost, come back late or are marked by a router. Then it grows by
 * a packet with each round trip, and by less if it is small: many senders with
 * small windows share a queue, and would fill it all the time.
 *
 * It shrinks at most once in a round trip: by half after a loss, by an eighth
 * after a mark or a delay. A delay alone leaves LEAST_LATE, because hosts are
 * late, too.
 */
#include "soft/transport/far.h"

#include "base/util.h"

#define UNIT		SOFT_WINDOW_UNIT
#define FIRST		(16u * UNIT)
#define LEAST		UNIT
#define LEAST_LATE	(16u * UNIT)
#define STEP_LEAST	(UNIT / 8)
#define ROUNDS		512u		/* until a step is a packet */
#define MOST_BYTES	(256u << 10)
#define WAIT_FIRST	20000000ull	/* ns, before a round trip is known */
#define WAIT_LEAST	1000000ull	/* more, for the other end to run */
#define WAIT_MOST	2000000000ull
#define QUEUE		500000ull	/* ns that a round trip may grow by */

static uint32_t most(const struct soft_far *far)
{
	return max(MOST_BYTES / far->mtu * UNIT, FIRST);
}

void soft_window_begin(struct soft_far *far)
{
	far->window = FIRST;
	far->threshold = most(far);
	far->full = false;
	far->timing = false;
	far->rtt = far->rtt_var = far->rtt_least = 0;
	far->shrunk_at = far->crowded_at = 0;
	far->window_before = 0;
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

static void shrink(struct soft_far *far, uint32_t by, uint32_t least)
{
	const uint64_t now = soft_now();

	if (now - far->shrunk_at < far->rtt)
		return;
	far->shrunk_at = now;
	far->window = max(far->window - by, min(far->window, least));
	far->threshold = far->window;
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
	if (ns > 2 * far->rtt_least + QUEUE)
		shrink(far, far->window / 8, LEAST_LATE);
}

/*
 * Returns what a round trip adds. All who share a queue shrink at about the
 * same time, and what they add is the same until they do so again.
 */
static uint32_t step_of(const struct soft_far *far)
{
	const uint64_t rounds = (soft_now() - far->crowded_at) /
				max(far->rtt, 1u);

	return (uint32_t)min(max(UNIT * rounds / ROUNDS, STEP_LEAST), UNIT);
}

/* Answers to all of a window make it grow by the whole step. */
static void grow(struct soft_far *far, uint32_t n)
{
	const uint32_t step = step_of(far);

	if (far->window < far->threshold)
		far->window = min(far->window + n * UNIT / 2, far->threshold);
	else
		far->window += n * UNIT * step / far->window;
	far->window = min(far->window, most(far));
}

void soft_window_answered(struct soft_far *far, uint32_t una, uint32_t n)
{
	if (far->timing && soft_far_before(far->timed, una)) {
		far->timing = false;
		measure(far, soft_now() - far->timed_at);
	}
	far->waited = 0;
	far->timeouts = 0;
	/* a window that was not used up says nothing about the way */
	if (far->full)
		grow(far, n);
	far->full = false;
}

void soft_window_lost(struct soft_far *far, bool all)
{
	far->timing = false;
	far->crowded_at = soft_now();
	if (!all)
		far->window_before = 0;
	else if (far->timeouts == 1)
		far->window_before = far->window;
	shrink(far, far->window / 2, LEAST);
	if (all)
		far->window = LEAST;
}

void soft_window_not_lost(struct soft_far *far)
{
	far->window = max(far->window, far->window_before);
	far->threshold = max(far->threshold, far->window_before);
	far->window_before = 0;
}

void soft_window_marked(struct soft_far *far)
{
	far->crowded_at = soft_now();
	shrink(far, far->window / 8, LEAST);
}

uint64_t soft_window_wait(const struct soft_far *far)
{
	uint64_t ns = far->rtt ? far->rtt + max(4 * far->rtt_var, WAIT_LEAST) :
				 WAIT_FIRST;

	ns <<= min(far->timeouts, 10u);
	return min(ns, WAIT_MOST);
}
