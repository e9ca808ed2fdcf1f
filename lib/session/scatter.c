/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large messages that are read into the blocks of a layout. A read has as many
 * gather entries as the device takes, and the message has as many reads as its
 * blocks need. Nothing is copied. The regions of the layout are registered
 * whole, so the sink of the message stays empty.
 */
#include "base/base.h"
#include "base/crc32c.h"
#include "base/util.h"
#include "lane/lane.h"
#include "memory/large.h"
#include "memory/layout.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "session/destination.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/rndv.h"
#include "session/scatter.h"
#include "wire/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

void rdmamsg__scatter_take(struct rndv_in *in, struct rdmamsg_layout *layout,
			   uint64_t at)
{
	layout->region.busy++;
	rdmamsg__scatter_drop(in);
	in->layout = layout;
	in->at = at;
}

void rdmamsg__scatter_drop(struct rndv_in *in)
{
	if (in->layout)
		in->layout->region.busy--;
	in->layout = NULL;
}

static int begin(struct dev *dev, struct rndv_in *in)
{
	int err = rdmamsg__layout_register(in->layout, dev);

	if (!err)
		err = rdmamsg__msg_user(dev, NULL, &in->dst.msg);
	if (!err)
		in->dst.msg->room = in->wire.total;
	return err;
}

bool rdmamsg__scatter_begin(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	int err = rdmamsg__try(begin(ep->lane.dev, in));

	if (err)
		rdmamsg__destination_failed(ep, err);
	return !err;
}

void rdmamsg__scatter_next(const struct rndv_in *in, uint32_t room,
			   struct scatter *ret)
{
	const uint32_t most = rdmamsg__read_entries(in->ep);
	const uint64_t at = in->at + in->filled;

	ret->len = ret->count = 0;
	while (ret->count < most && ret->len < room) {
		struct ibv_sge *sge = &ret->sge[ret->count++];

		rdmamsg__layout_sge(in->layout, in->ep->lane.dev,
				    at + ret->len, room - ret->len, sge);
		ret->len += sge->length;
	}
}

uint32_t rdmamsg__scatter_crc(const struct rndv_in *in)
{
	const struct layout *l = &in->layout->map->desc;
	uint32_t crc = 0, done = 0, len;

	for (; done < in->wire.total; done += len) {
		struct layout_run run;

		rdmamsg__layout_at(l, in->at + done, &run);
		len = (uint32_t)min(run.len,
				    (uint64_t)in->wire.total - done);
		crc = rdmamsg__crc32c(crc, (const uint8_t *)(uintptr_t)
				      l->source[run.source].addr + run.offset,
				      len);
	}
	return crc;
}
