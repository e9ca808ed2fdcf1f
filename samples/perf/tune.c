/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tune: four connections differ only in how they send: inline in the request,
 * by copy, in pieces, by rendezvous. inline_max, eager_max and pieces_max should
 * be the sizes from which on another way is faster.
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
#define PIECES_DEPTH	128	/* for runs of half as many pieces */
#define BETTER		1.02	/* a smaller gain is noise: simpler wins */

enum way { INLINE, COPY, PIECES, RENDEZVOUS, WAYS };

static const struct perf_hello hellos[WAYS] = {
	[INLINE] = { .inline_max = INLINE_ASK, .eager_max = EAGER_ASK },
	[COPY] = { .inline_max = RDMAMSG_NONE, .eager_max = EAGER_ASK },
	[PIECES] = { .inline_max = RDMAMSG_NONE },
	[RENDEZVOUS] = { .inline_max = RDMAMSG_NONE,
			 .eager_max = RDMAMSG_NONE },
};

static const uint32_t sizes[] = {
	16, 32, 64, 96, 128, 160, 192, 224, 256, 384, 496, 1024, 2048, 4096,
	8192, 16384, 32768, 65536, 131072, 262144,
};
#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))

struct tune {
	struct rdmamsg *ctx;
	const struct perf_options *o;
	struct perf_link links[WAYS];
	uint64_t *samples;
	uint32_t count;
	uint32_t eager, pieces;		/* sizes sent in pieces: between them */
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
		hello.recv_depth = i == PIECES ? PIECES_DEPTH : RECV_DEPTH;
		hello.flags = (t->o->event ? 0 : PERF_POLLS) |
			      (i == RENDEZVOUS ? 0 :
			       i == PIECES ? PERF_PIECES : PERF_COPY);
		l->ctx = t->ctx;
		l->test = PERF_LAT;
		l->pattern = perf_pattern(PERF_PIECES_MAX);
		l->samples = t->samples;
		if (perf_link_open(l, t->o, &hello))
			return -1;
		l->count = t->count;
	}
	return 0;
}

static bool possible(const struct tune *t, enum way way, uint32_t size)
{
	switch (way) {
	case INLINE:
		return size <= t->links[INLINE].inline_max;
	case COPY:
		return size <= EAGER_ASK;
	case PIECES:
		return size > t->eager && size <= t->pieces;
	default:
		return true;
	}
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

/* Returns the time of the fastest way behind 'a'. */
static double best_behind(const struct tune *t, size_t at, int a)
{
	double best = t->usec[at][RENDEZVOUS];

	while (++a < RENDEZVOUS)
		if (t->usec[at][a] && t->usec[at][a] < best)
			best = t->usec[at][a];
	return best;
}

/*
 * Returns the largest size up to which 'a', where it is possible, is not slower
 * than a way behind it. One size that is slower may be a disturbance.
 */
static uint32_t threshold(const struct tune *t, enum way a)
{
	int slower = 0;
	uint32_t ret = 0;

	for (size_t i = 0; i < SIZES; i++) {
		if (!t->usec[i][a])
			continue;
		if (t->usec[i][a] <= best_behind(t, i, a) * BETTER) {
			ret = sizes[i];
			slower = 0;
		} else if (++slower == 2) {
			break;
		}
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
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	if (open_links(t))
		return -1;
	(void)rdmamsg_ep_query(t->links[PIECES].ep, &info);
	t->eager = info.eager_max;
	t->pieces = info.pieces_max;
	printf("one way on %s, microseconds, %s\n%10s %11s %11s %11s %11s\n",
	       rdmamsg_ep_device_name(t->links[0].ep), t->o->event ? "events" :
	       "polling", "bytes", "inline", "copy", "pieces", "rendezvous");
	for (size_t i = 0; i < SIZES; i++) {
		if (measure(t, i))
			return -1;
		perf_progress(NULL, 0, 0, 0);
		show(t, i);
	}
	printf("settings for rdmamsg_ep_tuning(3):\n");
	advise("inline_max", threshold(t, INLINE), t->links[INLINE].inline_max,
	       " (all there is)");
	advise("eager_max", threshold(t, COPY), EAGER_ASK,
	       " (the largest tried)");
	advise("pieces_max", threshold(t, PIECES), PERF_PIECES_MAX,
	       " (the largest tried)");
	return 0;
}

int perf_tune(const struct perf_options *o)
{
	struct tune t = { .o = o, .count = o->count ? o->count : COUNT };
	int ret;

	t.samples = calloc(t.count, sizeof(*t.samples));
	if (!t.samples || !perf_pattern(PERF_PIECES_MAX) ||
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
