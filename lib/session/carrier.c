/* SPDX-License-Identifier: BSD-2-Clause */
/* The carrier of a session: RESUME both ways, and giving its lane away. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/qpmap.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/lane.h"
#include "lane/srq.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "session/connector.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/lobby.h"
#include "session/recv.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/send.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

/* ---- RESUME ------------------------------------------------------------ */

static bool room(const struct rdmamsg_ep *c)
{
	return rdmamsg__sq_used(&c->lane) < c->lane.sq.total;
}

/* Returns an operation with a buffer, or NULL. */
static struct op *resume_op(struct rdmamsg_ep *c)
{
	struct op *op = room(c) ? rdmamsg__op_get(c) : NULL;

	if (!op)
		return NULL;
	op->kind = OP_CTRL;
	op->ctrl = PROTO_RESUME;
	op->msg = rdmamsg__ctrl_buffer(c);
	if (op->msg)
		return op;
	rdmamsg__op_put(c, op);
	return NULL;
}

static void wire_of(struct rdmamsg_ep *ep, const struct rndv_out *out,
		    struct proto_rndv *wire)
{
	*wire = (struct proto_rndv){
		.total = out->total, .count = out->count,
		.has_crc = out->has_crc, .crc = out->crc,
	};
	for (uint32_t i = 0; i < out->count; i++)
		wire->keys[i] = (struct proto_key){
			.access = PROTO_KEY_READ, .rkey = out->mr[i]->rkey,
			.region = out->region[i] ? out->region[i]->id :
				  ++ep->ctx->memory->regions,
			.addr = out->addr[i], .len = out->len[i],
		};
}

/* The entries that our next RESUME begins with. */
struct rest {
	struct list *out;		/* announcement */
	uint32_t key;
};

static bool fits(size_t len, size_t more)
{
	return len + more <= PROTO_RECV_MIN - PROTO_HDR_LEN;
}

/* Sends one message with as much of the rest as fits. */
static bool say_part(struct rdmamsg_ep *ep, struct rest *rest)
{
	struct rdmamsg_ep *c = ep->resume->carrier;
	struct proto_resume h = { .next = ep->recv.next };
	size_t len = PROTO_RESUME_LEN;
	struct op *op = resume_op(c);

	if (!op)
		return false;
	while (rest->out != &ep->rndv.out &&
	       fits(len, PROTO_RESUME_ENTRY_LEN + PROTO_RNDV_MAX)) {
		const struct op *out = list_entry(rest->out, struct op, node);
		struct proto_rndv wire;

		wire_of(ep, out->rndv, &wire);
		len += rdmamsg__resume_entry_encode(out->number, &wire,
						    op->msg->data + len);
		h.count++;
		rest->out = rest->out->next;
	}
	while (rest->out == &ep->rndv.out &&
	       rest->key < ep->resume->given.count &&
	       fits(len, PROTO_RENEWED_LEN)) {
		struct proto_renewed k;

		rdmamsg__renew_key(ep, c->lane.dev, rest->key++, &k);
		rdmamsg__renewed_encode(&k, op->msg->data + len);
		len += PROTO_RENEWED_LEN;
		h.keys++;
	}
	h.more = rest->out != &ep->rndv.out ||
		 rest->key < ep->resume->given.count;
	rdmamsg__resume_encode(&h, op->msg->data);
	rdmamsg__tx_message(c, PROTO_RESUME, 0, 0, op, op->msg, NULL,
			    (uint32_t)len);
	return true;
}

/* Registers announced large messages with the carrier's device. */
static int rekey(struct rdmamsg_ep *ep, struct dev *dev)
{
	struct list *n;
	int err = 0;

	list_for_each(n, &ep->rndv.out) {
		struct rndv_out *out = list_entry(n, struct op, node)->rndv;

		rdmamsg__rndv_forget(ep, out);
		err = err ? err : rdmamsg__rndv_register(dev, out);
	}
	return err;
}

/* The device may be closed once the carrier has ended. */
void rdmamsg__carrier_unkey(struct rdmamsg_ep *ep)
{
	struct list *n;

	list_for_each(n, &ep->rndv.out)
		rdmamsg__rndv_forget(ep, list_entry(n, struct op, node)->rndv);
}

bool rdmamsg__carrier_say(struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep *c = ep->resume->carrier;
	struct rest rest = { ep->rndv.out.next, 0 };
	int err = rdmamsg__try(rekey(ep, c->lane.dev));
	bool said = !err;

	if (err) {
		rdmamsg__ep_abort(c, RDMAMSG_CAUSE_RESOURCES, err,
				  rdmamsg__text());
		return false;
	}
	do
		said = say_part(ep, &rest);
	while (said && (rest.out != &ep->rndv.out ||
			rest.key < ep->resume->given.count));
	if (!said)
		rdmamsg__ep_abort(c, RDMAMSG_CAUSE_RESOURCES, -ENOMEM,
				  "no memory to resume");
	rdmamsg__tx_flush(ep->ctx);
	return said;
}

/* ---- what the peer has said ------------------------------------------- */

static struct rndv_in *find_in(struct rdmamsg_ep *ep, uint32_t number)
{
	struct list *n;

	list_for_each(n, &ep->rndv.fetching) {
		struct rndv_in *in = list_entry(n, struct rndv_in, node);

		if (in->number == number)
			return in;
	}
	return NULL;
}

/* Sends DONE again, because the first may not have arrived. */
static void say_again(struct resume *r, uint32_t number)
{
	uint8_t how = PROTO_DONE_OK;

	for (uint32_t i = 0; i < min(r->refusals, (uint32_t)RNDV_MAX); i++)
		if (r->refused[i] == number)
			how = PROTO_DONE_REFUSED;
	if (r->again_count < RNDV_MAX)
		r->again[r->again_count++] = (struct again){ number, how };
}

/* The peer announces this message again, with the keys of another device. */
static void announced_again(struct rdmamsg_ep *ep, uint32_t number,
			    const struct proto_rndv *wire)
{
	struct rndv_in *in = find_in(ep, number);

	if ((int32_t)(number - ep->recv.next) >= 0)
		return;			/* its announcement will be replayed */
	if (in && in->state <= IN_READING) {
		if (in->wire.total != wire->total ||
		    in->wire.has_crc != wire->has_crc)
			rdmamsg__ep_protocol(ep, "message %u of %u bytes, "
					     "announced were %u", number,
					     wire->total, in->wire.total);
		in->wire = *wire;
	} else if (in && !in->done_due) {
		in->done_due = true;
		ep->rndv.fetch_count++;
	} else if (!in) {
		say_again(ep->resume, number);
	}
	ep->ctrl.due |= CTRL_DONE;
}

static void take_entries(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	size_t used = 0;

	/* else announcements that wait for memory would keep their old keys */
	rdmamsg__rx_parse(ep);
	r->again_count = 0;
	while (used < r->entries_len) {
		struct proto_rndv wire;
		uint32_t number;
		int n = rdmamsg__resume_entry_decode(&number, &wire,
						     r->entries + used,
						     r->entries_len - used);

		if (n < 0)
			return;		/* never: take_entries() of resume.c */
		used += (size_t)n;
		announced_again(ep, number, &wire);
	}
}

/*
 * Releases the messages before peer_next, which the peer has. The others are
 * to be posted again, before any message that a callback sends.
 */
static void confirm(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	r->keep.at = r->peer_next;
	rdmamsg__lost_confirm(ep, r->peer_next);
}

/* Returns the first parked write before a message that the peer has. */
static struct rma *confirmed_write(const struct resume *r)
{
	struct list *n;

	list_for_each(n, &r->parked) {
		struct rma *m = list_entry(n, struct rma, op.node);

		if (m->kind == RMA_WRITE &&
		    (int32_t)(r->peer_next - m->op.number) > 0)
			return m;
	}
	return NULL;
}

/*
 * Ends these writes: their bytes have arrived. A repetition would be an error,
 * because the peer's program may use that memory again. A callback may change
 * the list, so each search begins at its start.
 */
static void confirm_writes(struct rdmamsg_ep *ep)
{
	struct rma *m;

	while ((m = confirmed_write(ep->resume))) {
		list_del(&m->op.node);
		rdmamsg__rma_end(ep, &m->op, 0);
	}
}

/*
 * Gives one-sided operations the present rkeys of the peer's regions. Returns
 * the first operation whose region has none any more, or NULL. An operation
 * that the peer has refused already is not returned. The peer refuses it again,
 * and both sides end.
 */
static struct rma *renew_some(struct rdmamsg_ep *ep, struct list *ops)
{
	struct list *n;

	list_for_each(n, ops) {
		struct rma *m = list_entry(n, struct rma, op.node);

		if (m->op.kind != OP_RMA)
			continue;
		m->rkey = m->given;
		if (!rdmamsg__try(rdmamsg__renew_find(ep, m->peer_region,
						      &m->rkey)))
			continue;
		if (!m->refused)
			return m;
		/* no device has this key, so the refusal is certain */
		m->rkey = 0;
	}
	return NULL;
}

static void renew(struct rdmamsg_ep *ep, struct list *ops)
{
	struct rma *m;

	while ((m = renew_some(ep, ops))) {
		list_del(&m->op.node);
		ep->send.queued -= ops == &ep->send.queue;
		rdmamsg__rma_end(ep, &m->op, -EACCES);
	}
}

/* ---- giving the lane -------------------------------------------------- */

/* Makes ep the owner of the carrier's outstanding requests. */
static void move_requests(struct rdmamsg_ep *ep, struct rdmamsg_ep *c)
{
	struct lane *l = &ep->lane;

	for (uint32_t i = l->sq.done; i != (uint32_t)l->hot.sq_posted; i++) {
		struct op **slot = &l->sq.slots[i & l->sq.mask];
		struct op *from = *slot, *to;

		if (!from)
			continue;
		to = rdmamsg__op_get(ep);
		if (!to) {
			rdmamsg__ep_device_failed(ep, -ENOMEM, "resuming");
			return;
		}
		to->kind = from->kind;
		to->ctrl = from->ctrl;
		to->tag = from->tag;
		to->msg = from->msg;
		to->refs = from->refs;
		from->msg = NULL;
		*slot = to;
		rdmamsg__op_put(c, from);
	}
}

static void move_lane(struct rdmamsg_ep *ep, struct rdmamsg_ep *c)
{
	struct rdmamsg *ctx = ep->ctx;
	const struct rdmamsg_hot_ep old = ep->lane.hot;
	struct lane *l = &ep->lane;

	*l = c->lane;
	l->hot.number = old.number;
	l->hot.low = old.number & PROTO_NUMBER_MASK;
	l->hot.bytes_sent += old.bytes_sent;
	l->hot.wr.sg_list = &l->hot.sge;
	l->hot.qp->qp_context = l;
	c->lane = (struct lane){
		.rq.head = rdmamsg__nobody.lane.rq.head, .on = l->on,
		.hot.signal_every = 1, .v = l->v,
	};
	ep->key = c->key;
	ctx->sessions->table.at[ep->key >> 8] = ep;
	if (ctx->last == c)
		ctx->last = &rdmamsg__nobody;
	if (l->srq) {
		rdmamsg__qpmap_del(&l->dev->qps, l->hot.qp->qp_num);
		/* succeeds: the place has just become free */
		(void)rdmamsg__qpmap_add(&l->dev->qps, l->hot.qp->qp_num, l);
		for (uint32_t i = 1; i < ep->rndv.count; i++)
			rdmamsg__srq_expect(&l->srq->account);
	}
	ep->st.sent_inline += c->st.sent_inline;
	ep->st.msgs_received += c->st.msgs_received;
}

static void move_connection(struct rdmamsg_ep *ep, struct rdmamsg_ep *c)
{
	struct connecting *to = &ep->connect, *from = &c->connect;
	const struct visitor left = to->visitor;

	/* from now on the endpoint counts at the listener of the new lane */
	to->visitor = from->visitor;
	from->visitor = left;

	to->id = from->id;
	to->owner = from->owner;
	if (to->id)
		to->id->context = &to->owner;
	from->id = NULL;
	to->established = from->established;
	from->established = false;
	to->peer = from->peer;
	to->version = from->version;
	to->features = from->features;
	to->local_addr = from->local_addr;
	to->peer_addr = from->peer_addr;
}

/* Adds the message number that each receiver expects next. */
static void move_credits(struct rdmamsg_ep *ep, const struct rdmamsg_ep *c)
{
	struct credits *to = &ep->credit;

	*to = c->credit;
	to->granted += ep->recv.next;
	to->announced += ep->recv.next;
	to->limit += ep->resume->peer_next;
	to->offered = 0;
	ep->recv.max = c->recv.max;
}

static void move_sending(struct rdmamsg_ep *ep, struct rdmamsg_ep *c)
{
	struct sending *to = &ep->send;

	to->inline_max = c->send.inline_max;
	to->copy_max = c->send.copy_max;
	to->pieces_max = c->send.pieces_max;
	to->can_inline = c->send.can_inline;
	to->compact = c->send.compact;
	to->wants = 0;			/* the next lane may never have them */
	to->pool = c->send.pool;
	ep->ctrl.pool = c->ctrl.pool;
	c->send.pool = c->ctrl.pool = NULL;
	ep->reads.free = c->reads.free;
	ep->reads.wants[READ_MESSAGE] = ep->reads.wants[READ_RMA] = false;
}

static void move_liveness(struct rdmamsg_ep *ep, struct rdmamsg_ep *c)
{
	const uint32_t later = CTRL_PONG | CTRL_PATH | CTRL_CLOSE |
			       CTRL_SETUP | CTRL_AUTH | CTRL_KEEPALIVE |
			       CTRL_PING;

	ep->ctrl.due = (ep->ctrl.due & ~later) | c->ctrl.due;
	ep->ctrl.ping_tag = c->ctrl.ping_tag;
	ep->live.ping_out = c->live.ping_out;
	ep->live.ping_seq = c->live.ping_seq;
	ep->live.keepalive_out = c->live.keepalive_out;
	ep->live.ask_again = false;
	/* the peer reads again from the beginning, so its time begins anew */
	ep->live.fetched = rdmamsg__now_ms();
	ep->live.dead = c->live.dead;
	ep->live.rx_seen = c->live.rx_seen;
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &c->live.timer);
	rdmamsg__live_start(ep);
}

/* Closing begins again, because CLOSE has no number and is not repeated. */
static void reset_close(struct closing *close)
{
	close->sent = close->done = close->seen = false;
	close->asserted = close->confirmed = close->asserted_done = false;
	close->once = false;
	close->lost = close->lost_read = close->gap = false;
	close->disconnect_sent = close->disconnected = false;
	close->unanswered = false;
}

/* Ends the carrier, which has given everything to ep. */
static void dismiss(struct rdmamsg_ep *c)
{
	c->carries = NULL;
	c->ctrl.due = 0;
	c->rndv.announced_max = c->rndv.holds_max = 0;
	c->state = EP_DRAINING;
	rdmamsg__ep_reason(c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED, 0,
			   "its queue pair has another endpoint now");
	rdmamsg__timer_stop(&c->ctx->loop.timers, &c->timer);
	c->connect.by->cancel(c);
	rdmamsg__ep_touch(c);
}

void rdmamsg__carrier_give(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	struct rdmamsg_ep *c = r->carrier;

	if (ep->ctx->tx->lane == &c->lane)
		rdmamsg__tx_flush(ep->ctx);
	/* the session itself is counted at its listener already */
	rdmamsg__lobby_credit(c);
	rdmamsg__srq_unshare(c);
	move_lane(ep, c);
	move_requests(ep, c);
	move_connection(ep, c);
	move_credits(ep, c);
	move_sending(ep, c);
	move_liveness(ep, c);
	reset_close(&ep->close);
	dismiss(c);
	r->carrier = NULL;
	r->lane = LANE_UP;
	r->lanes++;
	rdmamsg__failover_moved(ep, c);
	ep->onesided.can = rdmamsg__rma_kinds(ep);
	/*
	 * The callbacks of confirmed operations may use the lane and its keys.
	 * Earlier operations wait until they have theirs.
	 */
	rdmamsg__renew_done(r);
	r->taking = true;
	confirm(ep);
	confirm_writes(ep);
	renew(ep, &r->parked);
	renew(ep, &ep->send.queue);
	r->taking = false;
	take_entries(ep);
	rdmamsg__ep_ready(ep);
	ep->ctrl.due |= CTRL_LANE;
	rdmamsg__ep_touch(ep);
}
