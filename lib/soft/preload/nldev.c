/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to rdma(8), in place of the kernel's: devices, ports, resources and
 * counters. The resources are those of all processes of the fabric, which tell
 * them over the sockets that rdmamsg-soft-ctl(1) uses. They are only shown.
 */
#include "soft/preload/nldev.h"

#include <endian.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include <rdma/rdma_netlink.h>

#include "soft/control/soft_ctl.h"
#include "soft/fabric/dev.h"
#include "soft/preload/preload.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"

#define QP_ENTRY_MAX	128u		/* octets of an entry of RES_QP */

/* One request, and the answer to it. */
struct ask {
	struct soft_dev *dev;
	struct nl_answer *a;
	uint16_t type, flags;		/* of each message */
	uint32_t port;			/* 0: none named */
};

static void begin(struct ask *ask)
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

	begin(ask);
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
	begin(ask);
	nl_put_u32(ask->a, RDMA_NLDEV_ATTR_PORT_INDEX, ask->port);
	if (soft_is_ib(ask->dev))
		tell_ib_port(ask, &attr);
	nl_put_u8(ask->a, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)attr.state);
	nl_put_u8(ask->a, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, attr.phys_state);
	/* the one of GID 0 */
	if (preload_net_name(0, name)) {
		nl_put_u32(ask->a, RDMA_NLDEV_ATTR_NDEV_INDEX,
			   if_nametoindex(name));
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
	begin(ask);
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

/* ---- resources -------------------------------------------------------- */

/* Finds the next node that answers. A stopped process does not. */
static bool next_node(struct soft_ctl *ctl, uint32_t *next,
		      struct soft_ctl_node *ret)
{
	int err;

	do
		err = soft_ctl_next(ctl, next, ret);
	while (err == -ETIMEDOUT);
	return !err;
}

static void tell_sum(struct nl_answer *a, const char *name, uint64_t n)
{
	const size_t nest = nl_nest(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);

	nl_put_string(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
	nl_put_u64(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, n);
	nl_nest_end(a, nest);
}

static int tell_summary(struct ask *ask)
{
	uint64_t pd = 0, cq = 0, qp = 0, cm_id = 0, mr = 0, ctx = 0, srq = 0;
	struct nl_answer *a = ask->a;
	struct soft_ctl_node d;
	struct soft_ctl *ctl;
	uint32_t next = 0;
	size_t nest;
	int err = soft_ctl_open(NULL, &ctl);

	if (err)
		return err;
	while (next_node(ctl, &next, &d)) {
		pd += d.pds;
		cq += d.cqs;
		qp += d.qps;
		cm_id += d.cm_ids;
		mr += d.mrs;
		ctx += d.contexts;
		srq += d.srqs;
	}
	soft_ctl_close(ctl);
	begin(ask);
	nest = nl_nest(a, RDMA_NLDEV_ATTR_RES_SUMMARY);
	tell_sum(a, "pd", pd);
	tell_sum(a, "cq", cq);
	tell_sum(a, "qp", qp);
	tell_sum(a, "cm_id", cm_id);
	tell_sum(a, "mr", mr);
	tell_sum(a, "ctx", ctx);
	tell_sum(a, "srq", srq);
	nl_nest_end(a, nest);
	nl_end(a);
	return 0;
}

static void tell_qp(struct nl_answer *a, const struct soft_ctl_node *d,
		    const struct soft_ctl_qp *q)
{
	const size_t nest = nl_nest(a, RDMA_NLDEV_ATTR_RES_QP_ENTRY);

	if (q->port)
		nl_put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, q->port);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_LQPN, q->qpn);
	if (q->type == IBV_QPT_RC || q->type == IBV_QPT_UC) {
		nl_put_u32(a, RDMA_NLDEV_ATTR_RES_RQPN, q->peer);
		nl_put_u32(a, RDMA_NLDEV_ATTR_RES_RQ_PSN, q->rq_psn);
		nl_put_u8(a, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, q->migration);
	}
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_SQ_PSN, q->sq_psn);
	nl_put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, q->type);
	nl_put_u8(a, RDMA_NLDEV_ATTR_RES_STATE, q->state);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)d->pid);
	nl_nest_end(a, nest);
}

/* A list of queue pairs in as many messages as it needs. */
struct qp_list {
	struct ask *ask;
	bool open;			/* a message is begun */
	size_t nest;
};

static void qp_list_end(struct qp_list *l)
{
	if (!l->open)
		return;
	nl_nest_end(l->ask->a, l->nest);
	nl_end(l->ask->a);
	l->open = false;
}

static void qp_list_add(struct qp_list *l, const struct soft_ctl_node *d,
		     const struct soft_ctl_qp *q)
{
	if (l->ask->port && q->port != l->ask->port)
		return;
	if (l->open && nl_length(l->ask->a) + QP_ENTRY_MAX > NL_MESSAGE_MAX)
		qp_list_end(l);
	if (!l->open) {
		begin(l->ask);
		l->nest = nl_nest(l->ask->a, RDMA_NLDEV_ATTR_RES_QP);
		l->open = true;
	}
	tell_qp(l->ask->a, d, q);
}

static int tell_qps(struct ask *ask)
{
	struct qp_list list = { .ask = ask };
	struct soft_ctl_node d;
	struct soft_ctl_qp qps[64];
	struct soft_ctl *ctl;
	uint32_t next = 0, index;
	int err = soft_ctl_open(NULL, &ctl), n;

	if (err)
		return err;
	while (next_node(ctl, &next, &d)) {
		index = 0;
		while ((n = soft_ctl_qps(ctl, d.node, &index, qps, 64)) > 0)
			for (int i = 0; i < n; i++)
				qp_list_add(&list, &d, &qps[i]);
	}
	soft_ctl_close(ctl);
	qp_list_end(&list);
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
		return tell_summary(ask);
	case RDMA_NLDEV_CMD_RES_QP_GET:
		return dump ? tell_qps(ask) : -EOPNOTSUPP;
	case RDMA_NLDEV_CMD_STAT_GET:
		return dump ? -EOPNOTSUPP : tell_counters(ask);
	default:
		return -EOPNOTSUPP;
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
