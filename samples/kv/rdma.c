/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients over rdmamsg. Each message is a request. The keys of the table and of
 * the counters are in setup_data, so a client reads and counts without asking.
 */
#include "server.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/listener.h>

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEND_QUEUE	64	/* answers that the library keeps */
#define GRACE_MS	5000	/* for answers that are under way at the end */

/* An answer that the library had no room for. */
struct unsent {
	struct unsent *next;
	size_t len;
	char bytes[];
};

struct rdma_client {
	struct session session;		/* first: its address is the client's */
	struct rdmamsg_ep *ep;		/* NULL: closed */
	struct server *server;
	struct unsent *first, **last;
};

/* ---- answers ---------------------------------------------------------- */

/* The connection ends if there is no memory: the client may ask again. */
static void keep(struct rdma_client *c, const void *bytes, size_t len)
{
	struct unsent *u = malloc(sizeof(*u) + len);

	if (!u) {
		rdmamsg_ep_abort(c->ep);
		session_end(&c->session);
		return;
	}
	u->next = NULL;
	u->len = len;
	memcpy(u->bytes, bytes, len);
	*c->last = u;
	c->last = &u->next;
}

/* Another error than -EAGAIN: on_closed follows. */
static void answer(struct session *s, const void *bytes, size_t len)
{
	struct rdma_client *c = (struct rdma_client *)s;

	if (c->first || rdmamsg_send(c->ep, bytes, len, 0, NULL) == -EAGAIN)
		keep(c, bytes, len);
	else
		session_end(s);
}

static void drop_first(struct rdma_client *c)
{
	struct unsent *u = c->first;

	c->first = u->next;
	if (!c->first)
		c->last = &c->first;
	free(u);
	session_end(&c->session);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct rdma_client *c = rdmamsg_ep_user(ep);

	while (c->first && rdmamsg_send(ep, c->first->bytes, c->first->len, 0,
					NULL) != -EAGAIN)
		drop_first(c);
}

/* ---- requests --------------------------------------------------------- */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	static const char why[] = "no request of kv";
	struct rdma_client *c = rdmamsg_ep_user(ep);
	const size_t len = rdmamsg_msg_len(msg);
	struct kv_item item;

	if (kv_parse(rdmamsg_msg_data(msg), len, &item) == (long)len && len)
		serve_item(c->server, &c->session, &item);
	else
		rdmamsg_ep_abort_with(ep, KV_MALFORMED, why, sizeof(why));
	rdmamsg_msg_free(msg);
}

static void hold(struct session *s)
{
	rdmamsg_ep_pause(((struct rdma_client *)s)->ep);
}

static void go_on(struct session *s)
{
	if (((struct rdma_client *)s)->ep)
		rdmamsg_ep_resume(((struct rdma_client *)s)->ep);
}

static void free_client(struct session *s)
{
	free(s);
}

/* ---- connections ------------------------------------------------------ */

static const struct session_ways ways = {
	.answer = answer, .hold = hold, .go_on = go_on, .free = free_client,
};

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct rdma_client *c = rdmamsg_ep_user(ep);

	c->ep = NULL;
	while (c->first)
		drop_first(c);
	session_close(&c->session);
}

static int get_keys(struct server *s, struct rdmamsg_request *req,
		    struct kv_hello *hello)
{
	struct rdmamsg_key table, counters;
	int ret = rdmamsg_request_get_key(req, s->table, &table);

	if (!ret)
		ret = rdmamsg_request_get_key(req, s->counters, &counters);
	if (ret)
		return ret;
	memcpy(hello->table_key, table.bytes, sizeof(table.bytes));
	memcpy(hello->counter_key, counters.bytes, sizeof(counters.bytes));
	return 0;
}

static struct rdma_client *new_client(struct server *s)
{
	struct rdma_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	session_init(&c->session, &ways);
	c->server = s;
	c->last = &c->first;
	return c;
}

static int accept_client(struct rdmamsg_request *req, struct rdma_client *c,
			 const struct kv_hello *hello)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_message,
		.on_writable = on_writable, .on_closed = on_closed,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .user = c,
		.send_queue = SEND_QUEUE, .max_msg_size = KV_ITEM_MAX,
		.setup_data = hello, .setup_data_len = sizeof(*hello),
	};

	return rdmamsg_request_accept(req, &opts, &c->ep);
}

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	struct server *s = rdmamsg_listener_user(listener);
	struct kv_hello hello = {
		.magic = KV_MAGIC, .slots = KV_SLOTS, .counters = KV_COUNTERS,
	};
	struct rdma_client *c = new_client(s);

	if (!c || get_keys(s, req, &hello)) {
		warnx("a client is rejected: %s",
		      c ? rdmamsg_error() : "no memory");
		rdmamsg_request_reject(req, NULL, 0);
		free(c);
		return;
	}
	if (s->group)
		strcpy(hello.group, s->group_address);
	if (accept_client(req, c, &hello))
		free(c);
}

/* ---- the context ------------------------------------------------------ */

static void on_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	server_alone(rdmamsg_user(ctx), failed);
}

static int make_regions(struct server *s)
{
	int ret = rdmamsg_region_create(s->ctx, &s->store->table,
					sizeof(s->store->table),
					RDMAMSG_ACCESS_READ, &s->table);

	return ret ? ret :
		rdmamsg_region_create(s->ctx, s->store->counters,
				      sizeof(s->store->counters),
				      RDMAMSG_ACCESS_READ |
				      RDMAMSG_ACCESS_ATOMIC, &s->counters);
}

unsigned int rdma_open(struct server *s, const char *addr, const char *port)
{
	static const struct rdmamsg_ctx_handlers ctx_on = {
		.size = sizeof(ctx_on), .on_shutdown = on_shutdown,
	};
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .user = s, .handlers = &ctx_on,
	};
	const struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .user = s, .handlers = &on,
	};

	if (rdmamsg_open(&s->ctx, &opts) || make_regions(s) ||
	    rdmamsg_listen(s->ctx, addr, port, &listen, &s->listener) ||
	    rdmamsg_uv_start(&s->loop, s->ctx, &s->uv))
		errx(1, "%s", rdmamsg_error());
	return rdmamsg_listener_port(s->listener);
}

void rdma_close(struct server *s)
{
	if (rdmamsg_shutdown(s->ctx, GRACE_MS))
		errx(1, "%s", rdmamsg_error());
}
