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
#include <sys/random.h>

#define BUCKETS	4096u			/* a power of two */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct list buckets[BUCKETS];
static uint64_t seed[3];

static void begin(void)
{
	for (uint32_t i = 0; i < BUCKETS; i++)
		list_init(&buckets[i]);
	(void)!getrandom(seed, sizeof(seed), GRND_NONBLOCK);
	for (int i = 0; i < 3; i++)
		seed[i] |= 1;
}

/*
 * Peers choose sessions, and any address can ask for one. Without the seed they
 * do not know which share a bucket.
 */
static struct list *bucket_of(const uint8_t session[static 16])
{
	uint64_t word[2], h;

	pthread_once(&once, begin);
	memcpy(word, session, sizeof(word));
	h = (word[0] ^ seed[2]) * seed[0];
	h = (h ^ h >> 32 ^ word[1]) * seed[1];
	return &buckets[h >> 32 & (BUCKETS - 1)];
}

void rdmamsg__registry_add(struct resume *r)
{
	struct list *bucket = bucket_of(r->session);

	pthread_mutex_lock(&lock);
	list_add_tail(bucket, &r->node);
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
	struct list *n, *bucket = bucket_of(session);
	int ret = -ENOENT;

	pthread_mutex_lock(&lock);
	list_for_each(n, bucket) {
		const struct resume *r = list_entry(n, struct resume, node);

		if (memcmp(r->session, session, sizeof(r->session)))
			continue;
		ret = fn(r->ep->ctx, arg);
		break;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}
