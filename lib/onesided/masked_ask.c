/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks masked atomics of the program, and finds who does them. */
#include "base/base.h"
#include "base/masked.h"
#include "device/device.h"
#include "device/quirks.h"
#include "onesided/rma_ask.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/send.h"
#include "wire/proto.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define SOFTWARE_SIZES	(4u | 8u)	/* one compare-and-swap */

/* Returns NULL, or why the endpoint has no atomics at all. */
static const char *lack(const struct rdmamsg_ep *ep)
{
	if (!(ep->connect.features & PROTO_FEATURE_RMA))
		return "the peer's library knows no one-sided operations";
	if (!ep->lane.init_depth)
		return "the peer's device serves no reads and atomics";
	if (rdmamsg__atomic_scope(ep->lane.dev->device) == RDMAMSG_ATOMIC_NONE)
		return "the device has no atomic operations";
	return NULL;
}

/* The masked atomics of an endpoint, and the reason. */
struct ability {
	enum rdmamsg_cap_how how;
	uint32_t sizes;
	const char *reason;
};

static struct ability find(const struct rdmamsg_ep *ep)
{
	const char *none = lack(ep);

	if (none)
		return (struct ability){ RDMAMSG_CAP_ABSENT, 0, none };
	if (ep->connect.features & PROTO_FEATURE_MASKED)
		return (struct ability){
			RDMAMSG_CAP_NATIVE, MASKED_SIZES,
			"both devices have masked atomics",
		};
	if (ep->connect.features & PROTO_FEATURE_MASKED_SMALL)
		return (struct ability){
			RDMAMSG_CAP_NATIVE, MASKED_SMALL,
			"both devices have masked atomics of 4 and 8 bytes",
		};
	return (struct ability){
		RDMAMSG_CAP_SOFTWARE, SOFTWARE_SIZES,
		"no masked atomics in both devices: repeated compare-and-swap",
	};
}

/* Sets *ret to the kind of operation that has such an operand here. */
static int choose(const struct rdmamsg_ep *ep, uint32_t bytes,
		  enum rma_kind *ret)
{
	struct ability can;
	int err = rdmamsg__tx_check(ep);

	if (err)
		return err;
	can = find(ep);
	if (!(can.sizes & bytes))
		return rdmamsg__fail(-EOPNOTSUPP,
				     "an operand of %u bytes "
				     "(rdmamsg_ep_masked_query()): %s",
				     bytes, can.reason);
	*ret = can.how == RDMAMSG_CAP_NATIVE ? RMA_MASKED : RMA_EMULATED;
	return 0;
}

/* Copies an operand. NULL means all bits. */
static void take(uint64_t *dst, const void *src, size_t bytes)
{
	uint32_t half = UINT32_MAX;

	if (bytes == sizeof(half)) {
		if (src)
			memcpy(&half, src, sizeof(half));
		*dst = half;
	} else if (src) {
		memcpy(dst, src, bytes);
	} else {
		memset(dst, 0xff, bytes);
	}
}

/* Takes the tops of the fields. NULL means one field for each integer. */
static int take_boundary(struct masked *m, const void *boundary)
{
	const uint32_t last = masked_words(m->size) - 1;

	if (boundary)
		take(m->mask, boundary, m->size);
	else
		for (uint32_t i = 0; i < last; i++)
			m->mask[i] = 1ull << 63;
	m->mask[last] |= m->size == sizeof(uint32_t) ? 1ull << 31 : 1ull << 63;
	if (!masked_fields_ok(m))
		return rdmamsg__fail(-EINVAL, "mask: a field has more than "
				     "%u bytes, because bit 63 of an integer "
				     "is 0", MASKED_FIELD);
	return 0;
}

int rdmamsg__masked_take(struct masked *m, const struct rdmamsg_op *op,
			 const char *call)
{
	const bool adds = op->kind == RDMAMSG_OP_FETCH_ADD;

	*m = (struct masked){
		.size = op->width, .kind = adds ? MASKED_ADD : MASKED_SWAP,
	};
	if (op->width > MASKED_MAX || !masked_size_ok(op->width))
		return rdmamsg__fail(-EINVAL, "%s: an operand of %u bytes: it "
				     "has 4, 8, 16 or 32", call, op->width);
	if (!op->operand || (!adds && !op->compare))
		return rdmamsg__fail(-EINVAL, "%s: %s is NULL", call,
				     op->operand ? "compare" : "operand");
	take(m->value, op->operand, m->size);
	if (adds)
		return take_boundary(m, op->mask);
	take(m->expected, op->compare, m->size);
	take(m->compare, op->compare_mask, m->size);
	take(m->mask, op->mask, m->size);
	return 0;
}

int rdmamsg__masked_issue(struct rdmamsg_ep *ep, const struct masked *m,
			  struct rma_ask *a)
{
	int err = choose(ep, m->size, &a->kind);

	a->masked = m;
	a->bytes = m->size;
	return err ? err : rdmamsg__rma_ask(ep, a);
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_ep_masked_query(const struct rdmamsg_ep *ep,
			    struct rdmamsg_masked_attr *attr)
{
	struct rdmamsg_masked_attr a = { .size = sizeof(a) };
	struct ability can;
	int err = rdmamsg__tx_check(ep);

	if (err)
		return err;
	can = find(ep);
	a.how = can.how;
	a.sizes = can.sizes;
	if (can.sizes) {
		a.max_field = MASKED_FIELD;
		a.unit = can.how == RDMAMSG_CAP_NATIVE ? sizeof(uint32_t) :
			 sizeof(uint64_t);
	}
	snprintf(a.reason, sizeof(a.reason), "%s", can.reason);
	return rdmamsg__give(attr, &a, sizeof(a));
}
