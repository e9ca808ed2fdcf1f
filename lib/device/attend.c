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

void rdmamsg__attend_init(struct dev *dev)
{
	dev->near = (struct watch){ .fd = -1 };
	dev->asks_near = dev->device->v->attend_fd != NULL;
}

void rdmamsg__attend_close(struct dev *dev)
{
	if (dev->near.fd >= 0)
		(void)rdmamsg__watch_set(&dev->ctx->loop, &dev->near, 0);
	dev->near.fd = -1;
	dev->asks_near = dev->attends = false;
}

/* The first loop that waits gets the descriptor, and keeps it. */
static void ask(struct dev *dev)
{
	dev->asks_near = false;
	dev->near.fd = dev->device->v->attend_fd(dev->channel);
	if (dev->near.fd >= 0 &&
	    rdmamsg__watch_set(&dev->ctx->loop, &dev->near,
			       EPOLLIN | EPOLLET))
		dev->near.fd = -1;
}

bool rdmamsg__attend_wait(const struct devices *devices)
{
	bool empty = true;
	struct list *n;

	list_for_each(n, &devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->single)
			break;		/* they are last, without a channel */
		if (dev->asks_near)
			ask(dev);
		if (dev->near.fd < 0)
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

		if (dev->single)
			break;
		if (dev->attends)
			dev->device->v->attend_woken(dev->channel);
	}
}

void rdmamsg__attend_done(const struct devices *devices)
{
	struct list *n;

	list_for_each(n, &devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->single)
			break;
		if (!dev->attends)
			continue;
		dev->attends = false;
		dev->device->v->attend_done(dev->channel);
	}
}
