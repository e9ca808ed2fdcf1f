/* SPDX-License-Identifier: BSD-2-Clause */
/* A stranger beside the pair, who speaks the protocol of DC as it likes. */
#ifndef TESTS_UNIT_DC_STRANGER_H
#define TESTS_UNIT_DC_STRANGER_H

#include "../passing.h"
#include "pair.h"
#include "base/ctx.h"
#include "base/util.h"
#include "dc/port.h"
#include "dc/ticket.h"
#include "dc/visit.h"
#include "dc/visitor.h"
#include "device/device.h"
#include "wire/dc_frame.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>

static struct dc_port *port;
static struct dc_peer peer;
static struct dc_frame got;		/* the last frame */
static struct dc_welcome welcome;
static unsigned int frames, byes, sent, lost;

static inline bool on_frame(struct dc_port *p, const struct dc_frame *f,
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

static inline void on_sent(struct dc_peer *to, const struct dc_tx *tx,
		    const struct ibv_wc *wc)
{
	(void)to;
	(void)tx;
	sent += wc->status == IBV_WC_SUCCESS;
	lost += wc->status != IBV_WC_SUCCESS;
}

static inline void no_peer(struct dc_peer *to)
{
	(void)to;
}

static inline void on_idle(struct dc_peer *to, const struct ibv_wc *why)
{
	(void)to;
	(void)why;
}

static inline bool wants_nothing(const struct dc_peer *to)
{
	(void)to;
	return false;
}

static inline bool always(struct dc_port *p)
{
	(void)p;
	return true;
}

static inline void no_port(struct dc_port *p)
{
	(void)p;
}

static const struct port_ops ops = {
	.frame = on_frame, .pump = no_peer, .done = on_sent, .idle = on_idle,
	.wants = wants_nothing, .may_bind = always, .fed = no_port,
	.tick = no_port,
};

/* Posts a frame with these bytes behind the header. */
static inline void post(struct dc_frame f, const void *body, size_t len)
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

static inline void say(struct dc_frame f, const void *body, size_t len)
{
	const unsigned int before = sent + lost;

	post(f, body, len);
	WAIT_FOR(sent + lost == before + 1);
}

/* A frame of the session that the target has welcomed. */
static inline struct dc_frame frame_here(enum dcf_type type, uint32_t number)
{
	return (struct dc_frame){
		.type = (uint8_t)type, .token = welcome.token,
		.handle = welcome.handle, .number = number,
	};
}

static inline void say_here(enum dcf_type type, uint32_t number, const void *body,
		     size_t len)
{
	say(frame_here(type, number), body, len);
}

static inline uint64_t ticket_from(uint32_t ip)
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

static inline void hello(uint64_t ticket)
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

static inline void greet(void)
{
	frames = byes = 0;
	got.type = 0;
	hello(ticket_from(INADDR_LOOPBACK));
	WAIT_FOR(got.type == DCF_WELCOME);
	assert_int_equal(got.tag, DCF_OK);
}

static inline void open_stranger(const struct dc_place *place, uint64_t key)
{
	struct port_wants w = {
		.ops = &ops, .key = 7, .depth = 64, .size = 128,
		.initiators = 1,
	};
	const struct dev *d = target->dc->dev;

	assert_int_equal(rdmamsg__dev_get(near, d->device->v, d->device->name,
					  NULL, &w.dev), 0);
	assert_int_equal(rdmamsg__port_open(&w, &port), 0);
	assert_int_equal(rdmamsg__peer_open(port, place, key, NULL, &peer), 0);
	sent = lost = frames = byes = 0;
	got.type = 0;
}

static inline void close_stranger(void)
{
	rdmamsg__peer_close(&peer);
	rdmamsg__port_close(port);
}

static inline void open_both(void)
{
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	greet();
	assert_int_equal(target->sessions, 2);
}

/* The other sender notices nothing. */
static inline void close_both(void)
{
	send_one();
	assert_int_equal(failed, 0);
	close_stranger();
}

/* ---- time that passes -------------------------------------------------- */

/*
 * A frame for a stranger who is gone fails after all retries. The clock goes
 * there as soon as nothing else happens.
 */
static inline void both_passing(void)
{
	pass_when_idle(near, far, 100);
	both();
}

#define WAIT_PASSING(condition)	UNTIL_BY(both_passing(), condition)

static inline int finish_passing(void **state)
{
	destroy_both();
	WAIT_PASSING(gone == 2);
	return close_contexts();
}

#endif
