/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts as bytes: keys of layouts, which peers send. */
#ifndef RDMAMSG_LIB_WIRE_LAYOUT_H
#define RDMAMSG_LIB_WIRE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/layout.h"
#include "wire/proto.h"

/*
 * Key of a layout, with its description:
 *
 *  0 u8 version (2)  1 u8 access  2 u16 0  4 u32 length of all
 *  8 u64 id  16 u32 sources  20 u32 groups  24 u64 bytes of the layout
 *
 * Then the sources, as keys. Then for each group: u32 parts, u32 0, u64 rounds.
 * Then all parts:
 *
 *  0 u32 source or group  4 u16 1 if nested  6 u16 dimensions
 *  8 u64 offset  16 u64 length  24 u64 step  32 u64 count[3]  56 u64 stride[3]
 */
#define PROTO_LAYOUT_VERSION	2
#define PROTO_LAYOUT_LEN	32
#define PROTO_LAYOUT_GROUP_LEN	16
#define PROTO_LAYOUT_PART_LEN	80
#define PROTO_LAYOUT_MAX	(PROTO_LAYOUT_LEN + \
				 LAYOUT_SOURCES * PROTO_KEY_LEN + \
				 LAYOUT_GROUPS * PROTO_LAYOUT_GROUP_LEN + \
				 LAYOUT_PARTS * PROTO_LAYOUT_PART_LEN)

size_t rdmamsg__layout_bytes(const struct layout *l);
/* Writes rdmamsg__layout_bytes() of a checked layout. */
void rdmamsg__layout_encode(const struct layout *l, uint8_t *out);

/*
 * Reads the fixed part, and sets id, access and the counts, which are in their
 * ranges and match 'len'. *ret_len is the length that the sender computed.
 * -EPROTO.
 */
int rdmamsg__layout_head(struct layout *l, const void *buf, size_t len,
			 uint64_t *ret_len);
/*
 * Reads the rest into the arrays of l, which have room for the counts. The
 * caller must check the layout. -EPROTO.
 */
int rdmamsg__layout_decode(struct layout *l, const void *buf, size_t len);

#endif
