/* SPDX-License-Identifier: BSD-2-Clause */
/* Results as --json prints them, which 'plot' reads. */
#ifndef RDMAMSG_SAMPLES_PERF_ROWS_H
#define RDMAMSG_SAMPLES_PERF_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#define PERF_POINTS	50
#define PERF_WORD_MAX	64
#define PERF_NESTING	8	/* of values that are skipped */

/* Latency over time: messages up to 'seconds' after the begin. */
struct perf_point {
	double seconds;
	double p50, worst;	/* microseconds */
};

struct perf_row {
	char test[PERF_WORD_MAX];
	char device[PERF_WORD_MAX];
	char mode[PERF_WORD_MAX];
	double size;
	double p50, p99, p999;	/* microseconds */
	double msg_per_s, mb_per_s;
	double warmup;		/* messages before, which are left out */
	bool cold;
	unsigned int points;
	struct perf_point point[PERF_POINTS];
};

/*
 * Reads an object of --json. The text needs no NUL at its end. Numbers are
 * finite and not negative, and words have printable characters only. Returns 1,
 * or 0 if the object has no test or no latency, as those of conns and
 * --failover, or -EINVAL if the text is no such object.
 */
int perf_row_parse(const char *text, size_t len, struct perf_row *ret);

#endif
