/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices. A process opens each device once, for all its contexts. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/qpmap.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/watch.h"
#include "device/async.h"
#include "device/cached.h"
#include "device/cq.h"
#include "device/attend.h"
#include "device/device.h"
#include "device/late.h"
#include "device/proof.h"
#include "device/quirks.h"
#include "device/umr.h"
#include "device/use.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#define LINGER_MS	5000	/* an unused device stays open for so long */

/*
 * Protects the list and the references. The device's own lock is held while the
 * device is opened, because a call of verbs may block. No such call is made
 * with devices_lock held.
 */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list devices = { &devices, &devices };

static struct rdmamsg_device *device_new(const struct verbs_api *v,
					 const char *name)
{
	struct rdmamsg_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->v = v;
	snprintf(d->name, sizeof(d->name), "%s", name);
	list_init(&d->ports);
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->masked_lock, NULL);
	return d;
}

static void device_free(struct rdmamsg_device *d)
{
	rdmamsg__cache_free(d->cache);
	pthread_mutex_destroy(&d->masked_lock);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/*
 * Covers the key that libsiw refuses: the first queue of a context begins at
 * key 0, and this one ends behind 0x90000. So no other queue begins there. Costs
 * 1 MB.
 */
static void reserve_key(struct rdmamsg_device *d)
{
	const int entries = 32768;	/* of 32 bytes: struct siw_cqe */
	int ret = rdmamsg__v_create_cq(d->v, d->verbs, entries, NULL, NULL, 0,
				       &d->reserve);

	if (!ret)
		return;
	d->reserve = NULL;
	log_warn("device %s: a completion queue of %d entries could not be "
		 "created (%s), so that another queue may fail", d->name,
		 entries, strerror(-ret));
}

static int device_open(struct rdmamsg_device *d)
{
	const struct verbs_api *v = d->v;
	struct ibv_context *verbs;
	int ret, flags;

	rdmamsg__fork_mark();
	rdmamsg__fork_protect(v);
	ret = rdmamsg__open_by_name(v, d->name, &verbs);
	if (ret)
		return ret;
	ret = rdmamsg__v_query_device(v, verbs, &d->attr);
	if (ret) {
		rdmamsg__fail_verbs(ret, "querying the RDMA device");
		goto err_verbs;
	}
	ret = rdmamsg__v_alloc_pd(v, verbs, &d->pd);
	if (ret) {
		rdmamsg__fail_verbs(ret, "protection domain");
		goto err_verbs;
	}
	flags = fcntl(verbs->async_fd, F_GETFL);
	(void)fcntl(verbs->async_fd, F_SETFL, flags | O_NONBLOCK);
	d->cache = rdmamsg__cache_new(d);
	if (!d->cache) {
		ret = rdmamsg__fail(-ENOMEM, "no memory for a device");
		goto err_pd;
	}
	d->kind = rdmamsg__kind_of(v, verbs, &d->attr);
	d->verbs = verbs;
	if (rdmamsg__quirks(d)->refuses_a_key)
		reserve_key(d);
	rdmamsg__removal_open(d);
	log_info("device %s opened (%s)", d->name, rdmamsg__kind_name(d->kind));
	return 0;

err_pd:
	(void)rdmamsg__v_dealloc_pd(v, d->pd);
err_verbs:
	(void)rdmamsg__v_close_device(v, verbs);
	return ret;
}

static void device_close(struct rdmamsg_device *d)
{
	rdmamsg__removal_close(d);
	if (d->reserve)
		(void)rdmamsg__v_destroy_cq(d->v, d->reserve);
	if (rdmamsg__v_dealloc_pd(d->v, d->pd))
		log_error("device %s: its protection domain is still in use",
			  d->name);
	(void)rdmamsg__v_close_device(d->v, d->verbs);
	log_info("device %s closed", d->name);
}

void rdmamsg__device_put(struct rdmamsg_device *d)
{
	bool last;

	pthread_mutex_lock(&devices_lock);
	last = !--d->refs;
	if (last)
		list_del(&d->node);
	pthread_mutex_unlock(&devices_lock);
	if (!last)
		return;
	if (d->verbs)
		device_close(d);
	device_free(d);
}

/*
 * Returns the device, which may not be open yet, or NULL if there is no memory.
 */
static struct rdmamsg_device *device_hold(const struct verbs_api *v,
					  const char *name)
{
	struct rdmamsg_device *d = NULL;
	struct list *n;

	pthread_mutex_lock(&devices_lock);
	list_for_each(n, &devices) {
		d = list_entry(n, struct rdmamsg_device, node);
		if (!d->gone && d->v == v && !strcmp(d->name, name))
			break;
		d = NULL;
	}
	if (!d) {
		d = device_new(v, name);
		if (d)
			list_add_tail(&devices, &d->node);
	}
	if (d)
		d->refs++;
	pthread_mutex_unlock(&devices_lock);
	return d;
}

/* Takes another reference. The caller has one. */
static void device_again(struct rdmamsg_device *d)
{
	pthread_mutex_lock(&devices_lock);
	d->refs++;
	pthread_mutex_unlock(&devices_lock);
}

/* Opens the device if it is not open. Concurrent callers wait for the first. */
static int device_get(const struct verbs_api *v, const char *name,
		      struct rdmamsg_device **ret_d)
{
	struct rdmamsg_device *d = device_hold(v, name);
	int ret = 0;

	if (!d)
		return rdmamsg__fail(-ENOMEM, "no memory for a device");
	pthread_mutex_lock(&d->lock);
	if (!d->verbs)
		ret = device_open(d);
	pthread_mutex_unlock(&d->lock);
	if (ret) {
		rdmamsg__device_put(d);
		return ret;
	}
	*ret_d = d;
	return 0;
}

static void linger_over(struct timer *t)
{
	struct dev *dev = list_entry(t, struct dev, linger);

	dev->reap = true;
	rdmamsg__reap(dev->ctx);
}

/* Wakes the loop, which closes the unused dev next. */
static void close_soon(struct dev *dev)
{
	linger_over(&dev->linger);
	if (rdmamsg__loop_idle(&dev->ctx->loop))
		rdmamsg__loop_kick(&dev->ctx->loop);
}

/* ---- protection domain and completion channel ------------------------- */

static bool has_own_pd(const struct dev *dev)
{
	return dev->owner || dev->single;
}

static int take_pd(struct dev *dev)
{
	const struct rdmamsg_device *d = dev->device;
	int ret;

	if (!has_own_pd(dev)) {
		dev->pd = d->pd;
		return 0;
	}
	ret = rdmamsg__v_alloc_pd(d->v, d->verbs, &dev->pd);
	return ret ? rdmamsg__fail_verbs(ret, "protection domain") : 0;
}

static void drop_pd(struct dev *dev)
{
	if (has_own_pd(dev) && rdmamsg__v_dealloc_pd(dev->device->v, dev->pd))
		log_error("device %s: a protection domain of the program or "
			  "of an endpoint is still in use", dev->device->name);
}

int rdmamsg__channel_new(const struct rdmamsg_device *d,
			 struct ibv_comp_channel **ret)
{
	int flags, err = rdmamsg__v_create_comp_channel(d->v, d->verbs, ret);

	if (err)
		return rdmamsg__fail_verbs(err, "completion channel");
	flags = fcntl((*ret)->fd, F_GETFL);
	(void)fcntl((*ret)->fd, F_SETFL, flags | O_NONBLOCK);
	return 0;
}

static int open_channel(struct dev *dev)
{
	const struct rdmamsg_device *d = dev->device;
	int ret = rdmamsg__channel_new(d, &dev->channel);

	if (ret)
		return ret;
	ret = rdmamsg__watch(&dev->ctx->loop, dev->channel->fd, dev);
	if (ret) {
		(void)rdmamsg__v_destroy_comp_channel(d->v, dev->channel);
		return rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
	}
	rdmamsg__attend_init(dev);
	return 0;
}

static void leave_channel(struct dev *dev)
{
	rdmamsg__attend_close(dev);
	rdmamsg__unwatch(&dev->ctx->loop, dev->channel->fd);
}

static void destroy_channel(struct dev *dev)
{
	const struct rdmamsg_device *d = dev->device;

	if (rdmamsg__v_destroy_comp_channel(d->v, dev->channel))
		log_error("device %s: its completion channel is still in use",
			  d->name);
}

/* ---- devices of a context --------------------------------------------- */

static struct dev *dev_alloc(struct rdmamsg *ctx, struct rdmamsg_pd *pd,
			     struct dev *queues)
{
	struct dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->ctx = ctx;
	dev->owner = pd;
	dev->single = queues;
	dev->queues = queues ? queues : dev;
	list_init(&dev->cqs);
	list_init(&dev->recv_pools);
	list_init(&dev->send_pools);
	list_init(&dev->large);
	list_init(&dev->loose);
	list_init(&dev->regions);
	list_init(&dev->srqs);
	rdmamsg__timer_init(&dev->linger, linger_over);
	return dev;
}

static int dev_open(struct dev *dev, const struct verbs_api *v,
		    const char *name)
{
	int ret = 0;

	if (dev->single) {
		dev->device = dev->queues->device;
		device_again(dev->device);
	} else {
		ret = device_get(v, name, &dev->device);
	}
	if (ret)
		return ret;
	ret = take_pd(dev);
	if (ret)
		goto err_device;
	ret = dev->single ? 0 : open_channel(dev);
	if (ret)
		goto err_pd;
	ret = rdmamsg__async_start(dev);
	if (ret) {
		rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
		goto err_channel;
	}
	return 0;

err_channel:
	if (!dev->single) {
		leave_channel(dev);
		destroy_channel(dev);
	}
err_pd:
	drop_pd(dev);
err_device:
	rdmamsg__device_put(dev->device);
	return ret;
}

/*
 * Creates a dev. A single dev uses the channel and CQs of 'queues'. Else queues
 * is NULL.
 */
static int dev_new(struct rdmamsg *ctx, const struct verbs_api *v,
		   const char *name, struct rdmamsg_pd *pd,
		   struct dev *queues, struct dev **ret_dev)
{
	struct dev *dev = dev_alloc(ctx, pd, queues);
	int ret;

	if (!dev)
		return rdmamsg__fail(-ENOMEM, "no memory for a device");
	ret = rdmamsg__timers_reserve(&ctx->loop.timers, 1);
	if (ret) {
		rdmamsg__fail(ret, "no memory for a timer");
		goto err_dev;
	}
	ret = dev_open(dev, v, name);
	if (ret)
		goto err_timer;
	/* rdmamsg__cq_poll() stops at the first single dev */
	if (dev->single)
		list_add_tail(&ctx->devices->devs, &dev->node);
	else
		list_add(&ctx->devices->devs, &dev->node);
	*ret_dev = dev;
	return 0;

err_timer:
	rdmamsg__timers_release(&ctx->loop.timers, 1);
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

	list_for_each(n, &ctx->devices->devs) {
		dev = list_entry(n, struct dev, node);
		if (dev->device && !dev->device->gone && !dev->single &&
		    dev->device->v == v && !strcmp(dev->device->name, name) &&
		    dev->pd && dev->owner == pd)
			break;
		dev = NULL;
	}
	if (!dev)
		err = dev_new(ctx, v, name, pd, NULL, &dev);
	if (err)
		return err;
	rdmamsg__timer_stop(&ctx->loop.timers, &dev->linger);
	dev->reap = false;
	dev->eps++;
	*ret = dev;
	return 0;
}

int rdmamsg__dev_single(struct rdmamsg *ctx, const struct verbs_api *v,
			const char *name, struct dev **ret)
{
	struct dev *queues;
	int err = rdmamsg__dev_get(ctx, v, name, NULL, &queues);

	if (err)
		return err;
	err = dev_new(ctx, v, name, NULL, queues, ret);
	if (err)
		rdmamsg__dev_put(queues);
	else
		(*ret)->eps++;
	return err;
}

void rdmamsg__dev_put(struct dev *dev)
{
	if (--dev->eps)
		return;
	if (dev->single)
		rdmamsg__dev_put(dev->queues);
	if (dev->ctx->closing)
		return;
	if (dev->single)
		close_soon(dev);
	else if (dev->device->gone)
		linger_over(&dev->linger);
	else
		rdmamsg__timer_set(&dev->ctx->loop.timers, &dev->linger,
				   LINGER_MS);
}

static void free_verbs(struct dev *dev)
{
	rdmamsg__cqs_free(dev);
	if (!dev->single)
		destroy_channel(dev);
	drop_pd(dev);
	rdmamsg__device_put(dev->device);
}

static void dev_release(struct dev *dev)
{
	if (!dev->device)
		return;
	rdmamsg__async_stop(dev);
	rdmamsg__timer_stop(&dev->ctx->loop.timers, &dev->linger);
	rdmamsg__timers_release(&dev->ctx->loop.timers, 1);
	dev->ctx->devices->use->release(dev);
	rdmamsg__dev_umr_close(dev);
	rdmamsg__dev_proof_close(dev);
	rdmamsg__qpmap_free(&dev->qps);
	if (!dev->single)
		leave_channel(dev);
	if (!rdmamsg__late_close(dev))
		free_verbs(dev);
	dev->device = NULL;
}

void rdmamsg__dev_close(struct dev *dev)
{
	dev_release(dev);
	/* messages keep the dev until the context closes */
	if (dev->ctx->devices->use->has_messages(dev) && !dev->ctx->closing)
		return;
	dev->ctx->devices->use->free(dev);
	list_del(&dev->node);
	free(dev);
}

int rdmamsg__dev_disown(struct dev *dev)
{
	const struct device_use *use = dev->ctx->devices->use;
	const struct rdmamsg_device *d = dev->device;
	int ret;

	if (!d)
		goto out;
	use->drop_kept(dev);
	if (use->has_messages(dev))
		return rdmamsg__fail(-EBUSY, "device %s: messages of the "
				     "protection domain are still being sent",
				     d->name);
	use->drop_spares(dev);
	rdmamsg__dev_umr_close(dev);
	rdmamsg__dev_proof_close(dev);
	ret = rdmamsg__late_pd(dev) ? 0 :
	      rdmamsg__v_dealloc_pd(d->v, dev->pd);
	if (ret == -EBUSY)
		return rdmamsg__fail(ret, "device %s: the protection domain is "
				     "in use by what the program has made in "
				     "it with verbs", d->name);
	if (ret)
		log_error("device %s: a protection domain of the program could "
			  "not be given back", d->name);
	close_soon(dev);
out:
	dev->pd = NULL;
	dev->owner = NULL;
	return 0;
}

void rdmamsg__devs_reap(struct rdmamsg *ctx)
{
	struct list *n, *t;

	ctx->devices->reap = false;
	list_for_each_safe(n, t, &ctx->devices->devs) {
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

	return rdmamsg__v_query_port(d->v, d->verbs, 1, &port) == -EIO;
}

int rdmamsg__device_mr_check(const struct rdmamsg_device *d, size_t len)
{
	/* 0: the driver reports no limit */
	if (!d->attr.max_mr_size || len <= d->attr.max_mr_size)
		return 0;
	return rdmamsg__fail(-EINVAL, "registering %zu bytes: device %s allows "
			     "%llu (its max_mr_size)", len, d->name,
			     (unsigned long long)d->attr.max_mr_size);
}

void rdmamsg__device_keep(struct rdmamsg_device *d)
{
	device_again(d);
}

/* Closes the unused devs at once, because the kernel waits for the closing. */
void rdmamsg__devs_gone(struct rdmamsg *ctx, const struct rdmamsg_device *d)
{
	struct list *n;

	list_for_each(n, &ctx->devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->device == d && d->gone && !dev->eps)
			linger_over(&dev->linger);
	}
}

void rdmamsg__device_removed(struct rdmamsg_device *d)
{
	if (atomic_exchange(&d->gone, true))
		return;
	log_warn("device %s was removed", d->name);
	rdmamsg__async_removed(d);
}

void rdmamsg__dev_removed(struct dev *dev)
{
	rdmamsg__device_removed(dev->device);
	rdmamsg__devs_gone(dev->ctx, dev->device);
}
