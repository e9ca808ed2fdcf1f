/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets: a listener whose connections belong to senders. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/ticket.h"
#include "dc/visitor.h"
#include "device/choose.h"
#include "device/dc.h"
#include "device/device.h"
#include "memory/layout.h"
#include "memory/layout_ask.h"
#include "memory/region.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/sessions.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define GIVEN	128u		/* tickets that are not used yet */

/* A connection of a sender to the target. */
struct link {
	struct list node;		/* of the target */
	struct rdmamsg_dc_target *target;
	struct rdmamsg_ep *ep;
	uint64_t sender;
};

/* Returns true if it has been destroyed, and nobody is there any more. */
static bool has_ended(const struct rdmamsg_dc_target *t)
{
	return !t->listener && !t->connections && !t->sessions;
}

/* A context that shuts down looks how many are there. */
void rdmamsg__dc_target_due(struct rdmamsg_dc_target *t)
{
	if (t->ctx->closing || !(has_ended(t) || t->ctx->shutdown.begun))
		return;
	if (list_empty(&t->due))
		list_add_tail(&t->ctx->dcs->due_targets, &t->due);
	rdmamsg__dcs_wake(t->ctx);
}

/* ---- connections ------------------------------------------------------ */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct link *l = rdmamsg_ep_user(ep);
	struct rdmamsg_dc_target *t = l->target;

	t->messages++;
	if (t->opts.on_message)
		t->opts.on_message(t, msg, l->sender);
	else
		rdmamsg_msg_free(msg);
}

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	struct link *l = rdmamsg_ep_user(ep);
	struct rdmamsg_dc_target *t = l->target;

	if (t->opts.on_written)
		t->opts.on_written(t, value, l->sender);
}

static void put_dev(struct rdmamsg_dc_target *t)
{
	if (t->dev)
		rdmamsg__dev_put(t->dev);
	t->dev = NULL;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct link *l = rdmamsg_ep_user(ep);
	struct rdmamsg_dc_target *t = l->target;

	(void)why;
	list_del(&l->node);
	free(l);
	if (t->dev && t->dev->device->gone)
		put_dev(t);
	t->connections--;
	rdmamsg__dc_target_due(t);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_message = on_message,
	.on_written = on_written, .on_closed = on_closed,
};

void rdmamsg__dc_target_violated(struct rdmamsg_dc_target *t,
				 const struct sockaddr_storage *from)
{
	const struct sockaddr_storage unknown = { .ss_family = AF_UNSPEC };

	if (!t->armed)
		return;
	t->armed = false;
	rdmamsg__tell(&t->ctx->loop, t->opts.on_violation, t,
		      from ? from : &unknown);
}

static void violation(struct rdmamsg_dc_target *t, struct rdmamsg_request *req)
{
	struct sockaddr_storage from = { 0 };

	t->violations++;
	(void)rdmamsg_request_addrs(req, NULL, &from);
	rdmamsg_request_reject(req, DC_VIOLATION, sizeof(DC_VIOLATION) - 1);
	rdmamsg__dc_target_violated(t, &from);
}

/*
 * Returns true if the address is of the target's device. That of the first
 * request decides which device it is, unless it is known.
 */
static bool has_address(struct rdmamsg_dc_target *t,
			const struct sockaddr_storage *at)
{
	const struct verbs_api *v = NULL;
	char *name = NULL;
	bool is_same;

	if (t->dev && t->dev->device->gone)
		put_dev(t);
	is_same = !t->dev;
	if (t->device || !memcmp(&t->asked, at, sizeof(*at)))
		return true;
	if (t->dev && !rdmamsg__try(rdmamsg__choose_device(
			NULL, (const struct sockaddr *)at, &v, &name)))
		is_same = v == t->dev->device->v &&
			  !strcmp(name, t->dev->device->name);
	free(name);
	if (is_same)
		t->asked = *at;
	return is_same;
}

/* Answers with the target's DCT, if there is one on the asked device. */
static bool answer(struct rdmamsg_dc_target *t, struct rdmamsg_request *req,
		   uint64_t sender)
{
	struct sockaddr_storage at, from;
	uint8_t data[DCA_LEN];
	struct dc_answer a;

	if (!rdmamsg__dc_offers(t) || rdmamsg_request_addrs(req, &at, &from) ||
	    !has_address(t, &at) ||
	    rdmamsg__try(rdmamsg__visitors_place(t, &a.place)))
		return false;
	if (rdmamsg__try(rdmamsg__ticket_new(t, &from, sender, &a.ticket))) {
		log_info("context %u: dc target on port %u: a connection "
			 "instead of a session: %s", t->ctx->number, t->port,
			 rdmamsg__text());
		return false;
	}
	rdmamsg__dca_encode(&a, data);
	rdmamsg_request_reject(req, data, sizeof(data));
	return true;
}

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	struct rdmamsg_dc_target *t = rdmamsg_listener_user(listener);
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	struct dc_hello hello;
	struct link *l;
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (!rdmamsg__dc_hello_decode(&hello, data, len)) {
		rdmamsg_request_reject(req, "no sender", 9);
		return;
	}
	if (hello.access_key != t->opts.access_key) {
		violation(t, req);
		return;
	}
	if (hello.old) {
		log_warn("context %u: dc target on port %u: a sender is "
			 "refused, because it speaks version 1 of DC frames, "
			 "and this library version %d", t->ctx->number, t->port,
			 DCF_VERSION);
		rdmamsg_request_reject(req, DC_OLD, sizeof(DC_OLD) - 1);
		return;
	}
	if (hello.asks && answer(t, req, hello.sender))
		return;
	l = calloc(1, sizeof(*l));
	if (!l) {
		rdmamsg_request_reject(req, "no memory", 9);
		return;
	}
	if (t->opts.ep)
		opts = *t->opts.ep;
	/* only queue pairs of DC have it */
	if (t->opts.path != RDMAMSG_DC_CONNECTIONS)
		opts.path = NULL;
	opts.user = l;
	opts.handlers = &handlers;
	opts.hello_data_len = opts.setup_data_len = 0;
	l->target = t;
	l->sender = hello.sender;
	if (rdmamsg__try(rdmamsg_request_accept(req, &opts, &l->ep))) {
		log_info("context %u: dc target on port %u: a sender: %s",
			 t->ctx->number, t->port, rdmamsg__text());
		free(l);
		return;
	}
	list_add_tail(&t->links, &l->node);
	t->connections++;
}

/* ---- keys -------------------------------------------------------------- */

/* Names need time, so only an address says which device it is. */
static int choose_here(const struct rdmamsg_dc_target *t,
		       const struct verbs_api **ret_v, char **ret_name)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *ai = NULL;
	int ret = -ENODEV;

	if (t->device)
		return rdmamsg__choose_device(t->device, NULL, ret_v, ret_name);
	if (t->asked.ss_family)
		return rdmamsg__choose_device(NULL, (const struct sockaddr *)
					      &t->asked, ret_v, ret_name);
	if (t->host && !getaddrinfo(t->host, NULL, &hints, &ai) &&
	    !rdmamsg__addr_is_any(ai->ai_addr))
		ret = rdmamsg__try(rdmamsg__choose_device(NULL, ai->ai_addr,
							  ret_v, ret_name));
	if (ai)
		freeaddrinfo(ai);
	return ret;
}

/* Keeps the device open, because closing it ends the registrations. */
static int get_dev(struct rdmamsg_dc_target *t)
{
	struct rdmamsg_pd *pd = t->opts.ep ? t->opts.ep->pd : NULL;
	const struct verbs_api *v = NULL;
	const struct dev *d;
	char *name = NULL;
	int ret;

	if (t->dev && t->dev->device->gone)
		put_dev(t);
	if (t->dev)
		return 0;
	if (list_empty(&t->links)) {
		ret = choose_here(t, &v, &name);
		if (!ret)
			ret = rdmamsg__dev_get(t->ctx, v, name, pd, &t->dev);
		free(name);
		/* -EOPNOTSUPP: only the CM chooses such a device */
		return ret != -ENODEV && ret != -EOPNOTSUPP ? ret :
		       rdmamsg__fail(-ENOTCONN, "rdmamsg_dc_target_get_key: "
				     "the device of the target is not known "
				     "before the first sender comes");
	}
	d = list_first(&t->links, struct link, node)->ep->lane.dev;
	if (!d || !d->device)
		return rdmamsg__fail(-ENOTCONN, "rdmamsg_dc_target_get_key: "
				     "the first sender has no device yet");
	return rdmamsg__dev_get(t->ctx, d->device->v, d->device->name, pd,
				&t->dev);
}

int rdmamsg__dc_target_dev(struct rdmamsg_dc_target *t, struct dev **ret)
{
	int err = get_dev(t);

	return err ? err : rdmamsg__dev_get(t->ctx, t->dev->device->v,
					    t->dev->device->name,
					    t->opts.ep ? t->opts.ep->pd : NULL,
					    ret);
}

int rdmamsg_dc_target_get_key(struct rdmamsg_dc_target *t,
			      struct rdmamsg_region *region,
			      struct rdmamsg_key *ret)
{
	int err = rdmamsg__region_check(region);

	if (err)
		return err;
	if (!t || !ret || t->ctx != region->ctx ||
	    !(region->access & ACCESS_REMOTE))
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_target_get_key: %s",
				     !t || !ret ? "target or ret is NULL" :
				     t->ctx != region->ctx ?
				     "the region is of another context" :
				     "the region allows a peer nothing");
	if (!t->listener || t->ctx->closing)
		return rdmamsg__fail(-ESHUTDOWN, "rdmamsg_dc_target_get_key: "
				     "the target was destroyed");
	err = get_dev(t);
	if (!err)
		err = rdmamsg__region_register(region, t->dev);
	if (err)
		return err;
	(void)rdmamsg__region_key(region, t->dev, ret);
	return 0;
}

static void on_layout_key(const struct layout_ask *a, int status)
{
	struct rdmamsg_dc_target *t = a->owner;

	rdmamsg__tell(&t->ctx->loop, t->opts.on_complete, t, a->cookie, status);
}

int rdmamsg_dc_target_get_layout_key(struct rdmamsg_dc_target *t,
				     struct rdmamsg_layout *layout, void *buf,
				     size_t room, size_t *ret_len, void *cookie)
{
	struct layout_ask a = {
		.layout = layout, .buf = buf, .ret_len = ret_len, .owner = t,
		.cookie = cookie, .done = on_layout_key,
	};
	int err = rdmamsg__layout_ok(layout);

	if (!err && (!t || t->ctx != layout->region.ctx))
		err = rdmamsg__fail(-EINVAL, "rdmamsg_dc_target_get_layout_"
				    "key: the target is NULL, or of another "
				    "context");
	if (!err && (!t->listener || t->ctx->closing))
		err = rdmamsg__fail(-ESHUTDOWN, "rdmamsg_dc_target_get_layout_"
				    "key: the target was destroyed");
	if (!err)
		err = rdmamsg__layout_range(layout, 0, 0);
	if (!err)
		err = get_dev(t);
	if (err)
		return err;
	a.dev = t->dev;
	return rdmamsg__layout_ask(&a, room);
}

/* ---- life ------------------------------------------------------------- */

/* A target's copy of what its options point to. */
struct target_ep {
	struct rdmamsg_ep_options opts;	/* first: delete() frees it */
	struct rdmamsg_ep_tuning tuning;
};

/* Copies the options. Those of connections are copied without their strings. */
static int copy_options(struct rdmamsg_dc_target *t,
			const struct rdmamsg_dc_target_options *opts)
{
	struct rdmamsg_dc_target_options *o = &t->opts;
	struct target_ep *ep;
	int ret = rdmamsg__opts_copy(o, sizeof(*o), opts,
				     "rdmamsg_dc_target_options");

	if (!ret && o->path > RDMAMSG_DC_NATIVE)
		ret = rdmamsg__fail(-EINVAL, "path %u: must be at most %d",
				    o->path, RDMAMSG_DC_NATIVE);
	if (ret || !o->ep)
		return ret;
	ep = malloc(sizeof(*ep));
	if (!ep) {
		o->ep = NULL;
		return rdmamsg__fail(-ENOMEM, "no memory for a target");
	}
	ret = rdmamsg__ep_options_copy(&ep->opts, &ep->tuning, o->ep);
	o->ep = &ep->opts;
	return ret ? ret : rdmamsg__dc_options_check(o->ep, o->path);
}

/* For the device of keys. */
static int copy_names(struct rdmamsg_dc_target *t, const char *host)
{
	t->host = host ? strdup(host) : NULL;
	t->device = t->opts.device ? strdup(t->opts.device) : NULL;
	if ((host && !t->host) || (t->opts.device && !t->device))
		return rdmamsg__fail(-ENOMEM, "no memory for a target");
	return 0;
}

/* Limits of sessions, like those of the listener, but fair to each address. */
static int make_door(struct rdmamsg_dc_target *t)
{
	const struct rdmamsg_listen_options o = {
		.backlog = GIVEN, .max_requests = GIVEN, .max_half_open = GIVEN,
		.max_endpoints = t->opts.max_senders ?: TARGET_SENDERS,
		.slow_ms = RDMAMSG_NONE,
	};

	t->door = rdmamsg__door_new(&o);
	return t->door ? 0 :
	       rdmamsg__fail(-ENOMEM, "no memory for a target");
}

static void delete(struct rdmamsg_dc_target *t)
{
	rdmamsg__door_close(t->door);
	free((void *)(uintptr_t)t->opts.ep);
	free(t->host);
	free(t->device);
	free(t);
}

int rdmamsg_dc_target_create(struct rdmamsg *ctx, const char *host,
			     const char *service,
			     const struct rdmamsg_dc_target_options *opts,
			     struct rdmamsg_dc_target **ret_target)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .handlers = &on,
	};
	struct rdmamsg_dc_target *t;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_target)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_target_create: ret "
				     "is NULL");
	t = calloc(1, sizeof(*t));
	if (!t)
		return rdmamsg__fail(-ENOMEM, "no memory for a target");
	t->ctx = ctx;
	t->object = ++ctx->objects;
	list_init(&t->links);
	list_init(&t->visitors);
	list_init(&t->tickets);
	list_init(&t->due);
	ret = copy_options(t, opts);
	lopts.user = t;
	lopts.device = t->opts.device;
	lopts.max_endpoints = t->opts.max_senders;
	/* one host may have many senders */
	lopts.max_per_source = RDMAMSG_NONE;
	if (!ret)
		ret = copy_names(t, host);
	if (!ret)
		ret = make_door(t);
	if (!ret)
		ret = rdmamsg_listen(ctx, host, service, &lopts, &t->listener);
	if (ret) {
		delete(t);
		return ret;
	}
	t->opts.device = NULL;
	t->port = rdmamsg_listener_port(t->listener);
	list_add_tail(&ctx->dcs->targets, &t->node);
	*ret_target = t;
	return 0;
}

void rdmamsg_dc_target_destroy(struct rdmamsg_dc_target *t)
{
	struct list *n;

	if (!t || rdmamsg__try(rdmamsg__ctx_check(t->ctx)))
		return;
	/* rdmamsg_close() has closed the listener, and destroys the target */
	if (!t->listener || t->ctx->closing)
		return;
	rdmamsg_listener_close(t->listener);
	t->listener = NULL;
	list_for_each(n, &t->links)
		rdmamsg_ep_close(list_entry(n, struct link, node)->ep);
	rdmamsg__visitors_leave(t);
	rdmamsg__dc_target_due(t);
}

void rdmamsg__dc_target_leave(struct rdmamsg_dc_target *t)
{
	rdmamsg__visitors_leave(t);
}

void rdmamsg__dc_target_cut(struct rdmamsg_dc_target *t)
{
	rdmamsg__visitors_cut(t);
}

void rdmamsg__dc_target_settle(struct rdmamsg_dc_target *t)
{
	list_del(&t->due);
	if (has_ended(t))
		rdmamsg__dc_target_free(t);
}

void rdmamsg__dc_target_free(struct rdmamsg_dc_target *t)
{
	rdmamsg__visitors_close(t);
	list_del(&t->node);
	list_del(&t->due);
	rdmamsg__layout_asks_end(t->ctx, t);
	put_dev(t);
	t->ctx->loop.told = true;
	rdmamsg__tell(&t->ctx->loop, t->opts.on_destroyed, t);
	delete(t);
}

void *rdmamsg_dc_target_user(const struct rdmamsg_dc_target *t)
{
	return t ? t->opts.user : NULL;
}

uint16_t rdmamsg_dc_target_port(const struct rdmamsg_dc_target *t)
{
	return t ? t->port : 0;
}

/*
 * If senders reach a DCT, only its device knows of other keys. Without
 * RDMAMSG_DC_NATIVE no DCT is made where the device does not count them.
 */
static int check_counts(struct rdmamsg_dc_target *t)
{
	struct dc_place unused;
	uint32_t n;

	if (t->opts.path != RDMAMSG_DC_NATIVE || !rdmamsg__dc_offers(t) ||
	    rdmamsg__try(rdmamsg__visitors_place(t, &unused)) ||
	    !rdmamsg__try(rdmamsg__dct_violations(t->dc->dev->device,
						  t->dc->dct, &n)))
		return 0;
	return rdmamsg__fail(-EOPNOTSUPP, "rdmamsg_dc_target_arm: device %s "
			     "does not count access key violations: use "
			     "RDMAMSG_DC_CONNECTIONS, which tells of them",
			     t->dc->dev->device->name);
}

int rdmamsg_dc_target_arm(struct rdmamsg_dc_target *t)
{
	int err;

	if (!t)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_target_arm: target "
				     "is NULL");
	err = rdmamsg__ctx_check(t->ctx);
	if (err)
		return err;
	if (!t->opts.on_violation)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_target_arm: the "
				     "target has no on_violation");
	if (!t->listener || t->ctx->closing)
		return rdmamsg__fail(-ESHUTDOWN, "rdmamsg_dc_target_arm: the "
				     "target was destroyed");
	err = check_counts(t);
	if (err)
		return err;
	t->seen_violations = rdmamsg__visitors_violations(t);
	t->armed = true;
	return 0;
}
