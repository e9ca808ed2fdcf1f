/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side: resolves the host, dials, backs off and gives up. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "lane/qp.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "session/recv.h"
#include "session/sessions.h"
#include "session/tx.h"
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

#include <rdmamsg/rdmamsg.h>

#define BACKOFF_MS	20	/* first back-off */
#define BACKOFF_MAX_MS	1000

bool rdmamsg__is_unreachable(int err)
{
	return err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -EHOSTDOWN || err == -ETIMEDOUT;
}

void rdmamsg__drop_try(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_resources_free(ep);
	ep->connect.by->release(ep);
	ep->lane.hot.sq_posted = ep->lane.sq.done = 0;
	ep->st.sent_inline = 0;
}

/* Frees the queue pair and the receives of a failed try. */
void rdmamsg__drop_receives(struct rdmamsg_ep *ep)
{
	if (!ep->lane.hot.qp)
		return;
	rdmamsg__lane_destroy_qp(&ep->lane);
	rdmamsg__rx_discard(ep);
}

void rdmamsg__resolved(struct rdmamsg_ep *ep, int gai, struct addrinfo *addrs)
{
	/* The endpoint is ending, so do not dial. */
	if (ep->close.failing) {
		if (addrs)
			freeaddrinfo(addrs);
		return;
	}
	if (gai > 0) {
		char what[128];

		snprintf(what, sizeof(what), "cannot resolve %s",
			 ep->connect.host);
		gai = rdmamsg__try(rdmamsg__fail_verbs(-gai, what));
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_RESOURCES, gai, "%s",
				   rdmamsg__text());
		rdmamsg__ep_kill(ep);
		return;
	}
	if (gai) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
				   -EADDRNOTAVAIL, "cannot resolve %s port %s: "
				   "%s", ep->connect.host, ep->connect.service,
				   gai_strerror(gai));
		rdmamsg__ep_kill(ep);
		return;
	}
	ep->connect.addrs = ep->connect.addr = addrs;
	ep->connect.by->resolved(ep);
}

void rdmamsg__dial_stop(struct rdmamsg_ep *ep)
{
	ep->connect.by->stop(ep);
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
	ret = rdmamsg__try(ep->connect.by->redial(ep));
	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, ret);
}

/*
 * Random jitter spreads the retries of many clients. The wait ends at
 * ep->deadline at the latest.
 */
static void back_off(struct rdmamsg_ep *ep, const char *why)
{
	uint64_t now = rdmamsg__now_ms();
	uint32_t random = 0, ms;

	ep->connect.by->stop(ep);
	rdmamsg__drop_receives(ep);
	rdmamsg__drop_try(ep);
	ms = ep->connect.backoff_ms;
	ms = ms ? min(2 * ms, (uint32_t)BACKOFF_MAX_MS) : BACKOFF_MS;
	ep->connect.backoff_ms = ms;
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	ms = ms / 2 + random % (ms + 1);
	ms = (uint32_t)min(ms, ep->deadline > now ? ep->deadline - now : 1);
	ep_info(ep, "%s; again in %u ms", why, ms);
	probe(connect_again, ep, why, (uint64_t)ms);
	ep->ctx->sessions->st.connects_repeated += !ep->connect.carrier;
	rdmamsg__ep_enter(ep, EP_BACKOFF);
	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer, ms);
}

/*
 * A peer that starts later, its successor, or a network that recovers, answers
 * otherwise.
 */
static bool may_change(const struct rdmamsg_ep *ep)
{
	return (ep->opts.flags & RDMAMSG_EP_RETRY) && !ep->connect.passive &&
	       ep->connect.addrs &&
	       (ep->close.reason.cause == RDMAMSG_CAUSE_REFUSED ||
		ep->close.reason.cause == RDMAMSG_CAUSE_UNREACHABLE ||
		ep->connect.limit == PROTO_LIMIT_DRAINING);
}

/* Keeps the reason until the time is over. */
static bool keep_reason(struct rdmamsg_ep *ep)
{
	if (!ep->connect.tries)
		ep->connect.tries = calloc(1, sizeof(*ep->connect.tries));
	if (!ep->connect.tries)
		return false;
	ep->connect.tries->count++;
	ep->connect.tries->met[ep->close.reason.cause]++;
	ep->connect.tries->last = ep->close.reason;
	return true;
}

/* Returns false if the time is over, or there is no memory. */
static bool try_later(struct rdmamsg_ep *ep)
{
	if (!keep_reason(ep))
		return false;
	if (rdmamsg__now_ms() >= ep->deadline) {
		rdmamsg__ep_tried(ep);
		return false;
	}
	rdmamsg__ep_reason_forget(ep);
	ep->connect.addr = ep->connect.addrs;
	ep->connect.all_soft = ep->connect.led = false;
	ep->connect.limit = PROTO_LIMIT_NONE;
	ep->connect.unanswered = false;
	back_off(ep, ep->connect.tries->last.text);
	return true;
}

void rdmamsg__dial_end(struct rdmamsg_ep *ep)
{
	if (!may_change(ep) || !try_later(ep))
		rdmamsg__ep_kill(ep);
}

bool rdmamsg__dial_refused(struct rdmamsg_ep *ep)
{
	/* before its receives, which the device may still write */
	rdmamsg__lane_destroy_qp(&ep->lane);
	rdmamsg__tx_cancel(ep, -ECANCELED);
	rdmamsg__rx_discard(ep);
	if (!try_later(ep))
		return false;
	rdmamsg__ep_anew(ep);
	return true;
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
	rdmamsg__dial_end(ep);
}

/*
 * If limit is 0, the connection is stale: the peer's device still has a
 * connection of our queue pair number from before a crash or reboot. Another
 * queue pair number works.
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

int rdmamsg__dial_start(struct rdmamsg_ep *ep)
{
	struct addrinfo *addrs;
	int gai = rdmamsg__resolve_numeric(ep->connect.host,
					   ep->connect.service, 0, &addrs);

	if (!gai) {
		ep->connect.addrs = ep->connect.addr = addrs;
		return ep->connect.by->dial(ep);
	}
	if (gai == EAI_SERVICE)
		return rdmamsg__fail_service(ep->connect.service);
	if (gai != EAI_NONAME)
		return rdmamsg__fail(-EINVAL, "%s port %s: %s",
				     ep->connect.host, ep->connect.service,
				     gai_strerror(gai));
	return rdmamsg__resolve_start(ep, &ep->connect.resolve);
}

static bool is_port_0(const char *service)
{
	char *end;

	return *service && !strtol(service, &end, 10) && !*end;
}

int rdmamsg__dial_new(struct rdmamsg *ctx, const struct connector *by,
		      const char *host, const char *service,
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
	if (is_port_0(service))
		return rdmamsg__fail(-EINVAL, "the port to connect to is 0: "
				     "nobody can listen there, give the port "
				     "that the listener has got");
	ret = rdmamsg__ep_new(ctx, by, opts, &ep);
	if (ret)
		return ret;
	ep->connect.host = strdup(host);
	ep->connect.service = strdup(service);
	if (!ep->connect.host || !ep->connect.service)
		ret = rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg__connect(struct rdmamsg *ctx, const struct connector *by,
		     const char *host, const char *service,
		     const struct rdmamsg_ep_options *opts,
		     struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__ctx_check(ctx);

	/* lanes of failover do not come this way, and go on */
	if (!ret)
		ret = rdmamsg__ctx_takes(ctx);
	if (!ret)
		ret = rdmamsg__dial_new(ctx, by, host, service, opts, &ep);
	if (ret)
		return ret;
	ep->connect.inner = ctx->shutdown.inner;
	probe(connect, ep, host, service);
	ret = by->init(ep);
	if (!ret)
		ret = rdmamsg__dial_start(ep);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}
