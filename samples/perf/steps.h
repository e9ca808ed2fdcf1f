/* SPDX-License-Identifier: BSD-2-Clause */
/* --steps: the two neighbouring sizes whose times differ the most. */
#ifndef RDMAMSG_SAMPLES_PERF_STEPS_H
#define RDMAMSG_SAMPLES_PERF_STEPS_H

#include <stdbool.h>
#include <stddef.h>

struct perf_step {
	size_t at;		/* from size number 'at' to the next one */
	double times;		/* time of the next one / time of 'at' */
	bool moving;		/* more repetitions may name another one */
};

/*
 * Returns the largest step of 'count' sizes in order. There are at least two,
 * and their times are positive.
 *
 * The step between two sizes is the smaller of two ratios: that of their own
 * times, and that of the medians of the three sizes on each side. A single size
 * that takes longer changes only the first ratio. A curve that rises steadily
 * changes the second ratio more than the first. If one ratio is above 1 and the
 * other is below it, there is no step.
 */
struct perf_step perf_step_largest(const double *usec, size_t count);

/*
 * Measures size number i, and again in later calls. Returns 0, or a negative
 * number to end perf_step_find().
 */
typedef int perf_step_measure(void *arg, size_t i, double *ret_usec);

/*
 * Measures all sizes in five rounds. Then the sizes beside the largest step are
 * measured again, until that has confirmed the step four times in a row. The
 * time of a size is its shortest one, because a disturbance only adds time.
 * Returns 0, -ENOMEM or the negative number of 'measure'.
 */
int perf_step_find(size_t count, perf_step_measure *measure, void *arg,
		   struct perf_step *ret);

#endif
