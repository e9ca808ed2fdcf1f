/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that the program watches for events, without an endpoint there. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/choose.h"
#include "device/device.h"
#include "loop/device_use.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

int rdmamsg_device_watch(struct rdmamsg *ctx, const char *device)
{
	const struct verbs_api *v;
	char *name = NULL;
	struct dev *dev;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (ctx->closing)
		return rdmamsg__fail(-ESHUTDOWN, "the context is being closed");
	ret = rdmamsg__choose_device(device, NULL, &v, &name);
	if (!ret)
		ret = rdmamsg__dev_get(ctx, v, name, NULL, &dev);
	free(name);
	if (ret)
		return ret;
	if (dev->watched)
		rdmamsg__dev_put(dev);
	dev->watched = true;
	return 0;
}

void rdmamsg__watched_removed(struct rdmamsg *ctx,
			      const struct rdmamsg_device *d)
{
	struct list *n;

	/* check d->gone, because another device may be at this address now */
	list_for_each(n, &ctx->devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->device != d || !d->gone || !dev->watched)
			continue;
		dev->watched = false;
		rdmamsg__dev_put(dev);
	}
}
