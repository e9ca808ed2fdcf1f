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
#define SAMPLES		((size_t)1 << 19)
#define BATCH_S		0.05	/* a batch of messages one way is longer */

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

static int echo(const struct rival_ops *ops, void *conn, const uint8_t *msg,
		size_t size)
{
	return ops->send(conn, msg, size, false) ||
	       ops->recv(conn, size) != RIVAL_ECHO ? -1 : 0;
}

/* Sends messages back and forth for so long. Returns their number, or 0. */
static size_t ping_pong(const struct rival_ops *ops, void *conn,
			const uint8_t *msg, size_t size, double seconds,
			uint64_t *samples)
{
	double end = rival_now() + seconds;
	uint64_t last = perf_ticks(), now;
	size_t n = 0;

	do {
		if (echo(ops, conn, msg, size))
			return 0;
		now = perf_ticks();
		samples[n++] = now - last;
		last = now;
	} while (n < SAMPLES && (n % 64 || rival_now() < end));
	return n;
}

static int latency(const struct rival_ops *ops, void *conn, const uint8_t *msg,
		   size_t size, struct rival_result *ret)
{
	uint64_t *samples = malloc(SAMPLES * sizeof(*samples));
	struct perf_result r = { 0 };
	size_t n = 0;

	if (!samples)
		return 1;
	memset(samples, 1, SAMPLES * sizeof(*samples));
	ret->warmup = ping_pong(ops, conn, msg, size, WARM_S, samples);
	if (ret->warmup)
		n = ping_pong(ops, conn, msg, size, MEASURE_S, samples);
	perf_percentiles(&r, samples, n, perf_usec_per_tick() / 2);
	ret->value = r.usec_p50;
	free(samples);
	return n ? 0 : 1;
}

/*
 * Sends messages one way, and one that the server sends back: it has read all
 * others then. Returns the seconds, or 0.
 */
static double batch(const struct rival_ops *ops, void *conn, uint8_t *msg,
		    size_t size, size_t n)
{
	double begin = rival_now();

	msg[0] = RIVAL_ONE_WAY;
	for (size_t i = 1; i < n; i++)
		if (ops->send(conn, msg, size, true))
			return 0;
	msg[0] = RIVAL_ECHO;
	return echo(ops, conn, msg, size) ? 0 : rival_now() - begin;
}

/* Batches become longer, which is a warm-up. All of the longest count. */
static int stream(const struct rival_ops *ops, void *conn, uint8_t *msg,
		  size_t size, struct rival_result *ret)
{
	double took, total = 0, sent = 0;
	size_t n = 16;

	while ((took = batch(ops, conn, msg, size, n)) < BATCH_S) {
		if (took <= 0)
			return 1;
		ret->warmup += n;
		n *= 2;
	}
	ret->warmup += n;
	while (total < MEASURE_S) {
		took = batch(ops, conn, msg, size, n);
		if (took <= 0)
			return 1;
		sent += (double)n;
		total += took;
	}
	ret->value = sent / total;
	return 0;
}

int rival_drive(const struct rival_ops *ops, void *conn,
		const struct rival_run *run, struct rival_result *ret)
{
	uint8_t *msg = malloc(run->size);
	int status;

	if (!msg)
		return 1;
	memset(msg, RIVAL_ECHO, run->size);
	if (run->figure == RIVAL_USEC)
		status = latency(ops, conn, msg, run->size, ret);
	else
		status = stream(ops, conn, msg, run->size, ret);
	if (run->figure == RIVAL_BW)
		ret->value *= run->size;
	free(msg);
	return status;
}
