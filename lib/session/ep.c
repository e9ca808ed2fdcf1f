/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: creating and connecting. ep_close.c ends them.
 *
 *   RESOLVING -> REQUESTED -> SETUP -> OPEN -> CLOSING -> DRAINING -> CLOSED
 *       ^           |                   |
 *       +- BACKOFF -+     after a failure, any state before goes to DRAINING
 *
 * A lane that is refused in SETUP drains, too. If the endpoint is to dial again,
 * BACKOFF follows in place of CLOSED.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "device/pd.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "session/auth.h"
#include "session/connector.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

int rdmamsg__ep_check(const struct rdmamsg_ep *ep)
{
	if (likely(ep && ep->ctx))
		return 0;
	if (!ep)
		return rdmamsg__fail(-EINVAL, "the endpoint is NULL");
	if (ep->refs)
		return rdmamsg__fail(-ESHUTDOWN, "the endpoint's context was "
				     "closed: only rdmamsg_ep_release() and "
				     "queries are left");
	return rdmamsg__fail(-ECHILD, "this process was forked from the one "
			     "that opened the context, which cannot be used "
			     "here");
}

int rdmamsg__ep_look(const struct rdmamsg_ep *ep)
{
	return ep && ep->refs ? 0 : rdmamsg__ep_check(ep);
}

/* A message in the inbox counts as lent: only the program can free it. */
void rdmamsg__inbox_add(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	msg->dev->msgs_out++;
	msg->next = NULL;
	*ep->inbox_tail = msg;
	ep->inbox_tail = &msg->next;
}

struct rdmamsg_msg *rdmamsg__inbox_take(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg = ep->inbox;

	ep->inbox = msg->next;
	if (!ep->inbox)
		ep->inbox_tail = &ep->inbox;
	msg->dev->msgs_out--;
	rdmamsg__msg_lend(msg, ep->rndv.lent);
	return msg;
}

void rdmamsg__ep_drop_inbox(struct rdmamsg_ep *ep)
{
	while (ep->inbox)
		rdmamsg_msg_free(rdmamsg__inbox_take(ep));
}

void rdmamsg__ep_free(struct rdmamsg_ep *ep)
{
	list_del(&ep->node);
	rdmamsg__ep_drop_inbox(ep);
	rdmamsg__lent_end(ep);
	rdmamsg__failover_free(ep);
	rdmamsg__resume_free(ep);
	rdmamsg__recorder_free(ep->recorder);
	rdmamsg__auth_free(ep->connect.auth);
	free(ep->connect.setup_data);
	free(ep->connect.peer_data);
	free(ep->connect.source);
	free(ep->connect.device);
	ep->connect.by->free(ep);
	free(ep->connect.tries);
	free(ep->connect.host);
	free(ep->connect.service);
	rdmamsg__object_free(ep, sizeof(*ep));
}

/*
 * Memory has come back. Receives may lack memory still, and then the endpoint
 * waits again, but for memory of the other direction.
 */
static void fed(struct starving *w)
{
	struct rdmamsg_ep *ep = list_entry(w, struct rdmamsg_ep, starving);

	ep->send.want_memory = false;
	rdmamsg__ep_touch(ep);
}

/* The endpoints of a listener get its key when they are accepted. */
static int set_auth(struct rdmamsg_ep *ep)
{
	const struct secret *s = ep->ctx->sessions->secret;

	if (s)
		ep->connect.auth = rdmamsg__auth_new(s);
	return s && !ep->connect.auth ?
	       rdmamsg__fail(-ENOMEM, "no memory for an endpoint") : 0;
}

static void new_session(struct rdmamsg_ep *ep)
{
	(void)!getrandom(ep->connect.session, sizeof(ep->connect.session),
			 GRND_NONBLOCK);
	/* messages that the peer may send before it has our SETUP */
	ep->credit.announced = ep->opts.srq ? ep->opts.srq->opts.floor :
			ep->tuning.recv_depth;
	ep->credit.granted = ep->credit.announced;
}

int rdmamsg__ep_new(struct rdmamsg *ctx, const struct connector *by,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep = rdmamsg__object_new(sizeof(*ep));
	int ret;

	if (!ep)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	ep->ctx = ctx;
	ep->lane.on = &rdmamsg__lane_events;
	ep->connect.by = by;
	ep->refs = 1;
	ep->state = EP_RESOLVING;
	list_init(&ep->node);
	list_init(&ep->dirty_node);
	list_init(&ep->starving.node);
	ep->starving.fed = fed;
	list_init(&ep->send.queue);
	list_init(&ep->rndv.out);
	rdmamsg__rx_wait_init(ep);
	list_init(&ep->onesided.windows);
	ep->inbox_tail = &ep->inbox;
	rdmamsg__timer_init(&ep->timer, rdmamsg__ep_deadline);
	rdmamsg__timer_init(&ep->live.timer, NULL);
	ret = rdmamsg__ep_configure(ep, opts);
	if (!ret)
		ret = set_auth(ep);
	if (!ret)
		ret = rdmamsg__lent_new(ep);
	if (!ret && rdmamsg__timers_reserve(&ctx->loop.timers, EP_TIMERS))
		ret = rdmamsg__fail(-ENOMEM, "no memory for a timer");
	if (ret) {
		rdmamsg__ep_free(ep);
		return ret;
	}
	ctx->sessions->ep_count++;
	list_add_tail(&ctx->sessions->eps, &ep->node);
	ep->deadline = rdmamsg__now_ms() + ep->opts.timeout_ms;
	rdmamsg__timer_set(&ctx->loop.timers, &ep->timer, ep->opts.timeout_ms);
	if (!ep->opts.recv_pool && !ep->opts.srq &&
	    !(ep->opts.flags & RDMAMSG_EP_GUARD))
		ep->opts.srq = ctx->lanes->srq;
	rdmamsg__srq_hold(ep->opts.srq);
	rdmamsg__userpools_hold(&ep->opts);
	rdmamsg__pd_hold(ep->opts.pd);
	new_session(ep);
	*ret_ep = ep;
	return 0;
}

void rdmamsg__ep_anew(struct rdmamsg_ep *ep)
{
	struct connecting *c = &ep->connect;

	c->hello_ok = c->established = c->setup_sent = c->setup_seen = false;
	c->refused = PROTO_REJECT_NONE;
	if (c->auth)
		rdmamsg__auth_anew(c->auth);
	ep->close = (struct closing){ .reason = ep->close.reason };
	ep->lane = (struct lane){ .on = ep->lane.on, .v = ep->lane.v };
	ep->ctrl.due = 0;
	ep->credit = (struct credits){ 0 };
	new_session(ep);
}

void rdmamsg_ep_hold(struct rdmamsg_ep *ep)
{
	if (!rdmamsg__ep_look(ep))
		ep->refs++;
}

void rdmamsg_ep_release(struct rdmamsg_ep *ep)
{
	if (rdmamsg__ep_look(ep))
		return;
	if (!--ep->refs)
		rdmamsg__ep_free(ep);
}

void rdmamsg__ep_touch(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (ep->dirty || ep->state == EP_CLOSED)
		return;
	ep->dirty = true;
	/* outside of the loop: wake it, so that it settles before it sleeps */
	if (rdmamsg__loop_idle(&ctx->loop) && list_empty(&ctx->sessions->dirty))
		rdmamsg__loop_kick(&ctx->loop);
	ctx->loop.work = true;
	list_add_tail(&ctx->sessions->dirty, &ep->dirty_node);
}

/* On devices of which a completion proves only itself. */
static void __attribute__((noinline)) limit_ways(struct rdmamsg_ep *ep)
{
	/* reads need a proof, or count, and are awaited */
	ep->onesided.ways &= (1u << RMA_READ) - 1;
	/* a write that is too long for inline data may cross a page boundary */
	if (ep->lane.came &&
	    rdmamsg__may_tear(&ep->lane, ep->send.inline_max + 1))
		ep->onesided.ways &= ~(1u << RMA_WRITE);
}

void rdmamsg__ep_ready(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	bool open = ep->state == EP_OPEN;
	const bool careful = rdmamsg__keeps(ep) || ep->send.crc;
	uint32_t end;

	rdmamsg__tx_room(ep);
	end = open && ep->send.compact && !ep->send.queued &&
	      ep->send.can_inline && !careful ? ep->send.inline_max + 1 : 0;
	ep->send.careful = careful;
	ep->send.plain_end = ep->send.crc ? 0 : ep->send.copy_max + 1;
	/* the batch signals its last request only */
	ep->send.end = h->signal_every > 1 ? end : 0;
	/* the inline must not overtake requests in the batch */
	ep->send.inline_end = end;
	h->len_end = ep->ctx->tx->lane == &ep->lane ? 0 : end;
	ep->onesided.ways = open && !ep->send.queued && !rdmamsg__keeps(ep) ?
			    ep->onesided.can : 0;
	if (unlikely(ep->lane.doubts_reads || ep->lane.came))
		limit_ways(ep);
	ep->recv.end = open && !ep->carries && ep->send.compact &&
		       ep->on.on_message && !ep->send.crc &&
		       !rdmamsg__rx_holds(ep) && !ep->pieces.left &&
		       !ep->close.gap ?
		       ep->recv.max + 1 : 0;
	ep->recv.plain_end = ep->send.crc ? 0 : ep->opts.max_msg_size + 1;
}

void rdmamsg__ep_timeout(struct rdmamsg_ep *ep)
{
	uint64_t now = rdmamsg__now_ms();

	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer,
			   ep->deadline > now ? ep->deadline - now : 1);
}

enum rdmamsg_way rdmamsg__ep_way(const struct rdmamsg_ep *ep)
{
	const struct sockaddr *to = &ep->connect.peer_addr.any;

	if (!ep->lane.dev || !ep->lane.dev->device || !ep->lane.hot.qp)
		return RDMAMSG_WAY_NONE;
	if (ep->lane.v->is_far)
		return ep->lane.v->is_far(ep->lane.hot.qp) ? RDMAMSG_WAY_UDP :
		       RDMAMSG_WAY_MEMORY;
	if (!rdmamsg__soft_below())
		return RDMAMSG_WAY_DEVICE;
	/* below libibverbs only the address tells; without the CM none does */
	return to->sa_family == AF_UNSPEC || rdmamsg__addr_is_local(to) ?
	       RDMAMSG_WAY_MEMORY : RDMAMSG_WAY_UDP;
}

/* Both sides have exchanged SETUP. */
void rdmamsg__ep_connected(struct rdmamsg_ep *ep)
{
	int err = rdmamsg__try(rdmamsg__resume_begin(ep));

	if (err) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_RESOURCES, err, "%s",
				   rdmamsg__text());
		rdmamsg__ep_kill(ep);
		return;
	}
	rdmamsg__ep_enter(ep, EP_OPEN);
	ep->connect.told = true;
	rdmamsg__auth_free(ep->connect.auth);
	ep->connect.auth = NULL;
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &ep->timer);
	rdmamsg__live_start(ep);
	ep->onesided.can = rdmamsg__rma_kinds(ep);
	rdmamsg__ep_ready(ep);
	ep->connect.by->connected(ep);
	ep_info(ep, "connected on %s%s, qp 0x%x", ep->lane.dev->device->name,
		rdmamsg__ep_way(ep) == RDMAMSG_WAY_UDP ? " over UDP (RoCE v2)" :
		"", ep->lane.hot.qp->qp_num);
	probe(connected, ep, ep->lane.hot.qp->qp_num,
	      (const char *)ep->lane.dev->device->name);
	rdmamsg__record_device(ep->recorder, EVENT_LANE,
			       ep->lane.dev->device->name, ep->lane.port);
	rdmamsg__failover_start(ep);
	rdmamsg__resume_start(ep);
	if (unlikely(ep->carries))
		rdmamsg__carrier_open(ep);
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_connected, ep);
	/* too late to refuse the peer */
	if (unlikely(ep->ctx->shutdown.begun) && !ep->connect.carrier &&
	    !ep->connect.inner)
		rdmamsg_ep_close(ep);
}

const char *rdmamsg__ep_state_name(enum ep_state state)
{
	static const char *const names[] = {
		[EP_RESOLVING] = "resolving", [EP_REQUESTED] = "requested",
		[EP_SETUP] = "setup", [EP_OPEN] = "open",
		[EP_CLOSING] = "closing", [EP_DRAINING] = "draining",
		[EP_BACKOFF] = "back-off", [EP_CLOSED] = "closed",
	};

	return names[state];
}

/* ---- information ------------------------------------------------------ */

enum rdmamsg_state rdmamsg_ep_state(const struct rdmamsg_ep *ep)
{
	if (!ep)
		return RDMAMSG_CLOSED;
	switch (ep->state) {
	case EP_OPEN:
		return RDMAMSG_CONNECTED;
	case EP_CLOSING:
		return RDMAMSG_CLOSING;
	case EP_DRAINING:
		return ep->connect.redials ? RDMAMSG_CONNECTING :
		       RDMAMSG_CLOSING;
	case EP_CLOSED:
		return RDMAMSG_CLOSED;
	default:
		return RDMAMSG_CONNECTING;
	}
}

const struct rdmamsg_reason *rdmamsg_ep_reason(const struct rdmamsg_ep *ep)
{
	static const struct rdmamsg_reason none = {
		.size = sizeof(none), .cm_event = -1,
		.text = "the connection has not ended",
	};

	return ep && ep->close.reason_set ? &ep->close.reason : &none;
}

struct rdmamsg *rdmamsg_ep_ctx(const struct rdmamsg_ep *ep)
{
	return ep ? ep->ctx : NULL;
}

void *rdmamsg_ep_user(const struct rdmamsg_ep *ep)
{
	return ep ? ep->user : NULL;
}

void rdmamsg_ep_set_user(struct rdmamsg_ep *ep, void *user)
{
	if (ep)
		ep->user = user;
}

const void *rdmamsg_ep_peer_data(const struct rdmamsg_ep *ep, size_t *ret_len)
{
	if (ret_len)
		*ret_len = ep ? ep->connect.peer_data_len : 0;
	return ep ? ep->connect.peer_data : NULL;
}

const char *rdmamsg_ep_device_name(const struct rdmamsg_ep *ep)
{
	if (!ep)
		return "";
	return ep->lane.dev && ep->lane.dev->device ? ep->lane.dev->device->name
						    : ep->lane.device_name;
}
