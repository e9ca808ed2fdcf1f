/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages in pieces, and messages in compact form, that violate the rules. */
#include "misdeeds.h"

#include <endian.h>
#include <string.h>

#define IMM	.how = { .reads_served = 4, .features = PROTO_FEATURE_IMM }, \
		NO_IMM
#define GONE	(CAUSE(ABORTED) | CAUSE(TRANSPORT))
#define PIECE	4000u
#define TOTAL	(3 * PIECE)

/* Sends a first piece with 'len' bytes of payload, of a message of 'total'. */
static bool first(struct raw *r, uint32_t total, uint32_t len)
{
	uint8_t body[PROTO_FIRST_LEN + PIECE] = { 0 };
	uint32_t wire = htole32(total);

	memcpy(body, &wire, sizeof(wire));
	return raw_message(r, PROTO_FIRST, r->number++, SINK_TAG, body,
			   PROTO_FIRST_LEN + len) >= 0;
}

static bool more(struct raw *r, uint32_t index, uint32_t len)
{
	static const uint8_t zeros[PIECE];

	return raw_message(r, PROTO_MORE, r->number++, index, zeros, len) >= 0;
}

/* Sends a message in compact form. */
static bool compact(struct raw *r, uint32_t tag, uint32_t grant, uint32_t len)
{
	return raw_compact(r, tag << 16 | grant |
			   (r->number++ & PROTO_NUMBER_MASK), len) >= 0;
}

/* ---- pieces ----------------------------------------------------------- */

static bool piece_missing(struct raw *r)
{
	return first(r, TOTAL, PIECE) && more(r, 2, PIECE);
}

static bool piece_doubled(struct raw *r)
{
	return first(r, TOTAL, PIECE) && more(r, 1, PIECE) &&
	       more(r, 1, PIECE);
}

static bool piece_alone(struct raw *r)
{
	return more(r, 1, PIECE);
}

static bool piece_empty(struct raw *r)
{
	return first(r, TOTAL, PIECE) && more(r, 1, 0);
}

static bool piece_too_long(struct raw *r)
{
	return first(r, PIECE + 1, PIECE) && more(r, 1, 2);
}

static bool piece_after_the_last(struct raw *r)
{
	return first(r, 2 * PIECE, PIECE) && more(r, 1, PIECE) &&
	       more(r, 2, PIECE);
}

static bool first_too_large(struct raw *r)
{
	return first(r, UINT32_MAX, PIECE);
}

static bool first_is_all(struct raw *r)
{
	return first(r, PIECE, PIECE);
}

static bool first_without_total(struct raw *r)
{
	return raw_message(r, PROTO_FIRST, r->number++, SINK_TAG, "", 1) >= 0;
}

static bool first_in_a_run(struct raw *r)
{
	return first(r, TOTAL, PIECE) && first(r, TOTAL, PIECE);
}

static bool data_in_a_run(struct raw *r)
{
	return first(r, TOTAL, PIECE) && do_data(r, r->number++, SINK_TAG, 10);
}

static bool rndv_in_a_run(struct raw *r)
{
	return first(r, TOTAL, PIECE) && raw_announce(r, 100000, 0) >= 0;
}

static bool close_in_a_run(struct raw *r)
{
	return first(r, TOTAL, PIECE) && do_message(r, PROTO_CLOSE, NULL, 0);
}

static bool close_then_piece(struct raw *r)
{
	return do_release(do_keep_busy(r) &&
			  do_message(r, PROTO_CLOSE, NULL, 0) &&
			  first(r, TOTAL, PIECE));
}

/* The message never becomes complete, and its memory is given back. */
static bool leave_in_a_run(struct raw *r)
{
	return first(r, TOTAL, PIECE) && more(r, 1, PIECE) && do_leave(r);
}

static bool vanish_in_a_run(struct raw *r)
{
	return first(r, TOTAL, PIECE) && do_message(r, PROTO_PING, NULL, 0) &&
	       do_vanish(r);
}

/* ---- compact messages ------------------------------------------------- */

static bool compact_not_agreed(struct raw *r)
{
	return compact(r, SINK_TAG, 0, 10);
}

static bool compact_number_ahead(struct raw *r)
{
	r->number++;
	return compact(r, SINK_TAG, 0, 10);
}

static bool compact_number_repeated(struct raw *r)
{
	bool did = compact(r, SINK_TAG, 0, 10);

	r->number--;
	return did && compact(r, SINK_TAG, 0, 10);
}

/* The largest credit that a header may grant, and then more. */
static bool compact_credit_insane(struct raw *r)
{
	struct proto_hdr hdr = {
		.type = PROTO_CREDIT, .credit = PROTO_DEPTH_MAX,
	};
	uint8_t wire[PROTO_HDR_LEN];

	rdmamsg__hdr_encode(&hdr, wire);
	return raw_send(r, wire, sizeof(wire)) >= 0 &&
	       compact(r, SINK_TAG,
		       rdmamsg__grant_encode(PROTO_GRANT_MAX, 0), 10);
}

/* At most two CREDIT messages wait for this, and the victim has sent fewer. */
static bool compact_seen_lies(struct raw *r)
{
	return compact(r, SINK_TAG, rdmamsg__grant_encode(0, 3), 10);
}

static bool compact_piece_missing(struct raw *r)
{
	return first(r, TOTAL, PIECE) && compact(r, 2, 0, PIECE);
}

static bool compact_piece_doubled(struct raw *r)
{
	return first(r, TOTAL, PIECE) && compact(r, 1, 0, PIECE) &&
	       compact(r, 1, 0, PIECE);
}

static bool compact_then_leave(struct raw *r)
{
	return compact(r, SINK_TAG, rdmamsg__grant_encode(PROTO_GRANT_MAX, 0),
		       10) && do_leave(r);
}

const struct misdeed pieces_misdeeds[] = {
	{ "piece-missing", piece_missing, PROTO, READS },
	{ "piece-doubled", piece_doubled, PROTO, READS },
	{ "piece-alone", piece_alone, PROTO, READS },
	{ "piece-empty", piece_empty, PROTO, READS },
	{ "piece-too-long", piece_too_long, PROTO, READS },
	{ "piece-after-the-last", piece_after_the_last, PROTO, READS },
	{ "first-too-large", first_too_large, PROTO, READS },
	{ "first-is-all", first_is_all, PROTO, READS },
	{ "first-without-total", first_without_total, PROTO, READS },
	{ "first-in-a-run", first_in_a_run, PROTO, READS },
	{ "data-in-a-run", data_in_a_run, PROTO, READS },
	{ "rndv-in-a-run", rndv_in_a_run, PROTO, READS },
	{ "close-in-a-run", close_in_a_run, PROTO, READS },
	/* the victim may answer CLOSE between two batches of completions */
	{ "close-then-piece", close_then_piece, PROTO | CAUSE(CLOSED), READS },
	{ "leave-in-a-run", leave_in_a_run, GONE, READS },
	{ "vanish-in-a-run", vanish_in_a_run, GONE, READS },
	{ "compact-not-agreed", compact_not_agreed, PROTO, READS,
	  NO_IMM },
	{ "compact-before-setup", compact_not_agreed, PROTO, true, IMM },
	{ "compact-number-ahead", compact_number_ahead, PROTO, IMM },
	{ "compact-number-repeated", compact_number_repeated, PROTO, IMM },
	{ "compact-credit-insane", compact_credit_insane, PROTO, IMM },
	{ "compact-seen-lies", compact_seen_lies, PROTO, IMM },
	{ "compact-piece-missing", compact_piece_missing, PROTO, IMM },
	{ "compact-piece-doubled", compact_piece_doubled, PROTO, IMM },
	{ "compact-then-leave", compact_then_leave, GONE, IMM },
	{ NULL },
};
