/* SPDX-License-Identifier: BSD-2-Clause */
/* The word of a program that ends a connection, in CLOSE and in ABORT. */
#include "misdeeds.h"

#include "wire/word.h"

#include <string.h>

#define WORD	.how = { .reads_served = 4, .features = PROTO_FEATURE_WORD }
#define AT_LEN	4

/* Sends a word of 'len' bytes that claims to have so many bytes of data. */
static bool word(struct raw *r, uint8_t type, uint8_t claims, size_t len)
{
	uint8_t body[PROTO_WORD_LEN + UINT8_MAX];

	memset(body, 'x', sizeof(body));
	body[AT_LEN] = claims;
	return do_message(r, type, body, len);
}

static bool close_word_short(struct raw *r)
{
	return word(r, PROTO_CLOSE, 0, PROTO_WORD_LEN - 1);
}

static bool close_word_cut(struct raw *r)
{
	return word(r, PROTO_CLOSE, 4, PROTO_WORD_LEN + 3);
}

static bool close_word_long(struct raw *r)
{
	return word(r, PROTO_CLOSE, PROTO_WORD_DATA_MAX + 1,
		    PROTO_WORD_MAX + 1);
}

static bool close_word_longest(struct raw *r)
{
	return word(r, PROTO_CLOSE, UINT8_MAX, PROTO_WORD_LEN + UINT8_MAX);
}

/* The second CLOSE has another word, which is longer. */
static bool close_twice_with_words(struct raw *r)
{
	return do_release(do_keep_busy(r) &&
			  word(r, PROTO_CLOSE, 1, PROTO_WORD_LEN + 1) &&
			  word(r, PROTO_CLOSE, PROTO_WORD_DATA_MAX,
			       PROTO_WORD_MAX));
}

static bool close_then_abort(struct raw *r)
{
	return do_release(do_keep_busy(r) &&
			  word(r, PROTO_CLOSE, 1, PROTO_WORD_LEN + 1) &&
			  word(r, PROTO_ABORT, 2, PROTO_WORD_LEN + 2));
}

static bool abort_word_short(struct raw *r)
{
	return word(r, PROTO_ABORT, 0, 1);
}

static bool abort_word_cut(struct raw *r)
{
	return word(r, PROTO_ABORT, PROTO_WORD_DATA_MAX, PROTO_WORD_LEN);
}

static bool abort_word_long(struct raw *r)
{
	return word(r, PROTO_ABORT, PROTO_WORD_DATA_MAX + 1,
		    PROTO_WORD_MAX + 1);
}

static bool abort_without_word(struct raw *r)
{
	return do_message(r, PROTO_ABORT, NULL, 0);
}

static bool abort_not_agreed(struct raw *r)
{
	return word(r, PROTO_ABORT, 1, PROTO_WORD_LEN + 1);
}

static bool abort_then_data(struct raw *r)
{
	return do_release(do_keep_busy(r) && abort_without_word(r) &&
			  do_data(r, r->number, 0, 10));
}

static bool abort_twice(struct raw *r)
{
	return do_release(do_keep_busy(r) && abort_without_word(r) &&
			  word(r, PROTO_ABORT, 1, PROTO_WORD_LEN + 1));
}

const struct misdeed word_misdeeds[] = {
	{ "close-word-short", close_word_short, PROTO, WORD },
	{ "close-word-cut", close_word_cut, PROTO, WORD },
	{ "close-word-long", close_word_long, PROTO, WORD },
	{ "close-word-longest", close_word_longest, PROTO, WORD },
	/* the victim may answer CLOSE between two batches of completions */
	{ "close-twice-with-words", close_twice_with_words, PROTO |
	  CAUSE(CLOSED), WORD },
	{ "close-then-abort", close_then_abort, CAUSE(ABORTED) |
	  CAUSE(CLOSED), WORD },
	{ "abort-word-short", abort_word_short, PROTO, WORD },
	{ "abort-word-cut", abort_word_cut, PROTO, WORD },
	{ "abort-word-long", abort_word_long, PROTO, WORD },
	{ "abort-without-word", abort_without_word, CAUSE(ABORTED), WORD },
	{ "abort-not-agreed", abort_not_agreed, PROTO, READS },
	{ "abort-then-data", abort_then_data, CAUSE(ABORTED), WORD },
	{ "abort-twice", abort_twice, CAUSE(ABORTED), WORD },
	{ NULL },
};
