/* SPDX-License-Identifier: BSD-2-Clause */
#include "packets.h"

#include "soft/fabric/count.h"
#include "soft/verbs/ctx.h"

void packets_count(struct ibv_context *verbs, uint64_t *ret_records,
		   uint64_t *ret_packets)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	uint64_t records = 0;

	soft_lock(dev);
	for (unsigned int i = 1; i <= SOFT_PORTS_MAX; i++)
		records += soft_count_sum(dev, i, SOFT_XMIT_PACKETS);
	*ret_packets = dev->packets.sent;
	soft_unlock(dev);
	*ret_records = records;
}
