/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: two sessions over lanes that die at any step. Each schedule is
 * decided by its seed. The rules are in ends.c, incoming.c,
 * onesided.c, atomics.c, flow.c, late.c and inside.c.
 *
 *	model [--schedules=N] [--from=SEED] [--jobs=N] [--keep-going] [--loose]
 *	model --seed=SEED [--loose]	repeats one schedule, with a trace
 *
 * --keep-going goes on after a failure, which otherwise ends its job. Half of
 * the devices are loose (loose.c), and with --loose all of them.
 */
#include "model.h"
#include "runner.h"
#include "sim.h"

#include <rdmamsg/diag.h>

/* Of make check: seconds, or 40 s if slow. Sanitizers take ten times as long. */
#ifdef __SANITIZE_ADDRESS__
#define SCHEDULES	8000
#else
#define SCHEDULES	32000
#endif

bool all_loose;

static void on_log(void *arg, enum rdmamsg_log_level level, const char *text)
{
	sim_print("lib: %s\n", text);
}

static void begin(void)
{
	rdmamsg__verbs = &sim_verbs;
	if (sim_traces)
		rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_DEBUG);
}

int main(int argc, char **argv)
{
	static const struct runner model = {
		.name = "model", .schedules = SCHEDULES, .loose = &all_loose,
		.begin = begin, .run = schedule_run,
		.totals = (const uint64_t *)&totals,
		.words = {
			"steps", "messages", "operations", "in doubt",
			"deaths", "moves", "times resumed", "pauses",
			"cancelled", "aborts", "contexts closed early",
			"calls in callbacks", "refused", "timed out",
			"overdue", "late",
		},
	};

	return runner_main(&model, argc, argv);
}
