/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tests of one connection. For each size, short runs warm up: they touch
 * and register the memory of both ends. Then longer and longer runs measure,
 * until three digits of the figure stay.
 */
#include "perf.h"
#include "plot.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <rdmamsg/endpoint.h>

#define RATE_EVERY	64
#define WINDOW		8
#define ONESIDED_WINDOW	128
#define WINDOW_BYTES	((uint64_t)256 << 20)
#define RATE_RECV_DEPTH	512	/* credits come in batches of half of it */

static const uint32_t lat_sizes[] = { 1, 64, 1024, 4096, 65536, 1048576 };
static const uint32_t rate_sizes[] = { 1, 64, 1024 };
static const uint32_t bw_sizes[] = { 65536, 1048576, 4194304 };
static const uint32_t atomic_sizes[] = { 8 };

#define SIZES(array)	(array), sizeof(array) / sizeof((array)[0])

/* the warm-up of a size */
#define WARM_LEAST	3	/* runs */
#define WARM_MOST	32
#define WARM_BETTER	0.98	/* of the best time: not yet warm */
#define WARM_S		0.5	/* for all runs */
#define WARM_RUN_MOST	1000	/* messages */

/* without -n */
#define MEASURE_LEAST_S	0.1
#define MEASURE_MOST_S	1.0
#define SAMPLES		((size_t)1 << 20)
#define TOUCHED		SAMPLES
#define COLD_COUNT	100	/* with --cold */
#define PAUSE_COUNT	16	/* with --pause */

/* With --steps, all runs have the same count, so that times compare. */
#define STEP_BYTES	((uint64_t)4 << 20)
#define STEP_LEAST	10
#define STEP_LATENCIES	200
#define STEP_MOST	500

struct client {
	struct perf_link link;
	struct perf_options *o;
	struct perf_hello hello;
	uint64_t *samples;	/* of all runs of a size, in their order */
	uint64_t *sorted;
	size_t room;		/* samples */
	double measured;	/* seconds, of all runs of a size */
	/* --steps */
	uint32_t step_count;	/* messages of a run */
	size_t steps;		/* sizes */
	struct perf_result *best;	/* --json: fastest run of each size */
	uint64_t errors;
};

/* Defaults of each test. The first run has so many messages. */
static const struct {
	const uint32_t *sizes;
	size_t size_count;
	uint64_t bytes;
	uint32_t least, most;
} defaults[] = {
	[PERF_LAT] = { SIZES(lat_sizes), 64 << 20, 20, 10000 },
	[PERF_RATE] = { SIZES(rate_sizes), 256 << 20, 100, 100000 },
	[PERF_BW] = { SIZES(bw_sizes), 256 << 20, 20, 10000 },
	[PERF_WRITE_LAT] = { SIZES(lat_sizes), 64 << 20, 20, 10000 },
	[PERF_READ_LAT] = { SIZES(lat_sizes), 64 << 20, 20, 10000 },
	[PERF_ATOMIC_LAT] = { SIZES(atomic_sizes), 64 << 20, 20, 10000 },
	[PERF_WRITE_BW] = { SIZES(bw_sizes), 256 << 20, 20, 10000 },
	[PERF_READ_BW] = { SIZES(bw_sizes), 256 << 20, 20, 10000 },
};

static uint32_t count_of(const struct perf_options *o, uint32_t size)
{
	uint64_t n = defaults[o->test].bytes / (size ? size : 1);

	if (o->count)
		return o->count;
	if (o->cold)
		return COLD_COUNT;
	n = n > defaults[o->test].most ? defaults[o->test].most : n;
	return n < defaults[o->test].least ? defaults[o->test].least :
	       (uint32_t)n;
}

/* Returns true if the test's figure is a latency, which a median describes. */
static bool has_latency(enum perf_test test)
{
	return test == PERF_LAT || test == PERF_WRITE_LAT ||
	       test == PERF_READ_LAT;
}

static uint32_t step_count_of(const struct perf_options *o)
{
	uint32_t most = has_latency(o->test) ? STEP_LATENCIES : STEP_MOST;
	uint64_t n = STEP_BYTES / o->steps.to;

	if (o->count)
		return o->count;
	return n > most ? most : n < STEP_LEAST ? STEP_LEAST : (uint32_t)n;
}

static uint32_t window_of(enum perf_test test, uint32_t size)
{
	uint64_t n = WINDOW_BYTES / (size ? size : 1);
	uint32_t most = perf_one_sided(test) ? ONESIDED_WINDOW : WINDOW;

	if (test == PERF_READ_LAT || test == PERF_ATOMIC_LAT)
		return 1;
	return n > most ? most : n ? (uint32_t)n : 1;
}

static uint32_t every_of(enum perf_test test)
{
	return test == PERF_RATE ? RATE_EVERY : 1;
}

/*
 * Chooses the sizes and counts. Returns the largest size, and that of an array
 * of all times of a size.
 */
static size_t choose(struct client *c, size_t *ret_most)
{
	struct perf_options *o = c->o;
	size_t largest = 0, most = o->count || o->cold ? 0 : SAMPLES;

	if (o->steps.step) {
		c->step_count = step_count_of(o);
		c->steps = (o->steps.to - o->steps.from) / o->steps.step + 1;
		*ret_most = c->step_count;
		return o->steps.to;
	}
	if (!o->size_count)
		for (size_t i = 0; i < defaults[o->test].size_count; i++)
			o->sizes[o->size_count++] = defaults[o->test].sizes[i];
	for (int i = 0; i < o->size_count; i++) {
		size_t n = count_of(o, o->sizes[i]);

		largest = o->sizes[i] > largest ? o->sizes[i] : largest;
		most = n > most ? n : most;
	}
	*ret_most = most;
	return largest;
}

/* Allocates memory for the largest size and the most messages, in advance. */
static int prepare(struct client *c)
{
	struct perf_options *o = c->o;
	struct perf_link *l = &c->link;
	size_t most, largest = choose(c, &most);

	l->test = o->test;
	l->room = (uint32_t)(largest > 8 ? largest : 8);
	l->pattern = perf_pattern(largest);
	c->room = most;
	c->samples = calloc(most, sizeof(*c->samples));
	c->sorted = calloc(most, sizeof(*c->sorted));
	if (l->pattern && c->samples && c->sorted) {
		/* no first touch of these pages in a measurement */
		memset(c->samples, 1, (most < TOUCHED ? most : TOUCHED) *
		       sizeof(*c->samples));
		return 0;
	}
	perf_complain("no memory for messages of %zu bytes and %zu times",
		      largest, most);
	return -1;
}

/* Returns the part of a round trip that a time stands for. */
static double part(enum perf_test test)
{
	return test == PERF_LAT || test == PERF_WRITE_LAT ? 0.5 : 1;
}

static double seconds(const struct perf_link *l)
{
	return (double)(l->end - l->begin) * perf_usec_per_tick() / 1e6;
}

/*
 * Adds a run of 'count' messages to the result. 'used' samples precede. Returns
 * -1 after printing an error.
 */
static int add(struct client *c, struct perf_result *r, uint32_t count,
	       size_t *used)
{
	struct perf_link *l = &c->link;

	l->count = count;
	l->samples = c->samples + *used;
	if (perf_link_run(l))
		return -1;
	*used += (count + l->every - 1) / l->every;
	c->measured += seconds(l);
	r->count += count;
	r->errors += l->errors;
	r->copied += l->copied;
	r->seconds += seconds(l) * part(l->test);
	memcpy(c->sorted, c->samples, *used * sizeof(*c->sorted));
	perf_percentiles(r, c->sorted, *used,
			 perf_usec_per_tick() * part(l->test));
	return 0;
}

/* Returns the time whose digits should stay. */
static double figure(const struct perf_result *r)
{
	return part(r->test) < 1 ? r->usec_p50 : r->seconds / r->count;
}

/*
 * Runs twice as many messages as before, until that does not change the figure, or
 * the next run would take the time beyond its bound.
 */
static int settle(struct client *c, struct perf_result *r, size_t *used)
{
	double before;

	do {
		uint32_t more = r->count;

		before = figure(r);
		if (2 * c->measured > MEASURE_MOST_S ||
		    *used + more / c->link.every + 1 > c->room) {
			r->moving = true;
			return 0;
		}
		if (add(c, r, more, used))
			return -1;
	} while (c->measured < MEASURE_LEAST_S ||
		 !perf_same_digits(before, figure(r)));
	return 0;
}

/* Runs a few messages, until two runs in a row are not faster. */
static int warm_up(struct client *c, struct perf_result *r, uint32_t count)
{
	struct perf_link *l = &c->link;
	double best = 0, total = 0;
	int slower = 0;

	l->samples = c->samples;
	l->count = count / 10 > WARM_RUN_MOST ? WARM_RUN_MOST : count / 10;
	if (l->count < WINDOW)
		l->count = count < WINDOW ? count : WINDOW;
	for (int i = 0; i < WARM_LEAST ||
	     (i < WARM_MOST && slower < 2 && total < WARM_S); i++) {
		double took;

		if (perf_link_run(l))
			return -1;
		took = seconds(l);
		total += took;
		slower = best && took >= best * WARM_BETTER ? slower + 1 : 0;
		best = best && best < took ? best : took;
		r->warmup += l->count;
		r->errors += l->errors;
	}
	return 0;
}

/* Fills in what the runs of a size have in common. */
static void finish(struct client *c, struct perf_result *r, size_t used)
{
	const struct perf_link *l = &c->link;

	r->device = l->device;
	r->event = l->event;
	r->server_event = l->server_event;
	perf_over_time(r, c->samples, used,
		       perf_usec_per_tick() * part(r->test));
}

static void show(struct client *c, struct perf_result *r, size_t used)
{
	const struct perf_options *o = c->o;
	double scale = perf_usec_per_tick() * part(o->test);

	finish(c, r, used);
	perf_report(r, o->json);
	if (o->hist)
		perf_hist(c->sorted, used, scale);
	if (o->plot) {
		struct perf_row row;

		perf_row_of(r, &row);
		perf_plot_add(&row);
	}
}

static void set_size(struct client *c, uint32_t size)
{
	struct perf_link *l = &c->link;

	c->measured = 0;
	l->size = size;
	l->window = window_of(l->test, size);
	l->every = every_of(l->test);
}

/* Sends nothing for so long. */
static int rest(struct client *c, uint32_t ms)
{
	const double per_ms = 1000 / perf_usec_per_tick();
	const uint64_t end = perf_ticks() + (uint64_t)(ms * per_ms);
	int64_t left;

	while ((left = (int64_t)(end - perf_ticks())) > 0)
		if (rdmamsg_wait(c->link.ctx,
				 (int)((double)left / per_ms) + 1) < 0) {
			fprintf(stderr, "rdmamsg-perf: %s\n", rdmamsg_error());
			return -1;
		}
	return 0;
}

/* Returns the number of errors, or -1. */
static int64_t measure(struct client *c, uint32_t size)
{
	const struct perf_options *o = c->o;
	uint32_t count = count_of(o, size);
	struct perf_result r = { .test = o->test, .size = size,
				 .cold = o->cold, .pause_ms = o->pause_ms };
	const bool settles = !o->cold && !o->pause_ms && !o->count;
	size_t used = 0;

	set_size(c, size);
	if (!o->cold && warm_up(c, &r, count))
		return -1;
	if (o->pause_ms && rest(c, o->pause_ms))
		return -1;
	if (o->pause_ms && !o->count)
		count = PAUSE_COUNT;
	if (add(c, &r, count, &used) || (settles && settle(c, &r, &used)))
		return -1;
	show(c, &r, used);
	return (int64_t)r.errors;
}

/* ---- --steps ---------------------------------------------------------- */

static uint32_t step_size(const struct client *c, size_t i)
{
	return c->o->steps.from + (uint32_t)i * c->o->steps.step;
}

static double step_time(const struct perf_result *r)
{
	return has_latency(r->test) ? r->usec_p50 : r->seconds * 1e6 / r->count;
}

/* Measures a size for perf_step_find(). */
static int measure_step(void *arg, size_t i, double *ret_usec)
{
	struct client *c = arg;
	struct perf_result r = { .test = c->o->test, .size = step_size(c, i) };
	size_t used = 0;

	perf_progress(perf_test_names[r.test], r.size, i, c->steps);
	set_size(c, r.size);
	if (add(c, &r, c->step_count, &used))
		return -1;
	*ret_usec = step_time(&r);
	c->errors += r.errors;
	if (!c->best ||
	    (c->best[i].count && step_time(&c->best[i]) <= *ret_usec))
		return 0;
	finish(c, &r, used);
	c->best[i] = r;
	return 0;
}

/* The largest size first: its memory is that of all others. */
static int warm_steps(struct client *c)
{
	const uint32_t sizes[] = { c->o->steps.to, c->o->steps.from };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct perf_result r = { .test = c->o->test, .size = sizes[i] };

		set_size(c, r.size);
		if (warm_up(c, &r, c->step_count))
			return -1;
		c->errors += r.errors;
	}
	return 0;
}

static void report_step(const struct client *c, const struct perf_step *step)
{
	uint32_t from = step_size(c, step->at), to = step_size(c, step->at + 1);

	perf_progress(NULL, 0, 0, 0);
	for (size_t i = 0; c->best && i < c->steps; i++)
		perf_report(&c->best[i], true);
	if (c->o->json)
		printf("{\"test\": \"%s\", \"step_from\": %u, "
		       "\"step_to\": %u, \"step_times\": %.3f, "
		       "\"moving\": %s}\n", perf_test_names[c->o->test], from,
		       to, step->times, step->moving ? "true" : "false");
	else
		printf("largest step: %u to %u bytes: %.2f times the time%s\n",
		       from, to, step->times,
		       step->moving ? " (still moving)" : "");
	fflush(stdout);
}

/* Returns the number of errors, or -1. */
static int64_t measure_steps(struct client *c)
{
	struct perf_step step;
	int ret;

	c->link.quiet = true;
	if (c->o->json)
		c->best = calloc(c->steps, sizeof(*c->best));
	if (warm_steps(c))
		return -1;
	ret = c->o->json && !c->best ? -ENOMEM :
	      perf_step_find(c->steps, measure_step, c, &step);
	if (ret == -ENOMEM)
		perf_complain("no memory for %zu sizes", c->steps);
	if (ret)
		return -1;
	report_step(c, &step);
	return (int64_t)c->errors;
}

/* ---- connections ------------------------------------------------------ */

static int open_link(struct client *c)
{
	struct perf_link *l = &c->link;

	if (rdmamsg_open(&l->ctx, &perf_context)) {
		perf_complain("%s", rdmamsg_error());
		return -1;
	}
	perf_wake_on_signal(l->ctx);
	l->error = 0;		/* of the connection before */
	l->why[0] = 0;
	return perf_link_open(l, c->o, &c->hello);
}

/* Returns 0 or an exit status. */
static int close_link(struct client *c)
{
	struct perf_link *l = &c->link;
	int ret = perf_link_close(l) ? 1 : 0;

	perf_wake_on_signal(NULL);
	rdmamsg_close(l->ctx);
	l->ctx = NULL;
	return ret;
}

/* Forgets what has become warm at this end. */
static int open_again(struct client *c)
{
	if (close_link(c))
		return -1;
	(void)!getrandom(&c->hello.client, sizeof(c->hello.client),
			 GRND_NONBLOCK);
	return open_link(c);
}

/* Returns the number of errors, or -1. */
static int64_t measure_sizes(struct client *c)
{
	int64_t errors = 0;

	for (int i = 0; i < c->o->size_count; i++) {
		int64_t n;

		if (i && c->o->cold && open_again(c))
			return -1;
		n = measure(c, c->o->sizes[i]);
		if (n < 0)
			return -1;
		errors += n;
	}
	return errors;
}

static int measure_all(struct client *c)
{
	int64_t errors;

	if (prepare(c) || open_link(c))
		return 1;
	errors = c->o->steps.step ? measure_steps(c) : measure_sizes(c);
	if (errors > 0)
		perf_complain("%lld messages were wrong", (long long)errors);
	return errors ? 1 : 0;
}

static void say_hello(struct perf_hello *h, const struct perf_options *o)
{
	h->flags = (o->event ? 0 : PERF_POLLS) |
		   (o->check ? PERF_CHECK : 0) |
		   (o->guard ? PERF_GUARD : 0) |
		   (o->crc ? PERF_CRC : 0) |
		   (o->failover ? PERF_FAILOVER : 0);
	h->connections = 1;
	h->recv_depth = o->test == PERF_RATE ? RATE_RECV_DEPTH : 0;
	(void)!getrandom(&h->client, sizeof(h->client), GRND_NONBLOCK);
}

int perf_client(const struct perf_options *opts)
{
	struct perf_options o = *opts;
	struct client c = { .o = &o };
	int ret;

	say_hello(&c.hello, &o);
	ret = measure_all(&c);
	if (c.link.gap.last) {
		/* an interrupted run has a figure, too */
		perf_gap_mark(&c.link.gap);
		perf_gap_report(&c.link.gap, o.json);
	}
	if (close_link(&c))
		ret = 1;
	/* an interrupted test has results, too */
	if (o.plot && perf_plot(o.plot))
		ret = 1;
	if (perf_stopped)
		perf_complain("interrupted");
	free(c.samples);
	free(c.sorted);
	free(c.best);
	return ret;
}
