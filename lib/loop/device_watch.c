/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that the program watches for events, without an endpoint there, and
 * their attributes, which events keep fresh.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/async.h"
#include "device/cached.h"
#include "device/choose.h"
#include "device/device.h"
#include "loop/device_use.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

static int watch(struct rdmamsg *ctx, const char *device, struct dev **ret_dev)
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
	*ret_dev = dev;
	return 0;
}

int rdmamsg_device_watch(struct rdmamsg *ctx, const char *device)
{
	struct dev *dev;

	return watch(ctx, device, &dev);
}

/* Events that the device has reported invalidate values before they are read */
static int watch_read(struct rdmamsg *ctx, const char *device,
		      struct rdmamsg_device **ret)
{
	struct dev *dev;
	int err = watch(ctx, device, &dev);

	if (err)
		return err;
	rdmamsg__async_read(ctx, dev->device);
	*ret = dev->device;
	return 0;
}

int rdmamsg_device_cached(struct rdmamsg *ctx, const char *device,
			  struct rdmamsg_device_attr *attr)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	struct rdmamsg_device *d;
	int ret = watch_read(ctx, device, &d);

	if (!ret)
		ret = rdmamsg__cache_device(d, &a);
	return ret ? ret : rdmamsg__give(attr, &a, sizeof(a));
}

int rdmamsg_port_cached(struct rdmamsg *ctx, const char *device, uint32_t port,
			uint32_t parts, struct rdmamsg_port_attr *attr)
{
	const uint32_t all = RDMAMSG_PORT_STATIC | RDMAMSG_PORT_DYNAMIC;
	struct rdmamsg_port_attr a = { .size = sizeof(a) };
	struct rdmamsg_device *d;
	int ret;

	if (!parts || parts & ~all)
		return rdmamsg__fail(-EINVAL, "rdmamsg_port_cached: parts 0x%x",
				     parts);
	ret = watch_read(ctx, device, &d);
	if (!ret)
		ret = rdmamsg__cache_port(d, port, parts, &a);
	return ret ? ret : rdmamsg__give(attr, &a, sizeof(a));
}

int rdmamsg_device_refresh(struct rdmamsg *ctx, const char *device)
{
	struct rdmamsg_device *d;
	int ret = watch_read(ctx, device, &d);

	if (!ret)
		rdmamsg__cache_forget(d->cache);
	return ret;
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
