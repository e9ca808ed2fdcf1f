/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names. getaddrinfo() may block without limit, so each name is resolved in a
 * thread of its own. If the deadline of the endpoint or call passes first, the
 * thread goes on alone and its result is discarded. Numeric addresses need no
 * thread.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/submit.h"
#include "base/thread.h"
#include "cm/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rdmamsg/rdmamsg.h>

struct resolve {
	struct mail mail;
	pthread_mutex_t lock;
	pthread_cond_t over;
	int refs;			/* thread; endpoint or call */
	struct rdmamsg *ctx; /* NULL: no endpoint, or it has gone */
	struct rdmamsg_ep *ep;
	char *host, *service;
	struct addrinfo hints;
	bool done;
	int gai;			/* of getaddrinfo(), or positive errno */
	struct addrinfo *addrs;
};

static const struct addrinfo hints_any = {
	.ai_socktype = SOCK_STREAM,
};

/* Needed because getaddrinfo() cuts a number to 16 bits, and takes "" too. */
bool rdmamsg__service_ok(const char *service)
{
	char *end;
	long port = strtol(service, &end, 10);

	return *service && (*end || (port >= 0 && port <= 65535));
}

int rdmamsg__fail_service(const char *service)
{
	return rdmamsg__fail(-EINVAL, "service '%s' is neither a port number, "
			     "0 to 65535, nor a name in /etc/services",
			     service);
}

int rdmamsg__resolve_numeric(const char *host, const char *service, int flags,
			     struct addrinfo **ret)
{
	struct addrinfo hints = hints_any;

	if (service && !rdmamsg__service_ok(service))
		return EAI_SERVICE;
	hints.ai_flags = AI_NUMERICHOST | flags;
	return getaddrinfo(host, service, &hints, ret);
}

static void put(struct resolve *r)
{
	bool last;

	pthread_mutex_lock(&r->lock);
	last = !--r->refs;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	pthread_cond_destroy(&r->over);
	pthread_mutex_destroy(&r->lock);
	if (r->addrs)
		freeaddrinfo(r->addrs);
	free(r->host);
	free(r->service);
	free(r);
}

static void arrived(struct rdmamsg *ctx, struct mail *mail)
{
	struct resolve *r = list_entry(mail, struct resolve, mail);
	struct rdmamsg_ep *ep = r->ep;

	if (ep) {
		struct addrinfo *addrs = r->addrs;

		r->addrs = NULL;
		ep->connect.resolve = NULL;
		rdmamsg__resolved(ep, r->gai, addrs);
		put(r);		/* the endpoint's reference */
	}
	put(r);			/* the thread's, with the mail */
}

/* Without descriptors the resolver says that there is no such name. */
static bool has_descriptor(void)
{
	int fd = fd_high(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EMFILE && errno != ENFILE);
}

static void *resolve_thread(void *arg)
{
	struct resolve *r = arg;
	struct addrinfo *addrs = NULL;
	int gai = getaddrinfo(r->host, r->service, &r->hints, &addrs);

	if (gai == EAI_SYSTEM)
		gai = errno;
	else if (gai && !has_descriptor())
		gai = EMFILE;
	pthread_mutex_lock(&r->lock);
	r->gai = gai;
	r->addrs = addrs;
	r->done = true;
	if (r->ctx) {
		/* with the lock held, the context cannot go away */
		rdmamsg__mail_post(&r->ctx->loop, &r->mail);
		pthread_mutex_unlock(&r->lock);
		return NULL;
	}
	pthread_cond_signal(&r->over);
	pthread_mutex_unlock(&r->lock);
	put(r);
	return NULL;
}

static struct resolve *resolve_new(const char *host, const char *service,
				   const struct addrinfo *hints)
{
	struct resolve *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->over, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&r->mail.node);
	r->mail.fn = arrived;
	r->refs = 2;
	r->hints = *hints;
	r->host = strdup(host);
	r->service = strdup(service);
	return r;
}

/* On failure, frees r. */
static int resolve_run(struct resolve *r)
{
	int ret = r->host && r->service ? 0 : -ENOMEM;
	pthread_t thread;

	if (!ret)
		ret = rdmamsg__thread_start(resolve_thread, r, &thread);
	if (!ret)
		return 0;
	rdmamsg__fail(ret, "cannot resolve %s: %s", r->host ? r->host :
		      "a name", rdmamsg__thread_text(ret));
	r->refs = 1;
	put(r);
	return ret;
}

int rdmamsg__resolve_start(struct rdmamsg_ep *ep, struct resolve **ret_r)
{
	struct resolve *r =
		resolve_new(ep->connect.host, ep->connect.service, &hints_any);
	int ret;

	if (!r)
		return rdmamsg__fail(-ENOMEM, "no memory to resolve a name");
	r->ctx = ep->ctx;
	r->ep = ep;
	ret = resolve_run(r);
	if (!ret)
		*ret_r = r;
	return ret;
}

/* Returns true if the result came within timeout_ms. */
static bool wait_done(struct resolve *r, int timeout_ms)
{
	struct timespec end;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += timeout_ms % 1000 * 1000000l;
	if (end.tv_nsec >= 1000000000l) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000l;
	}
	while (!r->done && !ret)
		ret = pthread_cond_timedwait(&r->over, &r->lock, &end);
	return r->done;
}

int rdmamsg__resolve_wait(const char *host, const char *service,
			  const struct addrinfo *hints, int timeout_ms,
			  int *ret_gai, struct addrinfo **ret)
{
	struct resolve *r = resolve_new(host, service, hints);
	int err;

	if (!r)
		return rdmamsg__fail(-ENOMEM, "no memory to resolve a name");
	err = resolve_run(r);
	if (err)
		return err;
	pthread_mutex_lock(&r->lock);
	if (wait_done(r, timeout_ms)) {
		*ret_gai = r->gai;
		*ret = r->addrs;
		r->addrs = NULL;
	} else {
		err = rdmamsg__fail(-ETIMEDOUT, "cannot resolve %s: no answer "
				    "from the resolver in %d ms", host,
				    timeout_ms);
	}
	pthread_mutex_unlock(&r->lock);
	put(r);
	return err;
}

/* If the mail is posted already, its receiver finds no endpoint. */
void rdmamsg__resolve_abandon(struct resolve *r)
{
	pthread_mutex_lock(&r->lock);
	r->ep = NULL;
	if (list_empty(&r->mail.node))
		r->ctx = NULL;
	pthread_mutex_unlock(&r->lock);
	put(r);
}
