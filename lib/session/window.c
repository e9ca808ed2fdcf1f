/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: requests in the send queue, and their completions. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "memory/region.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/window.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

/* Fills the request of a bind or invalidate operation. */
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

void rdmamsg__window_let_go(struct rdmamsg_window *w)
{
	if (w->region)
		w->region->busy--;
	w->region = NULL;
}

void rdmamsg__window_done(struct rma *r, int status)
{
	r->window->busy--;
	/* after a failure the window may still be bound in the device */
	if (r->kind == RMA_INVALIDATE && !status)
		rdmamsg__window_let_go(r->window);
}

void rdmamsg__window_taken(struct rdmamsg_ep *ep, uint32_t rkey)
{
	struct list *n;

	list_for_each(n, &ep->onesided.windows) {
		struct rdmamsg_window *w = list_entry(n, struct rdmamsg_window,
						      node);

		/* !bound: this side invalidates it too, which will fail */
		if (w->rkey != rkey || !w->bound)
			continue;
		w->bound = false;
		rdmamsg__window_let_go(w);
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
			   "send: region %llu of the peer: its key 0x%x is of no "
			   "window that could be taken back: %s, vendor 0x%x",
			   (unsigned long long)op->region, op->rkey,
			   ibv_wc_status_str(wc->status), wc->vendor_err);
}

int rdmamsg__window_free(struct rdmamsg_window *w)
{
	const struct rdmamsg_device *d = w->ep->lane.dev->device;
	int ret = rdmamsg__v_dealloc_mw(w->mw);

	if (ret)
		log_error("device %s: a window could not be freed", d->name);
	rdmamsg__window_let_go(w);
	list_del(&w->node);
	free(w);
	return d->gone ? 0 : ret;
}

void rdmamsg__windows_free(struct rdmamsg_ep *ep)
{
	while (!list_empty(&ep->onesided.windows))
		(void)rdmamsg__window_free(list_first(&ep->onesided.windows,
					     struct rdmamsg_window, node));
}
