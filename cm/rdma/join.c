/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners join and leave a port that they share, and take its events. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/watch.h"
#include "cm/connect.h"
#include "cm/shared_port.h"
#include "device/choose.h"
#include "device/verbs_call.h"
#include "session/sessions.h"

#include "cm/rdma/cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

/* A channel of the port, in the loop of one listener. */
struct port_watch {
	struct watch watch;
	struct rdmamsg_listener *l;
	const struct verbs_api *v;
	struct rdma_event_channel *ch;
};

/* ---- a removed device --------------------------------------------------- */

struct removal {
	struct mail mail;
	uint32_t listener;		/* its number in the context */
};

/* In the thread of a listener, which may have closed. */
static void on_removal(struct rdmamsg *ctx, struct mail *mail)
{
	struct removal *r = list_entry(mail, struct removal, mail);
	struct rdmamsg_listener *l = rdmamsg__listener_at(ctx, r->listener);

	if (!l || !l->shared) {
		free(r);
		return;
	}
	rdmamsg__shared_port_lock();
	l->removal = mail;
	rdmamsg__shared_port_unlock();
	rdmamsg__cm_listen_later(l);
	rdmamsg__tell(&ctx->loop, l->on.on_failed, l, -ENODEV);
}

static int prepare_removal(struct rdmamsg_listener *l)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	r->mail.fn = on_removal;
	r->listener = l->object;
	l->removal = &r->mail;
	return 0;
}

/* A listener whose mail is on its way will hear of both removals at once. */
static void lose(struct shared_port *port, const struct rdma_cm_id *id)
{
	struct list *n;

	rdmamsg__cm_lose_id(&port->ids, id);
	list_for_each(n, &port->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, shared_node);
		struct mail *mail = l->removal;

		l->removal = NULL;
		if (mail)
			rdmamsg__mail_post(&l->ctx->loop, mail);
	}
}

/* ---- events ------------------------------------------------------------- */

/*
 * The id of a request moves to the channel of this listener's context under the
 * lock, before another thread can take a later event of it.
 */
static bool take_event(const struct port_watch *w, struct cm_event *ev)
{
	struct rdmamsg *ctx = w->l->ctx;
	bool any;
	int err = 0;

	rdmamsg__shared_port_lock();
	any = rdmamsg__cm_take_event(w->v, w->ch, ev);
	if (any && ev->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		err = rdmamsg__cm_migrate(ctx, w->v, ev->id);
	else if (any && ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		lose(w->l->shared, ev->id);
	rdmamsg__shared_port_unlock();
	if (!err)
		return any;
	log_warn("context %u: a request could not be taken from a shared port: "
		 "%s", ctx->number, strerror(-err));
	/* rejects the peer */
	rdmamsg__cm_id_free(w->v, ev->id);
	ev->type = RDMA_CM_EVENT_CONNECT_ERROR;
	return true;
}

/* A callback may close the listener. */
static void on_readable(struct watch *w)
{
	struct port_watch *pw = list_entry(w, struct port_watch, watch);
	struct cm_event ev;

	for (int n = 0; n < EVENTS_MAX && w->fd >= 0; n++) {
		if (!take_event(pw, &ev))
			return;
		if (ev.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			rdmamsg__request_cm(pw->l, &ev);
	}
}

static int watch(struct rdmamsg_listener *l, const struct verbs_api *v,
		 struct rdma_event_channel *ch)
{
	struct port_watch *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	*w = (struct port_watch){
		.watch = { .fd = ch->fd, .fn = on_readable },
		.l = l, .v = v, .ch = ch,
	};
	ret = rdmamsg__watch_set(&l->ctx->loop, &w->watch, EPOLLIN);
	if (ret) {
		free(w);
		return rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
	}
	l->watches[rdmamsg__is_soft(v)] = w;
	return 0;
}

static void unwatch(struct rdmamsg_listener *l)
{
	for (int i = 0; i < TABLES; i++) {
		struct port_watch *w = l->watches[i];

		if (!w)
			continue;
		(void)rdmamsg__watch_set(&l->ctx->loop, &w->watch, 0);
		rdmamsg__watch_retire(&l->ctx->loop, &w->watch, w);
		l->watches[i] = NULL;
	}
}

/* ---- joining ------------------------------------------------------------ */

int rdmamsg__cm_port_channel(struct rdmamsg_listener *l,
			     const struct verbs_api *v,
			     struct rdma_event_channel **ret_ch)
{
	struct port_channel *c = &l->shared->channels[rdmamsg__is_soft(v)];
	int ret = c->ch ? 0 : rdmamsg__cm_channel_new(v, &c->ch);

	if (ret)
		return ret;
	c->v = v;
	*ret_ch = c->ch;
	return 0;
}

/* Opens the context's own channel, for requests, and watches the port's. */
static int join_channel(struct rdmamsg_listener *l,
			const struct port_channel *c)
{
	struct rdma_event_channel *own;
	int ret = rdmamsg__cm_open(l->ctx, c->v, &own);

	return ret ? ret : watch(l, c->v, c->ch);
}

static int join(struct rdmamsg_listener *l)
{
	int ret = prepare_removal(l);

	for (int i = 0; i < TABLES && !ret; i++)
		if (l->shared->ids.at[i][0].v)
			ret = join_channel(l, &l->shared->channels[i]);
	if (!ret)
		list_add_tail(&l->shared->listeners, &l->shared_node);
	return ret;
}

static int first(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	const char *device = rdmamsg__asked(l->opts.device);
	struct shared_port *port = calloc(1, sizeof(*port));
	int ret;

	if (!port)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	list_init(&port->node);
	list_init(&port->listeners);
	port->refs = 1;
	l->shared = port;
	port->device = device ? strdup(device) : NULL;
	if (device && !port->device)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	ret = rdmamsg__cm_listen_here(l, ai);
	if (!ret)
		ret = join(l);
	if (ret)
		return ret;
	memcpy(&port->at, ai->ai_addr, ai->ai_addrlen);
	rdmamsg__shared_port_add(port);
	return 0;
}

/* The addresses of ids that are lost are those of the others. */
static int later(struct rdmamsg_listener *l, struct shared_port *port)
{
	const struct rdmamsg_listener *other =
		list_first(&port->listeners, struct rdmamsg_listener,
			   shared_node);
	int ret = rdmamsg__shared_port_check(port, l);

	if (ret)
		return ret;
	port->refs++;
	l->shared = port;
	l->port = other->port;
	memcpy(l->places, other->places, sizeof(l->places));
	return join(l);
}

/* Another listener has lost the address and not got it back. */
static bool is_lost(const struct shared_port *port)
{
	for (int i = 0; i < 2 * TABLES; i++)
		if (port->ids.at[i / 2][i % 2].lost)
			return true;
	return false;
}

int rdmamsg__cm_join(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	struct shared_port *port;
	bool lost = false;
	int ret;

	rdmamsg__shared_port_lock();
	port = rdmamsg__shared_port_find(ai->ai_addr);
	ret = port ? later(l, port) : first(l, ai);
	if (!ret)
		lost = is_lost(l->shared);
	rdmamsg__shared_port_unlock();
	if (lost)
		rdmamsg__cm_listen_later(l);
	return ret;
}

/* ---- leaving ------------------------------------------------------------ */

/* The last listener has left. Requests on their way may still hold the port. */
static void close_port(struct shared_port *port)
{
	list_del(&port->node);
	rdmamsg__cm_free_ids(&port->ids);
	for (int i = 0; i < TABLES; i++) {
		struct port_channel *c = &port->channels[i];

		if (c->ch)
			c->v->destroy_event_channel(c->ch);
		c->ch = NULL;
	}
}

void rdmamsg__cm_leave(struct rdmamsg_listener *l)
{
	struct shared_port *port = l->shared;
	struct mail *removal;

	if (!port)
		return;
	unwatch(l);
	rdmamsg__shared_port_lock();
	list_del(&l->shared_node);
	l->shared = NULL;
	removal = l->removal;
	l->removal = NULL;
	if (list_empty(&port->listeners))
		close_port(port);
	rdmamsg__shared_port_put(port);
	rdmamsg__shared_port_unlock();
	if (removal)
		free(list_entry(removal, struct removal, mail));
}
