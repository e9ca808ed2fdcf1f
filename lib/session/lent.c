/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounds the context's memory that the messages of one peer use. */
#include "base/addrmap.h"
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "memory/memory.h"
#include "memory/stretch.h"
#include "memory/account.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

int rdmamsg__lent_new(struct rdmamsg_ep *ep)
{
	struct lent *l = calloc(1, sizeof(*l));

	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	l->refs = 1;
	l->ctx = ep->ctx;
	l->ep = ep;
	l->max = ep->tuning.max_lent;
	list_add_tail(&ep->ctx->sessions->lents, &l->node);
	ep->rndv.lent = l;
	return 0;
}

static void lent_free(struct lent *l)
{
	list_del(&l->node);
	if (l->account)
		rdmamsg__account_put(l->ctx, l->account);
	free(l);
}

static void put(struct lent *l)
{
	if (!--l->refs)
		lent_free(l);
}

void rdmamsg__lents_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->sessions->lents)) {
		struct lent *l =
			list_first(&ctx->sessions->lents, struct lent, node);

		/* the program still holds the endpoint */
		if (l->ep)
			l->ep->rndv.lent = NULL;
		lent_free(l);
	}
}

void rdmamsg__lent_end(struct rdmamsg_ep *ep)
{
	if (!ep->rndv.lent)
		return;
	ep->rndv.lent->ep = NULL;
	put(ep->rndv.lent);
	ep->rndv.lent = NULL;
}

static bool is_fair(const struct account *a, size_t size, size_t own,
		    size_t room)
{
	return rdmamsg__is_fair(a->lent - min(a->lent, own), room, size);
}

bool rdmamsg__lent_allows(struct rdmamsg_ep *ep, size_t size, size_t own)
{
	struct lent *l = ep->rndv.lent;
	size_t room;

	if (!l->bytes && !l->account)
		return true;
	if (l->bytes && l->bytes + size > l->max + own) {
		l->wanted = true;
		return false;
	}
	room = rdmamsg__budget_room(ep->ctx, DIR_IN, false);
	if ((!l->bytes || l->bytes + size <= room + own) &&
	    (!l->account || is_fair(l->account, size, own, room)))
		return true;
	l->wanted = true;
	rdmamsg__starve(ep->ctx, &ep->starving, -ENOBUFS);
	return false;
}

static void give_back(struct lent *l, size_t size)
{
	rdmamsg__lent_sub(l, size);
	if (unlikely(l->wanted && l->ep)) {
		l->wanted = false;
		rdmamsg__ep_touch(l->ep);
	}
}

void rdmamsg__lent_put(struct lent *l, size_t size)
{
	give_back(l, size);
	put(l);
}

bool rdmamsg__lent_passes(const struct lent *l, size_t size)
{
	size_t room;

	if (!l || !size || (!l->sent && !l->account))
		return true;
	if (l->sent && l->sent + size > l->max)
		return false;
	room = rdmamsg__budget_room(l->ctx, DIR_IN, false);
	return !l->account || !l->account->sent ||
	       rdmamsg__is_fair(l->account->sent, room, size);
}

void rdmamsg__lent_pass(struct lent *l, size_t size)
{
	give_back(l, size);
	l->sent += size;
	if (l->account)
		l->account->sent += size;
}

void rdmamsg__lent_sent(struct lent *l, size_t size)
{
	l->sent -= size;
	if (l->account)
		l->account->sent -= size;
	put(l);
}
