/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dialling for another lane: to which address, when again, and whether a failed
 * try was the last.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "session/connector.h"
#include "session/ep.h"
#include "session/resume.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#define WAIT_LAST_MS	500
#define FIRST_TRY_MS	500	/* with announced addresses; then twice, ... */
#define NOTICE_MAX_MS	60000	/* whatever the peer's dead_after_ms is */

static void end(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why,
		const char *more)
{
	struct rdmamsg_reason *to = &ep->close.reason;

	ep->resume->over = true;
	rdmamsg__ep_reason_forget(ep);
	rdmamsg__ep_reason(ep, why->who, why->cause, why->error, "%s",
			   why->text);
	to->wc_status = why->wc_status;
	to->vendor_err = why->vendor_err;
	to->operation = why->operation;
	(void)snprintf(ep->resume->more, sizeof(ep->resume->more), "%s", more);
	rdmamsg__ep_kill(ep);
}

unsigned int rdmamsg__met_text(const uint32_t *met, char *buf, size_t size)
{
	unsigned int causes = 0;
	size_t len = 0;

	buf[0] = 0;
	for (unsigned int i = 0; i <= RDMAMSG_CAUSE_CRC; i++) {
		if (!met[i] || len >= size)
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%u %s",
					causes++ ? ", " : "", met[i],
					rdmamsg_name(RDMAMSG_NAME_CAUSE, i));
	}
	return causes;
}

void rdmamsg__redial_over(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	char met[112], tries[128] = "", text[sizeof(r->more)];

	/* such as " (20 tries: 18 refused, 2 timeout)" */
	if (rdmamsg__met_text(r->met, met, sizeof(met)))
		(void)snprintf(tries, sizeof(tries), " (%u %s: %s)", r->tries,
			       r->tries == 1 ? "try" : "tries", met);
	(void)snprintf(text, sizeof(text), ep->connect.passive ?
		       "; the peer has not come back in %u ms%s" :
		       "; no other way to the peer in %u ms%s",
		       rdmamsg__resume_ms(ep), tries);
	end(ep, &r->why, text);
}

/*
 * The side that waits learns of the loss first if its own device is gone. The
 * other side then notices it by its dead_after_ms only.
 */
uint32_t rdmamsg__resume_notice_ms(const struct rdmamsg_ep *ep)
{
	uint32_t notice = min(ep->connect.peer.dead_after_ms,
			      (uint32_t)NOTICE_MAX_MS);

	if (!ep->connect.passive || ep->resume->why.who == RDMAMSG_WHO_PEER)
		return 0;
	return notice + notice / 4;
}

uint32_t rdmamsg__resume_ms(const struct rdmamsg_ep *ep)
{
	return ep->resume->opts.timeout_ms + rdmamsg__resume_notice_ms(ep);
}

int rdmamsg__carrier_options(const struct resume *r, bool initiator,
			     uint32_t epoch, struct carrier_options *ret)
{
	static const struct rdmamsg_failover paths = {
		.size = sizeof(paths), .rungs = RDMAMSG_RUNG_PATH,
	};

	ret->ep = r->ep->opts;
	ret->tuning = r->ep->tuning;
	ret->ep.tuning = &ret->tuning;
	/* tries are counted here */
	ret->ep.flags &= ~(uint32_t)RDMAMSG_EP_RETRY;
	ret->ep.handlers = NULL;
	ret->ep.failover = r->ep->failover ? &paths : NULL;
	ret->ep.user = NULL;
	ret->ep.setup_data_len = 0;
	ret->ep.hello_data = ret->hello;
	ret->ep.hello_data_len = sizeof(ret->hello);
	ret->ep.source = ret->ep.device = NULL;
	rdmamsg__ep_options_unset(&ret->ep, &ret->tuning);
	return rdmamsg__lane_prove(r, initiator, epoch, ret->hello);
}

/*
 * An address of the peer's choice may be one that this host does not reach. So
 * without a lane, the first round of tries gives little time to each address.
 */
static uint32_t try_ms(const struct resume *r)
{
	uint32_t round = r->tries / rdmamsg__targets_count(r);

	if (!r->announced.count || r->lane == LANE_UP || round >= 3)
		return TRY_MS;
	return min((uint32_t)FIRST_TRY_MS << round, (uint32_t)TRY_MS);
}

/* Tries go to all targets in turn. */
int rdmamsg__redial(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	uint32_t ms = try_ms(r);
	uint64_t left = r->lane == LANE_UP ? TRY_MS :
			r->since + rdmamsg__resume_ms(ep) - rdmamsg__now_ms();
	struct target to;
	struct carrier_options o;
	int err = rdmamsg__carrier_options(r, true, ++r->epoch, &o);

	r->tries++;
	r->tried |= 1u << r->target;
	rdmamsg__record(ep->recorder, EVENT_TRY, r->tries, r->target);
	if (err)
		return err;
	rdmamsg__target_get(ep, r->target, &to);
	o.ep.source = to.source;
	o.ep.device = to.device;
	o.ep.timeout_ms = (uint32_t)min(left, (uint64_t)ms);
	return ep->connect.by->another(ep, to.host, to.service, &o.ep,
				       &r->carrier);
}

void rdmamsg__redial_later(struct resume *r)
{
	/* without a lane, try the next address at once */
	const bool now = r->tries % rdmamsg__targets_count(r) &&
			 r->lane != LANE_UP;

	r->target = rdmamsg__target_next(r, r->target);
	r->again_at = rdmamsg__now_ms() + (now ? 0 : r->wait_ms);
	if (!now)
		r->wait_ms = min(2 * r->wait_ms, (uint32_t)WAIT_LAST_MS);
}

void rdmamsg__redial_now(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (!rdmamsg__try(rdmamsg__redial(ep)))
		return;
	ep_info(ep, "try %u for another connection: %s", r->tries,
		rdmamsg__text());
	rdmamsg__redial_later(r);
}

void rdmamsg__carrier_forget(struct resume *r)
{
	r->carrier = NULL;
	r->said = r->heard = false;
	free(r->entries);
	r->entries = NULL;
	r->entries_len = 0;
	rdmamsg__renew_forget(r);
}

void rdmamsg__carrier_drop(struct resume *r)
{
	struct rdmamsg_ep *c = r->carrier;

	rdmamsg__carrier_forget(r);
	if (!c)
		return;
	c->carries = NULL;
	rdmamsg__ep_abort(c, RDMAMSG_CAUSE_ABORTED, -ECANCELED,
			  "the session goes on over another connection");
	/* after the abort: a peer that still reads must not get a refusal */
	if (r->lane == LANE_DOWN)
		rdmamsg__carrier_unkey(r->ep);
}

void rdmamsg__resume_renew(struct resume *r, uint32_t epoch)
{
	/* the peer still has the session: give a close its whole time again */
	if (r->ep->state == EP_CLOSING)
		rdmamsg__ep_timeout(r->ep);
	rdmamsg__carrier_drop(r);
	r->epoch = epoch;
	if (!r->has_key)
		r->proven_epoch = epoch;
}

void rdmamsg__carrier_open(struct rdmamsg_ep *carrier)
{
	struct rdmamsg_ep *ep = carrier->carries;

	ep->resume->proven_epoch = ep->resume->epoch;
	rdmamsg__record_device(ep->recorder, EVENT_CARRIER,
			       rdmamsg_ep_device_name(carrier), 0);
	if (ep->resume->lane == LANE_UP && !ep->resume->moving)
		rdmamsg__resume_tell(ep, RDMAMSG_PATH_CHANGE_STANDBY,
				     rdmamsg_ep_device_name(carrier));
	rdmamsg__resume_wake(ep);
}

/*
 * Returns true if further tries are in vain: at each address of this program,
 * the process that answers does not have the session, and each address of the
 * peer was tried.
 */
static bool is_final(struct resume *r, const struct rdmamsg_reason *why)
{
	const uint32_t given = r->host ? 3 : 1;
	const uint32_t announced = (1u << r->announced.count) - 1;

	if (why->cause == RDMAMSG_CAUSE_AUTH ||
	    why->cause == RDMAMSG_CAUSE_PROTOCOL ||
	    (why->cause == RDMAMSG_CAUSE_ABORTED && why->cm_event != -1)) {
		r->denied |= 1u << r->target;
		r->denial = *why;
	}
	return (r->denied & given) == given &&
	       (r->tried >> TARGET_ANNOUNCED & announced) == announced;
}

/*
 * A responder can have a carrier of a stranger who repeats a request. Only a
 * peer that has proven more than that can end the session.
 */
static bool is_of_peer(const struct rdmamsg_ep *carrier,
		       const struct rdmamsg_ep *ep)
{
	return !ep->connect.passive ||
	       (ep->resume->has_key && carrier->connect.told);
}

void rdmamsg__redial_in_vain(struct rdmamsg_ep *ep, const char *why)
{
	ep->resume->moving = false;
	rdmamsg__record(ep->recorder, EVENT_MOVE, MOVE_FAILED, 0);
	rdmamsg__resume_tell(ep, RDMAMSG_PATH_CHANGE_NOT_MOVED, why);
}

void rdmamsg__carrier_ended(struct rdmamsg_ep *carrier)
{
	struct rdmamsg_ep *ep = carrier->carries;
	const struct rdmamsg_reason *why = &carrier->close.reason;
	struct resume *r;

	if (!ep)
		return;
	r = ep->resume;
	carrier->carries = NULL;
	if (r->carrier != carrier)
		return;
	rdmamsg__carrier_forget(r);
	if (r->lane == LANE_DOWN)
		rdmamsg__carrier_unkey(ep);
	if (r->over)
		return;
	ep_info(ep, "try %u for another connection: %s", r->tries, why->text);
	rdmamsg__record_reason(ep->recorder, EVENT_TRY_FAILED, why, NULL);
	if (r->lane != LANE_UP && !ep->connect.passive)
		r->met[why->cause]++;
	if (r->moving)
		rdmamsg__redial_in_vain(ep, why->text);
	/* while a lane drains, its receives may still have the peer's CLOSE */
	if (r->lane == LANE_DOWN && is_of_peer(carrier, ep) && is_final(r, why))
		end(ep, &r->denial, "");
	rdmamsg__redial_later(r);
	rdmamsg__resume_wake(ep);
}
