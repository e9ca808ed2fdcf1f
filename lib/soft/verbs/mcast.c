/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: the members of this node, and the nodes with members. */
#include "soft/verbs/ah.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/groups.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/upward.h"

#define LID_MCAST	0xc000

/* ---- sending ---------------------------------------------------------- */

void soft_mcast_members(struct soft_dev *dev, struct soft_ah *ah)
{
	uint32_t epoch = soft_groups_epoch(dev);
	uint64_t mgid[2];

	if (likely(ah->known && ah->epoch == epoch))
		return;
	memcpy(mgid, ah->attr.grh.dgid.raw, 16);
	memset(ah->members, 0, sizeof(ah->members));
	for (uint32_t n = 0; n < SOFT_NODES; n++)
		if (soft_groups_has(dev, n, mgid))
			ah->members[n / 64] |= 1ull << n % 64;
	ah->epoch = epoch;
	ah->known = true;
}

void soft_mcast_unreachable(struct soft_ah *ah, uint32_t node)
{
	ah->members[node / 64] &= ~(1ull << node % 64);
}

/* ---- members ---------------------------------------------------------- */

static struct list *bucket(struct soft_dev *dev, const uint8_t mgid[16])
{
	return &dev->groups[(mgid[15] ^ mgid[14]) % SOFT_GROUP_BUCKETS];
}

struct soft_group *soft_group_find(struct soft_dev *dev, const uint8_t mgid[16])
{
	struct list *n, *b = bucket(dev, mgid);

	list_for_each(n, b) {
		struct soft_group *g = list_entry(n, struct soft_group, node);

		if (!memcmp(g->mgid, mgid, 16))
			return g;
	}
	return NULL;
}

static struct soft_group *new_group(struct soft_dev *dev,
				    const uint8_t mgid[16])
{
	struct soft_group *g;
	uint32_t slot = 0;

	while (slot < SOFT_GROUPS && dev->group_used[slot])
		slot++;
	g = slot < SOFT_GROUPS ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	memcpy(g->mgid, mgid, 16);
	list_init(&g->members);
	g->slot = slot;
	dev->group_used[slot] = true;
	list_add_tail(bucket(dev, mgid), &g->node);
	soft_groups_add(dev, slot, mgid);
	if (dev->far)
		soft_verbs_up->far_group(dev, mgid, true);
	return g;
}

struct soft_group *soft_group_get(struct soft_dev *dev, const uint8_t mgid[16])
{
	struct soft_group *g = soft_group_find(dev, mgid);

	return g ? g : new_group(dev, mgid);
}

void soft_group_put(struct soft_dev *dev, struct soft_group *g)
{
	if (!list_empty(&g->members) || g->flows)
		return;
	soft_groups_remove(dev, g->slot);
	if (dev->far)
		soft_verbs_up->far_group(dev, g->mgid, false);
	dev->group_used[g->slot] = false;
	list_del(&g->node);
	free(g);
}

static struct soft_member *find_member(struct soft_group *g,
				       const struct soft_qp *qp)
{
	struct list *n;

	list_for_each(n, &g->members) {
		struct soft_member *m = list_entry(n, struct soft_member, node);

		if (m->qp == qp)
			return m;
	}
	return NULL;
}

static bool can_attach(const struct soft_dev *dev, const struct ibv_qp *qp,
		       const union ibv_gid *gid, uint16_t lid)
{
	return qp->qp_type == IBV_QPT_UD && soft_gid_mcast(gid->raw) &&
	       (!soft_is_ib(dev) || (lid >= LID_MCAST && lid != 0xffff));
}

/*
 * Attaching twice is no error, and makes no second copy: ibv_attach_mcast(3).
 */
int soft_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid,
		      uint16_t lid)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_member *m;
	struct soft_group *g;
	int ret = 0;

	if (dev->iwarp)
		return EOPNOTSUPP;
	if (!can_attach(dev, ibv, gid, lid))
		return EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->qp = qp;
	soft_lock(dev);
	g = soft_group_get(dev, gid->raw);
	if (!g) {
		ret = ENOMEM;
	} else if (!find_member(g, qp)) {
		list_add_tail(&g->members, &m->node);
		qp->groups++;
		m = NULL;
	}
	soft_unlock(dev);
	free(m);
	return ret;
}

int soft_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid,
		      uint16_t lid)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_member *m = NULL;
	struct soft_group *g;

	if (!can_attach(dev, ibv, gid, lid))
		return EINVAL;
	soft_lock(dev);
	g = soft_group_find(dev, gid->raw);
	if (g)
		m = find_member(g, qp);
	if (m) {
		list_del(&m->node);
		qp->groups--;
		soft_group_put(dev, g);
	}
	soft_unlock(dev);
	if (!m)
		return EINVAL;
	free(m);
	return 0;
}
