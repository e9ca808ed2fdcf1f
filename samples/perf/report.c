/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock, the figures and their output. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAME	0.005	/* half of the third digit of 1.00 */

/* ---- time ------------------------------------------------------------- */

static uint64_t start_ticks;
static struct timespec start_time;

void perf_clock_start(void)
{
	clock_gettime(CLOCK_MONOTONIC, &start_time);
	start_ticks = perf_ticks();
}

double perf_usec_per_tick(void)
{
	struct timespec now;
	uint64_t ticks = perf_ticks() - start_ticks;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((double)(now.tv_sec - start_time.tv_sec) * 1e6 +
		(double)(now.tv_nsec - start_time.tv_nsec) / 1e3) /
	       (double)(ticks ? ticks : 1);
}

/* ---- figures ---------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

double perf_rank(const uint64_t *sorted, size_t count, double part)
{
	size_t at = (size_t)((double)count * part);

	return (double)sorted[at < count ? at : count - 1];
}

void perf_percentiles(struct perf_result *r, uint64_t *samples, size_t count,
		      double scale)
{
	double sum = 0;

	if (!count)
		return;
	qsort(samples, count, sizeof(*samples), compare);
	for (size_t i = 0; i < count; i++)
		sum += (double)samples[i];
	r->usec_avg = sum / (double)count * scale;
	r->usec_p50 = perf_rank(samples, count, 0.5) * scale;
	r->usec_p99 = perf_rank(samples, count, 0.99) * scale;
	r->usec_p999 = perf_rank(samples, count, 0.999) * scale;
}

void perf_over_time(struct perf_result *r, const uint64_t *samples,
		    size_t count, double scale)
{
	size_t n = count < PERF_POINTS ? count : PERF_POINTS;
	double part = r->test == PERF_LAT || r->test == PERF_WRITE_LAT ? 0.5 : 1;
	uint64_t *some = n ? calloc(count / n + 1, sizeof(*some)) : NULL;

	r->points = 0;
	for (size_t i = 0; some && i < n; i++) {
		size_t from = count * i / n, to = count * (i + 1) / n;
		struct perf_point *p = &r->point[r->points++];

		memcpy(some, samples + from, (to - from) * sizeof(*some));
		qsort(some, to - from, sizeof(*some), compare);
		p->seconds = r->seconds / part * (double)(i + 1) / (double)n;
		p->p50 = perf_rank(some, to - from, 0.5) * scale;
		p->worst = (double)some[to - from - 1] * scale;
	}
	free(some);
}

bool perf_same_digits(double a, double b)
{
	double difference = a > b ? a - b : b - a;

	return difference <= b * SAME;
}

/* ---- showing them ----------------------------------------------------- */

static double msg_per_s(const struct perf_result *r)
{
	return r->seconds > 0 ? r->count / r->seconds : 0;
}

void perf_row_of(const struct perf_result *r, struct perf_row *ret)
{
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->test, sizeof(ret->test), "%s", perf_test_names[r->test]);
	snprintf(ret->device, sizeof(ret->device), "%s", r->device);
	snprintf(ret->mode, sizeof(ret->mode), "%s",
		 r->event ? "event" : "poll");
	ret->size = r->size;
	ret->p50 = r->usec_p50;
	ret->p99 = r->usec_p99;
	ret->p999 = r->usec_p999;
	ret->msg_per_s = msg_per_s(r);
	ret->mb_per_s = msg_per_s(r) * r->size / 1e6;
	ret->warmup = r->warmup;
	ret->cold = r->cold;
	ret->points = r->points;
	memcpy(ret->point, r->point, sizeof(ret->point));
}

static void json_over_time(const struct perf_result *r)
{
	printf("\"over_time\": [");
	for (unsigned int i = 0; i < r->points; i++)
		printf("%s[%.6f, %.3f, %.3f]", i ? ", " : "",
		       r->point[i].seconds, r->point[i].p50,
		       r->point[i].worst);
	printf("], ");
}

static void json(const struct perf_result *r)
{
	printf("{\"test\": \"%s\", \"size\": %u, \"count\": %u, "
	       "\"usec_avg\": %.3f, \"usec_p50\": %.3f, \"usec_p99\": %.3f, "
	       "\"usec_p999\": %.3f, \"msg_per_s\": %.1f, \"mb_per_s\": %.3f, "
	       "\"errors\": %llu, \"warmup\": %u, \"cold\": %s, "
	       "\"pause_ms\": %u, "
	       "\"moving\": %s, ",
	       perf_test_names[r->test], r->size, r->count, r->usec_avg,
	       r->usec_p50, r->usec_p99, r->usec_p999, msg_per_s(r),
	       msg_per_s(r) * r->size / 1e6, (unsigned long long)r->errors,
	       r->warmup, r->cold ? "true" : "false", r->pause_ms,
	       r->moving ? "true" : "false");
	json_over_time(r);
	printf("%s\"device\": \"%s\", \"mode\": \"%s\", "
	       "\"server_mode\": \"%s\"}\n",
	       r->more ? r->more : "", r->device, r->event ? "event" : "poll",
	       r->server_event ? "event" : "poll");
}

/* For reads and atomic operations, only the client waits. */
static const char *mode(const struct perf_result *r)
{
	if (r->event == r->server_event ||
	    (perf_one_sided(r->test) && r->test != PERF_WRITE_LAT))
		return r->event ? "events" : "polling";
	return r->event ? "client waits for events, server polls" :
	       "client polls, server waits for events";
}

/* Prints a column with at least three digits. */
static void usec(double value)
{
	printf(" %10.*f", value < 1 ? 3 : 2, value);
}

static void table(const struct perf_result *r)
{
	static const char *headed;
	char pause[48] = "";

	if (r->pause_ms)
		(void)snprintf(pause, sizeof(pause),
			       "; the first after a pause of %u ms",
			       r->pause_ms);
	/* each table has one mode, and the server's may change between sizes */
	if (headed != mode(r))
		printf("%s on %s, %s; microseconds are %s%s\n"
		       "%10s %9s %10s %10s %10s %10s %10s %9s %7s %12s %9s\n",
		       perf_test_names[r->test], r->device,
		       mode(r),
		       r->test == PERF_LAT || r->test == PERF_WRITE_LAT ?
		       "one way" : "from sending to confirmation",
		       r->cold ? "; cold start: the first messages of a new "
		       "connection" : pause,
		       "bytes", "count", "average", "p50", "p99", "p99.9",
		       "msg/s", "MB/s", "errors", "bytes copied",
		       "left out");
	headed = mode(r);
	printf("%10u %9u", r->size, r->count);
	usec(r->usec_avg);
	usec(r->usec_p50);
	usec(r->usec_p99);
	usec(r->usec_p999);
	printf(" %10.0f %9.2f %7llu %12llu %9u%s\n", msg_per_s(r),
	       msg_per_s(r) * r->size / 1e6, (unsigned long long)r->errors,
	       (unsigned long long)r->copied, r->warmup,
	       r->moving ? " (still moving)" : "");
}

void perf_report(const struct perf_result *r, bool as_json)
{
	perf_progress(NULL, 0, 0, 0);
	if (as_json)
		json(r);
	else
		table(r);
	fflush(stdout);
}

void perf_progress(const char *what, uint32_t size, uint64_t done,
		   uint64_t total)
{
	static int terminal = -1, shown;
	static time_t last;
	struct timespec now;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal || (!total && !shown))
		return;
	if (!total) {
		fputs("\r\033[K", stderr);
		shown = 0;
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec == last)
		return;
	last = now.tv_sec;
	shown = 1;
	fprintf(stderr, "\r%s %u bytes: %3.0f%%\033[K", what, size,
		100 * (double)done / (double)total);
	fflush(stderr);
}
