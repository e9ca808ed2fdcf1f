/* SPDX-License-Identifier: BSD-2-Clause */
/* A schedule: whatever comes next, until nothing does. */
#include "netsim.h"

#include "base/util.h"

#define STEPS_MAX	200000u
#define TIME_MAX	(3600ull * 1000000000ull)

struct totals totals;

static uint64_t next_time(void)
{
	const uint64_t device = min(net_next(), world_timer());

	return min(device, min(end_next(&ends[0]), end_next(&ends[1])));
}

static void step(void)
{
	const uint32_t first = sim_below(2);

	net_unblock();
	if (net_next() <= sim_now)
		world_progress();
	if (world_timer() <= sim_now)
		world_timers();
	end_act(&ends[first]);
	end_act(&ends[!first]);
	for (int i = 0; i < 2; i++)
		inside_check(&ends[i]);
}

void schedule_run(uint64_t seed)
{
	uint32_t steps = 0;
	uint64_t next;

	sim_seed(seed);
	plan_make();
	net_begin();
	inside_begin();
	ends_open();
	while ((next = next_time()) != SIM_NEVER) {
		sim_now = max(sim_now, next);
		if (++steps > STEPS_MAX || sim_now > TIME_MAX)
			sim_fail("not over after %u steps, %llu ms", steps,
				 (unsigned long long)sim_now / 1000000);
		step();
	}
	rules_end();
	/* a queue pair that has nothing to send may be in the list still */
	world_progress();
	if (net_next() != SIM_NEVER)
		sim_fail("a packet was not sent before");
	for (int i = 0; i < 2; i++)
		inside_rest(&ends[i]);
	ends_close();
	totals.steps += steps;
}
