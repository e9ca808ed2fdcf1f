/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The built-in exchange of records over TCP. The connecting side sends the
 * offer, and keeps the socket open until it is connected. While the other side
 * waits for SETUP, an end of the socket thus means that the peer has ended.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/watch.h"
#include "device/cq.h"
#include "cm/connect.h"
#include "session/door.h"
#include "session/ep.h"
#include "cm/oob/oob.h"
#include "session/poll.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <rdmamsg/rdmamsg.h>

static void on_io(struct watch *w);

struct oob_conn *rdmamsg__oob_conn_new(struct rdmamsg *ctx, int fd)
{
	struct oob_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->watch.fd = fd;
	c->watch.fn = on_io;
	c->ctx = ctx;
	rdmamsg__timer_init(&c->timer, NULL);
	list_init(&c->node);
	return c;
}

void rdmamsg__oob_leave(struct oob_conn *c)
{
	if (!c->l)
		return;
	c->l->oob->count--;
	c->l = NULL;
	list_del(&c->node);
	rdmamsg__timer_stop(&c->ctx->loop.timers, &c->timer);
	rdmamsg__timers_release(&c->ctx->loop.timers, 1);
}

void rdmamsg__oob_conn_free(struct oob_conn *c)
{
	rdmamsg__oob_leave(c);
	rdmamsg__visitor_leave(&c->visitor);
	if (c->ep)
		c->ep->connect.oob->conn = NULL;
	c->ep = NULL;
	free(c->device);
	rdmamsg__watch_end(&c->ctx->loop, &c->watch, c);
}

void rdmamsg__oob_stop(struct rdmamsg_ep *ep)
{
	if (ep->connect.oob && ep->connect.oob->conn)
		rdmamsg__oob_conn_free(ep->connect.oob->conn);
}

void rdmamsg__oob_connected(struct rdmamsg_ep *ep)
{
	if (!ep->connect.passive)
		rdmamsg__oob_stop(ep);
}

void rdmamsg__oob_note_addrs(struct oob_conn *c)
{
	socklen_t len = sizeof(c->local);

	(void)getsockname(c->watch.fd, (struct sockaddr *)&c->local, &len);
	len = sizeof(c->peer);
	(void)getpeername(c->watch.fd, (struct sockaddr *)&c->peer, &len);
}

/* Returns 1 if all is sent, 0 if the socket is full, or -errno. */
int rdmamsg__oob_flush(struct oob_conn *c)
{
	while (c->out_done < c->out_len) {
		ssize_t n = send(c->watch.fd, c->out + c->out_done,
				 c->out_len - c->out_done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->out_done += (size_t)n;
	}
	return 1;
}

int rdmamsg__oob_send(struct oob_conn *c, const struct proto_oob *r)
{
	int ret;

	c->out_len = rdmamsg__oob_encode(r, c->out);
	c->out_done = 0;
	ret = rdmamsg__oob_flush(c);
	if (ret < 0)
		return ret;
	return rdmamsg__watch_set(&c->ctx->loop, &c->watch,
				     ret ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/*
 * Returns 1 if the record is complete, 0 if not yet, -ECONNRESET at the end of
 * the stream, -EPROTO, ...
 */
static int fetch(struct oob_conn *c)
{
	for (;;) {
		int own = rdmamsg__oob_length(c->in, c->in_len);
		size_t want = own > 0 ? (size_t)own : 8;
		ssize_t n;

		if (own < 0)
			return own;
		if (own && c->in_len == want)
			return rdmamsg__oob_decode(&c->record, c->in,
						   c->in_len) ? -EPROTO : 1;
		n = recv(c->watch.fd, c->in + c->in_len, want - c->in_len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (!n)
			return -ECONNRESET;
		c->in_len += (size_t)n;
	}
}

void rdmamsg__oob_gone(struct rdmamsg_ep *ep, int err)
{
	if (err == -EPROTO || err == -EPROTONOSUPPORT)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   err == -EPROTO ? RDMAMSG_CAUSE_PROTOCOL :
				   RDMAMSG_CAUSE_VERSION, err, "what answers "
				   "there does not speak this exchange%s: %s",
				   err == -EPROTO ? "" : " in this version",
				   ep->connect.host ? ep->connect.host : "?");
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
				   -ECONNRESET, "the peer was killed or has "
				   "given up while connecting (%s)%s",
				   strerror(-err), rdmamsg__apart_text(ep));
	rdmamsg__ep_kill(ep);
}

static void on_record(struct oob_conn *c)
{
	c->have_record = true;
	if (c->l)
		rdmamsg__oob_offered(c);
	else
		rdmamsg__oob_answered(c);
}

/* After the record the peer sends nothing, so its end is expected next. */
static void on_end(struct oob_conn *c)
{
	struct rdmamsg_ep *ep = c->ep;
	char byte;
	ssize_t n = recv(c->watch.fd, &byte, 1, 0);
	int err = n < 0 ? -errno : -ECONNRESET;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* completions that came before the end are handled before it */
	rdmamsg__cq_poll(c->ctx, 1 << 20);
	if (!c->ep)
		return;
	rdmamsg__oob_conn_free(c);
	if (ep->state == EP_SETUP && (!ep->connect.setup_seen ||
				      rdmamsg__auth_wants_proof(ep)))
		rdmamsg__oob_gone(ep, n > 0 ? -EPROTO : err);
}

static void on_io(struct watch *w)
{
	struct oob_conn *c = list_entry(w, struct oob_conn, watch);
	int ret;

	/* The endpoint is ending, so do not connect. */
	if (c->ep && c->ep->close.failing)
		return;
	if (c->connecting) {
		rdmamsg__oob_dialled(c);
		return;
	}
	if (c->out_done < c->out_len) {
		ret = rdmamsg__oob_flush(c);
		if (ret > 0)
			ret = rdmamsg__watch_set(&c->ctx->loop, w, EPOLLIN);
		if (ret < 0 && c->ep) {
			rdmamsg__oob_gone(c->ep, ret);
			return;
		}
	}
	if (c->have_record) {
		on_end(c);
		return;
	}
	ret = fetch(c);
	if (ret > 0) {
		on_record(c);
	} else if (ret < 0 && c->ep) {
		rdmamsg__oob_gone(c->ep, ret);
	} else if (ret < 0) {
		if (ret == -EPROTO)
			rdmamsg__visitor_offends(&c->visitor);
		rdmamsg__oob_conn_free(c);
	}
}
