/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-perf: measures messages between a server and a client. */
#include "perf.h"
#include "plot.h"
#include "../output.h"

#include <stdarg.h>
#include <stdio.h>

const char *const perf_test_names[] = {
	[PERF_LAT] = "lat", [PERF_RATE] = "rate", [PERF_BW] = "bw",
	[PERF_WRITE_LAT] = "write-lat", [PERF_READ_LAT] = "read-lat",
	[PERF_ATOMIC_LAT] = "atomic-lat", [PERF_WRITE_BW] = "write-bw",
	[PERF_READ_BW] = "read-bw", [PERF_GROUP_LAT] = "group-lat",
};

struct rdmamsg_options perf_context = {
	.size = sizeof(perf_context), .max_registered = SIZE_MAX / 2,
};

volatile sig_atomic_t perf_stopped;
static struct rdmamsg *volatile to_wake;

static void on_signal(int sig)
{
	perf_stopped = sig;
	if (to_wake)
		rdmamsg_stop(to_wake);
}

void perf_catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

void perf_wake_on_signal(struct rdmamsg *ctx)
{
	to_wake = ctx;
	if (ctx)
		perf_catch_signals();
}

void perf_complain(const char *fmt, ...)
{
	int error = errno;
	va_list ap;

	perf_progress(NULL, 0, 0, 0);
	fputs("rdmamsg-perf: ", stderr);
	errno = error;		/* for %m */
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

const char *perf_why(const struct rdmamsg_reason *why, char buf[PERF_WHY_MAX])
{
	if (why->cause == RDMAMSG_CAUSE_REFUSED)
		snprintf(buf, PERF_WHY_MAX, "%s: start 'rdmamsg-perf server' "
			 "there, or name its port with -p", why->text);
	else if (why->cause == RDMAMSG_CAUSE_REJECTED && why->data_len)
		snprintf(buf, PERF_WHY_MAX, "%s, which says '%.*s'", why->text,
			 (int)why->data_len, (const char *)why->data);
	else
		snprintf(buf, PERF_WHY_MAX, "%s", why->text);
	printable(buf);
	return buf;
}

int main(int argc, char **argv)
{
	struct perf_options o;
	int ret;

	output_check(1);
	ret = perf_options(&o, argc, argv);
	if (ret)
		return ret - 1;
	perf_clock_start();
	switch (o.command) {
	case CMD_SERVER:
		ret = perf_server(&o);
		break;
	case CMD_TEST:
		ret = perf_client(&o);
		break;
	case CMD_TUNE:
		ret = perf_tune(&o);
		break;
	case CMD_CONNS:
		ret = perf_conns(&o);
		break;
	case CMD_COMPARE:
		ret = perf_compare(&o);
		break;
	case CMD_GROUP:
		ret = perf_group(&o);
		break;
	case CMD_PLOT:
		ret = perf_plot_files(o.files, o.file_count, o.plot);
		break;
	}
	if (fflush(stdout) || ferror(stdout)) {
		perf_complain("standard output: %m");
		ret = 1;
	}
	/* a server has no other end */
	if (perf_stopped && o.command != CMD_SERVER)
		ret = 128 + perf_stopped;
	return ret;
}
