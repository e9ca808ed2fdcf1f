/* SPDX-License-Identifier: BSD-2-Clause */
/* The dump: a context and its objects in lines of text. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "cm/connect.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/credit.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recorder.h"
#include "session/sessions.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

struct dump {
	void (*line)(void *arg, const char *text);
	void *arg;
};

static void __attribute__((format(printf, 2, 3)))
say(const struct dump *d, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->line(d->arg, text);
}

static void dump_budget(const struct dump *d, const char *what,
			const struct budget *b)
{
	say(d, "  memory for %s: %zu of %zu bytes, %zu of them spare", what,
	    b->used, b->cap, b->spare);
}

static void dump_pools(const struct dump *d, const char *what,
		       const struct list *pools)
{
	struct list *n;

	list_for_each(n, pools) {
		struct pool *p = list_entry(n, struct pool, node);

		say(d, "  %s pool of %zu bytes: %u of %u in use", what,
		    p->buf_size, p->used, p->total);
	}
}

static void dump_dev(const struct dump *d, const struct dev *dev)
{
	struct list *n;

	if (!dev->device) {
		say(d, "device closed, %u messages still out", dev->msgs_out);
		return;
	}
	say(d, "device %s (%s)%s: %u endpoints, %u messages out",
	    dev->device->name, rdmamsg__kind_name(dev->device->kind),
	    dev->device->gone ? ", removed" : "", dev->eps, dev->msgs_out);
	if (dev->owner)
		say(d, "  in protection domain %p", (void *)dev->owner);
	if (dev->single)
		say(d, "  in the protection domain of a guarded endpoint");
	list_for_each(n, &dev->cqs) {
		struct cq *cq = list_entry(n, struct cq, node);

		say(d, "  completion queue: %u of %u entries promised",
		    cq->used, cq->room);
	}
	dump_pools(d, "receive", &dev->recv_pools);
	dump_pools(d, "send", &dev->send_pools);
}

static void dump_ep(const struct dump *d, const struct rdmamsg_ep *ep)
{
	struct rdmamsg_counters s = { .size = sizeof(s) };
	char local[96], peer[96];

	rdmamsg__ep_stats_add(&s, ep);
	say(d, "endpoint %p %s (%s): %s -> %s on %s, qp 0x%x",
	    (const void *)ep, rdmamsg_state_name(rdmamsg_ep_state(ep)),
	    rdmamsg__ep_state_name(ep->state),
	    rdmamsg__addr_text(&ep->connect.local_addr, local, sizeof(local)),
	    rdmamsg__addr_text(&ep->connect.peer_addr, peer, sizeof(peer)),
	    rdmamsg_ep_device_name(ep),
	    ep->lane.hot.qp ? ep->lane.hot.qp->qp_num : 0);
	say(d, "  send queue %u of %u, queued %u, credits %d, rendezvous out "
	    "%u, control due 0x%x", rdmamsg__sq_used(&ep->lane), ep->lane.sq.total,
	    ep->send.queued, (int)(ep->credit.limit - rdmamsg__tx_number(ep)),
	    ep->rndv.count, ep->ctrl.due);
	say(d, "  receives posted %u of %u, next message %u, granted up to %u "
	    "(announced %u)%s", rdmamsg__rq_posted(&ep->lane), ep->lane.rq.target,
	    ep->recv.next, rdmamsg__granted(ep), ep->credit.announced,
	    list_empty(&ep->starving.node) ? "" : ", waits for buffers");
	say(d, "  messages of the peer: %zu bytes read or lent, %u waiting, %u "
	    "rendezvous to fetch", ep->rndv.lent->bytes, ep->rndv.waiting.count,
	    ep->rndv.fetch_count);
	say(d, "  sent %llu messages %llu bytes, received %llu messages %llu "
	    "bytes, refused %llu, keepalives %llu, pings %llu",
	    (unsigned long long)s.msgs_sent, (unsigned long long)s.bytes_sent,
	    (unsigned long long)s.msgs_received,
	    (unsigned long long)s.bytes_received,
	    (unsigned long long)s.sends_refused,
	    (unsigned long long)s.keepalives, (unsigned long long)s.pings);
	if (ep->close.reason_set)
		say(d, "  ends because (%s, %s): %s",
		    rdmamsg_who_name(ep->close.reason.who),
		    rdmamsg_cause_name(ep->close.reason.cause),
		    ep->close.reason.text);
	if (!ep->recorder)
		return;
	say(d, "  history, seconds since the endpoint was made:");
	rdmamsg__recorder_print(ep->recorder, d->line, d->arg);
}

static void dump_listener(const struct dump *d,
			  const struct rdmamsg_listener *l)
{
	struct rdmamsg_listener_counters s;

	rdmamsg__door_stats(l->door, &s);
	say(d, "listener %p: port %u%s: %llu requests, %llu half-open, %llu "
	    "endpoints, %llu accepted", (const void *)l,
	    rdmamsg_listener_port(l), l->dead ? ", dead" : l->draining ? ", draining" : "",
	    (unsigned long long)s.requests, (unsigned long long)s.half_open,
	    (unsigned long long)s.endpoints, (unsigned long long)s.accepted);
	say(d, "  rejected by max_requests %llu, max_half_open %llu, "
	    "max_endpoints %llu, max_per_source %llu, for memory %llu, after "
	    "an offence %llu, without the key %llu",
	    (unsigned long long)s.rejected_requests,
	    (unsigned long long)s.rejected_half_open,
	    (unsigned long long)s.rejected_endpoints,
	    (unsigned long long)s.rejected_source,
	    (unsigned long long)s.rejected_memory,
	    (unsigned long long)s.slowed,
	    (unsigned long long)s.unproven);
}

void rdmamsg_dump(const struct rdmamsg *ctx,
		  void (*line)(void *arg, const char *text), void *arg)
{
	struct dump d = { line, arg };
	struct list *n;

	if (rdmamsg__ctx_check(ctx) || !line)
		return;
	say(&d, "rdmamsg %s, context %p: %d endpoints", rdmamsg_version(),
	    (const void *)ctx, ctx->sessions->ep_count);
	dump_budget(&d, "receiving", &ctx->memory->budget[DIR_IN]);
	dump_budget(&d, "sending", &ctx->memory->budget[DIR_OUT]);
	list_for_each(n, &ctx->devices->devs)
		dump_dev(&d, list_entry(n, struct dev, node));
	list_for_each(n, &ctx->sessions->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, node);

		dump_listener(&d, l);
	}
	list_for_each(n, &ctx->sessions->eps)
		dump_ep(&d, list_entry(n, struct rdmamsg_ep, node));
}
