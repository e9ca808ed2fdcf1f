/* SPDX-License-Identifier: BSD-2-Clause */
/* The device context that all ids share. librdmacm opens a device once, too. */
#include "soft/cma/cma.h"

#include <stdlib.h>

#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"

/* A context, and the number of ids that use it. */
struct cma_verbs {
	struct cma_verbs *next;
	struct ibv_context *verbs;
	int ids;
};

/* New ids use the first context. The other contexts have lost their device. */
static pthread_mutex_t verbs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cma_verbs *contexts;
static int verbs_refs;

static void verbs_close(struct cma_verbs **at)
{
	struct cma_verbs *old = *at;

	*at = old->next;
	(void)soft_close_device(old->verbs);
	free(old);
}

/* Closes the contexts without ids, except the first. */
static void verbs_sweep(void)
{
	struct cma_verbs **at = contexts ? &contexts->next : &contexts;

	while (*at) {
		if ((*at)->ids)
			at = &(*at)->next;
		else
			verbs_close(at);
	}
}

static void verbs_renew(void)
{
	struct ibv_device **list;
	struct cma_verbs *fresh;

	if (contexts && (!soft_ctx(contexts->verbs)->removed ||
			 soft_dev_absent()))
		return;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return;
	list = soft_get_device_list(NULL);
	if (list && list[0])
		fresh->verbs = soft_ctx_open(list[0]);
	else
		errno = ENODEV;
	soft_free_device_list(list);
	if (!fresh->verbs) {
		free(fresh);
		return;
	}
	fresh->next = contexts;
	contexts = fresh;
	verbs_sweep();
}

bool cma_verbs_get(void)
{
	bool there;

	(void)pthread_mutex_lock(&verbs_lock);
	verbs_renew();
	there = contexts;
	verbs_refs += there;
	(void)pthread_mutex_unlock(&verbs_lock);
	return there;
}

void cma_verbs_put(void)
{
	(void)pthread_mutex_lock(&verbs_lock);
	if (!--verbs_refs)
		while (contexts)
			verbs_close(&contexts);
	(void)pthread_mutex_unlock(&verbs_lock);
}

void cma_verbs_take(struct cma_id *id)
{
	if (id->on)
		return;
	(void)pthread_mutex_lock(&verbs_lock);
	verbs_renew();
	id->on = contexts;
	id->on->ids++;
	id->rdma.verbs = id->on->verbs;
	(void)pthread_mutex_unlock(&verbs_lock);
}

void cma_verbs_let_go(struct cma_id *id)
{
	if (!id->on)
		return;
	(void)pthread_mutex_lock(&verbs_lock);
	id->on->ids--;
	verbs_sweep();
	(void)pthread_mutex_unlock(&verbs_lock);
}
