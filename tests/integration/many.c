/* SPDX-License-Identifier: BSD-2-Clause */
#include "many.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

struct side server, client;
struct rdmamsg_srq *srq;
struct rdmamsg_listener *listener;
char service[8];
bool echoes;

static void pour(struct conn *c)
{
	while (c->ep && c->sent < c->to_send) {
		size_t len = c->len ? c->len : c->sent * 37 % 3000;
		int ret = rdmamsg_send(c->ep, pattern(c->sent), len, c->sent,
				       NULL);

		if (ret == -EAGAIN)
			return;
		if (ret) {
			note("rdmamsg_send: %s", rdmamsg_error());
			return;
		}
		c->sent++;
	}
}

static struct side *side_of(struct rdmamsg_ep *ep)
{
	return rdmamsg_ep_ctx(ep) == server.ctx ? &server : &client;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct side *s = side_of(ep);
	struct conn *c = rdmamsg_ep_user(ep);

	if (s == &server) {
		c = &s->conns[s->opened++];
		rdmamsg_ep_set_user(ep, c);
	}
	c->ep = ep;
	s->connected++;
	pour(c);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = side_of(ep);
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (tag != c->received)
		note("message %u where %u was due", tag, c->received);
	if (memcmp(rdmamsg_msg_data(msg), pattern(tag), rdmamsg_msg_len(msg)))
		note("message %u is damaged", tag);
	c->received++;
	s->received++;
	if (s->kept_count < s->keep) {
		s->kept[s->kept_count++] = msg;
		return;
	}
	if (echoes && s == &server) {
		c->len = (uint32_t)rdmamsg_msg_len(msg);
		c->to_send++;
		pour(c);
	}
	rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	pour(rdmamsg_ep_user(ep));
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct side *s = side_of(ep);
	struct conn *c = rdmamsg_ep_user(ep);

	s->closed++;
	s->graceful += why->cause == RDMAMSG_CAUSE_CLOSED;
	s->last_error = why->error;
	snprintf(s->last_text, sizeof(s->last_text), "%s", why->text);
	if (c)
		c->ep = NULL;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers),
	.on_connected = on_connected, .on_message = on_message,
	.on_writable = on_writable, .on_closed = on_closed,
};

struct rdmamsg_ep_options many_ep_options(void)
{
	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options),
		.handlers = &handlers, .timeout_ms = WAIT_MS,
		.close_timeout_ms = WAIT_MS,
	};
}

void many_open(void)
{
	memset(&server, 0, sizeof(server));
	memset(&client, 0, sizeof(client));
	echoes = false;
	server.ctx = test_open(NULL);
	client.ctx = test_open(NULL);
}

void many_listen(const struct rdmamsg_srq_options *opts)
{
	struct rdmamsg_ep_options ep = many_ep_options();
	struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &ep, .backlog = MANY_MAX,
		.setup_timeout_ms = WAIT_MS,
		/* one address fills the queue */
		.max_per_source = RDMAMSG_NONE,
	};

	if (rdmamsg_srq_create(server.ctx, opts, &srq))
		fail_msg("rdmamsg_srq_create: %s", rdmamsg_error());
	ep.srq = srq;
	if (rdmamsg_listen(server.ctx, test_addr(), "0", &lo, &listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(listener, service);
}

void many_start(const struct rdmamsg_srq_options *opts)
{
	many_open();
	many_listen(opts);
}

struct conn *many_dial(const struct rdmamsg_ep_options *opts)
{
	struct conn *c = &client.conns[client.opened++];
	struct rdmamsg_ep_options ep = opts ? *opts : many_ep_options();

	ep.user = c;
	if (rdmamsg_connect(client.ctx, test_addr(), service, &ep, &c->ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	return c;
}

/* Dials at most 50 at once, which a CM can handle. */
void many_connect(unsigned int n)
{
	while (client.opened < n) {
		many_dial(NULL);
		if (client.opened % 50 == 0)
			WAIT_FOR(client.connected == client.opened &&
				 server.connected == client.opened);
	}
	WAIT_FOR(client.connected == n && server.connected == n);
}

struct rdmamsg_srq_stats many_stats(void)
{
	struct rdmamsg_srq_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_srq_get_stats(srq, &s), 0);
	return s;
}

void many_close(void)
{
	for (unsigned int i = 0; i < client.opened; i++)
		if (client.conns[i].ep)
			rdmamsg_ep_close(client.conns[i].ep);
	WAIT_FOR(client.closed == client.opened &&
		 server.closed == server.opened);
}

void many_finish(void)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	struct rdmamsg_srq_stats s;

	many_close();
	s = many_stats();
	assert_int_equal(s.endpoints, 0);
	assert_int_equal(s.promised, 0);
	rdmamsg_get_stats(client.ctx, &st);
	assert_int_equal(st.rnr_errors, 0);
	rdmamsg_srq_destroy(srq);
	test_close(client.ctx);
	test_close(server.ctx);
}

void many_send(struct conn *c, uint32_t count, uint32_t len)
{
	c->to_send = c->sent + count;
	c->len = len;
	pour(c);
}
