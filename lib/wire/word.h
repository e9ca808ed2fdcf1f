/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The word of a program that ends a connection: the body of CLOSE and of ABORT.
 * The functions are pure, as in proto.h.
 *
 *  0 u32 code  4 u8 length of the data  5 u8[3] 0  8 data
 */
#ifndef RDMAMSG_LIB_WORD_WIRE_H
#define RDMAMSG_LIB_WORD_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PROTO_WORD_LEN		8		/* before the data */
#define PROTO_WORD_DATA_MAX	32
#define PROTO_WORD_MAX		(PROTO_WORD_LEN + PROTO_WORD_DATA_MAX)

struct proto_word {
	uint32_t code;
	const uint8_t *data;		/* decode: points into the input */
	uint8_t data_len;		/* at most PROTO_WORD_DATA_MAX */
};

/* Returns the length. */
size_t rdmamsg__word_encode(const struct proto_word *w,
			    uint8_t out[static PROTO_WORD_MAX]);
/* -EPROTO: too short, or data that is too long or cut. */
int rdmamsg__word_decode(struct proto_word *w, const void *buf, size_t len);

#endif
