/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enforces dead_after_ms. The retries of the transport last at least that long,
 * so that the device does not end a connection earlier. The clock of the
 * library ends a connection after that time, because some devices retry for
 * ever, and some queue pairs neither complete nor fail.
 *
 * The liveness tick reads the clock. The data path only counts requests. A
 * request has a completion only if it is signaled. If no signaled request is
 * known to be outstanding, and none has completed since the last tick, the tick
 * asks for a keepalive. Its completion confirms all requests before it.
 *
 * The time in which this process did not run is not the peer's silence: if both
 * are stopped, one of them goes on first. So if a tick is late, the clock has
 * stood still for as long.
 *
 * Ticks are an eighth of dead_after_ms apart. The last acknowledgement may come
 * right after a tick; the next tick sees it, and the one after that asks for a
 * keepalive. So the connection ends between 1 and 1.25 times dead_after_ms
 * after the last acknowledgement.
 *
 * Where completions prove only themselves (lane.came), those of messages and
 * writes tell nothing of the peer: TCP has taken the bytes, and goes on to do so
 * until its buffer is full. There the keepalive is a PING. What counts is what
 * has come from the peer: a message, or the answer to a read. Also counts, while
 * the PING is still in the send queue, that the requests before it go out,
 * because then TCP has an acknowledgement of the peer's host. This can delay the
 * clock by a tick, so that ticks are a twelfth of dead_after_ms apart.
 */
#include "base/base.h"
#include "base/probe.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "session/ep.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define ACK_TIMEOUT_NS(n)	(4096ull << (n))
#define ACK_TIMEOUT_MAX		31
#define ACK_TIMEOUT_NONE	18	/* 1.07 s, without dead_after_ms */
#define ACK_TIMEOUT_SOFT_ROCE	16	/* 268 ms */
#define DEAD_AFTER_MS		20000
#define DEAD_AFTER_ASKED_MS	60000	/* the peer's program has to answer */

/* Returns true if only an answer of the peer shows that the peer is there. */
static bool needs_answers(const struct rdmamsg_ep *ep)
{
	return ep->lane.came;
}

uint32_t rdmamsg__dead_after(const struct rdmamsg_ep *ep)
{
	if (ep->opts.dead_after_ms)
		return ep->opts.dead_after_ms;
	return needs_answers(ep) ? DEAD_AFTER_ASKED_MS : DEAD_AFTER_MS;
}

/* ---- the retries of the transport ------------------------------------- */

static bool retries_for_ever(const struct rdmamsg_ep *ep)
{
	return rdmamsg__quirks(ep->lane.dev->device)->seven_is_endless &&
	       ep->tuning.retry_count == 7;
}

/* At least 8 tries fit into dead_after_ms. A lost packet costs one try. */
static uint8_t short_timeout(uint64_t dead_ns)
{
	uint8_t n = 1;

	while (n < ACK_TIMEOUT_SOFT_ROCE &&
	       8 * ACK_TIMEOUT_NS(n + 1) <= dead_ns)
		n++;
	return n;
}

/*
 * All tries together take at least dead_after_ms. A device may lengthen each
 * try up to fourfold (InfiniBand, local ack timeout).
 */
static uint8_t long_timeout(uint64_t dead_ns, uint32_t tries)
{
	uint8_t n = 1;

	while (n < ACK_TIMEOUT_MAX && tries * ACK_TIMEOUT_NS(n) < dead_ns)
		n++;
	return n;
}

/*
 * A path that fails silently takes all tries. So that the alternate path has
 * time for all tries as well, each of the two takes half of dead_after_ms, even
 * if the device lengthens each try fourfold.
 */
static uint8_t timeout_with_alternate(uint64_t dead_ns, uint32_t tries)
{
	uint8_t n = 1;

	while (n < ACK_TIMEOUT_MAX &&
	       8 * tries * ACK_TIMEOUT_NS(n + 1) <= dead_ns)
		n++;
	return n;
}

uint8_t rdmamsg__rnr_retry(const struct rdmamsg_ep *ep, uint32_t features)
{
	if (ep->tuning.rnr_retry_count != RNR_RETRY_AUTO)
		return (uint8_t)ep->tuning.rnr_retry_count;
	/* 7 retries without end, so dead_after_ms must end the connection */
	return features & PROTO_FEATURE_OVERCOMMIT &&
	       ep->opts.dead_after_ms != RDMAMSG_NONE ? 7 : 6;
}

void rdmamsg__dead_transport(const struct rdmamsg_ep *ep,
			     struct ibv_qp_attr *attr)
{
	uint64_t dead_ns = rdmamsg__dead_after(ep) * 1000000ull;
	bool for_ever = retries_for_ever(ep);

	attr->retry_cnt = (uint8_t)ep->tuning.retry_count;
	attr->rnr_retry = rdmamsg__rnr_retry(ep, ep->connect.features);
	if (ep->opts.dead_after_ms == RDMAMSG_NONE) {
		attr->timeout = ACK_TIMEOUT_NONE;
		/* with endless retries nothing would end the connection */
		attr->retry_cnt = for_ever ? 6 : attr->retry_cnt;
	} else if (rdmamsg__failover_agreed(ep)) {
		attr->timeout = timeout_with_alternate(
			dead_ns, ep->tuning.retry_count + 1);
	} else if (for_ever) {
		attr->timeout = short_timeout(dead_ns);
	} else {
		attr->timeout = long_timeout(dead_ns,
					     ep->tuning.retry_count + 1);
	}
	if (ep->tuning.ack_timeout)
		attr->timeout = (uint8_t)ep->tuning.ack_timeout;
}

/* ---- the clock -------------------------------------------------------- */

/* Returns true if an outstanding request is known to be signaled. */
static bool awaits_completion(const struct rdmamsg_ep *ep)
{
	uint32_t last = ep->lane.hot.signal_at - ep->lane.hot.signal_every;
	uint32_t reads = min((uint32_t)ep->lane.init_depth,
			     ep->tuning.initiator_depth);

	return (int32_t)(last - ep->lane.sq.done) >= 0 ||
	       ep->live.keepalive_out || ep->reads.free < reads;
}

bool rdmamsg__sends_fail(const struct rdmamsg_ep *ep)
{
	struct rdmamsg_device *d = ep->lane.dev->device;
	struct ibv_port_attr port;

	return rdmamsg__quirks(d)->fails_without_route &&
	       !rdmamsg__v_query_port(d->v, d->verbs, ep->lane.port, &port) &&
	       port.state != IBV_PORT_ACTIVE;
}

uint32_t rdmamsg__dead_period(const struct rdmamsg_ep *ep)
{
	return max(rdmamsg__dead_after(ep) / (needs_answers(ep) ? 12 : 8), 1u);
}

bool rdmamsg__dead_acked(const struct rdmamsg_ep *ep)
{
	if (!needs_answers(ep))
		return !awaits_completion(ep);
	/* the PINGs of two ticks */
	return rdmamsg__dead_after(ep) != RDMAMSG_NONE &&
	       rdmamsg__now_ms() < ep->live.heard + 2 * rdmamsg__dead_period(ep);
}

static void end(struct rdmamsg_ep *ep, uint64_t age)
{
	unsigned long long ms = age;

	ep_info(ep, "%u requests are unacknowledged for %llu ms",
		rdmamsg__sq_used(&ep->lane), ms);
	probe(unacknowledged, ep, rdmamsg__sq_used(&ep->lane), ms);
	/* the end of the connection that is heard now is our own */
	ep->close.unanswered |= needs_answers(ep);
	if (ep->live.dead.port_down)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_TRANSPORT, -ETIMEDOUT,
				   "port %u of %s has been down for %llu ms "
				   "(dead_after_ms is %u)", ep->lane.port,
				   rdmamsg_ep_device_name(ep), ms,
				   rdmamsg__dead_after(ep));
	else if (needs_answers(ep))
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_TRANSPORT, -ETIMEDOUT,
				   "the peer has not answered for %llu ms "
				   "(dead_after_ms is %u): host or network "
				   "gone, or its program stopped, stuck in a "
				   "callback or computing", ms,
				   rdmamsg__dead_after(ep));
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_TRANSPORT, -ETIMEDOUT,
				   "the peer's device has not acknowledged a "
				   "request for %llu ms (dead_after_ms is %u): "
				   "host or network gone, or the peer was "
				   "killed%s",
				   ms, rdmamsg__dead_after(ep),
				   ep->connect.features &
						   PROTO_FEATURE_OVERCOMMIT
					   ? ", or it posts no receives"
					   : "");
	rdmamsg__ep_kill(ep);
}

/* Returns true if the clock must run. Asks for a keepalive if needed. */
static bool is_waiting(struct rdmamsg_ep *ep, bool heard, bool acked)
{
	struct dead *d = &ep->live.dead;

	d->port_down = false;
	if (awaits_completion(ep))
		return true;
	if (acked || (heard && !rdmamsg__sq_used(&ep->lane)))
		return false;
	/* the keepalive of the last tick is not posted yet */
	if (ep->ctrl.due & CTRL_KEEPALIVE)
		d->since = 0;
	/* the clock then runs without a keepalive */
	d->port_down = rdmamsg__sends_fail(ep);
	if (!d->port_down)
		ep->ctrl.due |= CTRL_KEEPALIVE;
	return true;
}

/* The PING is not posted although there is room: no memory. */
static bool lacks_ping(const struct rdmamsg_ep *ep)
{
	return ep->ctrl.due & CTRL_PING && !ep->live.ping_out &&
	       rdmamsg__sq_used(&ep->lane) < ep->lane.sq.total;
}

/* Returns true if the PING waits behind requests that go out. */
static bool ping_moves(const struct rdmamsg_ep *ep)
{
	const struct lane *l = &ep->lane;
	bool waits = ep->live.ping_out ?
		(int32_t)(ep->live.ping_seq - l->sq.done) >= 0 :
		ep->ctrl.due & CTRL_PING && !lacks_ping(ep);

	return waits && l->sq.done != ep->live.dead.done;
}

/*
 * Returns true if the clock must run. Asks the peer's program for an answer. A
 * carrier sends no PING, because the PONG would be for the session; its tries
 * have an end of their own.
 */
static bool is_asking(struct rdmamsg_ep *ep, bool answered)
{
	if (answered || ep->carries)
		return false;
	if (lacks_ping(ep))
		ep->live.dead.since = 0;
	if (!ep->live.ping_out)
		ep->ctrl.due |= CTRL_PING;
	return true;
}

/* Half of the time is over, and there is no answer. */
static void record(struct rdmamsg_ep *ep, uint64_t began)
{
	struct dead *d = &ep->live.dead;

	if (d->told || !d->since ||
	    began < d->since + rdmamsg__dead_after(ep) / 2)
		return;
	d->told = true;
	rdmamsg__record(ep->recorder, EVENT_UNACKED,
			(uint32_t)(began - d->since),
			rdmamsg__sq_used(&ep->lane));
}

bool rdmamsg__dead_tick(struct rdmamsg_ep *ep, bool heard, uint64_t began,
			uint32_t stood)
{
	bool acked = ep->lane.sq.done != ep->live.dead.done, was_down, waits;
	bool answered = heard || ep->live.answered;
	uint32_t limit = rdmamsg__dead_after(ep);
	struct dead *d = &ep->live.dead;

	if (needs_answers(ep))
		acked = ping_moves(ep);
	d->done = ep->lane.sq.done;
	ep->live.answered = false;
	if (limit == RDMAMSG_NONE)
		return true;
	if (d->since)
		d->since += stood;
	was_down = d->port_down;
	waits = needs_answers(ep) ? is_asking(ep, answered) :
				    is_waiting(ep, heard, acked);
	if (acked || !waits || was_down != d->port_down) {
		d->since = 0;
		d->told = false;
		d->grace = false;
	}
	if (waits && !d->since)
		d->since = rdmamsg__now_ms();
	record(ep, began);
	/* all acknowledgements that arrived before 'began' are counted */
	if (!d->since || began < d->since + limit)
		return true;
	/* perhaps the device was stopped as well, and now tries again */
	if (stood && !d->grace) {
		d->grace = true;
		return true;
	}
	end(ep, began - d->since);
	return false;
}

uint32_t rdmamsg__dead_ms(const struct rdmamsg_ep *ep)
{
	uint64_t now, end = ep->live.dead.since + rdmamsg__dead_after(ep);
	uint32_t ms = rdmamsg__dead_period(ep);

	if (ep->opts.dead_after_ms == RDMAMSG_NONE)
		return RDMAMSG_NONE;
	if (!ep->live.dead.since)
		return ms;
	now = rdmamsg__now_ms();
	return end > now ? (uint32_t)min((uint64_t)ms, end - now) : ms;
}
