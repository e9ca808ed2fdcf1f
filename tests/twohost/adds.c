/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: adds server ADDRESS PORT | adds client ADDRESS PORT ADDS
 *
 * The server lends a counter. The client sends some messages and adds 1, again
 * and again, and checks that each add finds what the adds before it have left.
 * It ends with `adds N doubt N`.
 */
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define KEY_TAG		1u
#define DATA_TAG	2u
#define MESSAGES	3	/* at most, before an add */
#define BYTES		100
#define DEAD_MS		60000
#define ACK_TIMEOUT	12	/* 17 ms */

#define MUST(call) do { \
	if (call) \
		errx(1, "%s: %s", #call, rdmamsg_error()); \
} while (0)

static struct rdmamsg *ctx;
static struct rdmamsg_region *region;
static uint64_t counter;
static struct rdmamsg_key key;
static bool has_key, done, ended;
static int status;

static void on_connected(struct rdmamsg_ep *ep)
{
	struct rdmamsg_key own;

	MUST(rdmamsg_region_get_key(region, ep, &own));
	MUST(rdmamsg_send(ep, &own, sizeof(own), KEY_TAG, NULL));
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_tag(msg) == KEY_TAG) {
		MUST(rdmamsg_key_import(rdmamsg_msg_data(msg),
					rdmamsg_msg_len(msg), &key));
		has_key = true;
	}
	rdmamsg_msg_free(msg);
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int how)
{
	done = true;
	status = how;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	printf("closed %s\n", why->text);
	ended = true;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = on_complete,
	.on_closed = on_closed,
};

/* Returns true if the call is to be repeated. */
static bool full(int ret)
{
	if (ret && ret != -EAGAIN)
		errx(1, "%s", rdmamsg_error());
	if (ret)
		MUST(rdmamsg_wait(ctx, -1) < 0);
	return ret;
}

static void send_some(struct rdmamsg_ep *ep, uint64_t n)
{
	static const uint8_t data[BYTES];

	for (uint64_t i = 0; i <= n % MESSAGES; i++)
		while (full(rdmamsg_send(ep, data, sizeof(data), DATA_TAG,
					 NULL)))
			;
}

static int add(struct rdmamsg_ep *ep, uint64_t *was)
{
	done = false;
	while (full(rdmamsg_fetch_add(ep, &key, 0, 1, was, 0, &done)))
		;
	while (!done && !ended)
		MUST(rdmamsg_wait(ctx, -1) < 0);
	return done ? status : -ECANCELED;
}

static void count(struct rdmamsg_ep *ep, uint64_t adds)
{
	uint64_t was, doubt = 0;

	for (uint64_t n = 0; n < adds; n++) {
		int ret;

		send_some(ep, n);
		ret = add(ep, &was);
		if (ret == RDMAMSG_IN_DOUBT)
			doubt++;
		else if (ret)
			errx(1, "add %ju: %s", (uintmax_t)n, strerror(-ret));
		else if (was != n)
			errx(1, "add %ju found %ju", (uintmax_t)n,
			     (uintmax_t)was);
	}
	printf("adds %ju doubt %ju\n", (uintmax_t)adds, (uintmax_t)doubt);
}

static void serve(const char *host, const char *port,
		  const struct rdmamsg_ep_options *opts)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = opts,
	};
	struct rdmamsg_listener *listener;

	MUST(rdmamsg_listen(ctx, host, port, &lopts, &listener));
	puts("listening");
	while (!ended)
		MUST(rdmamsg_wait(ctx, -1) < 0);
}

static void use(const char *host, const char *port,
		const struct rdmamsg_ep_options *opts, uint64_t adds)
{
	struct rdmamsg_ep *ep;

	MUST(rdmamsg_connect(ctx, host, port, opts, &ep));
	while (!has_key && !ended)
		MUST(rdmamsg_wait(ctx, -1) < 0);
	if (!ended)
		count(ep, adds);
	if (!ended)
		rdmamsg_ep_close(ep);
	while (!ended)
		MUST(rdmamsg_wait(ctx, -1) < 0);
}

int main(int argc, char **argv)
{
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .ack_timeout = ACK_TIMEOUT,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.tuning = &tuning, .dead_after_ms = DEAD_MS,
	};

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(rdmamsg_open(&ctx, NULL));
	MUST(rdmamsg_region_create(ctx, &counter, sizeof(counter),
				   RDMAMSG_ACCESS_ATOMIC, &region));
	if (argc == 4 && !strcmp(argv[1], "server"))
		serve(argv[2], argv[3], &opts);
	else if (argc == 5 && !strcmp(argv[1], "client"))
		use(argv[2], argv[3], &opts, strtoul(argv[4], NULL, 10));
	else
		errx(2, "usage: adds server ADDRESS PORT, or adds client "
		     "ADDRESS PORT ADDS");
	rdmamsg_region_destroy(region);
	rdmamsg_close(ctx);
	return 0;
}
