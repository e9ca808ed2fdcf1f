/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions of a sender: their states, messages and ends. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/lease.h"
#include "dc/port.h"
#include "dc/session.h"
#include "device/choose.h"
#include "device/device.h"
#include "session/ep.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#define RECEIVES	256u
#define RECEIVE		64u	/* bytes */
#define SILENCE		40u	/* ticks in which the target says nothing */
#define GREETING	6u	/* ticks until WELCOME */
#define PARTING		20u	/* ticks until all is done, and BYE */
#define CUT		1u	/* ticks, when timeout_ms has passed */

static void go_on(struct dc_session *x);

static struct dc_session *session_of(struct dc_peer *peer)
{
	return (struct dc_session *)peer;
}

/* ---- the end ----------------------------------------------------------- */

static void finish(struct dc_session *x)
{
	rdmamsg__peer_drop(&x->peer);
	rdmamsg__peer_close(&x->peer);
	list_del(&x->node);
	x->s->session_count--;
	rdmamsg__dc_sender_due(x->s);
	free(x);
}

/* Lets the address go on without the session. */
static void detach(struct dc_session *x)
{
	struct list *n;

	/* callbacks find a session that takes nothing */
	x->state = SESSION_ENDED;
	x->run = NULL;
	rdmamsg__peer_drop(&x->peer);
	while ((n = rdmamsg__lease_drop(&x->lease)))
		rdmamsg__flight_end(x, list_entry(n, struct dc_msg, node),
				    -ECANCELED);
	while (!list_empty(&x->flights)) {
		struct dc_msg *m = list_first(&x->flights, struct dc_msg, node);

		rdmamsg__flight_end(x, m, m->flight && m->flight->status ?
				    m->flight->status : -ECANCELED);
	}
	x->a->session = NULL;
	x->a = NULL;
}

enum farewell {
	FINISH,				/* the target has gone, or knows */
	SAY_BYE,
	AWAIT_WELCOME,			/* then say BYE */
};

static void part(struct dc_session *x, enum farewell how)
{
	if (how == FINISH || x->peer.port->failed || x->s->cut) {
		finish(x);
		return;
	}
	x->state = how == SAY_BYE ? SESSION_CLOSING : SESSION_GREETED;
	x->quiet = 0;
	go_on(x);
}

/* Ends a session that is not busy. why: NULL if nothing has failed. */
static void end(struct dc_session *x, int status,
		const struct rdmamsg_reason *why, enum farewell how)
{
	struct rdmamsg_dc_address *a = x->a;
	struct rdmamsg_dc_sender *s = x->s;
	const bool counted = x->counted;	/* part() may free it */

	if (!a) {
		finish(x);
		return;
	}
	a->held++;
	detach(x);
	part(x, how);
	if (s->ending || s->ctx->closing)
		rdmamsg__dc_cancel(a, -ECANCELED);
	else if (why && counted)
		rdmamsg__dc_fail(a, status, why);
	else if (why)
		rdmamsg__dc_lost(a, status, why);
	if (!list_empty(&a->msgs))
		rdmamsg__dc_wait(a);
	a->held--;
	rdmamsg__dc_address_put(a);
	rdmamsg__dc_sender_due(s);
}

static void fail(struct dc_session *x, enum rdmamsg_cause cause, int error,
		 enum farewell how, const char *text)
{
	struct rdmamsg_reason why = {
		.size = sizeof(why), .who = RDMAMSG_WHO_NETWORK,
		.cause = cause, .error = error, .cm_event = -1,
	};

	snprintf(why.text, sizeof(why.text), "%s", text);
	end(x, -ECANCELED, &why, how);
}

/* Returns how many ticks the target may be silent. */
static uint32_t patience(const struct dc_session *x)
{
	if (x->s->cut)
		return CUT;
	return x->state == SESSION_OPEN ? SILENCE :
	       x->state == SESSION_CLOSING ? PARTING : GREETING;
}

/* The target's process may go on later. */
static void fail_silent(struct dc_session *x)
{
	fail(x, RDMAMSG_CAUSE_SILENT, -ETIMEDOUT,
	     x->state >= SESSION_OPEN ? SAY_BYE : FINISH,
	     "the target does not answer");
}

/* A request has failed. */
static void fail_wc(struct dc_session *x, const struct ibv_wc *wc)
{
	const bool access = wc->status == IBV_WC_REM_ACCESS_ERR;
	struct rdmamsg_reason why = {
		.size = sizeof(why), .cm_event = -1, .wc_status = wc->status,
		.vendor_err = wc->vendor_err, .who = RDMAMSG_WHO_NETWORK,
		.cause = access ? RDMAMSG_CAUSE_ACCESS :
			 RDMAMSG_CAUSE_TRANSPORT,
		.error = access ? -EACCES : -ECONNRESET,
	};

	snprintf(why.text, sizeof(why.text), "%s", access ?
		 "the target's device refused a key: of a region that was "
		 "revoked, or an access key" : rdmamsg__wc_text(wc->status));
	end(x, -ECANCELED, &why, x->state >= SESSION_OPEN ? SAY_BYE : FINISH);
}

/* Ends the session if its time has come. Returns true if it has ended. */
static bool settle(struct dc_session *x)
{
	if (x->state != SESSION_ENDED)
		return false;
	if (rdmamsg__peer_busy(&x->peer)) {
		rdmamsg__peer_ask(&x->peer);
		return false;
	}
	if (x->broken && x->a)
		fail(x, RDMAMSG_CAUSE_ABORTED, -ECONNRESET, FINISH,
		     "the target has ended the session");
	else
		end(x, 0, NULL, FINISH);
	return true;
}

/* ---- posting ----------------------------------------------------------- */

static void send_hello(struct dc_session *x)
{
	const struct dc_frame f = { .type = DCF_HELLO, .token = x->ticket };
	struct dc_hello_frame h = {
		.sender = x->s->id, .key = x->peer.port->key,
		.handle = x->peer.handle, .token = x->peer.token,
	};
	uint8_t *slot = rdmamsg__peer_slot(&x->peer);

	rdmamsg__port_place(x->peer.port, &h.place);
	rdmamsg__dcf_encode(&f, slot);
	rdmamsg__dcf_hello_encode(&h, slot);
	x->state = SESSION_GREETED;
	x->quiet = 0;
	rdmamsg__lease_greet(&x->lease);
	rdmamsg__peer_send(&x->peer, DCF_HELLO_LEN,
			   (struct dc_tx){ .kind = FLIGHT_FRAME,
					   .late = true });
}

static void send_ask(struct dc_session *x)
{
	rdmamsg__session_frame(x, DCF_ASK,
			       rdmamsg__lease_ask(&x->lease, x->number), 0);
	rdmamsg__peer_send(&x->peer, DCF_LEN, (struct dc_tx){
				.kind = FLIGHT_FRAME, .late = true });
}

static void send_bye(struct dc_session *x)
{
	x->bye_sent = true;
	rdmamsg__session_frame(x, DCF_BYE, 0, 0);
	rdmamsg__peer_send(&x->peer, DCF_LEN,
			   (struct dc_tx){ .kind = FLIGHT_BYE });
}

/* BYE waits for messages: those that the device has may be in doubt. */
static bool bye_due(const struct dc_session *x)
{
	return x->state == SESSION_CLOSING && !x->bye_sent &&
	       !rdmamsg__peer_busy(&x->peer) && list_empty(&x->flights) &&
	       !rdmamsg__lease_doubts(&x->lease);
}

static bool ask_due(const struct dc_session *x)
{
	return x->lease.due && x->a && !x->run && !x->bye_sent &&
	       (x->state == SESSION_OPEN || x->state == SESSION_CLOSING);
}

static bool can_take(const struct dc_session *x, const struct dc_msg *m)
{
	return x->state == SESSION_OPEN && !x->run &&
	       (x->number != x->credit || !rdmamsg__flight_numbered(m));
}

static bool wants(const struct dc_peer *peer)
{
	const struct dc_session *x = (const struct dc_session *)peer;
	const struct list *msgs;

	if (x->state == SESSION_HELLO || bye_due(x) || ask_due(x) || x->run)
		return true;
	if (x->state != SESSION_OPEN)
		return false;
	msgs = &x->a->msgs;
	return !list_empty(msgs) &&
	       can_take(x, list_first(msgs, struct dc_msg, node));
}

static void pump_msgs(struct dc_session *x)
{
	struct rdmamsg_dc_address *a = x->a;

	rdmamsg__run_go_on(x);
	while (x->state == SESSION_OPEN && !list_empty(&a->msgs) &&
	       rdmamsg__peer_room(&x->peer) >= FLIGHT_ROOM) {
		struct dc_msg *m = list_first(&a->msgs, struct dc_msg, node);
		void *cookie = m->cookie;
		int ret;

		if (!can_take(x, m))
			return;
		rdmamsg__dc_take_off(a, m);
		ret = rdmamsg__try(rdmamsg__flight_begin(x, m));
		if (!ret)
			continue;
		rdmamsg__dc_msg_free(m);
		rdmamsg__dc_complete(a, cookie, ret);
	}
}

static void pump(struct dc_peer *peer)
{
	struct dc_session *x = session_of(peer);

	if (x->state == SESSION_HELLO)
		send_hello(x);
	pump_msgs(x);
	if (unlikely(ask_due(x)) && rdmamsg__peer_room(peer))
		send_ask(x);
	if (x->state == SESSION_OPEN && x->a->leaves && !x->run &&
	    list_empty(&x->a->msgs))
		x->state = SESSION_CLOSING;
	if (bye_due(x) && rdmamsg__peer_room(peer))
		send_bye(x);
	else if (x->state == SESSION_CLOSING)
		rdmamsg__peer_ask(peer);
}

/* If connections have all initiators, the sender closes one of them. */
static bool take_initiator(struct dc_session *x)
{
	if (likely(rdmamsg__peer_bind(&x->peer)))
		return true;
	if (unlikely(x->s->open))
		rdmamsg__dc_sender_due(x->s);
	return false;
}

static void go_on(struct dc_session *x)
{
	if (wants(&x->peer) && take_initiator(x))
		pump(&x->peer);
	else if (x->state == SESSION_CLOSING)
		rdmamsg__peer_ask(&x->peer);
}

static void send_data(struct dc_session *x, const void *buf, size_t len,
		      uint32_t tag, struct dc_tx tx)
{
	const struct dc_frame f = rdmamsg__session_header(x, DCF_DATA,
							  x->number++, tag);

	if (likely(DCF_LEN + len <= x->peer.dci->dci.max_inline)) {
		rdmamsg__peer_send_small(&x->peer, &f, buf, len, tx);
		return;
	}
	rdmamsg__dcf_encode(&f, rdmamsg__peer_slot(&x->peer));
	memcpy(rdmamsg__peer_slot(&x->peer) + DCF_LEN, buf, len);
	rdmamsg__peer_send(&x->peer, DCF_LEN + (uint32_t)len, tx);
}

bool rdmamsg__session_send(struct dc_session *x, const void *buf, size_t len,
			   uint32_t tag, void *cookie)
{
	if (unlikely(x->state != SESSION_OPEN || x->number == x->credit ||
		     x->run ||
		     len > x->eager || (len && !buf) ||
		     !list_empty(&x->a->msgs) ||
		     !rdmamsg__peer_bind(&x->peer)))
		return false;
	send_data(x, buf, len, tag, (struct dc_tx){
			.kind = FLIGHT_DATA, .late = !cookie,
			.cookie = cookie });
	return true;
}

int rdmamsg__session_offer(struct dc_session *x, struct dc_msg *m)
{
	int ret;

	if (!can_take(x, m) || !take_initiator(x) ||
	    rdmamsg__peer_room(&x->peer) < FLIGHT_ROOM)
		return -EAGAIN;
	ret = rdmamsg__flight_begin(x, m);
	if (ret)
		rdmamsg__dc_msg_free(m);
	/* the caller keeps the message after -EAGAIN */
	return ret == -EAGAIN ? -ENOMEM : ret;
}

static void done(struct dc_peer *peer, const struct dc_tx *tx,
		 const struct ibv_wc *wc)
{
	struct dc_session *x = session_of(peer);
	const int status = wc->status == IBV_WC_SUCCESS ? 0 :
			   wc->status == IBV_WC_REM_ACCESS_ERR ? -EACCES :
			   -ECANCELED;

	switch (tx->kind) {
	case FLIGHT_DATA:
		rdmamsg__flight_data_done(x, tx->cookie, status);
		break;
	case FLIGHT_PART:
		rdmamsg__flight_part_done(tx, status);
		break;
	case FLIGHT_OP:
		rdmamsg__flight_op_done(x, tx, status);
		break;
	case FLIGHT_BYE:
		x->state = SESSION_ENDED;
		break;
	default:
		break;
	}
}

static void idle(struct dc_peer *peer, const struct ibv_wc *why)
{
	struct dc_session *x = session_of(peer);
	struct rdmamsg_dc_sender *s = x->s;

	if (why && x->a && !x->bye_sent && x->quiet > patience(x))
		fail_silent(x);
	else if (why && x->a && !x->bye_sent)
		fail_wc(x, why);
	else if (why && !x->bye_sent)
		finish(x);
	else
		(void)settle(x);
	/* the ports of other devices are served when the sender settles */
	if (s->wait_count ||
	    (s->ports.next != s->ports.prev && rdmamsg__sessions_wait(s)))
		rdmamsg__dc_sender_due(s);
}

/* ---- frames ------------------------------------------------------------ */

static void on_welcome(struct dc_session *x, const struct dc_frame *f,
		       const uint8_t *frame, size_t len)
{
	struct dc_welcome w;

	if (x->state != SESSION_GREETED ||
	    rdmamsg__dcf_welcome_decode(&w, frame, len))
		return;
	if (f->tag != DCF_OK) {
		if (x->a)
			x->a->connects = true;
		x->state = SESSION_ENDED;
		return;
	}
	x->far_handle = w.handle;
	x->far_token = w.token;
	x->eager = min(w.eager, PORT_SLOT - DCF_LEN);
	x->max_msg = w.max_msg;
	x->credit = min(f->number, DCF_CREDITS_MAX);
	rdmamsg__lease_begin(&x->lease);
	if (!x->a) {
		x->state = SESSION_CLOSING;
		return;
	}
	x->state = SESSION_OPEN;
	x->s->told_sessions |= x->s->ending || x->a->leaves;
	/* addresses that wait may need the initiator at once */
	rdmamsg__dc_sender_due(x->s);
}

/* A credit that goes back, or too far, is ignored. */
static void on_credit(struct dc_session *x, const struct dc_frame *f)
{
	const uint32_t most = DCF_CREDITS_MAX;

	if (f->number - x->number <= most &&
	    f->number - x->number > x->credit - x->number)
		x->credit = f->number;
	rdmamsg__flight_answered(x, f);
}

static void on_bye(struct dc_session *x, const struct dc_frame *f)
{
	if (!x->a)
		return;
	if (f->tag || x->state < SESSION_OPEN) {
		x->broken = true;
		x->state = SESSION_ENDED;
	} else if (x->state == SESSION_OPEN) {
		x->state = SESSION_CLOSING;
		x->quiet = 0;
	}
}

static bool on_frame(struct dc_port *p, const struct dc_frame *f,
		     struct rdmamsg_msg *msg, size_t len)
{
	struct dc_peer *peer = rdmamsg__peer_of(p, f);
	struct dc_session *x;

	if (!peer)
		return false;
	x = session_of(peer);
	/* no frame makes the end later */
	if (x->state < SESSION_CLOSING)
		x->quiet = 0;
	if (f->type == DCF_WELCOME)
		on_welcome(x, f, msg->buf, len);
	else if (f->type == DCF_CREDIT)
		on_credit(x, f);
	else if (f->type == DCF_DONE)
		rdmamsg__flight_done(x, f);
	else if (f->type == DCF_BYE)
		on_bye(x, f);
	if (!settle(x))
		go_on(x);
	return false;
}

/* ---- time -------------------------------------------------------------- */

/* The target's frames show that it is there, so none is an end. */
static bool is_waiting(const struct dc_session *x)
{
	return x->state != SESSION_OPEN || !list_empty(&x->flights) ||
	       !list_empty(&x->a->msgs) || rdmamsg__lease_waits(&x->lease);
}

/* The target has DC, but does not answer there: the address connects. */
static void give_up(struct dc_session *x)
{
	log_info("context %u: dc sender 0x%llx: %s port %s does not answer "
		 "over DC", x->s->ctx->number, (unsigned long long)x->s->id,
		 x->a->host, x->a->service);
	x->a->connects = true;
	end(x, 0, NULL, AWAIT_WELCOME);
}

static void look(struct dc_session *x)
{
	const uint32_t most = patience(x);

	x->quiet++;
	rdmamsg__lease_tick(&x->lease, x->number);
	if (x->peer.port->failed) {
		fail(x, RDMAMSG_CAUSE_REMOVED, -ENODEV, FINISH,
		     "the RDMA device has failed, or was removed");
	} else if (x->state == SESSION_HELLO || !is_waiting(x)) {
		x->quiet = 0;
		if (ask_due(x))
			go_on(x);
	} else if (x->quiet > most && rdmamsg__peer_busy(&x->peer)) {
		rdmamsg__peer_fail(&x->peer);
	} else if (x->quiet > most && x->state == SESSION_GREETED && x->a) {
		give_up(x);
	} else if (x->quiet > most) {
		fail_silent(x);
	} else if (ask_due(x)) {
		go_on(x);
	}
}

static void tick(struct dc_port *p)
{
	struct rdmamsg_dc_sender *s = p->owner;
	struct list *n, *t;

	list_for_each_safe(n, t, &s->sessions) {
		struct dc_session *x = list_entry(n, struct dc_session, node);

		if (x->peer.port == p)
			look(x);
	}
	if (p->failed) {
		rdmamsg__port_close(p);
		rdmamsg__dc_sender_due(s);
	}
}

/* ---- ports ------------------------------------------------------------- */

static uint32_t in_use(const struct rdmamsg_dc_sender *s)
{
	return s->open + rdmamsg__sessions_bound(s);
}

/* A port without an initiator may take an idle one of another device. */
static bool may_bind(struct dc_port *p)
{
	struct rdmamsg_dc_sender *s = p->owner;

	return in_use(s) < s->opts.initiators ||
	       (!p->bound && rdmamsg__sessions_unbind(s));
}

static void on_fed(struct dc_port *p)
{
	(void)p;
}

static void evicted(struct dc_port *p)
{
	((struct rdmamsg_dc_sender *)p->owner)->evictions++;
}

static const struct port_ops ops = {
	.frame = on_frame, .pump = pump, .done = done, .idle = idle,
	.wants = wants, .may_bind = may_bind, .fed = on_fed, .tick = tick,
	.evicted = evicted,
};

uint32_t rdmamsg__sessions_bound(const struct rdmamsg_dc_sender *s)
{
	uint32_t bound = 0;
	struct list *n;

	list_for_each(n, &s->ports)
		bound += list_entry(n, struct dc_port, node)->bound;
	return bound;
}

bool rdmamsg__sessions_unbind(struct rdmamsg_dc_sender *s)
{
	struct list *n;

	list_for_each(n, &s->ports)
		if (rdmamsg__port_unbind(list_entry(n, struct dc_port, node)))
			return true;
	return false;
}

bool rdmamsg__sessions_wait(const struct rdmamsg_dc_sender *s)
{
	struct list *n;

	list_for_each(n, &s->ports)
		if (list_entry(n, struct dc_port, node)->waiting)
			return true;
	return false;
}

static int new_port(struct rdmamsg_dc_sender *s, const struct rdmamsg_ep *ep,
		    struct dev *dev, struct dc_port **ret)
{
	struct port_wants w = {
		.dev = dev, .ops = &ops, .owner = s, .depth = RECEIVES,
		.size = RECEIVE,
		.initiators = min(s->opts.initiators, PORT_DCIS),
		.local = &ep->connect.local_addr.any,
		.ep = &s->ep,
	};
	int err;

	if (getrandom(&w.key, sizeof(w.key), GRND_NONBLOCK) != sizeof(w.key))
		return rdmamsg__fail(-EAGAIN, "getrandom: the kernel has no "
				     "random bytes for an access key");
	err = rdmamsg__port_open(&w, ret);
	if (!err)
		list_add_tail(&s->ports, &(*ret)->node);
	return err;
}

/* Finds or opens the port for the device of an endpoint. */
static int find_port(struct rdmamsg_dc_sender *s, const struct rdmamsg_ep *ep,
		     struct dc_port **ret)
{
	const struct verbs_api *v = NULL;
	char *name = NULL;
	struct dev *dev;
	struct list *n;
	int err;

	/* the endpoint has closed its device */
	err = rdmamsg__choose_device(s->ep.device, &ep->connect.local_addr.any,
				     &v, &name);
	if (!err && v != ep->lane.v)
		err = rdmamsg__fail(-ENODEV, "the device of the request is not "
				    "found by its address");
	if (!err)
		err = rdmamsg__dev_get(s->ctx, v, name, s->ep.pd, &dev);
	free(name);
	if (err)
		return err;
	list_for_each(n, &s->ports) {
		struct dc_port *p = list_entry(n, struct dc_port, node);

		if (p->dev == dev) {
			rdmamsg__dev_put(dev);
			*ret = p;
			return p->failed ? rdmamsg__fail(-EAGAIN, "the device "
							 "has failed") : 0;
		}
	}
	err = new_port(s, ep, dev, ret);
	if (err)
		rdmamsg__dev_put(dev);
	return err;
}

/* ---- life -------------------------------------------------------------- */

int rdmamsg__session_begin(struct rdmamsg_dc_address *a,
			   const struct rdmamsg_ep *ep,
			   const struct dc_answer *answer)
{
	struct dc_session *x = calloc(1, sizeof(*x));
	struct dc_port *p;
	int err;

	if (!x)
		return rdmamsg__fail(-ENOMEM, "no memory for a session");
	err = find_port(a->sender, ep, &p);
	if (!err)
		err = rdmamsg__peer_open(p, &answer->place, a->access_key, NULL,
					 &x->peer);
	if (err) {
		free(x);
		return err;
	}
	x->a = a;
	x->s = a->sender;
	x->ticket = answer->ticket;
	a->session = x;
	list_init(&x->flights);
	rdmamsg__lease_init(&x->lease);
	list_add_tail(&a->sender->sessions, &x->node);
	a->sender->session_count++;
	go_on(x);
	return 0;
}

/* Ends the session if the program has destroyed its sender or address. */
static void obey(struct dc_session *x)
{
	const struct rdmamsg_dc_address *a = x->a;
	const bool ending = x->s->ending || x->s->cut;

	if (!a)
		return;
	if (x->s->cut && !x->counted)
		rdmamsg__ctx_ended(x->s->ctx, -ETIMEDOUT);
	x->counted = x->s->cut;
	if (ending)
		rdmamsg__dc_cancel(x->a, -ECANCELED);
	if (x->state == SESSION_OPEN &&
	    (ending || (a->leaves && list_empty(&a->msgs)))) {
		x->state = SESSION_CLOSING;
		x->quiet = 0;
	}
	if (x->state == SESSION_HELLO && ending)
		x->state = SESSION_ENDED;
	if (!settle(x))
		go_on(x);
}

void rdmamsg__sessions_settle(struct rdmamsg_dc_sender *s)
{
	struct list *n, *t;

	list_for_each(n, &s->ports)
		rdmamsg__port_serve(list_entry(n, struct dc_port, node));
	if (!s->told_sessions)
		return;
	s->told_sessions = false;
	list_for_each_safe(n, t, &s->sessions)
		obey(list_entry(n, struct dc_session, node));
}

void rdmamsg__sessions_close(struct rdmamsg_dc_sender *s)
{
	while (!list_empty(&s->sessions))
		end(list_first(&s->sessions, struct dc_session, node), 0, NULL,
		    FINISH);
	while (!list_empty(&s->ports))
		rdmamsg__port_close(list_first(&s->ports, struct dc_port,
					       node));
}
