/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Definitions of indirect keys for a dev, one after the other. The queue pair
 * has a completion channel of its own, which the loop watches, and a timer. The
 * queue of the endpoints stays out of it, because polling two is slower.
 */
#include "device/umr.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/watch.h"
#include "device/device.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

struct umr_loop {
	struct watch watch;		/* of the channel */
	struct timer timer;		/* of the first job */
	struct dev *dev;
	struct umr *umr;
	struct ibv_comp_channel *channel;
	struct list jobs;		/* the first is under way */
};

struct umr_job {
	struct list node;
	struct umr_build *build;
	umr_done_fn *done;		/* NULL: cancelled */
	void *arg;
	bool posted;			/* a request is under way */
};

int rdmamsg__umr_late(void)
{
	return rdmamsg__fail(-ETIMEDOUT, "the device has not defined a key in "
			     "%u ms", UMR_WAIT_MS);
}

/*
 * After a try: returns -EOPNOTSUPP if layouts are possible in software, and
 * logs why they are. Else the call fails with the error of the try.
 */
static int fall_back(const struct dev *dev, int err)
{
	if (!err || err == -ENOMEM || rdmamsg__device_lost(dev->device))
		return rdmamsg__fail_again(err);
	log_info("device %s: layouts in software: %s", dev->device->name,
		 rdmamsg__text());
	return -EOPNOTSUPP;
}

/* ---- jobs -------------------------------------------------------------- */

static void job_end(struct umr_job *j, int err)
{
	struct umr_key *key = NULL;

	list_del(&j->node);
	if (err || !j->done)
		rdmamsg__umr_build_drop(j->build);
	else
		key = rdmamsg__umr_build_take(j->build);
	if (j->done)
		j->done(j->arg, key, err);
	free(j);
}

static void jobs_end(struct list *jobs, int err)
{
	while (!list_empty(jobs))
		job_end(list_first(jobs, struct umr_job, node), err);
}

/* ---- life -------------------------------------------------------------- */

static void loop_free(struct umr_loop *q)
{
	struct loop *loop = &q->dev->ctx->loop;

	rdmamsg__timer_stop(&loop->timers, &q->timer);
	rdmamsg__timers_release(&loop->timers, 1);
	(void)rdmamsg__watch_set(loop, &q->watch, 0);
	rdmamsg__umr_close(q->umr);
	if (rdmamsg__v_destroy_comp_channel(q->dev->device->v, q->channel))
		log_error("device %s: the completion channel of keys is still "
			  "in use", q->dev->device->name);
	/* the loop may have an event of the watch */
	rdmamsg__watch_retire(loop, &q->watch, q);
}

/* The device uses no key any more when the queue pair is gone. */
static void end(struct umr_loop *q, int err)
{
	struct list jobs;

	list_init(&jobs);
	while (!list_empty(&q->jobs)) {
		struct list *n = q->jobs.next;

		list_del(n);
		list_add_tail(&jobs, n);
	}
	q->dev->umr = NULL;
	loop_free(q);
	jobs_end(&jobs, err);
}

/* The queue pair is of no use. The next definition makes another, if any. */
static void break_off(struct umr_loop *q, int err)
{
	struct dev *dev = q->dev;

	err = fall_back(dev, err);
	dev->umr_absent = err == -EOPNOTSUPP;
	end(q, err);
}

void rdmamsg__dev_umr_close(struct dev *dev)
{
	if (dev->umr)
		end(dev->umr, -ECANCELED);
}

/* ---- requests ---------------------------------------------------------- */

/* Posts the next request of the first job, or ends the job. */
static void step(struct umr_loop *q, struct umr_job *j)
{
	bool broken = false;
	int ret = j->done ? rdmamsg__try(rdmamsg__umr_build_step(j->build,
								 &broken)) : 0;

	if (ret > 0) {
		j->posted = true;
		rdmamsg__timer_set(&q->dev->ctx->loop.timers, &q->timer,
				   UMR_WAIT_MS);
	} else if (broken) {
		break_off(q, ret);
	} else {
		job_end(j, fall_back(q->dev, ret));
	}
}

/* Returns false if the first job has to wait. */
static bool take(struct umr_loop *q, struct umr_job *j)
{
	int ret = rdmamsg__try(rdmamsg__umr_poll(q->umr));

	if (ret < 0)
		break_off(q, ret);
	else if (ret)
		j->posted = false;
	return ret;
}

void rdmamsg__dev_umr_poll(struct dev *dev)
{
	/* breaking off, or a callback, may end dev->umr */
	while (dev->umr && !list_empty(&dev->umr->jobs)) {
		struct umr_loop *q = dev->umr;
		struct umr_job *j = list_first(&q->jobs, struct umr_job, node);

		if (!j->posted)
			step(q, j);
		else if (!take(q, j))
			return;
	}
	if (dev->umr)
		rdmamsg__timer_stop(&dev->ctx->loop.timers, &dev->umr->timer);
}

static void timed_out(struct timer *t)
{
	struct umr_loop *q = list_entry(t, struct umr_loop, timer);
	struct dev *dev = q->dev;

	/* the event of a completion may be late, too */
	rdmamsg__dev_umr_poll(dev);
	if (dev->umr == q && q->timer.pos < 0 && !list_empty(&q->jobs))
		break_off(q, rdmamsg__try(rdmamsg__umr_late()));
}

/* Arming comes before polling, so that each completion has an event. */
static int rearm(struct umr_loop *q)
{
	const struct verbs_api *v = q->dev->device->v;
	struct ibv_cq *cq;
	int err = rdmamsg__v_get_cq_event(v, q->channel, &cq);

	if (err)
		return err == -EAGAIN ? 0 : err;
	v->ack_cq_events(cq, 1);
	return rdmamsg__umr_arm(q->umr);
}

static void on_event(struct watch *w)
{
	struct umr_loop *q = list_entry(w, struct umr_loop, watch);
	int err = rdmamsg__try(rearm(q));

	if (err)
		break_off(q, err);
	else
		rdmamsg__dev_umr_poll(q->dev);
}

/* ---- begin and cancel -------------------------------------------------- */

static int watch(struct umr_loop *q)
{
	int err = rdmamsg__watch_set(&q->dev->ctx->loop, &q->watch, EPOLLIN);

	return err ? rdmamsg__fail(err, "epoll: %s", strerror(-err)) : 0;
}

static int loop_new(struct dev *dev)
{
	struct timers *timers = &dev->ctx->loop.timers;
	struct umr_loop *q = calloc(1, sizeof(*q));
	int err = q ? rdmamsg__timers_reserve(timers, 1) : -ENOMEM;

	if (err) {
		free(q);
		return rdmamsg__fail(err, "no memory for the keys of layouts");
	}
	q->dev = dev;
	list_init(&q->jobs);
	rdmamsg__timer_init(&q->timer, timed_out);
	err = rdmamsg__channel_new(dev->device, &q->channel);
	if (err)
		goto err_timer;
	q->watch = (struct watch){ .fd = q->channel->fd, .fn = on_event };
	err = rdmamsg__umr_open(dev->device, dev->pd, q->channel, &q->umr);
	if (!err)
		err = watch(q);
	if (err)
		goto err_channel;
	dev->umr = q;
	return 0;

err_channel:
	rdmamsg__umr_close(q->umr);
	(void)rdmamsg__v_destroy_comp_channel(dev->device->v, q->channel);
err_timer:
	rdmamsg__timers_release(timers, 1);
	free(q);
	return err;
}

static int job_new(struct umr_loop *q, const struct layout *l, int access,
		   struct umr_job **ret)
{
	struct umr_job *j = calloc(1, sizeof(*j));
	int err;

	if (!j)
		return rdmamsg__fail(-ENOMEM, "no memory for a key");
	err = rdmamsg__umr_build_new(q->umr, l, access, &j->build);
	if (err)
		free(j);
	else
		*ret = j;
	return err;
}

int rdmamsg__dev_umr_begin(struct dev *dev, const struct layout *l, int access,
			   umr_done_fn *done, void *arg, struct umr_job **ret)
{
	struct umr_job *j = NULL;
	int err;

	if (dev->umr_absent)
		return -EOPNOTSUPP;
	if (!dev->umr) {
		err = fall_back(dev, rdmamsg__try(loop_new(dev)));
		dev->umr_absent = err == -EOPNOTSUPP;
		if (err)
			return err;
	}
	err = fall_back(dev, rdmamsg__try(job_new(dev->umr, l, access, &j)));
	if (err)
		return err;
	j->done = done;
	j->arg = arg;
	list_add_tail(&dev->umr->jobs, &j->node);
	*ret = j;
	return 0;
}

/*
 * The request that is under way may still write to its key, so the key ends
 * with the request.
 */
void rdmamsg__umr_cancel(struct umr_job *j)
{
	j->done = NULL;
	if (!j->posted)
		job_end(j, -ECANCELED);
}
