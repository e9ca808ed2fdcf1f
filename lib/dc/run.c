/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations of a session that take more than one request: from or
 * into layouts, and of more bytes than a request has. The session posts nothing
 * else between these requests. The last one completes the operation.
 */
#include "base/util.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/port.h"
#include "dc/session.h"
#include "device/device.h"
#include "memory/layout.h"
#include "memory/region.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/rma.h>

/* The entry is the copy of all entries. */
static uint32_t gather_copy(const struct dc_session *x, const struct dc_msg *m,
			    const struct rdmamsg_sge *e, uint32_t len,
			    struct ibv_sge *ret)
{
	const uint64_t at = m->flight->run.at;

	if (m->flight->count) {
		*ret = (struct ibv_sge){
			(uintptr_t)e->data + at, len, m->flight->mr[0]->lkey,
		};
		return len;
	}
	memcpy(rdmamsg__peer_slot(&x->peer), (const uint8_t *)e->data + at,
	       len);
	*ret = rdmamsg__peer_sge(&x->peer, len);
	return len;
}

/* Fills in an entry of at most 'most' bytes. Returns their number. */
static uint32_t gather_one(const struct dc_session *x, const struct dc_msg *m,
			   uint32_t most, struct ibv_sge *ret)
{
	const struct dc_run *run = &m->flight->run;
	const struct rdmamsg_sge *e = &m->op.entry[run->entry];
	const struct dev *dev = x->peer.port->dev;
	const uint64_t at = (uintptr_t)e->data + run->at;
	const uint32_t len = (uint32_t)min(e->len - run->at, (uint64_t)most);

	if (!e->region)
		return gather_copy(x, m, e, len, ret);
	if (e->region->layout)
		rdmamsg__layout_sge(e->region->layout, dev, at, len, ret);
	else
		*ret = (struct ibv_sge){
			at, len, rdmamsg__region_mr(e->region, dev)->lkey,
		};
	return ret->length;
}

/* Takes the next bytes, at most 'most'. Returns their number. */
static uint32_t gather(const struct dc_session *x, struct dc_msg *m,
		       uint64_t most, struct ibv_send_wr *wr)
{
	const uint32_t entries = x->peer.dci->dci.max_sge;
	struct dc_run *run = &m->flight->run;
	uint32_t got = 0, n = 0;

	while (n < entries && got < most && run->left) {
		uint32_t len;

		while (run->at == m->op.entry[run->entry].len) {
			run->entry++;
			run->at = 0;
		}
		len = gather_one(x, m, (uint32_t)most - got, &wr->sg_list[n++]);
		run->at += len;
		run->left -= len;
		got += len;
	}
	wr->num_sge = (int)n;
	return got;
}

/* Posts the next request, and behind the last one what tells the target. */
static void post_next(struct dc_session *x, struct dc_msg *m)
{
	struct ibv_sge sge[RDMAMSG_SEGMENTS_MAX];
	struct ibv_send_wr wr = {
		.sg_list = sge, .opcode = m->op.kind == DC_READ ?
			IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = m->op.flags & RDMAMSG_FENCE ? IBV_SEND_FENCE : 0,
	};
	const bool both = m->op.kind == DC_WRITE_IMM;
	struct dc_run *run = &m->flight->run;
	uint64_t most = REQUEST_MAX, addr = run->raddr;
	uint32_t rkey = run->rkey;
	bool last;

	if (run->far && run->left)
		most = min(most, rdmamsg__layout_far(run->far, run->raddr,
						     &addr, &rkey));
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	run->raddr += gather(x, m, most, &wr);
	last = !run->left;
	if (last)
		x->run = NULL;
	/* if the last one fails at once, the operation ends here */
	rdmamsg__peer_post(&x->peer, &wr, (struct dc_tx){
			.kind = last && !both ? FLIGHT_OP : FLIGHT_PART,
			.late = !last || both, .of = m });
	if (last && both)
		rdmamsg__flight_notify(x, m);
}

void rdmamsg__run_go_on(struct dc_session *x)
{
	if (x->run && x->run->kind == DC_MASKED)
		rdmamsg__tries_go_on(x);
	while (x->run && x->run->kind != DC_MASKED &&
	       rdmamsg__peer_room(&x->peer) >= FLIGHT_ROOM)
		post_next(x, x->run);
}

void rdmamsg__run_begin(struct dc_session *x, struct dc_msg *m,
			const struct proto_key *key, struct layout_import *far,
			uint64_t len)
{
	m->flight->run = (struct dc_run){
		.far = far, .left = len, .rkey = key->rkey,
		.raddr = (far ? 0 : key->addr) + m->op.offset,
	};
	if (far)
		rdmamsg__layout_hold(far);
	x->run = m;
	rdmamsg__run_go_on(x);
}
