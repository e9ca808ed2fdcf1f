/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices: opened once per process, whatever number of contexts use them. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define LINGER_MS	5000	/* an unused device is closed after this */

pthread_mutex_t rdmamsg__devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list devices = { &devices, &devices };

static int device_open(const struct verbs_api *v, const char *name,
		       struct rdmamsg_device **ret_d)
{
	struct rdmamsg_device *d = calloc(1, sizeof(*d));
	int ret, flags;

	if (!d)
		return rdmamsg__fail(-ENOMEM, "no memory for a device");
	rdmamsg__fork_mark();
	ret = rdmamsg__open_by_name(v, name, &d->verbs);
	if (ret)
		goto err_d;
	ret = rdmamsg__verbs_ret(v->query_device(d->verbs, &d->attr));
	if (ret) {
		rdmamsg__fail_verbs(ret, "querying the RDMA device");
		goto err_verbs;
	}
	errno = 0;
	d->pd = v->alloc_pd(d->verbs);
	if (!d->pd) {
		ret = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
					  "protection domain");
		goto err_verbs;
	}
	flags = fcntl(d->verbs->async_fd, F_GETFL);
	(void)fcntl(d->verbs->async_fd, F_SETFL, flags | O_NONBLOCK);
	d->v = v;
	d->kind = rdmamsg__kind_of(v, d->verbs, &d->attr);
	snprintf(d->name, sizeof(d->name), "%s", name);
	list_init(&d->ports);
	list_add_tail(&devices, &d->node);
	log_info("device %s opened (%s)", d->name, rdmamsg__kind_name(d->kind));
	*ret_d = d;
	return 0;

err_verbs:
	(void)v->close_device(d->verbs);
err_d:
	free(d);
	return ret;
}

static void device_put(struct rdmamsg_device *d)
{
	const struct verbs_api *v = d->v;
	bool gone = d->gone;

	if (--d->refs)
		return;
	if (v->dealloc_pd(d->pd))
		log_error("device %s: its protection domain is still in use",
			  d->name);
	(void)v->close_device(d->verbs);
	log_info("device %s closed", d->name);
	list_del(&d->node);
	free(d);
	if (gone) {
		/*
		 * librdmacm keeps a context of its own on a removed device
		 * until it next looks at the list, and the kernel waits for it.
		 */
		struct ibv_context **all = v->get_devices(NULL);

		if (all)
			v->free_devices(all);
	}
}

static int device_get(const struct verbs_api *v, const char *name,
		      struct rdmamsg_device **ret)
{
	struct list *n;
	int err;

	list_for_each(n, &devices) {
		struct rdmamsg_device *d = list_entry(n, struct rdmamsg_device,
						      node);

		if (!d->gone && d->v == v && !strcmp(d->name, name)) {
			d->refs++;
			*ret = d;
			return 0;
		}
	}
	err = device_open(v, name, ret);
	if (!err)
		(*ret)->refs = 1;
	return err;
}

static void linger_over(struct timer *t)
{
	struct dev *dev = list_entry(t, struct dev, linger);

	dev->reap = true;
	rdmamsg__reap(dev->ctx);
}

static int take_pd(struct dev *dev)
{
	const struct rdmamsg_device *d = dev->device;

	errno = 0;
	dev->pd = dev->owner ? d->v->alloc_pd(d->verbs) : d->pd;
	return dev->pd ? 0 : rdmamsg__fail_verbs(rdmamsg__verbs_null(),
						 "protection domain");
}

static void drop_pd(struct dev *dev)
{
	if (dev->owner && dev->device->v->dealloc_pd(dev->pd))
		log_error("device %s: a protection domain of the program is "
			  "still in use", dev->device->name);
}

static int dev_new(struct rdmamsg *ctx, const struct verbs_api *v,
		   const char *name, struct rdmamsg_pd *pd,
		   struct dev **ret_dev)
{
	struct dev *dev = calloc(1, sizeof(*dev));
	int ret, flags;

	if (!dev)
		return rdmamsg__fail(-ENOMEM, "no memory for a device");
	dev->ctx = ctx;
	dev->owner = pd;
	list_init(&dev->cqs);
	list_init(&dev->recv_pools);
	list_init(&dev->send_pools);
	list_init(&dev->large);
	list_init(&dev->loose);
	list_init(&dev->regions);
	list_init(&dev->srqs);
	rdmamsg__timer_init(&dev->linger, linger_over);
	ret = rdmamsg__timers_reserve(&ctx->timers, 1);
	if (ret) {
		rdmamsg__fail(ret, "no memory for a timer");
		goto err_dev;
	}
	pthread_mutex_lock(&rdmamsg__devices_lock);
	ret = device_get(v, name, &dev->device);
	if (ret)
		goto err_lock;
	ret = take_pd(dev);
	if (ret)
		goto err_device;
	errno = 0;
	dev->channel = v->create_comp_channel(dev->device->verbs);
	if (!dev->channel) {
		ret = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
					  "completion channel");
		goto err_pd;
	}
	flags = fcntl(dev->channel->fd, F_GETFL);
	(void)fcntl(dev->channel->fd, F_SETFL, flags | O_NONBLOCK);
	ret = rdmamsg__watch(ctx, dev->channel->fd, dev);
	if (ret) {
		rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
		goto err_channel;
	}
	list_add_tail(&dev->device->ports, &dev->port_node);
	rdmamsg__async_start(dev);
	pthread_mutex_unlock(&rdmamsg__devices_lock);
	list_add_tail(&ctx->devs, &dev->node);
	*ret_dev = dev;
	return 0;

err_channel:
	(void)v->destroy_comp_channel(dev->channel);
err_pd:
	drop_pd(dev);
err_device:
	device_put(dev->device);
err_lock:
	pthread_mutex_unlock(&rdmamsg__devices_lock);
	rdmamsg__timers_release(&ctx->timers, 1);
err_dev:
	free(dev);
	return ret;
}

int rdmamsg__dev_get(struct rdmamsg *ctx, const struct verbs_api *v,
		     const char *name, struct rdmamsg_pd *pd, struct dev **ret)
{
	struct dev *dev = NULL;
	struct list *n;
	int err = 0;

	list_for_each(n, &ctx->devs) {
		dev = list_entry(n, struct dev, node);
		if (dev->device && !dev->device->gone &&
		    dev->device->v == v && !strcmp(dev->device->name, name) &&
		    dev->pd && dev->owner == pd)
			break;
		dev = NULL;
	}
	if (!dev)
		err = dev_new(ctx, v, name, pd, &dev);
	if (err)
		return err;
	rdmamsg__timer_stop(&ctx->timers, &dev->linger);
	dev->reap = false;
	dev->eps++;
	*ret = dev;
	return 0;
}

void rdmamsg__dev_put(struct dev *dev)
{
	if (--dev->eps || dev->ctx->closing)
		return;
	if (dev->device->gone)
		linger_over(&dev->linger);
	else
		rdmamsg__timer_set(&dev->ctx->timers, &dev->linger, LINGER_MS);
}

static void dev_release(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;

	if (!d)
		return;
	pthread_mutex_lock(&rdmamsg__devices_lock);
	list_del(&dev->port_node);
	rdmamsg__async_stop(dev);
	rdmamsg__timer_stop(&dev->ctx->timers, &dev->linger);
	rdmamsg__timers_release(&dev->ctx->timers, 1);
	rdmamsg__unwatch(dev->ctx, dev->channel->fd);
	rdmamsg__srqs_dev_free(dev);
	rdmamsg__qpmap_free(&dev->qps);
	rdmamsg__cqs_free(dev);
	if (d->v->destroy_comp_channel(dev->channel))
		log_error("device %s: its completion channel is still in use",
			  d->name);
	rdmamsg__regions_dereg(dev);
	rdmamsg__larges_free(dev);
	rdmamsg__msgs_dereg(dev);
	rdmamsg__pools_dereg(&dev->recv_pools);
	rdmamsg__pools_dereg(&dev->send_pools);
	drop_pd(dev);
	device_put(d);
	dev->device = NULL;
	pthread_mutex_unlock(&rdmamsg__devices_lock);
}

static bool pools_used(const struct list *pools)
{
	struct list *n;

	list_for_each(n, pools)
		if (list_entry(n, struct pool, node)->used)
			return true;
	return false;
}

/* In the program's hands, or being sent through another device. */
static bool has_messages(const struct dev *dev)
{
	return dev->msgs_out || !list_empty(&dev->loose) ||
	       pools_used(&dev->recv_pools) || pools_used(&dev->send_pools);
}

void rdmamsg__dev_close(struct dev *dev)
{
	dev_release(dev);
	/* messages outlive the device, not the context */
	if (has_messages(dev) && !dev->ctx->closing)
		return;
	rdmamsg__msgs_free(dev);
	rdmamsg__pools_free(&dev->recv_pools);
	rdmamsg__pools_free(&dev->send_pools);
	list_del(&dev->node);
	free(dev);
}

int rdmamsg__dev_disown(struct dev *dev)
{
	const struct rdmamsg_device *d = dev->device;
	int ret;

	if (!d)
		goto out;
	/* what is kept for the next one to come */
	rdmamsg__srqs_dev_free(dev);
	if (has_messages(dev))
		return rdmamsg__fail(-EBUSY, "device %s: messages of the "
				     "protection domain are still being sent",
				     d->name);
	rdmamsg__larges_free(dev);
	rdmamsg__pools_free(&dev->recv_pools);
	rdmamsg__pools_free(&dev->send_pools);
	ret = rdmamsg__verbs_ret(d->v->dealloc_pd(dev->pd));
	if (ret == -EBUSY)
		return rdmamsg__fail(ret, "device %s: the protection domain is "
				     "in use by what the program has made in "
				     "it with verbs", d->name);
	if (ret)
		log_error("device %s: a protection domain of the program could "
			  "not be given back", d->name);
	linger_over(&dev->linger);
	if (!dev->ctx->busy && !dev->ctx->in_callback)
		rdmamsg__kick(dev->ctx);
out:
	dev->pd = NULL;
	dev->owner = NULL;
	return 0;
}

void rdmamsg__devs_reap(struct rdmamsg *ctx)
{
	struct list *n, *t;

	ctx->reap = false;
	list_for_each_safe(n, t, &ctx->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->eps)
			continue;
		if (dev->reap || !dev->device)
			rdmamsg__dev_close(dev);
	}
}

bool rdmamsg__device_lost(const struct rdmamsg_device *d)
{
	struct ibv_port_attr port;

	return rdmamsg__verbs_ret(d->v->query_port(d->verbs, 1, &port)) == -EIO;
}

void rdmamsg__dev_keep(struct rdmamsg_qp *q)
{
	pthread_mutex_lock(&rdmamsg__devices_lock);
	q->dev->device->refs++;
	q->ctx = NULL;
	pthread_mutex_unlock(&rdmamsg__devices_lock);
	rdmamsg__dev_put(q->dev);
	q->dev = NULL;
}

void rdmamsg__dev_removed(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;
	struct list *n;

	pthread_mutex_lock(&rdmamsg__devices_lock);
	if (!d->gone)
		log_warn("device %s was removed", d->name);
	d->gone = true;
	pthread_mutex_unlock(&rdmamsg__devices_lock);
	/* those of other domains, which nobody uses, need not wait */
	list_for_each(n, &dev->ctx->devs) {
		struct dev *other = list_entry(n, struct dev, node);

		if (other->device == d && !other->eps)
			linger_over(&other->linger);
	}
}
