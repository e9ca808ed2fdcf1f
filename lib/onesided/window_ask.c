/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the window calls of the program before a request is made. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "memory/region.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/send.h"
#include "session/window.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static int window_check(const struct rdmamsg_window *w)
{
	if (!w)
		return rdmamsg__fail(-EINVAL, "the window is NULL");
	return rdmamsg__tx_check(w->ep);
}

static int check_able(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_device *d = ep->lane.dev->device;
	const char *lack = rdmamsg__window_lack(d);

	if (!(ep->connect.features & PROTO_FEATURE_RMA))
		return rdmamsg__fail(-EOPNOTSUPP, "the peer's library knows no "
				     "one-sided operations");
	if (lack)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s: %s", d->name,
				     lack);
	return 0;
}

static int check_binding(const struct rdmamsg_window *w,
			 const struct rdmamsg_region *region, size_t offset,
			 size_t len, uint32_t access)
{
	if (!region || region->layout || region->ctx != w->ep->ctx ||
	    offset > region->len ||
	    !len || len > region->len - offset)
		return rdmamsg__fail(-EINVAL, "the region is NULL or another "
				     "context's, or the window is not in it");
	if (!access || access & ~(uint32_t)ACCESS_REMOTE)
		return rdmamsg__fail(-EINVAL, "access 0x%x: read, write and "
				     "atomic are possible", access);
	if (!(region->access & RDMAMSG_ACCESS_WINDOW))
		return rdmamsg__fail(-EACCES, "the region does not have "
				     "RDMAMSG_ACCESS_WINDOW");
	if (!rdmamsg__region_mr(region, w->ep->lane.dev))
		return rdmamsg__region_missing(region, w->ep->lane.dev);
	if (w->bound || w->region)
		return rdmamsg__fail(-EBUSY, "the window is bound: "
				     "rdmamsg_window_invalidate(), and wait "
				     "for its on_complete");
	return 0;
}

static void start(struct rdmamsg_window *w, struct rma *r, enum rma_kind kind,
		  void *cookie)
{
	r->kind = kind;
	r->window = w;
	r->peer_region = w->region->id;
	/* earlier operations must have finished with the memory */
	r->fence = true;
	r->op.cookie = cookie;
	w->bound = kind == RMA_BIND;
	w->busy++;
	rdmamsg__rma_start(w->ep, r);
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_window_create(struct rdmamsg_ep *ep, struct rdmamsg_window **ret)
{
	struct rdmamsg_window *w;
	int err = rdmamsg__tx_check(ep);

	if (err)
		return err;
	if (!ret)
		return rdmamsg__fail(-EINVAL, "rdmamsg_window_create: ret is "
				     "NULL");
	err = check_able(ep);
	if (err)
		return err;
	if (rdmamsg__keeps(ep))
		return rdmamsg__fail(-EOPNOTSUPP, "a window belongs to one "
				     "queue pair, and failover may replace it: "
				     "use rungs without STANDBY and LANE");
	w = calloc(1, sizeof(*w));
	if (!w)
		return rdmamsg__fail(-ENOMEM, "no memory for a window");
	err = rdmamsg__v_alloc_mw(ep->lane.dev->pd, IBV_MW_TYPE_2, &w->mw);
	if (err) {
		free(w);
		return rdmamsg__fail_verbs(err, "memory window");
	}
	w->ep = ep;
	w->rkey = w->mw->rkey;
	list_add_tail(&ep->onesided.windows, &w->node);
	rdmamsg__ep_ready(ep);
	*ret = w;
	return 0;
}

int rdmamsg_window_bind(struct rdmamsg_window *w, struct rdmamsg_region *region,
			size_t offset, size_t len, uint32_t access,
			struct rdmamsg_key *ret, void *cookie)
{
	struct proto_key key;
	struct rma *r;
	int err = window_check(w);

	if (err)
		return err;
	if (!ret)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_window_bind: ret is NULL");
	err = check_binding(w, region, offset, len, access);
	if (!err)
		err = rdmamsg__rma_get(w->ep, &r);
	if (err)
		return err;
	w->region = region;
	region->busy++;
	w->addr = (uintptr_t)region->addr + offset;
	w->len = len;
	w->access = access;
	w->mw->rkey = w->rkey;		/* providers may read the rkey */
	w->rkey = ibv_inc_rkey(w->rkey);
	key = (struct proto_key){
		.access = (uint8_t)access, .rkey = w->rkey,
		.region = region->id, .addr = w->addr, .len = len,
	};
	rdmamsg__key_encode(&key, ret->bytes);
	rdmamsg__region_given(region, w->ep->lane.dev, w->ep->key);
	start(w, r, RMA_BIND, cookie);
	return 0;
}

int rdmamsg_window_invalidate(struct rdmamsg_window *w, void *cookie)
{
	struct rma *r;
	int err = window_check(w);

	if (err)
		return err;
	if (!w->bound)
		return rdmamsg__fail(-EINVAL, "the window is not bound");
	err = rdmamsg__rma_get(w->ep, &r);
	if (err)
		return err;
	start(w, r, RMA_INVALIDATE, cookie);
	return 0;
}

int rdmamsg_window_destroy(struct rdmamsg_window *w)
{
	struct rdmamsg_ep *ep = w ? w->ep : NULL;
	int err = w ? rdmamsg__ep_check(ep) : 0;

	if (err || !w)
		return err;
	if (w->busy)
		return rdmamsg__fail(-EBUSY, "operations on the window are not "
				     "over: wait for on_complete");
	err = rdmamsg__window_free(w);
	rdmamsg__ep_ready(ep);
	return err ? rdmamsg__fail_verbs(err, "freeing a window: the peer may "
					 "still reach what it was bound to") :
	       0;
}
