/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of RFC 791, 768, 9293 and 8200, and the CRC-32 of IEEE 802.3. */
#include "soft/fabric/frame_sum.h"

#include <string.h>

#include "base/util.h"

#define CRC_REVERSED	0xedb88320u

static uint64_t add(uint64_t sum, const uint8_t *at, uint32_t len)
{
	for (; len > 1; at += 2, len -= 2)
		sum += frame_be16(at);
	return len ? sum + (uint64_t)(at[0] << 8) : sum;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* The bytes of the IP packet behind its header, by its length field. */
static uint32_t payload(const struct soft_frame *f)
{
	uint32_t room = (uint32_t)(f->end - f->l4);
	uint32_t header = (uint32_t)(f->l4 - f->l3);
	uint32_t len = f->ip == 4 ? frame_be16(f->l3 + 2) :
				    frame_be16(f->l3 + 4) + header;

	return len < header ? 0 : min(len - header, room);
}

/* Over the pseudo header and the segment, with what is in its checksum. */
static uint16_t sum_l4(const struct soft_frame *f)
{
	uint32_t len = payload(f);
	uint64_t sum = add(0, f->l3 + (f->ip == 4 ? 12 : 8),
			   f->ip == 4 ? 8 : 32);

	return fold(add(sum + f->proto + len, f->l4, len));
}

static uint16_t sum_l3(const struct soft_frame *f)
{
	return fold(add(0, f->l3, (f->l3[0] & 15u) * 4));
}

/* Returns the offset of the checksum in the header of TCP or UDP, or 0. */
static uint32_t place(const struct soft_frame *f)
{
	if (!f->l4)
		return 0;
	return f->proto == FRAME_TCP ? 16 : f->proto == FRAME_UDP ? 6 : 0;
}

void soft_frame_sum(uint8_t *at, uint32_t len)
{
	struct soft_frame f;
	uint8_t *sum;

	soft_frame_parse(&f, at, len);
	if (f.ip == 4) {
		sum = at + (f.l3 - f.at) + 10;
		frame_put16(sum, 0);
		frame_put16(sum, (uint16_t)~sum_l3(&f));
	}
	if (place(&f)) {
		uint16_t is;

		sum = at + (f.l4 - f.at) + place(&f);
		frame_put16(sum, 0);
		is = (uint16_t)~sum_l4(&f);
		/* 0 means that a UDP packet has no checksum */
		frame_put16(sum, is || f.proto == FRAME_TCP ? is : 0xffff);
	}
}

bool soft_frame_sum_ok(const uint8_t *at, uint32_t len)
{
	struct soft_frame f;

	soft_frame_parse(&f, at, len);
	return f.ip == 4 && sum_l3(&f) == 0xffff && place(&f) &&
	       sum_l4(&f) == 0xffff;
}

void soft_frame_fcs(const uint8_t *at, uint32_t len, uint8_t ret[FRAME_FCS])
{
	uint32_t crc = UINT32_MAX;

	for (uint32_t i = 0; i < len; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC_REVERSED : 0);
	}
	crc = ~crc;
	for (int i = 0; i < 4; i++)
		ret[i] = (uint8_t)(crc >> 8 * i);
}
