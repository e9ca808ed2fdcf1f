/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Liveness, at two levels. The transport: after a quarter of dead_after_ms in
 * which nothing was heard, at most half of it after the last sign of life, a
 * write of nothing asks the peer's device, which answers by itself; retries
 * are sized to give up within the other half. The program: a PING that the
 * peer's library answers from its program's loop. One timer for both; the data
 * path only counts.
 */
#include "internal.h"

static bool wants_ping(const struct rdmamsg_ep *ep)
{
	return (ep->on.on_stalled && ep->opts.stall_after_ms != RDMAMSG_NONE) ||
	       ep->opts.peer_timeout_ms != RDMAMSG_NONE ||
	       !list_empty(&ep->rndv_out);
}

static uint32_t interval(const struct rdmamsg_ep *ep)
{
	uint32_t ms = RDMAMSG_NONE;

	if (ep->opts.dead_after_ms != RDMAMSG_NONE)
		ms = ep->opts.dead_after_ms / 4;
	if (wants_ping(ep)) {
		if (ep->on.on_stalled &&
		    ep->opts.stall_after_ms != RDMAMSG_NONE)
			ms = min(ms, ep->opts.stall_after_ms / 2);
		if (ep->opts.peer_timeout_ms != RDMAMSG_NONE)
			ms = min(ms, ep->opts.peer_timeout_ms / 2);
	}
	if (ep->opts.fetch_timeout_ms != RDMAMSG_NONE)
		ms = min(ms, ep->opts.fetch_timeout_ms / 4);
	return max(ms, 1u);
}

/*
 * 4.096 us * 2^n, which a device may stretch fourfold (InfiniBand, local ack
 * timeout), for each of the tries that fit into half of dead_after_ms.
 */
uint32_t rdmamsg__live_ack_timeout(const struct rdmamsg_ep *ep)
{
	uint64_t ns;
	uint32_t n = 1;

	if (ep->opts.ack_timeout)
		return ep->opts.ack_timeout;
	if (ep->opts.dead_after_ms == RDMAMSG_NONE)
		return 18;
	ns = (uint64_t)ep->opts.dead_after_ms * 500000 /
	     (4 * (ep->opts.retry_count + 1));
	while (n < 21 && (4096ull << (n + 1)) <= ns)
		n++;
	return n;
}

static void told_silent(struct rdmamsg_ep *ep, uint64_t silent)
{
	if (!ep->stalled && ep->on.on_stalled &&
	    silent >= ep->opts.stall_after_ms) {
		ep->stalled = true;
		ep->st.stalls++;
		log_info("ep %p: the peer's program has been silent for "
			 "%llu ms", (void *)ep, (unsigned long long)silent);
		ep->ctx->in_callback++;
		ep->on.on_stalled(ep, (uint32_t)silent);
		ep->ctx->in_callback--;
	}
	if (ep->opts.peer_timeout_ms != RDMAMSG_NONE &&
	    silent >= ep->opts.peer_timeout_ms) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_SILENT,
				   -ETIMEDOUT, "the peer's program has not "
				   "answered for %llu ms (peer_timeout_ms is "
				   "%u): stopped, or stuck in a callback",
				   (unsigned long long)silent,
				   ep->opts.peer_timeout_ms);
		rdmamsg__ep_kill(ep);
	}
}

void rdmamsg__live_heard(struct rdmamsg_ep *ep)
{
	ep->heard = rdmamsg__now_ms();
	if (!ep->stalled)
		return;
	ep->stalled = false;
	log_info("ep %p: the peer's program answers again", (void *)ep);
	if (ep->on.on_resumed) {
		ep->ctx->in_callback++;
		ep->on.on_resumed(ep);
		ep->ctx->in_callback--;
	}
}

/*
 * A peer that lives but does not fetch must not hold our memory. One that is
 * stopped does not get here: it has not been heard.
 */
static void check_rndv(struct rdmamsg_ep *ep)
{
	/* after whatever a callback has announced in this tick */
	uint64_t now = rdmamsg__now_ms();
	struct rndv_out *r;

	if (list_empty(&ep->rndv_out) ||
	    ep->opts.fetch_timeout_ms == RDMAMSG_NONE)
		return;
	r = list_first(&ep->rndv_out, struct op, node)->rndv;
	if (now - r->since < ep->opts.fetch_timeout_ms + r->total / 1000)
		return;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
			   -ETIMEDOUT, "the peer has not fetched a message of "
			   "%u bytes in %llu ms (fetch_timeout_ms is %u)",
			   r->total, (unsigned long long)(now - r->since),
			   ep->opts.fetch_timeout_ms);
	rdmamsg__ep_kill(ep);
}

static void tick(struct timer *t)
{
	struct rdmamsg_ep *ep = list_entry(t, struct rdmamsg_ep, live);
	bool heard;

	/* what came while we were stopped or busy ourselves is not read yet */
	if (rdmamsg__rx_count(ep) == ep->rx_seen)
		rdmamsg__cq_poll(ep->ctx, 1 << 20);
	if (ep->state != EP_OPEN && ep->state != EP_CLOSING)
		return;
	heard = rdmamsg__rx_count(ep) != ep->rx_seen;
	ep->rx_seen = rdmamsg__rx_count(ep);
	if (heard) {
		rdmamsg__live_heard(ep);
	} else {
		if (ep->opts.dead_after_ms != RDMAMSG_NONE &&
		    !ep->keepalive_out)
			ep->ctrl_due |= CTRL_KEEPALIVE;
		if (wants_ping(ep) && ep->state == EP_OPEN) {
			/* who was not asked cannot answer */
			if (ep->ping_out)
				told_silent(ep, rdmamsg__now_ms() - ep->heard);
			else
				ep->ctrl_due |= CTRL_PING;
		}
	}
	if (heard)
		check_rndv(ep);
	rdmamsg__ep_touch(ep);
	if (ep->state == EP_OPEN || ep->state == EP_CLOSING)
		rdmamsg__timer_set(&ep->ctx->timers, &ep->live, interval(ep));
}

void rdmamsg__live_start(struct rdmamsg_ep *ep)
{
	ep->heard = rdmamsg__now_ms();
	ep->live.fn = tick;
	rdmamsg__timer_set(&ep->ctx->timers, &ep->live, interval(ep));
}
