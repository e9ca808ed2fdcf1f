/* SPDX-License-Identifier: BSD-2-Clause */
/* A port that listeners of several contexts share, and its clients. */
#ifndef RDMAMSG_TESTS_INTEGRATION_LISTEN_PORT_H
#define RDMAMSG_TESTS_INTEGRATION_LISTEN_PORT_H

#include "common.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>

#define MEMBERS		4
#define CLIENTS		64

static char port[8];
static const struct rdmamsg_failover *failover; /* of both sides */

/* ---- listeners of a port ------------------------------------------------ */

struct member {
	struct rdmamsg *ctx;
	struct rdmamsg_listener *l;
	unsigned int connected, failed;
};

static struct member members[MEMBERS];
static const uint32_t shared = RDMAMSG_LISTEN_SHARED;
static const uint32_t by_load = RDMAMSG_LISTEN_SHARED | RDMAMSG_LISTEN_BY_LOAD;

static inline void on_member_connected(struct rdmamsg_ep *ep)
{
	struct member *m = rdmamsg_ep_user(ep);

	if (rdmamsg_ep_ctx(ep) != m->ctx)
		note("connected in the context of another member");
	m->connected++;
}

static inline void on_member_failed(struct rdmamsg_listener *l, int error)
{
	struct member *m = rdmamsg_listener_user(l);

	if (error != -ENODEV || l != m->l)
		note("on_failed: %d", error);
	m->failed++;
}

static inline int member_listen(struct member *m, const char *service, uint32_t flags,
			 struct rdmamsg_listen_options *o)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_member_connected,
	};
	static const struct rdmamsg_listener_handlers listener_on = {
		.size = sizeof(listener_on), .on_failed = on_member_failed,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .user = m, .handlers = &on,
		.failover = failover,
	};

	o->size = sizeof(*o);
	o->user = m;
	o->flags = flags;
	if (!o->handlers)
		o->handlers = &listener_on;
	o->ep = &ep;
	return rdmamsg_listen(m->ctx, test_addr(), service, o, &m->l);
}

/* The first member gets a free port. */
static inline void member_join(struct member *m, uint32_t flags,
			struct rdmamsg_listen_options *o)
{
	struct rdmamsg_listen_options none = { .size = sizeof(none) };

	m->connected = m->failed = 0;
	if (member_listen(m, m == members ? "0" : port, flags, o ? o : &none))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(m->l, port);
}

static inline void members_open(int count, uint32_t flags)
{
	for (int i = 0; i < count; i++) {
		members[i].ctx = test_open(NULL);
		member_join(&members[i], flags, NULL);
	}
}

/* A member whose loop runs only if the test drives it. */
static inline void member_stuck(struct member *m, uint32_t flags,
			 const struct rdmamsg_options *opts,
			 struct rdmamsg_listen_options *o)
{
	assert_int_equal(rdmamsg_open(&m->ctx, opts), 0);
	member_join(m, flags, o);
}

static inline struct rdmamsg_listener_stats stats(const struct member *m)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_listener_get_stats(m->l, &s), 0);
	return s;
}

static inline void member_close(struct member *m)
{
	rdmamsg_listener_close(m->l);
	m->l = NULL;
}

/* ---- clients ------------------------------------------------------------ */

static struct client {
	struct rdmamsg_ep *ep;
	unsigned int connected, closed;
	struct rdmamsg_reason why;
} clients[CLIENTS];
static struct rdmamsg *client_ctx;
static unsigned int connected, closed, resumed, not_moved;

static inline void on_client_connected(struct rdmamsg_ep *ep)
{
	struct client *c = rdmamsg_ep_user(ep);

	c->connected++;
	connected++;
}

static inline void on_client_closed(struct rdmamsg_ep *ep,
			     const struct rdmamsg_reason *why)
{
	struct client *c = rdmamsg_ep_user(ep);

	c->closed++;
	c->why = *why;
	c->ep = NULL;
	closed++;
}

static inline void on_client_path(struct rdmamsg_ep *ep,
			   const struct rdmamsg_path_event *ev)
{
	resumed += ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
	not_moved += ev->change == RDMAMSG_PATH_CHANGE_NOT_MOVED;
}

/* From now on, clients have this key. */
static inline void clients_key(const char *key)
{
	const struct rdmamsg_options o = {
		.size = sizeof(o), .key = key, .key_len = key ? strlen(key) : 0,
	};

	client_ctx = test_open(&o);
}

static inline void clients_open(void)
{
	memset(clients, 0, sizeof(clients));
	connected = closed = resumed = not_moved = 0;
	failover = NULL;
	clients_key(NULL);
}

static inline struct client *client_dial_from(int i, const char *source)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_client_connected,
		.on_closed = on_client_closed, .on_path = on_client_path,
	};
	struct client *c = &clients[i];
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .handlers = &on, .user = c,
		.timeout_ms = WAIT_MS, .failover = failover, .source = source,
	};

	if (rdmamsg_connect(client_ctx, test_addr(), port, &o, &c->ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	return c;
}

static inline struct client *client_dial(int i)
{
	return client_dial_from(i, NULL);
}

static inline struct client *client_connected(int i)
{
	struct client *c = client_dial(i);

	WAIT_FOR(c->connected || c->closed);
	if (c->closed)
		fail_msg("client %d: %s", i, c->why.text);
	return c;
}

static inline void client_end(struct client *c)
{
	rdmamsg_ep_close(c->ep);
	WAIT_FOR(c->closed);
	assert_int_equal(c->why.error, 0);
}

/* Listens without sharing the port. */
static inline int listen_alone(struct rdmamsg *ctx, struct rdmamsg_listener **ret)
{
	return rdmamsg_listen(ctx, test_addr(), port, NULL, ret);
}

#endif
