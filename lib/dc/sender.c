/* SPDX-License-Identifier: BSD-2-Clause */
/* Senders: what their program sees, and what is left to the loop. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/session.h"
#include "session/ep.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#define QUEUE_BYTES	(16u << 20)
#define RANGE(...)	RANGE_OF(struct rdmamsg_dc_sender_options, __VA_ARGS__)

static const struct range ranges[] = {
	RANGE(initiators, 16, 0, 1, 65536),
	RANGE(queue, 1024, 0, 1, 1u << 20),
	RANGE(path, 0, 0, 0, RDMAMSG_DC_NATIVE),
};

void rdmamsg__dc_sender_due(struct rdmamsg_dc_sender *s)
{
	if (s->ctx->closing)
		return;
	if (list_empty(&s->due))
		list_add_tail(&s->ctx->dcs->due_senders, &s->due);
	rdmamsg__dcs_wake(s->ctx);
}

void rdmamsg__dc_complete(struct rdmamsg_dc_address *a, void *cookie,
			  int status)
{
	struct rdmamsg_dc_sender *s = a->sender;

	if (cookie)
		rdmamsg__tell(&s->ctx->loop, s->opts.on_complete, s, a, cookie,
			      status);
}

/* Ends the messages to addresses without a connection. */
static void cancel_all(struct rdmamsg_dc_sender *s)
{
	while (s->wait_count) {
		struct rdmamsg_dc_address *a = rdmamsg__dc_unwait(s);

		a->held++;
		rdmamsg__dc_cancel(a, -ECANCELED);
		a->held--;
		rdmamsg__dc_address_put(a);
	}
}

void rdmamsg__dc_sender_settle(struct rdmamsg_dc_sender *s)
{
	list_del(&s->due);
	s->ctx->loop.told = true;
	rdmamsg__sessions_settle(s);
	if (!s->ending)
		rdmamsg__dc_connect(s);
	if (!s->ending && s->want_writable &&
	    rdmamsg__dc_has_room(s, s->wanted)) {
		s->want_writable = false;
		rdmamsg__tell(&s->ctx->loop, s->opts.on_writable, s);
	}
	if (!s->ending)
		return;
	cancel_all(s);
	if (!s->open && !s->session_count)
		rdmamsg__dc_sender_free(s);
}

/* ---- life ------------------------------------------------------------- */

static int set_options(struct rdmamsg_dc_sender *s,
		       const struct rdmamsg_dc_sender_options *opts)
{
	int ret = rdmamsg__opts_copy(&s->opts, sizeof(s->opts), opts,
				     "rdmamsg_dc_sender_options");

	if (!ret)
		ret = rdmamsg__set_ranges(&s->opts, ranges,
					  sizeof(ranges) / sizeof(ranges[0]));
	if (!s->opts.queue_bytes)
		s->opts.queue_bytes = QUEUE_BYTES;
	if (!ret)
		ret = rdmamsg__ep_options_copy(&s->ep, &s->tuning, s->opts.ep);
	s->opts.ep = NULL;
	return ret ? ret : rdmamsg__dc_options_check(&s->ep, s->opts.path);
}

int rdmamsg_dc_sender_create(struct rdmamsg *ctx,
			     const struct rdmamsg_dc_sender_options *opts,
			     struct rdmamsg_dc_sender **ret_sender)
{
	struct rdmamsg_dc_sender *s;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_sender)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_sender_create: ret "
				     "is NULL");
	s = calloc(1, sizeof(*s));
	if (!s)
		return rdmamsg__fail(-ENOMEM, "no memory for a sender");
	ret = set_options(s, opts);
	if (ret) {
		free(s);
		return ret;
	}
	s->ctx = ctx;
	s->object = ++ctx->objects;
	list_init(&s->due);
	list_init(&s->addresses);
	list_init(&s->waiting);
	list_init(&s->initiators);
	list_init(&s->sessions);
	list_init(&s->ports);
	(void)!getrandom(&s->id, sizeof(s->id), GRND_NONBLOCK);
	list_add_tail(&ctx->dcs->senders, &s->node);
	*ret_sender = s;
	return 0;
}

void rdmamsg_dc_sender_destroy(struct rdmamsg_dc_sender *s)
{
	struct list *n;

	if (!s || rdmamsg__try(rdmamsg__ctx_check(s->ctx)) || s->ending)
		return;
	s->ending = s->told_sessions = true;
	list_for_each(n, &s->initiators)
		rdmamsg__dc_close(list_entry(n, struct initiator, node));
	rdmamsg__dc_sender_due(s);
}

void rdmamsg__dc_sender_leave(struct rdmamsg_dc_sender *s)
{
	struct list *n;

	s->told_sessions = true;
	list_for_each(n, &s->addresses)
		list_entry(n, struct rdmamsg_dc_address, node)->leaves = true;
	list_for_each(n, &s->initiators)
		rdmamsg__dc_pump(list_entry(n, struct initiator,
					    node)->address);
	rdmamsg__dc_sender_due(s);
}

/* Connections that have begun are aborted by the caller, and fail. */
void rdmamsg__dc_sender_cut(struct rdmamsg_dc_sender *s)
{
	if (s->cut)
		return;
	s->cut = s->told_sessions = true;
	s->ctx->shutdown.failed += s->wait_count;
	cancel_all(s);
	rdmamsg__dc_sender_due(s);
}

bool rdmamsg__dc_sender_has_left(const struct rdmamsg_dc_sender *s)
{
	return !s->open && !s->session_count && !s->wait_count;
}

void rdmamsg__dc_sender_free(struct rdmamsg_dc_sender *s)
{
	s->ending = true;
	rdmamsg__sessions_close(s);
	cancel_all(s);
	list_del(&s->node);
	list_del(&s->due);
	rdmamsg__tell(&s->ctx->loop, s->opts.on_destroyed, s);
	while (!list_empty(&s->addresses)) {
		struct list *n = s->addresses.next;

		list_del(n);
		free(list_entry(n, struct rdmamsg_dc_address, node));
	}
	free(s);
}

void *rdmamsg_dc_sender_user(const struct rdmamsg_dc_sender *s)
{
	return s ? s->opts.user : NULL;
}

int rdmamsg_dc_sender_query(const struct rdmamsg_dc_sender *s,
			    struct rdmamsg_dc_sender_attr *attr)
{
	struct rdmamsg_dc_sender_attr a;
	int err;

	if (!s)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_sender_query: sender "
				     "is NULL");
	err = rdmamsg__ctx_check(s->ctx);
	if (err)
		return err;
	a = (struct rdmamsg_dc_sender_attr){
		.id = s->id, .addresses = s->address_count,
		.connections = s->open + rdmamsg__sessions_bound(s),
		.queued = s->queued, .connects = s->connects,
		.evictions = s->evictions,
		.queued_bytes = s->copied, .sessions = s->session_count,
	};
	return rdmamsg__give(attr, &a, sizeof(a));
}
