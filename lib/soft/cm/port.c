/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port of RoCE v2 is taken when a listener or a group of this process
 * needs it. It is tried again until it is free or nothing needs it any more.
 */
#include "soft/cm/far.h"

#include <errno.h>

#include "soft/cm/id.h"
#include "soft/net/net.h"
#include "soft/verbs/ah.h"

#define AGAIN_NS	1000000000ull

static bool is_needed(struct soft_dev *dev)
{
	struct list *n;

	for (int i = 0; i < SOFT_GROUP_BUCKETS; i++)
		if (!list_empty(&dev->groups[i]))
			return true;
	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->state == SOFT_CM_LISTEN && soft_cm_far_listens(id))
			return true;
	}
	return false;
}

static void join_groups(struct soft_dev *dev)
{
	struct list *n;

	for (int i = 0; i < SOFT_GROUP_BUCKETS; i++)
		list_for_each(n, &dev->groups[i])
			soft_net_group(dev, list_entry(n, struct soft_group,
						       node)->mgid, true);
}

static void on_again(struct soft_dev *dev, struct soft_timer *t)
{
	int err;

	if (!is_needed(dev))
		return;
	err = soft_net_open(dev);
	if (err)
		soft_cm_port_taken(dev, err);
	else
		join_groups(dev);
}

void soft_cm_port_taken(struct soft_dev *dev, int err)
{
	if (err != -EADDRINUSE)
		return;
	dev->port_free.fn = on_again;
	soft_timer_set(dev, &dev->port_free, AGAIN_NS);
}
