/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided tests at the client. In write-lat the server answers each write
 * with a write. In the others the server does nothing.
 */
#include "perf.h"

#include <rdmamsg/rma.h>

static int post(struct perf_link *l, uint64_t *sample)
{
	const struct rdmamsg_sge in = { l->mem.in, l->size, l->mem.region };
	const struct rdmamsg_sge out = { l->mem.out, l->size, l->mem.region };

	switch (l->test) {
	case PERF_WRITE_BW:
		return rdmamsg_write(l->ep, &out, 1, &l->mem.peer, 0, 0,
				     sample);
	case PERF_ATOMIC_LAT:
		return rdmamsg_fetch_add(l->ep, &l->mem.peer, 0, 1, NULL, 0,
					 sample);
	default:
		return rdmamsg_read(l->ep, &in, 1, &l->mem.peer, 0, 0, sample);
	}
}

/*
 * Starts as many operations as may be in flight. on_complete takes their time.
 */
void perf_onesided_more(struct perf_link *l)
{
	while (l->sent < l->count && l->flying < l->window && !l->error) {
		uint64_t *sample = &l->samples[l->sent];
		int ret;

		*sample = perf_ticks();
		ret = post(l, sample);
		if (ret == -EAGAIN)
			return;
		if (ret) {
			perf_link_fail(l, ret);
			return;
		}
		l->flying++;
		l->sent++;
	}
}

static void stream(struct perf_link *l)
{
	perf_onesided_more(l);
	while (l->flying || (l->sent < l->count && !l->error)) {
		if (!perf_link_turn(l))
			return;
		perf_link_progress(l);
	}
}

static void ping_pong(struct perf_link *l)
{
	uint64_t last = perf_ticks(), now;

	while (l->sent < l->count) {
		uint32_t n = l->sent + 1;
		int ret;

		while ((ret = perf_region_write(&l->mem, l->ep, l->size, n)) ==
		       -EAGAIN)
			if (!perf_link_turn(l))
				return;
		if (ret)
			perf_link_fail(l, ret);
		while (!perf_region_has(&l->mem, l->size, n))
			if (!perf_link_turn(l))
				return;
		now = perf_ticks();
		l->samples[l->sent++] = now - last;
		last = now;
	}
}

void perf_onesided(struct perf_link *l)
{
	l->begin = perf_ticks();
	if (l->test == PERF_WRITE_LAT)
		ping_pong(l);
	else
		stream(l);
	l->end = perf_ticks();
	l->reported = true;
}
