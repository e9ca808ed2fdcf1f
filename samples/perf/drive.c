/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: both sides of a measurement, which are the same for every rival that
 * has a driver here. After a warm-up, the client measures for a while.
 */
#include "rival.h"

#include <stdlib.h>
#include <string.h>

#define WARM_S		0.1
#define MEASURE_S	0.4
/* the last ones, as in ucx_perftest; writing to a larger array takes time */
#define SAMPLES		((size_t)2048)
/*
 * Messages of a batch one way: at least so many, because both sides wait for
 * each other at its end, and more of them while that takes no longer than this.
 * Then most batches end before another program takes a processor.
 */
#define BATCH		1000u
#define BATCH_US	1000.0

int rival_serve(const struct rival_ops *ops, void *conn, size_t size)
{
	uint8_t *msg = malloc(size);
	enum rival_kind kind;

	if (!msg)
		return 1;
	memset(msg, RIVAL_ECHO, size);
	while ((kind = ops->recv(conn, size)) != RIVAL_STOP)
		if (kind == RIVAL_ECHO && ops->send(conn, msg, size, false))
			break;
	free(msg);
	return 0;
}

/*
 * Sends messages one way, and one that the server sends back: it has read all
 * others then. 'msg' has one of each kind, because a library may read a message
 * after the call that sends it.
 */
static int batch(const struct rival_ops *ops, void *conn, const uint8_t *msg,
		 size_t size, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (ops->send(conn, msg + size, size, true))
			return -1;
	return ops->send(conn, msg, size, false) ||
	       ops->recv(conn, size) != RIVAL_ECHO ? -1 : 0;
}

/* Repeats batches of n messages for so long. Returns their number, or 0. */
static size_t repeat(const struct rival_ops *ops, void *conn,
		     const uint8_t *msg, size_t size, size_t n,
		     double seconds, uint64_t *samples)
{
	double length = seconds * 1e6 / perf_usec_per_tick();
	uint64_t begin = perf_ticks(), last = begin, now;
	size_t count = 0;

	do {
		if (batch(ops, conn, msg, size, n))
			return 0;
		now = perf_ticks();
		samples[count++ % SAMPLES] = now - last;
		last = now;
	} while ((double)(now - begin) < length);
	return count;
}

/*
 * The figure of a median of round trips or batches, because other programs of
 * this host make an average worse.
 */
static double figure(const struct rival_run *run, size_t n, double usec)
{
	if (run->figure == RIVAL_USEC)
		return usec / 2;
	return (double)n * 1e6 / usec *
	       (run->figure == RIVAL_BW ? run->size : 1);
}

static double median(uint64_t *samples, size_t count)
{
	struct perf_result r = { 0 };

	perf_percentiles(&r, samples, count < SAMPLES ? count : SAMPLES,
			 perf_usec_per_tick());
	return r.usec_p50;
}

static int drive(const struct rival_ops *ops, void *conn, const uint8_t *msg,
		 const struct rival_run *run, uint64_t *samples,
		 struct rival_result *ret)
{
	size_t n = run->figure == RIVAL_USEC ? 1 : BATCH;
	size_t count = repeat(ops, conn, msg, run->size, n, WARM_S, samples);
	double usec;

	ret->warmup = n * count;
	if (!count)
		return 1;
	usec = median(samples, count);
	if (n > 1 && usec < BATCH_US)
		n = (size_t)((double)n * BATCH_US / usec);
	count = repeat(ops, conn, msg, run->size, n, MEASURE_S, samples);
	if (!count)
		return 1;
	ret->value = figure(run, n, median(samples, count));
	return 0;
}

int rival_drive(const struct rival_ops *ops, void *conn,
		const struct rival_run *run, struct rival_result *ret)
{
	uint64_t *samples = malloc(SAMPLES * sizeof(*samples));
	uint8_t *msg = malloc(2 * (size_t)run->size);
	int status = 1;

	if (samples && msg) {
		memset(samples, 1, SAMPLES * sizeof(*samples));
		memset(msg, RIVAL_ECHO, run->size);
		memset(msg + run->size, RIVAL_ONE_WAY, run->size);
		status = drive(ops, conn, msg, run, samples, ret);
	}
	free(samples);
	free(msg);
	return status;
}
