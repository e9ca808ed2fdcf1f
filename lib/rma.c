/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations. One becomes as many requests as its length, its
 * slices and the depth of reads ask for; what cannot be posted at once waits
 * in the queue of the endpoint, where everything keeps the order of the calls.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define RMA_MAX		256	/* operations under way */

enum rma_kind { RMA_WRITE, RMA_READ, RMA_FETCH_ADD, RMA_COMPARE_SWAP };

struct rma_slice {
	uint64_t addr;
	uint64_t len;
	uint32_t lkey;
	struct rdmamsg_region *region;	/* NULL: it has been copied */
};

struct rma {
	struct op op;			/* first */
	enum rma_kind kind;
	bool begun;			/* its first request is posted */
	bool fence;
	bool notify;			/* WRITTEN is still to be sent */
	uint32_t value;			/* in it */
	uint32_t posted;		/* requests under way */
	uint64_t raddr;			/* of the next request */
	uint64_t left;
	uint32_t rkey;
	uint64_t peer_region;
	uint64_t operand, expected;
	uint64_t *result;
	uint32_t slices, at;		/* the next request: slice, */
	uint64_t offset;		/* offset in it */
	struct rma_slice slice[RDMAMSG_SEGMENTS_MAX];
};

/* What a program asks for. */
struct rma_ask {
	enum rma_kind kind;
	const struct rdmamsg_slice *slice;
	int count;
	const struct rdmamsg_key *key;
	uint64_t offset;
	uint32_t flags;
	void *cookie;
	bool notify;
	uint32_t value;
	uint64_t operand, expected;
	uint64_t *result;
};

/* ---- memory ----------------------------------------------------------- */

/* With the first operation, then never again. */
static int rma_alloc(struct rdmamsg_ep *ep)
{
	uint32_t count = min(ep->opts.send_depth, (uint32_t)RMA_MAX);
	struct rma *all;

	_Static_assert(RMA_MAX * sizeof(uint64_t) <= PROTO_RECV_MIN,
		       "a result each");
	ep->rma_results = rdmamsg__send_buffer(ep);
	if (!ep->rma_results) {
		ep->rma_wanted = true;
		return rdmamsg__no_buffer(ep);
	}
	all = calloc(count, sizeof(*all));
	if (!all) {
		rdmamsg__msg_put(ep->rma_results);
		ep->rma_results = NULL;
		return rdmamsg__fail(-ENOMEM, "no memory for one-sided "
				     "operations");
	}
	for (uint32_t i = 0; i < count; i++) {
		all[i].op.kind = OP_RMA;
		list_init(&all[i].op.node);
		all[i].op.next = i + 1 < count ? &all[i + 1].op : NULL;
	}
	ep->rma = ep->rma_free = all;
	return 0;
}

void rdmamsg__rma_free(struct rdmamsg_ep *ep)
{
	if (ep->rma_results)
		rdmamsg__msg_put(ep->rma_results);
	ep->rma_results = NULL;
	free(ep->rma);
	ep->rma = ep->rma_free = NULL;
}

static uint64_t *result_of(const struct rdmamsg_ep *ep, const struct rma *r)
{
	return (uint64_t *)ep->rma_results->buf + (r - ep->rma);
}

static int again(struct rdmamsg_ep *ep)
{
	ep->rma_wanted = true;
	return rdmamsg__tx_again(ep);
}

static int rma_get(struct rdmamsg_ep *ep, struct rma **ret)
{
	struct rma *r;
	int err = ep->rma ? 0 : rma_alloc(ep);

	if (err)
		return err;
	r = ep->rma_free;
	if (!r)
		return again(ep);
	ep->rma_free = (struct rma *)r->op.next;
	r->op.status = 0;
	r->op.msg = NULL;
	r->begun = false;
	r->slices = r->at = 0;
	r->offset = 0;
	*ret = r;
	return 0;
}

static void rma_put(struct rdmamsg_ep *ep, struct rma *r)
{
	for (uint32_t i = 0; i < r->slices; i++)
		if (r->slice[i].region)
			r->slice[i].region->busy--;
	if (r->op.msg)
		rdmamsg__msg_put(r->op.msg);
	r->op.next = (struct op *)ep->rma_free;
	ep->rma_free = r;
}

/* ---- requests --------------------------------------------------------- */

/* What is left goes with the request itself. */
static bool fits_inline(const struct rdmamsg_ep *ep, const struct rma *r)
{
	return r->kind == RMA_WRITE && ep->can_inline && !r->begun &&
	       r->left <= ep->inline_max;
}

static uint32_t copy_slices(const struct rma *r, uint8_t *dst)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < r->slices; i++) {
		memcpy(dst + len, (const void *)(uintptr_t)r->slice[i].addr,
		       r->slice[i].len);
		len += (uint32_t)r->slice[i].len;
	}
	return len;
}

/* The next stretch of the slices, as far as one request goes. */
static uint32_t gather(const struct rdmamsg_ep *ep, struct rma *r,
		       struct tx_entry *e)
{
	uint32_t limit = min(ep->cap.max_send_sge,
			     (uint32_t)RDMAMSG_SEGMENTS_MAX);
	uint32_t len = 0, n = 0;

	if (r->kind == RMA_READ && ep->dev->device->attr.max_sge_rd > 0)
		limit = min(limit, (uint32_t)ep->dev->device->attr.max_sge_rd);
	while (n < limit && len < READ_CHUNK && r->at < r->slices) {
		const struct rma_slice *s = &r->slice[r->at];
		uint32_t part = (uint32_t)min(s->len - r->offset,
					      (uint64_t)READ_CHUNK - len);

		e->sges[n].addr = s->addr + r->offset;
		e->sges[n].length = part;
		e->sges[n++].lkey = s->lkey;
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

static uint32_t fill_transfer(struct rdmamsg_ep *ep, struct rma *r,
			      struct tx_entry *e)
{
	uint32_t len;

	e->wr.opcode = r->kind == RMA_READ ? IBV_WR_RDMA_READ :
		       IBV_WR_RDMA_WRITE;
	e->wr.wr.rdma.remote_addr = r->raddr;
	e->wr.wr.rdma.rkey = r->rkey;
	if (!fits_inline(ep, r))
		return gather(ep, r, e);
	len = copy_slices(r, e->data);
	e->wr.send_flags |= IBV_SEND_INLINE;
	e->sge.addr = (uintptr_t)e->data;
	e->sge.length = len;
	e->wr.num_sge = len != 0;
	return len;
}

static uint32_t fill_atomic(struct rdmamsg_ep *ep, struct rma *r,
			    struct tx_entry *e)
{
	bool add = r->kind == RMA_FETCH_ADD;

	e->wr.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD :
		       IBV_WR_ATOMIC_CMP_AND_SWP;
	e->wr.wr.atomic.remote_addr = r->raddr;
	e->wr.wr.atomic.rkey = r->rkey;
	e->wr.wr.atomic.compare_add = add ? r->operand : r->expected;
	e->wr.wr.atomic.swap = r->operand;
	e->sge.addr = (uintptr_t)result_of(ep, r);
	e->sge.length = sizeof(uint64_t);
	e->sge.lkey = ep->rma_results->lkey;
	return sizeof(uint64_t);
}

static void post_next(struct rdmamsg_ep *ep, struct rma *r)
{
	struct tx_entry *e = rdmamsg__tx_begin(ep, &r->op);
	uint32_t len;

	e->wr.send_flags &= IBV_SEND_SIGNALED;
	if (r->fence && !r->begun)
		e->wr.send_flags |= IBV_SEND_FENCE;
	len = r->kind <= RMA_READ ? fill_transfer(ep, r, e) :
	      fill_atomic(ep, r, e);
	r->begun = true;
	r->posted++;
	r->raddr += len;
	r->left -= len;
	if (r->kind != RMA_WRITE) {
		/* the next ones wait for this one */
		e->wr.send_flags |= IBV_SEND_SIGNALED;
		rdmamsg__read_taken(ep, READ_RMA);
	} else if (!r->left && r->op.cookie) {
		ep->ctx->tx.signal = true;
	}
	rdmamsg__tx_end(ep);
}

static bool has_room(const struct rdmamsg_ep *ep)
{
	return ep->state < EP_DRAINING && rdmamsg__sq_used(ep) < ep->sq_data;
}

bool rdmamsg__rma_pump(struct rdmamsg_ep *ep, struct op *op)
{
	struct rma *r = (struct rma *)op;
	struct rdmamsg *ctx = ep->ctx;

	ctx->in_callback++;	/* put together what follows */
	while ((r->left || !r->begun) && has_room(ep) &&
	       (r->kind == RMA_WRITE || rdmamsg__may_read(ep, READ_RMA)))
		post_next(ep, r);
	if (r->notify && r->begun && !r->left && has_room(ep) &&
	    rdmamsg__has_credit(ep)) {
		r->notify = false;
		r->posted++;
		rdmamsg__tx_message(ep, PROTO_WRITTEN,
				    rdmamsg__tx_next_number(ep), r->value, op,
				    ep->can_inline ? NULL : op->msg, NULL, 0);
	}
	if (!--ctx->in_callback)
		rdmamsg__tx_flush(ctx);
	return r->begun && !r->left && !r->notify && ep->state < EP_DRAINING;
}

/* ---- the end ---------------------------------------------------------- */

void rdmamsg__rma_end(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rma *r = (struct rma *)op;
	void *cookie = op->cookie;

	if (op->status)
		status = op->status;
	if (!status && r->result)
		*r->result = *result_of(ep, r);
	rma_put(ep, r);
	if (cookie && ep->on.on_sent) {
		ep->ctx->in_callback++;
		ep->on.on_sent(ep, cookie, status);
		ep->ctx->in_callback--;
	}
}

void rdmamsg__rma_request_done(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rma *r = (struct rma *)op;

	r->posted--;
	if (r->kind != RMA_WRITE) {
		ep->reads_free++;
		if (!list_empty(&ep->arriving))
			rdmamsg__ep_touch(ep);
	}
	if (!op->status)
		op->status = status;
	if (!r->posted && list_empty(&op->node))
		rdmamsg__rma_end(ep, op, 0);
}

void rdmamsg__rma_lost(struct rdmamsg_ep *ep, struct op *op)
{
	((struct rma *)op)->posted--;
	if (list_empty(&op->node))
		rdmamsg__tx_queue(ep, op);
}

void rdmamsg__rma_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	const struct op *op = ep->sq_slots[(uint32_t)wc->wr_id & ep->sq_mask];

	if (!op || op->kind != OP_RMA)
		return;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ACCESS, -EACCES,
			   "region %llu of the peer: %s (%s, vendor 0x%x)",
			   (unsigned long long)
			   ((const struct rma *)op)->peer_region,
			   rdmamsg__wc_text(wc->status),
			   ibv_wc_status_str(wc->status), wc->vendor_err);
}

/* ---- accepting -------------------------------------------------------- */

enum rdmamsg_atomic rdmamsg__atomic_scope(const struct rdmamsg_device *d)
{
	switch (d->attr.atomic_cap) {
	case IBV_ATOMIC_NONE:
		return RDMAMSG_ATOMIC_NONE;
	case IBV_ATOMIC_GLOB:
		return RDMAMSG_ATOMIC_HOST;
	default:
		return RDMAMSG_ATOMIC_DEVICE;
	}
}

static bool is_atomic(const struct rma_ask *a)
{
	return a->kind >= RMA_FETCH_ADD;
}

/* Whether the endpoint can do it, whatever the memory. */
static int check_able(const struct rdmamsg_ep *ep, const struct rma_ask *a)
{
	if (!(ep->features & PROTO_FEATURE_RMA))
		return rdmamsg__fail(-EOPNOTSUPP, "the peer's library knows no "
				     "one-sided operations");
	if (a->kind != RMA_WRITE && !ep->init_depth)
		return rdmamsg__fail(-EOPNOTSUPP, "the peer's device serves no "
				     "reads and atomics");
	if (is_atomic(a) && rdmamsg__atomic_scope(ep->dev->device) ==
	    RDMAMSG_ATOMIC_NONE)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s has no atomic "
				     "operations", ep->dev->device->name);
	if (a->flags & ~(uint32_t)RDMAMSG_FENCE)
		return rdmamsg__fail(-EINVAL, "flags 0x%x: unknown bits",
				     a->flags);
	if (a->count < 0 || a->count > RDMAMSG_SEGMENTS_MAX ||
	    (a->count && !a->slice))
		return rdmamsg__fail(-EINVAL, "slices are NULL, or their count is "
				     "not 0 to %d", RDMAMSG_SEGMENTS_MAX);
	return 0;
}

static int check_key(const struct rma_ask *a, struct proto_key *key)
{
	static const uint8_t needed[] = {
		[RMA_WRITE] = PROTO_KEY_WRITE, [RMA_READ] = PROTO_KEY_READ,
		[RMA_FETCH_ADD] = PROTO_KEY_ATOMIC,
		[RMA_COMPARE_SWAP] = PROTO_KEY_ATOMIC,
	};

	if (!a->key || rdmamsg__key_decode(key, a->key->bytes, PROTO_KEY_LEN))
		return rdmamsg__fail(-EINVAL, "the key is NULL or no key: "
				     "rdmamsg_key_import() takes a peer's bytes");
	if (!(key->access & needed[a->kind]))
		return rdmamsg__fail(-EACCES, "the key of region %llu does not "
				     "allow it",
				     (unsigned long long)key->region);
	if (a->offset > key->len ||
	    (is_atomic(a) && key->len - a->offset < sizeof(uint64_t)))
		return rdmamsg__fail(-ERANGE, "offset %llu: the key of region "
				     "%llu reaches %llu bytes",
				     (unsigned long long)a->offset,
				     (unsigned long long)key->region,
				     (unsigned long long)key->len);
	if (is_atomic(a) && (key->addr + a->offset) % sizeof(uint64_t))
		return rdmamsg__fail(-EINVAL, "atomic operations need an address "
				     "that is a multiple of 8");
	return 0;
}

static int take_slice(const struct rdmamsg_ep *ep, struct rma *r,
		      const struct rdmamsg_slice *s)
{
	struct rdmamsg_region *region = s->region;
	uintptr_t at = (uintptr_t)s->data;
	struct ibv_mr *mr = NULL;

	if (region) {
		uintptr_t from = (uintptr_t)region->addr;

		if (region->ctx != ep->ctx || at < from ||
		    at - from > region->len ||
		    s->len > region->len - (at - from))
			return rdmamsg__fail(-EINVAL, "a slice is outside of its "
					     "region");
		mr = rdmamsg__region_mr(region, ep->dev);
		if (!mr)
			return rdmamsg__fail(-EINVAL, "a slice's region is not "
					     "registered with device %s: "
					     "rdmamsg_region_attach()",
					     ep->dev->device->name);
		if (r->kind == RMA_READ &&
		    !(region->access & RDMAMSG_ACCESS_LOCAL_WRITE))
			return rdmamsg__fail(-EACCES, "a slice's region does not "
					     "have RDMAMSG_ACCESS_LOCAL_WRITE");
		region->busy++;
	} else if (r->kind == RMA_READ || !s->data) {
		return rdmamsg__fail(-EINVAL, "a slice %s", s->data ?
				     "to read into needs a region" : "is NULL");
	}
	r->slice[r->slices++] = (struct rma_slice){
		at, s->len, mr ? mr->lkey : 0, region,
	};
	return 0;
}

/* Memory that is the program's again when the call returns. */
static int copy_in(struct rdmamsg_ep *ep, struct rma *r)
{
	/* a request that is posted now takes it along */
	if (fits_inline(ep, r) && !ep->queued && has_room(ep))
		return 0;
	r->op.msg = rdmamsg__send_buffer(ep);
	if (!r->op.msg) {
		ep->rma_wanted = true;
		return rdmamsg__no_buffer(ep);
	}
	(void)copy_slices(r, r->op.msg->buf + PROTO_HDR_LEN);
	ep->st.bytes_copied += r->left;
	for (uint32_t i = 0; i < r->slices; i++)
		if (r->slice[i].region)
			r->slice[i].region->busy--;
	r->slices = 1;
	r->slice[0] = (struct rma_slice){
		(uintptr_t)r->op.msg->buf + PROTO_HDR_LEN, r->left,
		r->op.msg->lkey, NULL,
	};
	return 0;
}

static int take_slices(struct rdmamsg_ep *ep, struct rma *r,
		       const struct rma_ask *a, uint64_t room)
{
	bool copy = false;
	int err;

	for (int i = 0; i < a->count; i++) {
		const struct rdmamsg_slice *s = &a->slice[i];

		if (!s->len)
			continue;
		if (s->len > room)
			return rdmamsg__fail(-ERANGE, "the slices are longer than "
					     "what the key of region %llu "
					     "reaches from offset %llu on",
					     (unsigned long long)r->peer_region,
					     (unsigned long long)a->offset);
		err = take_slice(ep, r, s);
		if (err)
			return err;
		room -= s->len;
		r->left += s->len;
		copy |= !s->region;
	}
	if (copy && r->left > ep->copy_max)
		return rdmamsg__fail(-EMSGSIZE, "%llu bytes without a region: at "
				     "most %u are copied (eager_max)",
				     (unsigned long long)r->left, ep->copy_max);
	return copy ? copy_in(ep, r) : 0;
}

static int fill(struct rdmamsg_ep *ep, struct rma *r, const struct rma_ask *a,
		const struct proto_key *key)
{
	int err;

	r->kind = a->kind;
	r->op.cookie = a->cookie;
	r->fence = a->flags & RDMAMSG_FENCE;
	r->notify = a->notify;
	r->value = a->value;
	r->posted = 0;
	r->raddr = key->addr + a->offset;
	r->rkey = key->rkey;
	r->peer_region = key->region;
	r->operand = a->operand;
	r->expected = a->expected;
	r->result = a->result;
	r->left = 0;
	if (is_atomic(a)) {
		r->left = sizeof(uint64_t);
		return 0;
	}
	err = take_slices(ep, r, a, key->len - a->offset);
	/* for the header of WRITTEN */
	if (!err && r->notify && !ep->can_inline && !r->op.msg) {
		r->op.msg = rdmamsg__send_buffer(ep);
		if (!r->op.msg)
			err = rdmamsg__no_buffer(ep);
	}
	return err;
}

static void count(struct rdmamsg_ep *ep, const struct rma *r)
{
	if (r->kind == RMA_WRITE)
		ep->st.rma_writes++;
	else if (r->kind == RMA_READ)
		ep->st.rma_reads++;
	else
		ep->st.rma_atomics++;
	ep->st.rma_bytes += r->left;
}

static int rma_ask(struct rdmamsg_ep *ep, const struct rma_ask *a)
{
	struct proto_key key;
	struct rma *r = NULL;
	int ret = rdmamsg__tx_check(ep);

	if (!ret)
		ret = check_able(ep, a);
	if (!ret)
		ret = check_key(a, &key);
	if (!ret)
		ret = rma_get(ep, &r);
	if (unlikely(ret))
		return ret;
	ret = fill(ep, r, a, &key);
	if (unlikely(ret)) {
		rma_put(ep, r);
		return ret;
	}
	count(ep, r);
	if ((ep->queued || !rdmamsg__rma_pump(ep, &r->op)) &&
	    list_empty(&r->op.node))
		rdmamsg__tx_queue(ep, &r->op);
	return 0;
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_write(struct rdmamsg_ep *ep, const struct rdmamsg_slice *src,
		  int count, const struct rdmamsg_key *key, uint64_t offset,
		  uint32_t flags, void *cookie)
{
	const struct rma_ask a = {
		.kind = RMA_WRITE, .slice = src, .count = count, .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
	};

	return rma_ask(ep, &a);
}

int rdmamsg_write_imm(struct rdmamsg_ep *ep, const struct rdmamsg_slice *src,
		      int count, const struct rdmamsg_key *key,
		      uint64_t offset, uint32_t value, uint32_t flags,
		      void *cookie)
{
	const struct rma_ask a = {
		.kind = RMA_WRITE, .slice = src, .count = count, .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
		.notify = true, .value = value,
	};

	return rma_ask(ep, &a);
}

int rdmamsg_read(struct rdmamsg_ep *ep, const struct rdmamsg_slice *dst,
		 int count, const struct rdmamsg_key *key, uint64_t offset,
		 uint32_t flags, void *cookie)
{
	const struct rma_ask a = {
		.kind = RMA_READ, .slice = dst, .count = count, .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
	};

	return rma_ask(ep, &a);
}

int rdmamsg_fetch_add(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
		      uint64_t offset, uint64_t add, uint64_t *result,
		      uint32_t flags, void *cookie)
{
	const struct rma_ask a = {
		.kind = RMA_FETCH_ADD, .key = key, .offset = offset,
		.flags = flags, .cookie = cookie, .operand = add,
		.result = result,
	};

	return rma_ask(ep, &a);
}

int rdmamsg_compare_swap(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
			 uint64_t offset, uint64_t expected, uint64_t desired,
			 uint64_t *result, uint32_t flags, void *cookie)
{
	const struct rma_ask a = {
		.kind = RMA_COMPARE_SWAP, .key = key, .offset = offset,
		.flags = flags, .cookie = cookie, .operand = desired,
		.expected = expected, .result = result,
	};

	return rma_ask(ep, &a);
}
