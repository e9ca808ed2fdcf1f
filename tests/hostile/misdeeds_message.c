/* SPDX-License-Identifier: BSD-2-Clause */
/* Invalid messages, and ends of a connection in the wrong state. */
#include "misdeeds.h"

#include <stdlib.h>
#include <unistd.h>

static bool short_message(struct raw *r)
{
	static const uint8_t almost[PROTO_HDR_LEN - 1] = { PROTO_DATA };

	return raw_send(r, almost, sizeof(almost)) >= 0;
}

/* Sends a valid PING without its last byte. */
static bool short_ping(struct raw *r)
{
	struct proto_hdr hdr = { .type = PROTO_PING };
	uint8_t wire[PROTO_HDR_LEN];

	rdmamsg__hdr_encode(&hdr, wire);
	return raw_send(r, wire, sizeof(wire) - 1) >= 0;
}

static bool empty_message(struct raw *r)
{
	return raw_send(r, NULL, 0) >= 0;
}

static bool unknown_type(struct raw *r)
{
	return do_message(r, 99, NULL, 0);
}

static bool type_zero(struct raw *r)
{
	return do_message(r, 0, NULL, 0);
}

static bool number_ahead(struct raw *r)
{
	return do_data(r, 1, SINK_TAG, 10);
}

static bool number_repeated(struct raw *r)
{
	return do_data(r, 0, SINK_TAG, 10) && do_data(r, 0, SINK_TAG, 10);
}

static bool number_wraps(struct raw *r)
{
	return do_data(r, UINT32_MAX, SINK_TAG, 10);
}

/* Sends far more messages than the credits allow, as fast as possible. */
static bool flood(struct raw *r)
{
	return !raw_burst(r, PROTO_DATA, 2000) || true;
}

/* Returns the credit, after reading what has come. */
static uint32_t granted(struct raw *r, uint32_t credit)
{
	struct proto_hdr hdr;
	const uint8_t *body;
	uint32_t len;

	while (raw_receive(r, &hdr, &body, &len, 1))
		if ((int32_t)(hdr.credit - credit) > 0)
			credit = hdr.credit;
	return credit;
}

/*
 * Uses all credits, then sends 'more' messages while none is granted. With a
 * shared receive queue, some may have been granted before the victim is busy.
 */
static bool use_credit(struct raw *r, uint32_t more)
{
	uint32_t credit = r->peer.recv_depth;
	bool did = do_keep_busy(r);

	while (did && r->number < (credit = granted(r, credit)) + more)
		did = do_data(r, r->number++, SINK_TAG, 10);
	return do_release(did);
}

static bool credit_used_up(struct raw *r)
{
	return use_credit(r, 0) && do_leave(r);
}

/* Returns true if the victim answers, and false if it has ended a connection. */
static bool goes_on(struct raw *r, uint32_t ended)
{
	struct proto_hdr hdr = { .type = 0 };
	const uint8_t *body;
	uint32_t len;

	if (!do_message(r, PROTO_PING, NULL, 0))
		return false;
	for (int i = 0; i < RAW_WAIT_MS && victims->ended == ended; i++)
		if (raw_receive(r, &hdr, &body, &len, 1) &&
		    hdr.type == PROTO_PONG)
			return true;
	return false;
}

/*
 * With a shared receive queue the victim may have more receives for this peer
 * that it has not told of when it becomes busy. Then one more is no misdeed yet.
 */
static bool credit_one_more(struct raw *r)
{
	const uint32_t ended = victims->ended;
	bool did = use_credit(r, 1);

	while (did && goes_on(r, ended))
		did = use_credit(r, 1);
	return did;
}

static bool credit_insane(struct raw *r)
{
	struct proto_hdr hdr = { .type = PROTO_CREDIT, .credit = 0x40000000 };
	uint8_t wire[PROTO_HDR_LEN];

	rdmamsg__hdr_encode(&hdr, wire);
	return raw_send(r, wire, sizeof(wire)) >= 0;
}

/* The hello did not offer this feature. */
static bool written_not_agreed(struct raw *r)
{
	return raw_message(r, PROTO_WRITTEN, r->number++, 1, NULL, 0) >= 0;
}

/* Many PINGs are harmless, so the connection may go on. */
static bool ping_flood(struct raw *r)
{
	(void)raw_burst(r, PROTO_PING, 3000);
	return do_leave(r);
}

static bool pong_flood(struct raw *r)
{
	(void)raw_burst(r, PROTO_PONG, 3000);
	return do_leave(r);
}

static bool credit_flood(struct raw *r)
{
	(void)raw_burst(r, PROTO_CREDIT, 3000);
	return do_leave(r);
}

/*
 * ---- what each quota allows, and more -----------------------------------
 *
 * A quota is one of each batch of completions, and a batch may end amid these
 * messages, behind those of the innocent. So twice the quota and two more
 * exceed it in one batch at least.
 */

/* Sends 'count' messages, which all arrive before the victim can answer any. */
static bool control(struct raw *r, uint8_t type, uint32_t count)
{
	bool did = do_keep_busy(r);

	for (uint32_t i = 0; did && i < count; i++)
		did = do_message(r, type, NULL, 0);
	return do_release(did);
}

static bool credit_quota(struct raw *r)
{
	return control(r, PROTO_CREDIT, 2) && do_leave(r);
}

static bool credit_quota_exceeded(struct raw *r)
{
	return control(r, PROTO_CREDIT, 6);
}

static bool ping_quota(struct raw *r)
{
	return control(r, PROTO_PING, 1) && do_leave(r);
}

static bool ping_quota_exceeded(struct raw *r)
{
	return control(r, PROTO_PING, 4);
}

/* The victim has sent no PING, so a PONG answers nothing. */
static bool pong_quota_exceeded(struct raw *r)
{
	return control(r, PROTO_PONG, 1);
}

/* The victim has sent no CLOSE, so nothing can be confirmed. */
static bool close_confirms_nothing(struct raw *r)
{
	return raw_message(r, PROTO_CLOSE, 0, 1, NULL, 0) >= 0;
}

static bool close_then_data(struct raw *r)
{
	return do_release(do_keep_busy(r) &&
			  do_message(r, PROTO_CLOSE, NULL, 0) &&
			  do_data(r, r->number, 0, 10));
}

static bool close_then_rndv(struct raw *r)
{
	return do_release(do_keep_busy(r) &&
			  do_message(r, PROTO_CLOSE, NULL, 0) &&
			  raw_announce(r, 100000, 0) >= 0);
}

static bool close_twice(struct raw *r)
{
	return do_release(do_keep_busy(r) &&
			  do_message(r, PROTO_CLOSE, NULL, 0) &&
			  do_message(r, PROTO_CLOSE, NULL, 0));
}

static bool close_then_silence(struct raw *r)
{
	return do_message(r, PROTO_CLOSE, NULL, 0);
}

static bool close_then_vanish(struct raw *r)
{
	return do_message(r, PROTO_CLOSE, NULL, 0) && do_vanish(r);
}

static bool larger_than_receive(struct raw *r)
{
	uint8_t *big = calloc(1, 100000);
	bool good;

	big[0] = PROTO_DATA;
	good = raw_send(r, big, 100000) >= 0;
	free(big);
	return good;
}

/* Starts all kinds of operations in both directions, then goes silent. */
static bool begin_much(struct raw *r)
{
	for (int i = 0; i < 4; i++)
		if (!do_data(r, r->number++, 1, 100) ||
		    raw_announce(r, 300000, 1) < 0)
			return false;
	return true;
}

static bool leave_in_the_middle(struct raw *r)
{
	return begin_much(r) && do_leave(r);
}

static bool vanish_in_the_middle(struct raw *r)
{
	return begin_much(r) && do_vanish(r);
}

/* The peer receives nothing, so closing meets its deadline. */
static bool deaf(struct raw *r)
{
	for (int i = 0; i < 3; i++)
		if (!do_data(r, r->number++, 1, 100))
			return false;
	return r->passive || do_message(r, PROTO_CLOSE, NULL, 0);
}

const struct misdeed message_misdeeds[] = {
	{ "short-message", short_message, PROTO, READS },
	{ "short-ping", short_ping, PROTO, READS },
	{ "empty-message", empty_message, PROTO, READS },
	{ "unknown-type", unknown_type, PROTO, READS },
	{ "type-zero", type_zero, PROTO, READS },
	{ "number-ahead", number_ahead, PROTO, READS },
	{ "number-repeated", number_repeated, PROTO, READS },
	{ "number-wraps", number_wraps, PROTO, READS },
	{ "flood", flood, PROTO, READS, .floods = true },
	{ "credit-used-up", credit_used_up, CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS },
	{ "credit-one-more", credit_one_more, PROTO, READS },
	{ "credit-insane", credit_insane, PROTO, READS },
	{ "written-not-agreed", written_not_agreed, PROTO, READS },
	{ "ping-flood", ping_flood, PROTO | CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS, .floods = true },
	{ "ping-flood-deaf", ping_flood, PROTO | CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), .how = { .deaf = true }, .floods = true },
	{ "pong-flood", pong_flood, PROTO | CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS, .floods = true },
	{ "credit-flood", credit_flood, PROTO | CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS, .floods = true },
	{ "credit-quota", credit_quota, CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS },
	{ "credit-quota-exceeded", credit_quota_exceeded, PROTO, READS },
	{ "ping-quota", ping_quota, CAUSE(ABORTED) | CAUSE(TRANSPORT), READS },
	{ "ping-quota-exceeded", ping_quota_exceeded, PROTO, READS },
	{ "pong-quota-exceeded", pong_quota_exceeded, PROTO, READS },
	{ "close-confirms-nothing", close_confirms_nothing, PROTO, READS },
	/* the victim may answer CLOSE between two batches of completions */
	{ "close-then-data", close_then_data, PROTO | CAUSE(CLOSED), READS },
	{ "close-then-rndv", close_then_rndv, PROTO | CAUSE(CLOSED), READS },
	{ "close-twice", close_twice, PROTO | CAUSE(CLOSED), READS },
	{ "close-then-silence", close_then_silence, CAUSE(CLOSED) |
	  CAUSE(TIMEOUT), READS },
	{ "close-then-vanish", close_then_vanish, CAUSE(CLOSED) |
	  CAUSE(TRANSPORT) | CAUSE(ABORTED) | CAUSE(TIMEOUT), READS },
	{ "larger-than-receive", larger_than_receive, PROTO | CAUSE(ACCESS),
	  READS },
	{ "leave-in-the-middle", leave_in_the_middle, CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS, .wish = WISH_SEND,
	  .many = true },
	{ "vanish-in-the-middle", vanish_in_the_middle, CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS, .wish = WISH_SEND,
	  .many = true },
	/* iWARP ends the connection */
	{ "deaf", deaf, CAUSE(TIMEOUT) | CAUSE(TRANSPORT) | CAUSE(ABORTED) |
	  CAUSE(ACCESS),
	  .how = { .deaf = true, .reads_served = 4 }, .wish = WISH_SEND,
	  .then = WISH_CLOSE },
	{ NULL },
};
