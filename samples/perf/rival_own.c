/* SPDX-License-Identifier: BSD-2-Clause */
/* compare: rdmamsg, by the server and the tests that users call. */
#include "rival.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES	8192

static int serve(const struct rival_run *run)
{
	struct perf_options o = {
		.command = CMD_SERVER, .host = run->o->host, .port = "0",
		.event = run->rival->event,
	};

	return perf_server(&o);
}

/* Lets standard output go to a file. Returns NULL on failure. */
static FILE *catch_output(void)
{
	FILE *f = tmpfile();

	if (f && !fflush(stdout) && dup2(fileno(f), STDOUT_FILENO) >= 0)
		return f;
	if (f)
		fclose(f);
	return NULL;
}

static int read_figure(FILE *f, const struct rival_run *run,
		       struct rival_result *ret)
{
	char line[LINE_BYTES];
	struct perf_row r;
	size_t n;

	if (fflush(stdout) || fseek(f, 0, SEEK_SET))
		return 1;
	n = fread(line, 1, sizeof(line), f);
	if (perf_row_parse(line, n, &r) != 1)
		return 1;
	ret->value = run->figure == RIVAL_USEC ? r.p50 :
		     run->figure == RIVAL_RATE ? r.msg_per_s :
						 r.mb_per_s * 1e6;
	ret->warmup = (uint64_t)r.warmup;
	return 0;
}

static int client(const struct rival_run *run, struct rival_result *ret)
{
	static const enum perf_test tests[] = {
		[RIVAL_USEC] = PERF_LAT, [RIVAL_RATE] = PERF_RATE,
		[RIVAL_BW] = PERF_BW,
	};
	char port[8];
	struct perf_options o = {
		.command = CMD_TEST, .test = tests[run->figure],
		.host = run->o->host, .port = port, .sizes = { run->size },
		.size_count = 1, .event = run->rival->event, .json = true,
	};
	FILE *f = catch_output();
	int status;

	snprintf(port, sizeof(port), "%u", run->port);
	if (!f)
		return 1;
	status = perf_client(&o);
	if (!status)
		status = read_figure(f, run, ret);
	fclose(f);
	return status;
}

const struct rival rival_rdmamsg[] = {
	{ .name = "rdmamsg, polling", .flags = "lat, rate, bw; --poll",
	  .figures = { true, true, true }, .says_port = true,
	  .serve = serve, .client = client },
	{ .name = "rdmamsg, events", .flags = "lat, rate, bw; --event",
	  .figures = { true, true, true }, .says_port = true, .event = true,
	  .serve = serve, .client = client },
	{ .name = NULL },
};
