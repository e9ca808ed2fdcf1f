/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations of a sender, at once or when there is a connection. */
#include "base/base.h"
#include "base/util.h"
#include "dc/dc.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/layout.h>
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
		return rdmamsg_write_imm(ep, o->entry, o->count, o->key,
					 o->offset, o->value, o->flags, cookie);
	case DC_READ:
		return rdmamsg_read(ep, o->entry, o->count, o->key, o->offset,
				    o->flags, cookie);
	case DC_FETCH_ADD:
		return rdmamsg_fetch_add(ep, o->key, o->offset, o->operand,
					 o->result, o->flags, cookie);
	case DC_MASKED:
		return rdmamsg__masked_issue(ep, o->masked, o->key, o->offset,
					     o->result, o->flags, cookie);
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
	int ret = rdmamsg__dc_check(a, name);

	if (ret)
		return ret;
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

int rdmamsg__dc_ask(struct rdmamsg_dc_address *a, const char *name,
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

int rdmamsg_dc_write(struct rdmamsg_dc_address *a,
		     const struct rdmamsg_sge *src, int count,
		     const struct rdmamsg_key *key, uint64_t offset,
		     uint32_t flags, void *cookie)
{
	const struct dc_op o = {
		.kind = DC_WRITE, .entry = src, .count = count, .key = key,
		.offset = offset, .flags = flags,
	};

	return rdmamsg__dc_ask(a, "rdmamsg_dc_write", &o, cookie);
}

int rdmamsg_dc_write_imm(struct rdmamsg_dc_address *a,
			 const struct rdmamsg_sge *src, int count,
			 const struct rdmamsg_key *key, uint64_t offset,
			 uint32_t value, uint32_t flags, void *cookie)
{
	const struct dc_op o = {
		.kind = DC_WRITE_IMM, .entry = src, .count = count, .key = key,
		.offset = offset, .flags = flags, .value = value,
	};

	return rdmamsg__dc_ask(a, "rdmamsg_dc_write_imm", &o, cookie);
}

int rdmamsg_dc_read(struct rdmamsg_dc_address *a,
		    const struct rdmamsg_sge *dst, int count,
		    const struct rdmamsg_key *key, uint64_t offset,
		    uint32_t flags, void *cookie)
{
	const struct dc_op o = {
		.kind = DC_READ, .entry = dst, .count = count, .key = key,
		.offset = offset, .flags = flags,
	};

	return rdmamsg__dc_ask(a, "rdmamsg_dc_read", &o, cookie);
}

int rdmamsg_dc_fetch_add(struct rdmamsg_dc_address *a,
			 const struct rdmamsg_key *key, uint64_t offset,
			 uint64_t add, uint64_t *result, uint32_t flags,
			 void *cookie)
{
	const struct dc_op o = {
		.kind = DC_FETCH_ADD, .key = key, .offset = offset,
		.operand = add, .result = result, .flags = flags,
	};

	return rdmamsg__dc_ask(a, "rdmamsg_dc_fetch_add", &o, cookie);
}

int rdmamsg_dc_compare_swap(struct rdmamsg_dc_address *a,
			    const struct rdmamsg_key *key, uint64_t offset,
			    uint64_t expected, uint64_t desired,
			    uint64_t *result, uint32_t flags, void *cookie)
{
	const struct dc_op o = {
		.kind = DC_COMPARE_SWAP, .key = key, .offset = offset,
		.expected = expected, .operand = desired, .result = result,
		.flags = flags,
	};

	return rdmamsg__dc_ask(a, "rdmamsg_dc_compare_swap", &o, cookie);
}
