/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates the memory of endpoints before they exist. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "wire/proto.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

static uint64_t slabs(uint64_t buffers, uint32_t payload)
{
	size_t size = rdmamsg__pool_buf_size(max((size_t)payload +
				PROTO_HDR_LEN, (size_t)PROTO_RECV_MIN));
	uint64_t one = rdmamsg__pool_slab_size(size, 1);
	uint64_t bytes = buffers * size;

	/* the first slab is allocated for one endpoint and has room for more */
	return (bytes + one - 1) / one * one;
}

static void shared(struct rdmamsg_memory_estimate *e,
		   const struct rdmamsg_srq_options *o, uint64_t endpoints)
{
	uint64_t n = endpoints * (o->floor + SRQ_CTRL) * 100 / o->overcommit +
		     rdmamsg__srq_batch(o->depth);

	e->pinned_idle += slabs(min(n, (uint64_t)o->depth), o->buffer_size);
	e->pinned_most += slabs(o->depth, o->buffer_size);
}

int rdmamsg_estimate(const struct rdmamsg_ep_options *opts,
		     const struct rdmamsg_srq_options *srq_opts,
		     uint32_t endpoints, struct rdmamsg_memory_estimate *ret)
{
	struct rdmamsg_memory_estimate e = { .size = sizeof(e) };
	struct rdmamsg_ep_options o;
	struct rdmamsg_ep_tuning t;
	struct rdmamsg_srq_options srq;
	uint64_t receives;
	int err = rdmamsg__ep_options_set(&o, &t, opts);

	if (!err && srq_opts)
		err = rdmamsg__srq_options_set(&srq, srq_opts);
	/* EP_MAX keeps the sums far below 2^64 */
	if (!err && endpoints > EP_MAX)
		err = rdmamsg__fail(-EINVAL, "%u endpoints: a context has at "
				    "most %u", endpoints, EP_MAX);
	if (err)
		return err;
	receives = (uint64_t)endpoints * (t.recv_depth + RECV_RESERVE);
	if (srq_opts) {
		shared(&e, &srq, endpoints);
	} else {
		e.pinned_idle += slabs(receives, t.eager_max);
		e.pinned_most += slabs(receives, t.eager_max);
	}
	e.pinned_idle += slabs(endpoints ? 1 : 0, t.eager_max);
	e.pinned_most += slabs((uint64_t)endpoints * (t.send_depth +
			       o.send_queue + SEND_RESERVE + RNDV_MAX),
			       t.eager_max);
	return rdmamsg__give(ret, &e, sizeof(e));
}
