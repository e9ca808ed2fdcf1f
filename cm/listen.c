/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners: their options, and the options of accepted endpoints. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/path.h"
#include "device/pd.h"
#include "device/verbs_call.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "cm/connect.h"
#include "cm/shared_port.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/secret.h"
#include "session/sessions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#define BACKLOG	128u
#define NAME_MS	10000	/* for the resolver, like the client's timeout_ms */
#define FLAGS	(uint32_t)(RDMAMSG_LISTEN_SHARED | RDMAMSG_LISTEN_BY_LOAD)
#define RANGE(...)	RANGE_OF(struct rdmamsg_listen_options, __VA_ARGS__)

/* for endpoints of a listener that drains */
static const struct rdmamsg_migrate_options lane = {
	.size = sizeof(lane), .lane = 1,
};

static const struct range ranges[] = {
	RANGE(backlog, BACKLOG, 0, 1, 65535),
	RANGE(max_requests, 0, RDMAMSG_NONE, 1, EP_MAX),
	RANGE(max_half_open, 0, RDMAMSG_NONE, 1, EP_MAX),
	RANGE(setup_timeout_ms, 5000, RDMAMSG_NONE, 1, 86400000),
	RANGE(max_endpoints, 65536, RDMAMSG_NONE, 1, EP_MAX),
	RANGE(max_per_source, 0, RDMAMSG_NONE, 1, EP_MAX),
	RANGE(slow_ms, 100, RDMAMSG_NONE, 1, DOOR_SLOW_MS),
};

/*
 * Copies the endpoint options, and everything they point to, because they are
 * used after the call.
 */
static int copy_ep_options(struct rdmamsg_listener *l,
			   const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg__ep_options_copy(&l->ep, &l->ep_tuning, opts);

	if (!ret)
		ret = rdmamsg__opts_copy(&l->ep_on, sizeof(l->ep_on),
					 l->ep.handlers, "rdmamsg_ep_handlers");
	if (!ret)
		ret = rdmamsg__ep_options_check(&l->ep);
	if (!ret)
		ret = rdmamsg__srq_options_check(l->ctx, l->ep.srq);
	if (!ret)
		ret = rdmamsg__userpools_check(l->ctx, &l->ep);
	if (!ret)
		ret = rdmamsg__pd_check(l->ctx, l->ep.pd);
	if (ret) {
		l->ep.srq = NULL;
		l->ep.pd = NULL;
		l->ep.recv_pool = l->ep.send_pool = NULL;
		l->ep_tuning.ctrl_pool = NULL;
		return ret;
	}
	rdmamsg__srq_hold(l->ep.srq);
	rdmamsg__userpools_hold(&l->ep);
	rdmamsg__pd_hold(l->ep.pd);
	l->ep.handlers = &l->ep_on;
	l->ep.source = l->ep.device = NULL;
	if (l->ep.path) {
		ret = rdmamsg__path_copy(&l->ep_path, l->ep.path);
		if (ret)
			return ret;
		l->ep.path = &l->ep_path;
	}
	if (l->ep.failover) {
		ret = rdmamsg__failover_copy(&l->ep_failover, l->ep.failover);
		if (ret)
			return ret;
		l->ep.failover = &l->ep_failover;
		/* these are for the side that connects */
		l->ep_failover.host = l->ep_failover.service = NULL;
		l->ep_failover.source = l->ep_failover.device = NULL;
		if (l->ep_failover.announce) {
			l->announce = strdup(l->ep_failover.announce);
			if (!l->announce)
				return rdmamsg__fail(-ENOMEM, "no memory for a "
						     "listener");
			l->ep_failover.announce = l->announce;
		}
	}
	if (l->ep.hello_data_len > sizeof(l->ep_hello) ||
	    l->ep.setup_data_len > RDMAMSG_SETUP_DATA_MAX ||
	    (l->ep.hello_data_len && !l->ep.hello_data) ||
	    (l->ep.setup_data_len && !l->ep.setup_data))
		return rdmamsg__fail(-EINVAL, "hello_data_len or "
				     "setup_data_len: at most %d and %d, with "
				     "data", RDMAMSG_HELLO_DATA_MAX,
				     RDMAMSG_SETUP_DATA_MAX);
	if (l->ep.hello_data_len)
		memcpy(l->ep_hello, l->ep.hello_data, l->ep.hello_data_len);
	l->ep.hello_data = l->ep_hello;
	if (!l->ep.setup_data_len)
		return 0;
	l->ep_setup = malloc(l->ep.setup_data_len);
	if (!l->ep_setup)
		return rdmamsg__fail(-ENOMEM, "no memory for setup_data");
	memcpy(l->ep_setup, l->ep.setup_data, l->ep.setup_data_len);
	l->ep.setup_data = l->ep_setup;
	return 0;
}

static int check_flags(const struct rdmamsg_listener *l)
{
	const uint32_t flags = l->opts.flags;

	if (flags & ~FLAGS)
		return rdmamsg__fail(-EINVAL, "flags 0x%x: 0x%x are unknown",
				     flags, flags & ~FLAGS);
	if (flags == RDMAMSG_LISTEN_BY_LOAD)
		return rdmamsg__fail(-EINVAL, "RDMAMSG_LISTEN_BY_LOAD: only "
				     "with RDMAMSG_LISTEN_SHARED");
	if (flags && l->by->without_cm)
		return rdmamsg__fail(-EOPNOTSUPP, "RDMAMSG_LISTEN_SHARED: only "
				     "a port of rdmamsg_listen() can be "
				     "shared");
	return 0;
}

static int listener_options(struct rdmamsg_listener *l,
			    const struct rdmamsg_listen_options *opts)
{
	const char *device;
	int ret = rdmamsg__opts_copy(&l->opts, sizeof(l->opts), opts,
				     "rdmamsg_listen_options");

	if (!ret)
		ret = rdmamsg__opts_copy(&l->on, sizeof(l->on),
					 l->opts.handlers,
					 "rdmamsg_listener_handlers");
	if (ret)
		return ret;
	if (l->opts.dc)
		return rdmamsg__fail(-EOPNOTSUPP, "dc: listeners of this "
				     "version take connections only; use "
				     "rdmamsg_dc_target_create()");
	ret = check_flags(l);
	if (!ret)
		ret = rdmamsg__set_ranges(&l->opts, ranges,
					  sizeof(ranges) / sizeof(ranges[0]));
	if (!ret)
		ret = rdmamsg__secret_new(l->opts.key, l->opts.key_len,
					  l->opts.key_file, &l->secret);
	l->opts.key = l->opts.key_file = NULL;
	if (ret)
		return ret;
	/* a higher backlog or max_requests raises the next default */
	if (!l->opts.max_requests)
		l->opts.max_requests = max(l->opts.backlog, BACKLOG);
	if (!l->opts.max_half_open)
		l->opts.max_half_open = max(l->opts.max_requests, BACKLOG);
	l->door = rdmamsg__door_new(&l->opts);
	if (!l->door)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	device = rdmamsg__asked(l->opts.device);
	if (rdmamsg__asked_by_name(device)) {
		l->device = strdup(device);
		if (!l->device)
			return rdmamsg__fail(-ENOMEM,
					     "no memory for a listener");
		/*
		 * with an unusable device the listener would reject every peer
		 */
		ret = rdmamsg__device_check(rdmamsg__choose_table(device),
					    device, !l->by->without_cm);
		if (ret)
			return ret;
	}
	if (!l->opts.ep)
		return 0;
	l->auto_accept = !l->on.on_request;
	return copy_ep_options(l, l->opts.ep);
}

const struct secret *rdmamsg__listener_secret(const struct rdmamsg_listener *l)
{
	return l->secret ? l->secret : l->ctx->sessions->secret;
}

void rdmamsg__listener_free(struct rdmamsg_listener *l)
{
	l->by->unlisten(l);
	rdmamsg__srq_rele(l->ep.srq);
	rdmamsg__userpools_rele(&l->ep, &l->ep_tuning);
	rdmamsg__pd_rele(l->ep.pd);
	rdmamsg__door_close(l->door);
	rdmamsg__secret_free(l->secret);
	free(l->ep_setup);
	free(l->announce);
	free(l->device);
	free(l);
}

/* Resolves a name in a thread, and waits at most NAME_MS for it. */
static int resolve_name(const char *host, const char *service,
			const struct addrinfo *hints, int *ret_gai,
			struct addrinfo **ret)
{
	struct addrinfo numeric = *hints;

	numeric.ai_flags |= AI_NUMERICHOST;
	*ret_gai = getaddrinfo(host, service, &numeric, ret);
	if (*ret_gai != EAI_NONAME)
		return 0;
	return rdmamsg__resolve_wait(host, service, hints, NAME_MS, ret_gai,
				     ret);
}

/*
 * If host is NULL, listens on every address: IPv6 and IPv4, or IPv4 alone if
 * the host has no IPv6.
 */
static int resolve_local(const char *host, const char *service,
			 struct addrinfo **ret)
{
	struct addrinfo hints = {
		.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM,
	};
	int gai, err = 0;

	if (!rdmamsg__service_ok(service))
		return rdmamsg__fail_service(service);
	if (host) {
		err = resolve_name(host, service, &hints, &gai, ret);
	} else {
		hints.ai_family = AF_INET6;
		gai = getaddrinfo("::", service, &hints, ret);
	}
	if (err)
		return err;
	if (gai && !host) {
		hints.ai_family = AF_INET;
		gai = getaddrinfo("0.0.0.0", service, &hints, ret);
	}
	if (gai == EAI_SERVICE)
		return rdmamsg__fail_service(service);
	if (gai > 0)
		return rdmamsg__fail_verbs(-gai, "cannot resolve the name to "
					   "listen on");
	if (gai)
		return rdmamsg__fail(-EADDRNOTAVAIL, "cannot listen on %s port "
				     "%s: %s", host ? host : "*", service,
				     gai_strerror(gai));
	return 0;
}

int rdmamsg__listen(struct rdmamsg *ctx, const struct connector *by,
		    const char *host, const char *service,
		    const struct rdmamsg_listen_options *opts,
		    struct rdmamsg_listener **ret_l)
{
	struct rdmamsg_listener *l;
	struct addrinfo *ai;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!service)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_listen: service is NULL");
	if (host && !*host)
		return rdmamsg__fail(-EINVAL, "the host to listen at is \"\": "
				     "give a name or an address of this host, "
				     "or NULL for all of them");
	ret = rdmamsg__ctx_takes(ctx);
	if (ret)
		return ret;
	l = calloc(1, sizeof(*l));
	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	l->by = by;
	l->ctx = ctx;
	l->object = ++ctx->objects;
	list_init(&l->requests);
	list_init(&l->shared_node);
	ret = listener_options(l, opts);
	if (ret)
		goto err_l;
	ret = resolve_local(host, service, &ai);
	if (ret)
		goto err_l;
	ret = by->listen(l, ai);
	freeaddrinfo(ai);
	if (ret)
		goto err_l;
	list_add_tail(&ctx->sessions->listeners, &l->node);
	log_info("context %u: listening on port %u of %s", ctx->number,
		 l->port, by->over(l));
	if (ret_l)
		*ret_l = l;
	return 0;

err_l:
	rdmamsg__listener_free(l);
	return ret;
}

/* Requests that wait for rdmamsg_listener_accept_wait(). */
static void turn_away(struct rdmamsg_listener *l)
{
	while (!list_empty(&l->requests)) {
		struct rdmamsg_request *req =
			list_first(&l->requests, struct rdmamsg_request,
				   wait_node);

		if (l->shared)
			rdmamsg__shared_port_pass(l, req);
		else
			rdmamsg_request_reject(req, NULL, 0);
	}
}

void rdmamsg_listener_close(struct rdmamsg_listener *l)
{
	if (!l || rdmamsg__ctx_check(l->ctx))
		return;
	l->draining = true;
	turn_away(l);
	list_del(&l->node);
	if (!l->waiting) {
		rdmamsg__listener_free(l);
		return;
	}
	/* a callback closes it; rdmamsg_listener_accept_wait() frees it */
	l->closed = true;
	l->by->unlisten(l);
}

int rdmamsg_listener_drain(struct rdmamsg_listener *l)
{
	struct list *n;
	int ret;

	if (!l)
		return rdmamsg__fail(-EINVAL, "rdmamsg_listener_drain: the "
				     "listener is NULL");
	ret = rdmamsg__ctx_check(l->ctx);
	if (ret)
		return ret;
	l->draining = true;
	turn_away(l);
	list_for_each(n, &l->ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		/* an endpoint that cannot move stays until it is closed */
		if (ep->connect.visitor.door == l->door && !ep->carries)
			(void)rdmamsg__try(rdmamsg_ep_migrate(ep, &lane));
	}
	return 0;
}

void rdmamsg__listeners_drain(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->sessions->listeners)
		list_entry(n, struct rdmamsg_listener, node)->draining = true;
}

void rdmamsg__listeners_stop(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->sessions->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, node);

		l->by->unlisten(l);
	}
}

void *rdmamsg_listener_user(const struct rdmamsg_listener *l)
{
	return l ? l->opts.user : NULL;
}

struct rdmamsg *rdmamsg_listener_ctx(const struct rdmamsg_listener *l)
{
	return l ? l->ctx : NULL;
}

int rdmamsg_listener_get_stats(const struct rdmamsg_listener *l,
			       struct rdmamsg_listener_stats *stats)
{
	struct rdmamsg_listener_stats s;
	int ret;

	if (!l)
		return rdmamsg__fail(-EINVAL, "rdmamsg_listener_get_stats: the "
					      "listener is NULL");
	ret = rdmamsg__ctx_check(l->ctx);
	if (ret)
		return ret;
	rdmamsg__door_stats(l->door, &s);
	s.listening = !l->dead;
	s.removed = l->removed;
	s.members = rdmamsg__shared_port_members(l);
	return rdmamsg__give(stats, &s, sizeof(s));
}

uint16_t rdmamsg_listener_port(const struct rdmamsg_listener *l)
{
	return l ? l->port : 0;
}
