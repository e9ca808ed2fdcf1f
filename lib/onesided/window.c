/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows of type 2: access to a part of a region for the peer of one
 * endpoint, given and taken back in its send queue, in turn with all else.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "memory/region.h"
#include "onesided/rma.h"
#include "session/ep.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define WINDOW_CAPS	(IBV_DEVICE_MEM_WINDOW_TYPE_2A | \
			 IBV_DEVICE_MEM_WINDOW_TYPE_2B)

struct rdmamsg_window {
	struct list node;		/* of the endpoint */
	struct rdmamsg_ep *ep;
	struct ibv_mw *mw;
	uint32_t busy;			/* operations on it */
	bool bound;			/* as of the last call */
	/* of the last binding; NULL: it has ended */
	struct rdmamsg_region *region;
	uint64_t addr, len;
	uint32_t access;
	uint32_t rkey;
};

/* A request for what the operation is about. */
void rdmamsg__window_fill(const struct rma *r, struct ibv_send_wr *wr)
{
	const struct rdmamsg_window *w = r->window;

	wr->num_sge = 0;
	if (r->kind == RMA_INVALIDATE) {
		wr->opcode = IBV_WR_LOCAL_INV;
		wr->invalidate_rkey = w->rkey;
		return;
	}
	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = w->mw;
	wr->bind_mw.rkey = w->rkey;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = rdmamsg__region_mr(w->region, w->ep->lane.dev),
		.addr = w->addr, .length = w->len,
		.mw_access_flags = (unsigned int)
				   rdmamsg__verbs_remote(w->access),
	};
}

static void let_go(struct rdmamsg_window *w)
{
	if (w->region)
		w->region->busy--;
	w->region = NULL;
}

void rdmamsg__window_done(struct rma *r, int status)
{
	r->window->busy--;
	/* after a failure the device may still think that it is bound */
	if (r->kind == RMA_INVALIDATE && !status)
		let_go(r->window);
}

void rdmamsg__window_taken(struct rdmamsg_ep *ep, uint32_t rkey)
{
	struct list *n;

	list_for_each(n, &ep->onesided.windows) {
		struct rdmamsg_window *w = list_entry(n, struct rdmamsg_window,
						      node);

		/* if it is being taken back here as well, that will fail */
		if (w->rkey != rkey || !w->bound)
			continue;
		w->bound = false;
		let_go(w);
		rdmamsg__tell(&ep->ctx->loop, ep->on.on_invalidated, ep, w);
		return;
	}
}

void rdmamsg__window_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	const struct op *op =
		ep->lane.sq.slots[(uint32_t)wc->wr_id & ep->lane.sq.mask];

	if (wc->status != IBV_WC_REM_OP_ERR &&
	    wc->status != IBV_WC_REM_ACCESS_ERR &&
	    wc->status != IBV_WC_REM_INV_REQ_ERR)
		return;
	if (wc->wr_id & 0x80000000u || !op || op->kind != OP_EAGER ||
	    !op->invalidate)
		return;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ACCESS, -EACCES,
			   "region %llu of the peer: its key 0x%x is of no "
			   "window that could be taken back: %s, vendor 0x%x",
			   (unsigned long long)op->region, op->rkey,
			   ibv_wc_status_str(wc->status), wc->vendor_err);
}

/* 0, or why the peer may still reach it; there is nothing more to be done. */
static int window_free(struct rdmamsg_window *w)
{
	const struct rdmamsg_device *d = w->ep->lane.dev->device;
	int ret = rdmamsg__v_dealloc_mw(w->mw);

	if (ret)
		log_error("device %s: a window could not be freed", d->name);
	let_go(w);
	list_del(&w->node);
	free(w);
	return d->gone ? 0 : ret;
}

void rdmamsg__windows_free(struct rdmamsg_ep *ep)
{
	while (!list_empty(&ep->onesided.windows))
		(void)window_free(list_first(&ep->onesided.windows,
					     struct rdmamsg_window, node));
}

static int window_check(const struct rdmamsg_window *w)
{
	if (!w)
		return rdmamsg__fail(-EINVAL, "the window is NULL");
	return rdmamsg__tx_check(w->ep);
}

const char *rdmamsg__window_lack(const struct rdmamsg_device *d)
{
	if (!(d->attr.device_cap_flags & WINDOW_CAPS))
		return "it has no memory windows of type 2";
	/*
	 * Linux 6.1, rxe_resp.c: check_rkey() looks at the bounds of the region
	 * only, and do_complete() does not tell programs what was invalidated
	 */
	if (d->kind == KIND_SOFT_ROCE)
		return "the memory windows of Soft-RoCE do not keep to their "
		       "bounds";
	return NULL;
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
	if (!region || region->ctx != w->ep->ctx || offset > region->len ||
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
	/* what went before is done with the memory */
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
	w->mw->rkey = w->rkey;		/* a provider may look: as it is now */
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
	err = window_free(w);
	rdmamsg__ep_ready(ep);
	return err ? rdmamsg__fail_verbs(err, "freeing a window: the peer may "
					 "still reach what it was bound to") :
	       0;
}
