/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The built-in exchange of records over TCP. The side that connects offers;
 * it keeps the socket until it is connected, so that while the other side
 * waits for SETUP an end of the socket is the end of the peer.
 */
#include "internal.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RECORD_MS	10000	/* for a stranger's record */
#define PAUSE_MS	100	/* out of descriptors */

static void on_io(struct watch *w);

/* ---- a connection ----------------------------------------------------- */

static struct oob_conn *conn_new(struct rdmamsg *ctx, int fd)
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

static void leave_listener(struct oob_conn *c)
{
	if (!c->l)
		return;
	c->l->oob->count--;
	c->l = NULL;
	list_del(&c->node);
	rdmamsg__timer_stop(&c->ctx->timers, &c->timer);
	rdmamsg__timers_release(&c->ctx->timers, 1);
}

void rdmamsg__oob_conn_free(struct oob_conn *c)
{
	leave_listener(c);
	if (c->ep)
		c->ep->oob->conn = NULL;
	c->ep = NULL;
	free(c->device);
	rdmamsg__watch_end(c->ctx, &c->watch, c);
}

void rdmamsg__oob_stop(struct rdmamsg_ep *ep)
{
	if (ep->oob && ep->oob->conn)
		rdmamsg__oob_conn_free(ep->oob->conn);
}

void rdmamsg__oob_connected(struct rdmamsg_ep *ep)
{
	if (!ep->passive)
		rdmamsg__oob_stop(ep);
}

static void note_addrs(struct oob_conn *c)
{
	socklen_t len = sizeof(c->local);

	(void)getsockname(c->watch.fd, (struct sockaddr *)&c->local, &len);
	len = sizeof(c->peer);
	(void)getpeername(c->watch.fd, (struct sockaddr *)&c->peer, &len);
}

/* 1: all has gone; 0: there is no room yet; -errno. */
static int flush(struct oob_conn *c)
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

static int send_record(struct oob_conn *c, const struct proto_oob *r)
{
	int ret;

	c->out_len = rdmamsg__oob_encode(r, c->out);
	c->out_done = 0;
	ret = flush(c);
	if (ret < 0)
		return ret;
	return rdmamsg__watch_set(c->ctx, &c->watch,
				     ret ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* 1: the record is whole; 0: not yet; -ECONNRESET at the end; -EPROTO, ... */
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

/* ---- the side that connects ------------------------------------------- */

static void gone(struct rdmamsg_ep *ep, int err)
{
	if (err == -EPROTO || err == -EPROTONOSUPPORT)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   err == -EPROTO ? RDMAMSG_CAUSE_PROTOCOL :
				   RDMAMSG_CAUSE_VERSION, err, "what answers "
				   "there does not speak this exchange%s: %s",
				   err == -EPROTO ? "" : " in this version",
				   ep->host ? ep->host : "?");
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
				   -ECONNRESET, "the peer was killed or has "
				   "given up while connecting (%s)",
				   strerror(-err));
	rdmamsg__ep_kill(ep);
}

/* -errno if this address does not do. */
static int dial(struct rdmamsg_ep *ep)
{
	const struct addrinfo *ai = ep->addr;
	struct addrinfo *src = NULL;
	struct oob_conn *c;
	int fd, ret = 0;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return rdmamsg__fail(-errno, "socket: %s", strerror(errno));
	memcpy(&ep->peer_addr, ai->ai_addr, ai->ai_addrlen);
	if (ep->source &&
	    rdmamsg__resolve_numeric(ep->source, NULL, 0, &src))
		ret = rdmamsg__fail(-EINVAL, "source '%s' is not a numeric "
				    "address", ep->source);
	if (src && bind(fd, src->ai_addr, src->ai_addrlen))
		ret = rdmamsg__fail(-errno, "source %s: %s", ep->source,
				    strerror(errno));
	if (src)
		freeaddrinfo(src);
	if (!ret && connect(fd, ai->ai_addr, ai->ai_addrlen) &&
	    errno != EINPROGRESS)
		ret = rdmamsg__fail(-errno, "%s port %s: %s", ep->host,
				    ep->service, strerror(errno));
	c = ret ? NULL : conn_new(ep->ctx, fd);
	if (!c) {
		close(fd);
		return ret ? ret : rdmamsg__fail(-ENOMEM, "no memory for an "
						 "endpoint");
	}
	c->connecting = true;
	c->ep = ep;
	ep->oob->conn = c;
	ret = rdmamsg__watch_set(ep->ctx, &c->watch, EPOLLOUT);
	if (!ret)
		return 0;
	rdmamsg__oob_conn_free(c);
	return rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
}

int rdmamsg__oob_dial(struct rdmamsg_ep *ep)
{
	int ret;

	while ((ret = dial(ep))) {
		if (!ep->addr->ai_next)
			return ret;
		ep->addr = ep->addr->ai_next;
	}
	return 0;
}

static void no_address(struct rdmamsg_ep *ep, int err)
{
	if (err == -ECONNREFUSED)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
				   err, "nobody listens on port %s of %s",
				   ep->service, ep->host);
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_UNREACHABLE, err,
				   "%s port %s: %s", ep->host, ep->service,
				   strerror(-err));
	rdmamsg__ep_kill(ep);
}

void rdmamsg__oob_resolved(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__oob_dial(ep);

	if (ret)
		no_address(ep, ret);
}

static void dialled(struct oob_conn *c)
{
	struct rdmamsg_ep *ep = c->ep;
	socklen_t len = sizeof(int);
	int err = 0, ret;

	if (getsockopt(c->watch.fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (err) {
		rdmamsg__oob_conn_free(c);
		if (ep->addr->ai_next) {
			ep->addr = ep->addr->ai_next;
			rdmamsg__oob_resolved(ep);
		} else {
			no_address(ep, -err);
		}
		return;
	}
	c->connecting = false;
	note_addrs(c);
	ep->local_addr = c->local;
	freeaddrinfo(ep->addrs);
	ep->addrs = ep->addr = NULL;
	ret = rdmamsg__path_device(ep->device, (struct sockaddr *)&c->local,
				   &ep->v, &ep->device);
	if (!ret)
		ret = rdmamsg__oob_begin(ep, (struct sockaddr *)&c->local);
	if (!ret) {
		ret = send_record(c, &ep->oob->local);
		if (ret) {
			gone(ep, ret);
			return;
		}
	}
	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_RESOURCES, ret, "%s",
				   rdmamsg_error());
		rdmamsg__ep_kill(ep);
	}
}

static void on_answer(struct oob_conn *c)
{
	struct rdmamsg_ep *ep = c->ep;
	int ret = rdmamsg__oob_take(ep, &c->record);

	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
				   -EPROTO, "%s", rdmamsg_error());
		rdmamsg__ep_kill(ep);
	}
}

/* ---- the side that listens -------------------------------------------- */

static void on_offer(struct oob_conn *c)
{
	struct rdmamsg_listener *l = c->l;
	struct rdmamsg_request *req;
	struct proto_hello h;

	if (c->record.kind != PROTO_OOB_OFFER) {
		rdmamsg__oob_conn_free(c);
		return;
	}
	/* cannot fail: it was looked at with the record */
	(void)rdmamsg__hello_decode(&h, c->record.hello, c->record.hello_len);
	if (rdmamsg__hello_version(&h) < 0) {
		rdmamsg__oob_reject(c, PROTO_REJECT_VERSION, NULL, 0);
		rdmamsg__oob_conn_free(c);
		return;
	}
	c->device = l->oob->device ? strdup(l->oob->device) : NULL;
	req = !l->oob->device || c->device ? rdmamsg__request_new(l, &h) : NULL;
	if (!req) {
		rdmamsg__oob_reject(c, PROTO_REJECT_RESOURCES, NULL, 0);
		rdmamsg__oob_conn_free(c);
		return;
	}
	/* in the program's hands; whether it lives shows when it is answered */
	leave_listener(c);
	(void)rdmamsg__watch_set(c->ctx, &c->watch, 0);
	req->oob = c;
	req->peer = c->peer;
	req->local = c->local;
	rdmamsg__request_arrived(l, req);
}

void rdmamsg__oob_reject(struct oob_conn *c, enum proto_reject code,
			 const void *data, size_t len)
{
	struct proto_oob r;

	rdmamsg__oob_reject_fill(&r, &c->record, code, data, len);
	c->out_len = rdmamsg__oob_encode(&r, c->out);
	c->out_done = 0;
	/* what the socket has no room for, its end tells */
	(void)flush(c);
}

int rdmamsg__oob_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	struct oob_conn *c = req->oob;
	int ret;

	ep->peer_addr = c->peer;
	ep->local_addr = c->local;
	ret = rdmamsg__oob_init(ep);
	if (!ret)
		ret = rdmamsg__path_device(ep->device ? ep->device : c->device,
					   (struct sockaddr *)&c->local,
					   &ep->v, &ep->device);
	if (!ret)
		ret = rdmamsg__oob_reply(ep, &c->record,
					 (struct sockaddr *)&c->local);
	if (ret) {
		rdmamsg__oob_reject(c, ret == -EALREADY || ret == -EHOSTUNREACH ?
				    PROTO_REJECT_PROTOCOL :
				    PROTO_REJECT_RESOURCES, NULL, 0);
		return ret;
	}
	ret = send_record(c, &ep->oob->local);
	if (ret == -EPIPE || ret == -ECONNRESET)
		return rdmamsg__fail(-ECONNRESET, "the peer has gone meanwhile");
	if (ret)
		return rdmamsg__fail(ret, "answering: %s", strerror(-ret));
	c->ep = ep;
	ep->oob->conn = c;
	req->oob = NULL;
	return 0;
}

static void on_record(struct oob_conn *c)
{
	c->have_record = true;
	if (c->l)
		on_offer(c);
	else
		on_answer(c);
}

/* After the record: nothing is to come but the end. */
static void on_end(struct oob_conn *c)
{
	struct rdmamsg_ep *ep = c->ep;
	char byte;
	ssize_t n = recv(c->watch.fd, &byte, 1, 0);
	int err = n < 0 ? -errno : -ECONNRESET;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* what was sent before it counts before it */
	rdmamsg__cq_poll(c->ctx, 1 << 20);
	if (!c->ep)
		return;
	rdmamsg__oob_conn_free(c);
	if (ep->state == EP_SETUP && !ep->setup_seen)
		gone(ep, n > 0 ? -EPROTO : err);
}

static void on_io(struct watch *w)
{
	struct oob_conn *c = list_entry(w, struct oob_conn, watch);
	int ret;

	if (c->connecting) {
		dialled(c);
		return;
	}
	if (c->out_done < c->out_len) {
		ret = flush(c);
		if (ret > 0)
			ret = rdmamsg__watch_set(c->ctx, w, EPOLLIN);
		if (ret < 0 && c->ep) {
			gone(c->ep, ret);
			return;
		}
	}
	if (c->have_record) {
		on_end(c);
		return;
	}
	ret = fetch(c);
	if (ret > 0)
		on_record(c);
	else if (ret < 0 && c->ep)
		gone(c->ep, ret);
	else if (ret < 0)
		rdmamsg__oob_conn_free(c);
}

static void patience(struct timer *t)
{
	rdmamsg__oob_conn_free(list_entry(t, struct oob_conn, timer));
}

/* A stranger that says nothing makes room for the next one. */
static void take(struct oob_listen *ol, int fd)
{
	struct rdmamsg_listener *l = ol->l;
	struct oob_conn *c;

	if (ol->count >= l->opts.backlog)
		rdmamsg__oob_conn_free(list_first(&ol->conns, struct oob_conn,
						  node));
	c = conn_new(l->ctx, fd);
	if (!c)
		goto err_fd;
	if (rdmamsg__timers_reserve(&l->ctx->timers, 1))
		goto err_conn;
	if (rdmamsg__watch_set(l->ctx, &c->watch, EPOLLIN))
		goto err_timer;
	note_addrs(c);
	c->l = l;
	ol->count++;
	list_add_tail(&ol->conns, &c->node);
	c->timer.fn = patience;
	rdmamsg__timer_set(&l->ctx->timers, &c->timer, RECORD_MS);
	return;

err_timer:
	rdmamsg__timers_release(&l->ctx->timers, 1);
err_conn:
	free(c);
err_fd:
	close(fd);
	log_warn("no memory for a request: dropped");
}

static void listen_again(struct timer *t)
{
	struct oob_listen *ol = list_entry(t, struct oob_listen, again);

	if (rdmamsg__watch_set(ol->l->ctx, &ol->watch, EPOLLIN))
		rdmamsg__timer_set(&ol->l->ctx->timers, t, PAUSE_MS);
}

static void on_listen(struct watch *w)
{
	struct oob_listen *ol = list_entry(w, struct oob_listen, watch);
	struct rdmamsg *ctx = ol->l->ctx;
	int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		take(ol, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		   errno == ENOMEM) {
		log_warn("listening: %m; again in %d ms", PAUSE_MS);
		(void)rdmamsg__watch_set(ctx, w, 0);
		rdmamsg__timer_set(&ctx->timers, &ol->again, PAUSE_MS);
	}
}

static int open_listen(const struct addrinfo *ai, int backlog, int *ret_fd)
{
	int one = 1, zero = 0, ret;
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK |
			SOCK_CLOEXEC, 0);

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
	const char *device = l->opts.device ? l->opts.device :
			     rdmamsg__env_device();
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
		ret = rdmamsg__timers_reserve(&l->ctx->timers, 1);
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
	ret = rdmamsg__watch_set(l->ctx, &ol->watch, EPOLLIN);
	if (ret) {
		rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
		goto err_fd;
	}
	l->oob = ol;
	return 0;

err_fd:
	close(ol->watch.fd);
err_timer:
	rdmamsg__timers_release(&l->ctx->timers, 1);
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
	rdmamsg__timer_stop(&l->ctx->timers, &ol->again);
	rdmamsg__timers_release(&l->ctx->timers, 1);
	l->oob = NULL;
	free(ol->device);
	rdmamsg__watch_end(l->ctx, &ol->watch, ol);
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_oob_connect(struct rdmamsg *ctx, const char *host,
			const char *service,
			const struct rdmamsg_ep_options *opts,
			struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__dial_new(ctx, host, service, opts, &ep);

	if (ret)
		return ret;
	ret = rdmamsg__oob_init(ep);
	if (!ret)
		ret = rdmamsg__dial_start(ep);
	if (ret) {
		rdmamsg__ep_unborn(ep);
		return ret;
	}
	if (ret_ep)
		*ret_ep = ep;
	return 0;
}

int rdmamsg_oob_listen(struct rdmamsg *ctx, const char *host,
		       const char *service,
		       const struct rdmamsg_listen_options *opts,
		       struct rdmamsg_listener **ret)
{
	return rdmamsg__listen(ctx, host, service, opts,
			       rdmamsg__oob_listen_addr, ret);
}
