/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ctx.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/early.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

/* Moves the completions to the front. */
static void pack(struct early *e)
{
	memmove(e->wc, e->wc + e->first, e->count * sizeof(*e->wc));
	e->first = 0;
}

/*
 * Makes room for a poll. The memory stays until the queue ends, and is never
 * more than what the device has for the queue, and a poll.
 */
static bool make_room(struct early *e, uint32_t most)
{
	uint32_t room = max(2 * e->count, 4u * EARLY_POLL);
	struct ibv_wc *wc;

	if (e->count >= most)
		return false;
	if (e->first + e->count + EARLY_POLL <= e->room)
		return true;
	if (e->first)
		pack(e);
	if (e->count + EARLY_POLL <= e->room)
		return true;
	wc = realloc(e->wc, room * sizeof(*wc));
	if (!wc)
		return false;
	e->wc = wc;
	e->room = room;
	return true;
}

bool rdmamsg__early_reserve(struct cq *cq)
{
	return make_room(&cq->early, cq->room);
}

int rdmamsg__early_poll(struct cq *cq, struct ibv_wc **ret)
{
	struct early *e = &cq->early;
	int got;

	if (!rdmamsg__early_reserve(cq))
		return 0;
	*ret = e->wc + e->first + e->count;
	got = ibv_poll_cq(cq->ibv, EARLY_POLL, *ret);
	return max(got, 0);
}

/* The number of queues with early completions has changed. */
static void count_queue(struct rdmamsg *ctx, bool more)
{
	ctx->devices->early += more ? 1 : -1u;
	rdmamsg__cq_inline(ctx);
}

void rdmamsg__early_keep(struct rdmamsg *ctx, struct cq *cq,
			 const struct ibv_wc *wc)
{
	struct early *e = &cq->early;

	e->wc[e->first + e->count] = *wc;
	if (!e->count++)
		count_queue(ctx, true);
}

int rdmamsg__early_take(struct rdmamsg *ctx, struct cq *cq, struct ibv_wc *wc,
			uint32_t n)
{
	struct early *e = &cq->early;
	uint32_t got = min(n, e->count);
	int more = 0;

	memcpy(wc, e->wc + e->first, got * sizeof(*wc));
	e->first += got;
	e->count -= got;
	if (!e->count) {
		e->first = 0;
		count_queue(ctx, false);
	}
	if (got < n)
		more = ibv_poll_cq(cq->ibv, (int)(n - got), wc + got);
	return (int)got + max(more, 0);
}

void rdmamsg__early_drop(struct rdmamsg *ctx, struct early *e)
{
	ctx->devices->early -= e->count != 0;
	free(e->wc);
	*e = (struct early){ 0 };
}
