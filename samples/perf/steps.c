/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --steps: the largest step in the curve of times over sizes, although other
 * programs disturb some of the times.
 */
#include "steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BESIDE		3	/* sizes on each side whose median counts */
#define ROUNDS		5	/* each of all sizes */
#define STAYS		4	/* repetitions that confirm a step */
#define REPEATS_MOST	60	/* repetitions in all */

struct search {
	double *usec;		/* of each size; 0: not measured */
	size_t count;
	perf_step_measure *measure;
	void *arg;
};

struct middle {
	double low, high;	/* the same one of an odd number of values */
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Returns the median of at most BESIDE values. */
static struct middle middle(const double *values, size_t count)
{
	double sorted[BESIDE];

	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), compare);
	return (struct middle){ sorted[(count - 1) / 2], sorted[count / 2] };
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Returns a ratio as a factor of at least 1: half and twice are as large. */
static double factor(double ratio)
{
	return ratio < 1 ? 1 / ratio : ratio;
}

/*
 * Returns the ratio of the medians of both sides. Near an end of the curve a
 * side may have two sizes. The time that makes the step smaller counts then,
 * because the other one may be disturbed.
 */
static double sides_at(const double *usec, size_t count, size_t at)
{
	size_t n = least(at + 1, BESIDE), m = least(count - at - 1, BESIDE);
	struct middle before = middle(&usec[at + 1 - n], n);
	struct middle after = middle(&usec[at + 1], m);

	if (after.low > before.high)
		return after.low / before.high;
	return after.high < before.low ? after.high / before.low : 1;
}

static double step_at(const double *usec, size_t count, size_t at)
{
	double own = usec[at + 1] / usec[at];
	double sides = sides_at(usec, count, at);

	if ((own > 1) != (sides > 1))
		return 1;
	return factor(own) < factor(sides) ? own : sides;
}

struct perf_step perf_step_largest(const double *usec, size_t count)
{
	struct perf_step largest = { .times = 1 };

	for (size_t i = 0; i + 1 < count; i++) {
		double times = step_at(usec, count, i);

		if (factor(times) > factor(largest.times))
			largest = (struct perf_step){ .at = i, .times = times };
	}
	return largest;
}

static int measure(struct search *s, size_t i)
{
	double usec;
	int ret = s->measure(s->arg, i, &usec);

	if (ret)
		return ret;
	if (!s->usec[i] || usec < s->usec[i])
		s->usec[i] = usec;
	return 0;
}

static int measure_all(struct search *s)
{
	int ret = 0;

	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; !ret && i < s->count; i++)
			ret = measure(s, i);
	return ret;
}

/* Measures a side of a step, the nearest size first. */
static int measure_side(struct search *s, size_t at, bool above, size_t n)
{
	if (above)
		return at + 1 + n < s->count ? measure(s, at + 1 + n) : 0;
	return n <= at ? measure(s, at - n) : 0;
}

/*
 * Measures the sizes beside a step again, below and above it in turns, so that
 * a long disturbance does not look like a step.
 */
static int measure_beside(struct search *s, size_t at, bool above)
{
	int ret = 0;

	for (size_t n = 0; !ret && n < BESIDE; n++) {
		ret = measure_side(s, at, above, n);
		if (!ret)
			ret = measure_side(s, at, !above, n);
	}
	return ret;
}

static int search(struct search *s, struct perf_step *ret_step)
{
	struct perf_step now, before = { 0 };
	int stayed = 0, ret = measure_all(s);

	for (int i = 0; !ret; i++) {
		now = perf_step_largest(s->usec, s->count);
		stayed = i && now.at == before.at ? stayed + 1 : 0;
		if (stayed == STAYS || i == REPEATS_MOST)
			break;
		before = now;
		ret = measure_beside(s, now.at, i % 2);
	}
	if (ret)
		return ret;
	now.moving = stayed < STAYS;
	*ret_step = now;
	return 0;
}

int perf_step_find(size_t count, perf_step_measure *each, void *arg,
		   struct perf_step *ret_step)
{
	struct search s = {
		.usec = calloc(count, sizeof(*s.usec)),
		.count = count, .measure = each, .arg = arg,
	};
	int ret = s.usec ? search(&s, ret_step) : -ENOMEM;

	free(s.usec);
	return ret;
}
