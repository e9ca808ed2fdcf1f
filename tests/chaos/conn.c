/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint of this process, from connecting to on_closed. */
#include "worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/oob.h>

#define QUIET_MS	500	/* of a finishing process, until it closes */

struct hello {
	uint32_t magic, id;
	uint64_t seed;
};

#define HELLO_MAGIC	0x68656c6fu

bool conn_is_up(const struct conn *c)
{
	return rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED;
}

/* ---- made ------------------------------------------------------------- */

static struct conn *conn_new(uint32_t id, int side)
{
	struct plan plan = plan_of(w.board, id);
	/* both arrays have the same length */
	uint32_t room = plan.side[0].count > plan.side[1].count ?
			plan.side[0].count : plan.side[1].count;
	struct record *r = journal_add(w.j, room + 1);
	struct conn *c;

	if (!r)
		return NULL;
	c = __real_calloc(1, sizeof(*c));
	c->r = r;
	c->tx = record_tx(w.j, r);
	c->rx = record_rx(w.j, r);
	c->out = __real_calloc(r->room, sizeof(*c->out));
	c->in = __real_calloc(r->room, sizeof(*c->in));
	c->scattered = __real_calloc(r->room, sizeof(*c->scattered));
	c->plan = plan;
	c->side = side;
	r->side = (uint8_t)side;
	r->id = id;
	return c;
}

static void conn_made(struct conn *c)
{
	c->next = w.conns;
	w.conns = c;
	w.live++;
}

/* The call that makes the endpoint has failed, so no callback follows. */
static void conn_unmade(struct conn *c, int ret)
{
	c->r->closed = 1;
	c->r->error = ret;
	c->r->cause = RDMAMSG_CAUSE_RESOURCES;
	c->r->closed_at = now_ms();
	snprintf(c->r->why, sizeof(c->r->why), "%s", rdmamsg_error());
	__real_free(c->out);
	__real_free(c->in);
	__real_free(c->scattered);
	__real_free(c);
}

/* Half of the connections have another one in advance. */
static const struct rdmamsg_failover *failover_of(const struct conn *c)
{
	static const struct rdmamsg_failover opts[] = {
		{ .size = sizeof(opts[0]), .timeout_ms = DOWN_MS,
		  .rungs = RDMAMSG_RUNG_LANE },
		{ .size = sizeof(opts[0]), .timeout_ms = DOWN_MS,
		  .rungs = RDMAMSG_RUNG_STANDBY | RDMAMSG_RUNG_LANE },
	};

	return w.sc->failover ? &opts[c->plan.seed & 1] : NULL;
}

void conn_options(const struct conn *c, struct rdmamsg_ep_options *o,
		  struct rdmamsg_ep_tuning *t)
{
	const struct plan_side *s = &c->plan.side[c->side];

	*t = (struct rdmamsg_ep_tuning) {
		.size = sizeof(*t), .recv_depth = s->recv_depth,
		.send_depth = s->send_depth, .eager_max = s->eager_max,
		.max_lent = w.sc->max_lent << 10,
	};
	*o = (struct rdmamsg_ep_options) {
		.size = sizeof(*o), .user = (void *)c,
		.handlers = &conn_handlers, .flags = s->flags,
		.timeout_ms = TIMEOUT_MS, .close_timeout_ms = CLOSE_MS,
		.dead_after_ms = w.sc->oob ? DEAD_OOB_MS : w.sc->failover ?
				 DEAD_LANE_MS : DEAD_MS,
		.send_queue = s->send_queue, .srq = w.srq,
		.recv_pool = w.srq ? NULL : w.recv_pool,
		.send_pool = w.send_pool, .failover = failover_of(c),
		.tuning = t,
	};
}

/* Returns true if a fault of this round explains the error. */
static bool is_fair(int ret)
{
	return w.rough || (ret == -ENETUNREACH && w.sc->harm & HARM_PORT);
}

void conn_dial(void)
{
	uint32_t servers = w.sc->servers;
	uint32_t target = rng_below(&w.rng, servers);
	uint32_t port = w.board->port[target];
	struct rdmamsg_ep_options o;
	struct rdmamsg_ep_tuning t;
	struct hello hello;
	struct conn *c;
	char service[16];
	int ret;

	if (!port)
		return;
	c = conn_new(w.slot << 24 | w.j->life << 16 | w.dialed++, 0);
	if (!c)
		return;
	c->r->target = (uint8_t)target;
	hello = (struct hello){ HELLO_MAGIC, c->r->id, w.board->seed };
	conn_options(c, &o, &t);
	o.hello_data = &hello;
	o.hello_data_len = sizeof(hello);
	snprintf(service, sizeof(service), "%u", port);
	ret = w.sc->oob ?
	      rdmamsg_oob_connect(w.ctx, w.board->address, service, &o,
				  &c->ep) :
	      rdmamsg_connect(w.ctx, w.board->address, service, &o, &c->ep);
	if (!ret) {
		conn_made(c);
		return;
	}
	if (!is_fair(ret))
		VIOLATION(c, "connect: %d, %s", ret, rdmamsg_error());
	conn_unmade(c, ret);
	w.again_at = now_ms() + 50;
}

void conn_accept(struct rdmamsg_request *req)
{
	struct rdmamsg_ep_options o;
	struct rdmamsg_ep_tuning t;
	const struct hello *hello;
	struct conn *c = NULL;
	size_t len;
	int ret;

	hello = rdmamsg_request_data(req, &len);
	if (len != sizeof(*hello) || hello->magic != HELLO_MAGIC ||
	    hello->seed != w.board->seed)
		violation(w.j, "a request with %zu bytes of foreign data", len);
	else if (!w.finishing)
		c = conn_new(hello->id, 1);
	if (!c) {
		rdmamsg_request_reject(req, "closing", 7);
		return;
	}
	conn_options(c, &o, &t);
	ret = rdmamsg_request_accept(req, &o, &c->ep);
	if (!ret) {
		conn_made(c);
		return;
	}
	if (ret != -ECONNRESET && !is_fair(ret) && !w.sc->tight)
		VIOLATION(c, "accept: %d, %s", ret, rdmamsg_error());
	conn_unmade(c, ret);
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	struct conn *c = rdmamsg_ep_user(ep);

	(void)rdmamsg_ep_query(ep, &info);
	c->r->max_send = c->plan.side[c->side].max_send = info.max_send;
	c->plan.side[!c->side].max_send = info.max_receive;
	if (c->r->connected++ || c->r->closed)
		VIOLATION(c, "on_connected once more");
	c->ep = ep;
	c->r->connected_at = now_ms();
	if (c->r->connected_at - c->r->began >
	    TIMEOUT_MS + SLACK_MS + worker_late())
		VIOLATION(c, "connected after %llu ms", (unsigned long long)
			  (c->r->connected_at - c->r->began));
	onesided_start(c);
	send_some(c, rng_below(&w.rng, 32));
}

/* ---- its end ---------------------------------------------------------- */

static void begin_end(struct conn *c)
{
	if (c->r->ending_at)
		return;
	c->r->ending_at = now_ms();
	c->late_at = worker_late();
}

static void end_now(struct conn *c, bool abort)
{
	begin_end(c);
	if (abort) {
		c->r->abort_called = 1;
		c->r->ending_at = now_ms();
		rdmamsg_ep_abort(c->ep);
	} else {
		c->r->close_called = 1;
		rdmamsg_ep_close(c->ep);
	}
}

static bool all_received(const struct conn *c)
{
	uint32_t n = c->r->next, end = c->plan.side[!c->side].count;

	while (n < end && c->rx[n] == RX_REFUSED)
		n++;
	return n == end;
}

void conn_ends(struct conn *c)
{
	const struct plan_side *s = &c->plan.side[c->side];

	if (!c->ep || !c->r->connected || c->r->ending_at || !conn_is_up(c))
		return;
	switch (s->ends) {
	case ENDS_ALL:
		if (c->r->sent == s->count && all_received(c))
			end_now(c, false);
		break;
	case ENDS_SENT:
		if (c->r->sent == s->count)
			end_now(c, false);
		break;
	default:
		if (c->r->sent >= s->end_at)
			end_now(c, s->ends == ENDS_ABORT);
	}
}

static void check_time(struct conn *c)
{
	uint64_t took = c->r->closed_at - c->r->ending_at;
	uint64_t late = worker_late() - c->late_at + SLACK_MS;
	uint64_t most = c->r->abort_called ? 0 : CLOSE_MS;

	if (c->r->ending_at && took > most + late)
		VIOLATION(c, "on_closed came %llu ms after the %s",
			  (unsigned long long)took,
			  c->r->abort_called ? "abort" : "close");
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct conn *c = rdmamsg_ep_user(ep);
	struct record *r = c->r;

	if (r->closed++) {
		VIOLATION(c, "on_closed once more");
		return;
	}
	r->closed_at = now_ms();
	r->who = (uint8_t)why->who;
	r->cause = (uint8_t)why->cause;
	r->error = why->error;
	snprintf(r->why, sizeof(r->why), "%s", why->text);
	check_time(c);
	send_forget(c);
	receive_forget(c);
	onesided_closed(c);
	__real_free(c->out);
	__real_free(c->in);
	__real_free(c->scattered);
	c->out = c->in = NULL;
	c->scattered = NULL;
	c->ep = NULL;
	w.live--;
	if (!r->connected)
		w.again_at = now_ms() + 50;
}

const struct rdmamsg_ep_handlers conn_handlers = {
	.size = sizeof(conn_handlers),
	.on_connected = on_connected,
	.on_message = on_message,
	.on_incoming = on_incoming,
	.on_complete = on_complete,
	.on_writable = on_writable,
	.on_closed = on_closed,
	.on_written = on_written,
};

void conn_abort_all(void)
{
	for (struct conn *c = w.conns; c; c = c->next) {
		if (!c->ep)
			continue;
		c->r->abort_called = 1;
		c->r->ending_at = now_ms();
		c->late_at = worker_late();
	}
}

/* ---- every turn ------------------------------------------------------- */

/* All messages are released by now: a blocked sender must get on_writable. */
static void finish_step(struct conn *c)
{
	uint64_t quiet = now_ms() - w.finish_at;

	if (c->blocked && conn_is_up(c) && quiet > STALL_MS + worker_late()) {
		VIOLATION(c, "no on_writable %llu ms after -EAGAIN, sent %u, "
			  "received %u", (unsigned long long)
			  (now_ms() - c->blocked_at), c->r->sent, c->r->next);
		c->blocked = false;
	}
	if (!c->blocked && quiet > QUIET_MS && !c->r->ending_at)
		end_now(c, false);
}

void conn_step(struct conn *c)
{
	if (!c->ep)
		return;
	if (rdmamsg_ep_state(c->ep) >= RDMAMSG_CLOSING) {
		/* a close by the peer also starts this side's deadline */
		begin_end(c);
		c->blocked = false;
		return;
	}
	if (w.finishing) {
		finish_step(c);
		return;
	}
	if (!c->r->connected)
		return;
	send_some(c, rng_below(&w.rng, 24));
	if (c->os && c->ep)
		for (uint32_t i = rng_below(&w.rng, 4); i--; )
			onesided_some(c);
	conn_ends(c);
}
