/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device's thread completes one-sided operations while the program does
 * something else. A doorbell, a socket or a timer wakes the thread. If the
 * program polls, the device is covered. Then polls make progress, peers ring no
 * doorbells, and the thread checks every millisecond that the program still
 * polls. If such a program leaves the thread no processor, the polls also do
 * the thread's work.
 */
#include "soft/fabric/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/util.h"
#include "soft/fabric/denied.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/memfd.h"
#include "soft/fabric/memory.h"
#include "soft/fabric/upward.h"
#include "soft/fabric/wire.h"

#define REST_NS	20000000ull	/* for a listener that cannot accept */
#define ROUNDS	64		/* of progress, then unlock */
#define EVENTS	16		/* that a poll handles for the thread */

uint64_t soft_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- descriptors ------------------------------------------------------ */

int soft_watch_add(struct soft_dev *dev, struct soft_watch *w, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (fd >= dev->watch_room) {
		int room = 2 * fd + 16;
		struct soft_watch **t = realloc(dev->watch, (size_t)room *
						sizeof(struct soft_watch *));

		if (!t)
			return -ENOMEM;
		memset(t + dev->watch_room, 0,
		       (size_t)(room - dev->watch_room) *
		       sizeof(struct soft_watch *));
		dev->watch = t;
		dev->watch_room = room;
	}
	if (epoll_ctl(dev->epfd, EPOLL_CTL_ADD, fd, &ev))
		return -errno;
	w->fd = fd;
	dev->watch[fd] = w;
	return 0;
}

void soft_watch_mod(struct soft_dev *dev, struct soft_watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = w->fd };

	(void)epoll_ctl(dev->epfd, EPOLL_CTL_MOD, w->fd, &ev);
}

void soft_watch_del(struct soft_dev *dev, struct soft_watch *w)
{
	if (w->fd < 0 || w->fd >= dev->watch_room || dev->watch[w->fd] != w)
		return;
	(void)epoll_ctl(dev->epfd, EPOLL_CTL_DEL, w->fd, NULL);
	dev->watch[w->fd] = NULL;
}

int soft_spare_accept(struct soft_dev *dev, int listener)
{
	int fd = fd_high(accept4(listener, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK));

	if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || dev->spare < 0)
		return fd;
	close(dev->spare);
	dev->spare = -1;
	return fd_high(accept4(listener, NULL, NULL,
			       SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void soft_spare_put(struct soft_dev *dev, int fd)
{
	int err = errno;

	if (fd >= 0)
		close(fd);
	if (dev->spare < 0)
		dev->spare = fd_copy(dev->bell);
	errno = err;
}

/* ---- timers ----------------------------------------------------------- */

/* An early timerfd only costs a wake-up. */
static void timer_arm(struct soft_dev *dev, const struct soft_timer *t)
{
	struct itimerspec its = { 0 };

	if (dev->timer_armed && dev->timer_armed <= t->at)
		return;
	its.it_value.tv_sec = (time_t)(t->at / 1000000000u);
	its.it_value.tv_nsec = (long)(t->at % 1000000000u);
	(void)timerfd_settime(dev->timerfd, TFD_TIMER_ABSTIME, &its, NULL);
	dev->timer_armed = t->at;
}

static struct soft_timer *timer_first(const struct soft_dev *dev)
{
	struct soft_timer *first = NULL;

	for (int i = 0; i < SOFT_TIMER_LISTS; i++) {
		struct soft_timer *t;

		if (list_empty(&dev->timers[i]))
			continue;
		t = list_first(&dev->timers[i], struct soft_timer, node);
		if (!first || t->at < first->at)
			first = t;
	}
	return first;
}

/* Timers with the same delay expire in the order in which they were set. */
void soft_timer_set(struct soft_dev *dev, struct soft_timer *t, uint64_t ns)
{
	uint64_t delay = max(ns, (uint64_t)1);
	struct list *head = &dev->timers[63 - __builtin_clzll(delay)], *n;

	list_del(&t->node);
	t->at = soft_now() + delay;
	for (n = head->prev; n != head; n = n->prev)
		if (list_entry(n, struct soft_timer, node)->at <= t->at)
			break;
	list_add(n, &t->node);
	timer_arm(dev, t);
}

void soft_timer_stop(struct soft_timer *t)
{
	list_del(&t->node);
}

static void on_rested(struct soft_dev *dev, struct soft_timer *t)
{
	for (int fd = 0; fd < dev->watch_room; fd++)
		if (dev->watch[fd] && dev->watch[fd]->rests) {
			dev->watch[fd]->rests = false;
			soft_watch_mod(dev, dev->watch[fd], EPOLLIN);
		}
}

void soft_watch_rest(struct soft_dev *dev, struct soft_watch *w)
{
	if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
		return;
	w->rests = true;
	soft_watch_mod(dev, w, 0);
	dev->rest.fn = on_rested;
	soft_timer_set(dev, &dev->rest, REST_NS);
}

static void on_timer(struct soft_dev *dev, struct soft_watch *w,
		     uint32_t events)
{
	struct soft_timer *t;
	uint64_t n, now;

	/* an answer that arrived before the deadline is in time */
	(void)soft_fabric_up->progress(dev);
	now = soft_now();
	if (read(w->fd, &n, sizeof(n)) == sizeof(n))
		dev->timer_armed = 0;
	while ((t = timer_first(dev)) && t->at <= now) {
		list_del(&t->node);
		t->fn(dev, t);
	}
	if (t)
		timer_arm(dev, t);
}

/* ---- progress --------------------------------------------------------- */

/* The doorbell is edge-triggered and never read. */
static void on_bell(struct soft_dev *dev, struct soft_watch *w, uint32_t events)
{
}

uint32_t soft_sleeps(const struct soft_dev *dev)
{
	return dev->covered ? 0 :
	       SOFT_SLEEPS | (dev->heeds ? SOFT_SLEEPS_LIGHTLY : 0) |
	       (dev->attended ? SOFT_SLEEPS_NEAR : 0);
}

void soft_heed(struct soft_dev *dev)
{
	if (dev->heeds)
		return;
	dev->heeds = true;
	/* the thread stores soft_sleeps() for the peers */
	soft_ring_bell(dev->bell);
}

static void set_sleeping(struct soft_dev *dev)
{
	uint32_t sleeping = soft_sleeps(dev);
	struct list *n;

	list_for_each(n, &dev->wires) {
		struct soft_wire *w = list_entry(n, struct soft_wire, node);

		if (w->rx.shm->sleeping != sleeping)
			atomic_store_explicit(&w->rx.shm->sleeping, sleeping,
					      memory_order_relaxed);
	}
}

void soft_cover(struct soft_dev *dev)
{
	dev->covered = true;
	set_sleeping(dev);
	if (unlikely(dev->net))
		soft_fabric_up->net_watch(dev, false);
	/* the thread begins to check once a millisecond */
	soft_ring_bell(dev->bell);
}

/*
 * This side stores `sleeping` and then loads the producer's tail. The producer
 * stores its tail and then loads `sleeping`, in soft_bells(). Both sides have a
 * fence in between, so at least one side sees the store of the other.
 */
static bool fall_asleep(struct soft_dev *dev)
{
	dev->covered = false;
	if (unlikely(dev->net))
		soft_fabric_up->net_watch(dev, true);
	for (int i = 0; i < ROUNDS; i++) {
		set_sleeping(dev);
		atomic_thread_fence(memory_order_seq_cst);
		if (!soft_fabric_up->progress(dev))
			return true;
	}
	return false;
}

void soft_uncover(struct soft_dev *dev)
{
	/* if more records arrive, the thread continues */
	if (!fall_asleep(dev))
		soft_ring_bell(dev->bell);
}

bool soft_attend(struct soft_dev *dev)
{
	/* copying is the thread's work, beside the program */
	dev->attended = !dev->copied;
	dev->copied = false;
	dev->idle_polls = 0;
	return fall_asleep(dev);
}

void soft_attend_end(struct soft_dev *dev)
{
	dev->attended = false;
	/* what comes meanwhile needs no doorbell */
	for (int i = 0; i < ROUNDS && soft_fabric_up->progress(dev); i++)
		;
	soft_uncover(dev);
}

static void work(struct soft_dev *dev, uint32_t *polls)
{
	if (dev->covered && dev->polls != *polls) {
		*polls = dev->polls;
		return;
	}
	for (int i = 0; i < ROUNDS; i++) {
		if (soft_fabric_up->progress(dev))
			continue;
		soft_uncover(dev);
		return;
	}
	/* more records arrive; unlock for the program, then continue */
	dev->covered = false;
	soft_ring_bell(dev->bell);
}

/* L */
static void handle(struct soft_dev *dev, const struct epoll_event *ev)
{
	struct soft_watch *w = ev->data.fd < dev->watch_room ?
			       dev->watch[ev->data.fd] : NULL;

	if (w)
		w->fn(dev, w, ev->events);
}

/*
 * A program of real-time priority can keep the thread from its processor for
 * ever, and Valgrind without --fair-sched=yes can do so for many seconds. The
 * thread may fetch the same event as a poll, so each handler expects to find
 * nothing. But the doorbell is edge-triggered, and only the thread acts on it.
 * So a poll that takes it rings it again.
 */
void soft_stand_in(struct soft_dev *dev)
{
	struct epoll_event ev;
	bool rung = false;

	if (dev->rounds != dev->rounds_seen) {
		dev->rounds_seen = dev->rounds;
		return;
	}
	for (int i = 0; i < EVENTS; i++) {
		if (epoll_wait(dev->epfd, &ev, 1, 0) != 1)
			break;
		rung |= ev.data.fd == dev->bell;
		handle(dev, &ev);
	}
	if (rung)
		soft_ring_bell(dev->bell);
}

/*
 * Writes dev->event. Returns 1, 0 or -errno. soft_thread_stop() may cancel it:
 * it and its caller have nothing on their stack that AddressSanitizer would then
 * leave poisoned.
 */
static int wait_for_event(struct soft_dev *dev, int timeout)
{
	int n;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	n = epoll_wait(dev->epfd, &dev->event, 1, timeout);
	if (n < 0)
		n = -errno;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return n;
}

static void *thread(void *arg)
{
	struct soft_dev *dev = arg;
	int timeout = -1;

	/* by soft_thread_stop(), in wait_for_event() */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	(void)pthread_setname_np(pthread_self(), "soft-hca");
	for (;;) {
		/*
		 * one event at a time, because its handler may remove other
		 * watches
		 */
		int n = wait_for_event(dev, timeout);

		soft_lock(dev);
		if (dev->stop || n == -EBADF || n == -EINVAL)
			break;
		dev->rounds++;
		if (n == 1)
			handle(dev, &dev->event);
		work(dev, &dev->polls_seen);
		timeout = dev->covered ? 1 : -1;
		soft_unlock(dev);
	}
	soft_unlock(dev);
	return NULL;
}

static int open_fds(struct soft_dev *dev)
{
	int ret;

	dev->epfd = fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (dev->epfd < 0)
		return -errno;
	dev->bell = fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (dev->bell < 0)
		return -errno;
	dev->near = fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (dev->near < 0)
		return -errno;
	dev->timerfd = fd_high(timerfd_create(CLOCK_MONOTONIC,
					      TFD_NONBLOCK | TFD_CLOEXEC));
	if (dev->timerfd < 0)
		return -errno;
	dev->spare = fd_copy(dev->bell);
	if (dev->spare < 0)
		return -errno;
	dev->probe = soft_memfd_create("soft-probe", SOFT_PROBE);
	dev->bell_watch.fn = on_bell;
	dev->timer_watch.fn = on_timer;
	dev->listener.fn = soft_accept;
	ret = soft_watch_add(dev, &dev->bell_watch, dev->bell);
	if (!ret)
		soft_watch_mod(dev, &dev->bell_watch, EPOLLIN | EPOLLET);
	if (!ret)
		ret = soft_watch_add(dev, &dev->timer_watch, dev->timerfd);
	if (!ret)
		ret = soft_watch_add(dev, &dev->listener, dev->listener.fd);
	return ret;
}

static void close_fds(struct soft_dev *dev)
{
	if (dev->timerfd >= 0)
		close(dev->timerfd);
	if (dev->spare >= 0)
		close(dev->spare);
	if (dev->probe >= 0)
		close(dev->probe);
	if (dev->near >= 0)
		close(dev->near);
	if (dev->bell >= 0)
		close(dev->bell);
	if (dev->epfd >= 0)
		close(dev->epfd);
}

int soft_thread_start(struct soft_dev *dev)
{
	sigset_t all, old;
	int ret = open_fds(dev);

	if (ret)
		goto err;
	/* only the program's own threads may handle signals */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = -pthread_create(&dev->thread, NULL, thread, dev);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!ret)
		return 0;
err:
	close_fds(dev);
	return soft_denied(ret);
}

void soft_thread_stop(struct soft_dev *dev)
{
	soft_lock(dev);
	dev->stop = true;
	soft_unlock(dev);
	soft_ring_bell(dev->bell);
	/* nothing wakes the thread if the program has closed the doorbell */
	if (fcntl(dev->bell, F_GETFD) < 0 || fcntl(dev->epfd, F_GETFD) < 0)
		(void)pthread_cancel(dev->thread);
	(void)pthread_join(dev->thread, NULL);
	soft_watch_del(dev, &dev->listener);
	close_fds(dev);
}
