/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each node writes the groups that have members on it into its own row. No
 * other node writes there. The row of a dead node has no effect, because the
 * node cannot be reached. A sender reads all rows when the epoch has changed.
 * The receiving node looks the group up again, so a wrong row does no harm.
 */
#include "soft/fabric/groups.h"

#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/dev.h"
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
