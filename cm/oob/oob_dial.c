/* SPDX-License-Identifier: BSD-2-Clause */
/* The connecting side of the exchange of records over TCP. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/forked.h"
#include "base/watch.h"
#include "device/choose.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "cm/oob/oob.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

static int fail_connect(const struct rdmamsg_ep *ep, int err)
{
	return rdmamsg__fail(err, "TCP port %s: %s", ep->connect.service,
			     strerror(-err));
}

/* Starts to connect to one address. */
static int dial(struct rdmamsg_ep *ep, const struct addrinfo *ai)
{
	struct addrinfo *src = NULL;
	struct oob_conn *c;
	int fd, ret = 0;

	fd = fd_high(socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK |
			    SOCK_CLOEXEC, 0));
	if (fd < 0)
		return rdmamsg__fail(-errno, "socket: %s", strerror(errno));
	rdmamsg__ep_addr_set(&ep->connect.peer_addr, ai->ai_addr);
	if (ep->connect.source &&
	    rdmamsg__resolve_numeric(ep->connect.source, NULL, 0, &src))
		ret = rdmamsg__fail(-EINVAL, "source '%s' is not a numeric "
				    "address", ep->connect.source);
	if (src && bind(fd, src->ai_addr, src->ai_addrlen))
		ret = rdmamsg__fail(-errno, "source %s: %s", ep->connect.source,
				    strerror(errno));
	if (src)
		freeaddrinfo(src);
	if (!ret && connect(fd, ai->ai_addr, ai->ai_addrlen) &&
	    errno != EINPROGRESS)
		ret = fail_connect(ep, -errno);
	c = ret ? NULL : rdmamsg__oob_conn_new(ep->ctx, fd);
	if (!c) {
		close(fd);
		return ret ? ret : rdmamsg__fail(-ENOMEM, "no memory for an "
						 "endpoint");
	}
	c->connecting = true;
	c->ep = ep;
	ep->connect.oob->conn = c;
	ret = rdmamsg__watch_set(&ep->ctx->loop, &c->watch, EPOLLOUT);
	rdmamsg__fd_own(fd);
	if (!ret)
		return 0;
	rdmamsg__oob_conn_free(c);
	return rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
}

/*
 * Tries the addresses from connect.addr on. Returns 0 at the first that starts
 * to connect, else the error of the last.
 */
static int try_addrs(struct rdmamsg_ep *ep)
{
	int ret;

	while ((ret = rdmamsg__try(dial(ep, ep->connect.addr)))) {
		if (!ep->connect.addr->ai_next)
			return rdmamsg__fail_again(ret);
		ep->connect.addr = ep->connect.addr->ai_next;
	}
	return 0;
}

/*
 * If err means that the peer refuses or does not answer, ends the endpoint and
 * returns true.
 */
static bool unanswered(struct rdmamsg_ep *ep, int err)
{
	if (err == -ECONNREFUSED) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
				   err, "nobody listens on port %s of %s",
				   ep->connect.service, ep->connect.host);
		rdmamsg__dial_end(ep);
		return true;
	}
	if (rdmamsg__is_unreachable(err))
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_UNREACHABLE, err);
	return rdmamsg__is_unreachable(err);
}

/* Ends the endpoint with the error of the last address. */
static void no_address(struct rdmamsg_ep *ep, int err)
{
	if (!unanswered(ep, err))
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, err);
}

int rdmamsg__oob_dial(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__try(try_addrs(ep));

	return unanswered(ep, ret) ? 0 : rdmamsg__fail_again(ret);
}

static int dial_again(struct rdmamsg_ep *ep)
{
	const struct addrinfo ai = {
		.ai_family = ep->connect.peer_addr.any.sa_family,
		.ai_addr = &ep->connect.peer_addr.any,
		.ai_addrlen = ep->connect.peer_addr.any.sa_family == AF_INET6 ?
			      sizeof(struct sockaddr_in6) :
			      sizeof(struct sockaddr_in),
	};

	return ep->connect.addr ? try_addrs(ep) : dial(ep, &ai);
}

int rdmamsg__oob_dial_again(struct rdmamsg_ep *ep)
{
	int ret;

	rdmamsg__ep_enter(ep, EP_RESOLVING);
	rdmamsg__oob_psn(ep->connect.oob);
	ret = dial_again(ep);
	return unanswered(ep, ret) ? 0 : ret;
}

void rdmamsg__oob_resolved(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__try(try_addrs(ep));

	if (ret)
		no_address(ep, ret);
}

/* Makes the offer, on the device that has the local address. */
static int make_offer(struct rdmamsg_ep *ep, const struct sockaddr *local)
{
	int ret = rdmamsg__choose_device(ep->connect.device, local, &ep->lane.v,
				       &ep->connect.device);

	return ret ? ret : rdmamsg__oob_begin(ep, local);
}

void rdmamsg__oob_dialled(struct oob_conn *c)
{
	struct rdmamsg_ep *ep = c->ep;
	socklen_t len = sizeof(int);
	int err = 0, ret;

	if (getsockopt(c->watch.fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (err) {
		rdmamsg__oob_conn_free(c);
		if (ep->connect.addr && ep->connect.addr->ai_next) {
			ep->connect.addr = ep->connect.addr->ai_next;
			rdmamsg__oob_resolved(ep);
		} else {
			no_address(ep, rdmamsg__try(fail_connect(ep, -err)));
		}
		return;
	}
	c->connecting = false;
	rdmamsg__oob_note_addrs(c);
	rdmamsg__ep_addr_set(&ep->connect.local_addr,
			     (const struct sockaddr *)&c->local);
	if (ep->connect.addrs)
		freeaddrinfo(ep->connect.addrs);
	ep->connect.addrs = ep->connect.addr = NULL;
	ret = rdmamsg__try(make_offer(ep, (struct sockaddr *)&c->local));
	if (ret) {
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, ret);
		return;
	}
	ret = rdmamsg__oob_send(c, &ep->connect.oob->local);
	/* the answer is there already: a listener at its limit */
	if (ret == -EPIPE || ret == -ECONNRESET) {
		c->out_done = c->out_len;
		ret = rdmamsg__watch_set(&c->ctx->loop, &c->watch, EPOLLIN);
	}
	if (ret)
		rdmamsg__oob_gone(ep, ret);
}

void rdmamsg__oob_answered(struct oob_conn *c)
{
	struct rdmamsg_ep *ep = c->ep;
	int ret = rdmamsg__try(rdmamsg__oob_take(ep, &c->record));

	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
				   -EPROTO, "%s", rdmamsg__text());
		rdmamsg__ep_kill(ep);
	}
}

int rdmamsg_oob_connect(struct rdmamsg *ctx, const char *host,
			const char *service,
			const struct rdmamsg_ep_options *opts,
			struct rdmamsg_ep **ret_ep)
{
	return rdmamsg__connect(ctx, &rdmamsg__by_record, host, service, opts,
				ret_ep);
}
