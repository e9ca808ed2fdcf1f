/* SPDX-License-Identifier: BSD-2-Clause */
/* The timers of a context: a binary heap and one timerfd. */
#include "base/base.h"
#include "base/fd.h"
#include "base/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

int rdmamsg__timers_init(struct timers *ts)
{
	ts->fd = fd_high(timerfd_create(CLOCK_MONOTONIC,
					TFD_NONBLOCK | TFD_CLOEXEC));
	return ts->fd < 0 ? -errno : 0;
}

void rdmamsg__timers_fini(struct timers *ts)
{
	if (ts->fd >= 0)
		close(ts->fd);
	free(ts->heap);
}

void rdmamsg__timer_init(struct timer *t, void (*fn)(struct timer *t))
{
	t->pos = -1;
	t->fn = fn;
}

int rdmamsg__timers_reserve(struct timers *ts, int n)
{
	int room = ts->promised + n;
	struct timer **heap;

	if (room > ts->room) {
		room = max(room, 2 * ts->room);
		heap = realloc(ts->heap, (size_t)room * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		ts->heap = heap;
		ts->room = room;
	}
	ts->promised += n;
	return 0;
}

void rdmamsg__timers_release(struct timers *ts, int n)
{
	ts->promised -= n;
}

static void place(struct timers *ts, struct timer *t, int pos)
{
	ts->heap[pos] = t;
	t->pos = pos;
}

static void up(struct timers *ts, struct timer *t)
{
	int pos = t->pos;

	while (pos > 0 && ts->heap[(pos - 1) / 2]->when > t->when) {
		place(ts, ts->heap[(pos - 1) / 2], pos);
		pos = (pos - 1) / 2;
	}
	place(ts, t, pos);
}

static void down(struct timers *ts, struct timer *t)
{
	int pos = t->pos, child;

	while ((child = 2 * pos + 1) < ts->count) {
		if (child + 1 < ts->count &&
		    ts->heap[child + 1]->when < ts->heap[child]->when)
			child++;
		if (ts->heap[child]->when >= t->when)
			break;
		place(ts, ts->heap[child], pos);
		pos = child;
	}
	place(ts, t, pos);
}

static uint64_t next(const struct timers *ts)
{
	return ts->count ? ts->heap[0]->when : 0;
}

/* 0: never */
static void set_fd(struct timers *ts, uint64_t when)
{
	struct itimerspec its = { 0 };

	if (when) {
		its.it_value.tv_sec = (time_t)(when / 1000000);
		its.it_value.tv_nsec = (long)(when % 1000000) * 1000 + 1;
	}
	(void)timerfd_settime(ts->fd, TFD_TIMER_ABSTIME, &its, NULL);
	ts->armed = when;
}

/* Waking too early is harmless. Waking too late is not. */
static void arm(struct timers *ts)
{
	const uint64_t when = next(ts);

	if (when && (!ts->armed || ts->armed > when))
		set_fd(ts, when);
}

static void set_to(struct timers *ts, struct timer *t, uint64_t when)
{
	rdmamsg__timer_stop(ts, t);
	assert(ts->count < ts->room);
	t->when = when;
	t->pos = ts->count++;
	up(ts, t);
	arm(ts);
}

void rdmamsg__timer_set_us(struct timers *ts, struct timer *t, uint64_t us)
{
	set_to(ts, t, rdmamsg__now_us() + us);
}

void rdmamsg__timer_by(struct timers *ts, struct timer *t, uint64_t us)
{
	if (t->pos < 0 || t->when > us)
		set_to(ts, t, us);
}

void rdmamsg__timer_stop(struct timers *ts, struct timer *t)
{
	struct timer *last;

	if (t->pos < 0)
		return;
	last = ts->heap[--ts->count];
	if (last != t) {
		place(ts, last, t->pos);
		up(ts, last);
		down(ts, last);
	}
	t->pos = -1;
}

static int run_until(struct timers *ts, uint64_t now)
{
	int n = 0;

	while (ts->count && ts->heap[0]->when <= now) {
		struct timer *t = ts->heap[0];

		rdmamsg__timer_stop(ts, t);
		/* for those that are left, if a callback does not return */
		arm(ts);
		t->fn(t);
		n++;
	}
	return n;
}

int rdmamsg__timers_poll(struct timers *ts)
{
	return run_until(ts, rdmamsg__now_us());
}

int rdmamsg__timers_run(struct timers *ts)
{
	uint64_t now = rdmamsg__now_us(), ticks;
	int n;

	(void)!read(ts->fd, &ticks, sizeof(ticks));
	ts->armed = 0;
	n = run_until(ts, now);
	if (ts->armed && ts->armed <= now)
		set_fd(ts, next(ts));
	arm(ts);
	return n;
}
