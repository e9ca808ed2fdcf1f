/* SPDX-License-Identifier: BSD-2-Clause */
/* The server: answers (lat) or counts (rate, bw), and reports. */
#include "perf.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>

#define RECV_DEPTH_MAX	4096
#define EAGER_MAX	((uint32_t)1 << 20)
#define SILENT_MS	60000
#define CLOSE_MS	3000
#define SPINS		1024	/* polls between checks of other events */
#define SRQ_CONNS	2000	/* endpoints that one queue serves */
#define PEER_MAX	64

struct server {
	const struct perf_options *o;
	struct rdmamsg *ctx;
	struct rdmamsg_srq *srq; /* NULL: endpoints have their own receives */
	uint64_t resident;	/* bytes, before the first connection */
	struct conn *conns;
	uint32_t pollers;	/* connections whose tests need polling */
	struct conn *watched;	/* the last one that started write-lat */
	bool taken;		/* --once: a client has come */
	uint32_t client;
	uint32_t due;		/* its connections that have not ended */
	bool done;
	int status;
	/* the client whose connection was lost last */
	char loser[PEER_MAX];
	uint32_t lost_client;
	unsigned int lost;		/* connections, not yet reported */
};

struct conn {
	/* what each message needs first */
	struct rdmamsg_ep *ep;
	/* with --failover, what could not be sent without a connection */
	bool unanswered;		/* the last message */
	const uint8_t *pattern;
	uint32_t due;			/* bits of enum perf_tag - PERF_START */
	uint32_t received;
	struct perf_start run;		/* in host byte order */
	uint32_t inline_max;
	struct perf_hello hello;	/* in host byte order */
	char peer[PEER_MAX];
	struct server *server;
	struct conn *next;
	uint64_t errors;
	uint64_t copied;		/* copied bytes at the start */
	struct perf_region mem;		/* one-sided */
	uint32_t written;		/* writes sent back in write-lat */
	bool polled;			/* counted in pollers */
};

/* ---- runs ------------------------------------------------------------- */

static uint64_t copied(const struct conn *c)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	return rdmamsg_ep_get_stats(c->ep, &st) ? 0 : st.bytes_copied;
}

/* Closes a failed connection. An ending one keeps its own, better reason. */
static void failed(struct conn *c, int ret)
{
	if (ret && ret != -ESHUTDOWN)
		rdmamsg_ep_abort(c->ep);
}

/* Returns -errno. */
static int start_onesided(struct conn *c)
{
	int ret;

	if (c->run.test == PERF_WRITE_LAT && c->server->o->event)
		return -EOPNOTSUPP;
	ret = perf_region_open(&c->mem, c->ep, c->run.room);
	if (!ret && (!c->run.size || c->run.size > c->mem.room))
		ret = -EINVAL;
	if (ret)
		return ret;
	c->mem.peer = c->run.key;
	c->written = 0;
	if (c->run.test == PERF_WRITE_LAT)
		c->server->watched = c;
	return 0;
}

/* Answers an arrived write with a write. */
static void watch(struct conn *c)
{
	int ret;

	if (!perf_region_has(&c->mem, c->run.size, c->written + 1))
		return;
	ret = perf_region_write(&c->mem, c->ep, c->run.size, c->written + 1);
	if (ret == -EAGAIN)
		return;
	c->written++;
	failed(c, ret);
}

/*
 * If only the device answers, as in one-sided tests, do not poll: polling gains
 * nothing and takes a processor that Soft-RoCE or the client may need.
 */
static void set_polled(struct conn *c, bool polled)
{
	c->server->pollers += (uint32_t)polled - (uint32_t)c->polled;
	c->polled = polled;
}

static bool spins(const struct server *s)
{
	return s->o->poll || (s->pollers && !s->o->event);
}

static void start(struct conn *c, const struct rdmamsg_msg *msg)
{
	const struct perf_start *wire = rdmamsg_msg_data(msg);

	if (rdmamsg_msg_len(msg) < sizeof(*wire) || c->due ||
	    c->received != c->run.count) {
		rdmamsg_ep_abort(c->ep);
		return;
	}
	if (c->server->watched == c)
		c->server->watched = NULL;
	c->run.test = le32toh(wire->test);
	c->run.size = le32toh(wire->size);
	c->run.count = le32toh(wire->count);
	c->run.room = le32toh(wire->room);
	c->run.key = wire->key;
	c->received = 0;
	c->errors = 0;
	c->copied = copied(c);
	set_polled(c, c->hello.flags & PERF_POLLS &&
		   (!perf_one_sided(c->run.test) ||
		    c->run.test == PERF_WRITE_LAT));
}

/* ---- what the server says: 0 or -errno ---------------------------------- */

static int say_ready(struct conn *c)
{
	struct perf_ready ready = { 0 };
	int ret = 0;

	if (c->run.test >= PERF_TESTS)
		ret = -ENOSYS;
	else if (perf_one_sided(c->run.test))
		ret = start_onesided(c);
	else if (!(c->pattern = perf_pattern(c->run.size)))
		ret = -ENOMEM;
	if (ret == -EAGAIN)
		return ret;
	/* one-sided operations deliver no messages */
	if (ret || perf_one_sided(c->run.test))
		c->run.count = 0;
	ready.error = htole32((uint32_t)-ret);
	ready.flags = htole32(spins(c->server) ? 0 : PERF_SLEEPS);
	ready.key = c->mem.own;
	return rdmamsg_send(c->ep, &ready, sizeof(ready), PERF_READY, NULL);
}

static int say_report(struct conn *c)
{
	const struct perf_count count = {
		htole64(c->errors), htole64(copied(c) - c->copied),
	};

	return rdmamsg_send(c->ep, &count, sizeof(count), PERF_REPORT, NULL);
}

static int say_memory(struct conn *c)
{
	struct perf_memory m;

	perf_memory(c->server->ctx, c->server->srq, &m);
	for (struct conn *i = c->server->conns; i; i = i->next)
		perf_memory_ep(i->ep, &m);
	m.connections = htole64(m.connections);
	m.registered = htole64(m.registered);
	m.structs = htole64(m.structs);
	m.resident = htole64(m.resident - c->server->resident);
	return rdmamsg_send(c->ep, &m, sizeof(m), PERF_MEMORY, NULL);
}

/*
 * Answers with the same bytes in memory of its own, as the client sends, and as
 * the tools of other libraries do on both sides.
 */
static int answer(struct conn *c)
{
	const uint32_t number = c->received - 1, tag = perf_tag_of(number);
	const size_t len = c->run.size;
	const uint8_t *data = c->pattern + (c->hello.flags & PERF_CHECK ?
					    perf_offset(number) : 0);
	struct iovec iov = { (void *)data, len };
	int ret;

	if (len <= c->inline_max)
		ret = rdmamsg_fast_send(c->ep, data, len, tag);
	else if (c->hello.flags & PERF_COPY)
		ret = rdmamsg_send(c->ep, data, len, tag, NULL);
	else
		ret = rdmamsg_sendv(c->ep, &iov, 1, tag, NULL);
	if (!ret)
		c->unanswered = false;
	return ret;
}

#define DUE(tag)	(1u << ((tag) - PERF_START))

static int say(struct conn *c, enum perf_tag tag)
{
	switch (tag) {
	case PERF_READY:	return say_ready(c);
	case PERF_REPORT:	return say_report(c);
	default:		return say_memory(c);
	}
}

/*
 * Says what is due. The queue has room for it, but without a connection a
 * message is refused, and on_writable comes here again.
 */
static void say_due(struct conn *c)
{
	static const enum perf_tag tags[] = {
		PERF_READY, PERF_REPORT, PERF_MEMORY,
	};
	int ret = c->unanswered ? answer(c) : 0;

	for (size_t i = 0; !ret && c->due && i < sizeof(tags) / sizeof(tags[0]);
	     i++) {
		if (!(c->due & DUE(tags[i])))
			continue;
		ret = say(c, tags[i]);
		if (!ret)
			c->due &= ~DUE(tags[i]);
	}
	if (ret && ret != -EAGAIN)
		failed(c, ret);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	say_due(rdmamsg_ep_user(ep));
}

/* Takes a message of the run. */
static void take(struct conn *c, struct rdmamsg_msg *msg)
{
	if (c->received == c->run.count || c->unanswered) {
		rdmamsg_msg_free(msg);
		rdmamsg_ep_abort(c->ep);
		return;
	}
	if (c->hello.flags & PERF_CHECK &&
	    !perf_matches(msg, c->received, c->run.size))
		c->errors++;
	c->received++;
	c->unanswered = c->run.test == PERF_LAT;
	rdmamsg_msg_free(msg);
	if (c->received == c->run.count)
		c->due |= DUE(PERF_REPORT);
	if (c->unanswered || c->due)
		say_due(c);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct conn *c = rdmamsg_ep_user(ep);

	switch (rdmamsg_msg_tag(msg)) {
	case PERF_START:
		start(c, msg);
		c->due |= DUE(PERF_READY);
		break;
	case PERF_MEMORY:
		c->due |= DUE(PERF_MEMORY);
		break;
	default:
		take(c, msg);
		return;
	}
	rdmamsg_msg_free(msg);
	say_due(c);
}

/* ---- connections ------------------------------------------------------ */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct conn *c = rdmamsg_ep_user(ep);
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	if (!rdmamsg_ep_query(ep, &info))
		c->inline_max = info.inline_max;
}

static void unlink_conn(struct conn *c)
{
	struct conn **at = &c->server->conns;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

static void tell_lost(struct server *s)
{
	if (s->lost)
		perf_complain("client %s: %u more of its connections",
			      s->loser, s->lost);
	s->lost = 0;
}

/* A client has up to thousands of connections, so the first one is told. */
static void lost(struct server *s, const struct conn *c, const char *why)
{
	const bool many = c->hello.connections > 1;

	if (many && s->lost_client == c->hello.client &&
	    !strcmp(s->loser, c->peer)) {
		s->lost++;
		return;
	}
	tell_lost(s);
	perf_complain("client %s: %s", c->peer, why);
	s->lost_client = many ? c->hello.client : 0;
	snprintf(s->loser, sizeof(s->loser), "%s", many ? c->peer : "");
}

/* Reports the rest of the lost connections once the client has no others. */
static void tell_rest(struct server *s)
{
	for (const struct conn *c = s->conns; s->lost && c; c = c->next)
		if (c->hello.client == s->lost_client)
			return;
	tell_lost(s);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct conn *c = rdmamsg_ep_user(ep);
	struct server *s = c->server;
	bool broken = why->cause != RDMAMSG_CAUSE_CLOSED;

	if (broken)
		lost(s, c, why->text);
	if (s->o->once && (!--s->due || broken)) {
		s->done = true;
		s->status = broken;
	}
	set_polled(c, false);
	if (s->watched == c)
		s->watched = NULL;
	perf_region_close(&c->mem);
	unlink_conn(c);
	free(c);
	tell_rest(s);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_writable = on_writable,
	.on_closed = on_closed,
};

/*
 * Returns NULL if the request is acceptable, else the reason for a rejection.
 */
static const char *judge(const struct rdmamsg_request *req, struct server *s,
			 struct perf_hello *h)
{
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);
	uint32_t *word = (uint32_t *)h;

	if (len < sizeof(*h))
		return PERF_REJECT;
	memcpy(h, data, sizeof(*h));
	for (size_t i = 0; i < sizeof(*h) / sizeof(*word); i++)
		word[i] = le32toh(word[i]);
	if (h->magic != PERF_MAGIC || h->version != PERF_VERSION)
		return PERF_REJECT;
	if (h->recv_depth > RECV_DEPTH_MAX ||
	    (h->eager_max > EAGER_MAX && h->eager_max != RDMAMSG_NONE))
		return "too much is asked for";
	if (s->o->once && s->taken && s->client != h->client)
		return "busy with its only client";
	if (s->srq && h->flags & PERF_GUARD)
		return "--guard excludes --srq";
	return NULL;
}

static void name_peer(const struct rdmamsg_request *req, char peer[PEER_MAX])
{
	struct sockaddr_storage addr;

	if (rdmamsg_request_addrs(req, NULL, &addr) ||
	    getnameinfo((struct sockaddr *)&addr, sizeof(addr), peer, PEER_MAX,
			NULL, 0, NI_NUMERICHOST))
		snprintf(peer, PEER_MAX, "?");
}

static void welcome(struct server *s, struct conn *c)
{
	c->server = s;
	c->next = s->conns;
	s->conns = c;
	set_polled(c, c->hello.flags & PERF_POLLS);
	if (!s->taken) {
		s->taken = true;
		s->client = c->hello.client;
		s->due = c->hello.connections;
	}
}

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct server *s = rdmamsg_listener_user(l);
	struct conn *c = calloc(1, sizeof(*c));
	const char *why = c ? judge(req, s, &c->hello) : "no memory";
	const struct rdmamsg_failover failover = { .size = sizeof(failover) };
	struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .peer_timeout_ms = SILENT_MS,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = c, .handlers = &handlers,
		.send_queue = 64, .srq = s->srq, .tuning = &tuning,
		.max_msg_size = RDMAMSG_MSG_MAX,
		.setup_data = PERF_NAME,
		.setup_data_len = sizeof(PERF_NAME) - 1,
	};

	if (c)
		name_peer(req, c->peer);
	if (why) {
		perf_complain("client %s was rejected: %s", c ? c->peer : "",
			      why);
		rdmamsg_request_reject(req, why, strlen(why));
		free(c);
		return;
	}
	tuning.inline_max = c->hello.inline_max;
	tuning.eager_max = c->hello.eager_max;
	tuning.recv_depth = c->hello.recv_depth;
	tuning.pieces_max = c->hello.flags & PERF_PIECES ? PERF_PIECES_MAX : 0;
	opts.flags = perf_ep_flags(c->hello.flags);
	opts.failover = c->hello.flags & PERF_FAILOVER ? &failover : NULL;
	if (rdmamsg_request_accept(req, &opts, &c->ep)) {
		lost(s, c, rdmamsg_error());
		free(c);
		tell_rest(s);
		return;
	}
	welcome(s, c);
}

/* The library listens again by itself. */
static void on_failed(struct rdmamsg_listener *l, int error)
{
	perf_complain("not listening on port %u: %s; listening again when the "
		      "device is back", rdmamsg_listener_port(l),
		      strerror(-error));
}

/* ---- the program ------------------------------------------------------ */

static void turn(struct server *s, int timeout_ms)
{
	if (spins(s))
		for (int i = 0; i < SPINS && !perf_stopped; i++) {
			(void)rdmamsg_fast_poll(s->ctx);
			if (s->watched)
				watch(s->watched);
		}
	else
		(void)rdmamsg_wait(s->ctx, timeout_ms);
}

static int serve(struct server *s)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
		.on_failed = on_failed,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = s, .handlers = &on,
		.device = s->o->device,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_listen(s->ctx, s->o->host, s->o->port, &opts, &l)) {
		perf_complain("%s", rdmamsg_error());
		return 1;
	}
	printf("listening on port %u\n", rdmamsg_listener_port(l));
	fflush(stdout);
	while (!perf_stopped && !s->done)
		turn(s, -1);
	rdmamsg_listener_close(l);
	return s->status;
}

/* Closes all connections. The library's own time limit bounds this. */
static void say_goodbye(struct server *s)
{
	struct timespec now, end;

	for (struct conn *c = s->conns; c; c = c->next)
		rdmamsg_ep_close(c->ep);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += CLOSE_MS / 1000;
	do {
		if (s->conns)
			(void)rdmamsg_wait(s->ctx, 100);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (s->conns && now.tv_sec < end.tv_sec);
}

int perf_server(const struct perf_options *o)
{
	struct server s = { .o = o };
	struct perf_memory before;
	int ret;

	if (rdmamsg_open(&s.ctx, &perf_context)) {
		perf_complain("%s", rdmamsg_error());
		return 1;
	}
	if (o->srq && !(s.srq = perf_srq(s.ctx, SRQ_CONNS))) {
		rdmamsg_close(s.ctx);
		return 1;
	}
	perf_memory(s.ctx, NULL, &before);
	s.resident = before.resident;
	perf_wake_on_signal(s.ctx);
	ret = serve(&s);
	say_goodbye(&s);
	perf_wake_on_signal(NULL);
	rdmamsg_close(s.ctx);
	return ret;
}
