/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers: the frames that a target sends to a visitor. */
#include "base/list.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/visit.h"
#include "dc/visitor.h"
#include "wire/dc_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/dc.h>

#define MAX_MSG	(64u << 20)	/* default */

static void put_header(const struct visitor *v, enum dcf_type type,
		       uint32_t number, uint32_t tag)
{
	const struct dc_frame f = {
		.type = (uint8_t)type, .handle = v->far_handle,
		.token = v->far_token, .number = number, .tag = tag,
	};

	rdmamsg__dcf_encode(&f, rdmamsg__peer_slot(&v->peer));
}

static void post_frame(struct visitor *v, uint32_t len, enum visit_tx kind,
		       void *of)
{
	/* an initiator of a doubtful one is free as soon as it can be */
	const bool late = kind == TX_FRAME && !v->peer.doubtful;

	rdmamsg__peer_send(&v->peer, len, (struct dc_tx){
				.kind = (uint8_t)kind, .late = late,
				.of = of });
}

uint32_t rdmamsg__visitor_max_msg(const struct rdmamsg_dc_target *t)
{
	return t->opts.ep ? rdmamsg__dc_option(t->opts.ep->max_msg_size,
					       MAX_MSG, 1) : MAX_MSG;
}

static void send_welcome(struct visitor *v)
{
	const struct dc_welcome w = {
		.handle = v->peer.handle, .token = v->peer.token,
		.eager = VISIT_RECEIVE - DCF_LEN,
		.max_msg = rdmamsg__visitor_max_msg(v->t),
	};

	put_header(v, DCF_WELCOME, v->announced, v->grant ? DCF_OK : DCF_BUSY);
	rdmamsg__dcf_welcome_encode(&w, rdmamsg__peer_slot(&v->peer));
	v->welcome_due = false;
	v->limit = v->announced;
	post_frame(v, DCF_WELCOME_LEN, v->grant ? TX_FRAME : TX_BYE, NULL);
}

/*
 * Credits for receives that are posted, and for no others. A few that are not
 * posted yet do not count, because HELLOS are more. A message that is kept has
 * its credit until then.
 */
void rdmamsg__visitor_announce(struct visitor *v)
{
	const uint32_t holes = v->peer.port->hole_count;
	const uint32_t missing = (holes > PORT_LAZY ? holes : 0) + v->kept;
	const uint32_t left = v->announced - v->next;

	if (v->grant - left > missing && !v->leaves)
		v->announced += v->grant - left - missing;
}

static bool credit_due(const struct visitor *v)
{
	return v->announced - v->limit > v->grant / 4 ||
	       (v->limit == v->next && v->announced != v->limit);
}

static void send_credit(struct visitor *v)
{
	put_header(v, DCF_CREDIT, v->announced, v->reason ? 0 : v->asked);
	v->limit = v->announced;
	v->probe_due = false;
	post_frame(v, DCF_LEN, TX_FRAME, NULL);
}

static void send_bye(struct visitor *v)
{
	put_header(v, DCF_BYE, 0, v->reason);
	v->bye_due = false;
	post_frame(v, DCF_LEN, v->reason ? TX_BYE : TX_FRAME, NULL);
}

static struct item *done_due(const struct visitor *v)
{
	struct list *n;

	list_for_each(n, &v->dones) {
		struct item *i = list_entry(n, struct item, node);

		if (i->state == ITEM_DONE_DUE)
			return i;
	}
	return NULL;
}

static void send_done(struct visitor *v, struct item *i)
{
	put_header(v, DCF_DONE, i->number, i->result);
	i->state = ITEM_DONE_SENT;
	post_frame(v, DCF_LEN, TX_DONE, i);
}

bool rdmamsg__visitor_wants(const struct dc_peer *peer)
{
	const struct visitor *v = (const struct visitor *)peer;

	return !v->deaf &&
	       (v->welcome_due || v->bye_due || v->probe_due ||
		credit_due(v) || done_due(v) || rdmamsg__fetch_due(v));
}

void rdmamsg__visitor_pump(struct dc_peer *peer)
{
	struct visitor *v = visitor_of(peer);
	struct item *i;

	if (v->ended || v->deaf)
		return;
	if (v->welcome_due && rdmamsg__peer_room(peer))
		send_welcome(v);
	while (rdmamsg__peer_room(peer) && (i = done_due(v)))
		send_done(v, i);
	if ((credit_due(v) || v->probe_due) && rdmamsg__peer_room(peer))
		send_credit(v);
	if (rdmamsg__peer_room(peer))
		rdmamsg__fetch_some(v);
	if (v->bye_due && rdmamsg__peer_room(peer))
		send_bye(v);
}

void rdmamsg__visitor_go_on(struct visitor *v)
{
	if (rdmamsg__visitor_wants(&v->peer) && rdmamsg__peer_bind(&v->peer))
		rdmamsg__visitor_pump(&v->peer);
}
