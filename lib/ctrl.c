/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages: CREDIT, DONE, PING, PONG, CLOSE, SETUP and the keepalive.
 * They take no credit. Each kind is bounded by a rule of its own, and the
 * peer keeps receives for exactly those bounds, so they always pass. What is
 * due is a flag, not a queue: a peer that floods us cannot make us hold more.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool room(const struct rdmamsg_ep *ep)
{
	return rdmamsg__sq_used(ep) < ep->sq_total && ep->state < EP_DRAINING;
}

static struct op *ctrl_op(struct rdmamsg_ep *ep, uint8_t type)
{
	struct op *op = rdmamsg__op_get(ep);

	if (op) {
		op->kind = OP_CTRL;
		op->ctrl = type;
	}
	return op;
}

/* Only CLOSE is waited for; a device without inline data needs a buffer. */
static bool send_header(struct rdmamsg_ep *ep, enum proto_type type,
			uint32_t number, uint32_t tag)
{
	struct op *op = NULL;

	if (!room(ep))
		return false;
	if (type == PROTO_CLOSE || !ep->can_inline) {
		op = ctrl_op(ep, (uint8_t)type);
		if (!op)
			return false;
	}
	if (!ep->can_inline) {
		op->msg = rdmamsg__ctrl_buffer(ep);
		if (!op->msg) {
			rdmamsg__op_put(ep, op);
			return false;
		}
	}
	rdmamsg__tx_message(ep, type, number, tag, op, op ? op->msg : NULL,
			    NULL, 0);
	return true;
}

static bool send_dones(struct rdmamsg_ep *ep)
{
	struct list *n;

	list_for_each(n, &ep->arriving) {
		struct rndv_in *in = list_entry(n, struct rndv_in, node);

		if (!in->done_due)
			continue;
		if (!send_header(ep, PROTO_DONE, in->number, in->done))
			return false;
		in->done_due = false;
		ep->rx_held--;
	}
	rdmamsg__rx_refill(ep);		/* their credits */
	return true;
}

static bool send_setup(struct rdmamsg_ep *ep)
{
	struct proto_setup s = {
		.recv_size = (uint32_t)ep->recv_pool->buf_size,
		.recv_depth = rdmamsg__granted(ep),
		.max_msg = ep->opts.max_msg_size,
		.dead_after_ms = ep->opts.dead_after_ms,
		.data = ep->setup_data,
		.data_len = (uint32_t)ep->opts.setup_data_len,
	};
	struct op *op;
	size_t len;

	memcpy(s.session, ep->session, sizeof(s.session));
	op = room(ep) ? ctrl_op(ep, PROTO_SETUP) : NULL;
	if (!op)
		return false;
	op->msg = rdmamsg__ctrl_buffer(ep);
	if (!op->msg) {
		rdmamsg__op_put(ep, op);
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_RESOURCES, -ENOMEM,
				   "no buffer for SETUP: %s", rdmamsg_error());
		rdmamsg__ep_kill(ep);
		return false;
	}
	len = rdmamsg__setup_encode(&s, op->msg->buf + PROTO_HDR_LEN);
	ep->setup_sent = true;
	rdmamsg__tx_message(ep, PROTO_SETUP, 0, 0, op, op->msg, NULL,
			    (uint32_t)len);
	return true;
}

static bool send_keepalive(struct rdmamsg_ep *ep)
{
	struct op *op = room(ep) ? ctrl_op(ep, 0) : NULL;

	if (!op)
		return false;
	ep->keepalive_out = true;
	ep->st.keepalives++;
	rdmamsg__tx_keepalive(ep, op);
	return true;
}

static void send_credit(struct rdmamsg_ep *ep)
{
	if (rdmamsg__granted(ep) == rdmamsg__announced(ep)) {
		ep->ctrl_due &= ~CTRL_CREDIT;	/* went with something else */
		return;
	}
	/* else when the peer has seen one of those: it will say so */
	if ((uint16_t)(ep->credit_msgs - ep->credit_seen) >= CREDIT_MAX)
		return;
	if (send_header(ep, PROTO_CREDIT, 0, 0)) {
		ep->credit_msgs++;
		ep->st.credit_msgs++;
		ep->ctrl_due &= ~CTRL_CREDIT;
	}
}

void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep)
{
	if (!ep->ctrl_due)
		return;
	if (ep->ctrl_due & CTRL_SETUP && send_setup(ep))
		ep->ctrl_due &= ~CTRL_SETUP;
	if (ep->ctrl_due & CTRL_DONE && send_dones(ep))
		ep->ctrl_due &= ~CTRL_DONE;
	if (ep->ctrl_due & CTRL_PONG &&
	    send_header(ep, PROTO_PONG, 0, ep->ping_tag))
		ep->ctrl_due &= ~CTRL_PONG;
	if (ep->ctrl_due & CTRL_PING && send_header(ep, PROTO_PING, 0, 0)) {
		ep->ctrl_due &= ~CTRL_PING;
		ep->ping_out = true;
		ep->st.pings++;
	}
	if (ep->ctrl_due & CTRL_CREDIT)
		send_credit(ep);
	if (ep->ctrl_due & CTRL_KEEPALIVE && send_keepalive(ep))
		ep->ctrl_due &= ~CTRL_KEEPALIVE;
	if (ep->ctrl_due & CTRL_CLOSE &&
	    send_header(ep, PROTO_CLOSE, 0, 0)) {
		ep->ctrl_due &= ~CTRL_CLOSE;
		ep->close_sent = true;
	}
}

/* The peer's SETUP: the initiator's is answered, then both are connected. */
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len)
{
	struct proto_setup s;

	if (ep->passive && ep->state == EP_REQUESTED) {
		/* it overtook the CM: as good as ESTABLISHED */
		ep->established = true;
		ep->state = EP_SETUP;
	}
	if (ep->setup_seen || (!ep->passive && !ep->setup_sent)) {
		rdmamsg__ep_protocol(ep, "SETUP out of turn");
		return;
	}
	if (rdmamsg__setup_decode(&s, buf, len)) {
		rdmamsg__ep_protocol(ep, "a broken SETUP");
		return;
	}
	if ((!ep->passive || ep->oob) &&
	    memcmp(s.session, ep->session, sizeof(s.session))) {
		rdmamsg__ep_protocol(ep, "SETUP for another session");
		return;
	}
	if (s.data_len) {
		ep->peer_data = malloc(s.data_len);
		if (!ep->peer_data) {
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
					   RDMAMSG_CAUSE_RESOURCES, -ENOMEM,
					   "no memory for the peer's data");
			rdmamsg__ep_kill(ep);
			return;
		}
		memcpy(ep->peer_data, s.data, s.data_len);
		ep->peer_data_len = s.data_len;
	}
	ep->peer = s;
	ep->peer.data = NULL;
	if (ep->passive)
		memcpy(ep->session, s.session, sizeof(ep->session));
	ep->copy_max = min(min(ep->opts.eager_max, s.recv_size - PROTO_HDR_LEN),
			   min((uint32_t)ep->send_pool->buf_size, ep->chunk) -
			   PROTO_HDR_LEN);
	ep->inline_max = min(min(ep->inline_max, (uint32_t)TX_STAGE),
				 min(ep->copy_max, s.max_msg));
	ep->inline_max = min(ep->inline_max, ep->opts.max_copy);
	ep->setup_seen = true;
	if (ep->passive)
		ep->ctrl_due |= CTRL_SETUP;
	else
		/* at once: data may follow in the same bunch of completions */
		rdmamsg__ep_connected(ep);
	rdmamsg__ep_touch(ep);
}
