/* SPDX-License-Identifier: BSD-2-Clause */
/* Fills in the table of device/use.h: calls from device/ into layers above. */
#include "base/list.h"
#include "dc/port.h"
#include "device/device.h"
#include "device/use.h"
#include "group/group.h"
#include "lane/srq.h"
#include "loop/device_use.h"
#include "memory/layout_ask.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "memory/share.h"
#include "memory/stretch.h"
#include "session/poll.h"

#include <stdbool.h>

static void release(struct dev *dev)
{
	rdmamsg__srqs_dev_free(dev);
	rdmamsg__layout_asks_dev(dev);
	rdmamsg__regions_dereg(dev);
	rdmamsg__spares_drop(dev);
	rdmamsg__msgs_dereg(dev);
	rdmamsg__pools_dereg(&dev->recv_pools);
	rdmamsg__pools_dereg(&dev->send_pools);
}

static void free_rest(struct dev *dev)
{
	rdmamsg__msgs_free(dev);
	rdmamsg__pools_free(&dev->recv_pools);
	rdmamsg__pools_free(&dev->send_pools);
}

static void drop_spares(struct dev *dev)
{
	rdmamsg__spares_drop(dev);
	rdmamsg__pools_free(&dev->recv_pools);
	rdmamsg__pools_free(&dev->send_pools);
}

static bool pools_used(const struct list *pools)
{
	struct list *n;

	list_for_each(n, pools)
		if (list_entry(n, struct pool, node)->used)
			return true;
	return false;
}

/* The program has a message, or sends one through another device. */
static bool has_messages(const struct dev *dev)
{
	return dev->msgs_out || !list_empty(&dev->loose) ||
	       pools_used(&dev->recv_pools) || pools_used(&dev->send_pools);
}

static void cq_failed(struct rdmamsg *ctx, const struct cq *cq, int err,
		      const char *what)
{
	rdmamsg__cq_failed(ctx, cq, err, what);
	rdmamsg__groups_cq_failed(ctx, cq, err, what);
	rdmamsg__ports_cq_failed(ctx, cq);
}

const struct device_use rdmamsg__device_use = {
	.release = release, .free = free_rest,
	.take_back = rdmamsg__shares_drain,
	.drop_kept = rdmamsg__srqs_dev_free, .drop_spares = drop_spares,
	.has_messages = has_messages, .cq_failed = cq_failed,
	.owner = rdmamsg__qp_owner, .refused = rdmamsg__qp_refused,
	.event = rdmamsg__deliver_event,
	.removed = rdmamsg__deliver_removed,
};
