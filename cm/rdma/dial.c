/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side: the addresses of a name, one try after the other. */
#include "base/base.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "loop/ctx.h"
#include "onesided/rma.h"
#include "session/connect.h"
#include "session/ep.h"
#include "session/oob.h"
#include "wire/proto.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

/*
 * One attempt. Linux sends three ARP or ND requests a second apart, and then
 * none until it is asked again: a host that comes back later would not be
 * found.
 */
#define RESOLVE_MS	2000
#define BACKOFF_MS	20	/* the first one */
#define BACKOFF_MAX_MS	1000

int rdmamsg__cm_fail(const struct rdmamsg *ctx, int err, const char *what)
{
	if (err == -EACCES &&
	    (geteuid() != ctx->euid || getegid() != ctx->egid))
		return rdmamsg__fail(-EPERM, "%s: the credentials of this "
				     "process changed since rdmamsg_open(), "
				     "and the device serves only those that "
				     "opened it: open the context after "
				     "setuid()", what);
	return rdmamsg__fail_verbs(err, what);
}

/* ---- hello ------------------------------------------------------------ */

/* Needs the resources of the endpoint: its device decides. */
uint32_t rdmamsg__features(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_device *d = ep->lane.dev->device;
	bool inv = d->attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS &&
		   !rdmamsg__window_lack(d);
	bool over = ep->opts.srq && ep->opts.srq->opts.overcommit > 100;

	return PROTO_FEATURE_RMA | (inv ? PROTO_FEATURE_INVALIDATE : 0) |
	       (over ? PROTO_FEATURE_OVERCOMMIT : 0);
}

void rdmamsg__features_take(struct rdmamsg_ep *ep, const struct proto_hello *h)
{
	ep->connect.features = h->features &
		       (rdmamsg__features(ep) | PROTO_FEATURE_OVERCOMMIT);
}

void rdmamsg__hello_fill(struct rdmamsg_ep *ep,
			 uint8_t out[static PROTO_HELLO_MAX], uint8_t *ret_len)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.features = rdmamsg__features(ep),
		.credits = (uint16_t)min(rdmamsg__granted(ep), 0xffffu),
		.data = ep->connect.hello_data,
		.data_len = (uint8_t)ep->opts.hello_data_len,
	};

	*ret_len = (uint8_t)rdmamsg__hello_encode(&h, out);
}

int rdmamsg__hello_check(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	struct proto_hello h;
	int ret = rdmamsg__hello_decode(&h, ev->data,
					ev->conn.private_data_len);

	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
				   -EPROTO, "what answers there does not speak "
				   "rdmamsg");
		return ret;
	}
	ret = rdmamsg__hello_version(&h);
	if (ret < 0) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   ret, "no common protocol version: the peer "
				   "speaks %u to %u, this library %u", h.lowest,
				   h.highest, PROTO_VERSION);
		return ret;
	}
	ep->connect.version = (uint32_t)ret;
	rdmamsg__features_take(ep, &h);
	ep->credit.limit = h.credits;
	ep->connect.hello_ok = true;
	return 0;
}

/* ---- tries ------------------------------------------------------------ */

bool rdmamsg__is_unreachable(int err)
{
	return err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -EHOSTDOWN || err == -ETIMEDOUT;
}

void rdmamsg__dial_failed(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
			  int err)
{
	if (rdmamsg__is_unreachable(err))
		rdmamsg__ep_reason(
			ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_UNREACHABLE,
			-EHOSTUNREACH, "%s: %s",
			ep->connect.host ? ep->connect.host : "the peer",
			rdmamsg__text());
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, cause, err, "%s",
				   rdmamsg__text());
	rdmamsg__ep_kill(ep);
}

int rdmamsg__dial_ms(const struct rdmamsg_ep *ep)
{
	uint64_t now = rdmamsg__now_ms();
	uint64_t left = ep->deadline > now ? ep->deadline - now : 1;

	/* the last address may have all the time there is */
	return (int)(ep->connect.addr->ai_next ? min(left, (uint64_t)RESOLVE_MS)
					       : left);
}

static int bind_source(struct rdmamsg_ep *ep, struct sockaddr_storage *src)
{
	struct addrinfo *ai;
	const char *device =
		ep->connect.device ? ep->connect.device : rdmamsg__env_device();

	if (ep->connect.source) {
		if (rdmamsg__resolve_numeric(ep->connect.source, NULL, 0, &ai))
			return rdmamsg__fail(-EINVAL,
					     "source '%s' is not a "
					     "numeric address",
					     ep->connect.source);
		memcpy(src, ai->ai_addr, ai->ai_addrlen);
		freeaddrinfo(ai);
		if (src->ss_family != ep->connect.addr->ai_family)
			return rdmamsg__fail(-EINVAL, "source '%s' is not of "
					     "the peer's address family",
					     ep->connect.source);
		return 1;
	}
	/* to the soft HCA all addresses of this host are the same */
	if (!device || !strcmp(device, "hw") ||
	    ep->lane.v == &rdmamsg__verbs_soft ||
	    (rdmamsg__soft_below() && !strcmp(device, "soft")))
		return 0;
	return rdmamsg__device_addr(ep->lane.v, device,
				    ep->connect.addr->ai_family, src)
		       ?: 1;
}

/* What was asked for; else a device that leads there, else the soft HCA. */
static void choose(struct rdmamsg_ep *ep)
{
	const char *asked =
		ep->connect.device ? ep->connect.device : rdmamsg__env_device();
	bool soft = ep->connect.or_soft;	/* it is its turn */

	ep->connect.or_soft = false;
	ep->lane.v = rdmamsg__device_table(asked);
	if (ep->lane.v)
		return;
	ep->lane.v = rdmamsg__verbs;
	if (!rdmamsg__addr_is_loopback(ep->connect.addr->ai_addr))
		return;
	if (soft ||
	    rdmamsg__try(rdmamsg__device_any(rdmamsg__verbs)) == -ENODEV)
		ep->lane.v = &rdmamsg__verbs_soft;
	else
		ep->connect.or_soft = true;
}

/* One address: id, options, address resolution. */
static int dial_addr(struct rdmamsg_ep *ep)
{
	const struct verbs_api *v;
	struct sockaddr_storage src = { 0 };
	uint8_t tos = (uint8_t)ep->opts.tos;
	int ret, bound;

	choose(ep);
	v = ep->lane.v;
	/* first: it knows best what is wrong with a device of that name */
	bound = bind_source(ep, &src);
	if (bound < 0)
		return bound;
	ret = rdmamsg__cm_id_new(ep->ctx, v, &ep->connect.owner,
				 &ep->connect.id);
	if (ret)
		return ret;
	if (ep->opts.tos != RDMAMSG_NONE) {
		ret = rdmamsg__v_set_option(v, ep->connect.id, RDMA_OPTION_ID,
					    RDMA_OPTION_ID_TOS, &tos,
					    sizeof(tos));
		if (ret)
			return rdmamsg__cm_fail(ep->ctx, ret,
						"type of service");
	}
	memcpy(&ep->connect.peer_addr, ep->connect.addr->ai_addr,
	       ep->connect.addr->ai_addrlen);
	ep->state = EP_RESOLVING;
	ret = rdmamsg__v_resolve_addr(v, ep->connect.id, bound ?
				      (struct sockaddr *)&src : NULL,
				      ep->connect.addr->ai_addr,
				      min(rdmamsg__dial_ms(ep), RESOLVE_MS));
	if (ret)
		return rdmamsg__cm_fail(ep->ctx, ret,
					ep->connect.source &&
							ret == -EADDRNOTAVAIL
						? "source"
						: "address");
	return 0;
}

static void drop_try(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_resources_free(ep);
	if (ep->connect.id)
		rdmamsg__cm_id_free(ep->lane.v, ep->connect.id);
	ep->connect.id = NULL;
	ep->hot.sq_posted = ep->lane.sq.done = 0;
	ep->st.sent_inline = 0;
}

/* The receives of a try that came to nothing. */
static void drop_receives(struct rdmamsg_ep *ep)
{
	if (!ep->hot.qp)
		return;
	rdmamsg__qp_destroy(ep);
	rdmamsg__rx_discard(ep);
}

/* From connect.addr on, the first that can be tried; the error of the last. */
static int try_addrs(struct rdmamsg_ep *ep)
{
	for (;;) {
		int ret = rdmamsg__try(dial_addr(ep));

		if (!ret)
			return 0;
		drop_try(ep);
		if (ep->connect.or_soft)
			continue;
		if (!ep->connect.addr->ai_next)
			return rdmamsg__fail_again(ret);
		log_info("ep %p: %s; trying the next address", (void *)ep,
			 rdmamsg__text());
		ep->connect.addr = ep->connect.addr->ai_next;
	}
}

/* This address did not do: the next one, or the end with what is noted. */
void rdmamsg__dial_next(struct rdmamsg_ep *ep)
{
	int ret;

	drop_receives(ep);
	drop_try(ep);
	if (!ep->connect.addr ||
	    (!ep->connect.addr->ai_next && !ep->connect.or_soft)) {
		rdmamsg__ep_kill(ep);
		return;
	}
	log_info("ep %p: %s; trying the %s", (void *)ep, ep->close.reason.text,
		 ep->connect.or_soft ? "soft HCA" : "next address");
	if (!ep->connect.or_soft)
		ep->connect.addr = ep->connect.addr->ai_next;
	rdmamsg__ep_reason_forget(ep);
	ret = rdmamsg__try(try_addrs(ep));
	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_ADDRESS, ret);
}

void rdmamsg__resolved(struct rdmamsg_ep *ep, int gai, struct addrinfo *addrs)
{
	int ret;

	if (gai) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
				   -EADDRNOTAVAIL, "cannot resolve %s port %s: "
				   "%s", ep->connect.host, ep->connect.service,
				   gai_strerror(gai));
		rdmamsg__ep_kill(ep);
		return;
	}
	ep->connect.addrs = ep->connect.addr = addrs;
	if (ep->connect.oob) {
		rdmamsg__oob_resolved(ep);
		return;
	}
	ret = rdmamsg__try(try_addrs(ep));
	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_ADDRESS, ret);
}

void rdmamsg__dial_stop(struct rdmamsg_ep *ep)
{
	rdmamsg__oob_stop(ep);
	if (ep->connect.resolve)
		rdmamsg__resolve_abandon(ep->connect.resolve);
	ep->connect.resolve = NULL;
	if (ep->connect.addrs)
		freeaddrinfo(ep->connect.addrs);
	ep->connect.addrs = ep->connect.addr = NULL;
}

void rdmamsg__dial_again(struct rdmamsg_ep *ep)
{
	int ret;

	rdmamsg__ep_timeout(ep);
	ret = rdmamsg__try(ep->connect.oob ? rdmamsg__oob_dial_again(ep) :
			   dial_addr(ep));
	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, ret);
}

/* Jitter keeps many clients of one server apart. None waits past its deadline.
 */
static void back_off(struct rdmamsg_ep *ep, const char *why)
{
	uint64_t now = rdmamsg__now_ms();
	uint32_t random = 0, ms;

	rdmamsg__oob_stop(ep);
	drop_receives(ep);
	drop_try(ep);
	ep->connect.backoff_ms = ep->connect.backoff_ms
					 ? min(2 * ep->connect.backoff_ms,
					       (uint32_t)BACKOFF_MAX_MS)
					 : BACKOFF_MS;
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	ms = ep->connect.backoff_ms / 2 + random % (ep->connect.backoff_ms + 1);
	ms = (uint32_t)min(ms, ep->deadline > now ? ep->deadline - now : 1);
	log_info("ep %p: %s; again in %u ms", (void *)ep, why, ms);
	ep->state = EP_BACKOFF;
	rdmamsg__timer_set(&ep->ctx->timers, &ep->timer, ms);
}

/*
 * Stale: the peer's device still has a connection of our queue pair number from
 * before a crash or reboot, and another queue pair will do.
 */
void rdmamsg__dial_back_off(struct rdmamsg_ep *ep, uint32_t limit)
{
	char why[80] = "rejected, the peer has a stale connection";

	if (limit)
		snprintf(why, sizeof(why), "rejected, the peer limits %s",
			 rdmamsg__limit_text(limit));
	ep->connect.limit = limit;
	ep->connect.unanswered = false;
	back_off(ep, why);
}

bool rdmamsg__dial_unanswered(struct rdmamsg_ep *ep)
{
	if (ep->connect.addr->ai_next || ep->connect.or_soft ||
	    rdmamsg__now_ms() >= ep->deadline)
		return false;
	ep->connect.limit = PROTO_LIMIT_NONE;
	ep->connect.unanswered = true;
	back_off(ep, "no answer to address resolution");
	return true;
}

/*
 * Where nobody listens, and where no way leads, is for on_closed to tell, even
 * if it is known at once: it has the cause.
 */
static int dial_now(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__try(ep->connect.oob ? rdmamsg__oob_dial(ep)
					       : try_addrs(ep));

	if (ep->connect.oob && rdmamsg__oob_unanswered(ep, ret))
		return 0;
	if (!ep->connect.oob && rdmamsg__is_unreachable(ret)) {
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_UNREACHABLE, ret);
		return 0;
	}
	return rdmamsg__fail_again(ret);
}

static int dial_start(struct rdmamsg_ep *ep)
{
	struct addrinfo *addrs;
	int gai = rdmamsg__resolve_numeric(ep->connect.host,
					   ep->connect.service, 0, &addrs);

	if (!gai) {
		ep->connect.addrs = ep->connect.addr = addrs;
		return dial_now(ep);
	}
	if (gai == EAI_SERVICE)
		return rdmamsg__fail_service(ep->connect.service);
	if (gai != EAI_NONAME)
		return rdmamsg__fail(-EINVAL, "%s port %s: %s",
				     ep->connect.host, ep->connect.service,
				     gai_strerror(gai));
	return rdmamsg__resolve_start(ep, &ep->connect.resolve);
}

/* Not yet on its way. */
static int dial_new(struct rdmamsg *ctx, const char *host, const char *service,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!host || !service)
		return rdmamsg__fail(-EINVAL, "the %s to connect to is NULL",
				     host ? "service" : "host");
	if (!*host)
		return rdmamsg__fail(-EINVAL, "the host to connect to is \"\": "
				     "give a name or an address");
	if (ctx->closing)
		return rdmamsg__fail(-ESHUTDOWN, "the context is being closed");
	ret = rdmamsg__ep_new(ctx, opts, &ep);
	if (ret)
		return ret;
	ep->connect.host = strdup(host);
	ep->connect.service = strdup(service);
	if (!ep->connect.host || !ep->connect.service)
		ret = rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg__connect(struct rdmamsg *ctx, const char *host, const char *service,
		     const struct rdmamsg_ep_options *opts,
		     int (*init)(struct rdmamsg_ep *ep),
		     struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = dial_new(ctx, host, service, opts, &ep);

	if (ret)
		return ret;
	ret = init(ep);
	if (!ret)
		ret = dial_start(ep);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg__fail_path(void)
{
	return rdmamsg__fail(-EINVAL, "path: the connection manager finds the "
			     "path; it is for rdmamsg_oob_connect(3) and its "
			     "like");
}

static int without_path(struct rdmamsg_ep *ep)
{
	return ep->opts.path ? rdmamsg__fail_path() : 0;
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_connect(struct rdmamsg *ctx, const char *host, const char *service,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret_ep)
{
	return rdmamsg__connect(ctx, host, service, opts, without_path, ret_ep);
}
