/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the values and bits of this library's and of verbs' enums. */
#include "base/base.h"

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
/* the number that rdma-core 44's headers do not name */
#define SPEED_XDR	256u

/* ---- values of this library -------------------------------------------- */

static const char *const state[] = {
	[RDMAMSG_CONNECTING] = "connecting",
	[RDMAMSG_CONNECTED] = "connected",
	[RDMAMSG_CLOSING] = "closing",
	[RDMAMSG_CLOSED] = "closed",
};

static const char *const who[] = {
	[RDMAMSG_WHO_NONE] = "none",
	[RDMAMSG_WHO_LOCAL] = "local",
	[RDMAMSG_WHO_PEER] = "peer",
	[RDMAMSG_WHO_NETWORK] = "network",
	[RDMAMSG_WHO_DEVICE] = "device",
};

static const char *const cause[] = {
	[RDMAMSG_CAUSE_NONE] = "none",
	[RDMAMSG_CAUSE_CLOSED] = "closed",
	[RDMAMSG_CAUSE_ABORTED] = "aborted",
	[RDMAMSG_CAUSE_TIMEOUT] = "timeout",
	[RDMAMSG_CAUSE_ADDRESS] = "address",
	[RDMAMSG_CAUSE_REFUSED] = "refused",
	[RDMAMSG_CAUSE_REJECTED] = "rejected",
	[RDMAMSG_CAUSE_UNREACHABLE] = "unreachable",
	[RDMAMSG_CAUSE_PROTOCOL] = "protocol",
	[RDMAMSG_CAUSE_VERSION] = "version",
	[RDMAMSG_CAUSE_TRANSPORT] = "transport",
	[RDMAMSG_CAUSE_ACCESS] = "access",
	[RDMAMSG_CAUSE_SILENT] = "silent",
	[RDMAMSG_CAUSE_REMOVED] = "removed",
	[RDMAMSG_CAUSE_RESOURCES] = "resources",
	[RDMAMSG_CAUSE_AUTH] = "auth",
	[RDMAMSG_CAUSE_CRC] = "crc",
};

static const char *const path_state[] = {
	[RDMAMSG_PATH_NONE] = "none",
	[RDMAMSG_PATH_ARMING] = "arming",
	[RDMAMSG_PATH_ARMED] = "armed",
	[RDMAMSG_PATH_MIGRATED] = "migrated",
};

static const char *const path_change[] = {
	[RDMAMSG_PATH_CHANGE_ARMED] = "armed",
	[RDMAMSG_PATH_CHANGE_MIGRATED] = "migrated",
	[RDMAMSG_PATH_CHANGE_LOST] = "lost",
	[RDMAMSG_PATH_CHANGE_DOWN] = "down",
	[RDMAMSG_PATH_CHANGE_RESUMED] = "resumed",
	[RDMAMSG_PATH_CHANGE_STANDBY] = "standby",
	[RDMAMSG_PATH_CHANGE_NOT_MOVED] = "not moved",
};

static const char *const cap_how[] = {
	[RDMAMSG_CAP_ABSENT] = "absent",
	[RDMAMSG_CAP_SOFTWARE] = "software",
	[RDMAMSG_CAP_NATIVE] = "native",
};

/* ---- values of verbs --------------------------------------------------- */

static const char *const node_type[] = {
	[IBV_NODE_CA] = "CA", [IBV_NODE_SWITCH] = "SWITCH",
	[IBV_NODE_ROUTER] = "ROUTER", [IBV_NODE_RNIC] = "RNIC",
	[IBV_NODE_USNIC] = "USNIC",
	[IBV_NODE_USNIC_UDP] = "USNIC_UDP",
	[IBV_NODE_UNSPECIFIED] = "UNSPECIFIED",
};

static const char *const transport[] = {
	[IBV_TRANSPORT_IB] = "InfiniBand",
	[IBV_TRANSPORT_IWARP] = "iWARP",
	[IBV_TRANSPORT_USNIC] = "usNIC",
	[IBV_TRANSPORT_USNIC_UDP] = "usNIC UDP",
	[IBV_TRANSPORT_UNSPECIFIED] = "unspecified",
};

static const char *const atomic_cap[] = {
	[IBV_ATOMIC_NONE] = "NONE", [IBV_ATOMIC_HCA] = "HCA",
	[IBV_ATOMIC_GLOB] = "GLOB",
};

/* Unspecified is what drivers before Ethernet report, so InfiniBand. */
static const char *const link_layer[] = {
	[IBV_LINK_LAYER_UNSPECIFIED] = "InfiniBand",
	[IBV_LINK_LAYER_INFINIBAND] = "InfiniBand",
	[IBV_LINK_LAYER_ETHERNET] = "Ethernet",
};

static const char *const port_state[] = {
	[IBV_PORT_NOP] = "NOP", [IBV_PORT_DOWN] = "DOWN",
	[IBV_PORT_INIT] = "INIT", [IBV_PORT_ARMED] = "ARMED",
	[IBV_PORT_ACTIVE] = "ACTIVE",
	[IBV_PORT_ACTIVE_DEFER] = "ACTIVE_DEFER",
};

/* the numbers are those of PortPhysicalState in the port's PortInfo */
static const char *const phys_state[] = {
	[1] = "SLEEP", [2] = "POLLING", [3] = "DISABLED",
	[4] = "PORT_CONFIGURATION_TRAINING", [5] = "LINK_UP",
	[6] = "LINK_ERROR_RECOVERY", [7] = "PHY_TEST",
};

static const char *const gid_type[] = {
	[IBV_GID_TYPE_IB] = "IB", [IBV_GID_TYPE_ROCE_V1] = "RoCE v1",
	[IBV_GID_TYPE_ROCE_V2] = "RoCE v2",
};

static const char *const qp_type[] = {
	[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD",
	[IBV_QPT_RAW_PACKET] = "RAW_PACKET",
	[IBV_QPT_XRC_SEND] = "XRC_SEND",
	[IBV_QPT_XRC_RECV] = "XRC_RECV", [IBV_QPT_DRIVER] = "DRIVER",
};

static const char *const event[] = {
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

/* SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR: of a lane */
static const char *const speed[] = {
	[1] = "2.5 Gb/s", [2] = "5.0 Gb/s", [4] = "10.0 Gb/s",
	[8] = "10.0 Gb/s", [16] = "14.0 Gb/s", [32] = "25.0 Gb/s",
	[64] = "50.0 Gb/s", [128] = "100.0 Gb/s", [SPEED_XDR] = "200.0 Gb/s",
};

static const char *const width[] = {
	[1] = "1X", [2] = "4X", [4] = "8X", [8] = "12X", [16] = "2X",
};

static const char *const vl[] = {
	[1] = "VL0", [2] = "VL0-1", [3] = "VL0-3", [4] = "VL0-7",
	[5] = "VL0-14",
};

/* ---- bits of verbs ------------------------------------------------------ */

static const char *const device_cap[] = {
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

static const char *const port_cap[] = {
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

static const char *const port_cap2[] = {
	[0] = "SET_NODE_DESC_SUP", [1] = "INFO_EXT_SUP",
	[2] = "VIRT_SUP", [3] = "SWITCH_PORT_STATE_TABLE_SUP",
	[4] = "LINK_WIDTH_2X_SUP", [5] = "LINK_SPEED_HDR_SUP",
	[10] = "LINK_SPEED_NDR_SUP",
};

static const char *const odp_general[] = {
	"ODP_SUPPORT", "ODP_SUPPORT_IMPLICIT",
};

static const char *const odp_cap[] = {
	"SUPPORT_SEND", "SUPPORT_RECV", "SUPPORT_WRITE",
	"SUPPORT_READ", "SUPPORT_ATOMIC", "SUPPORT_SRQ",
};

static const char *const raw_packet_cap[] = {
	"CVLAN_STRIPPING", "SCATTER_FCS", "IP_CSUM", "DELAY_DROP",
};

static const char *const rx_hash[] = {
	[0] = "SRC_IPV4", [1] = "DST_IPV4", [2] = "SRC_IPV6",
	[3] = "DST_IPV6", [4] = "SRC_PORT_TCP", [5] = "DST_PORT_TCP",
	[6] = "SRC_PORT_UDP", [7] = "DST_PORT_UDP",
	[8] = "IPSEC_SPI", [31] = "INNER",
};

static const char *const rx_hash_function[] = { "TOEPLITZ" };

static const char *const tm_cap[] = { "RC" };

static const char *const pci_atomic[] = {
	"4_BYTE_SIZE_SUP", "8_BYTE_SIZE_SUP", "16_BYTE_SIZE_SUP",
};

static const char *const port_flag[] = { "GRH_REQUIRED" };

/* ---- bits of this library ------------------------------------------------ */

static const char *const calc_op[] = {
	[RDMAMSG_CALC_ADD] = "ADD", [RDMAMSG_CALC_AND] = "AND",
	[RDMAMSG_CALC_OR] = "OR", [RDMAMSG_CALC_XOR] = "XOR",
	[RDMAMSG_CALC_MIN] = "MIN", [RDMAMSG_CALC_MAX] = "MAX",
};

static const char *const calc_type[] = {
	[RDMAMSG_CALC_INT] = "INT", [RDMAMSG_CALC_UINT] = "UINT",
	[RDMAMSG_CALC_DOUBLE] = "DOUBLE",
};

static const struct {
	const char *const *names;
	size_t count;
	const char *other;
} kinds[] = {
#define VALUES(names)	{ (names), COUNT(names), "unknown" }
#define BITS(names)	{ (names), COUNT(names), NULL }
	[RDMAMSG_NAME_STATE] = VALUES(state),
	[RDMAMSG_NAME_WHO] = VALUES(who),
	[RDMAMSG_NAME_CAUSE] = VALUES(cause),
	[RDMAMSG_NAME_PATH_STATE] = VALUES(path_state),
	[RDMAMSG_NAME_PATH_CHANGE] = VALUES(path_change),
	[RDMAMSG_NAME_CAP_HOW] = VALUES(cap_how),
	[RDMAMSG_NAME_NODE_TYPE] = VALUES(node_type),
	[RDMAMSG_NAME_TRANSPORT] = VALUES(transport),
	[RDMAMSG_NAME_ATOMIC_CAP] = VALUES(atomic_cap),
	[RDMAMSG_NAME_LINK_LAYER] = VALUES(link_layer),
	[RDMAMSG_NAME_PORT_STATE] = VALUES(port_state),
	[RDMAMSG_NAME_PHYS_STATE] = VALUES(phys_state),
	[RDMAMSG_NAME_GID_TYPE] = VALUES(gid_type),
	[RDMAMSG_NAME_QP_TYPE] = VALUES(qp_type),
	[RDMAMSG_NAME_EVENT] = VALUES(event),
	[RDMAMSG_NAME_WIDTH] = VALUES(width),
	[RDMAMSG_NAME_SPEED] = VALUES(speed),
	[RDMAMSG_NAME_VL] = VALUES(vl),
	[RDMAMSG_NAME_DEVICE_CAP] = BITS(device_cap),
	[RDMAMSG_NAME_PORT_CAP] = BITS(port_cap),
	[RDMAMSG_NAME_PORT_CAP2] = BITS(port_cap2),
	[RDMAMSG_NAME_ODP_GENERAL] = BITS(odp_general),
	[RDMAMSG_NAME_ODP_CAP] = BITS(odp_cap),
	[RDMAMSG_NAME_RAW_PACKET_CAP] = BITS(raw_packet_cap),
	[RDMAMSG_NAME_RX_HASH] = BITS(rx_hash),
	[RDMAMSG_NAME_RX_HASH_FUNCTION] = BITS(rx_hash_function),
	[RDMAMSG_NAME_TM_CAP] = BITS(tm_cap),
	[RDMAMSG_NAME_PCI_ATOMIC] = BITS(pci_atomic),
	[RDMAMSG_NAME_PORT_FLAG] = BITS(port_flag),
	[RDMAMSG_NAME_CALC_OP] = BITS(calc_op),
	[RDMAMSG_NAME_CALC_TYPE] = BITS(calc_type),
#undef VALUES
#undef BITS
};

const char *rdmamsg_name(enum rdmamsg_name_kind kind, uint32_t value)
{
	const char *name = NULL;

	if (kind == RDMAMSG_NAME_EVENT && value == (uint32_t)-1)
		return "DEVICE_REMOVED";
	if ((size_t)kind >= COUNT(kinds) || !kinds[kind].names)
		return "unknown";
	if (value < kinds[kind].count)
		name = kinds[kind].names[value];
	return name ? name : kinds[kind].other;
}
