/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics of a sender. A connection has those of its endpoint. Without
 * connections a session repeats a compare-and-swap of the word around the
 * operand, as lib/session/masked.c does, and posts nothing else meanwhile.
 *
 * libmlx5 and the soft HCA would also take a raw request here. It has the
 * address of the target behind its control segment (rdma-core, mlx5/qp.c,
 * _mlx5_send_wr_rdma()), and mlx5dv_init_obj(3) gives that of an address
 * handle. The library does not post such requests yet.
 */
#include "base/base.h"
#include "base/masked.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/port.h"
#include "dc/session.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/layout.h"
#include "onesided/rma_ask.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rma.h>

/* ---- without a connection ---------------------------------------------- */

int rdmamsg__tries_check(const struct dc_op *o, const struct proto_key *key,
			 const struct layout_import *far)
{
	const uint64_t skip = (key->addr + o->offset) % sizeof(uint64_t);
	const uint64_t at = o->offset - skip;

	if (o->masked->size > sizeof(uint64_t))
		return rdmamsg__fail(-EOPNOTSUPP, "an operand of %u bytes: "
				     "without connections it has 4 or 8, and "
				     "others need RDMAMSG_DC_CONNECTIONS",
				     o->masked->size);
	if (skip <= o->offset && key->len - at >= sizeof(uint64_t) &&
	    (!far || rdmamsg__layout_has_word(far, at, key->addr + at,
					      key->rkey)))
		return 0;
	return rdmamsg__fail(-ERANGE, "offset %llu: in software an operand of "
			     "%u bytes needs the aligned 8 bytes around it, "
			     "which the key of region %llu does not reach",
			     (unsigned long long)o->offset, o->masked->size,
			     (unsigned long long)key->region);
}

static void aim(struct dc_tries *t, uint64_t word)
{
	t->expected = word;
	t->operand = masked_made(&t->m, word);
}

static void post_try(struct dc_session *x, struct dc_msg *m)
{
	struct dc_tries *t = m->flight->tries;
	struct ibv_sge sge = rdmamsg__peer_sge(&x->peer, sizeof(uint64_t));
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.send_flags = m->op.flags & RDMAMSG_FENCE ? IBV_SEND_FENCE : 0,
		.wr.atomic = {
			.remote_addr = t->raddr, .rkey = t->rkey,
			.compare_add = t->expected, .swap = t->operand,
		},
	};

	/* if the post fails, the operation ends in it */
	t->out = true;
	rdmamsg__peer_post(&x->peer, &wr, (struct dc_tx){
			.kind = FLIGHT_OP, .of = m });
}

void rdmamsg__tries_go_on(struct dc_session *x)
{
	if (!x->run->flight->tries->out &&
	    rdmamsg__peer_room(&x->peer) >= FLIGHT_ROOM)
		post_try(x, x->run);
}

int rdmamsg__tries_begin(struct dc_session *x, struct dc_msg *m,
			 const struct proto_key *key)
{
	const uint64_t addr = key->addr + m->op.offset;
	struct dc_tries *t = calloc(1, sizeof(*t));

	if (!t)
		return rdmamsg__fail(-ENOMEM, "no memory for a masked atomic");
	t->m = *m->op.masked;
	t->shift = masked_shift(addr, t->m.size);
	masked_place(&t->m, t->shift);
	t->raddr = addr & ~(sizeof(uint64_t) - 1);
	t->rkey = key->rkey;
	t->left = MASKED_TRIES;
	aim(t, masked_guess(&t->m));
	m->flight->tries = t;
	list_add_tail(&x->flights, &m->node);
	x->run = m;
	post_try(x, m);
	return 0;
}

/* Returns true if the word has what the operation makes of it. */
static bool is_made(struct dc_tries *t, uint64_t was, int *status)
{
	if (was == t->expected)
		return true;
	aim(t, was);
	if (t->operand == was)
		return true;		/* there is nothing to change */
	if (--t->left)
		return false;
	*status = -EBUSY;
	return true;
}

bool rdmamsg__tries_done(struct dc_session *x, struct dc_msg *m,
			 const struct dc_tx *tx, int *status)
{
	struct dc_tries *t = m->flight->tries;
	uint64_t was;

	t->out = false;
	memcpy(&was, tx->slot, sizeof(was));
	if (!*status && !is_made(t, was, status))
		return false;
	if (!*status && m->op.result)
		masked_out(&t->m, t->shift, was, m->op.result);
	if (x->run == m)
		x->run = NULL;
	return true;
}

/* ---- which there are --------------------------------------------------- */

static int give_attr(const struct dc_session *x,
		     struct rdmamsg_masked_attr *attr)
{
	struct rdmamsg_masked_attr a = {
		.size = sizeof(a), .how = RDMAMSG_CAP_SOFTWARE,
		.sizes = MASKED_SMALL, .max_field = MASKED_FIELD,
		.unit = sizeof(uint64_t),
		.reason = "without connections: repeated compare-and-swap",
	};
	const struct rdmamsg_masked_attr none = {
		.size = sizeof(none), .how = RDMAMSG_CAP_ABSENT,
		.reason = "the device has no atomic operations",
	};
	const struct rdmamsg_device *d = x->peer.port->dev->device;

	return rdmamsg__give(attr, rdmamsg__atomic_scope(d) ==
			     RDMAMSG_ATOMIC_NONE ? &none : &a, sizeof(a));
}

int rdmamsg_dc_address_masked_query(const struct rdmamsg_dc_address *a,
				    struct rdmamsg_masked_attr *attr)
{
	int err = rdmamsg__dc_check(a, "rdmamsg_dc_address_masked_query");

	if (err)
		return err;
	if (a->initiator && a->initiator->state == INITIATOR_OPEN)
		return rdmamsg_ep_masked_query(a->initiator->ep, attr);
	if (a->session && a->session->state == SESSION_OPEN)
		return give_attr(a->session, attr);
	return rdmamsg__fail(-ENOTCONN, "rdmamsg_dc_address_masked_query: "
			     "%s port %s has no connection: send a message, or "
			     "wait until one has completed", a->host,
			     a->service);
}
