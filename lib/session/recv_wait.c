/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that have arrived and wait behind a large message that is being
 * read, or behind a message in pieces that waits for memory. Each stays in its
 * receive buffer and keeps its credit, so a peer can have at most recv_depth of
 * them here.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "memory/memory.h"
#include "session/ep.h"
#include "session/recv.h"
#include "wire/proto.h"

#include <stdbool.h>

void rdmamsg__rx_wait_init(struct rdmamsg_ep *ep)
{
	ep->rndv.waiting.last = &ep->rndv.waiting.first;
	list_init(&ep->rndv.fetching);
}

void rdmamsg__rx_parse(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg;

	while ((msg = ep->rndv.waiting.unparsed)) {
		int err = msg->type == PROTO_RNDV ?
			  rdmamsg__try(rdmamsg__rndv_in_new(ep, msg)) : 0;

		if (err) {
			rdmamsg__starve(ep->ctx, &ep->starving, err);
			return;
		}
		ep->rndv.waiting.unparsed = msg->next;
	}
}

void rdmamsg__rx_wait(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		      enum proto_type type)
{
	bool first = !rdmamsg__rx_waits(ep);

	msg->type = (uint8_t)type;
	msg->next = NULL;
	*ep->rndv.waiting.last = msg;
	ep->rndv.waiting.last = &msg->next;
	ep->rndv.waiting.count++;
	ep->pieces.waiting += type == PROTO_FIRST;
	if (!ep->rndv.waiting.unparsed)
		ep->rndv.waiting.unparsed = msg;
	rdmamsg__rx_parse(ep);
	if (first)
		rdmamsg__ep_ready(ep);	/* no fast path now: recv.end = 0 */
}

struct rdmamsg_msg *rdmamsg__rx_next(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg = ep->rndv.waiting.first;

	if (ep->rndv.waiting.unparsed == msg)
		ep->rndv.waiting.unparsed = msg->next;
	ep->rndv.waiting.first = msg->next;
	if (!ep->rndv.waiting.first)
		ep->rndv.waiting.last = &ep->rndv.waiting.first;
	ep->rndv.waiting.count--;
	ep->pieces.waiting -= msg->type == PROTO_FIRST;
	return msg;
}

bool rdmamsg__rx_behind_pieces(const struct rdmamsg_ep *ep,
			       const struct rdmamsg_msg *msg)
{
	const struct rdmamsg_msg *m = ep->rndv.waiting.first;

	if (likely(!ep->pieces.waiting))
		return false;
	while (m != msg && m->type != PROTO_FIRST)
		m = m->next;
	return m != msg;
}
