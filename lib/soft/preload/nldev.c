/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to rdma(8), in place of the kernel's: devices, ports and counters.
 */
#include "soft/preload/nldev.h"

#include <endian.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include <rdma/rdma_netlink.h>

#include "base/netif.h"
#include "soft/fabric/dev.h"
#include "soft/preload/preload.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"

void nldev_begin(struct ask *ask)
{
	nl_begin(ask->a, ask->type, ask->flags);
	nl_put_u32(ask->a, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_put_string(ask->a, RDMA_NLDEV_ATTR_DEV_NAME, soft_device_name);
}

/* ---- device and ports ------------------------------------------------- */

static int tell_device(struct ask *ask)
{
	const uint64_t guid = ask->dev->device_guid;
	struct nl_answer *a = ask->a;

	nldev_begin(ask);
	nl_put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, (uint32_t)ask->dev->ports);
	nl_put_string(a, RDMA_NLDEV_ATTR_FW_VERSION, "1.0");
	nl_put_u64(a, RDMA_NLDEV_ATTR_NODE_GUID, guid);
	nl_put_u64(a, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid);
	nl_put_u8(a, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, ask->dev->iwarp ?
		  IBV_NODE_RNIC : IBV_NODE_CA);
	nl_put_u8(a, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	nl_put_string(a, RDMA_NLDEV_ATTR_DEV_PROTOCOL, ask->dev->iwarp ? "iw" :
		      soft_is_ib(ask->dev) ? "ib" : "roce");
	nl_end(a);
	return 0;
}

static void tell_ib_port(struct ask *ask, const struct ibv_port_attr *attr)
{
	struct soft_gid g;

	soft_lock(ask->dev);
	(void)soft_port_gid(ask->dev, ask->port, 0, &g);
	soft_unlock(ask->dev);
	nl_put_u64(ask->a, RDMA_NLDEV_ATTR_CAP_FLAGS, attr->port_cap_flags);
	nl_put_u64(ask->a, RDMA_NLDEV_ATTR_SUBNET_PREFIX,
		   be64toh(g.gid.global.subnet_prefix));
	nl_put_u32(ask->a, RDMA_NLDEV_ATTR_LID, attr->lid);
	nl_put_u32(ask->a, RDMA_NLDEV_ATTR_SM_LID, attr->sm_lid);
	nl_put_u8(ask->a, RDMA_NLDEV_ATTR_LMC, attr->lmc);
}

static int tell_port(struct ask *ask)
{
	struct ibv_port_attr attr;
	char name[IF_NAMESIZE];

	if (ask->port > UINT8_MAX ||
	    soft_port_attr(ask->dev, (uint8_t)ask->port, &attr))
		return -EINVAL;
	nldev_begin(ask);
	nl_put_u32(ask->a, RDMA_NLDEV_ATTR_PORT_INDEX, ask->port);
	if (soft_is_ib(ask->dev))
		tell_ib_port(ask, &attr);
	nl_put_u8(ask->a, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)attr.state);
	nl_put_u8(ask->a, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, attr.phys_state);
	/* the one of GID 0; Linux tells none of an InfiniBand port */
	if (!soft_is_ib(ask->dev) && preload_net_name(0, name)) {
		nl_put_u32(ask->a, RDMA_NLDEV_ATTR_NDEV_INDEX,
			   netif_index(name));
		nl_put_string(ask->a, RDMA_NLDEV_ATTR_NDEV_NAME, name);
	}
	nl_end(ask->a);
	return 0;
}

static int tell_counters(struct ask *ask)
{
	struct nl_answer *a = ask->a;
	unsigned long long n;
	size_t all, one;

	if (!ask->port || ask->port > (uint32_t)ask->dev->ports)
		return -EINVAL;
	nldev_begin(ask);
	nl_put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, ask->port);
	all = nl_nest(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (const char *const *name = preload_hw_counters; *name; name++) {
		if (!preload_counter(ask->dev, ask->port, "hw_counters", *name,
				     &n))
			continue;
		one = nl_nest(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
		nl_put_string(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
			      *name);
		nl_put_u64(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, n);
		nl_nest_end(a, one);
	}
	nl_nest_end(a, all);
	nl_end(a);
	return 0;
}

/* ---- requests --------------------------------------------------------- */

/*
 * A fabric is of one network namespace: the mode "exclusive". Programs need no
 * ibv_fork_init(3), as with a kernel that copies pinned pages.
 */
static int tell_system(struct ask *ask)
{
	nl_begin(ask->a, ask->type, ask->flags);
	nl_put_u8(ask->a, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0);
	nl_put_u8(ask->a, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
	nl_end(ask->a);
	return 0;
}

static int tell(struct ask *ask, uint16_t cmd)
{
	const bool dump = ask->flags & NLM_F_MULTI;

	switch (cmd) {
	case RDMA_NLDEV_CMD_GET:
		return tell_device(ask);
	case RDMA_NLDEV_CMD_PORT_GET:
		return tell_port(ask);
	case RDMA_NLDEV_CMD_RES_GET:
		return nldev_summary(ask);
	case RDMA_NLDEV_CMD_STAT_GET:
		return dump ? -EOPNOTSUPP : tell_counters(ask);
	default:
		return dump ? nldev_list(ask, cmd) : -EOPNOTSUPP;
	}
}

/* Returns 0 or -errno. */
static int answer_device(struct ask *ask, uint16_t cmd, bool dump,
			 uint32_t index)
{
	int err;

	/* a removed device is in no list */
	if (soft_dev_absent())
		return dump ? 0 : -ENODEV;
	if (index && index != UINT32_MAX)
		return -EINVAL;
	err = preload_open_kept(&ask->dev);
	if (err)
		return err;
	err = tell(ask, cmd);
	soft_dev_put(ask->dev);
	return err;
}

void nldev_answer(const struct nlmsghdr *request, struct nl_answer *a)
{
	const uint16_t cmd = RDMA_NL_GET_OP(request->nlmsg_type);
	const bool dump = (request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	struct ask ask = {
		.a = a, .type = request->nlmsg_type,
		.flags = dump ? NLM_F_MULTI : 0,
		.port = nl_get_u32(request, RDMA_NLDEV_ATTR_PORT_INDEX, 0),
	};
	int err;

	a->seq = request->nlmsg_seq;
	if (RDMA_NL_GET_CLIENT(request->nlmsg_type) != RDMA_NL_NLDEV)
		err = -EOPNOTSUPP;
	else if (cmd == RDMA_NLDEV_CMD_SYS_GET)
		err = tell_system(&ask);
	else
		err = answer_device(&ask, cmd, dump,
				    nl_get_u32(request,
					       RDMA_NLDEV_ATTR_DEV_INDEX,
					       UINT32_MAX));
	if (err || (!dump && request->nlmsg_flags & NLM_F_ACK))
		nl_error(a, request, err);
	else if (dump)
		nl_done(a);
}
