/* SPDX-License-Identifier: BSD-2-Clause */
/* --hist: how many messages took how long, in steps of a tenth of a decade. */
#include "perf.h"

#include <stdio.h>

#define STEP	1.2589254117941673	/* the tenth root of ten */
#define FIRST	0.01			/* us: where the steps begin */
#define STEPS	120
#define BAR	40			/* columns */

/* Prints a bar. Few messages have a dot, so that they are visible. */
static void line(double from, double to, size_t n, size_t most, size_t all)
{
	size_t length = (size_t)((double)n / (double)most * BAR);

	printf("%12.*f to %9.*f us %10zu %7.3f%% ", from < 1 ? 3 : 2, from,
	       to < 1 ? 3 : 2, to, n, 100 * (double)n / (double)all);
	if (!length)
		putchar('.');
	while (length--)
		putchar('#');
	putchar('\n');
}

void perf_hist(const uint64_t *sorted, size_t count, double scale)
{
	size_t in[STEPS] = { 0 }, most = 0, step = 0;
	double from = FIRST, to = FIRST * STEP;

	for (size_t i = 0; i < count; i++) {
		for (; step < STEPS - 1 && (double)sorted[i] * scale >= to;
		     step++)
			to *= STEP;
		if (++in[step] > most)
			most = in[step];
	}
	for (step = 0; step < STEPS; step++) {
		if (in[step])
			line(from, from * STEP, in[step], most, count);
		from *= STEP;
	}
	fflush(stdout);
}
