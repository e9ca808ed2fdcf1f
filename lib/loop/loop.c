/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The event loop of a context. One epoll descriptor has the CM channels, the
 * completion channels, the timers, the eventfd, and the async events of each
 * device. All are level-triggered, so an event that is left makes the
 * descriptor readable again.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/util.h"
#include "base/watch.h"
#include "chain/chain.h"
#include "dc/dc.h"
#include "device/async.h"
#include "device/attend.h"
#include "device/cq.h"
#include "device/device.h"
#include "group/group.h"
#include "session/tx.h"
#include "loop/left.h"
#include "loop/wait.h"
#include "cm/rdma/cm.h"
#include "session/ep.h"
#include "session/poll.h"
#include "session/recv.h"
#include "session/send.h"
#include "session/sessions.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define BUDGET		256	/* completions per rdmamsg_process() */

/*
 * Every call ends here. Does the work that callbacks have left, before the
 * program sleeps. Frees what died in callbacks after they have returned.
 */
static void settle(struct rdmamsg *ctx)
{
	ctx->loop.work = false;
	rdmamsg__tx_flush(ctx);
	while (!list_empty(&ctx->sessions->dirty)) {
		struct rdmamsg_ep *ep = list_first(&ctx->sessions->dirty,
						   struct rdmamsg_ep,
						   dirty_node);

		list_del(&ep->dirty_node);
		ep->dirty = false;
		rdmamsg__rx_refill(ep);
		if (unlikely(ep->ctrl.due || ep->send.queued ||
			     ep->send.want_writable || rdmamsg__rx_waits(ep) ||
			     ep->state != EP_OPEN)) {
			ctx->loop.told |= ep->send.want_writable ||
				     rdmamsg__rx_waits(ep) ||
				     ep->state != EP_OPEN;
			rdmamsg__tx_pump(ep);
			rdmamsg__tx_flush(ctx);
			rdmamsg__ep_progress_close(ep);
			rdmamsg__tx_flush(ctx);
		}
	}
	while (unlikely(!list_empty(&ctx->sessions->dead))) {
		struct rdmamsg_ep *ep = list_first(&ctx->sessions->dead,
						   struct rdmamsg_ep, node);

		list_del(&ep->node);
		list_add_tail(&ctx->sessions->held, &ep->node);
		rdmamsg_ep_release(ep);
	}
	if (unlikely(!list_empty(&ctx->groups->dead)))
		rdmamsg__groups_settle(ctx);
	if (!list_empty(&ctx->chains->ended))
		rdmamsg__chains_settle(ctx);
	if (rdmamsg__dcs_due(ctx->dcs))
		rdmamsg__dcs_settle(ctx);
	if (unlikely(!list_empty(&ctx->loop.ended)))
		rdmamsg__watches_reap(&ctx->loop);
	if (unlikely(ctx->devices->reap))
		rdmamsg__devs_reap(ctx);
}

void rdmamsg__settle_now(struct rdmamsg *ctx)
{
	rdmamsg__tx_flush(ctx);
	/* mostly there is nothing else to do */
	if (list_empty(&ctx->sessions->dirty) &&
	    list_empty(&ctx->sessions->dead) && list_empty(&ctx->loop.ended) &&
	    list_empty(&ctx->groups->dead) &&
	    list_empty(&ctx->chains->ended) && !rdmamsg__dcs_due(ctx->dcs) &&
	    !ctx->devices->reap) {
		ctx->loop.work = false;
		return;
	}
	rdmamsg__enter(ctx);
	ctx->sessions->rounds++;
	while (ctx->loop.work)
		settle(ctx);
	rdmamsg__leave(ctx);
}

/*
 * The tag of a completion channel is the address of its dev. The tag of async
 * events is the address of the device + 1. The tag of a watch is its address +
 * 2.
 */
static int handle(struct rdmamsg *ctx, void *tag, bool slow_only)
{
	struct dev *dev;

	if (tag == &ctx->loop.submit)
		return rdmamsg__submit_run(&ctx->loop);
	if (tag == &ctx->loop.timers)
		return slow_only ? 0 : rdmamsg__timers_run(&ctx->loop.timers);
	for (int i = 0; i < TABLES; i++)
		if (tag == &ctx->sessions->cm[i])
			return rdmamsg__cm_process(ctx, &ctx->sessions->cm[i]);
	if ((uintptr_t)tag & 2) {
		struct watch *w = (struct watch *)((uintptr_t)tag - 2);

		if (!w->fn)
			return 0;	/* it only wakes */
		if (w->fd >= 0)
			w->fn(w);
		return 1;
	}
	if ((uintptr_t)tag & 1) {
		rdmamsg__async_read(ctx, (struct rdmamsg_device *)
				    ((uintptr_t)tag - 1));
		return 1;
	}
	dev = tag;
	/*
	 * Polling leaves the completion event unread. Reading it would mean
	 * arming the queue again, and paying for another event that a polling
	 * program does not need. The next sleep finds the event.
	 */
	return slow_only ? 0 : rdmamsg__cq_rearm(dev);
}

static int handle_all(struct rdmamsg *ctx, const struct epoll_event *ev, int n,
		      bool slow_only)
{
	int events = 0;

	atomic_store_explicit(&ctx->loop.submit.reader, pthread_self(),
			      memory_order_relaxed);
	for (int i = 0; i < n; i++) {
		int k = handle(ctx, ev[i].data.ptr, slow_only);

		events += max(k, 0);
	}
	return events;
}

static int sleep_for(struct rdmamsg *ctx, struct epoll_event *ev, int room,
		     int timeout_ms)
{
	int n;

	if (timeout_ms && !rdmamsg__attend_wait(ctx->devices))
		timeout_ms = 0;
	n = epoll_wait(ctx->loop.epfd, ev, room, timeout_ms);
	return n < 0 ? -errno : n;
}

/*
 * The program has closed the descriptor. Completions and timers need none, so
 * that rdmamsg_close() comes to an end.
 */
static int without_descriptor(struct rdmamsg *ctx, int err)
{
	ctx->loop.lost = true;
	rdmamsg__enter(ctx);
	(void)rdmamsg__timers_run(&ctx->loop.timers);
	(void)rdmamsg__cq_poll(ctx, BUDGET);
	rdmamsg__settle(ctx);
	rdmamsg__leave(ctx);
	return rdmamsg__fail(err, "%s", rdmamsg__loop_text(err));
}

/* Sleeps for at most timeout_ms, then handles all events. */
static int process(struct rdmamsg *ctx, int timeout_ms)
{
	struct epoll_event ev[16];
	int n = sleep_for(ctx, ev, 16, timeout_ms), events, got;

	ctx->loop.sleeps = true;
	if (timeout_ms)
		rdmamsg__attend_woken(ctx->devices);
	if (unlikely(n < 0)) {
		rdmamsg__attend_done(ctx->devices);
		return n == -EINTR ? n : without_descriptor(ctx, n);
	}
	rdmamsg__enter(ctx);
	events = handle_all(ctx, ev, n, false);
	got = rdmamsg__cq_poll(ctx, BUDGET);
	rdmamsg__settle(ctx);
	/* the queues are armed, but completions left in them raise no event */
	if (got >= BUDGET || unlikely(ctx->devices->early))
		rdmamsg__loop_kick(&ctx->loop);
	rdmamsg__leave(ctx);
	if (timeout_ms)
		rdmamsg__attend_done(ctx->devices);
	events += got;
	ctx->sessions->st.wakeups += events > 0;
	return events;
}

int rdmamsg_process(struct rdmamsg *ctx)
{
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (rdmamsg__in_callback(ctx))
		return rdmamsg__deadlock(ctx, "rdmamsg_process");
	return process(ctx, 0);
}

#define SLOW_NS		50000u	/* from one slow path to the next, at least */
#define BATCH_MAX	512	/* polls */

/*
 * A program that polls without end looks at the clock after a batch of polls.
 * If it does other work between two polls, or gives its processor away, it makes
 * few polls in SLOW_NS, and its batches become as small.
 */
static void set_batch(struct rdmamsg *ctx, uint64_t passed)
{
	if (passed > SLOW_NS)
		ctx->batch = max((int32_t)((uint64_t)ctx->batch * SLOW_NS /
					   passed), 1);
	else
		ctx->batch = min(2 * ctx->batch, BATCH_MAX);
	ctx->polls = ctx->batch;
}

static int slow_path(struct rdmamsg *ctx)
{
	struct epoll_event ev[16];
	int n = epoll_wait(ctx->loop.epfd, ev, 16, 0);

	if (unlikely(n < 0 && errno != EINTR)) {
		n = -errno;
		ctx->loop.lost = true;
		return rdmamsg__fail(n, "%s", rdmamsg__loop_text(n));
	}
	return handle_all(ctx, ev, n, true);
}

/* Timers cost no system call. The slow path does, so it is taken rarely. */
static int after_batch(struct rdmamsg *ctx)
{
	const uint64_t now = rdmamsg__now_ns(), passed = now - ctx->batch_at;
	int n, ret;

	ctx->batch_at = now;
	set_batch(ctx, passed);
	n = rdmamsg__timers_poll(&ctx->loop.timers);
	/* a clock that a test has stopped tells nothing */
	if (passed && now - ctx->slow_at < SLOW_NS)
		return n;
	ctx->slow_at = now;
	ret = slow_path(ctx);
	return ret < 0 && !n ? ret : n + max(ret, 0);
}

/* waits: the slow path follows anyway, if there is no completion */
static int poll_queues(struct rdmamsg *ctx, bool waits)
{
	int ret = rdmamsg__ctx_check(ctx), n;

	if (ret)
		return ret;
	if (rdmamsg__in_callback(ctx))
		return rdmamsg__deadlock(ctx, "rdmamsg_poll");
	rdmamsg__enter(ctx);
	n = rdmamsg__cq_poll(ctx, 16);
	/* a completion takes longer than an empty poll, so it counts as more */
	if (n || !waits)
		ctx->polls -= 1 + 4 * n;
	if (ctx->polls <= 0 && (n || !waits)) {
		ctx->loop.sleeps &= waits;
		ret = after_batch(ctx);
		n = ret < 0 && !n ? ret : n + max(ret, 0);
	}
	rdmamsg__settle(ctx);
	rdmamsg__leave(ctx);
	return n;
}

int rdmamsg_poll(struct rdmamsg *ctx)
{
	return poll_queues(ctx, false);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Reads the clock only once for 64 polls. */
static int spin(struct rdmamsg *ctx)
{
	uint64_t end;
	int n;

	if (!ctx->opts.spin_us || list_empty(&ctx->devices->devs))
		return 0;
	end = now_us() + ctx->opts.spin_us;
	do {
		for (int i = 0; i < 64; i++) {
			n = rdmamsg_poll(ctx);
			if (n)
				return n;
		}
	} while (now_us() < end);
	return 0;
}

/*
 * Polls the queues first, because that costs no system call. Does not sleep
 * after a callback. on_closed or on_writable may come without any event.
 */
int rdmamsg__wait(struct rdmamsg *ctx, int timeout_ms)
{
	uint64_t end = 0;
	int n;

	ctx->loop.told = false;
	if (timeout_ms > 0)
		end = rdmamsg__now_ms() + (uint64_t)timeout_ms;
	for (;;) {
		n = poll_queues(ctx, true);
		if (!n && timeout_ms && !ctx->loop.told)
			n = spin(ctx);
		if (n)
			return n;
		if (!ctx->loop.told)
			n = process(ctx, timeout_ms);
		if (ctx->loop.told)
			return max(n, 1);
		if (n || !timeout_ms)
			return n;
		if (timeout_ms > 0) {
			uint64_t now = rdmamsg__now_ms();

			if (now >= end)
				return 0;
			timeout_ms = (int)(end - now);
		}
	}
}

int rdmamsg_wait(struct rdmamsg *ctx, int timeout_ms)
{
	int n = rdmamsg__ctx_check(ctx);

	if (n)
		return n;
	if (rdmamsg__in_callback(ctx))
		return rdmamsg__deadlock(ctx, "rdmamsg_wait");
	n = rdmamsg__wait(ctx, timeout_ms);
	if (unlikely(n < 0))
		rdmamsg__fail(n, "rdmamsg_wait: %s", rdmamsg__loop_text(n));
	return n;
}

int rdmamsg_run(struct rdmamsg *ctx)
{
	int ret = rdmamsg__ctx_check(ctx);

	/* before taking the stop that is meant for the outer call */
	if (!ret && rdmamsg__in_callback(ctx))
		ret = rdmamsg__deadlock(ctx, "rdmamsg_run");
	while (!ret && !atomic_exchange(&ctx->loop.stop, false)) {
		ret = rdmamsg__wait(ctx, -1);
		if (ret == -EINTR || ret > 0)
			ret = 0;
		if (ret)
			rdmamsg__fail(ret, "rdmamsg_run: %s",
				      rdmamsg__loop_text(ret));
	}
	return ret;
}

int rdmamsg_submit(struct rdmamsg *ctx,
		   void (*fn)(struct rdmamsg *ctx, void *arg), void *arg)
{
	uint32_t ticket;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!fn)
		return rdmamsg__fail(-EINVAL, "rdmamsg_submit: fn is NULL");
	ret = rdmamsg__submit_reserve(&ctx->loop, &ticket);
	if (!ret)
		rdmamsg__submit_fill(&ctx->loop, ticket, fn, arg);
	return ret;
}

int rdmamsg_submit_wait(struct rdmamsg *ctx,
			void (*fn)(struct rdmamsg *ctx, void *arg), void *arg,
			int timeout_ms)
{
	uint32_t ticket;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!fn)
		return rdmamsg__fail(-EINVAL, "rdmamsg_submit_wait: fn is "
				     "NULL");
	ret = rdmamsg__submit_wait(&ctx->loop, timeout_ms, &ticket);
	if (!ret)
		rdmamsg__submit_fill(&ctx->loop, ticket, fn, arg);
	return ret;
}

void rdmamsg_stop(struct rdmamsg *ctx)
{
	if (rdmamsg__ctx_check(ctx))
		return;
	atomic_store(&ctx->loop.stop, true);
	rdmamsg__loop_kick(&ctx->loop);
}
