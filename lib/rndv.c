/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous: the sender announces where a large message lies, the receiver
 * reads it into place and says DONE. Nothing is copied.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- sending ---------------------------------------------------------- */

/*
 * Every source has a registration of its own, for this one message and its
 * exact bytes, gone before the memory serves anybody else.
 */
int rdmamsg__rndv_prepare(struct rdmamsg_ep *ep, const struct iovec *iov,
			  int iovcnt, uint32_t total,
			  struct rdmamsg_msg *payload, struct rndv_out **ret)
{
	struct rdmamsg_device *d = ep->dev->device;
	struct rndv_out *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return rdmamsg__fail(-ENOMEM, "no memory for a large message");
	r->total = total;
	for (int i = 0; i < iovcnt; i++) {
		if (!iov[i].iov_len)
			continue;
		errno = 0;
		r->mr[r->count] = d->v->reg_mr(ep->dev->pd, iov[i].iov_base,
					       iov[i].iov_len,
					       IBV_ACCESS_REMOTE_READ);
		if (!r->mr[r->count]) {
			err = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
						  "registering a large "
						  "message");
			rdmamsg__rndv_free(ep, r);
			return err;
		}
		r->iov[r->count++] = iov[i];
	}
	r->payload = payload;
	*ret = r;
	return 0;
}

void rdmamsg__rndv_free(struct rdmamsg_ep *ep, struct rndv_out *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (ep->dev->device->v->dereg_mr(r->mr[i]))
			log_error("device %s: a large message could not be "
				  "deregistered", ep->dev->device->name);
	if (r->payload)
		rdmamsg__msg_put(r->payload);
	free(r);
}

void rdmamsg__rndv_announce(struct rdmamsg_ep *ep, struct op *op)
{
	struct rndv_out *r = op->rndv;
	struct proto_rndv wire = { .total = r->total, .count = r->count };
	size_t len;

	for (uint32_t i = 0; i < r->count; i++) {
		wire.keys[i].access = PROTO_KEY_READ;
		wire.keys[i].rkey = r->mr[i]->rkey;
		wire.keys[i].region = ++ep->ctx->regions;
		wire.keys[i].addr = (uintptr_t)r->iov[i].iov_base;
		wire.keys[i].len = r->iov[i].iov_len;
	}
	len = rdmamsg__rndv_encode(&wire, op->msg->buf + PROTO_HDR_LEN);
	r->since = rdmamsg__now_ms();
	list_add_tail(&ep->rndv_out, &op->node);
	rdmamsg__rndv_more(ep);
	rdmamsg__tx_message(ep, PROTO_RNDV, op->number, op->tag, op,
			    op->msg, NULL, (uint32_t)len);
}

void rdmamsg__rndv_done(struct rdmamsg_ep *ep, const struct proto_hdr *hdr)
{
	struct list *n;

	list_for_each(n, &ep->rndv_out) {
		struct op *op = list_entry(n, struct op, node);

		if (op->number != hdr->number)
			continue;
		list_del(&op->node);
		rdmamsg__rndv_less(ep);
		op->status = hdr->tag == PROTO_DONE_OK ? 0 :
			     hdr->tag == PROTO_DONE_REFUSED ? -ECANCELED :
			     -ENOBUFS;
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
	struct rdmamsg_ep *ep = in->ep;

	if (in->user_mr && ep->dev->device->v->dereg_mr(in->user_mr))
		log_error("device %s: memory could not be deregistered",
			  ep->dev->device->name);
	if (in->msg)
		rdmamsg__msg_put(in->msg);
	free(in);
}

static struct rndv_in *in_new(struct rdmamsg_ep *ep)
{
	struct rndv_in *in = calloc(1, sizeof(*in));

	if (!in) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_RESOURCES, -ENOMEM,
				   "no memory for an incoming message");
		rdmamsg__ep_kill(ep);
		return NULL;
	}
	in->ep = ep;
	list_add_tail(&ep->arriving, &in->node);
	rdmamsg__ep_ready(ep);
	return in;
}

/* What has to wait for a large message before it. */
void rdmamsg__rndv_behind(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
			  uint32_t tag)
{
	struct rndv_in *in = in_new(ep);

	if (!in) {
		if (msg)
			rdmamsg__pool_return(msg);
		return;
	}
	in->msg = msg;
	in->written = !msg;
	/* it holds no receive: without this there would be no end of them */
	ep->rx_held += in->written;
	in->tag = tag;
	in->state = IN_READY;
}

static void in_finish(struct rdmamsg_ep *ep, struct rndv_in *in,
		      enum proto_done how)
{
	in->state = how == PROTO_DONE_OK ? IN_READY : IN_REFUSED;
	in->done = (uint8_t)how;
	in->done_due = true;
	if (in->user_mr && ep->dev->device->v->dereg_mr(in->user_mr))
		log_error("device %s: memory could not be deregistered",
			  ep->dev->device->name);
	in->user_mr = NULL;
	ep->ctrl_due |= CTRL_DONE;
	rdmamsg__ep_touch(ep);
}

static int in_user_memory(struct rdmamsg_ep *ep, struct rndv_in *in, void *data)
{
	struct rdmamsg_device *d = ep->dev->device;
	int err = rdmamsg__msg_user(ep->dev, data, &in->msg);

	if (err)
		return err;
	errno = 0;
	in->user_mr = d->v->reg_mr(ep->dev->pd, data, in->wire.total,
				   IBV_ACCESS_LOCAL_WRITE);
	if (in->user_mr) {
		in->msg->lkey = in->user_mr->lkey;
		in->msg->room = in->wire.total;
		return 0;
	}
	err = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
				  "registering the memory of on_incoming");
	rdmamsg__msg_put(in->msg);
	in->msg = NULL;
	return err;
}

static int in_ask(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	struct rdmamsg_buffer dst = { NULL };
	int err;

	in->asked = true;
	if (!ep->on.on_incoming)
		return 0;
	ep->ctx->in_callback++;
	err = ep->on.on_incoming(ep, in->wire.total, in->tag, &dst);
	ep->ctx->in_callback--;
	if (err < 0)
		return -ECANCELED;
	/* the message matters more than where it goes */
	if (dst.data && in_user_memory(ep, in, dst.data))
		log_warn("ep %p: %s; the library's is used", (void *)ep,
			 rdmamsg_error());
	return 0;
}

/*
 * In the pool that the program has given for receiving, if it can grow so far.
 * -EAGAIN: what has been there before comes back, unless it is for receives.
 */
static int in_pool(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	struct rdmamsg_pool *owner = ep->recv_pool->owner;
	size_t size = (size_t)in->wire.total + PROTO_HDR_LEN;
	struct pool *pool;
	int err;

	if (!owner || rdmamsg__pool_least(owner, size) > owner->opts.max_bytes)
		return -ENOBUFS;
	err = rdmamsg__pool_get(ep->dev, &ep->dev->recv_pools, owner, size,
				&pool);
	if (!err && !pool->free)
		err = rdmamsg__pool_grow(pool, 1, &in->refused);
	if (err)
		return err == -ENOBUFS && pool->total && pool != ep->recv_pool ?
		       -EAGAIN : err;
	in->msg = rdmamsg__pool_take(pool);
	owner->rendezvous++;
	return 0;
}

/* -EAGAIN: when memory has come back. */
static int in_memory(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	uint32_t len = in->wire.total;
	int err = in->asked ? 0 : in_ask(ep, in), pool = 0;

	if (!err && !in->msg)
		pool = in_pool(ep, in);
	if (pool)
		err = rdmamsg__msg_large(ep->dev, len, &in->msg);
	if (err == -ENOBUFS &&
	    (pool == -EAGAIN || rdmamsg__large_fits(ep->ctx, len)))
		return -EAGAIN;
	if (err)
		return err;
	in->msg->len = len;
	in->msg->tag = in->tag;
	return 0;
}

void rdmamsg__rndv_arrived(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
			   const void *buf, size_t len)
{
	struct rndv_in *in = in_new(ep);

	if (!in)
		return;
	ep->rx_held++;
	in->number = hdr->number;
	in->tag = hdr->tag;
	in->rndv = true;
	if (rdmamsg__rndv_decode(&in->wire, buf, len)) {
		in->state = IN_REFUSED;
		rdmamsg__ep_protocol(ep, "a broken rendezvous");
		return;
	}
	if (!ep->init_depth) {
		in->state = IN_REFUSED;
		rdmamsg__ep_protocol(ep, "a rendezvous, and its device serves "
				     "no reads");
		return;
	}
	if (in->wire.total > ep->opts.max_msg_size) {
		in->state = IN_REFUSED;
		rdmamsg__ep_protocol(ep,
				     "a message of %u bytes, agreed were %u",
				     in->wire.total, ep->opts.max_msg_size);
		return;
	}
	rdmamsg__ep_touch(ep);
}

/*
 * Memory is taken when the reads can begin, not when they are announced: a
 * peer that announces much does not get all of ours.
 */
static void begin(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	int err = in_memory(ep, in);

	switch (err) {
	case 0:
		in->state = IN_READING;
		break;
	case -EAGAIN:
		if (list_empty(&ep->starved_node))
			list_add_tail(&ep->ctx->starved, &ep->starved_node);
		break;
	case -ECANCELED:
		log_info("ep %p: message %u of %u bytes refused", (void *)ep,
			 in->number, in->wire.total);
		in_finish(ep, in, PROTO_DONE_REFUSED);
		break;
	default:
		log_warn("ep %p: message %u of %u bytes is lost: %s",
			 (void *)ep, in->number, in->wire.total,
			 rdmamsg_error());
		in_finish(ep, in, PROTO_DONE_FAILED);
	}
}

/* Issues one read; false when all of this message has been asked for. */
static bool read_next(struct rdmamsg_ep *ep, struct rndv_in *in)
{
	struct proto_key *key = &in->wire.keys[in->key];
	struct op *op;
	uint32_t len;

	if (in->filled == in->wire.total)
		return false;
	op = rdmamsg__op_get(ep);
	if (!op)
		return false;
	len = (uint32_t)min(key->len - in->offset, (uint64_t)ep->chunk);
	op->kind = OP_READ;
	op->in = in;
	in->reads++;
	rdmamsg__read_taken(ep, READ_MESSAGE);
	rdmamsg__tx_read(ep, op, in->msg->data + in->filled, in->msg->lkey, len,
			 key->addr + in->offset, key->rkey);
	in->filled += len;
	in->offset += len;
	if (in->offset == key->len) {
		in->key++;
		in->offset = 0;
	}
	return true;
}

static bool can_read(struct rdmamsg_ep *ep)
{
	return ep->state < EP_DRAINING &&
	       rdmamsg__sq_used(ep) < ep->sq_total - SEND_RESERVE &&
	       rdmamsg__may_read(ep, READ_MESSAGE);
}

/* Keeps the reads going, in order of the messages. */
void rdmamsg__rndv_pump(struct rdmamsg_ep *ep)
{
	struct list *n;

	ep->read_wants[READ_MESSAGE] = false;
	list_for_each(n, &ep->arriving) {
		struct rndv_in *in = list_entry(n, struct rndv_in, node);

		if (in->state > IN_READING || in->filled == in->wire.total)
			continue;
		if (!can_read(ep))
			return;
		if (in->state == IN_ANNOUNCED)
			begin(ep, in);
		if (in->state == IN_ANNOUNCED)
			return;		/* the next one waits its turn */
		while (in->state == IN_READING && can_read(ep) &&
		       read_next(ep, in))
			;
	}
}

void rdmamsg__rndv_read_done(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rndv_in *in = op->in;

	ep->reads_free++;
	in->reads--;
	rdmamsg__op_put(ep, op);
	if (status)
		return;		/* the endpoint is on its way out */
	if (!in->reads && in->filled == in->wire.total) {
		ep->st.received_rendezvous++;
		in_finish(ep, in, PROTO_DONE_OK);
	}
	rdmamsg__ep_touch(ep);
}
