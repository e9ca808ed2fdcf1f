/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CRC of a packet begins with its IP and UDP headers, in which all that a
 * router changes counts as ones: Linux, rxe_icrc.c. A program does not see the
 * headers that the kernel makes, but it knows what they are.
 */
#include "soft/net/state.h"

#include <string.h>

#include "soft/fabric/bytes.h"
#include "soft/fabric/gid.h"
#include "soft/net/crc.h"

#define DONT_FRAGMENT	0x40
#define IP4		20u
#define IP6		40u
#define UDP		8u
#define BTH		12u
#define RESERVED	4u	/* of the BTH: counts as ones */

/* Writes the headers as the CRC sees them. Returns their length. */
static uint32_t make_headers(uint8_t *h, const uint8_t from[16],
			     const uint8_t to[16], uint32_t id, uint32_t udp)
{
	uint32_t ip = IP4;

	if (soft_gid_v4(to)) {
		h[0] = 0x45;
		h[1] = 0xff;			/* type of service */
		soft_put16(h + 2, IP4 + udp);
		soft_put16(h + 4, id);
		soft_put16(h + 6, DONT_FRAGMENT << 8);
		h[8] = 0xff;			/* time to live */
		h[9] = IPPROTO_UDP;
		soft_put16(h + 10, 0xffff);		/* checksum */
		memcpy(h + 12, from + 12, 4);
		memcpy(h + 16, to + 12, 4);
	} else {
		ip = IP6;
		h[0] = 0x6f;
		memset(h + 1, 0xff, 3);		/* class and flow label */
		soft_put16(h + 4, udp);
		h[6] = IPPROTO_UDP;
		h[7] = 0xff;			/* hop limit */
		memcpy(h + 8, from, 16);
		memcpy(h + 24, to, 16);
	}
	return ip;
}

uint32_t net_crc(const uint8_t from[16], const uint8_t to[16], uint32_t id,
		 const uint8_t *packet, uint32_t len, uint16_t port)
{
	const uint32_t udp = UDP + len + PACKET_CRC;
	uint8_t h[IP6 + UDP + BTH];
	uint32_t n = make_headers(h, from, to, id, udp), reg;

	soft_put16(h + n, port);
	soft_put16(h + n + 2, PACKET_PORT);
	soft_put16(h + n + 4, udp);
	soft_put16(h + n + 6, 0xffff);		/* checksum */
	n += UDP;
	memcpy(h + n, packet, BTH);
	h[n + RESERVED] = 0xff;
	reg = soft_crc(SOFT_CRC_SEED, h, n + BTH);
	return ~soft_crc(reg, packet + BTH, len - BTH);
}

bool net_crc_ok(const uint8_t from[16], const uint8_t to[16], uint16_t port,
		const uint8_t *packet, uint32_t len)
{
	const uint32_t bytes = len - PACKET_CRC;
	uint32_t crc = net_crc(from, to, 0, packet, bytes, port);
	const uint8_t *at = packet + bytes;

	crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 |
	       (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
	/* no socket tells the identification, which is not always 0 */
	return !crc || (soft_gid_v4(to) &&
			soft_crc_explains(crc, IP4 - 6 + UDP + bytes));
}
