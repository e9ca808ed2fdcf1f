/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side: from a name to a connected queue pair. */
#include "internal.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define RESOLVE_MS	2000	/* one address of several */
#define BACKOFF_MS	20	/* the first one after a stale reject */
#define BACKOFF_MAX_MS	1000

/* IB reject reasons, enum ib_cm_rej_reason in Linux include/rdma/ib_cm.h */
#define REJ_NO_RESOURCES	3
#define REJ_INVALID_SERVICE	8
#define REJ_STALE		10
#define REJ_CONSUMER		28

int rdmamsg__cm_fail(const struct rdmamsg *ctx, int err, const char *what)
{
	if (err == -EACCES && (geteuid() != ctx->euid || getegid() != ctx->egid))
		return rdmamsg__fail(-EPERM, "%s: the credentials of this "
				     "process changed since rdmamsg_open(), and "
				     "the device serves only those that opened "
				     "it: open the context after setuid()",
				     what);
	return rdmamsg__fail_verbs(err, what);
}

/* ---- hello ------------------------------------------------------------ */

void rdmamsg__hello_fill(struct rdmamsg_ep *ep,
			 uint8_t out[static PROTO_HELLO_MAX], uint8_t *ret_len)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.features = PROTO_FEATURE_RMA,
		.credits = (uint16_t)min(rdmamsg__granted(ep), 0xffffu),
		.data = ep->hello_data,
		.data_len = (uint8_t)ep->opts.hello_data_len,
	};

	*ret_len = (uint8_t)rdmamsg__hello_encode(&h, out);
}

int rdmamsg__hello_check(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	struct proto_hello h;
	int ret = rdmamsg__hello_decode(&h, ev->data, ev->conn.private_data_len);

	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
				   -EPROTO, "what answers there does not speak "
				   "rdmamsg");
		return ret;
	}
	ret = rdmamsg__hello_version(&h);
	if (ret < 0) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   ret, "no common protocol version: the peer "
				   "speaks %u to %u, this library %u", h.lowest,
				   h.highest, PROTO_VERSION);
		return ret;
	}
	ep->version = (uint32_t)ret;
	ep->features = h.features & PROTO_FEATURE_RMA;
	ep->tx_limit = h.credits;
	ep->hello_ok = true;
	return 0;
}

/* ---- steps ------------------------------------------------------------ */

static void fail_local(struct rdmamsg_ep *ep, enum rdmamsg_cause cause, int err)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, cause, err, "%s",
			   rdmamsg_error());
	rdmamsg__ep_kill(ep);
}

static int step_ms(const struct rdmamsg_ep *ep)
{
	uint64_t now = rdmamsg__now_ms();
	uint64_t left = ep->deadline > now ? ep->deadline - now : 1;

	/* the last address may have all the time there is */
	return (int)(ep->addr->ai_next ? min(left, (uint64_t)RESOLVE_MS) : left);
}

static int bind_source(struct rdmamsg_ep *ep, struct sockaddr_storage *src)
{
	struct addrinfo *ai;
	const char *device = ep->device ? ep->device : rdmamsg__env_device();

	if (ep->source) {
		if (rdmamsg__resolve_numeric(ep->source, NULL, 0, &ai))
			return rdmamsg__fail(-EINVAL, "source '%s' is not a "
					     "numeric address", ep->source);
		memcpy(src, ai->ai_addr, ai->ai_addrlen);
		freeaddrinfo(ai);
		if (src->ss_family != ep->addr->ai_family)
			return rdmamsg__fail(-EINVAL, "source '%s' is not of "
					     "the peer's address family",
					     ep->source);
		return 1;
	}
	/* to the soft HCA all addresses of this host are the same */
	if (!device || !strcmp(device, "hw") ||
	    ep->v == &rdmamsg__verbs_soft ||
	    (rdmamsg__soft_below() && !strcmp(device, "soft")))
		return 0;
	return rdmamsg__device_addr(ep->v, device, ep->addr->ai_family, src) ?:
	       1;
}

/* What was asked for; else a device that leads there, else the soft HCA. */
static void choose(struct rdmamsg_ep *ep)
{
	const char *asked = ep->device ? ep->device : rdmamsg__env_device();
	bool soft = ep->or_soft;	/* it is its turn */

	ep->or_soft = false;
	ep->v = rdmamsg__device_table(asked);
	if (ep->v)
		return;
	ep->v = rdmamsg__verbs;
	if (!rdmamsg__addr_is_loopback(ep->addr->ai_addr))
		return;
	if (soft || rdmamsg__device_any(rdmamsg__verbs) == -ENODEV)
		ep->v = &rdmamsg__verbs_soft;
	else
		ep->or_soft = true;
}

/* One address: id, options, address resolution. */
static int dial_addr(struct rdmamsg_ep *ep)
{
	const struct verbs_api *v;
	struct sockaddr_storage src = { 0 };
	uint8_t tos = (uint8_t)ep->opts.tos;
	int ret, bound;

	choose(ep);
	v = ep->v;
	/* first: it knows best what is wrong with a device of that name */
	bound = bind_source(ep, &src);
	if (bound < 0)
		return bound;
	ret = rdmamsg__cm_id_new(ep->ctx, v, &ep->owner, &ep->id);
	if (ret)
		return ret;
	if (ep->opts.tos != RDMAMSG_NONE) {
		ret = rdmamsg__verbs_ret(v->set_option(ep->id, RDMA_OPTION_ID,
						       RDMA_OPTION_ID_TOS,
						       &tos, sizeof(tos)));
		if (ret)
			return rdmamsg__cm_fail(ep->ctx, ret, "type of service");
	}
	memcpy(&ep->peer_addr, ep->addr->ai_addr, ep->addr->ai_addrlen);
	ep->state = EP_RESOLVING;
	ret = rdmamsg__verbs_ret(v->resolve_addr(ep->id, bound ?
				 (struct sockaddr *)&src : NULL,
				 ep->addr->ai_addr, step_ms(ep)));
	if (ret)
		return rdmamsg__cm_fail(ep->ctx, ret,
					ep->source && ret == -EADDRNOTAVAIL ?
					"source" : "address");
	return 0;
}

static void drop_try(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_resources_free(ep);
	if (ep->id)
		rdmamsg__cm_id_free(ep->v, ep->id);
	ep->id = NULL;
	ep->hot.sq_posted = ep->sq_done = 0;
	ep->st.sent_inline = 0;
}

/* The receives of a try that came to nothing. */
static void drop_receives(struct rdmamsg_ep *ep)
{
	if (!ep->hot.qp)
		return;
	rdmamsg__qp_destroy(ep);
	rdmamsg__rx_discard(ep);
}

/* From ep->addr on, the first that can be tried; the error of the last. */
static int try_addrs(struct rdmamsg_ep *ep)
{
	for (;;) {
		int ret = dial_addr(ep);

		if (!ret)
			return 0;
		drop_try(ep);
		if (ep->or_soft)
			continue;
		if (!ep->addr->ai_next)
			return ret;
		log_info("ep %p: %s; trying the next address", (void *)ep,
			 rdmamsg_error());
		ep->addr = ep->addr->ai_next;
	}
}

/* This address did not do: the next one, or the end with what is noted. */
static void next_addr(struct rdmamsg_ep *ep)
{
	int ret;

	drop_receives(ep);
	drop_try(ep);
	if (!ep->addr || (!ep->addr->ai_next && !ep->or_soft)) {
		rdmamsg__ep_kill(ep);
		return;
	}
	log_info("ep %p: %s; trying the %s", (void *)ep, ep->reason.text,
		 ep->or_soft ? "soft HCA" : "next address");
	if (!ep->or_soft)
		ep->addr = ep->addr->ai_next;
	ep->reason_set = false;
	ret = try_addrs(ep);
	if (ret)
		fail_local(ep, RDMAMSG_CAUSE_ADDRESS, ret);
}

void rdmamsg__resolved(struct rdmamsg_ep *ep, int gai, struct addrinfo *addrs)
{
	int ret;

	if (gai) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
				   -EADDRNOTAVAIL, "cannot resolve %s port %s: "
				   "%s", ep->host, ep->service,
				   gai_strerror(gai));
		rdmamsg__ep_kill(ep);
		return;
	}
	ep->addrs = ep->addr = addrs;
	if (ep->oob) {
		rdmamsg__oob_resolved(ep);
		return;
	}
	ret = try_addrs(ep);
	if (ret)
		fail_local(ep, RDMAMSG_CAUSE_ADDRESS, ret);
}

void rdmamsg__dial_stop(struct rdmamsg_ep *ep)
{
	rdmamsg__oob_stop(ep);
	if (ep->resolve)
		rdmamsg__resolve_abandon(ep->resolve);
	ep->resolve = NULL;
	if (ep->addrs)
		freeaddrinfo(ep->addrs);
	ep->addrs = ep->addr = NULL;
}

void rdmamsg__dial_again(struct rdmamsg_ep *ep)
{
	int ret;
	uint64_t now = rdmamsg__now_ms();

	rdmamsg__timer_set(&ep->ctx->timers, &ep->timer,
			   ep->deadline > now ? ep->deadline - now : 1);
	ret = dial_addr(ep);
	if (ret)
		fail_local(ep, RDMAMSG_CAUSE_RESOURCES, ret);
}

/*
 * The peer's device still has a connection of our queue pair number from
 * before a crash or reboot: another one, a little later, will do. Jitter
 * keeps many clients of a restarted server apart.
 */
static void back_off(struct rdmamsg_ep *ep)
{
	uint32_t random = 0, ms;

	drop_receives(ep);
	drop_try(ep);
	ep->backoff_ms = ep->backoff_ms ?
		min(2 * ep->backoff_ms, (uint32_t)BACKOFF_MAX_MS) : BACKOFF_MS;
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	ms = ep->backoff_ms / 2 + random % (ep->backoff_ms + 1);
	log_info("ep %p: stale connection rejected, again in %u ms", (void *)ep,
		 ms);
	ep->state = EP_BACKOFF;
	rdmamsg__timer_set(&ep->ctx->timers, &ep->timer, ms);
}

static void on_addr(struct rdmamsg_ep *ep)
{
	const struct verbs_api *v = ep->v;
	const char *name = v->get_device_name(ep->id->verbs->device);
	int ret;

	/* this device leads there: what follows is no reason for another */
	ep->or_soft = false;
	if (ep->device && strcmp(ep->device, "hw") &&
	    strcmp(ep->device, "soft") && strcmp(ep->device, name)) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
				   -ENODEV, "the way to this peer is through "
				   "device %s, not %s", name, ep->device);
		next_addr(ep);
		return;
	}
	ret = rdmamsg__verbs_ret(v->resolve_route(ep->id, step_ms(ep)));
	if (ret)
		fail_local(ep, ret == -ENODEV ? RDMAMSG_CAUSE_ADDRESS :
			   RDMAMSG_CAUSE_UNREACHABLE,
			   rdmamsg__cm_fail(ep->ctx, ret, "route"));
}

static void on_route(struct rdmamsg_ep *ep)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct rdma_conn_param param = { .private_data = hello };
	int ret = rdmamsg__ep_resources(ep);

	if (!ret)
		ret = rdmamsg__qp_init(ep);
	if (ret) {
		fail_local(ep, RDMAMSG_CAUSE_RESOURCES, ret);
		return;
	}
	rdmamsg__hello_fill(ep, hello, &param.private_data_len);
	param.qp_num = ep->hot.qp->qp_num;
	param.responder_resources = ep->resp_res;
	param.initiator_depth = ep->init_depth;
	param.retry_count = (uint8_t)ep->opts.retry_count;
	param.rnr_retry_count = (uint8_t)ep->opts.rnr_retry_count;
	param.flow_control = 1;
	ep->state = EP_REQUESTED;
	ret = rdmamsg__verbs_ret(ep->v->connect(ep->id, &param));
	if (ret)
		fail_local(ep, RDMAMSG_CAUSE_RESOURCES,
			   rdmamsg__cm_fail(ep->ctx, ret, "connecting"));
}

static void on_response(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	int ret;

	if (ep->state != EP_REQUESTED)
		return;
	ep->established = true;		/* as far as disconnecting goes */
	if (rdmamsg__hello_check(ep, ev)) {
		rdmamsg__ep_kill(ep);
		return;
	}
	ret = rdmamsg__qp_ready(ep);
	if (!ret) {
		ret = rdmamsg__verbs_ret(ep->v->establish(ep->id));
		/* the kernel's word for a connection that has ended meanwhile */
		if (ret == -EINVAL)
			ret = -ECONNRESET;
		if (ret)
			rdmamsg__cm_fail(ep->ctx, ret, "connecting");
	}
	if (ret == -ECONNRESET) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
				   ret, "the peer was killed or has given up "
				   "while connecting");
		rdmamsg__ep_kill(ep);
		return;
	}
	if (ret) {
		fail_local(ep, RDMAMSG_CAUSE_RESOURCES, ret);
		return;
	}
	memcpy(&ep->local_addr, rdma_get_local_addr(ep->id),
	       sizeof(ep->id->route.addr.src_storage));
	ep->state = EP_SETUP;
	ep->ctrl_due |= CTRL_SETUP;
	rdmamsg__ep_touch(ep);
}

static void on_rejected(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	struct proto_hello h = { 0 };
	bool ours = !rdmamsg__hello_decode(&h, ev->data,
					   ev->conn.private_data_len);

	if (ev->status == REJ_STALE) {
		back_off(ep);
		return;
	}
	ep->reason.cm_event = ev->type;
	ep->reason.cm_status = ev->status;
	if (ours && h.data_len) {
		memcpy(ep->reason_data, h.data, h.data_len);
		ep->reason.data = ep->reason_data;
		ep->reason.data_len = h.data_len;
	}
	if (ev->status == REJ_INVALID_SERVICE || ev->status == -ECONNREFUSED)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
				   -ECONNREFUSED, "nobody listens on port %u of "
				   "that host", ntohs(rdma_get_dst_port(ep->id)));
	else if (ours && h.reject == PROTO_REJECT_VERSION)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   -EPROTONOSUPPORT, "no common protocol "
				   "version: the peer speaks %u to %u, this "
				   "library %u", h.lowest, h.highest,
				   PROTO_VERSION);
	else if (ours && h.reject == PROTO_REJECT_RESOURCES)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   RDMAMSG_CAUSE_RESOURCES, -ECONNREFUSED,
				   "the peer has no memory or device resources "
				   "for another connection");
	else if (ours && h.reject == PROTO_REJECT_APP)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
				   -ECONNREFUSED, "rejected by the peer's "
				   "program");
	else if (ours || ev->status != REJ_CONSUMER)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   ev->status == REJ_NO_RESOURCES ?
				   RDMAMSG_CAUSE_RESOURCES :
				   RDMAMSG_CAUSE_REJECTED, -ECONNREFUSED,
				   "rejected by the peer (reason %d)",
				   ev->status);
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
				   -ECONNREFUSED, "rejected by the peer, which "
				   "may not speak rdmamsg, or failed to accept");
	next_addr(ep);
}

/* What ended the try, in words. status is a -errno here. */
static void on_failed(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	int err = ev->status < 0 ? ev->status : -EHOSTUNREACH;

	if (ep->state >= EP_DRAINING)
		return;
	ep->reason.cm_event = ev->type;
	ep->reason.cm_status = ev->status;
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (err == -ENODEV || err == -EADDRNOTAVAIL || err == -EINVAL)
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
					   RDMAMSG_CAUSE_ADDRESS, -ENODEV,
					   ep->v == &rdmamsg__verbs_soft ?
					   "the soft HCA leads to addresses "
					   "of this host, and %s is none" :
					   "no RDMA device leads to %s: see "
					   "'rdma link', or give the network "
					   "interface one with 'rdma link add "
					   "rxe0 type rxe netdev NAME'; within "
					   "this host RDMAMSG_DEVICE=soft",
					   ep->host);
		else
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
					   RDMAMSG_CAUSE_UNREACHABLE, err,
					   "%s: no answer to address resolution "
					   "(%s)", ep->host, strerror(-err));
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_UNREACHABLE, err,
				   "no route to %s (%s)", ep->host,
				   strerror(-err));
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE,
				   RDMAMSG_CAUSE_TRANSPORT, err,
				   "the connection could not be set up (%s)",
				   strerror(-err));
		break;
	default:
		if (err == -EMFILE || err == -ENFILE || err == -ENOMEM ||
		    err == -EACCES) {
			/* of our own: nobody has been asked */
			fail_local(ep, RDMAMSG_CAUSE_RESOURCES,
				   rdmamsg__cm_fail(ep->ctx, err, "connecting"));
			return;
		}
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_UNREACHABLE, err,
				   "%s does not answer", ep->host ? ep->host :
				   "the peer");
	}
	/* with a SETUP on its way it is too late for another address */
	if (ep->passive || ep->state == EP_SETUP)
		rdmamsg__ep_kill(ep);
	else
		next_addr(ep);
}

void rdmamsg__ep_disconnected(struct rdmamsg_ep *ep)
{
	ep->disconnected = true;
	/* what arrived before it is delivered before it */
	rdmamsg__cq_poll(ep->ctx, 1 << 20);
	if (ep->state == EP_CLOSING && ep->close_seen) {
		/* our farewell may still wait for its acknowledgement */
		rdmamsg__ep_touch(ep);
		return;
	}
	if (ep->state < EP_DRAINING && ep->reason.cause == RDMAMSG_CAUSE_CLOSED)
		ep->reason_set = false;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
			   -ECONNRESET, "the peer ended the connection without "
			   "closing it: aborted, crashed or killed");
	rdmamsg__ep_kill(ep);
}

void rdmamsg__ep_cm_event(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	/* any event may come in any state: each handler looks for itself */
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (ep->state == EP_RESOLVING)
			on_addr(ep);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (ep->state == EP_RESOLVING)
			on_route(ep);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		on_response(ep, ev);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		ep->established = true;
		if (ep->passive && ep->state == EP_REQUESTED)
			ep->state = EP_SETUP;
		rdmamsg__ep_touch(ep);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (ep->state == EP_REQUESTED && !ep->passive)
			on_rejected(ep, ev);
		else if (ep->state < EP_SETUP)
			on_failed(ep, ev);
		else
			/* it ended before our establishing reached it */
			rdmamsg__ep_disconnected(ep);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		if (ep->state < EP_OPEN)
			on_failed(ep, ev);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/*
		 * Kernels from 6.0 on also raise it when a neighbour entry
		 * changes under a connection that works: liveness will tell.
		 */
		if (ep->state < EP_SETUP)
			on_failed(ep, ev);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdmamsg__ep_disconnected(ep);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		rdmamsg__ep_removed(ep);
		break;
	default:
		break;
	}
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg__fail_path(void)
{
	return rdmamsg__fail(-EINVAL, "path: the connection manager finds the "
			     "path; it is for rdmamsg_oob_connect(3) and its "
			     "like");
}

int rdmamsg__dial_start(struct rdmamsg_ep *ep)
{
	struct addrinfo *addrs;
	int gai = rdmamsg__resolve_numeric(ep->host, ep->service, 0, &addrs);

	if (!gai) {
		ep->addrs = ep->addr = addrs;
		return ep->oob ? rdmamsg__oob_dial(ep) : try_addrs(ep);
	}
	if (gai == EAI_SERVICE)
		return rdmamsg__fail_service(ep->service);
	if (gai != EAI_NONAME)
		return rdmamsg__fail(-EINVAL, "%s port %s: %s", ep->host,
				     ep->service, gai_strerror(gai));
	return rdmamsg__resolve_start(ep, &ep->resolve);
}

/* Not yet on its way. */
int rdmamsg__dial_new(struct rdmamsg *ctx, const char *host,
		      const char *service,
		      const struct rdmamsg_ep_options *opts,
		      struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!host || !service)
		return rdmamsg__fail(-EINVAL, "rdmamsg_connect: %s is NULL",
				     host ? "service" : "host");
	if (ctx->closing)
		return rdmamsg__fail(-ESHUTDOWN, "the context is being closed");
	ret = rdmamsg__ep_new(ctx, opts, &ep);
	if (ret)
		return ret;
	ep->host = strdup(host);
	ep->service = strdup(service);
	if (!ep->host || !ep->service) {
		rdmamsg__ep_unborn(ep);
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	}
	*ret_ep = ep;
	return 0;
}

int rdmamsg_connect(struct rdmamsg *ctx, const char *host, const char *service,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__dial_new(ctx, host, service, opts, &ep);

	if (ret)
		return ret;
	ret = ep->opts.path ? rdmamsg__fail_path() :
	      rdmamsg__dial_start(ep);
	if (ret) {
		rdmamsg__ep_unborn(ep);
		return ret;
	}
	if (ret_ep)
		*ret_ep = ep;
	return 0;
}
