/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delivery of messages. A large message is read into memory of this side, and
 * messages behind it wait.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/visit.h"
#include "dc/visitor.h"
#include "device/device.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/lent.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#define READ_MAX	(1u << 20)
#define READS		8u	/* under way, of a visitor */

void rdmamsg__item_free(struct visitor *v, struct item *i)
{
	v->kept--;
	list_del(&i->node);
	if (i->msg)
		rdmamsg__msg_put(i->msg);
	free(i->wire);
	i->msg = NULL;
	i->wire = NULL;
	list_add_tail(&v->spare, &i->node);
}

/* ---- delivery ---------------------------------------------------------- */

void rdmamsg__visitor_deliver(struct rdmamsg_dc_target *t,
			      struct rdmamsg_msg *msg, uint64_t sender)
{
	t->messages++;
	rdmamsg__msg_lend(msg, NULL);
	if (t->opts.on_message)
		rdmamsg__tell(&t->ctx->loop, t->opts.on_message, t, msg,
			      sender);
	else
		rdmamsg_msg_free(msg);
}

void rdmamsg__visitor_written(struct visitor *v, uint32_t value)
{
	rdmamsg__tell(&v->t->ctx->loop, v->t->opts.on_written, v->t, value,
		      v->sender);
}

/* The DONE of a large message tells its sender. */
static void conclude(struct visitor *v, struct item *i, enum proto_done result)
{
	struct rdmamsg_msg *msg = i->msg;

	i->msg = NULL;
	i->result = (uint8_t)result;
	i->state = ITEM_DONE_DUE;
	list_del(&i->node);
	list_add_tail(&v->dones, &i->node);
	if (msg && result == PROTO_DONE_OK) {
		msg->tag = i->tag;
		rdmamsg__visitor_deliver(v->t, msg, v->sender);
	} else if (msg) {
		rdmamsg__msg_put(msg);
	}
}

void rdmamsg__item_refuse(struct visitor *v, struct item *i)
{
	conclude(v, i, PROTO_DONE_REFUSED);
}

/* Delivers what stands behind a large message, up to the next one. */
static void deliver_queue(struct visitor *v)
{
	while (!list_empty(&v->queue)) {
		struct item *i = list_first(&v->queue, struct item, node);
		struct rdmamsg_msg *msg = i->msg;

		if (i->type == DCF_RNDV)
			return;
		i->msg = NULL;
		list_del(&i->node);
		if (i->type == DCF_DATA)
			rdmamsg__visitor_deliver(v->t, msg, v->sender);
		else
			rdmamsg__visitor_written(v, i->tag);
		rdmamsg__item_free(v, i);
	}
}

/* ---- large messages ---------------------------------------------------- */

/* Returns 0 if the first message has memory. */
static int get_memory(struct visitor *v, struct item *i)
{
	struct dev *dev = v->peer.port->dev;
	int err;

	if (i->msg)
		return 0;
	if (!list_empty(&v->starving.node))
		return -EAGAIN;
	err = rdmamsg__try(rdmamsg__msg_large(dev, DIR_IN, i->wire->total, 0,
					      &i->msg));
	if (err && rdmamsg__passes(err)) {
		rdmamsg__starve(dev->ctx, &v->starving, err);
		return -EAGAIN;
	}
	if (err)
		rdmamsg__item_refuse(v, i);
	else
		i->msg->len = i->wire->total;
	return err;
}

static void read_some(struct visitor *v, struct item *i, uint32_t lkey,
		      size_t end)
{
	const struct proto_key *k = &i->wire->keys[i->key];
	const uint64_t most = min(min(k->len - i->offset,
				      (uint64_t)end - i->filled),
				  (uint64_t)READ_MAX);
	struct ibv_sge sge = {
		(uintptr_t)i->msg->data + i->filled, (uint32_t)most, lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { k->addr + i->offset, k->rkey },
	};

	i->filled += (uint32_t)most;
	i->offset += most;
	if (i->offset == k->len) {
		i->offset = 0;
		i->key++;
	}
	v->reads++;
	rdmamsg__peer_post(&v->peer, &wr, (struct dc_tx){
				.kind = TX_READ, .of = i,
				.cookie = (void *)(uintptr_t)most });
}

void rdmamsg__fetch_some(struct visitor *v)
{
	struct dev *dev = v->peer.port->dev;

	while (!list_empty(&v->queue) && !v->reason) {
		struct item *i = list_first(&v->queue, struct item, node);
		uint32_t lkey;
		size_t end;
		int err;

		/* in a callback, messages that are due may stand first */
		if (i->type != DCF_RNDV || i->filled == i->wire->total ||
		    v->reads >= READS || !rdmamsg__peer_room(&v->peer))
			return;
		err = get_memory(v, i);
		if (err == -EAGAIN)
			return;
		if (err) {
			deliver_queue(v);
			continue;
		}
		err = rdmamsg__try(rdmamsg__sink_ready(
			rdmamsg__msg_sink(i->msg), dev, i->filled, i->arrived,
			&lkey, &end));
		if (err && v->reads)
			return;
		if (err) {
			rdmamsg__item_refuse(v, i);
			deliver_queue(v);
			continue;
		}
		read_some(v, i, lkey, end);
	}
}

void rdmamsg__fetch_done(struct visitor *v, const struct dc_tx *tx)
{
	struct item *i = tx->of;

	i->arrived += (uint32_t)(uintptr_t)tx->cookie;
	if (i->arrived != i->wire->total)
		return;
	conclude(v, i, PROTO_DONE_OK);
	deliver_queue(v);
}

void rdmamsg__fetch_again(struct visitor *v)
{
	struct item *i = list_empty(&v->queue) ? NULL :
			 list_first(&v->queue, struct item, node);

	v->reads = 0;
	if (!i || i->type != DCF_RNDV)
		return;
	i->key = i->filled = i->arrived = 0;
	i->offset = 0;
}

void rdmamsg__fetch_fed(struct starving *w)
{
	rdmamsg__visitor_go_on(list_entry(w, struct visitor, starving));
}

bool rdmamsg__fetch_due(const struct visitor *v)
{
	const struct item *i;

	if (list_empty(&v->queue) || !list_empty(&v->starving.node) ||
	    v->reason)
		return false;
	i = list_first(&v->queue, struct item, node);
	return i->type == DCF_RNDV && i->filled != i->wire->total &&
	       v->reads < READS;
}

void rdmamsg__fetch_refuse(struct visitor *v)
{
	list_del(&v->starving.node);
	rdmamsg__item_refuse(v, list_first(&v->queue, struct item, node));
	deliver_queue(v);
}
