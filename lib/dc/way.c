/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of a sender to a target: DC of the device, or a connection. A message
 * on a connection costs less, but each connection takes an initiator for as
 * long as it lasts. So with RDMAMSG_DC_AUTO the sender asks for DC once it has
 * more addresses than initiators.
 */
#include "base/ctx.h"
#include "dc/dc.h"
#include "session/sessions.h"

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

/* Options that change what the program sees of a connection. */
static bool has_only_connections(const struct rdmamsg_ep_options *ep)
{
	return (ep->flags & (RDMAMSG_EP_CRC | RDMAMSG_EP_GUARD)) ||
	       ep->failover;
}

/* Options that DC would ignore. */
static bool tunes_connections(const struct rdmamsg_ep_options *ep)
{
	const struct rdmamsg_ep_tuning *t = ep->tuning;
	const uint32_t times = ep->dead_after_ms | t->stall_after_ms |
			       t->peer_timeout_ms | ep->close_timeout_ms |
			       t->fetch_timeout_ms;

	return times || t->responder_resources || t->create_flags ||
	       t->max_lent || ep->srq || ep->recv_pool || ep->send_pool ||
	       t->ctrl_pool;
}

/* A pre-shared key needs a connection, because only a setup proves the key. */
static bool is_possible(const struct rdmamsg *ctx, uint32_t path,
			const struct rdmamsg_ep_options *ep)
{
	if (path == RDMAMSG_DC_CONNECTIONS || ctx->sessions->secret)
		return false;
	return !ep || (!has_only_connections(ep) &&
		       (path == RDMAMSG_DC_NATIVE || !tunes_connections(ep)));
}

bool rdmamsg__dc_asks(const struct rdmamsg_dc_address *a)
{
	const struct rdmamsg_dc_sender *s = a->sender;

	if (s->opts.path == RDMAMSG_DC_AUTO &&
	    s->address_count <= s->opts.initiators)
		return false;
	return !a->connects && is_possible(s->ctx, s->opts.path, &s->ep);
}

bool rdmamsg__dc_offers(const struct rdmamsg_dc_target *t)
{
	return !t->no_port && is_possible(t->ctx, t->opts.path, t->opts.ep);
}
