/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts of an endpoint: register, send, export to its peer. */
#include "base/base.h"
#include "base/util.h"
#include "memory/layout.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"
#include "session/ep.h"
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

/*
 * A layout of the device has an ordinary key. Otherwise the key has the
 * description, and the sources get the rkeys of this device. Returns the
 * length.
 */
static size_t encode(const struct rdmamsg_layout *layout,
		     const struct dev *dev, uint8_t *out)
{
	const struct layout_map *m = layout->map;
	const struct ibv_mr *native = rdmamsg__region_mr(&m->native, dev);
	const struct proto_key key = {
		.access = m->desc.access, .rkey = native ? native->rkey : 0,
		.region = m->desc.id, .len = m->desc.len,
	};

	if (native) {
		rdmamsg__key_encode(&key, out);
		return PROTO_KEY_LEN;
	}
	for (uint32_t i = 0; i < m->desc.sources; i++)
		m->desc.source[i].rkey =
			rdmamsg__region_mr(&m->shadows[i], dev)->rkey;
	rdmamsg__layout_encode(&m->desc, out);
	return rdmamsg__layout_bytes(&m->desc);
}

int rdmamsg_layout_get_key(struct rdmamsg_layout *layout,
			   const struct rdmamsg_ep *ep, void *buf, size_t room,
			   size_t *ret_len)
{
	size_t len;
	int err = check(layout, ep);

	if (err)
		return err;
	if (!buf || !ret_len || !(layout->region.access & ACCESS_REMOTE))
		return rdmamsg__fail(-EINVAL, "rdmamsg_layout_get_key: %s",
				     !buf || !ret_len ?
				     "buf or ret_len is NULL" :
				     "the layout allows a peer nothing");
	len = rdmamsg__layout_bytes(&layout->map->desc);
	if (room < len)
		return rdmamsg__fail(-EMSGSIZE, "rdmamsg_layout_get_key: the "
				     "key has %zu bytes, there is room for %zu",
				     len, room);
	err = rdmamsg__layout_share(layout, ep->lane.dev);
	if (err)
		return err;
	rdmamsg__region_given(&layout->region, ep->lane.dev, ep->key);
	*ret_len = encode(layout, ep->lane.dev, buf);
	return 0;
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
		     uint64_t offset, size_t len, uint32_t tag, void *cookie)
{
	struct rdmamsg_msg *msg;
	int err = rdmamsg_msg_alloc(ep, len, &msg);

	if (err)
		return err;
	err = rdmamsg_layout_copy_out(layout, offset, rdmamsg_msg_data(msg),
				      len);
	if (!err)
		err = rdmamsg_msg_send(ep, msg, tag, cookie);
	if (err)
		rdmamsg_msg_free(msg);
	else
		ep->st.bytes_copied += len;
	return err;
}

int rdmamsg_layout_send(struct rdmamsg_ep *ep, struct rdmamsg_layout *layout,
			uint64_t offset, size_t len, uint32_t tag, void *cookie)
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
	return n || !len ? rdmamsg_sendv(ep, iov, n, tag, cookie) :
	       send_copy(ep, layout, offset, len, tag, cookie);
}
