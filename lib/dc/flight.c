/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages and one-sided operations of a session that are under way. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/lease.h"
#include "dc/port.h"
#include "dc/session.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "memory/hide.h"
#include "memory/layout.h"
#include "memory/memory.h"
#include "memory/region.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/rma.h>

static struct dev *dev_of(const struct dc_session *x)
{
	return x->peer.port->dev;
}

/* ---- registrations ----------------------------------------------------- */

static void flight_free(const struct dc_session *x, struct dc_msg *m)
{
	struct dc_flight *f = m->flight;

	while (f && f->count)
		if (rdmamsg__v_dereg_mr(dev_of(x)->device->v,
					f->mr[--f->count]))
			log_error("a message could not be deregistered");
	if (f && f->run.far)
		rdmamsg__layout_rele(f->run.far);
	if (f)
		free(f->tries);
	free(f);
	m->flight = NULL;
}

void rdmamsg__flight_end(struct dc_session *x, struct dc_msg *m, int status)
{
	void *cookie = m->cookie;

	list_del(&m->node);
	flight_free(x, m);
	rdmamsg__dc_msg_free(m);
	rdmamsg__dc_complete(x->a, cookie, status);
}

static int flight_new(struct dc_msg *m)
{
	if (m->flight)
		return 0;
	m->flight = calloc(1, sizeof(*m->flight));
	return m->flight ? 0 : rdmamsg__fail(-ENOMEM, "no memory for a "
					     "message");
}

/* Registers memory at an address that strangers cannot guess. */
static int lend(const struct dc_session *x, struct dc_flight *f, void *mem,
		size_t len, struct proto_key *key)
{
	struct dev *dev = dev_of(x);
	struct ibv_mr *mr;
	uint64_t at;
	int err = rdmamsg__hidden_address(dev, mem, &at);

	if (err)
		return err;
	err = rdmamsg__v_reg_mr_iova(dev->device->v, dev->pd, mem, len, at,
				     IBV_ACCESS_REMOTE_READ, &mr);
	if (err)
		return rdmamsg__fail_memory(err, "registering a large message",
					    mem, len, false);
	f->mr[f->count++] = mr;
	*key = (struct proto_key){
		.access = PROTO_KEY_READ, .rkey = mr->rkey,
		.region = ++dev->ctx->memory->regions, .addr = at, .len = len,
	};
	return 0;
}

/* ---- messages ---------------------------------------------------------- */

static int as_iov(struct dc_msg *m, struct iovec *copy,
		  const struct iovec **iov, size_t *len)
{
	int n = m->kind == DC_COPY ? 1 : m->iovcnt;

	*copy = (struct iovec){ m->data, m->copied };
	*iov = m->kind == DC_COPY ? copy : m->iov;
	*len = 0;
	for (int i = 0; i < n; i++) {
		if ((*iov)[i].iov_len && !(*iov)[i].iov_base)
			return rdmamsg__fail(-EINVAL, "segment %d is NULL", i);
		if (__builtin_add_overflow(*len, (*iov)[i].iov_len, len))
			return rdmamsg__fail(-EMSGSIZE, "the segments are "
					     "longer than memory");
	}
	return n;
}

static void send_small(struct dc_session *x, struct dc_msg *m,
		       const struct iovec *iov, int n)
{
	uint8_t *slot = rdmamsg__peer_slot(&x->peer), *at = slot + DCF_LEN;

	rdmamsg__session_frame(x, DCF_DATA, x->number++, m->tag);
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len)
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	rdmamsg__peer_send(&x->peer, (uint32_t)(at - slot),
			   (struct dc_tx){ .kind = FLIGHT_DATA,
					   .late = !m->cookie,
					   .cookie = m->cookie });
	rdmamsg__dc_msg_free(m);
}

static int announce(struct dc_session *x, struct dc_msg *m,
		    const struct iovec *iov, int n, size_t len)
{
	struct proto_rndv wire = { .total = (uint32_t)len };
	uint8_t *slot = rdmamsg__peer_slot(&x->peer);
	int err = flight_new(m);

	for (int i = 0; i < n && !err; i++)
		if (iov[i].iov_len)
			err = lend(x, m->flight, iov[i].iov_base,
				   iov[i].iov_len, &wire.keys[wire.count++]);
	if (err) {
		flight_free(x, m);
		return err;
	}
	m->flight->announced = true;
	m->flight->number = x->number;
	list_add_tail(&x->flights, &m->node);
	rdmamsg__session_frame(x, DCF_RNDV, x->number++, m->tag);
	len = rdmamsg__rndv_encode(&wire, slot + DCF_LEN);
	rdmamsg__peer_send(&x->peer, DCF_LEN + (uint32_t)len,
			   (struct dc_tx){ .kind = FLIGHT_FRAME,
					   .late = true });
	return 0;
}

static int send_message(struct dc_session *x, struct dc_msg *m)
{
	const struct iovec *iov;
	struct iovec copy;
	size_t len;
	int n = as_iov(m, &copy, &iov, &len);

	if (n < 0)
		return n;
	if (len > x->max_msg)
		return rdmamsg__fail(-EMSGSIZE, "%zu bytes: the target takes "
				     "at most %u", len, x->max_msg);
	if (len > x->eager)
		return announce(x, m, iov, n, len);
	send_small(x, m, iov, n);
	return 0;
}

void rdmamsg__flight_done(struct dc_session *x, const struct dc_frame *f)
{
	struct list *n;

	list_for_each(n, &x->flights) {
		struct dc_msg *m = list_entry(n, struct dc_msg, node);

		if (!m->flight || !m->flight->announced ||
		    m->flight->number != f->number)
			continue;
		rdmamsg__flight_end(x, m, f->tag == PROTO_DONE_OK ? 0 :
				    -ECANCELED);
		return;
	}
}

/* ---- one-sided operations ---------------------------------------------- */

static bool is_atomic(const struct dc_op *o)
{
	return o->kind >= DC_FETCH_ADD;
}

static int check_atomic(const struct dc_session *x, const struct dc_op *o,
			struct proto_key *key, const struct layout_import *far)
{
	const uint32_t bytes = o->masked ? o->masked->size : sizeof(uint64_t);
	const struct rdmamsg_device *d = dev_of(x)->device;
	int err;

	if (rdmamsg__atomic_scope(d) == RDMAMSG_ATOMIC_NONE)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s has no atomic "
				     "operations", d->name);
	if (key->len - o->offset < bytes)
		return rdmamsg__fail(-ERANGE, "offset %llu: the key of region "
				     "%llu reaches %llu bytes",
				     (unsigned long long)o->offset,
				     (unsigned long long)key->region,
				     (unsigned long long)key->len);
	err = far ? rdmamsg__layout_operand(far, o->offset, bytes, key) : 0;
	if (err)
		return err;
	if ((key->addr + o->offset) % bytes)
		return rdmamsg__fail(-EINVAL, "atomic operations need an "
				     "address that is a multiple of %u", bytes);
	return o->masked ? rdmamsg__tries_check(o, key, far) : 0;
}

static int check_key(const struct dc_session *x, const struct dc_op *o,
		     struct proto_key *key, struct layout_import **ret_far)
{
	const uint8_t needed = is_atomic(o) ? PROTO_KEY_ATOMIC :
			       o->kind == DC_READ ? PROTO_KEY_READ :
			       PROTO_KEY_WRITE;

	*ret_far = NULL;
	if (!rdmamsg__layout_find(dev_of(x)->ctx, o->key, ret_far, key) &&
	    rdmamsg__key_decode(key, o->key->bytes, PROTO_KEY_LEN))
		return rdmamsg__fail(-EINVAL, "the key is no key");
	if (!(key->access & needed))
		return rdmamsg__fail(-EACCES, "the key of region %llu does not "
				     "allow it",
				     (unsigned long long)key->region);
	if (o->offset > key->len)
		return rdmamsg__fail(-ERANGE, "offset %llu: the key of region "
				     "%llu reaches %llu bytes",
				     (unsigned long long)o->offset,
				     (unsigned long long)key->region,
				     (unsigned long long)key->len);
	return is_atomic(o) ? check_atomic(x, o, key, *ret_far) : 0;
}

/*
 * The entry is the copy of all entries, because one of them has no region. A
 * small one goes into the slot of the request.
 */
static int take_copy(const struct dc_session *x, struct dc_msg *m,
		     const struct rdmamsg_sge *e, struct ibv_sge *ret)
{
	struct dev *dev = dev_of(x);
	struct ibv_mr *mr;
	int err;

	if (e->len <= PORT_SLOT) {
		memcpy(rdmamsg__peer_slot(&x->peer), e->data, e->len);
		*ret = rdmamsg__peer_sge(&x->peer, (uint32_t)e->len);
		return 0;
	}
	err = flight_new(m);
	if (err)
		return err;
	err = rdmamsg__v_reg_mr(dev->device->v, dev->pd, e->data,
					e->len, 0, &mr);
	if (err)
		return rdmamsg__fail_verbs(err, "registering a copy");
	m->flight->mr[m->flight->count++] = mr;
	*ret = (struct ibv_sge){
		(uintptr_t)e->data, (uint32_t)e->len, mr->lkey,
	};
	return 0;
}

static int take_layout(const struct dc_session *x, const struct rdmamsg_sge *e)
{
	struct rdmamsg_layout *l = e->region->layout;
	int err = rdmamsg__layout_range(l, (uintptr_t)e->data, e->len);

	return err ? err : rdmamsg__layout_register(l, dev_of(x));
}

static int take_memory(const struct dc_session *x, const struct rdmamsg_sge *e,
		       struct ibv_sge *ret)
{
	struct rdmamsg_region *r = e->region;
	const uintptr_t at = (uintptr_t)e->data, from = (uintptr_t)r->addr;
	int err;

	if (at < from || at - from > r->len || e->len > r->len - (at - from))
		return rdmamsg__fail(-EINVAL, "a gather entry is outside of "
				     "its region");
	err = rdmamsg__region_register(r, dev_of(x));
	if (!err)
		*ret = (struct ibv_sge){
			at, (uint32_t)e->len,
			rdmamsg__region_mr(r, dev_of(x))->lkey,
		};
	return err;
}

static int take_region(const struct dc_session *x, const struct dc_op *o,
		       const struct rdmamsg_sge *e, struct ibv_sge *ret)
{
	if (o->kind == DC_READ &&
	    !(e->region->access & RDMAMSG_ACCESS_LOCAL_WRITE))
		return rdmamsg__fail(-EACCES, "a gather entry's region does "
				     "not have RDMAMSG_ACCESS_LOCAL_WRITE");
	return e->region->layout ? take_layout(x, e) : take_memory(x, e, ret);
}

/* Gather entries of one request, if one is enough. */
struct gathered {
	struct ibv_sge sge[RDMAMSG_SEGMENTS_MAX];
	int count;
	uint64_t len;
	bool scattered;			/* takes a run */
};

static int take_entries(const struct dc_session *x, struct dc_msg *m,
			uint64_t room, struct gathered *g)
{
	const struct dc_op *o = &m->op;
	int err;

	for (int i = 0; i < o->count; i++) {
		const struct rdmamsg_sge *e = &o->entry[i];
		struct ibv_sge *sge = &g->sge[g->count];

		if (!e->len)
			continue;
		if (e->len > room - g->len)
			return rdmamsg__fail(-ERANGE, "the gather entries are "
					     "longer than what the key reaches "
					     "from offset %llu on",
					     (unsigned long long)o->offset);
		g->len += e->len;
		g->count++;
		g->scattered |= e->region && e->region->layout;
		err = e->region ? take_region(x, o, e, sge) :
		      take_copy(x, m, e, sge);
		if (err)
			return err;
	}
	g->scattered |= g->len > REQUEST_MAX ||
			(uint32_t)g->count > x->peer.dci->dci.max_sge;
	return 0;
}

static enum ibv_wr_opcode opcode_of(const struct dc_op *o)
{
	switch (o->kind) {
	case DC_READ:
		return IBV_WR_RDMA_READ;
	case DC_FETCH_ADD:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	case DC_COMPARE_SWAP:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	default:
		return IBV_WR_RDMA_WRITE;
	}
}

static void set_remote(struct ibv_send_wr *wr, const struct dc_op *o,
		       const struct proto_key *key)
{
	if (!is_atomic(o)) {
		wr->wr.rdma.remote_addr = key->addr + o->offset;
		wr->wr.rdma.rkey = key->rkey;
		return;
	}
	wr->wr.atomic.remote_addr = key->addr + o->offset;
	wr->wr.atomic.rkey = key->rkey;
	wr->wr.atomic.compare_add = o->kind == DC_FETCH_ADD ? o->operand :
				    o->expected;
	wr->wr.atomic.swap = o->operand;
}

void rdmamsg__flight_notify(struct dc_session *x, struct dc_msg *m)
{
	rdmamsg__session_frame(x, DCF_WRITTEN, x->number++, m->op.value);
	rdmamsg__peer_send(&x->peer, DCF_LEN, (struct dc_tx){
				.kind = FLIGHT_OP, .of = m });
}

/* One request, and for DC_WRITE_IMM the message. */
static void issue_one(struct dc_session *x, struct dc_msg *m,
		      const struct proto_key *key, struct gathered *g)
{
	struct ibv_send_wr wr = {
		.sg_list = g->sge, .num_sge = g->count,
		.opcode = opcode_of(&m->op),
		.send_flags = m->op.flags & RDMAMSG_FENCE ? IBV_SEND_FENCE : 0,
	};
	const bool both = m->op.kind == DC_WRITE_IMM;

	set_remote(&wr, &m->op, key);
	list_add_tail(&x->flights, &m->node);
	rdmamsg__peer_post(&x->peer, &wr, (struct dc_tx){
			.kind = both ? FLIGHT_FRAME : FLIGHT_OP,
			.late = both, .of = m });
	if (both)
		rdmamsg__flight_notify(x, m);
}

static int begin_tries(struct dc_session *x, struct dc_msg *m,
		       const struct proto_key *key)
{
	int err = flight_new(m);

	if (!err)
		err = rdmamsg__tries_begin(x, m, key);
	if (err)
		flight_free(x, m);
	return err;
}

static int issue(struct dc_session *x, struct dc_msg *m)
{
	struct gathered g = { .count = 0 };
	struct layout_import *far;
	struct proto_key key;
	int err = check_key(x, &m->op, &key, &far);

	if (err)
		return err;
	if (m->kind == DC_MASKED)
		return begin_tries(x, m, &key);
	if (is_atomic(&m->op)) {
		g.sge[g.count++] = rdmamsg__peer_sge(&x->peer,
						     sizeof(uint64_t));
	} else {
		err = take_entries(x, m, key.len - m->op.offset, &g);
		g.scattered |= far && g.len;
	}
	if (!err && g.scattered)
		err = flight_new(m);
	if (err) {
		flight_free(x, m);
		return err;
	}
	if (!g.scattered) {
		issue_one(x, m, &key, &g);
		return 0;
	}
	list_add_tail(&x->flights, &m->node);
	rdmamsg__run_begin(x, m, &key, far, g.len);
	return 0;
}

/* ---- messages in doubt ------------------------------------------------- */

static void doubt_cookie(struct dc_session *x, void *cookie)
{
	struct dc_msg *m = calloc(1, sizeof(*m));

	if (!m) {
		log_error("no memory for a message in doubt");
		rdmamsg__dc_complete(x->a, cookie, -ECANCELED);
		return;
	}
	m->kind = DC_COPY;
	m->cookie = cookie;
	rdmamsg__lease_doubt(&x->lease, &m->node);
}

void rdmamsg__flight_data_done(struct dc_session *x, void *cookie, int status)
{
	if (likely(status || !cookie || rdmamsg__lease_holds(&x->lease)))
		rdmamsg__dc_complete(x->a, cookie, status);
	else
		doubt_cookie(x, cookie);
}

void rdmamsg__flight_answered(struct dc_session *x, const struct dc_frame *f)
{
	struct list *n;

	rdmamsg__lease_answer(&x->lease, f->tag);
	while ((n = rdmamsg__lease_next(&x->lease)))
		rdmamsg__flight_end(x, list_entry(n, struct dc_msg, node), 0);
}

/* ---- completions ------------------------------------------------------- */

void rdmamsg__flight_part_done(const struct dc_tx *tx, int status)
{
	struct dc_flight *f = ((struct dc_msg *)tx->of)->flight;

	if (status && !f->status)
		f->status = status;
}

void rdmamsg__flight_op_done(struct dc_session *x, const struct dc_tx *tx,
			     int status)
{
	struct dc_msg *m = tx->of;

	if (m->flight && m->flight->status)
		status = m->flight->status;
	if (m->kind == DC_MASKED) {
		if (rdmamsg__tries_done(x, m, tx, &status))
			rdmamsg__flight_end(x, m, status);
		return;
	}
	if (!status && is_atomic(&m->op) && m->op.result)
		memcpy(m->op.result, tx->slot, sizeof(uint64_t));
	if (status || m->op.kind != DC_WRITE_IMM ||
	    rdmamsg__lease_holds(&x->lease)) {
		rdmamsg__flight_end(x, m, status);
		return;
	}
	list_del(&m->node);
	rdmamsg__lease_doubt(&x->lease, &m->node);
}

int rdmamsg__flight_begin(struct dc_session *x, struct dc_msg *m)
{
	return m->kind >= DC_WRITE ? issue(x, m) : send_message(x, m);
}
