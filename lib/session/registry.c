/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sessions of this process that can go on over another lane. A request for
 * a lane may come to a listener of another context, and so of another thread.
 */
#include "base/list.h"
#include "session/ep.h"
#include "session/resume.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list sessions = { &sessions, &sessions };

void rdmamsg__registry_add(struct resume *r)
{
	pthread_mutex_lock(&lock);
	list_add_tail(&sessions, &r->node);
	pthread_mutex_unlock(&lock);
}

void rdmamsg__registry_del(struct resume *r)
{
	pthread_mutex_lock(&lock);
	list_del(&r->node);
	pthread_mutex_unlock(&lock);
}

int rdmamsg__registry_find(const uint8_t session[static 16],
			   int (*fn)(struct rdmamsg *ctx, void *arg),
			   void *arg)
{
	struct list *n;
	int ret = -ENOENT;

	pthread_mutex_lock(&lock);
	list_for_each(n, &sessions) {
		const struct resume *r = list_entry(n, struct resume, node);

		if (memcmp(r->session, session, sizeof(r->session)))
			continue;
		ret = fn(r->ep->ctx, arg);
		break;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}
