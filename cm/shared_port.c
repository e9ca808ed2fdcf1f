/* SPDX-License-Identifier: BSD-2-Clause */
/* The listeners of a shared port, and whose turn it is. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "cm/connect.h"
#include "cm/shared_port.h"
#include "device/choose.h"
#include "memory/account.h"
#include "session/door.h"
#include "session/secret.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list ports = { &ports, &ports };

void rdmamsg__shared_port_lock(void)
{
	(void)pthread_mutex_lock(&lock);
}

void rdmamsg__shared_port_unlock(void)
{
	(void)pthread_mutex_unlock(&lock);
}

/* ---- ports ------------------------------------------------------------ */

static bool same_in6(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b)
{
	return a->sin6_port == b->sin6_port &&
	       a->sin6_scope_id == b->sin6_scope_id &&
	       !memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr));
}

static bool same_in(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_port == b->sin_port &&
	       a->sin_addr.s_addr == b->sin_addr.s_addr;
}

static bool same_address(const void *a, const void *b)
{
	const sa_family_t family = ((const struct sockaddr *)a)->sa_family;

	return family == ((const struct sockaddr *)b)->sa_family &&
	       (family == AF_INET6 ? same_in6(a, b) : same_in(a, b));
}

struct shared_port *rdmamsg__shared_port_find(const struct sockaddr *at)
{
	struct list *n;

	list_for_each(n, &ports) {
		struct shared_port *port =
			list_entry(n, struct shared_port, node);

		if (same_address(&port->at, at))
			return port;
	}
	return NULL;
}

void rdmamsg__shared_port_add(struct shared_port *port)
{
	list_add_tail(&ports, &port->node);
}

void rdmamsg__shared_port_put(struct shared_port *port)
{
	if (--port->refs)
		return;
	free(port->device);
	free(port);
}

uint32_t rdmamsg__shared_port_members(const struct rdmamsg_listener *l)
{
	uint32_t count = 0;
	struct list *n;

	if (!l->shared)
		return 0;
	rdmamsg__shared_port_lock();
	list_for_each(n, &l->shared->listeners)
		count++;
	rdmamsg__shared_port_unlock();
	return count;
}

/* ---- what listeners of a port have in common --------------------------- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_key(const struct rdmamsg_listener *a,
		     const struct rdmamsg_listener *b)
{
	const struct secret *s = rdmamsg__listener_secret(a);
	const struct secret *t = rdmamsg__listener_secret(b);

	return s == t || (s && t && !memcmp(s->key, t->key, sizeof(s->key)));
}

static bool by_load(const struct rdmamsg_listener *l)
{
	return l->opts.flags & RDMAMSG_LISTEN_BY_LOAD;
}

static bool is_in(const struct shared_port *port, const struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &port->listeners)
		if (list_entry(n, struct rdmamsg_listener, shared_node)->ctx ==
		    ctx)
			return true;
	return false;
}

int rdmamsg__shared_port_check(const struct shared_port *port,
			       const struct rdmamsg_listener *l)
{
	const struct rdmamsg_listener *other =
		list_first(&port->listeners, struct rdmamsg_listener,
			   shared_node);
	const char *device = rdmamsg__asked(l->opts.device);
	const unsigned int number = other->port;

	if (is_in(port, l->ctx))
		return rdmamsg__fail(-EADDRINUSE, "port %u: this context "
				     "listens there already; each listener of "
				     "a shared port is of another context",
				     number);
	if (!same_text(port->device, device))
		return rdmamsg__fail(-EINVAL, "port %u is shared by listeners "
				     "with device %s, and this one has device "
				     "%s: give the same", number,
				     port->device ? port->device : "NULL",
				     device ? device : "NULL");
	if (!same_key(other, l))
		return rdmamsg__fail(-EINVAL, "port %u is shared by listeners "
				     "with another pre-shared key: give the "
				     "same key", number);
	if (by_load(other) != by_load(l))
		return rdmamsg__fail(-EINVAL, "port %u is shared by listeners "
				     "%s RDMAMSG_LISTEN_BY_LOAD, and this one "
				     "is %s it: give the same flags", number,
				     by_load(other) ? "with" : "without",
				     by_load(l) ? "with" : "without");
	return 0;
}

/* ---- whose turn it is --------------------------------------------------- */

/*
 * Requests without an answer count, or a thread that answers none would seem to
 * be the idlest.
 */
static uint64_t load_of(const struct rdmamsg_listener *l)
{
	return (uint64_t)l->ctx->sessions->ep_count +
	       rdmamsg__door_requests(l->door);
}

/*
 * Returns a listener that the current request has not been offered to, or NULL.
 * Of equal ones, the next in turn.
 */
static struct rdmamsg_listener *next(struct shared_port *port)
{
	struct rdmamsg_listener *best = NULL;
	uint64_t least = UINT64_MAX;
	struct list *n;

	list_for_each(n, &port->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, shared_node);
		uint64_t load = by_load(l) ? load_of(l) : 0;

		if (l->offered == port->offer || load >= least)
			continue;
		best = l;
		least = load;
	}
	if (best)
		best->offered = port->offer;
	return best;
}

/* ---- a request that has reached its listener ---------------------------- */

static void refuse(struct rdmamsg_request *req, int why)
{
	if (!req->dead) {
		req->limit = why > 0 ? (uint32_t)why : PROTO_LIMIT_NONE;
		req->by->reject(req, why > 0 ? PROTO_REJECT_LIMIT :
				PROTO_REJECT_RESOURCES, NULL, 0);
	}
	rdmamsg__request_free(req);
}

/* In the listener's thread, whose context has the accounts. */
static void reached(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (req->dead) {
		rdmamsg__request_free(req);
	} else if (rdmamsg__door_is_fair(l->door) &&
		   rdmamsg__account_is_full(l->ctx, &req->peer)) {
		rdmamsg__door_refused(l->door, PROTO_LIMIT_MEMORY);
		refuse(req, PROTO_LIMIT_MEMORY);
	} else {
		rdmamsg__request_arrived(l, req);
	}
}

struct rdmamsg_listener *rdmamsg__listener_at(struct rdmamsg *ctx,
					      uint32_t object)
{
	struct list *n;

	list_for_each(n, &ctx->sessions->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, node);

		if (l->object == object)
			return l;
	}
	return NULL;
}

/* The listener may have closed meanwhile. Then another one gets the request. */
static void on_moved(struct rdmamsg *ctx, struct rdmamsg_request *req,
		     void *arg)
{
	struct shared_port *port = req->shared;
	struct rdmamsg_listener *l =
		rdmamsg__listener_at(ctx, (uint32_t)(uintptr_t)arg);

	req->shared = NULL;
	if (l && !l->draining && !ctx->closing) {
		reached(l, req);
	} else {
		rdmamsg__visitor_leave(&req->visitor);
		rdmamsg__shared_port_give(port, req);
	}
	rdmamsg__shared_port_lock();
	rdmamsg__shared_port_put(port);
	rdmamsg__shared_port_unlock();
}

/* ---- giving ------------------------------------------------------------ */

static int move_to(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct shared_port *port = l->shared;
	int ret;

	port->refs++;
	req->shared = port;
	ret = rdmamsg__request_hand_over(req, l->ctx, on_moved,
					 (void *)(uintptr_t)l->object);
	if (!ret)
		return 0;
	req->shared = NULL;
	port->refs--;
	rdmamsg__visitor_leave(&req->visitor);
	/* a queue that is full has room later */
	return ret == -EAGAIN ? (int)PROTO_LIMIT_REQUESTS : ret;
}

/* Returns 0, the enum proto_limit that is reached, or -errno. */
static int offer(struct rdmamsg_listener *l, struct rdmamsg_request *req,
		 struct rdmamsg_listener **ret_here)
{
	int ret;

	if (l->draining)
		return PROTO_LIMIT_DRAINING;
	ret = rdmamsg__door_offer(l->door, &req->peer, &req->visitor);
	if (ret)
		return ret;
	if (l->ctx != req->ctx)
		return move_to(l, req);
	*ret_here = l;
	return 0;
}

/* An address that has offended one listener does not go on to the next one. */
static bool is_slowed(struct shared_port *port,
		      const struct rdmamsg_request *req)
{
	struct list *n;

	list_for_each(n, &port->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, shared_node);

		if (!rdmamsg__door_slows(l->door, &req->peer))
			continue;
		rdmamsg__door_refused(l->door, PROTO_LIMIT_SLOWED);
		return true;
	}
	return false;
}

/* Returns the answer of the first listener, which counts it, if all refuse. */
static int offer_to_all(struct shared_port *port, struct rdmamsg_request *req,
			struct rdmamsg_listener **ret_here)
{
	struct rdmamsg_listener *first = NULL, *l;
	int answer = PROTO_LIMIT_DRAINING;

	port->offer++;
	while ((l = next(port))) {
		int ret = offer(l, req, ret_here);

		if (!ret) {
			list_del(&l->shared_node);
			list_add_tail(&port->listeners, &l->shared_node);
			return 0;
		}
		answer = first ? answer : ret;
		first = first ? first : l;
	}
	if (first && answer > 0)
		rdmamsg__door_refused(first->door, (enum proto_limit)answer);
	return answer;
}

void rdmamsg__shared_port_give(struct shared_port *port,
			       struct rdmamsg_request *req)
{
	struct rdmamsg_listener *here = NULL;
	char peer[96];
	int ret;

	if (req->dead) {
		rdmamsg__request_free(req);
		return;
	}
	rdmamsg__shared_port_lock();
	ret = is_slowed(port, req) ? (int)PROTO_LIMIT_SLOWED :
	      rdmamsg__try(offer_to_all(port, req, &here));
	rdmamsg__shared_port_unlock();
	if (here) {
		reached(here, req);
	} else if (ret) {
		if (ret < 0)
			log_warn("a request of %s could not be given to a "
				 "listener: %s",
				 rdmamsg__addr_text((struct sockaddr *)
						    &req->peer, peer,
						    sizeof(peer)),
				 rdmamsg__text());
		refuse(req, ret);
	}
}

void rdmamsg__shared_port_pass(struct rdmamsg_listener *l,
			       struct rdmamsg_request *req)
{
	list_del(&req->wait_node);
	rdmamsg__visitor_leave(&req->visitor);
	rdmamsg__shared_port_give(l->shared, req);
}
