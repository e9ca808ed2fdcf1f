/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ctx.h"
#include "base/list.h"
#include "base/watch.h"
#include "device/attend.h"
#include "device/device.h"
#include "device/verbs_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>

void rdmamsg__attend_open(struct dev *dev)
{
	const struct verbs_api *v = dev->device->v;

	dev->near = (struct watch){ .fd = -1 };
	if (v->attend_fd)
		dev->near.fd = v->attend_fd(dev->channel);
	if (dev->near.fd >= 0 &&
	    rdmamsg__watch_set(&dev->ctx->loop, &dev->near,
			       EPOLLIN | EPOLLET))
		dev->near.fd = -1;
}

void rdmamsg__attend_close(struct dev *dev)
{
	if (dev->near.fd >= 0)
		(void)rdmamsg__watch_set(&dev->ctx->loop, &dev->near, 0);
	dev->near.fd = -1;
	dev->attends = false;
}

static bool can_attend(const struct dev *dev)
{
	return dev->device && !dev->single && dev->near.fd >= 0;
}

bool rdmamsg__attend_wait(const struct devices *devices)
{
	bool empty = true;
	struct list *n;

	list_for_each(n, &devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (!can_attend(dev))
			continue;
		dev->attends = true;
		empty &= dev->device->v->attend_wait(dev->channel);
	}
	return empty;
}

void rdmamsg__attend_woken(const struct devices *devices)
{
	struct list *n;

	list_for_each(n, &devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->attends)
			dev->device->v->attend_woken(dev->channel);
	}
}

void rdmamsg__attend_done(const struct devices *devices)
{
	struct list *n;

	list_for_each(n, &devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (!dev->attends)
			continue;
		dev->attends = false;
		dev->device->v->attend_done(dev->channel);
	}
}
