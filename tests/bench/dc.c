/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of 64 bytes over an endpoint, to one target of a sender, and to
 * another target each time. Both contexts are in one thread, so the figure is
 * the work of a message. Takes turns, and prints the medians and their ratios.
 * Then prints the memory of 10,000 addresses that nothing was sent to and, if
 * native, that of addresses with a session.
 *
 * Usage: dc [connections|native [INITIATORS]]
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#include "median.h"

#define TARGETS		8u
#define MESSAGES	50000u	/* of a turn */
#define WINDOW		32u	/* on their way at a time */
#define TURNS		7u
#define ADDRESSES	10000u
#define SESSIONS	512u	/* and addresses, for their memory */

enum way { ENDPOINT, ONE_TARGET, OTHER_TARGETS, WAYS };

static struct rdmamsg *near, *far;
static struct rdmamsg_ep *ep;
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *to[TARGETS];
static uint32_t ports[TARGETS];
static uint32_t arrived, connected;
static uint32_t path = RDMAMSG_DC_CONNECTIONS, initiators = TARGETS;

static void die(const char *what)
{
	fprintf(stderr, "dc: %s: %s\n", what, rdmamsg_error());
	exit(1);
}

static void pump(void)
{
	if (rdmamsg_process(near) < 0 || rdmamsg_process(far) < 0)
		die("rdmamsg_process");
}

static void on_ep_message(struct rdmamsg_ep *peer, struct rdmamsg_msg *msg)
{
	(void)peer;
	rdmamsg_msg_free(msg);
	arrived++;
}

static void on_dc_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
			  uint64_t from)
{
	(void)t;
	(void)from;
	rdmamsg_msg_free(msg);
	arrived++;
}

static void on_connected(struct rdmamsg_ep *peer)
{
	(void)peer;
	connected++;
}

/* ---- making all -------------------------------------------------------- */

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_ep_message,
};

static const struct rdmamsg_ep_options ep_options = {
	.size = sizeof(ep_options), .handlers = &handlers,
};

static void connect_ep(void)
{
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep_options,
	};
	struct rdmamsg_listener *l;
	char port[8];

	if (rdmamsg_listen(far, "127.0.0.1", "0", &opts, &l))
		die("rdmamsg_listen");
	(void)snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	if (rdmamsg_connect(near, "127.0.0.1", port, &ep_options, &ep))
		die("rdmamsg_connect");
	while (connected < 2)
		pump();
}

static void open_targets(void)
{
	const struct rdmamsg_dc_target_options topts = {
		.size = sizeof(topts), .on_message = on_dc_message,
		.path = path,
	};
	const struct rdmamsg_dc_sender_options sopts = {
		.size = sizeof(sopts), .initiators = initiators, .path = path,
	};

	if (rdmamsg_dc_sender_create(near, &sopts, &sender))
		die("rdmamsg_dc_sender_create");
	for (uint32_t i = 0; i < TARGETS; i++) {
		struct rdmamsg_dc_target *t;
		char port[8];

		if (rdmamsg_dc_target_create(far, "127.0.0.1", "0", &topts, &t))
			die("rdmamsg_dc_target_create");
		ports[i] = rdmamsg_dc_target_port(t);
		(void)snprintf(port, sizeof(port), "%u", ports[i]);
		if (rdmamsg_dc_address_create(sender, "127.0.0.1", port, 0,
					      NULL, &to[i]))
			die("rdmamsg_dc_address_create");
	}
}

/* ---- figures ----------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int post(enum way way, uint32_t i)
{
	static const uint8_t bytes[64];

	if (way == ENDPOINT)
		return rdmamsg_send(ep, bytes, sizeof(bytes), 0, NULL);
	return rdmamsg_dc_send(to[way == ONE_TARGET ? 0 : i % TARGETS], bytes,
			       sizeof(bytes), 0, NULL);
}

/* Returns the nanoseconds of a message. */
static double turn(enum way way, uint32_t messages)
{
	const double begin = now();
	uint32_t sent = 0;

	for (arrived = 0; arrived < messages;) {
		while (sent < messages && sent - arrived < WINDOW &&
		       !post(way, sent))
			sent++;
		pump();
	}
	return (now() - begin) / messages;
}

/* Returns the sessions of the sender. */
static uint32_t sessions(void)
{
	struct rdmamsg_dc_sender_attr info = { .size = sizeof(info) };

	if (rdmamsg_dc_sender_query(sender, &info))
		die("rdmamsg_dc_sender_query");
	return info.sessions;
}

static size_t allocated(void)
{
	return mallinfo2().uordblks;
}

/* Makes one more address of a target, and sends to it. */
static struct rdmamsg_dc_address *open_session(uint32_t i)
{
	struct rdmamsg_dc_address *ret;
	char port[8];

	(void)snprintf(port, sizeof(port), "%u", ports[i % TARGETS]);
	if (rdmamsg_dc_address_create(sender, "127.0.0.1", port, 0, NULL, &ret))
		die("rdmamsg_dc_address_create");
	if (rdmamsg_dc_send(ret, "", 1, 0, NULL))
		die("rdmamsg_dc_send");
	return ret;
}

static void open_sessions(struct rdmamsg_dc_address **ret)
{
	uint32_t begun = 0;

	for (arrived = 0; arrived < SESSIONS; pump()) {
		if (begun == SESSIONS || begun - arrived >= WINDOW)
			continue;
		ret[begun] = open_session(begun);
		begun++;
	}
}

/* Returns the bytes that the sender's context frees, without the targets'. */
static size_t close_sessions(struct rdmamsg_dc_address **of, uint32_t left)
{
	size_t ret = 0;

	while (sessions() > left) {
		const size_t before = allocated();

		for (uint32_t i = 0; i < SESSIONS; i++) {
			rdmamsg_dc_address_destroy(of[i]);
			of[i] = NULL;
		}
		if (rdmamsg_process(near) < 0)
			die("rdmamsg_process");
		ret += before - allocated();
		if (rdmamsg_process(far) < 0)
			die("rdmamsg_process");
	}
	return ret;
}

/*
 * The memory that is freed counts: both sides take part in making a session,
 * and objects of the device change hands then.
 */
static void print_sessions(void)
{
	static struct rdmamsg_dc_address *addresses[SESSIONS];
	const uint32_t before = sessions();
	uint32_t count;

	open_sessions(addresses);
	count = sessions() - before;
	printf("%u addresses with %u sessions: %.0f bytes each\n", SESSIONS,
	       count, (double)close_sessions(addresses, before) / SESSIONS);
}

static void print_memory(void)
{
	const size_t before = allocated();

	for (uint32_t i = 0; i < ADDRESSES; i++) {
		struct rdmamsg_dc_address *a;
		char host[24], port[8];

		(void)snprintf(host, sizeof(host), "10.123.%u.%u", i >> 8,
			       i & 255);
		(void)snprintf(port, sizeof(port), "%u", 20000 + i);
		if (rdmamsg_dc_address_create(sender, host, port, i, NULL, &a))
			die("rdmamsg_dc_address_create");
	}
	printf("%u addresses: %.0f bytes each (goal 256)\n", ADDRESSES,
	       (double)(allocated() - before) / ADDRESSES);
}

int main(int argc, char **argv)
{
	double ns[WAYS][TURNS], one[TURNS], other[TURNS];

	if (argc > 1 && !strcmp(argv[1], "native"))
		path = RDMAMSG_DC_NATIVE;
	if (argc > 2)
		initiators = (uint32_t)atoi(argv[2]);
	if (rdmamsg_open(&near, NULL) || rdmamsg_open(&far, NULL))
		die("rdmamsg_open");
	connect_ep();
	open_targets();
	for (uint32_t way = 0; way < WAYS; way++)
		(void)turn(way, MESSAGES / 10);
	for (uint32_t i = 0; i < TURNS; i++) {
		for (uint32_t way = 0; way < WAYS; way++)
			ns[way][i] = turn(way, MESSAGES);
		one[i] = ns[ONE_TARGET][i] / ns[ENDPOINT][i];
		other[i] = ns[OTHER_TARGETS][i] / ns[ENDPOINT][i];
	}
	printf("endpoint %.0f ns, one target %.0f ns, another target each time "
	       "%.0f ns\n", median(ns[ENDPOINT], TURNS),
	       median(ns[ONE_TARGET], TURNS),
	       median(ns[OTHER_TARGETS], TURNS));
	printf("one target: %.2f (goal 1.2), another each time: %.2f (goal "
	       "2)\n", median(one, TURNS), median(other, TURNS));
	if (path == RDMAMSG_DC_NATIVE)
		print_sessions();
	print_memory();
	rdmamsg_close(near);
	rdmamsg_close(far);
	return 0;
}
