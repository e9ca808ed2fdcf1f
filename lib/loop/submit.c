/* SPDX-License-Identifier: BSD-2-Clause */
/* Work for a context from other threads. */
#include "base/base.h"
#include "base/list.h"
#include "loop/ctx.h"
#include "loop/submit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/*
 * The queue is a ring of cells with a turn each: cell i may be written when
 * its turn is the writer's ticket and read when it is ticket + 1. Writers
 * take tickets by compare-and-swap; there is one reader.
 */
int rdmamsg__submit_init(struct submit *s, uint32_t depth)
{
	uint32_t size = 2;	/* in a ring of one, full looks like empty */

	while (size < depth)
		size *= 2;
	s->cells = calloc(size, sizeof(*s->cells));
	if (!s->cells)
		return -ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		atomic_init(&s->cells[i].turn, i);
	s->mask = size - 1;
	return 0;
}

void rdmamsg__submit_fini(struct submit *s)
{
	free(s->cells);
}

void rdmamsg__kick(struct rdmamsg *ctx)
{
	uint64_t one = 1;

	/* cannot block: nobody adds up to 2^64-2 */
	(void)!write(ctx->eventfd, &one, sizeof(one));
}

int rdmamsg__submit_reserve(struct rdmamsg *ctx, uint32_t *ret_ticket)
{
	struct submit *s = &ctx->submit;
	uint32_t ticket = atomic_load_explicit(&s->tail, memory_order_relaxed);

	for (;;) {
		struct submit_cell *cell = &s->cells[ticket & s->mask];
		int32_t lead;

		/* pairs with the reader's release: the cell is free again */
		lead = (int32_t)(atomic_load_explicit(&cell->turn,
						      memory_order_acquire) -
				 ticket);
		if (lead < 0)
			return rdmamsg__fail(-EAGAIN, "rdmamsg_submit: the "
					     "queue is full (submit_depth)");
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

void rdmamsg__submit_fill(struct rdmamsg *ctx, uint32_t ticket,
			  void (*fn)(struct rdmamsg *ctx, void *arg), void *arg)
{
	struct submit *s = &ctx->submit;
	struct submit_cell *cell = &s->cells[ticket & s->mask];

	cell->fn = fn;
	cell->arg = arg;
	/* pairs with the reader's acquire: fn and arg are there */
	atomic_store_explicit(&cell->turn, ticket + 1, memory_order_release);
	/*
	 * One kick for many submissions. Pairs with the reader's exchange: it
	 * clears the flag before it looks at the cells.
	 */
	if (!atomic_exchange(&s->kicked, true))
		rdmamsg__kick(ctx);
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
	ret = rdmamsg__submit_reserve(ctx, &ticket);
	if (!ret)
		rdmamsg__submit_fill(ctx, ticket, fn, arg);
	return ret;
}

void rdmamsg__mail_post(struct rdmamsg *ctx, struct mail *mail)
{
	pthread_mutex_lock(&ctx->mail_lock);
	list_add_tail(&ctx->mail, &mail->node);
	pthread_mutex_unlock(&ctx->mail_lock);
	rdmamsg__kick(ctx);
}

static struct mail *mail_take(struct rdmamsg *ctx)
{
	struct mail *mail = NULL;

	pthread_mutex_lock(&ctx->mail_lock);
	if (!list_empty(&ctx->mail)) {
		mail = list_first(&ctx->mail, struct mail, node);
		list_del(&mail->node);
	}
	pthread_mutex_unlock(&ctx->mail_lock);
	return mail;
}

int rdmamsg__submit_run(struct rdmamsg *ctx)
{
	struct submit *s = &ctx->submit;
	struct mail *mail;
	uint64_t count;
	uint32_t budget = s->mask + 1;
	int n = 0;

	/* rdmamsg_stop() is an event: a wait that sleeps on would miss it */
	if (read(ctx->eventfd, &count, sizeof(count)) > 0 &&
	    atomic_load(&ctx->stop))
		n++;
	(void)atomic_exchange(&s->kicked, false);
	while ((mail = mail_take(ctx))) {
		mail->fn(ctx, mail);
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
			/* fn may submit again: let others have a turn */
			rdmamsg__kick(ctx);
			return n;
		}
		fn = cell->fn;
		arg = cell->arg;
		atomic_store_explicit(&cell->turn, s->head + s->mask + 1,
				      memory_order_release);
		s->head++;
		ctx->in_callback++;
		fn(ctx, arg);
		ctx->in_callback--;
		n++;
	}
}
