/* SPDX-License-Identifier: BSD-2-Clause */
/* Information about a group for the program. */
#include "base/base.h"
#include "base/ctx.h"
#include "device/device.h"
#include "group/group.h"
#include "group/requests.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/group.h>

int rdmamsg_group_query(const struct rdmamsg_group *g,
			struct rdmamsg_group_attr *attr)
{
	struct rdmamsg_group_attr i = { .id = 0 };
	const struct carrier *c;
	int ret;

	if (!g)
		return rdmamsg__fail(-EINVAL, "rdmamsg_group_query: group is "
				     "NULL");
	ret = rdmamsg__ctx_check(g->ctx);
	if (ret)
		return ret;
	if (!g->st.joins)
		return rdmamsg__fail(-ENOTCONN, "rdmamsg_group_query: the group "
				     "was never joined");
	c = g->carrier;
	i.joined = g->state == GROUP_JOINED;
	i.id = g->id;
	memcpy(i.mgid, &g->mgid, sizeof(i.mgid));
	i.mlid = g->mlid;
	i.sl = g->sl;
	i.qkey = g->to.qkey;
	i.mtu = g->mtu;
	i.rate = g->pace.rate;
	if (i.joined) {
		i.port = c->port;
		i.qp_num = c->qp->qp_num;
		i.device = c->dev->device->name;
	}
	return rdmamsg__give(attr, &i, sizeof(i));
}

int rdmamsg_group_get_stats(const struct rdmamsg_group *g,
			    struct rdmamsg_group_stats *stats)
{
	struct rdmamsg_group_stats s;
	int ret;

	if (!g)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_group_get_stats: group is "
				     "NULL");
	ret = rdmamsg__ctx_check(g->ctx);
	if (ret)
		return ret;
	s = g->st;
	s.senders = g->member_count - g->ended_count;
	s.requests_dropped = rdmamsg__repair_dropped(g);
	return rdmamsg__give(stats, &s, sizeof(s));
}

int rdmamsg_group_get_sender_stats(const struct rdmamsg_group *g, uint64_t id,
				   struct rdmamsg_group_stats *stats)
{
	const struct member *m;
	int ret;

	if (!g)
		return rdmamsg__fail(-EINVAL, "rdmamsg_group_get_sender_stats: "
					      "group is NULL");
	ret = rdmamsg__ctx_check(g->ctx);
	if (ret)
		return ret;
	m = rdmamsg__member_find(g, id);
	if (!m || m->ended)
		return rdmamsg__fail(-ENOENT, "no sender %016llx is followed",
				     (unsigned long long)id);
	return rdmamsg__give(stats, &m->st, sizeof(m->st));
}
