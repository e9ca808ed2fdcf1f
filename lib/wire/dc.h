/* SPDX-License-Identifier: BSD-2-Clause */
/* The hello data of a sender, which its target reads before it accepts. */
#ifndef RDMAMSG_LIB_WIRE_DC_H
#define RDMAMSG_LIB_WIRE_DC_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DC_MAGIC	0x3031434452u	/* "RDC10" */
/* the same, of a sender that can use DC: see wire/dc_frame.h */
#define DC_MAGIC_ASK	0x3231434452u	/* "RDC12" */
/* the same, with frames of version 1 */
#define DC_MAGIC_ASK_1	0x3131434452u	/* "RDC11" */
#define DC_HELLO_LEN	24
/* data of a reject for another access key */
#define DC_VIOLATION	"access key"
/* data of a reject for frames of version 1; at most 32 bytes */
#define DC_OLD		"DC frames: version 2, not 1"

struct dc_hello {
	uint64_t access_key;
	uint64_t sender;
	bool asks;			/* for DC in place of a connection */
	bool old;			/* with frames of version 1 */
};

static inline void rdmamsg__dc_hello_encode(const struct dc_hello *h,
					    uint8_t buf[DC_HELLO_LEN])
{
	const uint64_t words[] = {
		htole64(h->asks ? DC_MAGIC_ASK : DC_MAGIC),
		htole64(h->access_key), htole64(h->sender),
	};

	memcpy(buf, words, sizeof(words));
}

/* Returns false if the peer is not a sender. */
static inline bool rdmamsg__dc_hello_decode(struct dc_hello *h,
					    const void *buf, size_t len)
{
	uint64_t words[3];

	if (len != sizeof(words))
		return false;
	memcpy(words, buf, sizeof(words));
	h->access_key = le64toh(words[1]);
	h->sender = le64toh(words[2]);
	h->asks = le64toh(words[0]) == DC_MAGIC_ASK;
	h->old = le64toh(words[0]) == DC_MAGIC_ASK_1;
	return h->asks || h->old || le64toh(words[0]) == DC_MAGIC;
}

static inline bool rdmamsg__dc_is_violation(const void *data, size_t len)
{
	return len == sizeof(DC_VIOLATION) - 1 &&
	       !memcmp(data, DC_VIOLATION, len);
}

#endif
