/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators: the connections of a sender. Addresses with messages wait in a
 * row for one. If all are in use, the one that was used the longest time ago is
 * closed gracefully, so that none of its messages is lost.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "dc/dc.h"
#include "dc/session.h"
#include "wire/dc_frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

/* data of a target's reject if it knows no such request */
#define NO_SENDER	"no sender"

/* ---- the end of a connection ------------------------------------------ */

static int status_of(const struct rdmamsg_reason *why, bool was_open)
{
	if (rdmamsg__dc_is_violation(why->data, why->data_len))
		return -EACCES;
	return was_open || !why->error ? -ECANCELED : why->error;
}

void rdmamsg__dc_fail(struct rdmamsg_dc_address *a, int status,
		      const struct rdmamsg_reason *why)
{
	struct rdmamsg_dc_sender *s = a->sender;

	log_info("context %u: dc sender 0x%llx: %s port %s: %s", s->ctx->number,
		 (unsigned long long)s->id, a->host, a->service, why->text);
	rdmamsg__dc_cancel(a, status);
	rdmamsg__tell(&s->ctx->loop, s->opts.on_failed, s, a, why);
}

void rdmamsg__dc_lost(struct rdmamsg_dc_address *a, int status,
		      const struct rdmamsg_reason *why)
{
	rdmamsg__ctx_ended(a->sender->ctx, why->error);
	rdmamsg__dc_fail(a, status, why);
}

/*
 * Returns true if the target has answered a sender that asks for DC. Without
 * a session the address connects. A target of an earlier version knows no such
 * request.
 */
static bool is_answer(struct rdmamsg_dc_address *a, struct rdmamsg_ep *ep,
		      const struct rdmamsg_reason *why)
{
	struct rdmamsg_dc_sender *s = a->sender;
	struct dc_answer answer;

	if (why->data_len == sizeof(NO_SENDER) - 1 &&
	    !memcmp(why->data, NO_SENDER, why->data_len)) {
		log_info("context %u: dc sender 0x%llx: %s port %s: a "
			 "connection: the target has no DC, or version 1 of "
			 "its frames, and this library version %d",
			 s->ctx->number, (unsigned long long)s->id, a->host,
			 a->service, DCF_VERSION);
		a->connects = true;
		return true;
	}
	if (rdmamsg__dca_decode(&answer, why->data, why->data_len))
		return false;
	if (rdmamsg__try(rdmamsg__session_begin(a, ep, &answer))) {
		log_info("context %u: dc sender 0x%llx: %s port %s: a "
			 "connection: %s", s->ctx->number,
			 (unsigned long long)s->id, a->host, a->service,
			 rdmamsg__text());
		a->connects = true;
	}
	return true;
}

/*
 * The connection has failed. The library of a target rejects another access
 * key, not its program.
 */
static void failed(struct rdmamsg_dc_address *a,
		   const struct rdmamsg_reason *why, bool was_open)
{
	struct rdmamsg_reason r = *why;

	if (rdmamsg__dc_is_violation(why->data, why->data_len)) {
		r.cause = RDMAMSG_CAUSE_ACCESS;
		r.error = -EACCES;
		r.data = NULL;
		r.data_len = 0;
		snprintf(r.text, sizeof(r.text), "the target's library refused "
			 "the access key: the target has another one");
	}
	/* one that was open has been counted */
	if (was_open)
		rdmamsg__dc_fail(a, status_of(why, true), &r);
	else
		rdmamsg__dc_lost(a, status_of(why, false), &r);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct initiator *i = rdmamsg_ep_user(ep);
	struct rdmamsg_dc_address *a = i->address;
	struct rdmamsg_dc_sender *s = a->sender;
	const bool was_open = i->state != INITIATOR_CONNECTING;
	const bool may_answer = i->asks && !was_open;

	list_del(&i->node);
	s->open--;
	s->closing -= i->evicted;
	free(i);
	a->initiator = NULL;
	a->held++;
	if (s->ending || s->ctx->closing)
		rdmamsg__dc_cancel(a, -ECANCELED);
	else if (!(may_answer && is_answer(a, ep, why)) &&
		 why->cause != RDMAMSG_CAUSE_CLOSED)
		failed(a, why, was_open);
	if (!list_empty(&a->msgs) && !a->session)
		rdmamsg__dc_wait(a);
	a->held--;
	rdmamsg__dc_address_put(a);
	rdmamsg__dc_sender_due(s);
}

void rdmamsg__dc_close(struct initiator *i)
{
	i->state = INITIATOR_CLOSING;
	rdmamsg_ep_close(i->ep);
}

/* ---- other callbacks of a connection ---------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct initiator *i = rdmamsg_ep_user(ep);

	if (i->state != INITIATOR_CONNECTING)
		return;
	i->state = INITIATOR_OPEN;
	i->used = ++i->address->sender->uses;
	rdmamsg__dc_pump(i->address);
	/* addresses that wait may need it at once */
	rdmamsg__dc_sender_due(i->address->sender);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct initiator *i = rdmamsg_ep_user(ep);

	rdmamsg__dc_pump(i->address);
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct initiator *i = rdmamsg_ep_user(ep);

	rdmamsg__dc_complete(i->address, cookie, status);
}

/* Targets do not send. */
static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	(void)ep;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = on_complete,
	.on_writable = on_writable, .on_closed = on_closed,
};

/* ---- making connections ----------------------------------------------- */

/* Closes as many as addresses wait, those first that were not used of late. */
static void evict(struct rdmamsg_dc_sender *s, uint32_t wait_count)
{
	while (s->closing < wait_count) {
		struct initiator *oldest = NULL;
		struct list *n;

		list_for_each(n, &s->initiators) {
			struct initiator *i = list_entry(n, struct initiator,
							 node);

			if (i->state == INITIATOR_OPEN &&
			    (!oldest || i->used < oldest->used))
				oldest = i;
		}
		if (!oldest)
			return;
		oldest->evicted = true;
		s->closing++;
		s->evictions++;
		rdmamsg__dc_close(oldest);
	}
}

/* Returns 0 or -errno. */
static int begin(struct rdmamsg_dc_address *a)
{
	struct rdmamsg_dc_sender *s = a->sender;
	const struct dc_hello hello = {
		a->access_key, s->id, rdmamsg__dc_asks(a),
	};
	uint8_t data[DC_HELLO_LEN];
	struct rdmamsg_ep_options opts = s->ep;
	struct initiator *i = calloc(1, sizeof(*i));
	int ret;

	if (!i)
		return rdmamsg__fail(-ENOMEM, "no memory for a connection");
	rdmamsg__dc_hello_encode(&hello, data);
	i->address = a;
	i->asks = hello.asks;
	opts.user = i;
	opts.handlers = &handlers;
	opts.hello_data = data;
	opts.hello_data_len = sizeof(data);
	opts.setup_data_len = 0;
	/* only queue pairs of DC have it */
	if (s->opts.path != RDMAMSG_DC_CONNECTIONS)
		opts.path = NULL;
	s->ctx->shutdown.inner = true;
	ret = rdmamsg_connect(s->ctx, a->host, a->service, &opts, &i->ep);
	s->ctx->shutdown.inner = false;
	if (ret) {
		free(i);
		return ret;
	}
	a->initiator = i;
	list_add_tail(&s->initiators, &i->node);
	s->open++;
	s->connects++;
	return 0;
}

static void connect_one(struct rdmamsg_dc_address *a)
{
	struct rdmamsg_reason why = {
		.size = sizeof(why), .who = RDMAMSG_WHO_LOCAL,
		.cause = RDMAMSG_CAUSE_RESOURCES, .cm_event = -1,
	};

	if (a->initiator || a->session || list_empty(&a->msgs))
		return;
	why.error = rdmamsg__try(begin(a));
	if (!why.error)
		return;
	snprintf(why.text, sizeof(why.text), "%s", rdmamsg__text());
	a->held++;
	rdmamsg__dc_lost(a, why.error, &why);
	a->held--;
	rdmamsg__dc_address_put(a);
}

static bool is_full(const struct rdmamsg_dc_sender *s)
{
	return s->open + rdmamsg__sessions_bound(s) >= s->opts.initiators;
}

void rdmamsg__dc_connect(struct rdmamsg_dc_sender *s)
{
	uint32_t n = s->wait_count;	/* not those that callbacks add */

	for (; n && s->wait_count && !s->ending; n--) {
		if (is_full(s) && !rdmamsg__sessions_unbind(s)) {
			evict(s, s->wait_count);
			return;
		}
		connect_one(rdmamsg__dc_unwait(s));
	}
	if (s->open && is_full(s) && rdmamsg__sessions_wait(s))
		evict(s, 1);
}
