/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: keeping receives posted, credits, delivery in order. */
#include "internal.h"

#include <string.h>

static void grant(struct rdmamsg_ep *ep)
{
	uint32_t posted = ep->rq_posted - ep->rq_done;
	uint32_t data = posted > RECV_RESERVE ? posted - RECV_RESERVE : 0;
	uint32_t granted;

	/* a rendezvous keeps its credit until the message is done */
	data = data > ep->rx_held ? data - ep->rx_held : 0;
	granted = ep->rx_next + data;
	if ((int32_t)(granted - ep->hot.granted) > 0)
		ep->hot.granted = granted;
	/*
	 * With data going the other way the news travels for free. Otherwise
	 * it is worth a message when half of the credits have come together,
	 * or when they come one by one for want of memory.
	 */
	if ((ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	    ep->hot.granted - ep->hot.announced >=
	    (list_empty(&ep->starved_node) && !ep->rx_held ?
	     max(ep->opts.recv_depth / 2, 1u) : 1))
		ep->ctrl_due |= CTRL_CREDIT;
}

/* The requests of the ring are chained already: cut the chain, post, mend. */
static int post(struct rdmamsg_ep *ep, uint32_t end)
{
	struct ibv_recv_wr *last = &ep->rq_wr[(end - 1) & ep->rq_mask], *bad;
	struct ibv_recv_wr *next = last->next;
	uint32_t from = ep->rq_posted & ep->rq_mask;
	int ret;

	last->next = NULL;
	ret = rdmamsg__verbs_ret(ibv_post_recv(ep->hot.qp, &ep->rq_wr[from],
					       &bad));
	last->next = next;
	if (likely(!ret)) {
		ep->rq_posted = end;
		return 0;
	}
	ep->rq_posted += ((uint32_t)(bad - ep->rq_wr) - from) & ep->rq_mask;
	for (uint32_t at = ep->rq_posted; at != end; at++)
		rdmamsg__pool_return(ep->rq_slots[at & ep->rq_mask]);
	return ret;
}

void rdmamsg__rx_refill(struct rdmamsg_ep *ep)
{
	uint32_t at = ep->rq_posted, end = ep->rq_done + ep->rq_target;
	struct pool *pool = ep->recv_pool;
	int ret;

	if (!ep->hot.qp || ep->state >= EP_DRAINING)
		return;
	while (at != end) {
		struct rdmamsg_msg *msg = rdmamsg__pool_take(pool);
		uint32_t slot = at & ep->rq_mask;

		if (unlikely(!msg)) {
			if (rdmamsg__pool_grow(pool, end - at))
				break;
			continue;
		}
		ep->rq_sge[slot].addr = (uintptr_t)msg->buf;
		ep->rq_sge[slot].lkey = msg->lkey;
		ep->rq_slots[slot] = msg;
		at++;
	}
	/* the program holds it all: again when it lets go of some */
	if (unlikely(at != end && list_empty(&ep->starved_node)))
		list_add_tail(&ep->dev->starved, &ep->starved_node);
	if (at != ep->rq_posted) {
		ret = post(ep, at);
		if (unlikely(ret)) {
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE,
					   RDMAMSG_CAUSE_TRANSPORT, ret,
					   "posting a receive failed: %s",
					   strerror(-ret));
			rdmamsg__ep_kill(ep);
			return;
		}
	}
	grant(ep);
}

static inline void deliver(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	ep->st.msgs_received++;
	ep->st.bytes_received += msg->len;
	rdmamsg__msg_lend(msg);
	if (likely(ep->on.on_message)) {
		ep->ctx->in_callback++;
		ep->on.on_message(ep, msg);
		ep->ctx->in_callback--;
		return;
	}
	msg->next = NULL;
	*ep->inbox_tail = msg;
	ep->inbox_tail = &msg->next;
}

/* What has waited behind a large message, as far as it is complete. */
void rdmamsg__rx_deliver(struct rdmamsg_ep *ep)
{
	while (!list_empty(&ep->arriving)) {
		struct rndv_in *in = list_first(&ep->arriving, struct rndv_in,
						node);
		struct rdmamsg_msg *msg = in->msg;
		bool refused = in->state == IN_REFUSED;

		if (in->state <= IN_READING || in->done_due ||
		    ep->state >= EP_DRAINING)
			return;
		if (!refused)
			in->msg = NULL;
		list_del(&in->node);
		rdmamsg__rndv_in_free(in);
		if (!refused)
			deliver(ep, msg);
	}
}

/* The endpoint ends: nobody will see these. */
void rdmamsg__rx_discard(struct rdmamsg_ep *ep)
{
	while (!list_empty(&ep->arriving)) {
		struct rndv_in *in = list_first(&ep->arriving, struct rndv_in,
						node);

		list_del(&in->node);
		rdmamsg__rndv_in_free(in);
	}
	while (ep->rq_done != ep->rq_posted)
		rdmamsg__msg_put(ep->rq_slots[ep->rq_done++ & ep->rq_mask]);
}

static inline void take_credit(struct rdmamsg_ep *ep, const struct proto_hdr *hdr)
{
	if ((int32_t)(hdr->credit - ep->hot.limit) > 0)
		ep->hot.limit = hdr->credit;
	ep->credit_seen = hdr->seen;
	if (unlikely(ep->want_writable || ep->queued || ep->ctrl_due))
		rdmamsg__ep_touch(ep);
}

/* A data message's number must be the next one, within what we granted. */
static inline bool take_number(struct rdmamsg_ep *ep, const struct proto_hdr *hdr)
{
	if (unlikely(ep->state < EP_OPEN || ep->close_seen)) {
		rdmamsg__ep_protocol(ep, "a data message %s", ep->close_seen ?
				     "after CLOSE" : "before SETUP");
		return false;
	}
	if (unlikely(hdr->number != ep->rx_next)) {
		rdmamsg__ep_protocol(ep, "message %u where %u was due",
				     hdr->number, ep->rx_next);
		return false;
	}
	if (unlikely((int32_t)(ep->hot.announced - hdr->number) <= 0)) {
		rdmamsg__ep_protocol(ep, "message %u, credit was given up to %u",
				     hdr->number, ep->hot.announced);
		return false;
	}
	ep->rx_next++;
	return true;
}

static inline void rx_data(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
		    struct rdmamsg_msg *msg)
{
	if (!take_number(ep, hdr)) {
		rdmamsg__pool_return(msg);
		return;
	}
	if (unlikely(msg->len > ep->opts.max_msg_size)) {
		rdmamsg__ep_protocol(ep, "a message of %u bytes, agreed were %u",
				     msg->len, ep->opts.max_msg_size);
		rdmamsg__pool_return(msg);
		return;
	}
	msg->tag = hdr->tag;
	if (likely(list_empty(&ep->arriving)))
		deliver(ep, msg);
	else
		rdmamsg__rndv_behind(ep, msg);
}

static void rx_control(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
		       const uint8_t *body, size_t len)
{
	switch (hdr->type) {
	case PROTO_RNDV:
		if (take_number(ep, hdr))
			rdmamsg__rndv_arrived(ep, hdr, body, len);
		break;
	case PROTO_DONE:
		rdmamsg__rndv_done(ep, hdr);
		break;
	case PROTO_CREDIT:
		ep->hot.seen++;
		break;
	case PROTO_PING:
		ep->ping_tag = hdr->tag;
		ep->ctrl_due |= CTRL_PONG;
		break;
	case PROTO_PONG:
		ep->ping_out = false;
		break;
	case PROTO_CLOSE:
		if (ep->state < EP_OPEN || ep->close_seen) {
			rdmamsg__ep_protocol(ep, ep->close_seen ?
					     "a second CLOSE" :
					     "CLOSE before SETUP");
			break;
		}
		ep->close_seen = true;
		if (ep->state == EP_OPEN)
			rdmamsg__ep_peer_closes(ep);
		break;
	case PROTO_SETUP:
		rdmamsg__ctrl_setup(ep, body, len);
		break;
	default:
		rdmamsg__ep_protocol(ep, "message type %u", hdr->type);
	}
}

void rdmamsg__rx_done(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id & 0x7fffffffu;
	struct rdmamsg_msg *msg;
	struct proto_hdr hdr;

	if (unlikely(ep->rq_done == ep->rq_posted ||
		     slot != (ep->rq_done & ep->rq_mask)))
		return;		/* not one of ours: a device gone mad */
	msg = ep->rq_slots[slot];
	ep->rq_done++;
	if (unlikely(wc->status != IBV_WC_SUCCESS ||
		     ep->state >= EP_DRAINING)) {
		rdmamsg__msg_put(msg);	/* others may wait for it */
		rdmamsg__ep_touch(ep);
		return;
	}
	ep->rx_count++;
	/* a few at a time: it is one post for all, and credits can wait */
	if (unlikely(ep->rq_posted - ep->rq_done + ep->rx_lazy <= ep->rq_target))
		rdmamsg__ep_touch(ep);
	if (unlikely(wc->byte_len < PROTO_HDR_LEN ||
		     wc->byte_len > ep->recv_pool->buf_size)) {
		rdmamsg__ep_protocol(ep, "a message of %u bytes, shorter than "
				     "its header", wc->byte_len);
		rdmamsg__pool_return(msg);
		return;
	}
	rdmamsg__hdr_decode(&hdr, msg->buf);
	if (unlikely((int32_t)(hdr.credit - ep->hot.number) > PROTO_DEPTH_MAX)) {
		rdmamsg__ep_protocol(ep, "a credit of %u at message %u",
				     hdr.credit, ep->hot.number);
		rdmamsg__pool_return(msg);
		return;
	}
	if (unlikely((uint16_t)(ep->credit_msgs - hdr.seen) > CREDIT_MAX)) {
		rdmamsg__ep_protocol(ep, "%u CREDIT messages seen, %u were sent",
				     hdr.seen, ep->credit_msgs);
		rdmamsg__pool_return(msg);
		return;
	}
	take_credit(ep, &hdr);
	msg->data = msg->buf + PROTO_HDR_LEN;
	msg->len = wc->byte_len - PROTO_HDR_LEN;
	if (likely(hdr.type == PROTO_DATA)) {
		rx_data(ep, &hdr, msg);
		return;
	}
	/* an answer or the next step of closing may be due */
	rdmamsg__ep_touch(ep);
	rx_control(ep, &hdr, msg->data, msg->len);
	rdmamsg__pool_return(msg);
}
