/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs cases, for the programs that print their results. */
#ifndef TESTS_DEVICE_RUN_H
#define TESTS_DEVICE_RUN_H

#include "device.h"

enum result {
	PASSED,
	DIFFERS_AS_WRITTEN,	/* in differences.c */
	DIFFERS,
	DIFFERENCE_GONE,	/* passes, and should not */
	LIST_SKIPPED,		/* of a gate: the rest of the list does not run */
	NOT_RUN,		/* would crash the kernel */
	NOT_ASKED,		/* the run ended before; not of run_case() */
};

struct verdict {
	enum result result;
	char *said;			/* until the next case runs */
	const struct difference *as;	/* or NULL */
};

/*
 * Sets the device, its kind, which begins with the device of an entry in
 * differences.c, its table, and the most time of a case, or 0 for a generous
 * one. is_soft: the table is that of the soft HCA, without libibverbs. Returns
 * false if the kernel's version cannot be read.
 */
bool run_on(const char *name, const char *kind, const struct verbs_api *table,
	    bool is_soft, int limit_ms);
/* Lets cases reach other programs, on the soft HCA too. */
void run_shared(void);
/*
 * Bounds the time of all cases from now on. A case that runs then is killed, and
 * run_over() returns true.
 */
void run_limit(int ms);
bool run_over(void);
/*
 * Takes known differences from 'list' instead of differences.c, and calls fn()
 * at the end of each case that has passed so far, while the device is open.
 */
void run_otherwise(const struct difference *list, void (*fn)(void));
struct verdict run_case(const struct device_case *c);

#endif
