/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners that use the CM. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "cm/connect.h"
#include "cm/shared_port.h"

#include "cm/rdma/cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#define PORT_TRIES	100	/* ports that are free in one family only */
#define AGAIN_MS	100	/* first wait for an address to come back */
#define AGAIN_MAX_MS	5000

/* Frees the ids that 'of' names, or all if it is NULL. */
static void free_ids(struct listen_ids *ids, const struct rdma_cm_id *of)
{
	for (int i = 0; i < 2 * TABLES; i++) {
		struct listen_id *li = &ids->at[i / 2][i % 2];
		struct rdma_cm_id *id = li->id;

		if (!id || (of && id != of))
			continue;
		li->id = NULL;
		rdmamsg__cm_id_free(li->v, id);
	}
}

void rdmamsg__cm_free_ids(struct listen_ids *ids)
{
	free_ids(ids, NULL);
}

/* The id is useless, and the kernel waits until it is freed. */
void rdmamsg__cm_lose_id(struct listen_ids *ids, const struct rdma_cm_id *id)
{
	for (int i = 0; i < 2 * TABLES; i++)
		ids->at[i / 2][i % 2].lost |= ids->at[i / 2][i % 2].id == id;
	free_ids(ids, id);
}

static struct listen_ids *ids_of(struct rdmamsg_listener *l)
{
	return l->shared ? &l->shared->ids : &l->ids;
}

void rdmamsg__cm_listen_later(struct rdmamsg_listener *l)
{
	struct listen_again *a = &l->again;

	log_warn("context %u: listening on port %u: the device was removed; "
		 "listens again when the address is back", l->ctx->number,
		 l->port);
	l->dead = true;
	l->removed++;
	a->error = -ENODEV;
	a->wait_ms = AGAIN_MS;
	rdmamsg__timer_set(&l->ctx->loop.timers, &a->timer, a->wait_ms);
}

/* The callback may close the listener. */
static void on_event(struct rdmamsg *ctx, struct cm_owner *owner,
		     const struct cm_event *ev)
{
	struct rdmamsg_listener *l =
		list_entry(owner, struct rdmamsg_listener, ids.owner);

	switch (ev->type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		rdmamsg__request_cm(l, ev);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		rdmamsg__cm_lose_id(&l->ids, ev->id);
		rdmamsg__cm_listen_later(l);
		rdmamsg__tell(&ctx->loop, l->on.on_failed, l, -ENODEV);
		break;
	default:
		break;
	}
}

/*
 * Linux, cma_check_port(): EADDRNOTAVAIL also if the port is taken by the
 * wildcard, or for the wildcard by an address.
 */
static int bind_to(const struct verbs_api *v, struct rdma_cm_id *id,
		   struct sockaddr *addr)
{
	int ret = rdmamsg__v_bind_addr(v, id, addr);

	return ret == -EADDRNOTAVAIL && rdmamsg__addr_is_local(addr) ?
	       -EADDRINUSE : ret;
}

static int channel_of(struct rdmamsg_listener *l, const struct verbs_api *v,
		      struct rdma_event_channel **ret)
{
	return l->shared ? rdmamsg__cm_port_channel(l, v, ret) :
			   rdmamsg__cm_open(l->ctx, v, ret);
}

static int start(const struct rdmamsg_listener *l, const struct verbs_api *v,
		 struct rdma_cm_id *id, struct sockaddr *addr, bool apart)
{
	int one = 1;
	int ret = apart ? rdmamsg__v_set_option(v, id, RDMA_OPTION_ID,
						RDMA_OPTION_ID_AFONLY, &one,
						sizeof(one)) : 0;

	if (!ret)
		ret = bind_to(v, id, addr);
	if (!ret)
		ret = rdmamsg__v_listen(v, id, (int)l->opts.backlog);
	return ret ? rdmamsg__cm_fail(l->ctx, ret, "listening") : 0;
}

/* Listens at an address. If 'apart', IPv6 does not include IPv4. */
static int listen_at(struct rdmamsg_listener *l, const struct verbs_api *v,
		     struct sockaddr *addr, bool apart, struct listen_id *li)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	int ret = channel_of(l, v, &ch);

	if (!ret)
		ret = rdmamsg__cm_id_at(l->ctx, v, ch, &ids_of(l)->owner,
					RDMA_PS_TCP, &id);
	if (ret)
		return ret;
	ret = start(l, v, id, addr, apart);
	if (ret) {
		rdmamsg__cm_id_free(v, id);
		return ret;
	}
	li->v = v;
	li->id = id;
	li->lost = false;
	return 0;
}

/* ---- an address that was lost ------------------------------------------ */

/* Returns 0 if all ids listen. */
static int take_back(struct rdmamsg_listener *l)
{
	struct listen_ids *ids = ids_of(l);
	int err = 0;

	for (int i = 0; i < 2 * TABLES; i++) {
		struct listen_id *li = &ids->at[i / 2][i % 2];
		int ret = li->lost ? rdmamsg__try(listen_at(
			l, li->v, (struct sockaddr *)&l->again.at, false, li)) :
			0;

		err = ret ? ret : err;
	}
	return err;
}

/*
 * Without a device with the address: -ENODEV, or -EADDRNOTAVAIL. Another error
 * is a line of the log, once.
 */
static void still_lost(struct rdmamsg_listener *l, int err)
{
	if (err != l->again.error && err != -ENODEV && err != -EADDRNOTAVAIL)
		log_warn("context %u: listening on port %u again: %s",
			 l->ctx->number, l->port, strerror(-err));
	l->again.error = err;
}

static void on_again(struct timer *t)
{
	struct rdmamsg_listener *l =
		list_entry(t, struct rdmamsg_listener, again.timer);
	struct listen_again *a = &l->again;
	int err;

	/* another listener of a shared port may have come first */
	if (l->shared)
		rdmamsg__shared_port_lock();
	err = take_back(l);
	if (l->shared)
		rdmamsg__shared_port_unlock();
	if (!err) {
		l->dead = false;
		log_info("context %u: listening on port %u again",
			 l->ctx->number, l->port);
		return;
	}
	still_lost(l, err);
	a->wait_ms = min(2 * a->wait_ms, (uint32_t)AGAIN_MAX_MS);
	rdmamsg__timer_set(&l->ctx->loop.timers, t, a->wait_ms);
}

static int prepare_again(struct rdmamsg_listener *l, const struct addrinfo *ai)
{
	int ret = rdmamsg__timers_reserve(&l->ctx->loop.timers, 1);

	if (ret)
		return rdmamsg__fail(ret, "no memory for a listener");
	rdmamsg__timer_init(&l->again.timer, on_again);
	l->again.reserved = true;
	memcpy(&l->again.at, ai->ai_addr, ai->ai_addrlen);
	return 0;
}

/*
 * Listens at the wildcards of IPv6 and of IPv4, on one port. If the program
 * asks for any port, another one follows a port that only IPv6 has free.
 */
static int listen_apart(struct rdmamsg_listener *l, const struct verbs_api *v,
			struct sockaddr *any6, struct listen_id li[static 2])
{
	struct sockaddr_in any4 = { .sin_family = AF_INET };
	const bool any_port = !((struct sockaddr_in6 *)any6)->sin6_port;
	int ret;

	for (int i = 0; i < PORT_TRIES; i++) {
		ret = listen_at(l, v, any6, true, &li[0]);
		if (ret)
			return ret;
		any4.sin_port = v->get_src_port(li[0].id);
		ret = rdmamsg__try(listen_at(l, v, (struct sockaddr *)&any4,
					     true, &li[1]));
		if (!ret)
			return 0;
		rdmamsg__cm_id_free(v, li[0].id);
		li[0].id = NULL;
		if (!any_port || ret != -EADDRINUSE)
			break;
	}
	return rdmamsg__fail_again(ret);
}

void rdmamsg__cm_note_place(struct rdmamsg_listener *l,
			    const struct listen_id *li)
{
	l->places[rdmamsg__is_soft(li->v)] = (struct listen_place) {
		li->v, li->id->route.addr.src_storage,
	};
}

static int listen_through(struct rdmamsg_listener *l,
			  const struct verbs_api *v, struct addrinfo *ai)
{
	struct listen_id *li = ids_of(l)->at[rdmamsg__is_soft(v)];
	int ret;

	if (ai->ai_family == AF_INET6 && rdmamsg__addr_is_any(ai->ai_addr) &&
	    rdmamsg__device_any_iwarp(v))
		ret = listen_apart(l, v, ai->ai_addr, li);
	else
		ret = listen_at(l, v, ai->ai_addr, false, li);
	if (ret)
		return ret;
	l->port = ntohs(v->get_src_port(li->id));
	rdmamsg__cm_note_place(l, li);
	/*
	 * A second table listens on the same port. sin6_port has the same
	 * offset.
	 */
	((struct sockaddr_in *)ai->ai_addr)->sin_port = htons(l->port);
	((struct sockaddr_in *)&l->again.at)->sin_port = htons(l->port);
	return 0;
}

/* The soft HCA may be kept to this host, because the port of RoCE v2 is taken. */
static int listen_on_soft(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	const struct verbs_api *v = &rdmamsg__verbs_soft;
	int ret = rdmamsg__try(listen_through(l, v, ai));
	const char *alone = rdmamsg__soft_alone(v);

	if (ret == -EADDRNOTAVAIL && alone)
		return rdmamsg__fail(-EADDRINUSE, "listening: %s: "
				     "RDMAMSG_SOFT_NET=0 listens to this host "
				     "only", alone);
	if (ret)
		return rdmamsg__fail_again(ret);
	/* the devices may be what has the port */
	if (alone && !l->places[0].v && !rdmamsg__addr_is_loopback(ai->ai_addr))
		log_warn("context %u: the soft HCA listens to this host only: "
			 "%s", l->ctx->number, alone);
	return 0;
}

int rdmamsg__cm_listen_here(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	const struct verbs_api *v =
		rdmamsg__choose_table(rdmamsg__asked(l->opts.device));
	int ret;

	if (v)
		return rdmamsg__is_soft(v) ? listen_on_soft(l, ai) :
		       listen_through(l, v, ai);
	ret = rdmamsg__try(rdmamsg__device_any(rdmamsg__verbs) ?:
			   listen_through(l, rdmamsg__verbs, ai));
	if (rdmamsg__choose_soft_listens(ai->ai_addr, ret))
		return listen_on_soft(l, ai);
	return rdmamsg__fail_again(ret);
}

int rdmamsg__cm_listen(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	int ret = prepare_again(l, ai);

	if (ret)
		return ret;
	if (l->opts.flags & RDMAMSG_LISTEN_SHARED)
		return rdmamsg__cm_join(l, ai);
	l->ids.owner.event = on_event;
	return rdmamsg__cm_listen_here(l, ai);
}

void rdmamsg__cm_unlisten(struct rdmamsg_listener *l)
{
	struct timers *timers = &l->ctx->loop.timers;

	rdmamsg__cm_leave(l);
	rdmamsg__cm_free_ids(&l->ids);
	memset(l->places, 0, sizeof(l->places));
	if (!l->again.reserved)
		return;
	rdmamsg__timer_stop(timers, &l->again.timer);
	rdmamsg__timers_release(timers, 1);
	l->again.reserved = false;
}

const char *rdmamsg__cm_over(const struct rdmamsg_listener *l)
{
	if (!l->places[1].v)
		return "the RDMA devices";
	return l->places[0].v ? "the RDMA devices and the soft HCA" :
	       "the soft HCA";
}

int rdmamsg_listen(struct rdmamsg *ctx, const char *host, const char *service,
		   const struct rdmamsg_listen_options *opts,
		   struct rdmamsg_listener **ret)
{
	return rdmamsg__listen(ctx, &rdmamsg__by_cm, host, service, opts,
			       ret);
}
