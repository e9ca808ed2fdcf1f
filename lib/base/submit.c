/* SPDX-License-Identifier: BSD-2-Clause */
/* Work for a loop from other threads. */
#include "base/base.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/stack.h"
#include "base/submit.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define OWN_MS	5000

static int init_room(struct submit *s)
{
	pthread_condattr_t attr;
	int err = pthread_condattr_init(&attr);

	if (err)
		return err;
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	err = pthread_cond_init(&s->room, &attr);
	pthread_condattr_destroy(&attr);
	if (!err)
		(void)pthread_mutex_init(&s->lock, NULL);
	return err;
}

/*
 * The queue is a ring of cells. Each cell has a turn. A writer may fill the
 * cell if turn == ticket. The reader may read it if turn == ticket + 1. Writers
 * take tickets by compare-and-swap. There is one reader.
 */
int rdmamsg__submit_init(struct submit *s, uint32_t depth)
{
	uint32_t size = 2;	/* with one cell, full looks like empty */

	while (size < depth)
		size *= 2;
	s->cells = calloc(size, sizeof(*s->cells));
	if (!s->cells || init_room(s)) {
		free(s->cells);
		s->cells = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < size; i++)
		atomic_init(&s->cells[i].turn, i);
	s->mask = size - 1;
	s->own_ms = OWN_MS;
	atomic_init(&s->reader, pthread_self());
	return 0;
}

void rdmamsg__submit_fini(struct submit *s)
{
	if (!s->cells)
		return;
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->room);
	free(s->cells);
}

static int reserve(struct submit *s, uint32_t *ret_ticket)
{
	uint32_t ticket = atomic_load_explicit(&s->tail, memory_order_relaxed);

	for (;;) {
		struct submit_cell *cell = &s->cells[ticket & s->mask];
		int32_t lead;

		/* pairs with the reader's release, which frees the cell */
		lead = (int32_t)(atomic_load_explicit(&cell->turn,
						      memory_order_acquire) -
				 ticket);
		if (lead < 0)
			return -EAGAIN;
		if (lead > 0)
			ticket = atomic_load_explicit(&s->tail,
						      memory_order_relaxed);
		else if (atomic_compare_exchange_weak_explicit(
				&s->tail, &ticket, ticket + 1,
				memory_order_relaxed, memory_order_relaxed))
			break;
	}
	*ret_ticket = ticket;
	return 0;
}

int rdmamsg__submit_reserve(struct loop *loop, uint32_t *ret_ticket)
{
	int ret = reserve(&loop->submit, ret_ticket);

	return ret ? rdmamsg__fail(ret, "rdmamsg_submit: the queue is full "
				   "(submit_depth)") : 0;
}

static void stop_waiting(void *arg)
{
	struct submit *s = arg;

	atomic_fetch_sub(&s->waiting, 1);
	pthread_mutex_unlock(&s->lock);
}

static struct timespec after(int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000L;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

/* Returns 0, or -EAGAIN if the queue is full for ms. ms < 0: without limit. */
static int wait_for(struct submit *s, int ms, uint32_t *ret_ticket)
{
	struct timespec end = after(max(ms, 0));
	int ret, err = 0;

	pthread_mutex_lock(&s->lock);
	/* pairs with the reader's addition of 0, behind the cells it frees */
	atomic_fetch_add(&s->waiting, 1);
	pthread_cleanup_push(stop_waiting, s);
	while ((ret = reserve(s, ret_ticket)) && !err)
		err = ms < 0 ? pthread_cond_wait(&s->room, &s->lock) :
			       pthread_cond_timedwait(&s->room, &s->lock, &end);
	pthread_cleanup_pop(1);
	return ret;
}

static void wake(struct submit *s)
{
	if (!atomic_fetch_add(&s->waiting, 0))
		return;
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->room);
	pthread_mutex_unlock(&s->lock);
}

static bool is_reader(struct submit *s)
{
	return pthread_equal(atomic_load(&s->reader), pthread_self());
}

/* Returns true if this thread is in a call that runs callbacks. */
static bool runs_callbacks(const struct loop *loop)
{
	const void *frame = rdmamsg__loop_frame(loop);

	return frame &&
	       rdmamsg__on_this_stack(__builtin_frame_address(0), frame);
}

/*
 * The thread that opened the context, or handled its events last, may have
 * passed the context on. The next thread is unknown until it handles events.
 */
static int wait_as_reader(struct submit *s, uint32_t *ret_ticket)
{
	int ret = wait_for(s, s->own_ms, ret_ticket);

	if (!ret || !is_reader(s))
		return ret;
	return rdmamsg__fail(-EDEADLK, "rdmamsg_submit_wait: the queue is full "
			     "(submit_depth), this thread opened the context "
			     "or handled its events last, and no other has "
			     "done so for %d ms", s->own_ms);
}

int rdmamsg__submit_wait(struct loop *loop, int timeout_ms,
			 uint32_t *ret_ticket)
{
	struct submit *s = &loop->submit;
	int left = timeout_ms, ret = reserve(s, ret_ticket);

	if (!ret)
		return 0;
	if (runs_callbacks(loop))
		return rdmamsg__fail(-EDEADLK, "rdmamsg_submit_wait: the queue "
				     "is full (submit_depth), and its own "
				     "thread would wait for itself");
	if (is_reader(s) && (left < 0 || left > s->own_ms)) {
		ret = wait_as_reader(s, ret_ticket);
		if (ret != -EAGAIN)
			return ret;
		left = left < 0 ? left : left - s->own_ms;
	}
	if (!wait_for(s, left, ret_ticket))
		return 0;
	return rdmamsg__fail(-ETIMEDOUT, "rdmamsg_submit_wait: the queue was "
			     "full (submit_depth) for %d ms", timeout_ms);
}

void rdmamsg__submit_fill(struct loop *loop, uint32_t ticket,
			  void (*fn)(struct rdmamsg *ctx, void *arg), void *arg)
{
	struct submit *s = &loop->submit;
	struct submit_cell *cell = &s->cells[ticket & s->mask];

	cell->fn = fn;
	cell->arg = arg;
	/* pairs with the reader's acquire, which then sees fn and arg */
	atomic_store_explicit(&cell->turn, ticket + 1, memory_order_release);
	/*
	 * One kick serves many submissions. Pairs with the reader's exchange,
	 * which clears the flag before the reader looks at cells.
	 */
	if (!atomic_exchange(&s->kicked, true))
		rdmamsg__loop_kick(loop);
}

void rdmamsg__mail_post(struct loop *loop, struct mail *mail)
{
	pthread_mutex_lock(&loop->mail_lock);
	list_add_tail(&loop->mail, &mail->node);
	pthread_mutex_unlock(&loop->mail_lock);
	rdmamsg__loop_kick(loop);
}

static struct mail *mail_take(struct loop *loop)
{
	struct mail *mail = NULL;

	pthread_mutex_lock(&loop->mail_lock);
	if (!list_empty(&loop->mail)) {
		mail = list_first(&loop->mail, struct mail, node);
		list_del(&mail->node);
	}
	pthread_mutex_unlock(&loop->mail_lock);
	return mail;
}

static int run(struct loop *loop)
{
	struct submit *s = &loop->submit;
	struct mail *mail;
	uint64_t count;
	uint32_t budget = s->mask + 1;
	int n = 0;

	/* count rdmamsg_stop(), or a wait would sleep on */
	if (read(loop->eventfd, &count, sizeof(count)) > 0 &&
	    atomic_load(&loop->stop))
		n++;
	(void)atomic_exchange(&s->kicked, false);
	while ((mail = mail_take(loop))) {
		mail->fn(loop->ctx, mail);
		n++;
	}
	for (;;) {
		struct submit_cell *cell = &s->cells[s->head & s->mask];
		void (*fn)(struct rdmamsg *ctx, void *arg);
		void *arg;

		if (atomic_load_explicit(&cell->turn, memory_order_acquire) !=
		    s->head + 1)
			return n;
		if (!budget--) {
			/*
			 * fn may submit again, so let other events have a turn
			 */
			rdmamsg__loop_kick(loop);
			return n;
		}
		fn = cell->fn;
		arg = cell->arg;
		atomic_store_explicit(&cell->turn, s->head + s->mask + 1,
				      memory_order_release);
		s->head++;
		rdmamsg__tell(loop, fn, loop->ctx, arg);
		n++;
	}
}

int rdmamsg__submit_run(struct loop *loop)
{
	int n = run(loop);

	wake(&loop->submit);
	return n;
}
