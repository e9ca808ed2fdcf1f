/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks one-sided operations of the program, and accepts or refuses them. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "lane/lanes.h"
#include "session/tx.h"
#include "memory/layout.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/send.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static inline bool is_atomic(const struct rma_ask *a)
{
	return a->kind >= RMA_FETCH_ADD;
}

/* Returns 0 if the endpoint supports the operation. Checks no memory. */
static int check_able(const struct rdmamsg_ep *ep, const struct rma_ask *a)
{
	if (!(ep->connect.features & PROTO_FEATURE_RMA))
		return rdmamsg__fail(-EOPNOTSUPP, "the peer's library knows no "
				     "one-sided operations");
	if (a->kind != RMA_WRITE && !ep->lane.init_depth)
		return rdmamsg__fail(-EOPNOTSUPP, "the peer's device serves no "
				     "reads and atomics");
	if (is_atomic(a) && rdmamsg__atomic_scope(ep->lane.dev->device) ==
	    RDMAMSG_ATOMIC_NONE)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s has no atomic "
				     "operations", ep->lane.dev->device->name);
	if (a->flags & ~(uint32_t)RDMAMSG_FENCE)
		return rdmamsg__fail(-EINVAL, "flags 0x%x: unknown bits",
				     a->flags);
	if (a->count < 0 || a->count > RDMAMSG_SEGMENTS_MAX ||
	    (a->count && !a->entry))
		return rdmamsg__fail(-EINVAL,
				     "gather entries are NULL, or their count "
				     "is not 0 to %d",
				     RDMAMSG_SEGMENTS_MAX);
	return 0;
}

/* Returns the access right that the key must have. */
static inline uint8_t needed(const struct rma_ask *a)
{
	return is_atomic(a) ? PROTO_KEY_ATOMIC :
	       a->kind == RMA_READ ? PROTO_KEY_READ : PROTO_KEY_WRITE;
}

/* In software a masked atomic writes the whole word around its operand. */
static int check_word(const struct rma_ask *a, const struct layout_import *far,
		      const struct proto_key *key)
{
	const uint64_t word = (key->addr + a->offset) &
			      ~(sizeof(uint64_t) - 1);
	/* a word that begins in front of the key has a huge offset */
	const uint64_t at = word - key->addr;

	if (a->kind != RMA_EMULATED ||
	    (at <= key->len && key->len - at >= sizeof(uint64_t) &&
	     (!far || rdmamsg__layout_has_word(far, at, word,
					       key->rkey))))
		return 0;
	return rdmamsg__fail(-ERANGE, "offset %llu: in software an operand of "
			     "%u bytes needs the aligned 8 bytes around it, "
			     "which the key of region %llu does not reach",
			     (unsigned long long)a->offset, a->bytes,
			     (unsigned long long)key->region);
}

/* Of a layout, the operation needs no more than the key of a block. */
static int check_operand(const struct rma_ask *a, struct proto_key *key,
			 struct layout_import **far)
{
	const struct layout_import *of = *far;
	int err = of ? rdmamsg__layout_operand(of, a->offset, a->bytes, key) :
		  0;

	*far = NULL;
	if (err)
		return err;
	if ((key->addr + a->offset) % a->bytes)
		return rdmamsg__fail(-EINVAL, "atomic operations need an "
				     "address that is a multiple of %u",
				     a->bytes);
	return check_word(a, of, key);
}

static int check_key(const struct rdmamsg_ep *ep, const struct rma_ask *a,
		     struct proto_key *key, struct layout_import **ret_far)
{
	int err;

	*ret_far = NULL;
	if (!rdmamsg__layout_find(ep->ctx, a->key, ret_far, key) &&
	    (!a->key ||
	     rdmamsg__key_decode(key, a->key->bytes, PROTO_KEY_LEN)))
		return rdmamsg__fail(-EINVAL, "the key is NULL or no key: "
				     "rdmamsg_key_import() takes a peer's "
				     "bytes, and rdmamsg_layout_import() "
				     "those of a layout");
	if (*ret_far && rdmamsg__keeps(ep))
		return rdmamsg__fail(-EOPNOTSUPP, "the key of a layout has keys "
				     "of one device, and failover may change "
				     "it: use rungs without STANDBY and LANE");
	err = rdmamsg__keeps(ep) ?
	      rdmamsg__renew_find(ep, key->region, &key->rkey) : 0;
	if (err)
		return err;
	if (!(key->access & needed(a)))
		return rdmamsg__fail(-EACCES, "the key of region %llu does not "
				     "allow it",
				     (unsigned long long)key->region);
	if (a->offset > key->len ||
	    (is_atomic(a) && key->len - a->offset < a->bytes))
		return rdmamsg__fail(-ERANGE, "offset %llu: the key of region "
				     "%llu reaches %llu bytes",
				     (unsigned long long)a->offset,
				     (unsigned long long)key->region,
				     (unsigned long long)key->len);
	return is_atomic(a) ? check_operand(a, key, ret_far) : 0;
}

/* Returns 0 if the entry's region can take part. */
static int check_region(struct rdmamsg_ep *ep, struct rdmamsg_region *region,
			uint64_t offset, uint64_t len, struct ibv_mr **ret)
{
	int err;

	if (!region->layout)
		return rdmamsg__region_here(ep, region, ret);
	err = rdmamsg__layout_range(region->layout, offset, len);
	return err ? err : rdmamsg__tx_refused(ep,
		rdmamsg__layout_ready(region->layout, ep->lane.dev));
}

static int take_entry(struct rdmamsg_ep *ep, struct rma *r,
		      const struct rdmamsg_sge *s)
{
	struct rdmamsg_region *region = s->region;
	uintptr_t at = (uintptr_t)s->data;
	struct ibv_mr *mr = NULL;

	if (region) {
		uintptr_t from = (uintptr_t)region->addr;
		int err;

		if (region->ctx != ep->ctx || (!region->layout &&
		    (at < from || at - from > region->len ||
		     s->len > region->len - (at - from))))
			return rdmamsg__fail(-EINVAL,
					     "a gather entry is outside of "
					     "its region");
		err = check_region(ep, region, at, s->len, &mr);
		if (err)
			return err;
		if (r->kind == RMA_READ &&
		    !(region->access & RDMAMSG_ACCESS_LOCAL_WRITE))
			return rdmamsg__fail(-EACCES,
					     "a gather entry's region does "
					     "not have "
					     "RDMAMSG_ACCESS_LOCAL_WRITE");
		region->busy++;
		r->no_cpu |= region->fd >= 0 || region->layout;
		r->scattered |= region->layout != NULL;
	} else if (r->kind == RMA_READ || !s->data) {
		return rdmamsg__fail(-EINVAL, "a gather entry %s", s->data ?
				     "to read into needs a region" : "is NULL");
	}
	r->entry[r->entries++] = (struct rma_entry){
		at, s->len, mr ? mr->lkey : 0, region,
	};
	return 0;
}

/* The program owns its memory again when the call returns, so copy it. */
static int copy_in(struct rdmamsg_ep *ep, struct rma *r)
{
	/* an inline request that is posted now takes the bytes along */
	if (rdmamsg__rma_inline_now(ep, r))
		return 0;
	r->op.msg = rdmamsg__send_buffer(ep);
	if (!r->op.msg) {
		ep->onesided.wanted = true;
		return rdmamsg__no_buffer(ep);
	}
	rdmamsg__rma_copy(r, r->op.msg->buf + PROTO_HDR_LEN);
	ep->st.bytes_copied += r->left;
	for (uint32_t i = 0; i < r->entries; i++)
		if (r->entry[i].region)
			r->entry[i].region->busy--;
	r->entries = 1;
	r->entry[0] = (struct rma_entry){
		(uintptr_t)r->op.msg->buf + PROTO_HDR_LEN, r->left,
		r->op.msg->lkey, NULL,
	};
	return 0;
}

static int take_entries(struct rdmamsg_ep *ep, struct rma *r,
		       const struct rma_ask *a, uint64_t room)
{
	bool copy = false;
	int err;

	for (int i = 0; i < a->count; i++) {
		const struct rdmamsg_sge *s = &a->entry[i];

		if (!s->len)
			continue;
		if (s->len > room)
			return rdmamsg__fail(-ERANGE,
					     "the gather entries are longer "
					     "than what the key of region %llu "
					     "reaches from offset %llu on",
					     (unsigned long long)r->peer_region,
					     (unsigned long long)a->offset);
		err = take_entry(ep, r, s);
		if (err)
			return err;
		room -= s->len;
		r->left += s->len;
		copy |= !s->region;
	}
	if (copy && r->no_cpu)
		return rdmamsg__fail(-EINVAL,
				     "gather entries of a dmabuf or layout "
				     "beside others without a region, which "
				     "are copied");
	if (copy && r->left > ep->send.copy_max)
		return rdmamsg__fail(-EMSGSIZE,
				     "%llu bytes without a region: "
				     "at most %u are copied (eager_max)",
				     (unsigned long long)r->left,
				     ep->send.copy_max);
	return copy ? copy_in(ep, r) : 0;
}

/* The rkey in the key of the program, which may have been renewed. */
static uint32_t given_rkey(const struct rma_ask *a)
{
	struct proto_key key = { .rkey = 0 };

	/* fails for a layout, which is not used where keys are renewed */
	(void)rdmamsg__key_decode(&key, a->key->bytes, PROTO_KEY_LEN);
	return key.rkey;
}

static int fill_in(struct rdmamsg_ep *ep, struct rma *r,
		   const struct rma_ask *a, const struct proto_key *key,
		   struct layout_import *far)
{
	int err;

	r->kind = a->kind;
	r->op.cookie = a->cookie;
	r->fence = a->flags & RDMAMSG_FENCE;
	r->notify = a->notify;
	r->value = a->value;
	r->raddr = key->addr + a->offset;
	r->rkey = key->rkey;
	r->given = rdmamsg__keeps(ep) ? given_rkey(a) : 0;
	r->peer_region = key->region;
	if (far) {
		r->far = far;
		r->scattered = true;
		rdmamsg__layout_hold(far);
	}
	r->operand = a->operand;
	r->expected = a->expected;
	r->result = a->result;
	if (a->masked)
		return rdmamsg__masked_begin(ep, r, a->masked);
	if (is_atomic(a)) {
		r->left = sizeof(uint64_t);
		return 0;
	}
	err = take_entries(ep, r, a, key->len - a->offset);
	/* WRITTEN needs a buffer for its header */
	if (!err && r->notify && !ep->send.can_inline && !r->op.msg) {
		r->op.msg = rdmamsg__send_buffer(ep);
		if (!r->op.msg) {
			ep->onesided.wanted = true;
			err = rdmamsg__no_buffer(ep);
		}
	}
	return err;
}

static inline void count(struct rdmamsg_ep *ep, enum rma_kind kind,
			 uint64_t len)
{
	if (kind == RMA_WRITE)
		ep->st.rma_writes++;
	else if (kind == RMA_READ)
		ep->st.rma_reads++;
	else
		ep->st.rma_atomics++;
	ep->st.rma_bytes += len;
}

int __attribute__((noinline))
rdmamsg__rma_ask(struct rdmamsg_ep *ep, const struct rma_ask *a)
{
	struct layout_import *far;
	struct proto_key key;
	struct rma *r = NULL;
	int ret = rdmamsg__tx_check(ep);

	if (!ret)
		ret = check_able(ep, a);
	if (!ret)
		ret = check_key(ep, a, &key, &far);
	if (!ret)
		ret = rdmamsg__rma_get(ep, &r);
	if (unlikely(ret))
		return ret;
	ret = fill_in(ep, r, a, &key, far);
	if (unlikely(ret)) {
		rdmamsg__rma_put(ep, r);
		return ret;
	}
	r->op.tell = r->after = a->tell;
	count(ep, r->kind, r->left);
	rdmamsg__rma_start(ep, r);
	return 0;
}

/* ---- the ordinary ones ------------------------------------------------ */

/* Returns true if the key allows the operation on all of its bytes. */
static inline bool is_within(const struct rma_ask *a,
			     const struct proto_key *key, uint64_t len)
{
	return key->access & needed(a) && a->offset <= key->len &&
	       len <= key->len - a->offset &&
	       (!is_atomic(a) || !((key->addr + a->offset) % sizeof(uint64_t)));
}

/*
 * Returns the registration of the local memory if one request can take it: one
 * gather entry inside one region. Otherwise returns NULL.
 */
static inline struct ibv_mr *mr_of(const struct rdmamsg_ep *ep,
				   const struct rma_ask *a)
{
	const struct rdmamsg_sge *s = a->entry;
	const struct rdmamsg_region *g;

	if (unlikely(a->count != 1 || !s || !s->region || !s->len ||
		     s->len > ep->lane.chunk ||
		     (a->kind == RMA_READ && s->len > RMA_SMALL)))
		return NULL;
	g = s->region;
	if (unlikely(g->ctx != ep->ctx || g->fd >= 0 || s->len > g->len ||
		     (uintptr_t)s->data - (uintptr_t)g->addr >
		     g->len - s->len ||
		     (a->kind == RMA_READ &&
		      !(g->access & RDMAMSG_ACCESS_LOCAL_WRITE))))
		return NULL;
	return rdmamsg__region_mr(g, ep->lane.dev);
}

static inline void fill_transfer(const struct rdmamsg_ep *ep,
				 const struct rma_ask *a, const struct rma *r,
				 const struct ibv_mr *mr, struct tx_entry *e)
{
	e->wr.wr.rdma.remote_addr = r->raddr;
	e->wr.wr.rdma.rkey = r->rkey;
	e->wr.opcode = a->kind == RMA_READ ? IBV_WR_RDMA_READ :
		       IBV_WR_RDMA_WRITE;
	e->sge.addr = (uintptr_t)a->entry->data;
	e->sge.length = (uint32_t)a->entry->len;
	e->sge.lkey = mr->lkey;
	if (a->kind == RMA_READ || !ep->send.can_inline ||
	    e->sge.length > ep->send.inline_max)
		e->wr.send_flags &= IBV_SEND_SIGNALED;
}

/*
 * Posts the operation at once if it is one request: one gather entry of
 * registered memory or one atomic word, with room in the send queue. Otherwise
 * changes nothing and returns false, and rdmamsg__rma_ask() finds the reason.
 */
static inline __attribute__((always_inline)) bool
post_now(struct rdmamsg_ep *ep, const struct rma_ask *a)
{
	const uint64_t len = is_atomic(a) ? sizeof(uint64_t) :
			     a->count == 1 && a->entry ? a->entry->len : 0;
	const struct ibv_mr *mr = NULL;
	struct tx_entry *e;
	struct proto_key key;
	struct rma *r;

	if (unlikely(!ep || !ep->ctx || !(ep->onesided.ways & 1u << a->kind) ||
		     !ep->onesided.free ||
		     rdmamsg__sq_used(&ep->lane) >= ep->lane.sq.data ||
		     a->flags || !a->key ||
		     rdmamsg__key_decode(&key, a->key->bytes, PROTO_KEY_LEN)))
		return false;
	if (!is_atomic(a))
		mr = mr_of(ep, a);
	if (unlikely((!is_atomic(a) && !mr) || !is_within(a, &key, len)))
		return false;

	r = ep->onesided.free;
	ep->onesided.free = (struct rma *)r->op.next;
	r->op.status = 0;
	r->op.cookie = a->cookie;
	r->op.msg = NULL;
	r->kind = a->kind;
	r->begun = true;
	r->counted = r->notify = r->scattered = false;
	r->proof = PROOF_NONE;
	r->posted = 1;
	r->left = 0;
	r->peer_region = key.region;
	r->raddr = key.addr + a->offset;
	r->rkey = key.rkey;
	r->result = a->result;
	r->operand = a->operand;
	r->expected = a->expected;
	r->entries = 0;
	if (!is_atomic(a)) {
		r->entry[r->entries++].region = a->entry->region;
		a->entry->region->busy++;
	}
	count(ep, a->kind, len);

	e = rdmamsg__tx_begin(ep, &r->op);
	if (is_atomic(a)) {
		e->wr.send_flags &= IBV_SEND_SIGNALED;
		rdmamsg__rma_fill_atomic(ep, r, e);
	} else {
		fill_transfer(ep, a, r, mr, e);
	}
	ep->ctx->tx->signal |= a->cookie || is_atomic(a);
	rdmamsg__tx_end(ep);
	return true;
}

static inline __attribute__((always_inline)) int
ask_ordinary(struct rdmamsg_ep *ep, const struct rma_ask a)
{
	struct rma_ask other;

	if (likely(post_now(ep, &a)))
		return 0;
	other = a;
	return rdmamsg__rma_ask(ep, &other);
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_write(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
		  int count, const struct rdmamsg_key *key, uint64_t offset,
		  uint32_t flags, void *cookie)
{
	return ask_ordinary(ep, (struct rma_ask){
		.kind = RMA_WRITE, .entry = src, .count = count, .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
	});
}

/*
 * A write of nothing, behind the others: its end is theirs where completions
 * come in order. Elsewhere it has a proof.
 */
int rdmamsg__rma_flush(struct rdmamsg_ep *ep, void *cookie, enum tell tell)
{
	const struct rma_ask a = { .kind = RMA_WRITE };
	struct rma *r = NULL;
	int ret = rdmamsg__tx_check(ep);

	if (!ret)
		ret = check_able(ep, &a);
	if (!ret && !rdmamsg__lane_proves(&ep->lane))
		ret = rdmamsg__fail(-EOPNOTSUPP, "the peer's device serves no "
				    "reads, and nothing else tells that "
				    "writes have arrived");
	if (!ret)
		ret = rdmamsg__rma_get(ep, &r);
	if (ret)
		return ret;
	r->kind = RMA_WRITE;
	r->flush = true;
	r->op.cookie = cookie;
	r->op.tell = r->after = (uint8_t)tell;
	r->raddr = 0;
	r->rkey = r->given = 0;
	r->peer_region = 0;
	rdmamsg__rma_start(ep, r);
	return 0;
}

int rdmamsg_flush(struct rdmamsg_ep *ep, void *cookie)
{
	return rdmamsg__rma_flush(ep, cookie, TELL_PROGRAM);
}

int rdmamsg_read(struct rdmamsg_ep *ep, const struct rdmamsg_sge *dst,
		 int count, const struct rdmamsg_key *key, uint64_t offset,
		 uint32_t flags, void *cookie)
{
	return ask_ordinary(ep, (struct rma_ask){
		.kind = RMA_READ, .entry = dst, .count = count, .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
	});
}

int rdmamsg_fetch_add(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
		      uint64_t offset, uint64_t add, uint64_t *result,
		      uint32_t flags, void *cookie)
{
	return ask_ordinary(ep, (struct rma_ask){
		.kind = RMA_FETCH_ADD, .bytes = sizeof(add), .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
		.operand = add, .result = result,
	});
}

int rdmamsg_compare_swap(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
			 uint64_t offset, uint64_t expected, uint64_t desired,
			 uint64_t *result, uint32_t flags, void *cookie)
{
	return ask_ordinary(ep, (struct rma_ask){
		.kind = RMA_COMPARE_SWAP, .bytes = sizeof(desired), .key = key,
		.offset = offset, .flags = flags, .cookie = cookie,
		.operand = desired, .expected = expected, .result = result,
	});
}
