/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Removal of the device. Open objects stay until they are closed, but their
 * calls fail. Adding the device makes it available to later opens.
 */
#include "soft/control/control.h"


#include "soft/cm/id.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/wq.h"

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
	list_for_each(n, &dev->wqs)
		soft_wq_error(dev, list_entry(n, struct soft_wq, node));
	soft_cm_removed(dev);
}

void soft_readd(struct soft_dev *dev)
{
	dev->absent = false;
}
