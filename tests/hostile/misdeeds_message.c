/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that should not be, and ends that come out of turn. */
#include "misdeeds.h"

#include <stdlib.h>
#include <unistd.h>

static bool short_message(struct raw *r)
{
	static const uint8_t almost[PROTO_HDR_LEN - 1] = { PROTO_DATA };

	return raw_send(r, almost, sizeof(almost)) >= 0;
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

/* Far more than was allowed, as fast as it goes. */
static bool flood(struct raw *r)
{
	return !raw_burst(r, PROTO_DATA, 2000) || true;
}

static bool credit_insane(struct raw *r)
{
	struct proto_hdr hdr = { .type = PROTO_CREDIT, .credit = 0x40000000 };
	uint8_t wire[PROTO_HDR_LEN];

	rdmamsg__hdr_encode(&hdr, wire);
	return raw_send(r, wire, sizeof(wire)) >= 0;
}

/* The hello has promised nothing of the kind. */
static bool written_not_agreed(struct raw *r)
{
	return raw_message(r, PROTO_WRITTEN, r->number++, 1, NULL, 0) >= 0;
}

/* Harmless, if many: the connection may live on. */
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

static bool close_then_data(struct raw *r)
{
	return do_message(r, PROTO_CLOSE, NULL, 0) &&
	       do_data(r, r->number, 0, 10);
}

static bool close_then_rndv(struct raw *r)
{
	return do_message(r, PROTO_CLOSE, NULL, 0) &&
	       raw_announce(r, 100000, 0) >= 0;
}

static bool close_twice(struct raw *r)
{
	return do_message(r, PROTO_CLOSE, NULL, 0) &&
	       (do_message(r, PROTO_CLOSE, NULL, 0), do_leave(r));
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

/* Everything under way, both ways; and then nothing. */
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

/* Nothing that is sent to it arrives: closing has a deadline. */
static bool deaf(struct raw *r)
{
	for (int i = 0; i < 3; i++)
		if (!do_data(r, r->number++, 1, 100))
			return false;
	return r->passive || do_message(r, PROTO_CLOSE, NULL, 0);
}

const struct misdeed message_misdeeds[] = {
	{ "short-message", short_message, PROTO, READS },
	{ "empty-message", empty_message, PROTO, READS },
	{ "unknown-type", unknown_type, PROTO, READS },
	{ "type-zero", type_zero, PROTO, READS },
	{ "number-ahead", number_ahead, PROTO, READS },
	{ "number-repeated", number_repeated, PROTO, READS },
	{ "number-wraps", number_wraps, PROTO, READS },
	{ "flood", flood, PROTO, READS },
	{ "credit-insane", credit_insane, PROTO, READS },
	{ "written-not-agreed", written_not_agreed, PROTO, READS },
	{ "ping-flood", ping_flood, PROTO | CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS },
	{ "ping-flood-deaf", ping_flood, PROTO | CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), .how = { .deaf = true } },
	{ "pong-flood", pong_flood, PROTO | CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS },
	{ "credit-flood", credit_flood, PROTO | CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS },
	/* all may be over before the second message is there */
	{ "close-then-data", close_then_data, PROTO | CAUSE(CLOSED), READS },
	{ "close-then-rndv", close_then_rndv, PROTO | CAUSE(CLOSED), READS },
	{ "close-twice", close_twice, PROTO | CAUSE(CLOSED) | CAUSE(ABORTED),
	  READS },
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
	{ "deaf", deaf, CAUSE(TIMEOUT) | CAUSE(TRANSPORT),
	  .how = { .deaf = true, .reads_served = 4 }, .wish = WISH_SEND,
	  .then = WISH_CLOSE },
	{ NULL },
};
