/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations as they are asked for: checked, and accepted or not. */
#include "internal.h"

#include <string.h>

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
		return rdmamsg__fail(-EINVAL, "slices are NULL, or their count "
				     "is not 0 to %d", RDMAMSG_SEGMENTS_MAX);
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
				     "rdmamsg_key_import() takes a peer's "
				     "bytes");
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
		return rdmamsg__fail(-EINVAL, "atomic operations need an "
				     "address that is a multiple of 8");
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
			return rdmamsg__fail(-EINVAL, "a slice is outside of "
					     "its region");
		mr = rdmamsg__region_mr(region, ep->dev);
		if (!mr)
			return rdmamsg__region_missing(region, ep->dev);
		if (r->kind == RMA_READ &&
		    !(region->access & RDMAMSG_ACCESS_LOCAL_WRITE))
			return rdmamsg__fail(-EACCES, "a slice's region does "
					     "not have "
					     "RDMAMSG_ACCESS_LOCAL_WRITE");
		region->busy++;
		r->no_cpu |= region->fd >= 0;
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
	if (rdmamsg__rma_inline_now(ep, r))
		return 0;
	r->op.msg = rdmamsg__send_buffer(ep);
	if (!r->op.msg) {
		ep->rma_wanted = true;
		return rdmamsg__no_buffer(ep);
	}
	rdmamsg__rma_copy(r, r->op.msg->buf + PROTO_HDR_LEN);
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
			return rdmamsg__fail(-ERANGE, "the slices are longer "
					     "than what the key of region %llu "
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
	if (copy && r->no_cpu)
		return rdmamsg__fail(-EINVAL, "slices of a dmabuf beside "
				     "others without a region, which are "
				     "copied");
	if (copy && r->left > ep->copy_max)
		return rdmamsg__fail(-EMSGSIZE, "%llu bytes without a region: "
				     "at most %u are copied (eager_max)",
				     (unsigned long long)r->left, ep->copy_max);
	return copy ? copy_in(ep, r) : 0;
}

static int fill_in(struct rdmamsg_ep *ep, struct rma *r,
		   const struct rma_ask *a, const struct proto_key *key)
{
	int err;

	r->kind = a->kind;
	r->op.cookie = a->cookie;
	r->fence = a->flags & RDMAMSG_FENCE;
	r->notify = a->notify;
	r->value = a->value;
	r->raddr = key->addr + a->offset;
	r->rkey = key->rkey;
	r->peer_region = key->region;
	r->operand = a->operand;
	r->expected = a->expected;
	r->result = a->result;
	if (is_atomic(a)) {
		r->left = sizeof(uint64_t);
		return 0;
	}
	err = take_slices(ep, r, a, key->len - a->offset);
	/* for the header of WRITTEN */
	if (!err && r->notify && !ep->can_inline && !r->op.msg) {
		r->op.msg = rdmamsg__send_buffer(ep);
		if (!r->op.msg) {
			ep->rma_wanted = true;
			err = rdmamsg__no_buffer(ep);
		}
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
		ret = rdmamsg__rma_get(ep, &r);
	if (unlikely(ret))
		return ret;
	ret = fill_in(ep, r, a, &key);
	if (unlikely(ret)) {
		rdmamsg__rma_put(ep, r);
		return ret;
	}
	count(ep, r);
	rdmamsg__rma_start(ep, r);
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
