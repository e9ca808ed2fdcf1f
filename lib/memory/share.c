/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared messages: their references, and their way back to the context. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/submit.h"
#include "device/device.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "memory/stretch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- after the context ------------------------------------------------ */

/* The memory of the message stays when the context gives it back. */
static void outlive(struct rdmamsg_msg *msg)
{
	struct loose_msg *l = (struct loose_msg *)msg;

	if (msg->kind == MSG_POOL) {
		rdmamsg__stretch_keep(&msg->slab->stretch);
		return;
	}
	list_del(&l->node);
	if (l->large) {
		rdmamsg__stretch_keep(&l->large->stretch);
		rdmamsg__large_free(l->large);
	}
}

/* The last reference is gone, and so is the context. Any thread. */
static void bury(struct rdmamsg_msg *msg)
{
	struct loose_msg *l = (struct loose_msg *)msg;

	if (msg->kind == MSG_POOL) {
		if (rdmamsg__stretch_leave(&msg->slab->stretch))
			rdmamsg__slab_bury(msg->slab);
		return;
	}
	if (l->large && rdmamsg__stretch_leave(&l->large->stretch))
		free(l->large);
	free(l);
}

/* ---- the shares of a context ------------------------------------------ */

static struct share *take_returned(struct shares *all)
{
	struct share *s;

	pthread_mutex_lock(&all->lock);
	s = all->returned;
	all->returned = NULL;
	all->posted = false;
	pthread_mutex_unlock(&all->lock);
	return s;
}

void rdmamsg__shares_drain(struct rdmamsg *ctx)
{
	struct shares *all = ctx->memory->shares;
	struct share *s = take_returned(all), *next;

	for (; s; s = next) {
		next = s->next;
		all->given(s);
	}
}

static void drain_mail(struct rdmamsg *ctx, struct mail *mail)
{
	rdmamsg__shares_drain(ctx);
}

int rdmamsg__shares_open(struct rdmamsg *ctx, void (*given)(struct share *s))
{
	struct shares *all = rdmamsg__object_new(sizeof(*all));

	if (!all)
		return -ENOMEM;
	pthread_mutex_init(&all->lock, NULL);
	list_init(&all->live);
	all->ctx = ctx;
	all->users = 1;
	all->given = given;
	all->mail.fn = drain_mail;
	all->magic = SHARES_MAGIC;
	ctx->memory->shares = all;
	return 0;
}

static void shares_free(struct shares *all)
{
	pthread_mutex_destroy(&all->lock);
	rdmamsg__object_free(all, sizeof(*all));
}

/* Drops a user. The caller has the lock, which the call gives back. */
static void unlock_unuse(struct shares *all)
{
	bool last = !--all->users;

	pthread_mutex_unlock(&all->lock);
	if (last)
		shares_free(all);
}

/* The caller has the lock. */
static void close_one(struct share *s)
{
	struct rdmamsg_msg *msg = s->msg;

	if (!s->given) {
		outlive(msg);
		return;
	}
	/* on_message was left, and the buffer is that of its slot again */
	msg->lent = MSG_OURS;
	list_del(&s->node);
	free(s);
	msg->dev->ctx->memory->shares->users--;
}

void rdmamsg__shares_close(struct rdmamsg *ctx)
{
	struct shares *all = ctx->memory->shares;
	struct list *n, *t;

	pthread_mutex_lock(&all->lock);
	while (all->returned) {
		pthread_mutex_unlock(&all->lock);
		rdmamsg__shares_drain(ctx);
		pthread_mutex_lock(&all->lock);
	}
	all->ctx = NULL;
	list_for_each_safe(n, t, &all->live)
		close_one(list_entry(n, struct share, node));
	pthread_mutex_unlock(&all->lock);
}

void rdmamsg__shares_free(struct rdmamsg *ctx)
{
	struct shares *all = ctx->memory->shares;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	unlock_unuse(all);
}

/* ---- a share ---------------------------------------------------------- */

int rdmamsg__share_new(struct rdmamsg_msg *msg)
{
	struct shares *all = msg->dev->ctx->memory->shares;
	struct share *s = calloc(1, sizeof(*s));

	if (!s)
		return rdmamsg__fail(-ENOMEM, "no memory for a reference");
	s->owner = all;
	s->msg = msg;
	s->in_place = msg->lent == MSG_IN_PLACE;
	s->lent_by = s->in_place ? NULL : msg->lent_by;
	atomic_init(&s->refs, 2);
	atomic_init(&s->ops, 0);
	pthread_mutex_lock(&all->lock);
	list_add_tail(&all->live, &s->node);
	all->users++;
	pthread_mutex_unlock(&all->lock);
	msg->share = s;
	msg->lent = MSG_SHARED;
	return 0;
}

void rdmamsg__share_end(struct share *s)
{
	struct shares *all = s->owner;

	pthread_mutex_lock(&all->lock);
	list_del(&s->node);
	free(s);
	unlock_unuse(all);
}

int rdmamsg__share_check(const struct share *s)
{
	if (s->owner->magic == SHARES_MAGIC)
		return 0;
	return rdmamsg__fail(-ECHILD, "this process was forked from the one "
			     "that has the message, which cannot be used here");
}

bool rdmamsg__share_drop(struct share *s)
{
	/* release: this thread's reads come before the buffer's next use */
	uint32_t before = atomic_fetch_sub_explicit(&s->refs, 1,
						    memory_order_acq_rel);

	if (before)
		return before == 1;
	atomic_fetch_add(&s->refs, 1);
	log_error("rdmamsg_msg_free: message %p has been freed more often than "
		  "referenced", (void *)s->msg);
	return false;
}

void rdmamsg__share_return(struct share *s)
{
	struct shares *all = s->owner;
	struct rdmamsg_msg *msg = s->msg;

	pthread_mutex_lock(&all->lock);
	if (!all->ctx) {
		list_del(&s->node);
		free(s);
		bury(msg);
		unlock_unuse(all);
		return;
	}
	s->next = all->returned;
	all->returned = s;
	/* with the lock, so that the context cannot close meanwhile */
	if (!all->posted)
		rdmamsg__mail_post(&all->ctx->loop, &all->mail);
	all->posted = true;
	pthread_mutex_unlock(&all->lock);
}

bool rdmamsg__share_is_alone(const struct share *s)
{
	/* acquire: what others have read comes before what the caller writes */
	return atomic_load_explicit(&s->refs, memory_order_acquire) == 1 &&
	       !atomic_load_explicit(&s->ops, memory_order_acquire);
}

void rdmamsg__share_kept(struct share *s, struct lent *by)
{
	s->in_place = false;
	s->lent_by = by;
	s->msg->dev->msgs_out++;
	/* the program may have freed it in on_message */
	if (s->given)
		s->owner->given(s);
}

void rdmamsg__slot_put(struct rdmamsg_msg *msg)
{
	if (msg->lent != MSG_SHARED)
		rdmamsg__msg_put(msg);
	else if (msg->dev->ctx->memory->shares->ctx)
		rdmamsg__share_kept(msg->share, NULL);
	/* else the context has closed, and the message has outlived it */
}
