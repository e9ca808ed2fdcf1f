/* SPDX-License-Identifier: BSD-2-Clause */
/* The dump: a context and its objects in lines of text. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "cm/connect.h"
#include "cm/shared_port.h"
#include "dc/dc.h"
#include "device/codes.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "group/carrier.h"
#include "group/group.h"
#include "lane/lanes.h"
#include "lane/srq.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "memory/stretch.h"
#include "qp/rawqp.h"
#include "session/credit.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recorder.h"
#include "session/sessions.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

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

/* ---- ports ------------------------------------------------------------ */

/* Users of a port. */
struct port_use {
	uint32_t eps, qps, groups;
};

static uint32_t group_count(const struct carrier *c)
{
	uint32_t count = 0;
	struct list *n;

	list_for_each(n, &c->groups)
		count++;
	return count;
}

static struct port_use port_use(const struct dev *dev, uint8_t port)
{
	const struct rdmamsg *ctx = dev->ctx;
	struct port_use u = { 0 };
	struct list *n;

	list_for_each(n, &ctx->sessions->eps) {
		const struct rdmamsg_ep *ep =
			list_entry(n, struct rdmamsg_ep, node);

		u.eps += ep->lane.dev == dev && ep->lane.port == port;
	}
	list_for_each(n, &ctx->qps) {
		const struct rdmamsg_qp *q =
			list_entry(n, struct rdmamsg_qp, node);

		u.qps += q->dev == dev && q->oob.port == port;
	}
	list_for_each(n, &ctx->groups->carriers) {
		const struct carrier *c = list_entry(n, struct carrier, node);

		if (c->dev == dev && c->port == port)
			u.groups += group_count(c);
	}
	return u;
}

/* Asks the device, because the state of a port changes at any time. */
static void dump_port(const struct dump *d, const struct dev *dev, uint8_t port)
{
	const struct port_use u = port_use(dev, port);
	struct ibv_port_attr a;
	int ret;

	if (!u.eps && !u.qps && !u.groups)
		return;
	ret = rdmamsg__v_query_port(dev->device->v, dev->device->verbs, port,
				    &a);
	if (ret) {
		say(d, "  port %u: %s: %u endpoints, %u queue pairs, %u "
		    "groups", port, strerror(-ret), u.eps, u.qps, u.groups);
		return;
	}
	say(d,
	    "  port %u: %s, %s, MTU %u, %u Mb/s: %u endpoints, %u queue "
	    "pairs, %u groups",
	    port, rdmamsg_name(RDMAMSG_NAME_PORT_STATE, a.state),
	    rdmamsg_name(RDMAMSG_NAME_LINK_LAYER, a.link_layer),
	    RDMAMSG_MTU_BYTES(a.active_mtu),
	    rdmamsg__link_mbps(a.active_width, a.active_speed), u.eps, u.qps,
	    u.groups);
}

/* ---- objects ---------------------------------------------------------- */

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
	for (unsigned int p = 1; p <= dev->device->attr.phys_port_cnt; p++)
		dump_port(d, dev, (uint8_t)p);
	list_for_each(n, &dev->cqs) {
		struct cq *cq = list_entry(n, struct cq, node);

		say(d, "  completion queue: %u of %u entries promised",
		    cq->used, cq->room);
	}
	dump_pools(d, "receive", &dev->recv_pools);
	dump_pools(d, "send", &dev->send_pools);
}

static void dump_pool(const struct dump *d, const struct rdmamsg_pool *pool)
{
	struct rdmamsg_pool_stats s = { .size = sizeof(s) };
	char limit[40] = ", no limit";

	(void)rdmamsg_pool_get_stats(pool, &s);
	if (pool->opts.max_bytes != SIZE_MAX)
		snprintf(limit, sizeof(limit), " of at most %zu",
			 pool->opts.max_bytes);
	say(d, "pool %u (%p): %llu of %llu buffers in use, %llu bytes "
	    "registered%s, refused %llu", pool->object, (const void *)pool,
	    (unsigned long long)s.used, (unsigned long long)s.buffers,
	    (unsigned long long)s.bytes, limit, (unsigned long long)s.refused);
}

static void dump_srq(const struct dump *d, const struct rdmamsg_srq *srq)
{
	struct rdmamsg_srq_stats s = { .size = sizeof(s) };
	struct list *n;

	(void)rdmamsg_srq_get_stats(srq, &s);
	say(d, "shared receive queue %u (%p): %llu endpoints, %llu posted, "
	    "%llu promised, %llu spare, ran empty %llu, refused %llu",
	    srq->object, (const void *)srq, (unsigned long long)s.endpoints,
	    (unsigned long long)s.posted, (unsigned long long)s.promised,
	    (unsigned long long)s.spare, (unsigned long long)s.ran_empty,
	    (unsigned long long)s.refused);
	list_for_each(n, &srq->parts) {
		const struct srq *q = list_entry(n, struct srq, node);

		say(d, "  on %s: %u of %u receives posted%s",
		    q->dev->device ? q->dev->device->name : "a closed device",
		    q->posted, q->depth, q->failed ? ", failed" : "");
	}
}

static void dump_region(const struct dump *d,
			const struct rdmamsg_region *region)
{
	const uint32_t a = region->access;
	uint32_t devices = 0;
	struct list *n;

	list_for_each(n, &region->mrs)
		devices++;
	say(d, "region %llu (%p): %zu bytes %s %p, access%s%s%s%s%s%s, "
	    "registered with %u devices, %u users%s",
	    (unsigned long long)region->id, (const void *)region, region->len,
	    region->addr ? "at" : "of a dmabuf or layout",
	    (const void *)region->addr,
	    a & RDMAMSG_ACCESS_READ ? " read" : "",
	    a & RDMAMSG_ACCESS_WRITE ? " write" : "",
	    a & RDMAMSG_ACCESS_ATOMIC ? " atomic" : "",
	    a & RDMAMSG_ACCESS_LOCAL_WRITE ? " local-write" : "",
	    a & RDMAMSG_ACCESS_WINDOW ? " window" : "", a ? "" : " none",
	    devices, region->busy, region->cached ? ", of a cache" : "");
}

static const char *qp_state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT",
		[IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS",
		[IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] :
							  "unknown";
}

static void dump_qp(const struct dump *d, const struct rdmamsg_qp *q)
{
	struct rdmamsg_qp_attr a = { .size = sizeof(a) };

	if (rdmamsg_qp_query(q, &a))
		return;
	say(d, "queue pair %p: qp 0x%x %s %s on %s port %u, peer qp 0x%x",
	    (const void *)q, a.qp_num,
	    rdmamsg_name(RDMAMSG_NAME_QP_TYPE, a.type), qp_state_name(a.state),
	    a.device, a.port, a.peer_qp_num);
	say(d, "  requests: %u sends, %u receives%s; completion queue entries: "
	    "%u for sends, %u for receives%s", a.max_send, a.max_recv,
	    q->opts.srq ? " and those of an ibv_srq" : "", a.send_cq_entries,
	    a.recv_cq_entries, q->send_cq == q->recv_cq ? ", one queue" : "");
}

static const char *group_state_name(enum group_state state)
{
	static const char *const names[] = {
		[GROUP_WAITING] = "waiting for the device",
		[GROUP_JOINING] = "joining", [GROUP_JOINED] = "joined",
		[GROUP_LOST] = "lost", [GROUP_LEAVING] = "leaving",
		[GROUP_ENDED] = "ended",
	};

	return names[state];
}

static void dump_group(const struct dump *d, const struct rdmamsg_group *g)
{
	struct rdmamsg_group_stats s = { .size = sizeof(s) };
	const struct carrier *c = g->carrier;
	char address[INET6_ADDRSTRLEN];

	(void)rdmamsg_group_get_stats(g, &s);
	rdmamsg__group_text(g, address);
	say(d, "group %u (%p): %s, %s on %s port %u, qp 0x%x, %u senders",
	    g->object, (const void *)g, address, group_state_name(g->state),
	    c && c->dev && c->dev->device ? c->dev->device->name : "no device",
	    c ? c->port : 0, c && c->qp ? c->qp->qp_num : 0, g->member_count);
	say(d, "  sent %llu messages %llu bytes, received %llu messages %llu "
	    "bytes, lost %llu in %llu gaps, refused %llu, joins %llu",
	    (unsigned long long)s.sent_messages,
	    (unsigned long long)s.sent_bytes,
	    (unsigned long long)s.received_messages,
	    (unsigned long long)s.received_bytes,
	    (unsigned long long)s.lost_messages, (unsigned long long)s.gaps,
	    (unsigned long long)s.refused, (unsigned long long)s.joins);
}

static void dump_ep(const struct dump *d, const struct rdmamsg_ep *ep)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };
	char local[96], peer[96], session[SESSION_TEXT];

	rdmamsg__ep_stats_add(&s, ep);
	say(d, "endpoint %p %s (%s): %s -> %s on %s, qp 0x%x%s",
	    (const void *)ep,
	    rdmamsg_name(RDMAMSG_NAME_STATE, rdmamsg_ep_state(ep)),
	    rdmamsg__ep_state_name(ep->state),
	    rdmamsg__addr_text(&ep->connect.local_addr.any, local, sizeof(local)),
	    rdmamsg__addr_text(&ep->connect.peer_addr.any, peer, sizeof(peer)),
	    rdmamsg_ep_device_name(ep),
	    ep->lane.hot.qp ? ep->lane.hot.qp->qp_num : 0,
	    rdmamsg__ep_session(ep, session));
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
		    rdmamsg_name(RDMAMSG_NAME_WHO, ep->close.reason.who),
		    rdmamsg_name(RDMAMSG_NAME_CAUSE, ep->close.reason.cause),
		    ep->close.reason.text);
	if (!ep->recorder)
		return;
	say(d, "  history, seconds since the endpoint was made:");
	rdmamsg__recorder_print(ep->recorder, d->line, d->arg);
}

static void dump_listener(const struct dump *d,
			  const struct rdmamsg_listener *l)
{
	const uint32_t members = rdmamsg__shared_port_members(l);
	struct rdmamsg_listener_stats s;
	char shared[40] = "";

	if (members)
		snprintf(shared, sizeof(shared), ", shared by %u listeners",
			 members);
	rdmamsg__door_stats(l->door, &s);
	say(d, "listener %p: port %u%s%s: %llu requests, %llu half-open, %llu "
	    "endpoints, %llu accepted", (const void *)l,
	    rdmamsg_listener_port(l), shared, l->dead ? ", device removed" :
	    l->draining ? ", draining" : "",
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

static void dump_target(const struct dump *d, const struct rdmamsg_dc_target *t)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };

	(void)rdmamsg_dc_target_query(t, &a);
	say(d, "target %p: port %u%s: %u connections, %llu messages, %llu "
	    "access key violations%s", (const void *)t, t->port,
	    t->listener ? "" : ", ending", a.connections,
	    (unsigned long long)a.messages,
	    (unsigned long long)a.key_violations, a.armed ? ", armed" : "");
	if (a.sessions)
		say(d, "  %u of the connections are sessions of DC",
		    a.sessions);
}

static void dump_sender(const struct dump *d, const struct rdmamsg_dc_sender *s)
{
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };

	(void)rdmamsg_dc_sender_query(s, &a);
	say(d, "sender %p%s: id 0x%llx, %u addresses, %u of %u connections, "
	    "begun %llu, evicted %llu", (const void *)s,
	    s->ending ? ", ending" : "", (unsigned long long)a.id, a.addresses,
	    a.connections, s->opts.initiators, (unsigned long long)a.connects,
	    (unsigned long long)a.evictions);
	say(d, "  %u of %u messages wait, %llu bytes copied, %u addresses wait "
	    "for a connection", a.queued, s->opts.queue,
	    (unsigned long long)a.queued_bytes, s->wait_count);
	if (a.sessions)
		say(d, "  %u addresses have a session of DC", a.sessions);
}

/* ---- all of it -------------------------------------------------------- */

#define DUMP_EACH(d, of, type, fn) do { \
		struct list *n_; \
		list_for_each(n_, of) \
			fn(d, list_entry(n_, type, node)); \
	} while (0)

static void dump_memory(const struct dump *d, const struct rdmamsg *ctx)
{
	dump_budget(d, "receiving", &ctx->memory->budget[DIR_IN]);
	dump_budget(d, "sending", &ctx->memory->budget[DIR_OUT]);
	DUMP_EACH(d, &ctx->memory->pool_list, struct rdmamsg_pool, dump_pool);
	DUMP_EACH(d, &ctx->memory->region_list, struct rdmamsg_region,
		  dump_region);
}

static void dump_groups(const struct dump *d, const struct groups *groups)
{
	struct list *n;

	list_for_each(n, &groups->carriers)
		DUMP_EACH(d, &list_entry(n, struct carrier, node)->groups,
			  struct rdmamsg_group, dump_group);
	DUMP_EACH(d, &groups->homeless, struct rdmamsg_group, dump_group);
}

void rdmamsg_dump(const struct rdmamsg *ctx,
		  void (*line)(void *arg, const char *text), void *arg)
{
	struct dump d = { line, arg };

	if (rdmamsg__ctx_check(ctx) || !line)
		return;
	say(&d, "rdmamsg %s, context %p: %d endpoints", rdmamsg_version(),
	    (const void *)ctx, ctx->sessions->ep_count);
	DUMP_EACH(&d, &ctx->devices->devs, struct dev, dump_dev);
	dump_memory(&d, ctx);
	DUMP_EACH(&d, &ctx->lanes->srq_list, struct rdmamsg_srq, dump_srq);
	DUMP_EACH(&d, &ctx->sessions->listeners, struct rdmamsg_listener,
		  dump_listener);
	DUMP_EACH(&d, &ctx->sessions->eps, struct rdmamsg_ep, dump_ep);
	DUMP_EACH(&d, &ctx->qps, struct rdmamsg_qp, dump_qp);
	dump_groups(&d, ctx->groups);
	DUMP_EACH(&d, &ctx->dcs->targets, struct rdmamsg_dc_target,
		  dump_target);
	DUMP_EACH(&d, &ctx->dcs->senders, struct rdmamsg_dc_sender,
		  dump_sender);
}
