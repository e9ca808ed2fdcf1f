/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet administrator's groups, for programs that join with a MAD of their
 * own, and the counters of a port. Formats: InfiniBand architecture
 * specification, volume 1, 13.4.3, 15.2.5.17, 16.1.3.
 */
#include "soft/preload/mad.h"

#include <endian.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/util.h"
#include "soft/cm/cm.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/shared.h"
#include "soft/preload/preload.h"

enum { CLASS_SA = 0x03, CLASS_PERF = 0x04 };
enum { GET = 0x01, SET = 0x02, DELETE = 0x15, RESPONSE = 0x80 };
enum { BAD_METHOD = 2 << 2, BAD_ATTRIBUTE = 3 << 2, BAD_VALUE = 7 << 2 };
enum {
	ATTR_CLASS_PORT_INFO = 0x01, ATTR_COUNTERS = 0x12,
	ATTR_COUNTERS_EXT = 0x1d, ATTR_MC_MEMBER = 0x38,
};

/* Fields of the header, and where the data of a class begins. */
enum { AT_CLASS = 1, AT_METHOD = 3, AT_STATUS = 4, AT_ATTR = 16 };
enum { SA_DATA = 56, PERF_DATA = 64 };

static void put(uint8_t *at, size_t len, uint64_t value)
{
	while (len--) {
		at[len] = (uint8_t)value;
		value >>= 8;
	}
}

/* ---- groups ----------------------------------------------------------- */

/*
 * Membership follows from ibv_attach_mcast(3), so joining changes nothing. The
 * answer tells the MLID and what the group carries.
 */
static uint16_t serve_group(uint8_t method, uint8_t *rec)
{
	if (method != SET && method != DELETE)
		return BAD_METHOD;
	if (!soft_gid_mcast(rec))
		return BAD_VALUE;
	put(rec + 36, 2, soft_cm_mlid(rec));
	rec[38] = 2 << 6 | IBV_MTU_4096;	/* 2: exactly */
	rec[42] = 2 << 6 | IBV_RATE_100_GBPS;
	return 0;
}

/* ---- counters --------------------------------------------------------- */

/* A field of a counter's attribute. Counters stop at their highest value. */
struct field {
	const char *name;
	uint8_t at, len;
};

static const struct field counters[] = {
	{ "link_downed", 7, 1 },
	{ "port_xmit_discards", 14, 2 },
	{ "port_xmit_data", 24, 4 },
	{ "port_rcv_data", 28, 4 },
	{ "port_xmit_packets", 32, 4 },
	{ "port_rcv_packets", 36, 4 },
	{ "port_xmit_wait", 40, 4 },
	{ NULL, 0, 0 },
};

static const struct field extended[] = {
	{ "port_xmit_data", 8, 8 },
	{ "port_rcv_data", 16, 8 },
	{ "port_xmit_packets", 24, 8 },
	{ "port_rcv_packets", 32, 8 },
	{ "unicast_xmit_packets", 40, 8 },
	{ "unicast_rcv_packets", 48, 8 },
	{ "multicast_xmit_packets", 56, 8 },
	{ "multicast_rcv_packets", 64, 8 },
	{ NULL, 0, 0 },
};

static uint16_t fill(const struct soft_dev *dev, const struct field *f,
		     uint8_t *data)
{
	const uint8_t port = data[1];
	unsigned long long n;

	if (!port || port > dev->ports)
		return BAD_VALUE;
	memset(data + 4, 0, MAD_SIZE - PERF_DATA - 4);
	for (; f->name; f++) {
		if (!preload_counter(dev, port, "counters", f->name, &n))
			continue;
		if (f->len < 8)
			n = min(n, (1ull << 8 * f->len) - 1);
		put(data + f->at, f->len, n);
	}
	return 0;
}

static uint16_t class_port_info(uint8_t *data)
{
	memset(data, 0, MAD_SIZE - PERF_DATA);
	data[0] = data[1] = 1;		/* base and class version */
	put(data + 2, 2, 0x0200);	/* extended counters, all widths */
	return 0;
}

static uint16_t serve_counters(const struct soft_dev *dev, uint8_t method,
			       uint16_t attr, uint8_t *data)
{
	/* counters are the fabric's, so nobody sets them */
	if (method != GET)
		return BAD_METHOD;
	switch (attr) {
	case ATTR_CLASS_PORT_INFO:
		return class_port_info(data);
	case ATTR_COUNTERS:
		return fill(dev, counters, data);
	case ATTR_COUNTERS_EXT:
		return fill(dev, extended, data);
	default:
		return BAD_ATTRIBUTE;
	}
}

/* ---- requests --------------------------------------------------------- */

/* Returns true if the LID is that of a port, or of the subnet manager. */
static bool is_there(struct soft_dev *dev, uint16_t lid)
{
	uint32_t node;
	uint8_t port;
	bool found;

	soft_lock(dev);
	found = soft_lid_port(dev, lid, &node, &port) &&
		port <= dev->ports && dev->fabric->guid[node];
	for (int p = 1; !found && p <= dev->ports; p++)
		found = soft_sm_lid(dev, p) == lid;
	soft_unlock(dev);
	return found;
}

bool preload_mad(struct soft_dev *dev, uint16_t lid, uint8_t mad[MAD_SIZE])
{
	const uint8_t method = mad[AT_METHOD];
	const uint16_t attr = (uint16_t)(mad[AT_ATTR] << 8 | mad[AT_ATTR + 1]);
	uint16_t status;

	if (method & RESPONSE || !is_there(dev, lid))
		return false;
	switch (mad[AT_CLASS]) {
	case CLASS_SA:
		status = attr == ATTR_MC_MEMBER ?
			 serve_group(method, mad + SA_DATA) : BAD_ATTRIBUTE;
		break;
	case CLASS_PERF:
		status = serve_counters(dev, method, attr, mad + PERF_DATA);
		break;
	default:
		return false;
	}
	/* the response to a Set is a GetResp */
	mad[AT_METHOD] = RESPONSE | (method == SET ? GET : method);
	put(mad + AT_STATUS, 2, status);
	return true;
}
