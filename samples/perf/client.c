/* SPDX-License-Identifier: BSD-2-Clause */
/* lat, rate and bw: one run for each size, after a shorter run to warm up. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
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

/* Defaults of each test. A run with these counts takes some seconds. */
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
	n = n > defaults[o->test].most ? defaults[o->test].most : n;
	return n < defaults[o->test].least ? defaults[o->test].least :
	       (uint32_t)n;
}

static uint32_t window_of(enum perf_test test, uint32_t size)
{
	uint64_t n = WINDOW_BYTES / (size ? size : 1);
	uint32_t most = perf_one_sided(test) ? ONESIDED_WINDOW : WINDOW;

	if (test == PERF_READ_LAT || test == PERF_ATOMIC_LAT)
		return 1;
	return n > most ? most : n ? (uint32_t)n : 1;
}

/* Allocates memory for the largest size and the most messages, in advance. */
static int prepare(struct perf_link *l, struct perf_options *o)
{
	size_t largest = 0, most = 0;

	if (!o->size_count)
		for (size_t i = 0; i < defaults[o->test].size_count; i++)
			o->sizes[o->size_count++] = defaults[o->test].sizes[i];
	for (int i = 0; i < o->size_count; i++) {
		size_t n = count_of(o, o->sizes[i]);

		largest = o->sizes[i] > largest ? o->sizes[i] : largest;
		most = n > most ? n : most;
	}
	l->test = o->test;
	l->room = (uint32_t)(largest > 8 ? largest : 8);
	l->pattern = perf_pattern(largest);
	l->samples = calloc(most, sizeof(*l->samples));
	if (l->pattern && l->samples)
		return 0;
	perf_complain("no memory for messages of %zu bytes and %zu times",
		      largest, most);
	return -1;
}

static void result(const struct perf_link *l, struct perf_result *r)
{
	double scale = perf_usec_per_tick();
	double usec = (double)(l->end - l->begin) * scale;
	/* half of a round trip */
	double half = l->test == PERF_LAT || l->test == PERF_WRITE_LAT ?
		      0.5 : 1;

	r->test = l->test;
	r->size = l->size;
	r->count = l->count;
	r->errors = l->errors;
	r->copied = l->copied;
	r->device = rdmamsg_ep_device_name(l->ep);
	r->event = l->event;
	r->server_event = l->server_event;
	r->seconds = usec * half / 1e6;
	perf_percentiles(r, l->samples, (l->count + l->every - 1) / l->every,
			 scale * half);
}

/* Returns the number of errors, or -1. */
static int64_t measure(struct perf_link *l, const struct perf_options *o,
		       uint32_t size)
{
	uint32_t count = count_of(o, size), warm = count / 10;
	struct perf_result r = { 0 };

	l->size = size;
	l->window = window_of(o->test, size);
	l->every = o->test == PERF_RATE ? RATE_EVERY : 1;
	l->count = warm < WINDOW ? (count < WINDOW ? count : WINDOW) :
		   warm > 1000 ? 1000 : warm;
	if (perf_link_run(l))
		return -1;
	r.errors = l->errors;
	l->count = count;
	if (perf_link_run(l))
		return -1;
	l->errors += r.errors;
	result(l, &r);
	perf_report(&r, o->json);
	return (int64_t)r.errors;
}

static int measure_all(struct perf_link *l, struct perf_options *o)
{
	struct perf_hello hello = {
		.flags = (o->event ? 0 : PERF_POLLS) |
			 (o->check ? PERF_CHECK : 0) |
			 (o->guard ? PERF_GUARD : 0) |
			 (o->crc ? PERF_CRC : 0) |
			 (o->failover ? PERF_FAILOVER : 0),
		.connections = 1,
		.recv_depth = o->test == PERF_RATE ? RATE_RECV_DEPTH : 0,
	};
	int64_t errors = 0;

	(void)!getrandom(&hello.client, sizeof(hello.client), GRND_NONBLOCK);
	if (prepare(l, o) || perf_link_open(l, o, &hello))
		return 1;
	for (int i = 0; i < o->size_count; i++) {
		int64_t n = measure(l, o, o->sizes[i]);

		if (n < 0)
			return 1;
		errors += n;
	}
	if (errors)
		perf_complain("%lld messages were wrong", (long long)errors);
	return errors ? 1 : 0;
}

int perf_client(const struct perf_options *opts)
{
	struct perf_options o = *opts;
	struct perf_link l = { 0 };
	int ret;

	if (rdmamsg_open(&l.ctx, &perf_context)) {
		perf_complain("%s", rdmamsg_error());
		return 1;
	}
	perf_wake_on_signal(l.ctx);
	ret = measure_all(&l, &o);
	if (l.gap.last) {
		/* an interrupted run has a figure, too */
		perf_gap_mark(&l.gap);
		perf_gap_report(&l.gap, o.json);
	}
	if (perf_link_close(&l))
		ret = 1;
	if (perf_stopped)
		perf_complain("interrupted");
	perf_wake_on_signal(NULL);
	rdmamsg_close(l.ctx);
	free(l.samples);
	return ret;
}
