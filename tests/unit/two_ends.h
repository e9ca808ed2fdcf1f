/* SPDX-License-Identifier: BSD-2-Clause */
/* A client and a server in one process, on the device set by the test. */
#ifndef TESTS_UNIT_TWO_ENDS_H
#define TESTS_UNIT_TWO_ENDS_H

#include "base/base.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define WAIT_MS	60000	/* longer than any step takes */

struct side {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct rdmamsg_region *region;	/* region and mem belong to the test */
	uint8_t *mem;
	unsigned int sent, messages, writable, invalidated;
	int status;			/* of the last completed request */
	bool closed;
	struct rdmamsg_reason why;
};

static struct side client, server;
static char service[8];

static inline void on_connected(struct rdmamsg_ep *ep)
{
	((struct side *)rdmamsg_ep_user(ep))->ep = ep;
}

static inline void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->sent++;
	s->status = status;
}

static inline void on_closed(struct rdmamsg_ep *ep,
			     const struct rdmamsg_reason *why)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->closed = true;
	s->why = *why;
}

static inline void both(void)
{
	struct pollfd fds[2] = {
		{ rdmamsg_fd(client.ctx), POLLIN, 0 },
		{ rdmamsg_fd(server.ctx), POLLIN, 0 },
	};

	(void)poll(fds, 2, 10);
	assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_true(rdmamsg_process(server.ctx) >= 0);
}

#define WAIT_FOR(condition) \
	do { \
		uint64_t end_ = rdmamsg__now_ms() + WAIT_MS; \
		while (!(condition)) { \
			if (rdmamsg__now_ms() > end_) \
				fail_msg("waited in vain for %s", #condition); \
			both(); \
		} \
	} while (0)

static inline void connect_client(struct rdmamsg_ep_options *opts)
{
	client.ep = NULL;
	opts->user = &client;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 opts, NULL), 0);
	WAIT_FOR(client.ep);
}

/* Connects both ends with these options; each end is its own user. */
static inline void connect_ends(struct rdmamsg_ep_options *opts)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = opts,
	};
	struct rdmamsg_listener *l;

	opts->user = &server;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(opts);
	WAIT_FOR(server.ep);
}

#endif
