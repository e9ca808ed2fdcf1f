/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs schedules that their seeds decide, in several processes, and names the
 * seed of one that fails. For the model of sessions and for tests/netsim.
 */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

extern uint64_t sim_now;		/* ns */
extern bool sim_traces;
/* Prints the time and the text. */
void sim_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define sim_trace(...) \
	do { \
		if (__builtin_expect(sim_traces, 0)) \
			sim_print(__VA_ARGS__); \
	} while (0)
/* Ends the process with the seed of the schedule and this text. */
void sim_fail(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#define RUNNER_TOTALS	16u

struct runner {
	const char *name;
	uint64_t schedules;		/* if the command line says no number */
	bool *loose;			/* --loose sets it; NULL: no option */
	/* once in each process, before its schedules; or NULL */
	void (*begin)(void);
	void (*run)(uint64_t seed);	/* does not return if it fails */
	/* sums of all schedules of the process, and a word for each, then NULL */
	const uint64_t *totals;
	const char *words[RUNNER_TOTALS + 1];
};

/* Returns the exit status. */
int runner_main(const struct runner *r, int argc, char **argv);

#endif
