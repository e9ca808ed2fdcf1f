/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of a side: an item of SETUP. The functions are pure, as in proto.h.
 * The item has one or more entries:
 *
 *  0 u8 kind (4: IPv4, 6: IPv6)   1 u8 0   2 u16 port   4 address, 16 bytes
 *
 * An IPv4 address has 12 zeros behind it.
 */
#ifndef RDMAMSG_LIB_ADDRESSES_WIRE_H
#define RDMAMSG_LIB_ADDRESSES_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_ADDRESS_LEN	20
#define PROTO_ADDRESSES_MAX	8	/* entries that count */
#define PROTO_ADDRESSES_LEN	(PROTO_ADDRESSES_MAX * PROTO_ADDRESS_LEN)

struct proto_address {
	uint8_t kind;			/* 4 or 6 */
	uint16_t port;
	uint8_t ip[16];			/* network order */
};

struct proto_addresses {
	uint32_t count;
	struct proto_address at[PROTO_ADDRESSES_MAX];
};

/*
 * Returns true if the address names one port of one host, wherever it is read:
 * no port 0, wildcard, multicast or broadcast, nor an IPv6 address that is
 * link-local or an IPv4 address.
 */
bool rdmamsg__address_is_sane(const struct proto_address *a);
bool rdmamsg__address_is_same(const struct proto_address *a,
			      const struct proto_address *b);
/* Returns the length. All entries are sane. */
size_t rdmamsg__addresses_encode(const struct proto_addresses *a,
				 uint8_t out[static PROTO_ADDRESSES_LEN]);
/*
 * -EPROTO: no whole entries, or one that is not sane. Skips entries of an
 * unknown kind. Ignores those behind the first PROTO_ADDRESSES_MAX.
 */
int rdmamsg__addresses_decode(struct proto_addresses *a, const void *buf,
			      size_t len);

#endif
