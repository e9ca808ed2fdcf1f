/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses Ethernet frames. Every length in a frame may be wrong. */
#include "soft/fabric/frame.h"

#include <string.h>

#define TYPE_VLAN	0x8100
#define TYPE_IPV4	0x0800
#define TYPE_IPV6	0x86dd

#define IPV4_HEADER	20u
#define IPV6_HEADER	40u
#define TCP_HEADER	20u
#define UDP_HEADER	8u
#define ESP_HEADER	8u

#define VXLAN_PORT	4789
#define VXLAN_HEADER	8u
#define VXLAN_VALID	0x08	/* the flag of a network identifier */

static bool has(const struct soft_frame *f, const uint8_t *at, uint32_t len)
{
	return (uint32_t)(f->end - at) >= len;
}

static void parse_l4(struct soft_frame *f, const uint8_t *at)
{
	uint32_t least = f->proto == FRAME_TCP ? TCP_HEADER :
			 f->proto == FRAME_UDP ? UDP_HEADER :
			 f->proto == FRAME_ESP ? ESP_HEADER : UINT32_MAX;

	if (has(f, at, least))
		f->l4 = at;
}

static void parse_ipv4(struct soft_frame *f, const uint8_t *at)
{
	uint32_t len;

	if (!has(f, at, IPV4_HEADER) || at[0] >> 4 != 4)
		return;
	len = (at[0] & 15u) * 4;
	if (len < IPV4_HEADER || !has(f, at, len))
		return;
	f->ip = 4;
	f->l3 = at;
	f->proto = at[9];
	/* more fragments follow, or an offset */
	if (!(frame_be16(at + 6) & 0x3fff))
		parse_l4(f, at + len);
}

/* Extension headers are skipped by no card that is known here. */
static void parse_ipv6(struct soft_frame *f, const uint8_t *at)
{
	if (!has(f, at, IPV6_HEADER) || at[0] >> 4 != 6)
		return;
	f->ip = 6;
	f->l3 = at;
	f->proto = at[6];
	parse_l4(f, at + IPV6_HEADER);
}

void soft_frame_parse(struct soft_frame *f, const uint8_t *at, uint32_t len)
{
	const uint8_t *l3 = at + FRAME_HEADER;

	memset(f, 0, sizeof(*f));
	f->at = at;
	f->end = at + len;
	f->type = frame_be16(at + 12);
	if (f->type == TYPE_VLAN && len >= FRAME_HEADER + FRAME_TAG) {
		f->tagged = true;
		f->tci = frame_be16(at + 14);
		f->type = frame_be16(at + 16);
		l3 += FRAME_TAG;
	}
	if (f->type == TYPE_IPV4)
		parse_ipv4(f, l3);
	else if (f->type == TYPE_IPV6)
		parse_ipv6(f, l3);
}

bool soft_frame_inner(const struct soft_frame *f, struct soft_frame *ret)
{
	const uint8_t *vxlan;

	if (!f->l4 || f->proto != FRAME_UDP ||
	    frame_be16(f->l4 + 2) != VXLAN_PORT)
		return false;
	vxlan = f->l4 + UDP_HEADER;
	if (!has(f, vxlan, VXLAN_HEADER + FRAME_HEADER) ||
	    !(vxlan[0] & VXLAN_VALID))
		return false;
	soft_frame_parse(ret, vxlan + VXLAN_HEADER,
			 (uint32_t)(f->end - vxlan - VXLAN_HEADER));
	return true;
}
