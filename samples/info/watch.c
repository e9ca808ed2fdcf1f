/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows the events of devices and ports, a line each. */
#include "info.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#define DEVICES	64
#define LOOK_MS	1000		/* between looks for new devices */

static struct rdmamsg *context;
static char watched[DEVICES][64];	/* names; "": free */
static uint64_t events;
static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
	ended = 1;
	/* else the signal may come just before the wait */
	rdmamsg_stop(context);
}

/* Prints UTC with milliseconds. */
static void print_time(void)
{
	struct timespec now;
	struct tm tm;
	char text[32];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	printf("%s.%03ldZ", text, now.tv_nsec / 1000000);
}

/* event: in capitals; state: of the port, or NULL */
static void print_event(const char *device, uint32_t port, const char *event,
			const char *text, const char *state)
{
	if (options.json) {
		printf("{ \"time\": \"");
		print_time();
		printf("\", \"device\": ");
		emit_string(device);
		if (port)
			printf(", \"port\": %" PRIu32, port);
		printf(", \"event\": \"%s\", \"text\": ", event);
		emit_string(text);
		if (state)
			printf(", \"state\": \"%s\"", state);
		printf(" }\n");
	} else {
		print_time();
		printf(" %s", device);
		if (port)
			printf(" port %" PRIu32, port);
		printf(": %s (%s)", event, text);
		if (state)
			printf(", the port is %s", state);
		printf("\n");
	}
	/* the reader may be a program that waits for the line */
	if (fflush(stdout))
		err(FAILED, "standard output");
}

static char *find(const char *name)
{
	for (int i = 0; i < DEVICES; i++)
		if (!strcmp(watched[i], name))
			return watched[i];
	return NULL;
}

static const char *state_of(const char *device, uint32_t port)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	if (!port || rdmamsg_port_query(device, port, &a))
		return NULL;
	return rdmamsg_name(RDMAMSG_NAME_PORT_STATE, a.state);
}

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	char *slot = find(ev->device);

	if (ev->type < 0 && slot)
		slot[0] = 0;
	if (options.port && ev->port && ev->port != options.port)
		return;
	if (options.count && events == options.count)
		return;
	print_event(ev->device, ev->port,
		    ev->type < 0 ? "REMOVED"
				 : rdmamsg_name(RDMAMSG_NAME_EVENT, ev->type),
		    ev->name, state_of(ev->device, ev->port));
	events++;
}

/* Watches a device that is new. Returns false if that fails. */
static bool watch(const char *name, bool first)
{
	char *slot = find(name) ? NULL : find("");

	if (!slot)
		return true;
	if (rdmamsg_device_watch(context, name)) {
		if (first)
			warnx("%s: %s", name, rdmamsg_error());
		return false;
	}
	snprintf(slot, sizeof(watched[0]), "%s", name);
	print_event(name, 0, first ? "WATCHING" : "ADDED",
		    first ? "events of this device follow" : "a new device",
		    NULL);
	events += !first;
	return true;
}

/* Returns an exit status. */
static int look(bool first)
{
	static struct rdmamsg_device_attr list[DEVICES];
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	int n, status = ALL_WELL;

	if (options.device) {
		if (rdmamsg_device_query(options.device, &a)) {
			if (first)
				warnx("%s", rdmamsg_error());
			return FAILED;
		}
		return watch(a.name, first) ? ALL_WELL : FAILED;
	}
	n = rdmamsg_devices(list, sizeof(list[0]), DEVICES);
	if (n < 0 && n != -ENODEV && first)
		errx(FAILED, "%s", rdmamsg_error());
	for (int i = 0; i < n && i < DEVICES; i++)
		if (!watch(list[i].name, first))
			status = FAILED;
	return status;
}

static bool is_done(void)
{
	return ended || (options.count && events >= options.count);
}

int watch_devices(void)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct sigaction sa = { .sa_handler = on_signal };
	int status, ret = 0;

	if (rdmamsg_open(&context, &opts))
		errx(FAILED, "%s", rdmamsg_error());
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	status = look(true);
	/* of the devices asked for, there is none to watch */
	if (options.device && status) {
		rdmamsg_close(context);
		return status;
	}
	while (!is_done() && ret >= 0) {
		ret = rdmamsg_wait(context, LOOK_MS);
		if (ret == -EINTR)
			ret = 0;
		if (!ret && !is_done())
			(void)look(false);
	}
	if (ret < 0)
		errx(FAILED, "%s", rdmamsg_error());
	rdmamsg_close(context);
	return status;
}
