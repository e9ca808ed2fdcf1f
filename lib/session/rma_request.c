/* SPDX-License-Identifier: BSD-2-Clause */
/* The next work request of a one-sided operation. */
#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "memory/layout.h"
#include "memory/region.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/tx.h"
#include "session/window.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

void rdmamsg__rma_copy(const struct rma *r, uint8_t *dst)
{
	size_t len = 0;

	for (uint32_t i = 0; i < r->entries; i++) {
		memcpy(dst + len, (const void *)(uintptr_t)r->entry[i].addr,
		       r->entry[i].len);
		len += r->entry[i].len;
	}
}

uint32_t rdmamsg__read_entries(const struct rdmamsg_ep *ep)
{
	const int most = ep->lane.dev->device->attr.max_sge_rd;
	const uint32_t entries = rdmamsg__rma_entries(ep);

	return most > 0 ? min(entries, (uint32_t)most) : entries;
}

/* Fills one request of at most 'room' bytes with the next gather entries. */
static uint32_t gather(const struct rdmamsg_ep *ep, struct rma *r,
		       struct tx_entry *e, uint32_t room)
{
	const uint32_t limit = r->kind == RMA_READ ? rdmamsg__read_entries(ep) :
			       rdmamsg__rma_entries(ep);
	uint32_t len = 0, n = 0;

	while (n < limit && len < room && r->at < r->entries) {
		const struct rma_entry *s = &r->entry[r->at];
		uint32_t part = (uint32_t)min(s->len - r->offset,
					      (uint64_t)room - len);

		e->sges[n].addr = s->addr + r->offset;
		e->sges[n].length = part;
		e->sges[n].lkey = s->lkey;
		if (unlikely(r->scattered && s->region && s->region->layout)) {
			rdmamsg__layout_sge(s->region->layout, ep->lane.dev,
					    s->addr + r->offset, part,
					    &e->sges[n]);
			part = e->sges[n].length;
		}
		n++;
		len += part;
		r->offset += part;
		if (r->offset == s->len) {
			r->at++;
			r->offset = 0;
		}
	}
	e->wr.sg_list = e->sges;
	e->wr.num_sge = (int)n;
	return len;
}

/*
 * Addresses the next block of a peer's layout. Returns its length up to that of
 * a request.
 */
static uint32_t fill_far(const struct rdmamsg_ep *ep, const struct rma *r,
			 struct tx_entry *e)
{
	uint64_t addr = 0, room = 0;
	uint32_t rkey = 0;

	if (r->left)
		room = rdmamsg__layout_far(r->far, r->raddr, &addr, &rkey);
	e->wr.wr.rdma.remote_addr = addr;
	e->wr.wr.rdma.rkey = rkey;
	return (uint32_t)min(room, (uint64_t)ep->lane.chunk);
}

/* Makes two gather entries of one that crosses a page boundary. */
static void split(const struct rdmamsg_ep *ep, struct tx_entry *e)
{
	struct ibv_sge *s = e->sges;
	const uint32_t first = TORN_PAGE - (uint32_t)(s->addr % TORN_PAGE);

	if (e->wr.num_sge != 1 || s->length <= first ||
	    rdmamsg__rma_entries(ep) < 2)
		return;
	s[1] = (struct ibv_sge){
		.addr = s->addr + first, .length = s->length - first,
		.lkey = s->lkey,
	};
	s->length = first;
	e->wr.num_sge = 2;
}

/*
 * Like gather(), in a way that neither device sends wrong bytes (struct quirks,
 * torn_max).
 */
static uint32_t gather_untorn(const struct rdmamsg_ep *ep, struct rma *r,
			      struct tx_entry *e, uint32_t room)
{
	const uint64_t offset = r->offset;
	const uint32_t at = r->at;
	uint32_t len = gather(ep, r, e, room), untorn;

	if (likely(!ep->lane.came) || !rdmamsg__may_tear(&ep->lane, len))
		return len;
	if (r->kind == RMA_WRITE) {
		split(ep, e);
		return len;
	}
	untorn = rdmamsg__read_untorn(&ep->lane, e->wr.wr.rdma.remote_addr,
				      len);
	if (untorn == len)
		return len;
	r->offset = offset;
	r->at = at;
	return gather(ep, r, e, untorn);
}

static uint32_t fill_transfer(struct rdmamsg_ep *ep, struct rma *r,
			      struct tx_entry *e)
{
	uint32_t len;

	e->wr.opcode = r->kind == RMA_READ ? IBV_WR_RDMA_READ :
		       IBV_WR_RDMA_WRITE;
	e->wr.wr.rdma.remote_addr = r->raddr;
	e->wr.wr.rdma.rkey = r->rkey;
	if (unlikely(!r->left && ep->lane.came && r->kind == RMA_READ)) {
		rdmamsg__tx_aim_proof(ep, e);
		return 0;
	}
	if (unlikely(r->far))
		return gather_untorn(ep, r, e, fill_far(ep, r, e));
	if (!rdmamsg__rma_fits_inline(ep, r))
		return gather_untorn(ep, r, e, ep->lane.chunk);
	len = (uint32_t)r->left;
	rdmamsg__rma_copy(r, e->data);
	e->wr.send_flags |= IBV_SEND_INLINE;
	e->sge.addr = (uintptr_t)e->data;
	e->sge.length = len;
	e->wr.num_sge = len != 0;
	return len;
}

void rdmamsg__rma_fill_atomic(const struct rdmamsg_ep *ep,
			      const struct rma *r, struct tx_entry *e)
{
	bool add = r->kind == RMA_FETCH_ADD;

	e->wr.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD :
		       IBV_WR_ATOMIC_CMP_AND_SWP;
	e->wr.wr.atomic.remote_addr = r->raddr;
	e->wr.wr.atomic.rkey = r->rkey;
	e->wr.wr.atomic.compare_add = add ? r->operand : r->expected;
	e->wr.wr.atomic.swap = r->operand;
	if (unlikely(ep->lane.doubts_reads))
		*rdmamsg__rma_result(ep, r) = rdmamsg__rma_no_result(ep);
	e->sge.addr = (uintptr_t)rdmamsg__rma_result(ep, r);
	e->sge.length = sizeof(uint64_t);
	e->sge.lkey = ep->onesided.results->lkey;
}

uint32_t rdmamsg__rma_fill(struct rdmamsg_ep *ep, struct rma *r,
			   struct tx_entry *e)
{
	switch (r->kind) {
	case RMA_WRITE:
	case RMA_READ:
		return fill_transfer(ep, r, e);
	case RMA_FETCH_ADD:
	case RMA_COMPARE_SWAP:
		rdmamsg__rma_fill_atomic(ep, r, e);
		return sizeof(uint64_t);
	case RMA_EMULATED:
		rdmamsg__rma_fill_atomic(ep, r, e);
		ep->ctx->tx->signal = true;
		return 0;		/* the answer decides */
	default:
		rdmamsg__window_fill(r, &e->wr);
		return 0;
	}
}
