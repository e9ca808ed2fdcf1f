/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: frames that break the protocol of DC end the session that sends
 * them and nothing else. Packets with another key are counted and told, and a
 * removed device ends what uses it.
 */
#include "config.h"

#include "../../dc_post.h"
#include "../own_fabric.h"
#include "pair.h"
#include "base/ctx.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/session.h"
#include "dc/ticket.h"
#include "dc/visit.h"
#include "dc/visitor.h"
#include "device/cq.h"
#include "device/dc.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "soft/control/soft_ctl.h"
#include "wire/dc.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

/* A stranger that speaks the protocol as it likes. */
static struct dc_port *port;
static struct dc_peer peer;
static struct dc_frame got;		/* the last frame */
static struct dc_welcome welcome;
static unsigned int frames, byes, sent, lost;

/* ---- the stranger ------------------------------------------------------ */

static bool on_frame(struct dc_port *p, const struct dc_frame *f,
		     struct rdmamsg_msg *msg, size_t len)
{
	(void)p;
	got = *f;
	frames++;
	byes += f->type == DCF_BYE;
	if (f->type == DCF_WELCOME)
		assert_int_equal(rdmamsg__dcf_welcome_decode(&welcome, msg->buf,
							     len), 0);
	return false;
}

static void on_sent(struct dc_peer *to, const struct dc_tx *tx,
		    const struct ibv_wc *wc)
{
	(void)to;
	(void)tx;
	sent += wc->status == IBV_WC_SUCCESS;
	lost += wc->status != IBV_WC_SUCCESS;
}

static void no_peer(struct dc_peer *to)
{
	(void)to;
}

static void on_idle(struct dc_peer *to, const struct ibv_wc *why)
{
	(void)to;
	(void)why;
}

static bool wants_nothing(const struct dc_peer *to)
{
	(void)to;
	return false;
}

static bool always(struct dc_port *p)
{
	(void)p;
	return true;
}

static void no_port(struct dc_port *p)
{
	(void)p;
}

static const struct port_ops ops = {
	.frame = on_frame, .pump = no_peer, .done = on_sent, .idle = on_idle,
	.wants = wants_nothing, .may_bind = always, .fed = no_port,
	.tick = no_port,
};

/* Posts a frame with these bytes behind the header. */
static void post(struct dc_frame f, const void *body, size_t len)
{
	uint8_t *slot;

	assert_true(rdmamsg__peer_bind(&peer));
	slot = rdmamsg__peer_slot(&peer);
	rdmamsg__dcf_encode(&f, slot);
	if (len)
		memcpy(slot + DCF_LEN, body, len);
	rdmamsg__peer_send(&peer, DCF_LEN + (uint32_t)len,
			   (struct dc_tx){ .kind = 0 });
}

static void say(struct dc_frame f, const void *body, size_t len)
{
	const unsigned int before = sent + lost;

	post(f, body, len);
	WAIT_FOR(sent + lost == before + 1);
}

/* A frame of the session that the target has welcomed. */
static struct dc_frame frame_here(enum dcf_type type, uint32_t number)
{
	return (struct dc_frame){
		.type = (uint8_t)type, .token = welcome.token,
		.handle = welcome.handle, .number = number,
	};
}

static void say_here(enum dcf_type type, uint32_t number, const void *body,
		     size_t len)
{
	say(frame_here(type, number), body, len);
}

static uint64_t ticket_from(uint32_t ip)
{
	const struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(ip),
	};
	struct sockaddr_storage at = { 0 };
	uint64_t ticket;

	memcpy(&at, &from, sizeof(from));
	return rdmamsg__try(rdmamsg__ticket_new(target, &at, 99, &ticket)) ?
	       0 : ticket;
}

static void hello(uint64_t ticket)
{
	struct dc_hello_frame h = {
		.sender = 99, .key = port->key, .handle = peer.handle,
		.token = peer.token,
	};
	uint8_t frame[DCF_HELLO_LEN];

	rdmamsg__port_place(port, &h.place);
	rdmamsg__dcf_hello_encode(&h, frame);
	say((struct dc_frame){ .type = DCF_HELLO, .token = ticket },
	    frame + DCF_LEN, DCF_HELLO_LEN - DCF_LEN);
}

static void greet(void)
{
	frames = byes = 0;
	got.type = 0;
	hello(ticket_from(INADDR_LOOPBACK));
	WAIT_FOR(got.type == DCF_WELCOME);
	assert_int_equal(got.tag, DCF_OK);
}

static void open_stranger(const struct dc_place *place, uint64_t key)
{
	struct port_wants w = {
		.ops = &ops, .key = 7, .depth = 64, .size = 128,
		.initiators = 1,
	};
	const struct dev *d = target->dc->dev;

	assert_int_equal(rdmamsg__dev_get(near, d->device->v, d->device->name,
					  NULL, &w.dev), 0);
	assert_int_equal(rdmamsg__port_open(&w, &port), 0);
	assert_int_equal(rdmamsg__peer_open(port, place, key, &peer), 0);
	sent = lost = frames = byes = 0;
	got.type = 0;
}

static void close_stranger(void)
{
	rdmamsg__peer_close(&peer);
	rdmamsg__port_close(port);
}

static void open_both(void)
{
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	greet();
	assert_int_equal(target->sessions, 2);
}

/* The other sender notices nothing. */
static void close_both(void)
{
	send_one();
	assert_int_equal(failed, 0);
	close_stranger();
}

/* ---- tests ------------------------------------------------------------- */

static void frame__numbered_wrongly_ENDS_ITS_SESSION(void **state)
{
	/* a number that is not the next, and one without a credit */
	for (unsigned int i = 0; i < 2; i++) {
		open_both();
		say_here(DCF_DATA, 0, "y", 1);
		WAIT_FOR(messages == 2 + 2 * i);
		say_here(DCF_DATA, i ? 0 : 2, "y", 1);
		WAIT_FOR(byes == 1 && target->sessions == 1);
		assert_int_equal(got.tag, 1);
		assert_int_equal(messages, 2 + 2 * i);
		/* its handle is nobody's now */
		say_here(DCF_DATA, 1, "y", 1);
		close_both();
	}
}

static void frame__beyond_the_credits_ENDS_ITS_SESSION(void **state)
{
	static uint8_t memory[100000];
	struct ibv_mr *mr;
	struct proto_rndv wire = { .total = sizeof(memory), .count = 1 };
	uint8_t body[PROTO_RNDV_MAX];
	size_t len;

	open_both();
	assert_int_equal(got.number, CREDITS);
	assert_int_equal(rdmamsg__v_reg_mr(port->dev->device->v, port->dev->pd,
					   memory, sizeof(memory),
					   IBV_ACCESS_REMOTE_READ, &mr), 0);
	wire.keys[0] = (struct proto_key){
		.access = PROTO_KEY_READ, .rkey = mr->rkey,
		.addr = (uintptr_t)memory, .len = sizeof(memory),
	};
	len = rdmamsg__rndv_encode(&wire, body);
	/* a large message keeps its credit until it has arrived */
	sent = 0;
	for (uint32_t n = 0; n <= CREDITS; n++)
		post(frame_here(DCF_RNDV, n), body, len);
	WAIT_FOR(sent == CREDITS + 1 && byes == 1 && target->sessions == 1);
	assert_int_equal(rdmamsg__v_dereg_mr(port->dev->device->v, mr), 0);
	close_both();
}

static void rndv__key_of_nobody_ENDS_ITS_SESSION(void **state)
{
	struct proto_rndv wire = {
		.total = 100000, .count = 1,
		.keys = { { .access = PROTO_KEY_READ, .rkey = 0xdeadbe,
			    .addr = 0x10000, .len = 100000 } },
	};
	uint8_t body[PROTO_RNDV_MAX];
	size_t len;

	open_both();
	len = rdmamsg__rndv_encode(&wire, body);
	say_here(DCF_RNDV, 0, body, len);
	say_here(DCF_DATA, 1, "behind", 6);
	WAIT_FOR(target->sessions == 1);
	assert_int_equal(messages, 1);
	close_both();
}

static void rndv__too_large_OR_BROKEN_ENDS_ITS_SESSION(void **state)
{
	struct proto_rndv wire = {
		.total = PROTO_MSG_MAX, .count = 1,
		.keys = { { .access = PROTO_KEY_READ, .rkey = 1,
			    .addr = 0x10000, .len = PROTO_MSG_MAX } },
	};
	uint8_t body[PROTO_RNDV_MAX];
	size_t len;

	for (int i = 0; i < 2; i++) {
		open_both();
		len = rdmamsg__rndv_encode(&wire, body);
		say_here(DCF_RNDV, 0, body, i ? len : len - 1);
		WAIT_FOR(byes == 1 && target->sessions == 1);
		close_both();
	}
}

static void frame__random_bytes_IGNORED(void **state)
{
	uint8_t junk[256];

	open_both();
	for (unsigned int i = 0; i < 300; i++) {
		struct dc_frame f;

		(void)!getrandom(junk, sizeof(junk), 0);
		f = (struct dc_frame){
			.type = (uint8_t)(junk[0] % (DCF_TYPE_MAX + 3)),
			.token = junk[1], .handle = junk[2] % 8,
			.number = junk[3], .tag = junk[4],
		};
		say(f, junk, junk[5] % 128);
	}
	assert_int_equal(lost, 0);
	/* a HELLO of these has no port, so it is no session */
	WAIT_FOR(target->sessions <= 2);
	close_both();
}

/* Each session costs a visitor, until its credits are used up. */
static void hello__many_BOUNDED_THEN_BUSY(void **state)
{
	unsigned int most;

	open_both();
	do {
		greet();
		most = target->sessions;
	} while (most < 100);
	assert_true(target->granted + 64 <= target->dc->depth);
	close_both();
	/* nobody answers the target any more */
	WAIT_FOR(target->sessions == 1);
}

/* Each HELLO brings nothing but the look for its ticket. */
static void hello__without_a_ticket_NO_MEMORY(void **state)
{
	enum { TIMES = 1000 };
	struct dc_place place;
	uint32_t handles, receives;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	handles = target->dc->peers.size;
	receives = target->dc->receives;
	for (uint64_t i = 0; i < TIMES; i++)
		hello(i * 0x9e3779b97f4a7c15);
	send_one();
	assert_int_equal(lost, 0);
	assert_int_equal(target->sessions, 1);
	assert_int_equal(target->dc->peers.size, handles);
	assert_int_equal(target->dc->receives, receives);
	assert_true(list_empty(&target->tickets));
	assert_int_equal(frames, 0);
	close_both();
}

static void ticket__counts_once_and_for_its_sender_ONLY(void **state)
{
	const uint64_t ticket = ticket_from(INADDR_LOOPBACK);
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	assert_null(rdmamsg__ticket_take(target, ticket, 98));
	assert_null(rdmamsg__ticket_take(target, ticket ^ 1, 99));
	for (int i = 0; i < 3; i++)
		hello(ticket);
	WAIT_FOR(got.type == DCF_WELCOME);
	send_one();
	assert_int_equal(target->sessions, 2);
	close_both();
}

static uint32_t take_all(uint32_t ip)
{
	uint32_t n = 0;

	while (ticket_from(ip))
		n++;
	return n;
}

static void tickets__of_one_address_LEAVE_ROOM_FOR_OTHERS(void **state)
{
	/* the right sender has used one */
	assert_in_range(take_all(0x0a000001), 64, 86);
	assert_in_range(take_all(0x0a000002), 10, 40);
	assert_true(take_all(0x0a000003));
	/* those that nobody uses end with time */
	for (uint32_t i = 0; i <= DCF_FORGET_MS / PORT_TICK_MS; i++) {
		assert_false(list_empty(&target->tickets));
		rdmamsg__tickets_tick(target);
	}
	assert_true(list_empty(&target->tickets));
	assert_in_range(take_all(0x0a000003), 64, 86);
	send_one();
}

/* Ten senders are allowed, and one address asks for all of them. */
static void sessions__of_one_address_LEAVE_ROOM_FOR_OTHERS(void **state)
{
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = KEY, .max_senders = 10,
		.on_message = on_message, .on_destroyed = on_target_destroyed,
	};
	struct rdmamsg_dc_target *first = target;
	struct ticket *held[10];
	uint32_t n = 0;
	uint64_t ticket;

	assert_int_equal(rdmamsg_dc_target_create(far, "127.0.0.1", "0", &to,
						  &target), 0);
	while ((ticket = ticket_from(0x0a000001))) {
		assert_true(n < 10);
		held[n++] = rdmamsg__ticket_take(target, ticket, 99);
	}
	assert_in_range(n, 5, 7);
	assert_true(ticket_from(0x0a000002));
	assert_true(ticket_from(0x0a000003));
	while (n)
		rdmamsg__ticket_free(held[--n]);
	rdmamsg_dc_target_destroy(target);
	WAIT_FOR(gone == 1);
	gone = 0;
	target = first;
}

/* ---- initiators of the target ------------------------------------------ */

#define STRANGERS	16u		/* as the target has initiators */

/* A DCT of the stranger's device, which never takes anything. */
struct deaf {
	struct ibv_srq *srq;
	struct ibv_qp *dct;
};

static void open_deaf(struct deaf *ret)
{
	const struct rdmamsg_device *d = port->dev->device;
	struct ibv_srq_init_attr none = {
		.attr = { .max_wr = 1, .max_sge = 1 },
	};
	struct dct_attr attr = {
		.pd = port->dev->pd, .cq = port->cq->ibv, .key = port->key,
	};

	assert_int_equal(rdmamsg__v_create_srq(d->v, port->dev->pd, &none,
					       &ret->srq), 0);
	attr.srq = ret->srq;
	assert_int_equal(rdmamsg__dct_open(d, &attr, &port->path, &ret->dct),
			 0);
}

static void close_deaf(struct deaf *x)
{
	const struct verbs_api *v = port->dev->device->v;

	assert_int_equal(rdmamsg__v_destroy_qp(v, x->dct), 0);
	assert_int_equal(rdmamsg__v_destroy_srq(v, x->srq), 0);
}

static void hello_from(const struct deaf *x)
{
	struct dc_hello_frame h = { .sender = 99, .key = port->key };
	uint8_t frame[DCF_HELLO_LEN];

	rdmamsg__port_place(port, &h.place);
	h.place.dctn = x->dct->qp_num;
	rdmamsg__dcf_hello_encode(&h, frame);
	say((struct dc_frame){
		.type = DCF_HELLO, .token = ticket_from(INADDR_LOOPBACK),
	}, frame + DCF_LEN, DCF_HELLO_LEN - DCF_LEN);
}

/*
 * Each stranger whose answer has failed asks for another. Returns how many ask
 * for the first time.
 */
static uint32_t ask_deaf(void)
{
	struct list *n;
	uint32_t count = 0;

	list_for_each(n, &target->visitors) {
		const struct visitor *v = list_entry(n, struct visitor, node);

		if (v->sender != 99 || !v->deaf)
			continue;
		count += !v->asked;
		post((struct dc_frame){
			.type = DCF_ASK, .number = 1,
			.handle = v->peer.handle, .token = v->peer.token,
		}, NULL, 0);
		WAIT_FOR(!v->deaf);
	}
	return count;
}

static uint32_t initiators_of_strangers(void)
{
	const struct dc_port *p = target->dc;
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->dci_count; i++)
		count += p->dcis[i]->peer &&
			 visitor_of(p->dcis[i]->peer)->sender == 99;
	return count;
}

/*
 * Strangers send, and post no receives for the answers. Each answer keeps an
 * initiator of the target, until the target gives the answer up.
 */
static void initiators__answers_are_not_taken_OTHERS_HAVE_HALF(void **state)
{
	uint32_t asked = 0;
	struct dc_place place;
	struct deaf x;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	open_deaf(&x);
	for (uint32_t i = 0; i < STRANGERS; i++)
		hello_from(&x);
	WAIT_FOR(target->sessions == STRANGERS + 1);
	WAIT_FOR(initiators_of_strangers() == target->dc->dci_max);
	/* the other sender needs credits, and waits for an initiator */
	for (uint32_t i = 0; i < 2 * CREDITS; i++)
		send_one();
	while (asked < STRANGERS) {
		both();
		asked += ask_deaf();
	}
	for (uint32_t i = 0; i < 4 * CREDITS; i++) {
		send_one();
		assert_true(initiators_of_strangers() <=
			    target->dc->dci_max / 2);
	}
	assert_int_equal(target->sessions, STRANGERS + 1);
	close_deaf(&x);
	close_both();
}

static void sender__forged_frames_NO_EFFECT(void **state)
{
	struct dc_session *x = list_first(&sender->sessions, struct dc_session,
					  node);
	struct dc_place place;

	rdmamsg__port_place(x->peer.port, &place);
	open_stranger(&place, x->peer.port->key);
	for (unsigned int type = 0; type < DCF_TYPE_MAX + 2; type++)
		for (uint32_t handle = 0; handle < 4; handle++)
			say((struct dc_frame){
				.type = (uint8_t)type, .handle = handle,
				.token = x->peer.token + 1,
				.number = 1000,
			}, "1234567890123456", 16);
	/* with the right handle: credits beyond reason, an unknown DONE */
	say((struct dc_frame){
		.type = DCF_CREDIT, .handle = x->peer.handle,
		.token = x->peer.token, .number = 0x7fffffff,
	}, NULL, 0);
	say((struct dc_frame){
		.type = DCF_DONE, .handle = x->peer.handle,
		.token = x->peer.token, .number = 1,
	}, NULL, 0);
	assert_true(x->credit - x->number <= DCF_CREDITS_MAX);
	close_both();
}

/*
 * A stranger has the access key, and knows the handle of another's session,
 * which are small numbers. Of the token it knows all bits but one.
 */
static void session__of_another_CANNOT_BE_GUESSED(void **state)
{
	const struct dc_session *x = list_first(&sender->sessions,
						struct dc_session, node);
	const unsigned int before = messages;
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	for (unsigned int bit = 0; bit < 64; bit++) {
		struct dc_frame f = {
			.type = DCF_DATA, .handle = x->far_handle,
			.token = x->far_token ^ 1ull << bit,
			.number = x->number,
		};

		say(f, "forged", 6);
		f.type = DCF_BYE;
		say(f, NULL, 0);
	}
	assert_int_equal(lost, 0);
	send_one();
	assert_int_equal(messages, before + 1);
	assert_int_equal(target->sessions, 1);
	/* all bits: this test would notice */
	say((struct dc_frame){
		.type = DCF_DATA, .handle = x->far_handle,
		.token = x->far_token, .number = x->number,
	}, "forged", 6);
	WAIT_FOR(messages == before + 2);
	close_stranger();
}

static struct rdmamsg_reason refusal;
static char refused_with[64];

static void on_refused(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	refusal = *why;
	memcpy(refused_with, why->data, min(why->data_len, 63));
}

/* A sender of the library before asks, whose frames have version 1. */
static void sender__with_older_frames_REFUSED(void **state)
{
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on), .on_closed = on_refused,
	};
	const struct dc_hello h = {
		.access_key = KEY, .sender = 5, .asks = true,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.hello_data_len = DC_HELLO_LEN,
	};
	uint8_t hello[DC_HELLO_LEN];

	rdmamsg__dc_hello_encode(&h, hello);
	hello[4] = '1';
	opts.hello_data = hello;
	refusal.cause = 0;
	assert_int_equal(rdmamsg_connect(near, "127.0.0.1", service, &opts,
					 NULL), 0);
	WAIT_FOR(refusal.cause);
	assert_int_equal(refusal.cause, RDMAMSG_CAUSE_REJECTED);
	assert_string_equal(refused_with, "DC frames: version 2, not 1");
	assert_int_equal(target->sessions + target->connections, 1);
}

static void access_key__of_a_packet_COUNTED_AND_TOLD(void **state)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY + 1);
	for (unsigned int i = 1; i <= 3; i++) {
		if (i == 2)
			assert_int_equal(rdmamsg_dc_target_arm(target), 0);
		say((struct dc_frame){ .type = DCF_BYE }, NULL, 0);
		assert_int_equal(lost, i);
		WAIT_FOR(violations == (i > 1));
		assert_int_equal(rdmamsg_dc_target_query(target, &a), 0);
		assert_int_equal(a.key_violations, i);
		assert_int_equal(a.armed, 0);
	}
	close_both();
}

static void device__removed_ENDS_ALL(void **state)
{
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(own_fabric, &ctl), 0);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	WAIT_FOR(!target->sessions && !target->dc && !sender->session_count);
	assert_int_equal(failed, 1);
	assert_true(list_empty(&sender->ports));
	soft_ctl_close(ctl);
}

static void deliver(struct rdmamsg_dc_address *a)
{
	const unsigned int before = completed;

	assert_int_equal(rdmamsg_dc_send(a, "x", 1, 0, &status), 0);
	WAIT_FOR(completed == before + 1);
	assert_int_equal(status, 0);
}

/* With one initiator, a session and a connection take turns. */
static void session__connection_is_idle_TAKES_ITS_PLACE(void **state)
{
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = KEY, .on_message = on_message,
		.path = RDMAMSG_DC_CONNECTIONS,
		.on_destroyed = on_target_destroyed,
	};
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_complete = on_complete,
		.on_failed = on_failed, .path = RDMAMSG_DC_NATIVE,
		.on_destroyed = on_sender_destroyed, .initiators = 1,
	};
	struct rdmamsg_dc_address *native, *other;
	struct rdmamsg_dc_target *plain;
	struct rdmamsg_dc_sender *s;
	char at[8];

	assert_int_equal(rdmamsg_dc_target_create(far, "127.0.0.1", "0", &to,
						  &plain), 0);
	(void)snprintf(at, sizeof(at), "%u", rdmamsg_dc_target_port(plain));
	assert_int_equal(rdmamsg_dc_sender_create(near, &so, &s), 0);
	assert_int_equal(rdmamsg_dc_address_create(s, "127.0.0.1", service, KEY,
						   NULL, &native), 0);
	assert_int_equal(rdmamsg_dc_address_create(s, "127.0.0.1", at, KEY,
						   NULL, &other), 0);
	for (int i = 0; i < 3; i++) {
		deliver(native);
		deliver(other);
	}
	assert_int_equal(s->session_count, 1);
	assert_int_equal(failed, 0);
	rdmamsg_dc_sender_destroy(s);
	WAIT_FOR(gone == 1);
	rdmamsg_dc_target_destroy(plain);
	WAIT_FOR(gone == 2);
	gone = 0;
}

static struct ibv_mr *no_mr(struct ibv_pd *pd, void *addr, size_t len,
			    uint64_t iova, int access)
{
	errno = EAGAIN;
	return NULL;
}

/* A message that cannot be registered is refused, and is nobody's then. */
static void registration__fails_for_now_REFUSED(void **state)
{
	static uint8_t memory[100000];
	const struct iovec iov = { memory, sizeof(memory) };
	struct rdmamsg_device *d = address->session->peer.port->dev->device;
	const struct verbs_api *v = d->v;
	struct verbs_api fails = *v;

	fails.reg_mr_iova = no_mr;
	d->v = &fails;
	assert_int_equal(dc_sendv(address, &iov, 1, 0, &status),
			 -ENOMEM);
	d->v = v;
	send_one();
	assert_int_equal(completed, 2);
}

/* The request finds its device by address, and so does the session. */
static void device__not_named_FOUND(void **state)
{
	/* else another device may be found */
	if (!access("/sys/class/infiniband_verbs", F_OK))
		skip();
	(void)unsetenv("RDMAMSG_DEVICE");
	start(state);
	assert_int_equal(sender->session_count, 1);
	finish(state);
}

int main(void)
{
#ifndef HAVE_MLX5DV
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
#endif
#define WITH_BOTH(fn)	cmocka_unit_test_setup_teardown(fn, start, finish)
	const struct CMUnitTest tests[] = {
		WITH_BOTH(frame__numbered_wrongly_ENDS_ITS_SESSION),
		WITH_BOTH(frame__beyond_the_credits_ENDS_ITS_SESSION),
		WITH_BOTH(rndv__key_of_nobody_ENDS_ITS_SESSION),
		WITH_BOTH(rndv__too_large_OR_BROKEN_ENDS_ITS_SESSION),
		WITH_BOTH(frame__random_bytes_IGNORED),
		WITH_BOTH(hello__many_BOUNDED_THEN_BUSY),
		WITH_BOTH(hello__without_a_ticket_NO_MEMORY),
		WITH_BOTH(ticket__counts_once_and_for_its_sender_ONLY),
		WITH_BOTH(tickets__of_one_address_LEAVE_ROOM_FOR_OTHERS),
		WITH_BOTH(sessions__of_one_address_LEAVE_ROOM_FOR_OTHERS),
		WITH_BOTH(initiators__answers_are_not_taken_OTHERS_HAVE_HALF),
		WITH_BOTH(sender__forged_frames_NO_EFFECT),
		WITH_BOTH(session__of_another_CANNOT_BE_GUESSED),
		WITH_BOTH(sender__with_older_frames_REFUSED),
		WITH_BOTH(access_key__of_a_packet_COUNTED_AND_TOLD),
		WITH_BOTH(device__removed_ENDS_ALL),
		WITH_BOTH(session__connection_is_idle_TAKES_ITS_PLACE),
		WITH_BOTH(registration__fails_for_now_REFUSED),
		cmocka_unit_test(device__not_named_FOUND),
	};

	join_own_fabric("frames");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
