/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tune: three connections differ only in how they send: inline in the request,
 * by copy, by rendezvous. inline_max and eager_max should be the sizes from
 * which on the next way is faster.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <rdmamsg/endpoint.h>

#define ROUNDS		5	/* each way takes part in each round */
#define COUNT		200	/* messages in a round */
#define INLINE_ASK	512
#define EAGER_ASK	65536
#define RECV_DEPTH	16
#define BETTER		1.02	/* a smaller gain is noise: simpler wins */

enum way { INLINE, COPY, RENDEZVOUS, WAYS };

static const struct perf_hello hellos[WAYS] = {
	[INLINE] = { .inline_max = INLINE_ASK, .eager_max = EAGER_ASK },
	[COPY] = { .inline_max = RDMAMSG_NONE, .eager_max = EAGER_ASK },
	[RENDEZVOUS] = { .inline_max = RDMAMSG_NONE,
			 .eager_max = RDMAMSG_NONE },
};

static const uint32_t sizes[] = {
	16, 32, 64, 96, 128, 160, 192, 224, 256, 384, 496, 1024, 2048, 4096,
	8192, 16384, 32768, 65536,
};
#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))

struct tune {
	struct rdmamsg *ctx;
	const struct perf_options *o;
	struct perf_link links[WAYS];
	uint64_t *samples;
	uint32_t count;
	double usec[SIZES][WAYS];	/* 0: this way is impossible */
};

static int open_links(struct tune *t)
{
	uint32_t client = 0;

	(void)!getrandom(&client, sizeof(client), GRND_NONBLOCK);
	for (int i = 0; i < WAYS; i++) {
		struct perf_hello hello = hellos[i];
		struct perf_link *l = &t->links[i];

		hello.client = client;
		hello.connections = WAYS;
		hello.recv_depth = RECV_DEPTH;
		hello.flags = (t->o->event ? 0 : PERF_POLLS) |
			      (i == RENDEZVOUS ? 0 : PERF_COPY);
		l->ctx = t->ctx;
		l->test = PERF_LAT;
		l->pattern = perf_pattern(EAGER_ASK);
		l->samples = t->samples;
		if (perf_link_open(l, t->o, &hello))
			return -1;
		l->count = t->count;
	}
	return 0;
}

static bool possible(const struct tune *t, enum way way, uint32_t size)
{
	return way != INLINE || size <= t->links[INLINE].inline_max;
}

/*
 * Returns the best of the rounds' medians, because any disturbance is slower.
 */
static int measure(struct tune *t, size_t at)
{
	for (int i = 0; i < ROUNDS * WAYS; i++) {
		struct perf_link *l = &t->links[i % WAYS];
		double *best = &t->usec[at][i % WAYS];
		struct perf_result r = { 0 };

		if (!possible(t, (enum way)(i % WAYS), sizes[at]))
			continue;
		l->size = sizes[at];
		if (perf_link_run(l))
			return -1;
		perf_percentiles(&r, t->samples, t->count,
				 perf_usec_per_tick() / 2);
		if (!*best || r.usec_p50 < *best)
			*best = r.usec_p50;
		perf_progress("tune", sizes[at], at, SIZES);
	}
	return 0;
}

static void show(const struct tune *t, size_t at)
{
	printf("%10u", sizes[at]);
	for (int way = 0; way < WAYS; way++)
		if (t->usec[at][way])
			printf(" %11.2f", t->usec[at][way]);
		else
			printf(" %11s", "-");
	putchar('\n');
	fflush(stdout);
}

/* Returns the largest size up to which 'a' is never slower than 'b'. */
static uint32_t threshold(const struct tune *t, enum way a, enum way b)
{
	uint32_t ret = 0;

	for (size_t i = 0; i < SIZES && t->usec[i][a]; i++) {
		if (t->usec[i][a] > t->usec[i][b] * BETTER)
			break;
		ret = sizes[i];
	}
	return ret;
}

static void advise(const char *name, uint32_t value, uint32_t limit,
		   const char *what)
{
	if (!value)
		printf("%s = RDMAMSG_NONE\n", name);
	else
		printf("%s = %u%s\n", name, value, value == limit ? what : "");
}

static int run(struct tune *t)
{
	uint32_t inline_max;

	if (open_links(t))
		return -1;
	printf("one way on %s, microseconds, %s\n%10s %11s %11s %11s\n",
	       rdmamsg_ep_device_name(t->links[0].ep), t->o->event ? "events" :
	       "polling", "bytes", "inline", "copy", "rendezvous");
	for (size_t i = 0; i < SIZES; i++) {
		if (measure(t, i))
			return -1;
		perf_progress(NULL, 0, 0, 0);
		show(t, i);
	}
	inline_max = t->links[INLINE].inline_max;
	advise("inline_max", threshold(t, INLINE, COPY), inline_max,
	       " (all there is)");
	advise("eager_max", threshold(t, COPY, RENDEZVOUS), EAGER_ASK,
	       " (the largest tried)");
	return 0;
}

int perf_tune(const struct perf_options *o)
{
	struct tune t = { .o = o, .count = o->count ? o->count : COUNT };
	int ret;

	t.samples = calloc(t.count, sizeof(*t.samples));
	if (!t.samples || !perf_pattern(EAGER_ASK) ||
	    rdmamsg_open(&t.ctx, &perf_context)) {
		perf_complain("%s", t.samples ? rdmamsg_error() : "no memory");
		free(t.samples);
		return 1;
	}
	perf_wake_on_signal(t.ctx);
	ret = run(&t);
	for (int i = 0; i < WAYS; i++)
		if (perf_link_close(&t.links[i]))
			ret = -1;
	if (perf_stopped)
		perf_complain("interrupted");
	perf_wake_on_signal(NULL);
	rdmamsg_close(t.ctx);
	free(t.samples);
	return ret ? 1 : 0;
}
