/* SPDX-License-Identifier: BSD-2-Clause */
/* A client and a server in one process, on the device set by the test. */
#ifndef TESTS_UNIT_TWO_ENDS_H
#define TESTS_UNIT_TWO_ENDS_H

#include "base/base.h"
#include "device/verbs_api.h"
#include "until.h"
#include "../tuning.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>


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

/* Handlers of both ends, whose messages go to the test's. */
#define END_HANDLERS(message) \
	{ \
		.size = sizeof(struct rdmamsg_ep_handlers), \
		.on_connected = on_connected, .on_complete = on_complete, \
		.on_message = (message), .on_closed = on_closed, \
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

#define WAIT_FOR(condition)	UNTIL_BY(both(), condition)

static inline void connect_client(struct rdmamsg_ep_options *opts)
{
	client.ep = NULL;
	opts->user = &client;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 opts, NULL), 0);
	WAIT_FOR(client.ep);
}

/* Connects both ends, whose contexts are open, by the connection manager. */
static inline void listen_and_connect(struct rdmamsg_ep_options *opts)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = opts,
	};
	struct rdmamsg_listener *l;

	opts->user = &server;
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(opts);
	WAIT_FOR(server.ep);
}

/* The same without the connection manager, for a device that opts names. */
static inline void exchange_records(struct rdmamsg_ep_options *opts)
{
	uint8_t record[RDMAMSG_OOB_MAX];
	int len;

	opts->user = &client;
	assert_int_equal(rdmamsg_oob_offer(client.ctx, opts, &client.ep), 0);
	len = rdmamsg_oob_record(client.ep, record, sizeof(record));
	assert_true(len > 0);
	opts->user = &server;
	assert_int_equal(rdmamsg_oob_answer(server.ctx, record, (size_t)len,
					    opts, &server.ep), 0);
	len = rdmamsg_oob_record(server.ep, record, sizeof(record));
	assert_int_equal(rdmamsg_oob_finish(client.ep, record, (size_t)len), 0);
}

/*
 * Connects both ends with these options, in contexts with these. Each side is
 * the user of its end.
 */
static inline void connect_ends_in(const struct rdmamsg_options *client_ctx,
				   const struct rdmamsg_options *server_ctx,
				   struct rdmamsg_ep_options *opts)
{
	assert_int_equal(rdmamsg_open(&client.ctx, client_ctx), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, server_ctx), 0);
	listen_and_connect(opts);
}

static inline void connect_ends(struct rdmamsg_ep_options *opts)
{
	connect_ends_in(NULL, NULL, opts);
}

/* Neither side has a context. */
static inline void clear_ends(void)
{
	memset(&client, 0, sizeof(client));
	memset(&server, 0, sizeof(server));
}

/*
 * The beginning of a test: connects two new ends, with these options and
 * handlers, of which on_message is the test's.
 */
static inline void connect_anew(void (*message)(struct rdmamsg_ep *ep,
						struct rdmamsg_msg *msg),
				struct rdmamsg_ep_options opts)
{
	const struct rdmamsg_ep_handlers handlers = END_HANDLERS(message);

	opts.size = sizeof(opts);
	opts.handlers = &handlers;
	clear_ends();
	connect_ends(&opts);
}

/*
 * The client reaches 'there' of the server with *key and 'access', and may
 * receive in 'here', whose region is *from.
 */
static inline void share_memory(void *there, void *here, size_t size,
				uint32_t access, struct rdmamsg_key *key,
				struct rdmamsg_region **to,
				struct rdmamsg_region **from)
{
	assert_int_equal(rdmamsg_region_create(server.ctx, there, size, access,
					       to), 0);
	assert_int_equal(rdmamsg_region_get_key(*to, server.ep, key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, here, size,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       from), 0);
	assert_int_equal(rdmamsg_region_register(*from, client.ep), 0);
}

/* The end of a test on the soft HCA. */
static inline int leave_soft(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
	return 0;
}

#endif
