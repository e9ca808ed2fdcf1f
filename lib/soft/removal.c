/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device goes: what is open of it stays, of no use, until it is closed.
 * When it is there again it is a new one, for who opens it then.
 */
#include "cm.h"

static void end_id(struct soft_dev *dev, struct soft_cm_id *id)
{
	soft_cm_unlisten(id);
	soft_timer_stop(&id->timer);
	soft_cm_end_lookup(id);
	/* the peer is told nothing: nothing leaves a device that is gone */
	soft_wire_put(dev, id->wire);
	id->wire = NULL;
	id->state = SOFT_CM_OVER;
	soft_cm_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

void soft_cm_removed(struct soft_dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (soft_cm_on_device(id))
			end_id(dev, id);
	}
}

void soft_remove(struct soft_dev *dev)
{
	struct list *n;

	if (dev->absent)
		return;
	dev->absent = true;
	list_for_each(n, &dev->contexts) {
		struct soft_ctx *ctx = list_entry(n, struct soft_ctx, node);

		if (ctx->removed)
			continue;
		ctx->removed = true;
		soft_async_device(ctx, IBV_EVENT_DEVICE_FATAL);
	}
	for (uint32_t i = 0; i < SOFT_QPS; i++)
		if (dev->qps[i])
			soft_qp_error(dev, dev->qps[i]);
	soft_cm_removed(dev);
}

void soft_readd(struct soft_dev *dev)
{
	dev->absent = false;
}
