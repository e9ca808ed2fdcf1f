/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations of a sender, at once or when there is a connection. */
#include "base/base.h"
#include "base/op.h"
#include "base/util.h"
#include "dc/dc.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

/* ---- handing over ----------------------------------------------------- */

/* The program cannot do it, because it does not see the endpoint. */
static int register_all(const struct rdmamsg_ep *ep, const struct dc_op *o)
{
	int ret = 0;

	for (int i = 0; i < o->count && !ret; i++) {
		struct rdmamsg_region *region = o->entry[i].region;

		if (region)
			ret = region->layout ?
			      rdmamsg_layout_register(region->layout, ep) :
			      rdmamsg_region_register(region, ep);
	}
	return ret;
}

int rdmamsg__dc_issue(struct rdmamsg_ep *ep, const struct dc_op *o,
		      void *cookie)
{
	int ret = register_all(ep, o);

	if (ret)
		return ret;
	switch (o->kind) {
	case DC_WRITE:
		return rdmamsg_write(ep, o->entry, o->count, o->key, o->offset,
				     o->flags, cookie);
	case DC_WRITE_IMM:
		return rdmamsg__rma_ask(ep, &(struct rma_ask){
			.kind = RMA_WRITE, .entry = o->entry,
			.count = o->count, .key = o->key, .offset = o->offset,
			.flags = o->flags, .cookie = cookie, .notify = true,
			.value = o->value,
		});
	case DC_READ:
		return rdmamsg_read(ep, o->entry, o->count, o->key, o->offset,
				    o->flags, cookie);
	case DC_FETCH_ADD:
		return rdmamsg_fetch_add(ep, o->key, o->offset, o->operand,
					 o->result, o->flags, cookie);
	case DC_MASKED:
		return rdmamsg__masked_issue(ep, o->masked, &(struct rma_ask){
			.key = o->key, .offset = o->offset,
			.result = o->result, .flags = o->flags,
			.cookie = cookie,
		});
	default:
		return rdmamsg_compare_swap(ep, o->key, o->offset, o->expected,
					    o->operand, o->result, o->flags,
					    cookie);
	}
}

/* ---- operations that wait --------------------------------------------- */

/* Revoking a region fails while an operation waits. */
static void hold(const struct dc_op *o)
{
	for (int i = 0; i < o->count; i++)
		if (o->entry[i].region)
			o->entry[i].region->busy++;
}

void rdmamsg__dc_release(const struct dc_op *o)
{
	for (int i = 0; i < o->count; i++)
		if (o->entry[i].region)
			o->entry[i].region->busy--;
}

/* Makes one entry of the copy of all entries. */
static void copy_in(struct dc_msg *m, struct rdmamsg_sge *entry,
		    const struct dc_op *o)
{
	uint8_t *at = (uint8_t *)(entry + 1);

	*entry = (struct rdmamsg_sge){ .data = at, .len = m->copied };
	m->op.count = 1;
	for (int i = 0; i < o->count; i++) {
		if (o->entry[i].len)
			memcpy(at, o->entry[i].data, o->entry[i].len);
		at += o->entry[i].len;
	}
}

static int wait(struct rdmamsg_dc_address *a, const struct dc_op *o,
		size_t copied, void *cookie)
{
	const int entries = copied ? 1 : o->count;
	const size_t operands = o->masked ? sizeof(*o->masked) : 0;
	struct rdmamsg_sge *entry;
	struct dc_msg *m;
	int ret;

	m = rdmamsg__dc_msg_new(a->sender, sizeof(*m) + copied + operands +
				(size_t)entries * sizeof(*entry), copied, &ret);
	if (!m)
		return ret;
	entry = (struct rdmamsg_sge *)(m + 1);
	m->kind = o->kind;
	m->cookie = cookie;
	m->key = *o->key;
	m->op = *o;
	m->op.key = &m->key;
	m->op.entry = entry;
	/* without gather entries */
	if (operands)
		m->op.masked = memcpy(m + 1, o->masked, operands);
	if (copied)
		copy_in(m, entry, o);
	else if (entries)
		memcpy(entry, o->entry, (size_t)entries * sizeof(*entry));
	hold(&m->op);
	return rdmamsg__dc_add(a, m);
}

/* ---- checks ----------------------------------------------------------- */

/* Writes the bytes to copy to *ret: all of them if any has no region. */
static int check_entries(const struct rdmamsg_dc_address *a,
			 const struct dc_op *o, size_t *ret)
{
	const struct rdmamsg *ctx = a->sender->ctx;
	bool copy = false, no_cpu = false;
	size_t len = 0;

	for (int i = 0; i < o->count; i++) {
		const struct rdmamsg_sge *s = &o->entry[i];

		if (!s->len)
			continue;
		if (s->region && s->region->ctx != ctx)
			return rdmamsg__fail(-EINVAL, "the region of a gather "
					     "entry is of another context");
		if (!s->region && (!s->data || o->kind == DC_READ))
			return rdmamsg__fail(-EINVAL, "a gather entry has no "
					     "region, or neither region nor "
					     "data");
		copy |= !s->region;
		no_cpu |= s->region && (s->region->layout ||
					s->region->fd >= 0);
		if (__builtin_add_overflow(len, s->len, &len))
			return rdmamsg__fail(-ERANGE, "the gather entries are "
					     "longer than memory");
	}
	if (copy && no_cpu)
		return rdmamsg__fail(-EINVAL, "gather entries of a dmabuf or "
				     "layout beside others without a region, "
				     "which are copied");
	if (copy && len > rdmamsg__dc_max_copy(a->sender))
		return rdmamsg__fail(-EMSGSIZE, "%zu bytes without a region: "
				     "at most %u are copied (max_copy)", len,
				     rdmamsg__dc_max_copy(a->sender));
	*ret = copy ? len : 0;
	return 0;
}

static int check(const struct rdmamsg_dc_address *a, const char *name,
		 const struct dc_op *o, const void *cookie, size_t *ret_copied)
{
	if (!o->key || !cookie)
		return rdmamsg__fail(-EINVAL, "%s: the %s is NULL", name,
				     o->key ? "cookie" : "key");
	if (o->flags & ~(uint32_t)RDMAMSG_FENCE)
		return rdmamsg__fail(-EINVAL, "%s: flags 0x%x: unknown bits",
				     name, o->flags);
	if (o->count < 0 || o->count > RDMAMSG_SEGMENTS_MAX ||
	    (o->count && !o->entry))
		return rdmamsg__fail(-EINVAL, "%s: gather entries are NULL, or "
				     "their count is not 0 to %d", name,
				     RDMAMSG_SEGMENTS_MAX);
	return check_entries(a, o, ret_copied);
}

static int ask(struct rdmamsg_dc_address *a, const char *name,
	       const struct dc_op *o, void *cookie)
{
	size_t copied = 0;
	int ret = check(a, name, o, cookie, &copied);

	if (ret)
		return ret;
	if (rdmamsg__dc_is_free(a)) {
		ret = rdmamsg__try(rdmamsg__dc_issue(a->initiator->ep, o,
						     cookie));
		if (rdmamsg__dc_is_decided(a, ret))
			return ret;
	}
	return wait(a, o, copied, cookie);
}

/* ---- calls ------------------------------------------------------------ */

static enum dc_kind kind_of(const struct rdmamsg_op *op)
{
	switch (op->kind) {
	case RDMAMSG_OP_READ:
		return DC_READ;
	case RDMAMSG_OP_FETCH_ADD:
		return op->width ? DC_MASKED : DC_FETCH_ADD;
	case RDMAMSG_OP_COMPARE_SWAP:
		return op->width ? DC_MASKED : DC_COMPARE_SWAP;
	default:
		return op->flags & RDMAMSG_OP_NOTIFY ? DC_WRITE_IMM : DC_WRITE;
	}
}

/* Takes the operands of an atomic operation. */
static int take_operands(const struct rdmamsg_op *op, struct dc_op *o,
			 struct masked *m)
{
	if (o->kind == DC_MASKED) {
		o->masked = m;
		return rdmamsg__masked_take(m, op, "rdmamsg_dc_post");
	}
	if (!op->operand || (o->kind == DC_COMPARE_SWAP && !op->compare))
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_post: %s is NULL",
				     op->operand ? "compare" : "operand");
	memcpy(&o->operand, op->operand, sizeof(o->operand));
	if (op->compare)
		memcpy(&o->expected, op->compare, sizeof(o->expected));
	return 0;
}

static const struct op_taker taker = {
	.call = "rdmamsg_dc_post", .kinds = OP_KINDS_ALL & ~OP_KIND(FLUSH),
	.times = true,
	.send = OP_HAS(cookie) | OP_HAS(sge) | OP_HAS(count) | OP_HAS(tag),
};

/* A message from plain memory. */
static int send_plain(struct rdmamsg_dc_address *a, const struct rdmamsg_op *op)
{
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	int ret;

	if (!op->cookie)
		return rdmamsg__fail(-EINVAL, "%s: the cookie is NULL",
				     taker.call);
	ret = rdmamsg__op_plain(op, &taker, iov);
	return ret ? ret : rdmamsg__dc_sendv(a, iov, (int)op->count, op->tag,
					     op->cookie);
}

int rdmamsg_dc_post(struct rdmamsg_dc_address *a,
		    const struct rdmamsg_op *given)
{
	struct dc_op o = { .kind = DC_WRITE };
	struct rdmamsg_op op;
	struct masked m;
	int ret = rdmamsg__dc_check(a, taker.call);

	if (!ret)
		ret = rdmamsg__op_take(&op, given, &taker);
	if (ret)
		return ret;
	if (op.timeout_ms || op.on_late)
		return rdmamsg__fail(-EOPNOTSUPP, "%s: no timeout_ms yet: "
				     "rdmamsg_post() on a connection has it",
				     taker.call);
	if (op.kind == RDMAMSG_OP_SEND)
		return send_plain(a, &op);
	o.kind = kind_of(&op);
	o.entry = op.sge;
	o.count = (int)op.count;
	o.key = op.key;
	o.offset = op.offset;
	o.flags = op.flags & ~(uint32_t)RDMAMSG_OP_NOTIFY;
	o.value = op.imm;
	o.result = op.result;
	if (op.kind != RDMAMSG_OP_WRITE && op.kind != RDMAMSG_OP_READ)
		ret = take_operands(&op, &o, &m);
	return ret ? ret : ask(a, taker.call, &o, op.cookie);
}
