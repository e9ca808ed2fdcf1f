/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: rdmamsg-perf --steps names a step, and no disturbed size. */
#include "steps.h"

#include <errno.h>
#include <stdint.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define SIZES	40
#define STEP	20	/* from this size to the next one */
#define SLOPE	0.001
#define NEAR	1e-6

static double curve[SIZES];

static void assert_near(double a, double b, double bound)
{
	assert_true(a > b - bound && a < b + bound);
}

/* Fills in times that rise by 'slope' with each size, and at the step. */
static void draw(double times, double slope)
{
	for (size_t i = 0; i < SIZES; i++)
		curve[i] = (2 + slope * (double)i) * (i > STEP ? times : 1);
}

static void assert_step(size_t at, double times)
{
	struct perf_step step = perf_step_largest(curve, SIZES);

	assert_int_equal(step.at, at);
	assert_near(step.times, times, 0.01 * times);
}

static void step_up_and_down(void **state)
{
	(void)state;
	draw(2.8, SLOPE);
	assert_step(STEP, 2.8);
	draw(1 / 2.8, SLOPE);
	assert_step(STEP, 1 / 2.8);
}

/*
 * A single size that takes longer, or less, hides no step and is none. Beside
 * the step, its own way up may be named.
 */
static void assert_step_beside(size_t disturbed)
{
	struct perf_step step = perf_step_largest(curve, SIZES);

	if (disturbed + 2 < STEP || disturbed > STEP + 3)
		assert_int_equal(step.at, STEP);
	assert_true(step.at + 2 >= STEP && step.at <= STEP + 2);
	assert_true(curve[step.at + 1] > curve[step.at]);
	assert_near(step.times, 1.5, 0.02);
}

static void outlier(void **state)
{
	(void)state;
	for (size_t i = 1; i < SIZES - 1; i++) {
		draw(1.5, 0);
		curve[i] *= 10;
		assert_step_beside(i);
		draw(1.5, 0);
		curve[i] /= 10;
		assert_step_beside(i);
	}
}

/* The median of three sizes is twice as far away as the next size. */
static void slope_has_ratio_of_neighbours(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++)
		curve[i] = 10 + (double)i;
	assert_step(0, 11.0 / 10);
}

static void no_step(void **state)
{
	struct perf_step step;

	(void)state;
	for (size_t i = 0; i < SIZES; i++)
		curve[i] = 2;
	step = perf_step_largest(curve, SIZES);
	assert_int_equal(step.at, 0);
	assert_near(step.times, 1, NEAR);
}

static void two_sizes(void **state)
{
	static const double usec[] = { 2, 5 };
	struct perf_step step = perf_step_largest(usec, 2);

	(void)state;
	assert_int_equal(step.at, 0);
	assert_near(step.times, 2.5, NEAR);
}

/* ---- measurements that are repeated ------------------------------------ */

#define ROUNDS		5	/* of all sizes */
#define CONFIRMED	4	/* times */
#define REPEATS_MOST	60
#define BESIDE		3	/* sizes on each side of a step */

struct machine {
	unsigned int calls, of[SIZES];
	/* these sizes take longer in all rounds */
	size_t from, to;
	bool busy;		/* each size has one undisturbed time only */
	unsigned int refuse;	/* this call */
	double speed;		/* each repetition is so much faster; or 0 */
};

static int visit(void *arg, size_t i, double *ret_usec)
{
	struct machine *m = arg;

	assert_true(i < SIZES);
	if (++m->calls == m->refuse)
		return -EIO;
	*ret_usec = curve[i];
	if (m->speed && m->calls > ROUNDS * SIZES)
		*ret_usec /= m->speed *= 2;
	else if (m->of[i] < ROUNDS && i >= m->from && i < m->to)
		*ret_usec *= 10;
	if (m->busy && m->of[i] != i % ROUNDS)
		*ret_usec *= 2 + (double)(m->calls % 7);
	m->of[i]++;
	return 0;
}

/* A disturbance of many sizes does not stay, wherever it is. */
static void disturbance_is_measured_again(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 8; n++)
		for (size_t i = 0; i + n <= SIZES; i++) {
			struct machine m = { .from = i, .to = i + n };
			struct perf_step step;

			draw(1.5, SLOPE);
			assert_int_equal(perf_step_find(SIZES, visit, &m,
							&step), 0);
			assert_int_equal(step.at, STEP);
			assert_near(step.times, 1.5, 0.01);
			assert_false(step.moving);
		}
}

static void busy_machine(void **state)
{
	struct machine m = { .busy = true };
	struct perf_step step;

	(void)state;
	draw(1.2, SLOPE);
	assert_int_equal(perf_step_find(SIZES, visit, &m, &step), 0);
	assert_int_equal(step.at, STEP);
	assert_near(step.times, 1.2, 0.01);
	assert_false(step.moving);
}

/* Without a disturbance only sizes beside the step are measured again. */
static void quiet_machine(void **state)
{
	struct machine m = { 0 };
	struct perf_step step;

	(void)state;
	draw(2.8, SLOPE);
	assert_int_equal(perf_step_find(SIZES, visit, &m, &step), 0);
	assert_int_equal(step.at, STEP);
	assert_false(step.moving);
	for (size_t i = 0; i < SIZES; i++) {
		bool beside = i > STEP - BESIDE && i <= STEP + BESIDE;

		assert_int_equal(m.of[i], ROUNDS + (beside ? CONFIRMED : 0));
	}
}

/* Keeps the order of the repetitions. */
struct order {
	unsigned int calls;
	size_t of[CONFIRMED * 2 * BESIDE];
};

static int keep_order(void *arg, size_t i, double *ret_usec)
{
	struct order *o = arg;

	*ret_usec = curve[i];
	if (o->calls++ >= ROUNDS * SIZES)
		o->of[o->calls - 1 - ROUNDS * SIZES] = i;
	return 0;
}

/* A long disturbance reaches both sides of a step when they are repeated. */
static void sides_in_turns(void **state)
{
	struct order o = { 0 };
	struct perf_step step;

	(void)state;
	draw(1.5, SLOPE);
	assert_int_equal(perf_step_find(SIZES, keep_order, &o, &step), 0);
	for (size_t i = 0; i < CONFIRMED * 2 * BESIDE; i++) {
		size_t distance = i / 2 % BESIDE;
		bool above = (i + i / (2 * BESIDE)) % 2;

		assert_int_equal(o.of[i], above ? STEP + 1 + distance :
				 STEP - distance);
	}
}

/* The last measurement is the fastest, so that repetitions move the step. */
static void restless_machine_ends(void **state)
{
	struct machine m = { .speed = 1 };
	struct perf_step step;

	(void)state;
	draw(1.5, SLOPE);
	assert_int_equal(perf_step_find(SIZES, visit, &m, &step), 0);
	assert_true(step.moving);
	assert_true(m.calls <= ROUNDS * SIZES + REPEATS_MOST * 2 * BESIDE);
}

static void error_ends_it(void **state)
{
	struct perf_step step;

	(void)state;
	draw(1.5, SLOPE);
	for (unsigned int n = 1;
	     n <= ROUNDS * SIZES + CONFIRMED * 2 * BESIDE; n++) {
		struct machine m = { .refuse = n };

		assert_int_equal(perf_step_find(SIZES, visit, &m, &step), -EIO);
		assert_int_equal(m.calls, n);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(step_up_and_down),
		cmocka_unit_test(outlier),
		cmocka_unit_test(slope_has_ratio_of_neighbours),
		cmocka_unit_test(no_step),
		cmocka_unit_test(two_sizes),
		cmocka_unit_test(disturbance_is_measured_again),
		cmocka_unit_test(busy_machine),
		cmocka_unit_test(quiet_machine),
		cmocka_unit_test(sides_in_turns),
		cmocka_unit_test(restless_machine_ends),
		cmocka_unit_test(error_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
