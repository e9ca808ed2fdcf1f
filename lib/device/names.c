/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and conversions of the values that verbs report. */
#include "base/base.h"
#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
/* the numbers that rdma-core 44's headers do not name */
#define SPEED_XDR	256u

/* Returns NULL for a value without a name. */
static const char *entry(const char *const *names, size_t n, uint64_t value)
{
	return value < n ? names[value] : NULL;
}
#define ENTRY(names, value)	entry(names, COUNT(names), (value))

static const char *or_unknown(const char *name)
{
	return name ? name : "unknown";
}

/* ---- values ----------------------------------------------------------- */

const char *rdmamsg_node_type_name(int type)
{
	static const char *const names[] = {
		[IBV_NODE_CA] = "CA", [IBV_NODE_SWITCH] = "SWITCH",
		[IBV_NODE_ROUTER] = "ROUTER", [IBV_NODE_RNIC] = "RNIC",
		[IBV_NODE_USNIC] = "USNIC",
		[IBV_NODE_USNIC_UDP] = "USNIC_UDP",
		[IBV_NODE_UNSPECIFIED] = "UNSPECIFIED",
	};

	return or_unknown(ENTRY(names, (uint32_t)type));
}

const char *rdmamsg_transport_name(int transport)
{
	static const char *const names[] = {
		[IBV_TRANSPORT_IB] = "InfiniBand",
		[IBV_TRANSPORT_IWARP] = "iWARP",
		[IBV_TRANSPORT_USNIC] = "usNIC",
		[IBV_TRANSPORT_USNIC_UDP] = "usNIC UDP",
		[IBV_TRANSPORT_UNSPECIFIED] = "unspecified",
	};

	return or_unknown(ENTRY(names, (uint32_t)transport));
}

const char *rdmamsg_atomic_cap_name(uint32_t cap)
{
	static const char *const names[] = {
		[IBV_ATOMIC_NONE] = "NONE", [IBV_ATOMIC_HCA] = "HCA",
		[IBV_ATOMIC_GLOB] = "GLOB",
	};

	return or_unknown(ENTRY(names, cap));
}

/* Unspecified is what drivers before Ethernet report, so InfiniBand. */
const char *rdmamsg_link_layer_name(uint32_t layer)
{
	static const char *const names[] = {
		[IBV_LINK_LAYER_UNSPECIFIED] = "InfiniBand",
		[IBV_LINK_LAYER_INFINIBAND] = "InfiniBand",
		[IBV_LINK_LAYER_ETHERNET] = "Ethernet",
	};

	return or_unknown(ENTRY(names, layer));
}

const char *rdmamsg_port_state_name(uint32_t state)
{
	static const char *const names[] = {
		[IBV_PORT_NOP] = "NOP", [IBV_PORT_DOWN] = "DOWN",
		[IBV_PORT_INIT] = "INIT", [IBV_PORT_ARMED] = "ARMED",
		[IBV_PORT_ACTIVE] = "ACTIVE",
		[IBV_PORT_ACTIVE_DEFER] = "ACTIVE_DEFER",
	};

	return or_unknown(ENTRY(names, state));
}

/* the numbers are those of PortPhysicalState in the port's PortInfo */
const char *rdmamsg_phys_state_name(uint32_t state)
{
	static const char *const names[] = {
		[1] = "SLEEP", [2] = "POLLING", [3] = "DISABLED",
		[4] = "PORT_CONFIGURATION_TRAINING", [5] = "LINK_UP",
		[6] = "LINK_ERROR_RECOVERY", [7] = "PHY_TEST",
	};

	return or_unknown(ENTRY(names, state));
}

const char *rdmamsg_gid_type_name(uint32_t type)
{
	static const char *const names[] = {
		[IBV_GID_TYPE_IB] = "IB", [IBV_GID_TYPE_ROCE_V1] = "RoCE v1",
		[IBV_GID_TYPE_ROCE_V2] = "RoCE v2",
	};

	return or_unknown(ENTRY(names, type));
}

const char *rdmamsg_qp_type_name(uint32_t type)
{
	static const char *const names[] = {
		[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD",
		[IBV_QPT_RAW_PACKET] = "RAW_PACKET",
		[IBV_QPT_XRC_SEND] = "XRC_SEND",
		[IBV_QPT_XRC_RECV] = "XRC_RECV", [IBV_QPT_DRIVER] = "DRIVER",
	};

	return or_unknown(ENTRY(names, type));
}

const char *rdmamsg_event_name(int type)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ_ERR",
		[IBV_EVENT_QP_FATAL] = "QP_FATAL",
		[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
		[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
		[IBV_EVENT_COMM_EST] = "COMM_EST",
		[IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
		[IBV_EVENT_PATH_MIG] = "PATH_MIG",
		[IBV_EVENT_PATH_MIG_ERR] = "PATH_MIG_ERR",
		[IBV_EVENT_DEVICE_FATAL] = "DEVICE_FATAL",
		[IBV_EVENT_PORT_ACTIVE] = "PORT_ACTIVE",
		[IBV_EVENT_PORT_ERR] = "PORT_ERR",
		[IBV_EVENT_LID_CHANGE] = "LID_CHANGE",
		[IBV_EVENT_PKEY_CHANGE] = "PKEY_CHANGE",
		[IBV_EVENT_SM_CHANGE] = "SM_CHANGE",
		[IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
		[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
		[IBV_EVENT_CLIENT_REREGISTER] = "CLIENT_REREGISTER",
		[IBV_EVENT_GID_CHANGE] = "GID_CHANGE",
		[IBV_EVENT_WQ_FATAL] = "WQ_FATAL",
	};

	return type == -1 ? "DEVICE_REMOVED" :
	       or_unknown(ENTRY(names, (uint32_t)type));
}

/* ---- flags ------------------------------------------------------------ */

const char *rdmamsg_device_cap_name(uint32_t bit)
{
	static const char *const names[] = {
		[0] = "RESIZE_MAX_WR", [1] = "BAD_PKEY_CNTR",
		[2] = "BAD_QKEY_CNTR", [3] = "RAW_MULTI",
		[4] = "AUTO_PATH_MIG", [5] = "CHANGE_PHY_PORT",
		[6] = "UD_AV_PORT_ENFORCE", [7] = "CURR_QP_STATE_MOD",
		[8] = "SHUTDOWN_PORT", [9] = "INIT_TYPE",
		[10] = "PORT_ACTIVE_EVENT", [11] = "SYS_IMAGE_GUID",
		[12] = "RC_RNR_NAK_GEN", [13] = "SRQ_RESIZE",
		[14] = "N_NOTIFY_CQ", [17] = "MEM_WINDOW",
		[18] = "UD_IP_CSUM", [20] = "XRC",
		[21] = "MEM_MGT_EXTENSIONS", [23] = "MEM_WINDOW_TYPE_2A",
		[24] = "MEM_WINDOW_TYPE_2B", [25] = "RC_IP_CSUM",
		[26] = "RAW_IP_CSUM", [29] = "MANAGED_FLOW_STEERING",
		[34] = "RAW_SCATTER_FCS", [36] = "PCI_WRITE_END_PADDING",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_port_cap_name(uint32_t bit)
{
	static const char *const names[] = {
		[1] = "SM", [2] = "NOTICE_SUP", [3] = "TRAP_SUP",
		[4] = "OPT_IPD_SUP", [5] = "AUTO_MIGR_SUP",
		[6] = "SL_MAP_SUP", [7] = "MKEY_NVRAM", [8] = "PKEY_NVRAM",
		[9] = "LED_INFO_SUP", [10] = "SM_DISABLED",
		[11] = "SYS_IMAGE_GUID_SUP",
		[12] = "PKEY_SW_EXT_PORT_TRAP_SUP",
		[14] = "EXTENDED_SPEEDS_SUP", [15] = "CAP_MASK2_SUP",
		[16] = "CM_SUP", [17] = "SNMP_TUNNEL_SUP",
		[18] = "REINIT_SUP", [19] = "DEVICE_MGMT_SUP",
		[20] = "VENDOR_CLASS_SUP", [21] = "DR_NOTICE_SUP",
		[22] = "CAP_MASK_NOTICE_SUP", [23] = "BOOT_MGMT_SUP",
		[24] = "LINK_LATENCY_SUP", [25] = "CLIENT_REG_SUP",
		[26] = "IP_BASED_GIDS",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_port_cap2_name(uint32_t bit)
{
	static const char *const names[] = {
		[0] = "SET_NODE_DESC_SUP", [1] = "INFO_EXT_SUP",
		[2] = "VIRT_SUP", [3] = "SWITCH_PORT_STATE_TABLE_SUP",
		[4] = "LINK_WIDTH_2X_SUP", [5] = "LINK_SPEED_HDR_SUP",
		[10] = "LINK_SPEED_NDR_SUP",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_odp_general_name(uint32_t bit)
{
	static const char *const names[] = {
		"ODP_SUPPORT", "ODP_SUPPORT_IMPLICIT",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_odp_cap_name(uint32_t bit)
{
	static const char *const names[] = {
		"SUPPORT_SEND", "SUPPORT_RECV", "SUPPORT_WRITE",
		"SUPPORT_READ", "SUPPORT_ATOMIC", "SUPPORT_SRQ",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_raw_packet_cap_name(uint32_t bit)
{
	static const char *const names[] = {
		"CVLAN_STRIPPING", "SCATTER_FCS", "IP_CSUM", "DELAY_DROP",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_rx_hash_name(uint32_t bit)
{
	static const char *const names[] = {
		[0] = "SRC_IPV4", [1] = "DST_IPV4", [2] = "SRC_IPV6",
		[3] = "DST_IPV6", [4] = "SRC_PORT_TCP", [5] = "DST_PORT_TCP",
		[6] = "SRC_PORT_UDP", [7] = "DST_PORT_UDP",
		[8] = "IPSEC_SPI", [31] = "INNER",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_rx_hash_function_name(uint32_t bit)
{
	static const char *const names[] = { "TOEPLITZ" };

	return ENTRY(names, bit);
}

const char *rdmamsg_tm_cap_name(uint32_t bit)
{
	static const char *const names[] = { "RC" };

	return ENTRY(names, bit);
}

const char *rdmamsg_pci_atomic_name(uint32_t bit)
{
	static const char *const names[] = {
		"4_BYTE_SIZE_SUP", "8_BYTE_SIZE_SUP", "16_BYTE_SIZE_SUP",
	};

	return ENTRY(names, bit);
}

const char *rdmamsg_port_flag_name(uint32_t bit)
{
	static const char *const names[] = { "GRH_REQUIRED" };

	return ENTRY(names, bit);
}

int rdmamsg_device_has(const struct rdmamsg_device_attr *attr,
		       const char *cap)
{
	for (uint32_t bit = 0; attr && cap && bit < 64; bit++) {
		const char *name = rdmamsg_device_cap_name(bit);

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
		const char *name = rdmamsg_port_cap_name(bit);

		if (name && !strcmp(name, cap))
			return (int)(attr->cap_flags >> bit & 1);
		name = rdmamsg_port_cap2_name(bit);
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

uint32_t rdmamsg_mtu_bytes(uint32_t code)
{
	return code >= IBV_MTU_256 && code <= IBV_MTU_4096 ?
	       128u << code : 0;
}

uint32_t rdmamsg_mtu_code(uint32_t bytes)
{
	uint32_t code = IBV_MTU_4096;

	while (code && rdmamsg_mtu_bytes(code) > bytes)
		code--;
	return code;
}

struct width {
	uint32_t code, lanes;
	const char *name;
};

/* Returns NULL for an unknown code. */
static const struct width *width(uint32_t code)
{
	static const struct width widths[] = {
		{ 1, 1, "1X" }, { 2, 4, "4X" }, { 4, 8, "8X" },
		{ 8, 12, "12X" }, { 16, 2, "2X" },
	};

	for (size_t i = 0; i < COUNT(widths); i++)
		if (widths[i].code == code)
			return &widths[i];
	return NULL;
}

struct speed {
	uint32_t code, mbps;	/* of a lane */
	const char *name;
};

/* SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR */
static const struct speed *speed(uint32_t code)
{
	static const struct speed speeds[] = {
		{ 1, 2500, "2.5 Gb/s" }, { 2, 5000, "5.0 Gb/s" },
		{ 4, 10000, "10.0 Gb/s" }, { 8, 10000, "10.0 Gb/s" },
		{ 16, 14000, "14.0 Gb/s" }, { 32, 25000, "25.0 Gb/s" },
		{ 64, 50000, "50.0 Gb/s" }, { 128, 100000, "100.0 Gb/s" },
		{ SPEED_XDR, 200000, "200.0 Gb/s" },
	};

	for (size_t i = 0; i < COUNT(speeds); i++)
		if (speeds[i].code == code)
			return &speeds[i];
	return NULL;
}

const char *rdmamsg_width_name(uint32_t code)
{
	const struct width *w = width(code);

	return or_unknown(w ? w->name : NULL);
}

const char *rdmamsg_speed_name(uint32_t code)
{
	const struct speed *s = speed(code);

	return or_unknown(s ? s->name : NULL);
}

uint32_t rdmamsg_link_mbps(uint32_t width_code, uint32_t speed_code)
{
	const struct width *w = width(width_code);
	const struct speed *s = speed(speed_code);

	return w && s ? w->lanes * s->mbps : 0;
}

static const struct {
	uint32_t count;
	const char *name;
} lanes[] = {
	[1] = { 1, "VL0" }, [2] = { 2, "VL0-1" }, [3] = { 4, "VL0-3" },
	[4] = { 8, "VL0-7" }, [5] = { 15, "VL0-14" },
};

uint32_t rdmamsg_vl_count(uint32_t code)
{
	return code < COUNT(lanes) ? lanes[code].count : 0;
}

const char *rdmamsg_vl_name(uint32_t code)
{
	return or_unknown(code < COUNT(lanes) ? lanes[code].name : NULL);
}

const char *rdmamsg_cap_how_name(uint32_t how)
{
	static const char *const names[] = {
		[RDMAMSG_CAP_ABSENT] = "absent",
		[RDMAMSG_CAP_SOFTWARE] = "software",
		[RDMAMSG_CAP_NATIVE] = "native",
	};

	return or_unknown(how < COUNT(names) ? names[how] : NULL);
}

uint64_t rdmamsg_timeout_ns(uint32_t n)
{
	return (uint64_t)4096 << min(n, 31u);
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
