/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous: the sender announces the address of a large message. The receiver
 * reads it into its destination and sends DONE. Nothing is copied.
 */
#include "base/base.h"
#include "base/crc32c.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "lane/srq.h"
#include "memory/hide.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "memory/source.h"
#include "memory/stretch.h"
#include "session/crc.h"
#include "session/destination.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/rma.h"
#include "session/scatter.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* ---- sending ---------------------------------------------------------- */

uint64_t rdmamsg__rndv_reader(struct rdmamsg_ep *ep)
{
	if (!ep->rndv.reader)
		ep->rndv.reader = ++ep->ctx->memory->readers;
	return ep->rndv.reader;
}

void rdmamsg__rndv_end(struct rdmamsg_ep *ep)
{
	struct list *n;

	if (!ep->rndv.reader)
		return;
	list_for_each(n, &ep->ctx->devices->devs)
		rdmamsg__sources_end(list_entry(n, struct dev, node),
				     ep->rndv.reader);
}

static int use_source(struct rndv_out *r, struct large *l)
{
	int err = rdmamsg__source_ready(l, r->reader, r->len[0]);

	if (err)
		return err;
	r->mr[0] = l->source.mr;
	r->addr[0] = l->source.addr;
	r->source = true;
	return 0;
}

/*
 * Registers a segment. Memory of the program is registered for this message
 * only, exactly its bytes, and the registration ends before the program gets
 * the memory back.
 */
static int register_segment(struct dev *dev, struct rndv_out *r, uint32_t i)
{
	const struct rdmamsg_device *d = dev->device;
	struct large *l;
	int err;

	r->v = d->v;
	/* on another device than the memory's, as memory of the program */
	if (r->payload && r->payload->dev == dev &&
	    (l = rdmamsg__msg_source(r->payload)))
		return use_source(r, l);
	if (r->region[i]) {
		err = rdmamsg__region_register(r->region[i], dev);
		if (!err)
			r->mr[i] = rdmamsg__region_mr(r->region[i], dev);
		return err;
	}
	err = rdmamsg__hidden_address(dev, r->base[i], &r->addr[i]);
	if (err)
		return err;
	err = rdmamsg__v_reg_mr_iova(d->v, dev->pd, r->base[i], r->len[i],
				     r->addr[i], IBV_ACCESS_REMOTE_READ,
				     &r->mr[i]);
	return err ? rdmamsg__fail_memory(err, "registering a large message",
					  r->base[i], r->len[i], false) : 0;
}

static int add_segment(struct rdmamsg_ep *ep, struct rndv_out *r,
		       const struct iovec *iov)
{
	int err;

	r->base[r->count] = iov->iov_base;
	r->len[r->count] = iov->iov_len;
	err = register_segment(ep->lane.dev, r, r->count);
	r->count += !err;
	return err;
}

int rdmamsg__rndv_register(struct dev *dev, struct rndv_out *r)
{
	int err = 0;

	for (uint32_t i = 0; i < r->count && !err; i++)
		err = register_segment(dev, r, i);
	return err;
}

static void dereg(struct rndv_out *r, uint32_t i)
{
	/* the endpoint may have no device, or another */
	if (r->mr[i] && !r->region[i] && !r->source &&
	    rdmamsg__v_dereg_mr(r->v, r->mr[i]))
		log_error("a large message could not be deregistered");
	r->mr[i] = NULL;
}

void rdmamsg__rndv_forget(struct rdmamsg_ep *ep, struct rndv_out *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		dereg(r, i);
	r->source = false;
}

/*
 * The region's registration serves the message, and its key reaches the whole
 * region. The program has declared that with RDMAMSG_ACCESS_READ.
 */
static void use_region(struct rdmamsg_ep *ep, struct rndv_out *r,
		       const struct iovec *iov, struct rdmamsg_region *region)
{
	region->busy++;
	rdmamsg__region_given(region, ep->lane.dev, ep->key);
	r->mr[r->count] = rdmamsg__region_mr(region, ep->lane.dev);
	r->region[r->count] = region;
	r->base[r->count] = iov->iov_base;
	r->v = ep->lane.dev->device->v;
	r->addr[r->count] = (uintptr_t)iov->iov_base;
	r->len[r->count++] = iov->iov_len;
}

int rdmamsg__rndv_prepare(struct rdmamsg_ep *ep, const struct iovec *iov,
			  int iovcnt, uint32_t total,
			  struct rdmamsg_region *const *regions,
			  struct rdmamsg_msg *payload, struct rndv_out **ret)
{
	struct rndv_out *r = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return rdmamsg__fail(-ENOMEM, "no memory for a large message");
	r->total = total;
	r->payload = payload;
	r->reader = payload ? rdmamsg__rndv_reader(ep) : 0;
	for (int i = 0; i < iovcnt && !err; i++) {
		if (!iov[i].iov_len)
			continue;
		if (regions && regions[i])
			use_region(ep, r, &iov[i], regions[i]);
		else
			err = add_segment(ep, r, &iov[i]);
	}
	if (err) {
		/* the caller keeps it */
		r->payload = NULL;
		rdmamsg__rndv_free(ep, r);
		return err;
	}
	*ret = r;
	return 0;
}

void rdmamsg__rndv_free(struct rdmamsg_ep *ep, struct rndv_out *r)
{
	rdmamsg__rndv_forget(ep, r);
	for (uint32_t i = 0; i < r->count; i++)
		if (r->region[i])
			r->region[i]->busy--;
	if (r->payload)
		rdmamsg__msg_done(r->payload);
	free(r);
}

void rdmamsg__rndv_announce(struct rdmamsg_ep *ep, struct op *op)
{
	op->rndv->since = rdmamsg__now_ms();
	list_add_tail(&ep->rndv.out, &op->node);
	rdmamsg__rndv_more(ep);
	rdmamsg__rndv_tell(ep, op);
}

/* The peer's device may know a segment before its program does. */
static void offer(struct rdmamsg_ep *ep, const struct rndv_out *r, uint32_t i)
{
	const struct lane *l = &ep->lane;

	/* without a connection the announcement waits, and another follows */
	if (l->hot.qp && l->dev && r->v == l->dev->device->v &&
	    r->v->offer_read)
		r->v->offer_read(l->hot.qp, r->mr[i], r->addr[i], r->len[i]);
}

void rdmamsg__rndv_tell(struct rdmamsg_ep *ep, struct op *op)
{
	struct rndv_out *r = op->rndv;
	struct proto_rndv wire = {
		.total = r->total, .count = r->count, .has_crc = r->has_crc,
		.crc = r->crc,
	};
	size_t len;

	for (uint32_t i = 0; i < r->count; i++) {
		wire.keys[i].access = PROTO_KEY_READ;
		wire.keys[i].rkey = r->mr[i]->rkey;
		wire.keys[i].region = r->region[i] ? r->region[i]->id :
				      ++ep->ctx->memory->regions;
		wire.keys[i].addr = r->addr[i];
		wire.keys[i].len = r->len[i];
		offer(ep, r, i);
	}
	len = rdmamsg__rndv_encode(&wire, op->msg->data);
	rdmamsg__tx_message(ep, PROTO_RNDV, op->number, op->tag, op,
			    op->msg, NULL, (uint32_t)len);
}

void rdmamsg__rndv_done(struct rdmamsg_ep *ep, const struct proto_hdr *hdr)
{
	struct list *n;

	if (hdr->tag > PROTO_DONE_REFUSED) {
		rdmamsg__ep_protocol(ep, "DONE with result %u", hdr->tag);
		return;
	}
	list_for_each(n, &ep->rndv.out) {
		struct op *op = list_entry(n, struct op, node);

		if (op->number != hdr->number)
			continue;
		list_del(&op->node);
		rdmamsg__rndv_less(ep);
		op->status = hdr->tag == PROTO_DONE_OK ? 0 : -ECANCELED;
		ep->live.fetches = true;
		rdmamsg__ep_touch(ep);
		if (!--op->refs)
			rdmamsg__op_complete(ep, op, op->status);
		return;
	}
	rdmamsg__ep_protocol(ep, "DONE for message %u, which does not wait for "
			     "it", hdr->number);
}

/* ---- receiving -------------------------------------------------------- */

void rdmamsg__rndv_in_free(struct rndv_in *in)
{
	rdmamsg__sink_dereg(&in->sink, in->ep->lane.dev);
	rdmamsg__destination_drop(in->ep, &in->dst);
	rdmamsg__scatter_drop(in);
	list_del(&in->node);
	free(in);
}

int rdmamsg__rndv_check(struct rdmamsg_ep *ep, const void *buf, size_t len)
{
	struct proto_rndv wire;

	if (rdmamsg__rndv_decode(&wire, buf, len))
		rdmamsg__ep_protocol(ep, "a broken rendezvous");
	else if (ep->send.crc && !wire.has_crc)
		rdmamsg__ep_protocol(ep, "a rendezvous without the CRC of its "
				     "message");
	else if (!ep->lane.init_depth)
		rdmamsg__ep_protocol(ep, "a rendezvous, and its device serves "
				     "no reads");
	else if (wire.total > ep->rndv.announced_max)
		rdmamsg__ep_protocol(ep,
				     "a message of %u bytes, agreed were %u",
				     wire.total, ep->rndv.announced_max);
	else if (ep->rndv.fetch_count == RNDV_MAX)
		rdmamsg__ep_protocol(ep, "more than %d rendezvous not done",
				     RNDV_MAX);
	else
		return 0;
	return -EPROTO;
}

int rdmamsg__rndv_in_new(struct rdmamsg_ep *ep, struct rdmamsg_msg *announced)
{
	struct rndv_in *in = calloc(1, sizeof(*in));
	struct proto_hdr hdr;

	if (!in)
		return rdmamsg__fail(-ENOMEM, "no memory for a large message");
	/* cannot fail: rdmamsg__rndv_check() has decoded it before */
	(void)rdmamsg__rndv_decode(&in->wire, announced->data, announced->len);
	rdmamsg__hdr_decode(&hdr, announced->buf);
	in->ep = ep;
	in->announced = announced;
	in->number = hdr.number;
	in->tag = hdr.tag;
	list_add_tail(&ep->rndv.fetching, &in->node);
	return 0;
}

static void in_finish(struct rdmamsg_ep *ep, struct rndv_in *in,
		      enum proto_done how)
{
	in->state = how == PROTO_DONE_OK ? IN_READY : IN_REFUSED;
	if (how != PROTO_DONE_OK && rdmamsg__keeps(ep))
		ep->resume->refused[ep->resume->refusals++ % RNDV_MAX] =
			in->number;
	in->done = (uint8_t)how;
	in->done_due = true;
	ep->ctrl.due |= CTRL_DONE;
	rdmamsg__ep_touch(ep);
}

/* ---- destination ------------------------------------------------------ */

static struct sink *sink_of(struct rndv_in *in)
{
	return in->dst.msg->kind == MSG_USER ? &in->sink :
	       rdmamsg__msg_sink(in->dst.msg);
}

static int in_user_memory(struct rdmamsg_ep *ep, struct rndv_in *in, void *data)
{
	uint32_t lkey;
	size_t end;
	int err = rdmamsg__msg_user(ep->lane.dev, data, &in->dst.msg);

	if (err)
		return err;
	in->sink.mem = data;
	in->sink.size = in->wire.total;
	err = rdmamsg__sink_ready(&in->sink, ep->lane.dev, 0, 0, &lkey, &end);
	if (err) {
		rdmamsg__msg_put(in->dst.msg);
		in->dst.msg = NULL;
		return err;
	}
	in->dst.msg->room = in->wire.total;
	return 0;
}

/* Calls on_incoming. -ECANCELED: the program refuses this message. */
static int in_ask(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	struct rdmamsg_buffer dst = { NULL };
	int err;

	in->asked = true;
	if (!ep->on.on_incoming)
		return 0;
	ep->rndv.asking = in;
	ep->ctx->loop.in_callback++;
	err = ep->on.on_incoming(ep, in->wire.total, in->tag, &dst);
	ep->ctx->loop.in_callback--;
	ep->rndv.asking = NULL;
	if (err < 0) {
		rdmamsg__scatter_drop(in);
		return -ECANCELED;
	}
	if (in->layout)
		return 0;
	/* if the memory cannot be registered, use the library's memory */
	if (dst.data && rdmamsg__try(in_user_memory(ep, in, dst.data)))
		ep_warn(ep, "%s; the library's memory is used",
			rdmamsg__text());
	return 0;
}

/*
 * Takes memory when the reads can begin, and not at the announcement.
 * Otherwise a peer could take all memory with announcements.
 */
static void begin(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	if (in->again) {
		void *mem = in->again;

		in->again = NULL;
		(void)rdmamsg__try(in_user_memory(ep, in, mem));
	}
	if (!in->asked && in_ask(ep, in) == -ECANCELED) {
		ep_info(ep, "message %u of %u bytes refused", in->number,
			in->wire.total);
		in_finish(ep, in, PROTO_DONE_REFUSED);
		return;
	}
	if (!in->dst.msg &&
	    !(in->layout ? rdmamsg__scatter_begin(ep, in) :
	      rdmamsg__destination_get(ep, &in->dst, in->wire.total)))
		return;
	in->dst.msg->len = in->wire.total;
	in->dst.msg->tag = in->tag;
	in->state = IN_READING;
}

void rdmamsg__rndv_in_lost(struct rndv_in *in)
{
	struct rdmamsg_ep *ep = in->ep;
	void *mem = in->sink.mem;

	rdmamsg__sink_dereg(&in->sink, ep->lane.dev);
	if (in->state > IN_READING)
		return;
	rdmamsg__destination_drop(ep, &in->dst);
	in->state = IN_ANNOUNCED;
	in->reads = in->key = in->filled = in->arrived = 0;
	in->offset = 0;
	in->again = mem;	/* the program is not asked again */
}

/* ---- reading ---------------------------------------------------------- */

/*
 * Finds the place of the next read, of at most 'room' bytes. -EAGAIN:
 * outstanding reads must complete first.
 */
static int in_target(struct rdmamsg_ep *ep, struct rndv_in *in, uint32_t room,
		     struct scatter *ret)
{
	size_t end = in->wire.total;
	int err = 0;

	if (in->layout) {
		rdmamsg__scatter_next(in, room, ret);
		return 0;
	}
	ret->count = 1;
	ret->sge[0].addr = (uintptr_t)in->dst.msg->data + in->filled;
	ret->sge[0].lkey = in->dst.msg->lkey;
	if (in->dst.msg->kind != MSG_POOL)
		err = rdmamsg__try(rdmamsg__sink_ready(
				sink_of(in), ep->lane.dev, in->filled,
				in->arrived, &ret->sge[0].lkey, &end));
	if (err && err != -EAGAIN)
		rdmamsg__destination_failed(ep, err);
	ret->len = (uint32_t)min((size_t)room, end - in->filled);
	ret->sge[0].length = ret->len;
	return err;
}

/* As in_target(), for the bytes of one read. */
static int next_target(struct rdmamsg_ep *ep, struct rndv_in *in,
		       const struct proto_key *key, struct scatter *ret)
{
	const uint32_t room = (uint32_t)min(key->len - in->offset,
					    (uint64_t)ep->lane.chunk);
	int err = in_target(ep, in, room, ret);
	uint32_t len;

	if (err)
		return err;
	len = rdmamsg__read_untorn(&ep->lane, key->addr + in->offset,
				   ret->len);
	return unlikely(len < ret->len) ? in_target(ep, in, len, ret) : 0;
}

/* Posts one read. Returns false if no read can be posted now. */
static bool read_next(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	struct proto_key *key = &in->wire.keys[in->key];
	struct op *op, *proof = NULL;
	struct scatter to;

	if (in->filled == in->wire.total || next_target(ep, in, key, &to))
		return false;
	op = rdmamsg__op_get(ep);
	if (!op)
		return false;
	if (unlikely(ep->lane.doubts_reads) &&
	    in->filled + to.len == in->wire.total) {
		proof = rdmamsg__op_get(ep);
		if (!proof) {
			rdmamsg__op_put(ep, op);
			return false;
		}
	}
	op->kind = OP_READ;
	op->in = in;
	op->len = to.len;
	in->reads++;
	rdmamsg__read_taken(ep, READ_MESSAGE);
	rdmamsg__tx_read(ep, op, to.sge, to.count, key->addr + in->offset,
			 key->rkey);
	in->filled += to.len;
	in->offset += to.len;
	if (in->offset == key->len) {
		in->key++;
		in->offset = 0;
	}
	if (unlikely(proof)) {
		proof->kind = OP_PROOF;
		proof->in = in;
		in->reads++;
		rdmamsg__tx_empty(ep, proof);
	}
	return true;
}

static bool can_read(struct rdmamsg_ep *ep)
{
	return ep->state < EP_DRAINING &&
	       rdmamsg__sq_used(&ep->lane) < ep->lane.sq.total - SEND_RESERVE &&
	       rdmamsg__may_read(ep, READ_MESSAGE);
}

/* Posts reads, in the order of the messages. */
void rdmamsg__rndv_pump(struct rdmamsg_ep *ep)
{
	struct list *n;

	rdmamsg__rx_parse(ep);
	ep->reads.wants[READ_MESSAGE] = false;
	list_for_each(n, &ep->rndv.fetching) {
		struct rndv_in *in = list_entry(n, struct rndv_in, node);

		if (in->state > IN_READING || in->filled == in->wire.total)
			continue;
		if (!can_read(ep))
			return;
		if (in->state == IN_ANNOUNCED && !ep->recv.paused &&
		    !rdmamsg__rx_behind_pieces(ep, in->announced))
			begin(ep, in);
		if (in->state == IN_ANNOUNCED)
			return;		/* the next one waits its turn */
		while (in->state == IN_READING && can_read(ep) &&
		       read_next(ep, in))
			;
	}
}

static void in_whole(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	if (unlikely(ep->send.crc) &&
	    rdmamsg__crc_differs(ep, in->wire.total, in->layout ?
				 rdmamsg__scatter_crc(in) :
				 rdmamsg__crc32c(0, in->dst.msg->data,
						 in->wire.total),
				 in->wire.crc))
		return;
	ep->st.received_rendezvous++;
	in_finish(ep, in, PROTO_DONE_OK);
}

void rdmamsg__rndv_read_done(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rndv_in *in = op->in;

	ep->reads.free++;
	in->reads--;
	in->arrived += op->len;
	rdmamsg__op_put(ep, op);
	if (status)
		return;		/* the endpoint is ending */
	ep->lane.read_done = ep->lane.sq.done;
	if (in->arrived == in->wire.total && likely(!ep->lane.doubts_reads))
		in_whole(ep, in);
	rdmamsg__ep_touch(ep);
}

void rdmamsg__rndv_proven(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rndv_in *in = op->in;

	in->reads--;
	rdmamsg__op_put(ep, op);
	if (status)
		return;
	in_whole(ep, in);
	rdmamsg__ep_touch(ep);
}
