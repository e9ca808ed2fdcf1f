/* SPDX-License-Identifier: BSD-2-Clause */
/* Visitors of a target: their frames, their ends, and the port. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/ticket.h"
#include "dc/visit.h"
#include "dc/visitor.h"
#include "device/dc.h"
#include "device/device.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define RECEIVES	2048u	/* default, of all visitors */
#define HELLOS		64u	/* receives without credits */
#define GRANT		64u	/* credits of a visitor, at most */
#define SHARE		16u	/* of free receives, for one more visitor */
#define INITIATORS	16u
#define PROBE		4u	/* ticks of silence until a probe */
#define PATIENCE	2u	/* ticks without progress, if others wait */
#define FORGET		(DCF_FORGET_MS / PORT_TICK_MS)	/* ticks of silence */
#define FAREWELL	20u	/* ticks until its BYE */
#define HUNGRY		120u	/* ticks without memory for a large message */

_Static_assert(FAREWELL > FORGET, "there is time for an ASK of the sender");

/* ---- the end ----------------------------------------------------------- */

static void end(struct visitor *v)
{
	struct rdmamsg_dc_target *t = v->t;

	rdmamsg__peer_drop(&v->peer);
	while (!list_empty(&v->queue))
		rdmamsg__item_free(v, list_first(&v->queue, struct item, node));
	while (!list_empty(&v->dones))
		rdmamsg__item_free(v, list_first(&v->dones, struct item, node));
	list_del(&v->starving.node);
	t->granted -= v->grant;
	t->sessions--;
	rdmamsg__peer_close(&v->peer);
	list_del(&v->node);
	rdmamsg__ticket_free(v->ticket);
	free(v->items);
	free(v);
	rdmamsg__dc_target_due(t);
}

/* Ends the visitor when it is not busy. Returns true if it has ended. */
static bool settle(struct visitor *v)
{
	if (!v->ended)
		return false;
	if (rdmamsg__peer_busy(&v->peer)) {
		rdmamsg__peer_ask(&v->peer);
		return false;
	}
	end(v);
	return true;
}

/* The visitor has broken the protocol. */
void rdmamsg__visitor_refuse(struct visitor *v, const char *what)
{
	log_info("context %u: dc target on port %u: sender 0x%llx: %s",
		 v->t->ctx->number, v->t->port, (unsigned long long)v->sender,
		 what);
	v->bye_due = v->leaves = true;
	v->reason = 1;
}

static void done(struct dc_peer *peer, const struct dc_tx *tx,
		 const struct ibv_wc *wc)
{
	struct visitor *v = visitor_of(peer);
	const bool ok = wc->status == IBV_WC_SUCCESS;

	/* the sender's device has answered */
	if (ok)
		v->quiet = 0;
	if (ok && tx->kind != TX_READ)
		rdmamsg__peer_taken(peer);
	if (tx->kind == TX_BYE) {
		/* one that was lost follows the next frame of the sender */
		v->ended |= ok || !v->leaves;
	} else if (tx->kind == TX_DONE && ok) {
		rdmamsg__item_free(v, tx->of);
		rdmamsg__visitor_announce(v);
	} else if (tx->kind == TX_DONE) {
		((struct item *)tx->of)->state = ITEM_DONE_DUE;
	} else if (tx->kind == TX_READ) {
		v->reads--;
		if (ok && !v->ended)
			rdmamsg__fetch_done(v, tx);
	}
}

/*
 * Errors that may pass: the sender's host is not reached, or is stopped, or a
 * request could not be posted.
 */
static bool may_pass(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_RETRY_EXC_ERR ||
	       wc->status == IBV_WC_RNR_RETRY_EXC_ERR ||
	       wc->status == IBV_WC_WR_FLUSH_ERR ||
	       wc->status == IBV_WC_GENERAL_ERR ||
	       wc->status == IBV_WC_RESP_TIMEOUT_ERR;
}

static void idle(struct dc_peer *peer, const struct ibv_wc *why)
{
	struct visitor *v = visitor_of(peer);

	if (why) {
		rdmamsg__fetch_again(v);
		v->deaf = v->probe_due = true;
		v->welcome_due |= v->unheard;
		/* the BYE may have been lost */
		v->bye_due = v->leaves;
		if (!may_pass(why))
			v->ended = true;
	}
	(void)settle(v);
}

/* ---- frames ------------------------------------------------------------ */

static uint32_t grant_for(const struct rdmamsg_dc_target *t)
{
	const struct rdmamsg_ep_options *ep = t->opts.ep;
	const uint32_t most = ep && ep->tuning->recv_depth ?
			      min(ep->tuning->recv_depth, GRANT) : GRANT;
	const uint32_t used = t->granted + HELLOS;
	const uint32_t left = t->dc->depth > used ? t->dc->depth - used : 0;
	const uint32_t senders = t->opts.max_senders ?: TARGET_SENDERS;
	const uint32_t grant = min(max(left / SHARE, 1u), most);
	uint32_t have;

	if (!left || t->sessions + t->connections >= senders)
		return 0;
	rdmamsg__port_receive(t->dc, used + grant);
	/* a few are always about to be posted again */
	have = t->dc->receives - t->dc->hole_count + PORT_LAZY;
	return have > used ? min(grant, have - used) : 0;
}

/* Without memory for them the visitor is told to make a connection. */
static void make_items(struct visitor *v, uint32_t grant)
{
	list_init(&v->spare);
	v->items = grant ? calloc(grant, sizeof(*v->items)) : NULL;
	v->grant = v->items ? grant : 0;
	for (uint32_t n = 0; n < v->grant; n++)
		list_add_tail(&v->spare, &v->items[n].node);
}

static void on_hello(struct dc_port *p, const struct dc_frame *f,
		     const uint8_t *frame, size_t len)
{
	struct rdmamsg_dc_target *t = p->owner;
	struct dc_hello_frame h;
	struct ticket *ticket;
	struct visitor *v;

	if (!t->listener || rdmamsg__dcf_hello_decode(&h, frame, len))
		return;
	/* anybody with the access key can send HELLO: no memory for it */
	ticket = rdmamsg__ticket_take(t, f->token, h.sender);
	v = ticket ? calloc(1, sizeof(*v)) : NULL;
	if (!v) {
		rdmamsg__ticket_free(ticket);
		return;
	}
	if (rdmamsg__try(rdmamsg__peer_open(p, &h.place, h.key,
					    rdmamsg__ticket_from(ticket),
					    &v->peer))) {
		log_info("context %u: dc target on port %u: a sender: %s",
			 t->ctx->number, t->port, rdmamsg__text());
		/* each of them can make the target wait */
		rdmamsg__tickets_drop_like(t, ticket);
		rdmamsg__ticket_free(ticket);
		free(v);
		return;
	}
	if (rdmamsg__try(rdmamsg__peer_limit(&v->peer,
					     rdmamsg__ticket_slot(ticket)))) {
		rdmamsg__peer_close(&v->peer);
		rdmamsg__ticket_free(ticket);
		free(v);
		return;
	}
	v->t = t;
	v->ticket = ticket;
	v->sender = h.sender;
	v->far_handle = h.handle;
	v->far_token = h.token;
	make_items(v, grant_for(t));
	v->announced = v->grant;
	v->welcome_due = v->unheard = true;
	list_init(&v->queue);
	list_init(&v->dones);
	list_init(&v->starving.node);
	v->starving.fed = rdmamsg__fetch_fed;
	t->granted += v->grant;
	t->sessions++;
	list_add_tail(&t->visitors, &v->node);
	rdmamsg__visitor_go_on(v);
}

static struct item *add_item(struct visitor *v, const struct dc_frame *f)
{
	/* messages that are kept are no more than credits */
	struct item *i = list_first(&v->spare, struct item, node);

	list_del(&i->node);
	*i = (struct item){
		.type = f->type, .number = f->number, .tag = f->tag,
	};
	list_add_tail(&v->queue, &i->node);
	v->kept++;
	return i;
}

static void set_data(struct rdmamsg_msg *msg, size_t len, uint32_t tag)
{
	msg->data = msg->buf + DCF_LEN;
	msg->len = (uint32_t)(len - DCF_LEN);
	msg->tag = tag;
}

static void on_data(struct visitor *v, const struct dc_frame *f,
		    struct rdmamsg_msg *msg, size_t len)
{
	set_data(msg, len, f->tag);
	if (likely(list_empty(&v->queue)))
		rdmamsg__visitor_deliver(v->t, msg, v->sender);
	else
		add_item(v, f)->msg = msg;
}

static void on_rndv(struct visitor *v, const struct dc_frame *f,
		    const uint8_t *frame, size_t len)
{
	struct proto_rndv wire;
	struct item *i;

	if (rdmamsg__rndv_decode(&wire, frame + DCF_LEN, len - DCF_LEN) ||
	    wire.total > rdmamsg__visitor_max_msg(v->t)) {
		rdmamsg__visitor_refuse(v, "a broken announcement of a large "
					"message");
		return;
	}
	i = add_item(v, f);
	i->wire = malloc(sizeof(wire));
	if (i->wire)
		*i->wire = wire;
	else
		rdmamsg__item_refuse(v, i);
}

static void on_written(struct visitor *v, const struct dc_frame *f)
{
	if (list_empty(&v->queue))
		rdmamsg__visitor_written(v, f->tag);
	else
		add_item(v, f);
}

/* Returns true if the message is kept. */
static bool on_numbered(struct visitor *v, const struct dc_frame *f,
			struct rdmamsg_msg *msg, size_t len)
{
	if (v->reason)
		return false;
	if (f->number != v->next || v->next == v->announced) {
		rdmamsg__visitor_refuse(v, "a message that is not the next");
		return false;
	}
	v->next++;
	if (f->type == DCF_DATA)
		on_data(v, f, msg, len);
	else if (f->type == DCF_RNDV)
		on_rndv(v, f, msg->buf, len);
	else
		on_written(v, f);
	return f->type == DCF_DATA;
}

/* The sender relies on an answer for DCF_FORGET_MS. */
static void on_ask(struct visitor *v, const struct dc_frame *f)
{
	if (v->reason || v->farewell > FAREWELL - FORGET)
		return;
	v->asked = f->number;
	v->probe_due = true;
}

/* Returns true if the frame is a message that is delivered and nothing more. */
static inline bool is_plain(const struct visitor *v, const struct dc_frame *f)
{
	return f->type == DCF_DATA && f->number == v->next &&
	       v->next != v->announced && list_empty(&v->queue) &&
	       !v->ended && !v->leaves && !v->deaf && !v->unheard &&
	       v->limit - v->next > v->grant - v->grant / 4 + 1;
}

/* The sender has credits left, so nothing is due that was not before. */
static void deliver_plain(struct visitor *v, const struct dc_frame *f,
			  struct rdmamsg_msg *msg, size_t len)
{
	v->quiet = 0;
	v->next++;
	set_data(msg, len, f->tag);
	rdmamsg__visitor_deliver(v->t, msg, v->sender);
}

static bool on_frame(struct dc_port *p, const struct dc_frame *f,
		     struct rdmamsg_msg *msg, size_t len)
{
	struct dc_peer *peer;
	struct visitor *v;
	bool kept = false;

	if (f->type == DCF_HELLO) {
		on_hello(p, f, msg->buf, len);
		return false;
	}
	peer = rdmamsg__peer_of(p, f);
	if (!peer)
		return false;
	v = visitor_of(peer);
	if (likely(is_plain(v, f))) {
		deliver_plain(v, f, msg, len);
		return true;
	}
	if (v->ended)
		return false;
	v->quiet = 0;
	v->deaf = v->unheard = false;
	if (f->type == DCF_BYE)
		v->ended = true;
	else if (f->type == DCF_ASK)
		on_ask(v, f);
	else if (f->type == DCF_DATA || f->type == DCF_RNDV ||
		 f->type == DCF_WRITTEN)
		kept = on_numbered(v, f, msg, len);
	if (!settle(v)) {
		rdmamsg__visitor_announce(v);
		rdmamsg__visitor_go_on(v);
	}
	return kept;
}

/* ---- time -------------------------------------------------------------- */

/*
 * It waits behind others that do not answer. Its sender has given up the first
 * answer by the time that counts, and an ASK would have been heard.
 */
static bool is_unreached(const struct visitor *v)
{
	return v->peer.doubtful && !list_empty(&v->peer.row);
}

static void look(struct visitor *v)
{
	v->quiet++;
	/* no frame makes this end later */
	v->farewell += v->leaves;
	if (v->peer.port->failed || v->farewell > FAREWELL ||
	    ((v->deaf || is_unreached(v)) && v->quiet > FORGET) ||
	    (v->ended && v->quiet > 1)) {
		v->ended = true;
		if (v->peer.port->failed)
			rdmamsg__peer_drop(&v->peer);
		else
			rdmamsg__peer_fail(&v->peer);
		(void)settle(v);
		return;
	}
	if (v->quiet % PROBE == 0)
		v->probe_due = true;
	v->hungry = list_empty(&v->starving.node) ? 0 : v->hungry + 1;
	if (v->hungry > HUNGRY)
		rdmamsg__fetch_refuse(v);
	rdmamsg__visitor_go_on(v);
}

/* The device counts packets with another key, but tells nobody. */
static void count_violations(struct rdmamsg_dc_target *t)
{
	const uint32_t before = t->seen_violations;

	t->seen_violations = rdmamsg__visitors_violations(t);
	if (t->seen_violations != before)
		rdmamsg__dc_target_violated(t, NULL);
}

static void tick(struct dc_port *p)
{
	struct rdmamsg_dc_target *t = p->owner;
	struct list *n, *s;

	list_for_each_safe(n, s, &t->visitors)
		look(list_entry(n, struct visitor, node));
	rdmamsg__tickets_tick(t);
	if (t->armed)
		count_violations(t);
	if (p->failed) {
		rdmamsg__tickets_drop(t);
		t->old_violations = t->seen_violations;
		rdmamsg__port_close(p);
		t->dc = NULL;
	}
}

/* ---- the port ---------------------------------------------------------- */

static bool may_bind(struct dc_port *p)
{
	return p->bound < p->dci_max;
}

/* Receives are posted again: credits for them. */
static void on_fed(struct dc_port *p)
{
	struct rdmamsg_dc_target *t = p->owner;
	struct list *n;

	list_for_each(n, &t->visitors) {
		struct visitor *v = list_entry(n, struct visitor, node);

		rdmamsg__visitor_announce(v);
		rdmamsg__visitor_go_on(v);
	}
}

static const struct port_ops ops = {
	.frame = on_frame, .pump = rdmamsg__visitor_pump, .done = done,
	.idle = idle, .wants = rdmamsg__visitor_wants, .may_bind = may_bind,
	.fed = on_fed, .tick = tick, .patience = PATIENCE,
};

/* Connections tell of violations, if the device does not count them. */
static bool lacks_counts(const struct rdmamsg_dc_target *t)
{
	uint32_t n;

	return t->opts.path == RDMAMSG_DC_AUTO && t->opts.on_violation &&
	       rdmamsg__try(rdmamsg__dct_violations(t->dc->dev->device,
						    t->dc->dct, &n));
}

static int open_port(struct rdmamsg_dc_target *t)
{
	struct port_wants w = {
		.ops = &ops, .owner = t, .key = t->opts.access_key,
		.receives = HELLOS, .depth = RECEIVES, .size = VISIT_RECEIVE,
		.initiators = INITIATORS, .ep = t->opts.ep,
	};
	int err = rdmamsg__dc_target_dev(t, &w.dev);

	if (err)
		return err;
	err = rdmamsg__port_open(&w, &t->dc);
	if (err) {
		rdmamsg__dev_put(w.dev);
		return err;
	}
	if (!lacks_counts(t))
		return 0;
	rdmamsg__port_close(t->dc);
	t->dc = NULL;
	return rdmamsg__fail(-EOPNOTSUPP, "the device does not count access "
			     "key violations");
}

int rdmamsg__visitors_place(struct rdmamsg_dc_target *t, struct dc_place *ret)
{
	int err = t->dc ? 0 : open_port(t);

	if (err) {
		log_info("context %u: dc target on port %u: connections: %s",
			 t->ctx->number, t->port, rdmamsg__text());
		t->no_port = err == -EOPNOTSUPP;
		return err;
	}
	if (t->dc->failed)
		return -ENODEV;
	rdmamsg__port_place(t->dc, ret);
	return 0;
}

uint32_t rdmamsg__visitors_violations(const struct rdmamsg_dc_target *t)
{
	uint32_t n = 0;

	if (t->dc && !t->dc->failed &&
	    !rdmamsg__try(rdmamsg__dct_violations(t->dc->dev->device,
						  t->dc->dct, &n)))
		return t->old_violations + n;
	return t->seen_violations;
}

void rdmamsg__visitors_leave(struct rdmamsg_dc_target *t)
{
	struct list *n;

	rdmamsg__tickets_drop(t);
	list_for_each(n, &t->visitors) {
		struct visitor *v = list_entry(n, struct visitor, node);

		if (v->leaves)
			continue;
		v->bye_due = v->leaves = true;
		rdmamsg__visitor_go_on(v);
	}
}

void rdmamsg__visitors_cut(struct rdmamsg_dc_target *t)
{
	struct list *n;

	list_for_each(n, &t->visitors)
		list_entry(n, struct visitor, node)->farewell = FAREWELL;
}

void rdmamsg__visitors_close(struct rdmamsg_dc_target *t)
{
	rdmamsg__tickets_drop(t);
	while (!list_empty(&t->visitors))
		end(list_first(&t->visitors, struct visitor, node));
	if (t->dc)
		rdmamsg__port_close(t->dc);
	t->dc = NULL;
}
