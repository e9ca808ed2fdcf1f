/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversions of the codes that verbs report, and GIDs as text. */
#include "base/base.h"
#include "base/util.h"
#include "device/codes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
/* the number that rdma-core 44's headers do not name */
#define SPEED_XDR	256u

int rdmamsg_device_has(const struct rdmamsg_device_attr *attr,
		       const char *cap)
{
	for (uint32_t bit = 0; attr && cap && bit < 64; bit++) {
		const char *name = rdmamsg_name(RDMAMSG_NAME_DEVICE_CAP,
						bit);

		if (name && !strcmp(name, cap))
			return (int)((attr->cap_flags_ex | attr->cap_flags) >>
				     bit & 1);
	}
	return rdmamsg__fail(-EINVAL, "rdmamsg_device_has: no capability is "
			     "named %s", cap ? cap : "NULL");
}

int rdmamsg_port_has(const struct rdmamsg_port_attr *attr, const char *cap)
{
	for (uint32_t bit = 0; attr && cap && bit < 32; bit++) {
		const char *name = rdmamsg_name(RDMAMSG_NAME_PORT_CAP, bit);

		if (name && !strcmp(name, cap))
			return (int)(attr->cap_flags >> bit & 1);
		name = rdmamsg_name(RDMAMSG_NAME_PORT_CAP2, bit);
		if (name && !strcmp(name, cap))
			return (int)(attr->cap_flags2 >> bit & 1);
	}
	return rdmamsg__fail(-EINVAL, "rdmamsg_port_has: no capability is "
			     "named %s", cap ? cap : "NULL");
}

int rdmamsg_port_is_usable(const struct rdmamsg_port_attr *attr)
{
	return attr && (attr->state == IBV_PORT_ACTIVE ||
			attr->state == IBV_PORT_ACTIVE_DEFER);
}

/* ---- codes ------------------------------------------------------------ */

/* Returns 0 for an unknown code. */
static uint32_t lanes_of_width(uint32_t code)
{
	static const uint8_t lanes[] = {
		[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2,
	};

	return code < COUNT(lanes) ? lanes[code] : 0;
}

/* of a lane: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR */
static uint32_t mbps_of_speed(uint32_t code)
{
	static const uint32_t mbps[] = {
		[1] = 2500, [2] = 5000, [4] = 10000, [8] = 10000,
		[16] = 14000, [32] = 25000, [64] = 50000, [128] = 100000,
		[SPEED_XDR] = 200000,
	};

	return code < COUNT(mbps) ? mbps[code] : 0;
}

uint32_t rdmamsg__link_mbps(uint32_t width, uint32_t speed)
{
	return lanes_of_width(width) * mbps_of_speed(speed);
}

uint32_t rdmamsg__vl_count(uint32_t code)
{
	static const uint32_t lanes[] = {
		[1] = 1, [2] = 2, [3] = 4, [4] = 8, [5] = 15,
	};

	return code < COUNT(lanes) ? lanes[code] : 0;
}

/* ---- GIDs ------------------------------------------------------------- */

void rdmamsg_gid_text(const uint8_t gid[16], char text[48])
{
	if (gid && text)
		(void)inet_ntop(AF_INET6, gid, text, 48);
}

int rdmamsg_gid_parse(const char *text, uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	uint8_t v4[4];

	if (!text)
		return rdmamsg__fail(-EINVAL, "rdmamsg_gid_parse: text is "
				     "NULL");
	if (inet_pton(AF_INET, text, v4) == 1) {
		memcpy(gid, mapped, sizeof(mapped));
		memcpy(gid + sizeof(mapped), v4, sizeof(v4));
		return 0;
	}
	if (inet_pton(AF_INET6, text, gid) != 1)
		return rdmamsg__fail(-EINVAL, "'%s': not a GID, which is "
				     "written as an IPv6 address", text);
	return 0;
}
