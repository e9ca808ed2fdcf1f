/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and credits of messages: what is granted, announced and used. */
#ifndef RDMAMSG_LIB_CREDIT_H
#define RDMAMSG_LIB_CREDIT_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/util.h"
#include "session/ep.h"
#include "wire/proto.h"

static inline void rdmamsg__tx_room(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t posted = (uint32_t)h->sq_posted;
	/* too low a value is harmless for a while, too high a value is not */
	int32_t credit = (int32_t)(ep->credit.limit - h->number);
	int32_t room = (int32_t)(ep->lane.sq.done + ep->lane.sq.data - posted);

	room = max(min(room, credit), 0);
	h->stop = posted + (uint32_t)room;
	h->look_at = (int32_t)(h->stop - h->signal_at) < 0 ? h->stop :
		     h->signal_at;
}

/* Returns the credit announced to the peer, in a message of either form. */
static inline uint32_t rdmamsg__announced(struct rdmamsg_ep *ep)
{
	struct credits *c = &ep->credit;

	if (c->offered && ep->lane.hot.low <= PROTO_NUMBER_MASK) {
		c->announced += rdmamsg__grant_credits(c->offered);
		c->told += (uint16_t)rdmamsg__grant_seen(c->offered);
		c->offered = 0;
	}
	return c->announced;
}

/* The next compact message tells what the peer does not know yet. */
static inline void rdmamsg__tx_offer(struct rdmamsg_ep *ep)
{
	uint32_t announced = rdmamsg__announced(ep);
	struct credits *c = &ep->credit;

	if (!ep->send.compact)
		return;
	c->offered = rdmamsg__grant_encode(c->granted - announced,
					   (uint16_t)(c->took - c->told));
	ep->lane.hot.low = c->offered | (ep->lane.hot.number &
					 PROTO_NUMBER_MASK);
}

/*
 * Grants credit up to message number 'granted'. The next message of this side
 * announces it. If 'worth' or more credits are not announced yet, a CREDIT
 * message becomes due.
 */
static inline void rdmamsg__rx_grant(struct rdmamsg_ep *ep, uint32_t granted,
				     uint32_t worth)
{
	struct credits *c = &ep->credit;

	if ((int32_t)(granted - c->granted) > 0)
		c->granted = granted;
	rdmamsg__tx_offer(ep);
	if ((ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	    c->granted - c->announced >= worth)
		ep->ctrl.due |= CTRL_CREDIT;
}

static inline uint32_t rdmamsg__granted(const struct rdmamsg_ep *ep)
{
	return ep->credit.granted;
}

/* Returns true if a message with this tag is sent in compact form. */
static inline bool rdmamsg__is_compact(const struct rdmamsg_ep *ep,
				       uint32_t tag)
{
	return ep->send.compact && tag <= PROTO_TAG_MAX;
}

/* Returns the number of the next data message. */
static inline uint32_t rdmamsg__tx_number(const struct rdmamsg_ep *ep)
{
	return ep->lane.hot.number;
}

static inline uint32_t rdmamsg__tx_next_number(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t number = h->number++;

	h->low = (h->low & ~PROTO_NUMBER_MASK) |
		 (h->number & PROTO_NUMBER_MASK);
	return number;
}

/* Takes the number, and returns the immediate data of a compact message. */
static inline __be32 rdmamsg__tx_imm(struct rdmamsg_ep *ep, uint32_t tag)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t imm = tag << 16 | h->low;

	h->low = ++h->number & PROTO_NUMBER_MASK;
	return (__be32)htole32(imm);
}

static inline bool rdmamsg__has_credit(const struct rdmamsg_ep *ep)
{
	return (int32_t)(ep->credit.limit - rdmamsg__tx_number(ep)) > 0;
}

#endif
