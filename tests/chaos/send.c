/* SPDX-License-Identifier: BSD-2-Clause */
/* Outgoing messages, by all three calls, and their completions. */
#include "worker.h"

#include <errno.h>
#include <string.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/post.h>

#define COPY_MAX	65536u
#define IN_FLIGHT	3u /* largest messages in flight, of a connection */
#define WRITABLES_MAX	200000u	/* bound for one turn of the loop */
#define LENT_MAX	1024u /* sends without a cookie, lent until on_closed */

enum draw { DRAW_HOW = 2, DRAW_COOKIE, DRAW_SEGMENTS };

static void make(struct conn *c, uint32_t n, uint8_t *dst, uint32_t len)
{
	struct stamp s = {
		.magic = 0x63616f73, .id = c->r->id, .number = n, .size = len,
		.side = (uint32_t)c->side,
	};

	content_fill(&c->plan, c->side, n, dst, 0, len);
	if (len < sizeof(s))
		return;
	onesided_stamp(c, &s);
	memcpy(dst, &s, sizeof(s));
	if (!n && c->plan.onesided)
		onesided_key(c, dst + sizeof(s));
}

static int by_copy(struct conn *c, uint32_t n, uint32_t len, void *cookie)
{
	static uint8_t scratch[COPY_MAX + 1];
	uint32_t tag = plan_tag(&c->plan, c->side, n);
	int ret;

	make(c, n, scratch, len);
	if (!cookie && len < 512)
		ret = rdmamsg_fast_send(c->ep, scratch, len, tag);
	else
		ret = rdmamsg_send(c->ep, len ? scratch : NULL, len, tag,
				   cookie);
	/* the library has copied or refused the message */
	memset(scratch, 0xdd, len);
	return ret;
}

int send_cut(const struct conn *c, uint32_t n, uint8_t *buf, uint32_t len,
	     struct iovec *iov)
{
	int count = 1 + (int)(plan_draw(&c->plan, c->side, n, DRAW_SEGMENTS) %
			      RDMAMSG_SEGMENTS_MAX);
	uint32_t at = 0;

	for (int i = 0; i < count; i++) {
		uint32_t part = i == count - 1 ? len - at :
			plan_draw(&c->plan, c->side, n, 32 + (uint32_t)i) %
			(2 * len / (uint32_t)count + 1);

		if (part > len - at)
			part = len - at;
		iov[i].iov_base = part ? buf + at : NULL;
		iov[i].iov_len = part;
		at += part;
	}
	return count;
}

static int by_segments(struct conn *c, uint32_t n, uint32_t len, void *cookie)
{
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	uint8_t *buf = own_alloc(len);
	int ret;

	make(c, n, buf, len);
	ret = plan_timeout(&c->plan, c->side, n) ?
	      late_send(c, n, buf, len, cookie) :
	      rdmamsg_sendv(c->ep, iov, send_cut(c, n, buf, len, iov),
			    plan_tag(&c->plan, c->side, n), cookie);
	if (ret)
		__real_free(buf);
	else
		c->out[n] = buf;
	return ret;
}

/* Sends a received message, or a new one, from registered memory. */
static int by_message(struct conn *c, uint32_t n, uint32_t len, void *cookie)
{
	struct rdmamsg_msg *msg = held_take(len);
	bool shares = rng_chance(&w.rng, 300);
	int ret = 0;

	if (!msg)
		ret = w.send_pool ?
		      rdmamsg_pool_alloc(w.send_pool, c->ep, len, &msg) :
		      rdmamsg_msg_alloc(c->ep, len, &msg);
	if (ret)
		return ret;
	make(c, n, rdmamsg_msg_data(msg), len);
	shares = shares && !rdmamsg_msg_ref(msg);
	ret = rdmamsg_msg_send(c->ep, msg, plan_tag(&c->plan, c->side, n),
			       cookie);
	if (ret)
		rdmamsg_msg_free(msg);
	if (shares)
		rdmamsg_msg_free(msg);
	return ret;
}

/*
 * Returns 0: rdmamsg_send(), 1: rdmamsg_sendv() or rdmamsg_post() with a
 * timeout, 2: rdmamsg_msg_send().
 */
static uint32_t how_of(const struct conn *c, uint32_t n)
{
	uint32_t how = plan_draw(&c->plan, c->side, n, DRAW_HOW) % 3;

	if (c->no_copy || plan_timeout(&c->plan, c->side, n) ||
	    (!how && plan_size(&c->plan, c->side, n) > COPY_MAX))
		return 1;
	return how;
}

static int try(struct conn *c, uint32_t n, uint32_t len, void *cookie)
{
	switch (how_of(c, n)) {
	case 0:
		return by_copy(c, n, len, cookie);
	case 1:
		return by_segments(c, n, len, cookie);
	default:
		return by_message(c, n, len, cookie);
	}
}

/* Returns true if the send may be tried again at once. */
static bool refused(struct conn *c, int ret)
{
	switch (ret) {
	case -EAGAIN:
		w.j->refused++;
		c->blocked = true;
		c->blocked_at = now_ms();
		return false;
	case -ESHUTDOWN:
		if (rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED)
			VIOLATION(c, "-ESHUTDOWN of a connected endpoint");
		c->shut = true;
		return false;
	case -ENOBUFS:
		if (!w.sc->max_registered && !w.sc->pool)
			VIOLATION(c, "-ENOBUFS: %s", rdmamsg_error());
		/* rdmamsg_sendv() needs no memory of the library */
		if (c->no_copy && !w.rough)
			VIOLATION(c, "-ENOBUFS of rdmamsg_sendv: %s",
				  rdmamsg_error());
		c->no_copy = true;
		return true;
	default:
		if (!w.rough)
			VIOLATION(c, "send: %d, %s", ret, rdmamsg_error());
		return false;
	}
}

static bool send_one(struct conn *c)
{
	uint32_t n = c->r->sent, len = plan_size(&c->plan, c->side, n);
	bool asks = len > LENT_MAX || plan_timeout(&c->plan, c->side, n) ||
		    plan_draw(&c->plan, c->side, n, DRAW_COOKIE) % 2;
	void *cookie = asks ? (void *)(uintptr_t)(n + 1) : NULL;
	int ret;

	c->tx[n] = TX_TRYING;
	ret = try(c, n, len, cookie);
	if (ret) {
		c->tx[n] = TX_NONE;
		return refused(c, ret);
	}
	c->tx[n] = asks ? TX_PENDING : TX_ACCEPTED;
	c->in_flight += asks ? len : 0;
	c->r->bytes_sent += len;
	c->r->sent = n + 1;
	c->no_copy = false;
	return true;
}

void send_some(struct conn *c, uint32_t most)
{
	while (most-- && c->ep && !c->blocked && !c->shut && !w.finishing &&
	       conn_is_up(c) && c->r->sent < c->plan.side[c->side].count &&
	       c->in_flight < IN_FLIGHT * w.board->max_size)
		if (!send_one(c))
			return;
}

/*
 * Overwrites and frees lent memory, so that a late read by the receiver fails.
 */
static void take_back(struct conn *c, uint32_t n)
{
	uint32_t len = plan_size(&c->plan, c->side, n);

	if (!c->out[n])
		return;
	memset(c->out[n], 0xee, len);
	__real_free(c->out[n]);
	c->out[n] = NULL;
}

void send_ended(struct conn *c, uint32_t n, int status)
{
	c->tx[n] = !status ? TX_OK : status == -ECANCELED ? TX_CANCELED :
		   status == RDMAMSG_TIMED_OUT ? TX_TIMED_OUT : TX_FAILED;
	if (c->tx[n] == TX_FAILED)
		VIOLATION(c, "message %u: status %d", n, status);
	if (!status && c->r->in_memory <= n)
		c->r->in_memory = n + 1;
	c->in_flight -= plan_size(&c->plan, c->side, n);
	take_back(c, n);
}

void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t n = (uint32_t)(uintptr_t)cookie - 1;

	if (c->r->closed)
		VIOLATION(c, "on_complete after on_closed");
	if ((uintptr_t)cookie & COOKIE_RMA) {
		onesided_sent(c, cookie, status);
		return;
	}
	if (n >= c->r->sent || c->tx[n] != TX_PENDING) {
		w.j->doubled++;
		VIOLATION(c, "on_complete of message %u, whose state is %d", n,
			  n < c->r->sent ? c->tx[n] : -1);
		return;
	}
	if (!late_told(c, n, status))
		send_ended(c, n, status);
	send_some(c, 4);
}

void on_writable(struct rdmamsg_ep *ep)
{
	struct conn *c = rdmamsg_ep_user(ep);

	if (c->r->closed)
		VIOLATION(c, "on_writable after on_closed");
	c->blocked = false;
	/* endless on_writable callbacks keep the loop from returning */
	if (w.writables++ == WRITABLES_MAX)
		VIOLATION(c, "on_writable %u times in one turn of the loop, "
			  "message %u of %u bytes by call %u", WRITABLES_MAX,
			  c->r->sent, plan_size(&c->plan, c->side, c->r->sent),
			  how_of(c, c->r->sent));
	if (w.writables < WRITABLES_MAX)
		send_some(c, 1 + rng_below(&w.rng, 16));
}

/* At on_closed each cookie has come back. */
void send_forget(struct conn *c)
{
	uint32_t pending = 0, first = 0;

	for (uint32_t n = c->r->sent; n--; ) {
		if (c->tx[n] == TX_PENDING || c->tx[n] == TX_OVERDUE) {
			pending++;
			first = n;
		}
		take_back(c, n);
	}
	if (pending)
		VIOLATION(c, "%u completions are missing at on_closed, the "
			  "first is of message %u", pending, first);
}
