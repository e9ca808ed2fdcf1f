/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each node writes the groups that have members on it into its own row. No
 * other node writes there. The row of a dead node has no effect, because the
 * node cannot be reached. A sender reads all rows when the epoch has changed.
 * The receiving node looks the group up again, so a wrong row does no harm.
 */
#include "soft/fabric/groups.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/names.h"
#include "soft/fabric/shared.h"

static void changed(struct soft_dev *dev)
{
	(void)atomic_fetch_add_explicit(&dev->fabric->mcast_epoch, 1,
					memory_order_release);
}

static void set_slot(struct soft_dev *dev, uint32_t slot,
		     const uint64_t words[2])
{
	struct soft_fabric *f = dev->fabric;

	for (int i = 0; i < 2; i++)
		atomic_store_explicit(&f->mgid[dev->node][slot].word[i],
				      words[i], memory_order_relaxed);
}

void soft_groups_add(struct soft_dev *dev, uint32_t slot,
		     const uint8_t mgid[16])
{
	_Atomic uint32_t *top = &dev->fabric->groups[dev->node];
	uint64_t words[2];

	memcpy(words, mgid, 16);
	set_slot(dev, slot, words);
	if (atomic_load_explicit(top, memory_order_relaxed) <= slot)
		atomic_store_explicit(top, slot + 1, memory_order_relaxed);
	changed(dev);
}

void soft_groups_remove(struct soft_dev *dev, uint32_t slot)
{
	set_slot(dev, slot, (const uint64_t[2]){ 0, 0 });
	changed(dev);
}

void soft_groups_clear(struct soft_dev *dev)
{
	memset(dev->fabric->joined[dev->node], 0,
	       sizeof(dev->fabric->joined[dev->node]));
	atomic_store(&dev->fabric->link[dev->node], (uint32_t)soft_link(dev));
	if (!atomic_exchange(&dev->fabric->groups[dev->node], 0))
		return;
	memset(dev->fabric->mgid[dev->node], 0,
	       sizeof(dev->fabric->mgid[dev->node]));
	changed(dev);
}

uint32_t soft_groups_epoch(const struct soft_dev *dev)
{
	/* pairs with the release in changed() */
	return atomic_load_explicit(&dev->fabric->mcast_epoch,
				    memory_order_acquire);
}

bool soft_groups_has(const struct soft_dev *dev, uint32_t node,
		     const uint64_t mgid[2])
{
	struct soft_fabric *f = dev->fabric;
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

/* ---- joined by address ------------------------------------------------- */

/* Returns FNV-1a of the address, never 0. */
static uint64_t hash(const uint8_t addr[16])
{
	uint64_t h = 14695981039346656037u;

	for (int i = 0; i < 16; i++)
		h = (h ^ addr[i]) * 1099511628211u;
	return h ? h : 1;
}

/* Returns false if the node's process was killed and has left its rows. */
static bool lives(const struct soft_dev *dev, uint32_t node)
{
	int fd = soft_name_connect(dev, "node/%u", node);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN;
}

static bool has_joined(const struct soft_fabric *f, uint32_t node, uint64_t h)
{
	for (uint32_t i = 0; i < SOFT_GROUPS; i++)
		if (atomic_load(&f->joined[node][i]) == h)
			return true;
	return false;
}

static bool is_unlike(const struct soft_dev *dev, uint32_t node, uint64_t h)
{
	const struct soft_fabric *f = dev->fabric;
	uint32_t link = atomic_load(&f->link[node]);

	return link > SOFT_LINK_UNKNOWN && link <= SOFT_LINK_IWARP &&
	       link != soft_link(dev) && has_joined(f, node, h) &&
	       lives(dev, node);
}

int soft_groups_join(struct soft_dev *dev, const uint8_t addr[16], int *ret)
{
	uint64_t h = hash(addr);
	int slot = 0;

	while (slot < SOFT_GROUPS && dev->join_used[slot])
		slot++;
	if (slot == SOFT_GROUPS)
		slot = -1;
	if (slot >= 0) {
		dev->join_used[slot] = true;
		/* first, so that one of two that join at once sees the other */
		atomic_store(&dev->fabric->joined[dev->node][slot], h);
	}
	for (uint32_t n = 0; n < SOFT_NODES; n++)
		if (is_unlike(dev, n, h)) {
			soft_groups_leave(dev, slot);
			return -EPROTOTYPE;
		}
	*ret = slot;
	return 0;
}

void soft_groups_leave(struct soft_dev *dev, int slot)
{
	if (slot < 0)
		return;
	atomic_store(&dev->fabric->joined[dev->node][slot], 0);
	dev->join_used[slot] = false;
}
