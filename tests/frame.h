/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames for tests: IPv4 or IPv6, with UDP or TCP. */
#ifndef TESTS_FRAME_H
#define TESTS_FRAME_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

static const uint8_t frame_dst[6] = { 2, 0, 0, 0, 0, 0xd };
static const uint8_t frame_src[6] = { 2, 0, 0, 0, 0, 0xe };

/* The fields of a frame. A text address with a colon is of IPv6. */
struct frame_of {
	const char *src, *dst;
	uint16_t sport, dport;
	uint8_t proto;		/* 17: UDP, 6: TCP, else without ports */
	uint16_t tci;		/* not 0: a VLAN tag */
	uint32_t payload;	/* bytes, which count up from 0 */
};

static inline uint8_t *frame_put(uint8_t *at, uint32_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*at++ = (uint8_t)(value >> 8 * i);
	return at;
}

static inline uint8_t *frame_ip(uint8_t *at, const struct frame_of *f,
				uint32_t len)
{
	if (strchr(f->src, ':')) {
		at = frame_put(at, 0x60000000, 4);
		at = frame_put(at, len, 2);
		at = frame_put(at, f->proto << 8 | 64u, 2);
		(void)inet_pton(AF_INET6, f->src, at);
		(void)inet_pton(AF_INET6, f->dst, at + 16);
		return at + 32;
	}
	at = frame_put(at, 0x45000000 | (len + 20), 4);
	at = frame_put(at, 0, 4);
	at = frame_put(at, 0x40000000u | (uint32_t)f->proto << 16, 4);
	(void)inet_pton(AF_INET, f->src, at);
	(void)inet_pton(AF_INET, f->dst, at + 4);
	return at + 8;
}

/* Writes the frame, and returns its length. Checksums are 0. */
static inline uint32_t frame_write(uint8_t *buf, const struct frame_of *f)
{
	uint32_t l4 = f->proto == 17 ? 8 : f->proto == 6 ? 20 : 0;
	uint8_t *at = buf, *header;

	memcpy(at, frame_dst, 6);
	memcpy(at + 6, frame_src, 6);
	at += 12;
	if (f->tci) {
		at = frame_put(at, 0x8100, 2);
		at = frame_put(at, f->tci, 2);
	}
	at = frame_put(at, strchr(f->src, ':') ? 0x86dd : 0x0800, 2);
	header = at = frame_ip(at, f, l4 + f->payload);
	memset(at, 0, l4);
	at += l4;
	if (l4) {
		(void)frame_put(header, f->sport, 2);
		(void)frame_put(header + 2, f->dport, 2);
	}
	if (f->proto == 17)
		(void)frame_put(header + 4, l4 + f->payload, 2);
	if (f->proto == 6)
		header[12] = 5 << 4;
	for (uint32_t i = 0; i < f->payload; i++)
		*at++ = (uint8_t)i;
	return (uint32_t)(at - buf);
}

/* A rule for frames to an address. */
struct frame_rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
};

static inline struct frame_rule frame_rule(const uint8_t dst[6])
{
	struct frame_rule r;

	memset(&r, 0, sizeof(r));
	r.attr.type = IBV_FLOW_ATTR_NORMAL;
	r.attr.size = sizeof(r);
	r.attr.num_of_specs = 1;
	r.attr.port = 1;
	r.eth.type = IBV_FLOW_SPEC_ETH;
	r.eth.size = sizeof(r.eth);
	memcpy(r.eth.val.dst_mac, dst, 6);
	memset(r.eth.mask.dst_mac, 0xff, 6);
	return r;
}

/* The key of Microsoft's "Verifying the RSS Hash Calculation". */
static const uint8_t frame_key[40] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d,
	0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4,
	0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
	0xbe, 0xac, 0x01, 0xfa,
};

#endif
