/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts of an endpoint: register, send, receive, export to its peer. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/loop.h"
#include "base/util.h"
#include "memory/layout.h"
#include "memory/layout_ask.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"
#include "onesided/send_entries.h"
#include "session/ep.h"
#include "session/scatter.h"
#include "session/send.h"
#include "wire/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rdmamsg/layout.h>
#include <rdmamsg/rdmamsg.h>

static int check(const struct rdmamsg_layout *layout,
		 const struct rdmamsg_ep *ep)
{
	int err = rdmamsg__layout_ok(layout);

	if (!err)
		err = rdmamsg__region_ep_check(layout->region.ctx, ep);
	return err ? err : rdmamsg__layout_range(layout, 0, 0);
}

int rdmamsg_layout_register(struct rdmamsg_layout *layout,
			    const struct rdmamsg_ep *ep)
{
	int err = check(layout, ep);

	if (err)
		return err;
	err = rdmamsg__layout_register(layout, ep->lane.dev);
	return rdmamsg__tx_refused((struct rdmamsg_ep *)ep, err);
}

/* ---- export ----------------------------------------------------------- */

static void on_key(const struct layout_ask *a, int status)
{
	struct rdmamsg_ep *ep = a->owner;

	if (!status)
		rdmamsg__region_given(&a->layout->region, a->dev, ep->key);
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_complete, ep, a->cookie,
		      status);
}

int rdmamsg_layout_get_key(struct rdmamsg_layout *layout, struct rdmamsg_ep *ep,
			   void *buf, size_t room, size_t *ret_len,
			   void *cookie)
{
	struct layout_ask a = {
		.layout = layout, .buf = buf, .ret_len = ret_len, .owner = ep,
		.cookie = cookie, .done = on_key,
	};
	int err = check(layout, ep);

	if (err)
		return err;
	a.dev = ep->lane.dev;
	return rdmamsg__layout_ask(&a, room);
}

/* ---- receiving -------------------------------------------------------- */

/* Registers the layout. If the lane is lost, the next lane registers it. */
static int make_ready(struct rdmamsg_ep *ep,
		      const struct rdmamsg_layout *layout)
{
	int err = rdmamsg__try(rdmamsg__tx_refused(
			ep, rdmamsg__layout_register(layout, ep->lane.dev)));

	return err && rdmamsg__lane_lost(ep) ? 0 : rdmamsg__fail_again(err);
}

static int check_incoming(const struct rdmamsg_ep *ep,
			  const struct rdmamsg_layout *layout, uint64_t offset)
{
	int err = check(layout, ep);

	if (err)
		return err;
	if (!ep->rndv.asking)
		return rdmamsg__fail(-EINVAL, "rdmamsg_layout_recv: the "
				     "endpoint is not in on_incoming");
	if (ep->chain)
		return rdmamsg__fail(-EINVAL, "rdmamsg_layout_recv: messages "
				     "of this endpoint are for chains");
	err = rdmamsg__layout_writable(layout);
	if (!err)
		err = rdmamsg__layout_range(layout, offset,
					    ep->rndv.asking->wire.total);
	if (!err && ep->send.crc && rdmamsg__layout_no_cpu(layout))
		err = rdmamsg__fail(-EOPNOTSUPP, "layout %llu has a dmabuf, of "
				    "which no CRC can be computed",
				    (unsigned long long)layout->region.id);
	return err;
}

int rdmamsg_layout_recv(struct rdmamsg_ep *ep, struct rdmamsg_layout *layout,
			uint64_t offset)
{
	int err = check_incoming(ep, layout, offset);

	if (!err)
		err = make_ready(ep, layout);
	if (!err)
		rdmamsg__scatter_take(ep->rndv.asking, layout, offset);
	return err;
}

/* ---- sending ---------------------------------------------------------- */

/* Returns the number of blocks, or 0 if they are more than iov has room for. */
static int blocks(const struct layout *l, uint64_t at, size_t len,
		  struct iovec iov[static RDMAMSG_SEGMENTS_MAX])
{
	int n = 0;

	for (size_t part; len; len -= part, at += part) {
		struct layout_run run;

		if (n == RDMAMSG_SEGMENTS_MAX)
			return 0;
		rdmamsg__layout_at(l, at, &run);
		part = (size_t)min(run.len, (uint64_t)len);
		iov[n++] = (struct iovec){
			(void *)(uintptr_t)(l->source[run.source].addr +
					    run.offset), part,
		};
	}
	return n;
}

static int send_copy(struct rdmamsg_ep *ep, const struct rdmamsg_layout *layout,
		     uint64_t offset, size_t len, uint32_t tag, void *cookie,
		     enum tell tell)
{
	struct rdmamsg_msg *msg;
	int err = rdmamsg_msg_alloc(ep, len, &msg);

	if (err)
		return err;
	err = rdmamsg_layout_copy_out(layout, offset, rdmamsg_msg_data(msg),
				      len);
	if (!err)
		err = tell == TELL_DEADLINE ?
		      rdmamsg__msg_send(ep, msg, tag, cookie) :
		      rdmamsg_msg_send(ep, msg, tag, cookie);
	if (err)
		rdmamsg_msg_free(msg);
	else
		ep->st.bytes_copied += len;
	return err;
}

int rdmamsg__layout_send(struct rdmamsg_ep *ep, struct rdmamsg_layout *layout,
			 uint64_t offset, size_t len, uint32_t tag,
			 void *cookie, enum tell tell)
{
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	int n, err = rdmamsg__tx_check(ep);

	if (!err)
		err = rdmamsg__layout_ok(layout);
	if (!err && layout->region.ctx != ep->ctx)
		err = rdmamsg__fail(-EINVAL, "the endpoint belongs to another "
				    "context");
	if (!err)
		err = rdmamsg__layout_range(layout, offset, len);
	if (!err && rdmamsg__layout_no_cpu(layout))
		err = rdmamsg__fail(-EOPNOTSUPP, "layout %llu has a dmabuf, "
				    "which messages cannot be sent from",
				    (unsigned long long)layout->region.id);
	if (err)
		return err;
	n = blocks(&layout->map->desc, offset, len, iov);
	return n || !len ? rdmamsg__sendv_regions(ep, iov, NULL, n, tag, cookie,
						  tell) :
	       send_copy(ep, layout, offset, len, tag, cookie, tell);
}
