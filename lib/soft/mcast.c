/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. Each process writes the groups it has members of into its
 * own part of the fabric's memory, and nobody else does: what is there of one
 * that has died leads to nobody. A sender reads all parts, when the number of
 * changes has changed; what it sends is looked up again where it arrives.
 */
#include "priv.h"
#include "soft.h"

#include <stdlib.h>
#include <string.h>

#define LID_MCAST	0xc000

static void changed(struct soft_dev *dev)
{
	(void)atomic_fetch_add_explicit(&dev->fabric->mcast_epoch, 1,
					memory_order_release);
}

static void publish(struct soft_dev *dev, const struct soft_group *g, bool on)
{
	struct soft_fabric *f = dev->fabric;
	uint64_t words[2] = { 0, 0 };
	uint32_t top = atomic_load_explicit(&f->groups[dev->node],
					    memory_order_relaxed);

	if (on)
		memcpy(words, g->mgid, 16);
	for (int i = 0; i < 2; i++)
		atomic_store_explicit(&f->mgid[dev->node][g->slot].word[i],
				      words[i], memory_order_relaxed);
	if (on && top <= g->slot)
		atomic_store_explicit(&f->groups[dev->node], g->slot + 1,
				      memory_order_relaxed);
	changed(dev);
}

/* What a dead namesake has left, or we leave. */
void soft_mcast_clear(struct soft_dev *dev)
{
	if (!atomic_exchange(&dev->fabric->groups[dev->node], 0))
		return;
	memset(dev->fabric->mgid[dev->node], 0,
	       sizeof(dev->fabric->mgid[dev->node]));
	changed(dev);
}

/* ---- sending ---------------------------------------------------------- */

static bool has_group(const struct soft_fabric *f, uint32_t node,
		      const uint64_t mgid[2])
{
	uint32_t top = atomic_load_explicit(&f->groups[node],
					    memory_order_relaxed);

	for (uint32_t i = 0; i < min(top, SOFT_GROUPS); i++)
		if (atomic_load_explicit(&f->mgid[node][i].word[0],
					 memory_order_relaxed) == mgid[0] &&
		    atomic_load_explicit(&f->mgid[node][i].word[1],
					 memory_order_relaxed) == mgid[1])
			return true;
	return false;
}

void soft_mcast_members(struct soft_dev *dev, struct soft_ah *ah)
{
	/* pairs with the release in changed() */
	uint32_t epoch = atomic_load_explicit(&dev->fabric->mcast_epoch,
					      memory_order_acquire);
	uint64_t mgid[2];

	if (likely(ah->known && ah->epoch == epoch))
		return;
	memcpy(mgid, ah->attr.grh.dgid.raw, 16);
	memset(ah->members, 0, sizeof(ah->members));
	for (uint32_t n = 0; n < SOFT_NODES; n++)
		if (has_group(dev->fabric, n, mgid))
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
	publish(dev, g, true);
	return g;
}

static void drop_group(struct soft_dev *dev, struct soft_group *g)
{
	publish(dev, g, false);
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

/* A second time is no error, and makes no second copy: ibv_attach_mcast(3). */
int soft_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid,
		      uint16_t lid)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_member *m;
	struct soft_group *g;
	int ret = 0;

	if (!can_attach(dev, ibv, gid, lid))
		return EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->qp = qp;
	soft_lock(dev);
	g = soft_group_find(dev, gid->raw);
	if (!g)
		g = new_group(dev, gid->raw);
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
		if (list_empty(&g->members))
			drop_group(dev, g);
	}
	soft_unlock(dev);
	if (!m)
		return EINVAL;
	free(m);
	return 0;
}
