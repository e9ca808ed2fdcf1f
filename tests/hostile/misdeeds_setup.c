/* SPDX-License-Identifier: BSD-2-Clause */
/* Misdeeds before SETUP is complete, and invalid SETUPs. */
#include "misdeeds.h"

#include <string.h>

static bool silence(struct raw *r)
{
	return true;
}

static bool setup_garbage(struct raw *r)
{
	uint8_t body[200];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 37 + 11);
	return do_message(r, PROTO_SETUP, body, sizeof(body));
}

static bool setup_empty(struct raw *r)
{
	return do_message(r, PROTO_SETUP, NULL, 0);
}

static bool setup_with(struct raw *r, uint16_t type, uint32_t value)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 16, .max_msg = 65536,
	};
	uint8_t body[PROTO_SETUP_MAX];
	size_t len = rdmamsg__setup_encode(&s, body);

	/* the items are in the order of their types, 8 bytes each */
	value = htole32(value);
	memcpy(body + 8 * (type - 1) + 4, &value, sizeof(value));
	return do_message(r, PROTO_SETUP, body, len);
}

static bool setup_small_receives(struct raw *r)
{
	return setup_with(r, PROTO_SETUP_RECV_SIZE, 10);
}

static bool setup_no_depth(struct raw *r)
{
	return setup_with(r, PROTO_SETUP_RECV_DEPTH, 0);
}

static bool setup_must_know(struct raw *r)
{
	static const uint8_t body[] = { 99, 0x80, 0, 0 };

	return do_message(r, PROTO_SETUP, body, sizeof(body));
}

/* Only the initiator may choose the session. */
static bool setup_other_session(struct raw *r)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 16, .max_msg = 65536,
	};
	uint8_t body[PROTO_SETUP_MAX];
	struct proto_hdr hdr;
	const uint8_t *theirs;
	uint32_t len;

	if (!raw_receive_type(r, PROTO_SETUP, &hdr, &theirs, &len) ||
	    rdmamsg__setup_decode(&r->peer, theirs, len))
		return false;
	memcpy(s.session, r->peer.session, sizeof(s.session));
	s.session[15] ^= 1;
	return do_message(r, PROTO_SETUP, body,
			  rdmamsg__setup_encode(&s, body));
}

/* A refusal is no misdeed, but it ends the connection. */
static bool setup_refused(struct raw *r)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 1, .max_msg = 1,
		.refused = PROTO_REJECT_RESOURCES,
	};
	uint8_t body[PROTO_SETUP_MAX];
	struct proto_hdr hdr;
	const uint8_t *theirs;
	uint32_t len;

	if (!raw_receive_type(r, PROTO_SETUP, &hdr, &theirs, &len) ||
	    rdmamsg__setup_decode(&r->peer, theirs, len))
		return false;
	memcpy(s.session, r->peer.session, sizeof(s.session));
	return do_message(r, PROTO_SETUP, body,
			  rdmamsg__setup_encode(&s, body));
}

/* This victim has no key, and cannot prove anything. */
static bool setup_nonce(struct raw *r)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 16, .max_msg = 65536,
		.has_nonce = true,
	};
	uint8_t body[PROTO_SETUP_MAX];

	return do_message(r, PROTO_SETUP, body,
			  rdmamsg__setup_encode(&s, body));
}

/* Announces an address: kind, port, and the first bytes of the IP address. */
static bool setup_address(struct raw *r, uint8_t kind, uint16_t port,
			  uint32_t ip, uint16_t len)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 16, .max_msg = 65536,
	};
	const uint16_t item[] = {
		htole16(PROTO_SETUP_ADDRESSES), htole16(len),
	};
	uint8_t one[PROTO_ADDRESS_LEN] = { kind };
	uint8_t body[PROTO_SETUP_MAX];
	size_t at = rdmamsg__setup_encode(&s, body);

	port = htole16(port);
	ip = htobe32(ip);
	memcpy(one + 2, &port, sizeof(port));
	memcpy(one + 4, &ip, sizeof(ip));
	memcpy(body + at, item, sizeof(item));
	memcpy(body + at + sizeof(item), one, sizeof(one));
	return do_message(r, PROTO_SETUP, body, at + sizeof(item) + len);
}

static bool setup_address_cut(struct raw *r)
{
	return setup_address(r, 4, 7000, 0x0a090101, PROTO_ADDRESS_LEN - 1);
}

static bool setup_address_no_port(struct raw *r)
{
	return setup_address(r, 4, 0, 0x0a090101, PROTO_ADDRESS_LEN);
}

static bool setup_address_multicast(struct raw *r)
{
	return setup_address(r, 4, 7000, 0xe0000001, PROTO_ADDRESS_LEN);
}

static bool setup_address_link_local(struct raw *r)
{
	return setup_address(r, 6, 7000, 0xfe800000, PROTO_ADDRESS_LEN);
}

static bool auth_first(struct raw *r)
{
	static const uint8_t body[PROTO_AUTH_LEN];

	return do_message(r, PROTO_AUTH, body, sizeof(body));
}

static bool data_first(struct raw *r)
{
	return do_data(r, 0, 0, 10);
}

static bool rndv_first(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	return do_rndv(r, &w);
}

static bool close_first(struct raw *r)
{
	return do_message(r, PROTO_CLOSE, NULL, 0);
}

static bool done_first(struct raw *r)
{
	return do_message(r, PROTO_DONE, NULL, 0);
}

static bool ping_first(struct raw *r)
{
	return do_message(r, PROTO_PING, NULL, 0);
}

static bool pong_first(struct raw *r)
{
	return do_message(r, PROTO_PONG, NULL, 0);
}

static bool credit_first(struct raw *r)
{
	return do_message(r, PROTO_CREDIT, NULL, 0);
}

/*
 * The burst exceeds the receives: it waits, and takes no other peer's receive.
 */
static bool burst_first(struct raw *r)
{
	(void)raw_burst(r, PROTO_DATA, 40);
	return true;
}

/* The write is a valid keepalive, the only request allowed before SETUP. */
static bool write_then_setup_garbage(struct raw *r)
{
	return raw_rdma(r, IBV_WR_RDMA_WRITE, 0, 0, 0) == IBV_WC_SUCCESS &&
	       setup_garbage(r);
}

static bool nothing_first(struct raw *r)
{
	return raw_send(r, NULL, 0) >= 0;
}

static bool second_setup(struct raw *r)
{
	return setup_with(r, PROTO_SETUP_MAX_MSG, 65536);
}

const struct misdeed setup_misdeeds[] = {
	{ "silence-before-setup", silence, CAUSE(TIMEOUT), true, READS },
	{ "vanish-before-setup", do_vanish, CAUSE(TIMEOUT) | CAUSE(TRANSPORT) |
	  CAUSE(ABORTED), true, READS },
	{ "leave-before-setup", do_leave, CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  true, READS },
	{ "setup-garbage", setup_garbage, PROTO, true, READS },
	{ "setup-empty", setup_empty, PROTO, true, READS },
	{ "setup-small-receives", setup_small_receives, PROTO, true, READS },
	{ "setup-no-depth", setup_no_depth, PROTO, true, READS },
	{ "setup-must-know", setup_must_know, PROTO, true, READS },
	{ "setup-other-session", setup_other_session, PROTO, true, READS,
	  .passive_only = true },
	{ "setup-refused", setup_refused, CAUSE(RESOURCES), true, READS,
	  .passive_only = true },
	{ "setup-with-a-nonce", setup_nonce, CAUSE(AUTH), true, READS,
	  .active_only = true },
	{ "setup-address-cut", setup_address_cut, PROTO, true, READS },
	{ "setup-address-no-port", setup_address_no_port, PROTO, true, READS },
	{ "setup-address-multicast", setup_address_multicast, PROTO, true,
	  READS },
	{ "setup-address-link-local", setup_address_link_local, PROTO, true,
	  READS },
	{ "auth-before-setup", auth_first, PROTO, true, READS },
	{ "auth-after-setup", auth_first, PROTO, READS },
	{ "data-before-setup", data_first, PROTO, true, READS },
	{ "rndv-before-setup", rndv_first, PROTO, true, READS },
	{ "close-before-setup", close_first, PROTO, true, READS },
	{ "done-before-setup", done_first, PROTO, true, READS },
	{ "ping-before-setup", ping_first, PROTO, true, READS },
	{ "pong-before-setup", pong_first, PROTO, true, READS },
	{ "credit-before-setup", credit_first, PROTO, true, READS },
	{ "burst-before-setup", burst_first, PROTO, true, READS,
	  .many = true },
	{ "write-before-setup-garbage", write_then_setup_garbage, PROTO, true,
	  READS },
	{ "nothing-before-setup", nothing_first, PROTO, true, READS },
	{ "second-setup", second_setup, PROTO, READS },
	{ NULL },
};
