/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with references. */
#include "base/base.h"
#include "base/ctx.h"
#include "device/device.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "memory/source.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/send.h"
#include "session/shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include <rdmamsg/rdmamsg.h>

/* The message is as before its first reference. */
static void restore(struct share *s, enum msg_lent lent)
{
	struct rdmamsg_msg *msg = s->msg;

	msg->lent_by = s->lent_by;
	msg->lent = lent;
	rdmamsg__share_end(s);
}

void rdmamsg__shared_given(struct share *s)
{
	struct rdmamsg_msg *msg = s->msg;

	s->given = true;
	if (s->in_place)
		return;		/* rdmamsg__share_kept() calls again */
	if (!s->ops) {
		restore(s, MSG_LENT);
		rdmamsg__msg_back(msg);
		rdmamsg__msg_put(msg);
		return;
	}
	if (s->lent_by)
		rdmamsg__lent_pass(s->lent_by, rdmamsg__msg_bytes(msg));
	if (!--msg->dev->msgs_out && !msg->dev->device)
		rdmamsg__reap(msg->dev->ctx);
}

/* An operation has ended. Returns true if it was the last use. */
static bool is_last_use(struct share *s)
{
	return atomic_fetch_sub(&s->ops, 1) == 1 && s->given && !s->in_place;
}

void rdmamsg__sent_done(struct rdmamsg_msg *msg)
{
	if (msg->lent == MSG_SHARED) {
		struct share *s = msg->share;

		if (!is_last_use(s))
			return;
		restore(s, s->lent_by ? MSG_SENT : MSG_OURS);
	}
	if (msg->lent == MSG_SENT) {
		msg->lent = MSG_OURS;
		rdmamsg__lent_sent(msg->lent_by, rdmamsg__msg_bytes(msg));
	}
	rdmamsg__msg_put(msg);
}

void rdmamsg__shared_free(struct rdmamsg_msg *msg)
{
	struct share *s = msg->share;

	if (!rdmamsg__share_check(s) && rdmamsg__share_drop(s))
		rdmamsg__share_return(s);
}

void rdmamsg__shared_consume(struct rdmamsg_msg *msg)
{
	if (rdmamsg__share_drop(msg->share))
		rdmamsg__shared_given(msg->share);
}

void rdmamsg__shared_pass(struct rdmamsg_msg *msg)
{
	atomic_fetch_add(&msg->share->ops, 1);
	rdmamsg__shared_consume(msg);
}

/*
 * A peer that has read this memory before can read it until the registration
 * ends, so this comes before the message goes to others.
 */
static void end_source(struct rdmamsg_msg *msg)
{
	if (msg->kind == MSG_LARGE)
		rdmamsg__source_dereg(((struct loose_msg *)msg)->large);
}

int rdmamsg__shared_check(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	int ret = rdmamsg__tx_check(ep);

	if (ret)
		return ret;
	if (msg->share->owner != ep->ctx->memory->shares)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: the message "
				     "belongs to another context: copy it with "
				     "rdmamsg_send()");
	if (!msg->data)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: the message "
				     "is in a layout: rdmamsg_post() with "
				     "its layout");
	if (!rdmamsg__lent_passes(msg->share->lent_by,
				  rdmamsg__msg_bytes(msg)))
		return rdmamsg__no_buffer(ep);
	end_source(msg);
	return 0;
}

static int ref_first(struct rdmamsg_msg *msg)
{
	int ret = rdmamsg__ctx_check(msg->dev->ctx);

	if (ret)
		return ret;
	if (!rdmamsg__msg_is_out(msg))
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_ref: the message is "
				     "not yours");
	return rdmamsg__share_new(msg);
}

int rdmamsg_msg_ref(struct rdmamsg_msg *msg)
{
	int ret;

	if (!msg)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_ref: msg is NULL");
	if (msg->lent != MSG_SHARED)
		return ref_first(msg);
	ret = rdmamsg__share_check(msg->share);
	if (!ret)
		atomic_fetch_add_explicit(&msg->share->refs, 1,
					  memory_order_relaxed);
	return ret;
}
