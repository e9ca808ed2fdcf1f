/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/count.h"

#include "soft/fabric/shared.h"

uint64_t soft_count_sum(const struct soft_dev *dev, unsigned int port,
			enum soft_counter what)
{
	uint64_t sum = 0;

	if (!port || port > SOFT_PORTS_MAX)
		return 0;
	for (int i = 0; i < SOFT_NODES; i++)
		/* a page that is only read would still need memory */
		if (dev->fabric->guid[i])
			sum += atomic_load_explicit(
				&dev->fabric->counts[i].of[port - 1][what],
				memory_order_relaxed);
	return sum;
}
