/* SPDX-License-Identifier: BSD-2-Clause */
/* The listening side of the exchange of records over TCP. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/forked.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/watch.h"
#include "device/choose.h"
#include "cm/connect.h"
#include "session/door.h"
#include "cm/oob/oob.h"
#include "wire/proto.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#define RECORD_MS	10000	/* for the record of a new connection */
#define PAUSE_MS	100	/* if no descriptor or memory is left */

static void turn_away(struct oob_conn *c, enum proto_reject code,
		      uint32_t limit)
{
	rdmamsg__oob_reject(c, code, limit, NULL, 0);
	rdmamsg__oob_conn_free(c);
}

/* Returns 0, -errno, or the enum proto_limit that is reached. */
static int make_request(struct oob_conn *c, const struct proto_hello *h,
			struct rdmamsg_request **ret_req)
{
	const char *device = c->l->oob->device;
	int ret = rdmamsg__request_admit(c->l, &c->peer, &c->visitor);

	if (ret)
		return ret;
	c->device = device ? strdup(device) : NULL;
	if (device && !c->device)
		return rdmamsg__fail(-ENOMEM, "no memory for a request");
	return rdmamsg__request_new(c->l, h, &c->visitor, ret_req);
}

void rdmamsg__oob_offered(struct oob_conn *c)
{
	struct rdmamsg_listener *l = c->l;
	struct rdmamsg_request *req;
	struct proto_hello h;
	int ret;

	if (c->record.kind != PROTO_OOB_OFFER) {
		rdmamsg__visitor_offends(&c->visitor);
		rdmamsg__oob_conn_free(c);
		return;
	}
	/* cannot fail, because the record's decoder has checked the hello */
	(void)rdmamsg__hello_decode(&h, c->record.hello, c->record.hello_len);
	if (rdmamsg__hello_version(&h) < 0) {
		turn_away(c, PROTO_REJECT_VERSION, PROTO_LIMIT_NONE);
		return;
	}
	ret = rdmamsg__try(make_request(c, &h, &req));
	if (ret > 0) {
		turn_away(c, PROTO_REJECT_LIMIT, (uint32_t)ret);
		return;
	}
	if (ret) {
		turn_away(c, PROTO_REJECT_RESOURCES, PROTO_LIMIT_NONE);
		rdmamsg__accept_failed(l, ret);
		return;
	}
	/* The program answers later. A dead connection shows then. */
	rdmamsg__oob_leave(c);
	(void)rdmamsg__watch_set(&c->ctx->loop, &c->watch, 0);
	req->oob = c;
	req->peer = c->peer;
	req->local = c->local;
	rdmamsg__request_arrived(l, req);
}

void rdmamsg__oob_reject(struct oob_conn *c, enum proto_reject code,
			 uint32_t limit, const void *data, size_t len)
{
	struct proto_oob r;

	rdmamsg__note_reject(c->ctx, &c->peer, code, limit);
	rdmamsg__oob_reject_fill(&r, &c->record, code, limit, data, len);
	c->out_len = rdmamsg__oob_encode(&r, c->out);
	c->out_done = 0;
	/* if the socket is full, its end tells the peer */
	(void)rdmamsg__oob_flush(c);
}

int rdmamsg__oob_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	struct oob_conn *c = req->oob;
	int ret;

	rdmamsg__ep_addr_set(&ep->connect.peer_addr,
			     (const struct sockaddr *)&c->peer);
	rdmamsg__ep_addr_set(&ep->connect.local_addr,
			     (const struct sockaddr *)&c->local);
	ret = rdmamsg__oob_init(ep);
	if (!ret)
		ret = rdmamsg__choose_device(
			ep->connect.device ? ep->connect.device : c->device,
			(struct sockaddr *)&c->local, &ep->lane.v,
			&ep->connect.device);
	if (!ret)
		ret = rdmamsg__oob_reply(ep, &c->record,
					 (struct sockaddr *)&c->local);
	if (ret) {
		rdmamsg__oob_reject(c,
				    ret == -EALREADY || ret == -EHOSTUNREACH ||
						    ret == -EOPNOTSUPP
					    ? PROTO_REJECT_PROTOCOL
				    : ep->connect.refused
					    ? ep->connect.refused
				    : ep->connect.limit
					    ? PROTO_REJECT_LIMIT
					    : PROTO_REJECT_RESOURCES,
				    ep->connect.limit, NULL, 0);
		return ret;
	}
	ret = rdmamsg__oob_send(c, &ep->connect.oob->local);
	if (ret == -EPIPE || ret == -ECONNRESET)
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	if (ret)
		return rdmamsg__fail(ret, "answering: %s", strerror(-ret));
	c->ep = ep;
	ep->connect.oob->conn = c;
	req->oob = NULL;
	return 0;
}

static void patience(struct timer *t)
{
	rdmamsg__oob_conn_free(list_entry(t, struct oob_conn, timer));
}

/*
 * Names the limit to a client whose offer has not come, so this record has no
 * token. Bytes that were not read would make the kernel drop the record.
 */
static void turn_away_early(struct oob_conn *c, uint32_t limit)
{
	uint8_t unread[PROTO_OOB_MAX];

	rdmamsg__oob_reject(c, PROTO_REJECT_LIMIT, limit, NULL, 0);
	(void)shutdown(c->watch.fd, SHUT_WR);
	(void)!recv(c->watch.fd, unread, sizeof(unread), MSG_DONTWAIT);
}

static void log_turned_away(const struct rdmamsg_listener *l, int fd)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	char peer[96];

	/* strangers can bring about any number of these */
	if (rdmamsg__log_level < RDMAMSG_LOG_INFO)
		return;
	(void)getpeername(fd, (struct sockaddr *)&from, &len);
	log_info("context %u: listener on port %u: a TCP connection of %s is "
		 "turned away: no memory, or its address has its part of the "
		 "backlog, or has offended", l->ctx->number, l->port,
		 rdmamsg__addr_text((struct sockaddr *)&from, peer,
				    sizeof(peer)));
}

/*
 * If the backlog is full, the oldest TCP connection without a record is turned
 * away for the new connection. rdmamsg__door_admit() bounds the part of each
 * address, so that no address can drive out others.
 */
static void take(struct oob_listen *ol, int fd)
{
	struct rdmamsg_listener *l = ol->l;
	struct oob_conn *c, *oldest;
	int limit;

	c = rdmamsg__oob_conn_new(l->ctx, fd);
	if (!c)
		goto err_fd;
	rdmamsg__oob_note_addrs(c);
	limit = rdmamsg__door_admit(l->door, &c->peer, DOOR_RECORD,
				    &c->visitor);
	if (limit > 0)
		turn_away_early(c, (uint32_t)limit);
	if (limit)
		goto err_conn;
	if (ol->count >= l->opts.backlog) {
		oldest = list_first(&ol->conns, struct oob_conn, node);
		rdmamsg__door_refused(l->door, PROTO_LIMIT_REQUESTS);
		turn_away_early(oldest, PROTO_LIMIT_REQUESTS);
		rdmamsg__oob_conn_free(oldest);
	}
	if (rdmamsg__timers_reserve(&l->ctx->loop.timers, 1))
		goto err_visitor;
	if (rdmamsg__watch_set(&l->ctx->loop, &c->watch, EPOLLIN))
		goto err_timer;
	rdmamsg__fd_own(fd);
	c->l = l;
	ol->count++;
	list_add_tail(&ol->conns, &c->node);
	c->timer.fn = patience;
	rdmamsg__timer_set(&l->ctx->loop.timers, &c->timer, RECORD_MS);
	return;

err_timer:
	rdmamsg__timers_release(&l->ctx->loop.timers, 1);
err_visitor:
	rdmamsg__visitor_leave(&c->visitor);
err_conn:
	free(c);
err_fd:
	log_turned_away(l, fd);
	close(fd);
}

static void listen_again(struct timer *t)
{
	struct oob_listen *ol = list_entry(t, struct oob_listen, again);

	if (rdmamsg__watch_set(&ol->l->ctx->loop, &ol->watch, EPOLLIN))
		rdmamsg__timer_set(&ol->l->ctx->loop.timers, t, PAUSE_MS);
}

static void on_listen(struct watch *w)
{
	struct oob_listen *ol = list_entry(w, struct oob_listen, watch);
	struct rdmamsg *ctx = ol->l->ctx;
	int fd = fd_high(accept4(w->fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd >= 0) {
		take(ol, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		   errno == ENOMEM) {
		log_warn("listening: %m; again in %d ms", PAUSE_MS);
		(void)rdmamsg__watch_set(&ctx->loop, w, 0);
		rdmamsg__timer_set(&ctx->loop.timers, &ol->again, PAUSE_MS);
	}
}

static int open_listen(const struct addrinfo *ai, int backlog, int *ret_fd)
{
	int one = 1, zero = 0, ret;
	int fd = fd_high(socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK |
				SOCK_CLOEXEC, 0));

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (ai->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero,
				 sizeof(zero));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, backlog)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	*ret_fd = fd;
	return 0;
}

int rdmamsg__oob_listen_addr(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	const char *device = rdmamsg__asked(l->opts.device);
	struct oob_listen *ol = calloc(1, sizeof(*ol));
	int ret;

	if (!ol)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	ol->l = l;
	ol->watch.fn = on_listen;
	list_init(&ol->conns);
	rdmamsg__timer_init(&ol->again, listen_again);
	ol->device = device ? strdup(device) : NULL;
	ret = device && !ol->device ? -ENOMEM : 0;
	if (!ret)
		ret = rdmamsg__timers_reserve(&l->ctx->loop.timers, 1);
	if (ret) {
		rdmamsg__fail(ret, "no memory for a listener");
		goto err_ol;
	}
	ret = open_listen(ai, (int)l->opts.backlog, &ol->watch.fd);
	if (ret) {
		rdmamsg__fail_verbs(ret, "listening");
		goto err_timer;
	}
	(void)getsockname(ol->watch.fd, (struct sockaddr *)&at, &len);
	l->port = ntohs(((struct sockaddr_in *)&at)->sin_port);
	ret = rdmamsg__watch_set(&l->ctx->loop, &ol->watch, EPOLLIN);
	if (ret) {
		rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
		goto err_fd;
	}
	rdmamsg__fd_own(ol->watch.fd);
	l->oob = ol;
	return 0;

err_fd:
	close(ol->watch.fd);
err_timer:
	rdmamsg__timers_release(&l->ctx->loop.timers, 1);
err_ol:
	free(ol->device);
	free(ol);
	return ret;
}

void rdmamsg__oob_unlisten(struct rdmamsg_listener *l)
{
	struct oob_listen *ol = l->oob;

	if (!ol)
		return;
	while (!list_empty(&ol->conns))
		rdmamsg__oob_conn_free(list_first(&ol->conns, struct oob_conn,
						  node));
	rdmamsg__timer_stop(&l->ctx->loop.timers, &ol->again);
	rdmamsg__timers_release(&l->ctx->loop.timers, 1);
	l->oob = NULL;
	free(ol->device);
	rdmamsg__watch_end(&l->ctx->loop, &ol->watch, ol);
}

int rdmamsg_oob_listen(struct rdmamsg *ctx, const char *host,
		       const char *service,
		       const struct rdmamsg_listen_options *opts,
		       struct rdmamsg_listener **ret)
{
	return rdmamsg__listen(ctx, &rdmamsg__by_record, host, service, opts,
			       ret);
}
