/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics, negotiated values, and the dump. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "cm/connect.h"
#include "session/door.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

int rdmamsg_ep_stats(const struct rdmamsg_ep *ep,
		     struct rdmamsg_counters *stats)
{
	struct rdmamsg_counters s = { .size = sizeof(s) };
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	rdmamsg__ep_stats_add(&s, ep);
	return rdmamsg__give(stats, &s, sizeof(s));
}

int rdmamsg_stats(const struct rdmamsg *ctx, struct rdmamsg_counters *stats)
{
	struct rdmamsg_counters s;
	struct list *n;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	s = ctx->sessions->st;
	list_for_each(n, &ctx->sessions->eps)
		rdmamsg__ep_stats_add(&s,
				      list_entry(n, struct rdmamsg_ep, node));
	list_for_each(n, &ctx->devices->devs)
		s.msgs_lent += list_entry(n, struct dev, node)->msgs_out;
	s.endpoints = (uint64_t)ctx->sessions->ep_count;
	s.bytes_registered = rdmamsg__registered(ctx);
	return rdmamsg__give(stats, &s, sizeof(s));
}

/*
 * Sets the memory that an idle endpoint uses, without the device's own memory.
 */
static void memory(const struct rdmamsg_ep *ep, struct rdmamsg_ep_attr *i)
{
	i->bytes_private = (sizeof(*ep) + 4095) / 4096 * 4096;
	if (!ep->lane.dev)
		return;
	i->bytes_pinned = (uint64_t)rdmamsg__rq_posted(&ep->lane) *
			  ep->lane.recv_pool->buf_size;
	i->bytes_private +=
		(ep->lane.sq.mask + 1) * sizeof(*ep->lane.sq.slots) +
		ep->lane.rq.target * (sizeof(*ep->lane.rq.slots) +
				      sizeof(struct rdmamsg_msg)) +
		ep->send.op_count * sizeof(struct op);
}

int rdmamsg_ep_query(const struct rdmamsg_ep *ep, struct rdmamsg_ep_attr *info)
{
	struct rdmamsg_ep_attr i = { .size = sizeof(i) };
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	i.local = ep->connect.local_addr;
	i.peer = ep->connect.peer_addr;
	snprintf(i.device, sizeof(i.device), "%s", rdmamsg_ep_device_name(ep));
	i.port = ep->lane.port;
	i.qp_num = ep->lane.hot.qp ? ep->lane.hot.qp->qp_num : 0;
	i.peer_qp_num = ep->lane.peer_qp_num;
	i.mtu = ep->lane.mtu;
	memcpy(i.gid, ep->lane.gid.raw, sizeof(i.gid));
	i.inline_max = ep->send.can_inline ? ep->send.inline_max : 0;
	i.eager_max = ep->send.copy_max;
	i.pieces_max = ep->send.pieces_max;
	i.crc = ep->send.crc;
	i.max_send = ep->connect.peer.max_msg;
	i.max_receive = ep->rndv.announced_max ? ep->rndv.announced_max :
			ep->opts.max_msg_size;
	i.send_credits = ep->credit.limit - rdmamsg__tx_number(ep);
	i.send_depth = ep->opts.send_depth;
	i.recv_depth = ep->opts.recv_depth;
	i.responder_resources = ep->lane.resp_res;
	i.initiator_depth = ep->lane.init_depth;
	i.max_inline_data = ep->lane.cap.max_inline_data;
	i.max_send_sge = ep->lane.cap.max_send_sge;
	i.max_recv_sge = ep->lane.cap.max_recv_sge;
	if (ep->lane.cq) {
		i.cq_entries = (uint32_t)ep->lane.cq->ibv->cqe;
		i.comp_vector = ep->lane.cq->vector;
	}
	i.version = ep->connect.version;
	i.one_sided = ep->connect.features & PROTO_FEATURE_RMA ? 1 : 0;
	i.send_invalidate =
		ep->connect.features & PROTO_FEATURE_INVALIDATE ? 1 : 0;
	if (ep->lane.dev && ep->lane.dev->device) {
		i.atomic_scope = rdmamsg__atomic_scope(ep->lane.dev->device);
		i.guard = ep->lane.dev->single ? RDMAMSG_GUARD_DOMAIN :
					    RDMAMSG_GUARD_ADDRESS;
	}
	memcpy(i.session, ep->connect.session, sizeof(i.session));
	memory(ep, &i);
	return rdmamsg__give(info, &i, sizeof(i));
}

struct ibv_qp *rdmamsg_ep_qp(const struct rdmamsg_ep *ep)
{
	return ep->lane.hot.qp;
}

struct ibv_pd *rdmamsg_ep_pd(const struct rdmamsg_ep *ep)
{
	return ep->lane.dev && ep->lane.dev->device ? ep->lane.dev->pd : NULL;
}

/* ---- dump ------------------------------------------------------------- */

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
