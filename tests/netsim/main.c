/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: two queue pairs of the soft HCA over a network that loses,
 * doubles, reorders and delays packets. Each schedule is decided by its seed.
 * The rules are in rules.c, bytes.c and inside.c.
 *
 *	netsim [--schedules=N] [--from=SEED] [--jobs=N] [--keep-going]
 *	netsim --seed=SEED	repeats one schedule, with a trace
 *
 * --keep-going goes on after a failure, which otherwise ends its job.
 */
#include "netsim.h"

/* Of make check: seconds. Sanitizers take ten times as long. */
#ifdef __SANITIZE_ADDRESS__
#define SCHEDULES	3500
#else
#define SCHEDULES	35000
#endif

static void begin(void)
{
	bytes_init();
	ends_init(world_open());
}

int main(int argc, char **argv)
{
	static const struct runner netsim = {
		.name = "netsim", .schedules = SCHEDULES,
		.begin = begin, .run = schedule_run,
		.totals = (const uint64_t *)&totals,
		.words = {
			"steps", "requests", "queue pairs failed", "packets",
			"lost", "doubled", "late",
		},
	};

	return runner_main(&netsim, argc, argv);
}
