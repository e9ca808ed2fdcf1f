/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both sides agree on an alternate path, by these rules about the fields of
 * struct proto_path:
 *
 * 1. A side loads the path only if own.migrations == peer.migrations and
 *    peer.seen == own.offer. Then the peer's device has migrated as often, and
 *    the peer's program migrates only after it has the path of these offers.
 * 2. The endpoint is armed when both devices are: own.state and peer.state are
 *    ARMED for the same two offers. Only then may the program migrate.
 *
 * No event tells that a device has armed a path. A device in REARM arms it when
 * a message of a loaded peer arrives, so the state is read after each PATH.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/migrate.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/resume.h"
#include "session/sessions.h"
#include "wire/path.h"
#include "wire/proto.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#define ARM_FIRST_MS	1
#define ARM_LAST_MS	1000

#define RANGE(...)	RANGE_OF(struct rdmamsg_failover, __VA_ARGS__)

static const struct range ranges[] = {
	RANGE(port, 0, 0, 0, 254),
	RANGE(rungs, RDMAMSG_RUNG_PATH | RDMAMSG_RUNG_LANE, 0, 1,
	      RDMAMSG_RUNG_PATH | RDMAMSG_RUNG_STANDBY | RDMAMSG_RUNG_LANE),
	RANGE(timeout_ms, 10000, 0, 1, 86400000),
	RANGE(keep_bytes, 1u << 20, 0, 64u << 10, 1u << 30),
	RANGE(flags, 0, 0, 0, RDMAMSG_FAILOVER_GIVEN_ONLY),
	RANGE(lid, 0, 0, 0, PROTO_LID_MAX),
};

static void wake(struct rdmamsg_ep *ep)
{
	ep->failover->due = true;
	ep->ctrl.due |= CTRL_PATH;
	rdmamsg__ep_touch(ep);
}

static void on_timer(struct timer *t)
{
	wake(list_entry(t, struct failover, timer)->ep);
}

/* ---- what the program sees -------------------------------------------- */

static void __attribute__((format(printf, 3, 4)))
set_state(struct failover *f, enum rdmamsg_path_state state, const char *fmt,
	  ...)
{
	va_list ap;

	f->state = state == RDMAMSG_PATH_NONE && f->migrated ?
		   RDMAMSG_PATH_MIGRATED : state;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

static void tell(struct rdmamsg_ep *ep, enum rdmamsg_path_change change,
		 const char *text)
{
	struct failover *f = ep->failover;
	char copy[sizeof(f->text)];	/* the callback may change the state */
	const struct rdmamsg_path_event ev = {
		.size = sizeof(ev), .change = change, .port = ep->lane.port,
		.alternate = f->own.port, .text = copy,
	};

	snprintf(copy, sizeof(copy), "%s", text);
	rdmamsg__record(ep->recorder, EVENT_PATH, change, f->own.port);
	ep_info(ep, "path %s: %s",
		rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, change), copy);
	probe(path, ep, change, ev.text);
	ep->ctx->loop.told = true;
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_path, ep, &ev);
}

/* The endpoint is not armed. If it was, tells that the path is lost. */
static void disarm(struct rdmamsg_ep *ep, enum rdmamsg_path_state state,
		   const char *text)
{
	struct failover *f = ep->failover;
	bool lost = f->state == RDMAMSG_PATH_ARMED;

	set_state(f, state, "%s", text);
	if (lost)
		tell(ep, RDMAMSG_PATH_CHANGE_LOST, f->text);
}

/* These two offers make no path. A later offer of either side may. */
static void give_up(struct rdmamsg_ep *ep, const char *text)
{
	ep->failover->broken = true;
	ep->failover->own.state = PROTO_PATH_OFFERED;
	disarm(ep, RDMAMSG_PATH_NONE, text);
}

/* ---- our port --------------------------------------------------------- */

/* Returns true if the two name the same port at the same address. */
static bool is_same(const struct proto_path *a, const struct proto_path *b)
{
	return a->port == b->port && a->flags == b->flags && a->lid == b->lid &&
	       !memcmp(a->gid, b->gid, sizeof(a->gid));
}

/*
 * Offers the best port, if it differs from the last offer. The port of the last
 * offer is the best as long as it can be used.
 */
static void offer(struct failover *f)
{
	const struct rdmamsg_ep *ep = f->ep;
	uint32_t wanted = f->opts.port && f->opts.port == ep->lane.port ?
			  f->former : f->opts.port;
	uint32_t first = f->own.flags & PROTO_PATH_SAME || !f->own.port ?
			 f->former : f->own.port;
	struct proto_path now = { .port = 0 };

	if (rdmamsg__try(rdmamsg__migrate_find(&ep->lane, &f->route, wanted,
					       first, &now))) {
		snprintf(f->lack, sizeof(f->lack), "%s", rdmamsg__text());
		now.flags = 0;
	}
	if (f->own.offer && !f->renew && is_same(&now, &f->own))
		return;
	now.migrations = f->own.migrations;
	now.offer = f->own.offer + 1;
	now.seen = f->own.seen;
	f->own = now;
	f->renew = f->broken = false;
}

/* ---- the device ------------------------------------------------------- */

/* The device has migrated to the path that was loaded. */
static void moved(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;
	char text[128];

	f->former = ep->lane.port;
	ep->lane.port = f->loaded.port;
	memcpy(ep->lane.gid.raw, f->loaded.gid, sizeof(ep->lane.gid.raw));
	f->loaded.offer = 0;
	f->opts.lid = 0;
	f->own.migrations++;
	f->own.port = 0;
	f->own.lid = 0;
	f->own.state = PROTO_PATH_OFFERED;
	f->look = f->renew = f->migrated = true;
	snprintf(text, sizeof(text), "migrated from port %u to port %u of %s",
		 f->former, ep->lane.port, rdmamsg_ep_device_name(ep));
	set_state(f, RDMAMSG_PATH_NONE, "%s", text);
	tell(ep, RDMAMSG_PATH_CHANGE_MIGRATED, f->text);
}

/* Returns true if the device has armed the path that was loaded last. */
static bool is_armed_by_device(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;
	enum ibv_mig_state state;

	if (!f->loaded.offer)
		return false;
	if (rdmamsg__try(rdmamsg__migrate_state(&ep->lane, &state))) {
		give_up(ep, rdmamsg__text());
		return false;
	}
	if (state == IBV_MIG_MIGRATED)
		moved(ep);
	return state == IBV_MIG_ARMED;
}

/* ---- agreeing --------------------------------------------------------- */

/* Returns why the two offers make no path, or NULL. */
static const char *why_not(const struct failover *f)
{
	if (!f->own.port)
		return f->lack;
	if (!f->peer.port)
		return "the peer has no active port for an alternate path";
	if (f->own.flags & f->peer.flags & PROTO_PATH_SAME)
		return "neither side has another active port";
	return NULL;
}

static bool is_loaded(const struct failover *f)
{
	return f->loaded.offer == f->own.offer &&
	       f->loaded.seen == f->peer.offer;
}

/* Rule 1. */
static bool may_load(const struct failover *f)
{
	return f->own.migrations == f->peer.migrations &&
	       f->peer.seen == f->own.offer;
}

/* Returns true if the peer has reached this state with these two offers. */
static bool peer_has(const struct failover *f, uint8_t state)
{
	return f->peer.state >= state && f->peer.seen == f->own.offer;
}

/* Reads the state of the device again, at longer and longer intervals. */
static void read_again(struct failover *f)
{
	rdmamsg__timer_set(&f->ep->ctx->loop.timers, &f->timer, f->wait_ms);
	f->wait_ms = min(2 * f->wait_ms, (uint32_t)ARM_LAST_MS);
}

static void load(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;
	struct proto_path peer = f->peer;

	if (f->opts.lid)
		peer.lid = (uint16_t)f->opts.lid;
	if (rdmamsg__try(rdmamsg__migrate_load(&ep->lane, &f->route, &f->own,
					       &peer))) {
		give_up(ep, rdmamsg__text());
		return;
	}
	f->own.state = PROTO_PATH_LOADED;
	f->loaded = f->own;
	f->wait_ms = ARM_FIRST_MS;
}

static void tell_armed(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;

	if (f->state == RDMAMSG_PATH_ARMED)
		return;
	f->migrated = false;
	if (f->opts.lid)
		set_state(f, RDMAMSG_PATH_ARMED, "from port %u to LID %u",
			  f->own.port, f->opts.lid);
	else
		set_state(f, RDMAMSG_PATH_ARMED, "from port %u to port %u of "
			  "the peer", f->own.port, f->peer.port);
	tell(ep, RDMAMSG_PATH_CHANGE_ARMED, f->text);
}

/* Both sides have a port. Takes the steps that the state of both permits. */
static void advance(struct rdmamsg_ep *ep, bool armed)
{
	struct failover *f = ep->failover;

	if (!is_loaded(f)) {
		armed = false;
		if (may_load(f))
			load(ep);
		if (f->broken)
			return;
	}
	if (f->own.state == PROTO_PATH_LOADED &&
	    peer_has(f, PROTO_PATH_LOADED)) {
		if (armed)
			f->own.state = PROTO_PATH_ARMED;
		else
			read_again(f);
	}
	/* rule 2 */
	if (f->own.state == PROTO_PATH_ARMED && peer_has(f, PROTO_PATH_ARMED))
		tell_armed(ep);
	else
		disarm(ep, RDMAMSG_PATH_ARMING, f->own.migrations ==
		       f->peer.migrations ? "both sides load the path" :
		       "one side has not migrated yet");
}

void rdmamsg__failover_pump(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;
	bool armed;

	if (!f->due)
		return;
	f->due = false;
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &f->timer);
	armed = is_armed_by_device(ep);
	if (ep->state != EP_OPEN)
		return;
	if (f->look)
		offer(f);
	f->look = false;
	f->own.seen = f->peer.offer;
	if (!is_loaded(f))
		f->own.state = PROTO_PATH_OFFERED;
	if (f->broken)
		return;
	if (why_not(f))
		disarm(ep, RDMAMSG_PATH_NONE, why_not(f));
	else
		advance(ep, armed);
}

/* ---- messages --------------------------------------------------------- */

bool rdmamsg__failover_unsaid(const struct rdmamsg_ep *ep)
{
	const struct failover *f = ep->failover;

	return ep->state == EP_OPEN && rdmamsg__has_paths(f) &&
	       (f->own.offer != f->sent.offer || f->own.seen != f->sent.seen ||
		f->own.state != f->sent.state ||
		f->own.migrations != f->sent.migrations);
}

void rdmamsg__failover_say(struct rdmamsg_ep *ep,
			   uint8_t out[static PROTO_PATH_LEN])
{
	struct failover *f = ep->failover;

	f->sent = f->own;
	rdmamsg__path_encode(&f->sent, out);
}

static bool is_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

void rdmamsg__failover_take(struct rdmamsg_ep *ep, const void *buf, size_t len,
			    uint32_t tag)
{
	struct failover *f = ep->failover;
	struct proto_path p;

	if (!rdmamsg__has_paths(f) || ep->carries) {
		rdmamsg__ep_protocol(ep, ep->carries ? "PATH before RESUME" :
				     "PATH, which was not agreed");
		return;
	}
	if (ep->ctrl.due & CTRL_PONG) {
		rdmamsg__ep_protocol(ep, "a PATH before the PONG");
		return;
	}
	if (rdmamsg__path_decode(&p, buf, len)) {
		rdmamsg__ep_protocol(ep, "a broken PATH");
		return;
	}
	if (is_before(p.offer, f->peer.offer) ||
	    is_before(p.seen, f->peer.seen) ||
	    is_before(p.migrations, f->peer.migrations) ||
	    is_before(f->sent.offer, p.seen)) {
		rdmamsg__ep_protocol(ep, "PATH %u after %u, for %u after %u",
				     p.offer, f->peer.offer, p.seen,
				     f->sent.offer);
		return;
	}
	if (p.offer != f->peer.offer)
		f->broken = false;
	f->peer = p;
	ep->ctrl.ping_tag = tag;
	ep->ctrl.due |= CTRL_PONG;
	wake(ep);
}

/* ---- connecting ------------------------------------------------------- */

static int check_source(const char *source)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM,
	};
	struct addrinfo *ai;
	bool local;

	if (!source)
		return 0;
	if (!*source || getaddrinfo(source, NULL, &hints, &ai))
		return rdmamsg__fail(-EINVAL, "failover: source '%s' is not a "
				     "numeric address", source);
	local = rdmamsg__addr_is_local(ai->ai_addr);
	freeaddrinfo(ai);
	return local ? 0 : rdmamsg__fail(-EINVAL, "failover: source '%s' is "
					 "no address of this host", source);
}

int rdmamsg__failover_copy(struct rdmamsg_failover *dst,
			   const struct rdmamsg_failover *src)
{
	struct proto_addresses announced;
	int ret = rdmamsg__opts_copy(dst, sizeof(*dst), src,
				     "rdmamsg_failover");

	if (!ret)
		ret = rdmamsg__set_ranges(dst, ranges,
					  sizeof(ranges) / sizeof(ranges[0]));
	if (!ret)
		ret = check_source(dst->source);
	return ret ? ret : rdmamsg__announce_parse(dst->announce, &announced);
}

/* Prepares for the rungs STANDBY and LANE. */
static int new_lanes(struct rdmamsg_ep *ep, const struct rdmamsg_failover *o)
{
	const uint32_t crc = ep->opts.flags & RDMAMSG_EP_CRC ? PROTO_CRC_LEN :
			     0;

	if (!(o->rungs & (RDMAMSG_RUNG_STANDBY | RDMAMSG_RUNG_LANE)))
		return 0;
	if (o->keep_bytes / 2 < ep->tuning.eager_max + crc)
		return rdmamsg__fail(-EINVAL, "failover: keep_bytes %u: at "
				     "least twice eager_max, which is %u",
				     o->keep_bytes, ep->tuning.eager_max);
	return rdmamsg__resume_new(ep, o);
}

int rdmamsg__failover_new(struct rdmamsg_ep *ep,
			  const struct rdmamsg_failover *opts)
{
	struct rdmamsg_failover copy;
	struct failover *f;
	int ret;

	if (!opts)
		return 0;
	ret = rdmamsg__failover_copy(&copy, opts);
	if (ret)
		return ret;
	ret = new_lanes(ep, &copy);
	if (ret || !(copy.rungs & RDMAMSG_RUNG_PATH))
		return ret;
	f = calloc(1, sizeof(*f));
	if (!f || rdmamsg__timers_reserve(&ep->ctx->loop.timers, 1)) {
		free(f);
		return rdmamsg__fail(-ENOMEM, "no memory for failover");
	}
	f->ep = ep;
	f->opts = copy;
	rdmamsg__timer_init(&f->timer, on_timer);
	set_state(f, RDMAMSG_PATH_NONE, "not connected");
	ep->failover = f;
	return 0;
}

void rdmamsg__failover_end(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;

	if (!f || f->ended)
		return;
	f->ended = true;
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &f->timer);
	rdmamsg__timers_release(&ep->ctx->loop.timers, 1);
}

void rdmamsg__failover_free(struct rdmamsg_ep *ep)
{
	rdmamsg__failover_end(ep);
	free(ep->failover);
	ep->failover = NULL;
}

int rdmamsg__failover_check(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;
	int ret;

	if (!f)
		return 0;
	ep->connect.by->learn_port(ep);
	ret = f->opts.port ? rdmamsg__migrate_check(&ep->lane, f->opts.port) :
	      0;
	if (ret)
		return ret;
	f->possible = !rdmamsg__try(rdmamsg__migrate_lack(&ep->lane));
	if (!f->possible)
		set_state(f, RDMAMSG_PATH_NONE, "%s", rdmamsg__text());
	return 0;
}

bool rdmamsg__failover_agreed(const struct rdmamsg_ep *ep)
{
	return ep->failover && ep->failover->possible &&
	       ep->connect.features & PROTO_FEATURE_PATH;
}

void rdmamsg__failover_setup(struct rdmamsg_ep *ep, struct proto_path *ret)
{
	struct failover *f = ep->failover;

	if (!rdmamsg__failover_agreed(ep))
		return;
	if (rdmamsg__try(rdmamsg__migrate_route(&ep->lane, &f->route))) {
		f->possible = false;
		set_state(f, RDMAMSG_PATH_NONE, "%s", rdmamsg__text());
		return;
	}
	offer(f);
	f->own.seen = f->peer.offer;
	*ret = f->sent = f->own;
}

void rdmamsg__failover_begin(struct rdmamsg_ep *ep,
			     const struct proto_path *peer)
{
	struct failover *f = ep->failover;

	if (!rdmamsg__failover_agreed(ep) || !peer->offer)
		return;
	if (peer->migrations || peer->state || is_before(f->own.offer,
							  peer->seen)) {
		rdmamsg__ep_protocol(ep, "a SETUP with an alternate path in "
				     "use");
		return;
	}
	f->peer = *peer;
}

void rdmamsg__failover_start(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;

	if (!f || ep->carries)
		return;
	if (rdmamsg__has_paths(f)) {
		set_state(f, RDMAMSG_PATH_ARMING, "both sides have told their "
			  "ports");
		wake(ep);
		return;
	}
	if (f->possible)
		set_state(f, RDMAMSG_PATH_NONE, ep->connect.features &
			  PROTO_FEATURE_PATH ? "the peer's device has no "
			  "alternate paths" : "the peer has not asked for "
			  "failover");
	ep_info(ep, "no alternate path: %s", f->text);
}

/* ---- events ----------------------------------------------------------- */

void rdmamsg__failover_set(struct rdmamsg_ep *ep, uint32_t port, uint32_t lid)
{
	struct failover *f = ep->failover;

	f->opts.port = port;
	f->opts.lid = lid;
	/* a new offer, so that both sides load again */
	f->look = f->renew = true;
	wake(ep);
}

void rdmamsg__failover_migrating(struct rdmamsg_ep *ep)
{
	rdmamsg__record(ep->recorder, EVENT_MOVE, MOVE_MIGRATES,
			ep->failover->own.port);
	/* until there is a new alternate path */
	set_state(ep->failover, RDMAMSG_PATH_ARMING, "migrating");
	wake(ep);
}

void rdmamsg__failover_down(struct rdmamsg_ep *ep)
{
	struct failover *f = ep->failover;

	if (!f)
		return;
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &f->timer);
	f->due = f->migrated = false;
	f->migrations += f->own.migrations;
	f->own = f->peer = (struct proto_path){ .port = 0 };
	f->sent = f->loaded = f->own;
	set_state(f, RDMAMSG_PATH_NONE, "the connection is lost");
}

void rdmamsg__failover_moved(struct rdmamsg_ep *ep, struct rdmamsg_ep *carrier)
{
	struct failover *to = ep->failover, *from = carrier->failover;

	if (!to)
		return;
	to->route = from->route;
	to->own = from->own;
	to->peer = from->peer;
	to->sent = from->sent;
	to->possible = from->possible;
	memcpy(to->text, from->text, sizeof(to->text));
	memcpy(to->lack, from->lack, sizeof(to->lack));
	from->possible = false;
	/* the port that the program wanted was one beside the first */
	to->opts.port = to->opts.lid = to->former = 0;
	to->broken = to->renew = false;
	/* a port may have changed since the carrier has told of it */
	to->look = true;
	rdmamsg__failover_start(ep);
}

void rdmamsg__failover_event(struct rdmamsg_ep *ep, int type)
{
	if (!rdmamsg__has_paths(ep->failover) || rdmamsg__lane_lost(ep) ||
	    (ep->state != EP_OPEN && ep->state != EP_CLOSING))
		return;
	if (type == IBV_EVENT_PATH_MIG_ERR)
		give_up(ep, "the device could not migrate to it");
	if (type == IBV_EVENT_PATH_MIG || type == IBV_EVENT_PATH_MIG_ERR)
		wake(ep);
}

static bool is_of_port(int type)
{
	return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
	       type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_GID_CHANGE ||
	       type == IBV_EVENT_PKEY_CHANGE;
}

void rdmamsg__failover_port(struct rdmamsg *ctx, const struct rdmamsg_device *d,
			    int type, uint32_t port)
{
	struct list *n;

	if (!is_of_port(type))
		return;
	list_for_each(n, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);
		struct failover *f = ep->failover;

		if (!ep->lane.dev || ep->lane.dev->device != d)
			continue;
		rdmamsg__record(ep->recorder, EVENT_PORT, (uint32_t)type, port);
		/* with an armed path, the device itself acts */
		if (type == IBV_EVENT_PORT_ERR && port == ep->lane.port &&
		    !(f && f->state == RDMAMSG_PATH_ARMED))
			rdmamsg__resume_port_down(ep);
		if (!rdmamsg__has_paths(f) || ep->state != EP_OPEN ||
		    ep->carries)
			continue;
		f->look = true;
		f->renew |= f->broken && type == IBV_EVENT_PORT_ACTIVE;
		wake(ep);
	}
}
