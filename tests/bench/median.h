/* SPDX-License-Identifier: BSD-2-Clause */
/* The median of the turns of a benchmark. */
#ifndef RDMAMSG_TESTS_BENCH_MEDIAN_H
#define RDMAMSG_TESTS_BENCH_MEDIAN_H

#include <stddef.h>
#include <stdlib.h>

static int median_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the values. */
static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), median_compare);
	return values[count / 2];
}

#endif
