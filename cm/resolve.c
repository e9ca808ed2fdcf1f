/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names. getaddrinfo() blocks for as long as it likes, so a name is resolved
 * on a thread of its own, which is left to itself at the deadline. Numeric
 * addresses need none.
 */
#include "internal.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

struct resolve {
	struct mail mail;
	pthread_mutex_t lock;
	int refs;			/* thread, endpoint */
	struct rdmamsg *ctx;		/* NULL: nobody waits any more */
	struct rdmamsg_ep *ep;
	char *host, *service;
	int gai;
	struct addrinfo *addrs;
};

static const struct addrinfo hints_any = {
	.ai_socktype = SOCK_STREAM,
};

bool rdmamsg__addr_is_any(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)addr)->sin6_addr);
	return !((const struct sockaddr_in *)addr)->sin_addr.s_addr;
}

bool rdmamsg__addr_is_loopback(const struct sockaddr *addr)
{
	const struct in6_addr *in6;
	const uint8_t *v4;

	if (addr->sa_family != AF_INET6) {
		v4 = (const uint8_t *)
			&((const struct sockaddr_in *)addr)->sin_addr;
		return v4[0] == 127;
	}
	in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(in6) ||
	       (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

/* getaddrinfo() takes any number, and none, and cuts it to 16 bits. */
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
		ep->resolve = NULL;
		rdmamsg__resolved(ep, r->gai, addrs);
		put(r);		/* the endpoint's */
	}
	put(r);			/* the mail's, once the thread's */
}

static void *resolve_thread(void *arg)
{
	struct resolve *r = arg;
	struct addrinfo *addrs = NULL;
	int gai = getaddrinfo(r->host, r->service, &hints_any, &addrs);

	pthread_mutex_lock(&r->lock);
	r->gai = gai;
	r->addrs = addrs;
	if (r->ctx) {
		/* under the lock: the context cannot go away meanwhile */
		rdmamsg__mail_post(r->ctx, &r->mail);
		pthread_mutex_unlock(&r->lock);
		return NULL;
	}
	pthread_mutex_unlock(&r->lock);
	put(r);
	return NULL;
}

int rdmamsg__resolve_start(struct rdmamsg_ep *ep, struct resolve **ret_r)
{
	struct resolve *r = calloc(1, sizeof(*r));
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (!r)
		return rdmamsg__fail(-ENOMEM, "no memory to resolve a name");
	pthread_mutex_init(&r->lock, NULL);
	list_init(&r->mail.node);
	r->mail.fn = arrived;
	r->refs = 2;
	r->ctx = ep->ctx;
	r->ep = ep;
	r->host = strdup(ep->host);
	r->service = strdup(ep->service);
	ret = r->host && r->service ? 0 : ENOMEM;
	if (!ret) {
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		ret = pthread_create(&thread, &attr, resolve_thread, r);
		pthread_attr_destroy(&attr);
	}
	if (ret) {
		r->refs = 1;
		put(r);
		return rdmamsg__fail(-ret, "cannot resolve %s: %s", ep->host,
				     strerror(ret));
	}
	*ret_r = r;
	return 0;
}

/* The mail may be on its way: then it finds nobody to tell. */
void rdmamsg__resolve_abandon(struct resolve *r)
{
	pthread_mutex_lock(&r->lock);
	r->ep = NULL;
	if (list_empty(&r->mail.node))
		r->ctx = NULL;
	pthread_mutex_unlock(&r->lock);
	put(r);
}
