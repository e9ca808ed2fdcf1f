/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan of a schedule. In most schedules all requests succeed, because the
 * storm ends long before the retries are used up. In the others the network is
 * cut, a request has a wrong key, or RNR retries are limited.
 */
#include "netsim.h"

#include <string.h>

#define START_NS	1000000000ull
#define CALM_NS		400000u
#define STORM_NS	100000000u
/* 4.096 us << 14 is 67 ms, eight times of which pass before a request fails */
#define TIMEOUT_SURE	14u
#define TIMEOUT_LEAST	8u

enum { PLAN_SURE = 12, PLAN_CUT = PLAN_SURE, PLAN_BAD, PLAN_RNR, PLANS };

struct plan plan;

static uint32_t one_of(const uint32_t *values, uint32_t n)
{
	return values[sim_below(n)];
}

#define ONE_OF(...) \
	one_of((const uint32_t []){ __VA_ARGS__ }, \
	       sizeof((const uint32_t []){ __VA_ARGS__ }) / sizeof(uint32_t))

/* Numbers wrap around at 2^24, and their order does at 2^23. */
static uint32_t make_psn(void)
{
	switch (sim_below(4)) {
	case 0:
		return 0x7fffff - sim_below(128);
	case 1:
		return sim_below(0x1000000);
	default:
		return 0xffffff - sim_below(128);
	}
}

static void make_end(struct end_plan *p)
{
	p->requests = sim_once_in(16) ? ONE_OF(0, 1, REQUESTS_MAX) :
					1 + sim_below(24);
	p->depth = 1 + sim_below(DEPTH_MAX);
	p->receives = 1 + sim_below(DEPTH_MAX);
	p->psn = make_psn();
	p->timeout = (uint8_t)(sim_once_in(4) ? 0 :
			       TIMEOUT_SURE + sim_below(3));
	p->retries = p->rnr_retries = 7;
	p->reads = (uint8_t)(sim_once_in(8) ? 16 : 1 + sim_below(4));
	p->pause = ONE_OF(1, 1000, 10000, 100000, 1000000);
	p->late = sim_once_in(64) ? 400000000 :
				    ONE_OF(1, 1, 20000, 1000000, 20000000);
	/* from 10 us on; a peer that waits long does not ask all the time */
	p->rnr_timer = (uint8_t)(sim_once_in(8) ? ONE_OF(0, 20) :
				 p->late > 1000000 ? 13 + sim_below(4) :
						     1 + sim_below(12));
	p->signal_every = sim_once_in(3) ? 1 + sim_below(p->depth) : 1;
	p->bad = SIM_NONE;
	p->drains = sim_once_in(8) ? sim_below(16) : SIM_NONE;
	for (int i = 0; i < OPS; i++)
		p->weight[i] = 16u >> 2 * sim_below(3);
	/* now and then one kind alone */
	if (sim_once_in(8)) {
		memset(p->weight, 0, sizeof(p->weight));
		p->weight[sim_below(OPS)] = 1;
	}
}

static void make_weather(struct weather *w)
{
	for (int i = 0; i < KINDS; i++)
		w->lost[i] = ONE_OF(0, 0, 8, 40, 80);
	w->doubled = ONE_OF(0, 0, 16, 64);
	w->late = ONE_OF(0, 0, 16, 64);
	w->bursts = ONE_OF(0, 0, 32, 128);
	w->base = ONE_OF(1000, 10000, 100000, 1000000);
	w->jitter = ONE_OF(0, 1000, 50000, 2000000);
	w->late_ns = ONE_OF(100000, 3000000, 30000000);
	w->cut = SIM_NONE;
}

/* Round trips grow, but by less than the transport waits for a slow peer. */
static void make_calm(void)
{
	for (int i = 0; i < 2; i++) {
		struct weather calm = {
			.base = ONE_OF(1000, 100000, 1000000, 5000000),
			.jitter = ONE_OF(0, 50000, CALM_NS), .cut = SIM_NONE,
			.slower = CALM_NS,
		};

		if (calm.jitter)
			calm.slower = 0;
		plan.weather[i] = calm;
		plan.end[i].timeout = TIMEOUT_SURE;
	}
	plan.calm = true;
	plan.blocks = 0;
}

static void make_doubtful(uint32_t how)
{
	plan.sure = false;
	for (int i = 0; i < 2; i++) {
		struct end_plan *p = &plan.end[i];

		p->timeout = (uint8_t)(TIMEOUT_LEAST + sim_below(5));
		p->retries = (uint8_t)sim_below(4);
		/* one way, the other, or both */
		if (how == PLAN_CUT && !sim_once_in(3))
			plan.weather[i].cut = sim_below(100);
		if (how == PLAN_BAD && !sim_once_in(3))
			p->bad = sim_below(16);
		if (how == PLAN_RNR)
			p->rnr_retries = (uint8_t)sim_below(7);
	}
}

void plan_make(void)
{
	const uint32_t how = sim_below(PLANS);
	uint32_t packets = ONE_OF(1, 2, 3, 5, 10);

	memset(&plan, 0, sizeof(plan));
	plan.path_mtu = sim_once_in(4) ? IBV_MTU_512 + sim_below(2) :
					 IBV_MTU_256;
	plan.mtu = 128u << plan.path_mtu;
	if (sim_once_in(12))
		packets = LENGTH_MAX / plan.mtu;
	plan.most = packets * plan.mtu;
	plan.sure = true;
	plan.calm_at = START_NS + sim_below(STORM_NS);
	plan.blocks = sim_once_in(4) ? 2 + sim_below(32) : 0;
	plan.grain = ONE_OF(1, 1, 1000, 100000);
	plan.batch = ONE_OF(1, 2, 16);
	for (int i = 0; i < 2; i++) {
		make_end(&plan.end[i]);
		make_weather(&plan.weather[i]);
	}
	if (how >= PLAN_SURE)
		make_doubtful(how);
	if (how != PLAN_CUT && sim_once_in(8))
		make_calm();
	sim_now = START_NS;
}
