/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The multicast groups of a program's queue pair. A device destroys no queue
 * pair that is in a group, so the library detaches the queue pair first from
 * the groups that it knows.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "lane/create_flags.h"
#include "qp/rawqp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

struct group {
	struct list node;		/* in q->groups */
	union ibv_gid gid;
	uint16_t lid;
};

static struct group *find(const struct rdmamsg_qp *q, const union ibv_gid *gid,
			  uint16_t lid)
{
	struct list *n;

	list_for_each(n, &q->groups) {
		struct group *g = list_entry(n, struct group, node);

		if (!memcmp(&g->gid, gid, sizeof(*gid)) && g->lid == lid)
			return g;
	}
	return NULL;
}

static int check(const struct rdmamsg_qp *q, const union ibv_gid *gid,
		 const char *call)
{
	int ret;

	if (!q || !gid)
		return rdmamsg__fail(-EINVAL, "%s: %s is NULL", call,
				     q ? "gid" : "the queue pair");
	ret = rdmamsg__ctx_check(q->ctx);
	if (!ret && q->opts.type != IBV_QPT_UD &&
	    q->opts.type != IBV_QPT_RAW_PACKET)
		ret = rdmamsg__fail(-EINVAL, "%s: a queue pair of type %s has "
				    "no groups", call,
				    rdmamsg__qp_type_name(q->opts.type));
	return ret;
}

int rdmamsg_qp_attach(struct rdmamsg_qp *q, const union ibv_gid *gid,
		      uint16_t lid)
{
	int ret = check(q, gid, "rdmamsg_qp_attach");
	struct group *g;

	if (ret)
		return ret;
	if (find(q, gid, lid))
		return rdmamsg__fail(-EALREADY, "qp 0x%x is in this group",
				     q->ibv->qp_num);
	g = calloc(1, sizeof(*g));
	if (!g)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	ret = rdmamsg__v_attach_mcast(q->v, q->ibv, gid, lid);
	if (ret) {
		free(g);
		return rdmamsg__fail_verbs(ret, "attaching a queue pair to a "
					   "multicast group");
	}
	g->gid = *gid;
	g->lid = lid;
	list_add_tail(&q->groups, &g->node);
	return 0;
}

static int leave(struct rdmamsg_qp *q, struct group *g)
{
	int ret = rdmamsg__v_detach_mcast(q->v, q->ibv, &g->gid, g->lid);

	if (ret)
		return rdmamsg__fail_verbs(ret, "detaching a queue pair from a "
					   "multicast group");
	list_del(&g->node);
	free(g);
	return 0;
}

int rdmamsg_qp_detach(struct rdmamsg_qp *q, const union ibv_gid *gid,
		      uint16_t lid)
{
	int ret = check(q, gid, "rdmamsg_qp_detach");
	struct group *g;

	if (ret)
		return ret;
	g = find(q, gid, lid);
	return g ? leave(q, g) :
		   rdmamsg__fail(-ENOENT, "rdmamsg_qp_detach: qp 0x%x was not "
				 "attached to this group by "
				 "rdmamsg_qp_attach()", q->ibv->qp_num);
}

int rdmamsg__rawqp_leave_groups(struct rdmamsg_qp *q)
{
	struct list *n, *t;
	int ret = 0;

	list_for_each_safe(n, t, &q->groups) {
		int one = leave(q, list_entry(n, struct group, node));

		ret = ret ? ret : one;
	}
	return ret;
}

void rdmamsg__rawqp_forget_groups(struct rdmamsg_qp *q)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &q->groups) {
		list_del(n);
		free(list_entry(n, struct group, node));
	}
}
