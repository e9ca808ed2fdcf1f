/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the create flags of a queue pair. */
#include "base/base.h"
#include "lane/create_flags.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

const char *rdmamsg__qp_type_name(unsigned int type)
{
	static const char *const names[] = {
		[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD",
		[IBV_QPT_RAW_PACKET] = "RAW_PACKET",
		[IBV_QPT_XRC_SEND] = "XRC_SEND",
		[IBV_QPT_XRC_RECV] = "XRC_RECV",
	};

	return type < sizeof(names) / sizeof(names[0]) && names[type] ?
	       names[type] : "unknown";
}

static const struct rule {
	uint32_t flag;
	const char *name;
	uint32_t types;
	uint64_t cap;		/* device_cap_flags_ex; 0: just try */
	uint32_t raw_cap;	/* raw_packet_caps, for RAW_PACKET */
	const char *cap_name;
} rules[] = {
	{ IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, "BLOCK_SELF_MCAST_LB",
	  QP_TYPE(IBV_QPT_UD) | QP_TYPE(IBV_QPT_RAW_PACKET), 0, 0, "" },
	{ IBV_QP_CREATE_SCATTER_FCS, "SCATTER_FCS",
	  QP_TYPE(IBV_QPT_UD) | QP_TYPE(IBV_QPT_RAW_PACKET),
	  IBV_DEVICE_RAW_SCATTER_FCS,
	  IBV_RAW_PACKET_CAP_SCATTER_FCS, "IBV_DEVICE_RAW_SCATTER_FCS" },
	{ IBV_QP_CREATE_CVLAN_STRIPPING, "CVLAN_STRIPPING",
	  QP_TYPE(IBV_QPT_RAW_PACKET), 0, IBV_RAW_PACKET_CAP_CVLAN_STRIPPING,
	  "IBV_RAW_PACKET_CAP_CVLAN_STRIPPING" },
	{ IBV_QP_CREATE_SOURCE_QPN, "SOURCE_QPN",
	  QP_TYPE(IBV_QPT_UD), 0, 0, "" },
	{ IBV_QP_CREATE_PCI_WRITE_END_PADDING, "PCI_WRITE_END_PADDING",
	  QP_TYPES, IBV_DEVICE_PCI_WRITE_END_PADDING, 0,
	  "IBV_DEVICE_PCI_WRITE_END_PADDING" },
};

static bool has_flag(const struct rule *r, bool raw,
		     const struct ibv_device_attr_ex *a)
{
	if (raw && r->raw_cap)
		return a->raw_packet_caps & r->raw_cap;
	return !r->cap || a->device_cap_flags_ex & r->cap;
}

int rdmamsg__create_flags_check(uint32_t flags, unsigned int type,
				const struct ibv_device_attr_ex *a,
				const char *device)
{
	uint32_t left = flags;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *r = &rules[i];

		if (!(left & r->flag))
			continue;
		left &= ~r->flag;
		if (!(QP_TYPE(type) & r->types))
			return rdmamsg__fail(-EINVAL, "create flag %s: not for "
					     "type %s", r->name,
					     rdmamsg__qp_type_name(type));
		if (a && !has_flag(r, type == IBV_QPT_RAW_PACKET, a))
			return rdmamsg__fail(-EOPNOTSUPP, "create flag %s: "
					     "device %s does not have it (%s)",
					     r->name, device, r->cap_name);
	}
	if (left)
		return rdmamsg__fail(-EINVAL, "create_flags 0x%x: unknown bits",
				     left);
	return 0;
}
