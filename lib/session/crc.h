/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CRC-32C of messages, if both sides use it. The sender computes it over
 * the memory of its program, before the message is copied or announced. The
 * receiver computes it where its program finds the message.
 */
#ifndef RDMAMSG_LIB_CRC_H
#define RDMAMSG_LIB_CRC_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <rdmamsg/rdmamsg.h>

#include "wire/proto.h"

struct op;
struct rdmamsg_ep;
struct rdmamsg_msg;

static inline void rdmamsg__crc_put(uint8_t *at, uint32_t crc)
{
	const uint32_t w = htole32(crc);

	memcpy(at, &w, sizeof(w));
}

static inline uint32_t rdmamsg__crc_get(const uint8_t *at)
{
	uint32_t w;

	memcpy(&w, at, sizeof(w));
	return le32toh(w);
}

/* Returns the CRC of these bytes. */
uint32_t rdmamsg__crc_of(const struct iovec *iov, int iovcnt);
/* Appends it to op->msg, whose buffer has room, and to op->len. */
void rdmamsg__crc_add(struct rdmamsg_ep *ep, struct op *op, uint32_t crc);
/*
 * Checks and removes the CRC of a message in one piece. After false the
 * endpoint ends.
 */
bool rdmamsg__crc_take(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
/*
 * The last piece, of 'left' bytes and a CRC. If its length differs, sets it to
 * 0, which no piece has.
 */
void rdmamsg__crc_strip(struct rdmamsg_msg *msg, uint32_t left);
/* Returns true, and ends the endpoint, if the two CRCs of a message differ. */
bool rdmamsg__crc_differs(struct rdmamsg_ep *ep, uint32_t len, uint32_t is,
			  uint32_t was);

#endif
