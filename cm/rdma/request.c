/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to connect: looked at, accepted, rejected, given to another. */
#include "base/base.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "loop/ctx.h"
#include "loop/submit.h"
#include "session/account.h"
#include "session/connect.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/oob.h"
#include "wire/proto.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

void rdmamsg__request_free(struct rdmamsg_request *req)
{
	list_del(&req->node);
	list_del(&req->wait_node);
	if (req->id)
		rdmamsg__cm_id_free(req->v, req->id);
	if (req->oob)
		rdmamsg__oob_conn_free(req->oob);
	rdmamsg__visitor_leave(&req->visitor);
	free(req);
}

static void reject_id(const struct verbs_api *v, struct rdma_cm_id *id,
		      enum proto_reject code, uint32_t limit, const void *data,
		      size_t len)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.reject = (uint16_t)code, .limit = limit, .data = data,
		.data_len = (uint8_t)len,
	};
	size_t n = rdmamsg__hello_encode(&h, hello);
	int ret = rdmamsg__v_reject(v, id, hello, (uint8_t)n);

	if (ret)
		log_info("a request could not be rejected: %s", strerror(-ret));
}

static void reject_request(struct rdmamsg_request *req, enum proto_reject code,
			   const void *data, size_t len)
{
	if (req->oob)
		rdmamsg__oob_reject(req->oob, code, PROTO_LIMIT_NONE, data,
				    len);
	else
		reject_id(req->v, req->id, code, PROTO_LIMIT_NONE, data, len);
}

int rdmamsg__request_admit(struct rdmamsg_listener *l,
			   const struct sockaddr_storage *from,
			   struct visitor *v)
{
	char host[64];
	int ret;

	if (rdmamsg__door_is_fair(l->door) &&
	    rdmamsg__account_is_full(l->ctx, from)) {
		ret = PROTO_LIMIT_MEMORY;
		rdmamsg__door_refused(l->door, PROTO_LIMIT_MEMORY);
	} else {
		ret = rdmamsg__door_admit(l->door, from, DOOR_REQUEST, v);
	}
	if (ret < 0)
		return rdmamsg__fail(ret, "no memory for a request");
	if (ret > 0)
		log_info("listener %p: a request of %s is rejected: this "
			 "listener limits %s", (void *)l,
			 rdmamsg__addr_text(from, host, sizeof(host)),
			 rdmamsg__limit_text((uint32_t)ret));
	return ret;
}

int rdmamsg__request_new(struct rdmamsg_listener *l,
			 const struct proto_hello *hello, struct visitor *v,
			 struct rdmamsg_request **ret)
{
	struct rdmamsg_request *req = calloc(1, sizeof(*req));

	if (!req)
		return rdmamsg__fail(-ENOMEM, "no memory for a request");
	rdmamsg__visitor_pass(v, &req->visitor);
	req->owner.kind = CM_REQUEST;
	req->ctx = l->ctx;
	req->hello = *hello;
	memcpy(req->data, hello->data, hello->data_len);
	req->hello.data = req->data;
	list_init(&req->wait_node);
	list_add_tail(&l->ctx->requests, &req->node);
	*ret = req;
	return 0;
}

/* The failure of rdmamsg__text(). The callback may close the listener. */
void rdmamsg__accept_failed(struct rdmamsg_listener *l, int err)
{
	const bool gone = err == -ECONNRESET;
	struct rdmamsg_reason why = {
		.size = sizeof(why), .cm_event = -1, .error = err,
		.who = gone ? RDMAMSG_WHO_PEER : RDMAMSG_WHO_LOCAL,
		.cause = gone ? RDMAMSG_CAUSE_ABORTED :
			 RDMAMSG_CAUSE_RESOURCES,
	};
	struct rdmamsg *ctx = l->ctx;

	snprintf(why.text, sizeof(why.text), "%s", rdmamsg__text());
	log_warn("a request could not be accepted: %s", why.text);
	if (!l->auto_accept || !l->opts.on_accept_failed)
		return;
	ctx->in_callback++;
	l->opts.on_accept_failed(l, &why);
	ctx->in_callback--;
}

void rdmamsg__request_arrived(struct rdmamsg_listener *l,
			      struct rdmamsg_request *req)
{
	struct rdmamsg *ctx = l->ctx;	/* the callback may close l */
	int ret;

	if (l->opts.on_request) {
		ctx->in_callback++;
		l->opts.on_request(l, req);
		ctx->in_callback--;
	} else if (l->auto_accept) {
		ret = rdmamsg__try(rdmamsg_accept(req, &l->ep, NULL));
		if (ret)
			rdmamsg__accept_failed(l, ret);
	} else {
		list_add_tail(&l->requests, &req->wait_node);
	}
}

static void drop(const struct cm_event *ev, enum proto_reject code,
		 uint32_t limit)
{
	reject_id(ev->v, ev->id, code, limit, NULL, 0);
	rdmamsg__cm_id_free(ev->v, ev->id);
}

/* Returns 0, -errno, or the enum proto_limit that is reached. */
static int request_of(struct rdmamsg_listener *l, const struct cm_event *ev,
		      const struct proto_hello *h,
		      struct rdmamsg_request **ret_req)
{
	struct visitor v = { .door = NULL };
	int ret = rdmamsg__request_admit(l, &ev->id->route.addr.dst_storage,
					 &v);

	if (ret)
		return ret;
	ret = rdmamsg__request_new(l, h, &v, ret_req);
	if (ret)
		rdmamsg__visitor_leave(&v);
	return ret;
}

void rdmamsg__request_cm(struct rdmamsg_listener *l, const struct cm_event *ev)
{
	struct id_device on = { .transport = IBV_TRANSPORT_UNKNOWN };
	struct rdmamsg_request *req;
	struct proto_hello h;
	int ret;

	if (rdmamsg__hello_decode(&h, ev->data, ev->conn.private_data_len)) {
		log_info("a request that does not speak rdmamsg: rejected");
		drop(ev, PROTO_REJECT_PROTOCOL, PROTO_LIMIT_NONE);
		return;
	}
	if (rdmamsg__hello_version(&h) < 0) {
		log_info("a request of protocol version %u to %u: rejected",
			 h.lowest, h.highest);
		drop(ev, PROTO_REJECT_VERSION, PROTO_LIMIT_NONE);
		return;
	}
	(void)ev->v->id_device(ev->id, &on);
	if (l->device && strcmp(l->device, on.name)) {
		drop(ev, PROTO_REJECT_APP, PROTO_LIMIT_NONE);
		return;
	}
	ret = rdmamsg__try(rdmamsg__device_carries(on.name, on.transport));
	if (!ret)
		ret = rdmamsg__try(request_of(l, ev, &h, &req));
	if (ret > 0) {
		drop(ev, PROTO_REJECT_LIMIT, (uint32_t)ret);
		return;
	}
	if (ret) {
		drop(ev, PROTO_REJECT_RESOURCES, PROTO_LIMIT_NONE);
		rdmamsg__accept_failed(l, ret);
		return;
	}
	req->v = ev->v;
	req->id = ev->id;
	/* it inherited the listener's */
	req->id->context = &req->owner;
	req->resp_res = ev->conn.responder_resources;
	req->init_depth = ev->conn.initiator_depth;
	req->peer = ev->id->route.addr.dst_storage;
	req->local = ev->id->route.addr.src_storage;
	rdmamsg__request_arrived(l, req);
}

/* The peer lost patience, or the device went away. */
void rdmamsg__request_cm_event(struct rdmamsg *ctx, struct rdmamsg_request *req,
			       const struct cm_event *ev)
{
	/* it may be on its way here: hand_over() */
	pthread_mutex_lock(&ctx->cm_lock);
	pthread_mutex_unlock(&ctx->cm_lock);
	switch (ev->type) {
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* the kernel waits for the id; the program may take its time */
		rdmamsg__cm_id_free(req->v, req->id);
		req->id = NULL;
		/* fall through */
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		/* the program has the pointer: it learns when it accepts */
		req->dead = true;
		if (!list_empty(&req->wait_node))
			rdmamsg__request_free(req);
		break;
	default:
		break;
	}
}

static int request_check(const struct rdmamsg_request *req)
{
	if (!req)
		return rdmamsg__fail(-EINVAL, "the request is NULL");
	return rdmamsg__ctx_check(req->ctx);
}

int rdmamsg_request_peer(const struct rdmamsg_request *req,
			 struct sockaddr_storage *ret)
{
	int err = request_check(req);

	if (err)
		return err;
	if (!ret)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_request_peer: ret is NULL");
	*ret = req->peer;
	return 0;
}

const void *rdmamsg_request_data(const struct rdmamsg_request *req,
				 size_t *ret_len)
{
	if (ret_len)
		*ret_len = req->hello.data_len;
	return req->data;
}

int rdmamsg_reject(struct rdmamsg_request *req, const void *data, size_t len)
{
	int ret = request_check(req);

	if (ret)
		return ret;
	if (len > RDMAMSG_HELLO_DATA_MAX || (len && !data)) {
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_reject: at most %d bytes",
				    RDMAMSG_HELLO_DATA_MAX);
		len = 0;
	}
	if (!req->dead)
		reject_request(req, PROTO_REJECT_APP, data, len);
	rdmamsg__request_free(req);
	return ret;
}

/* The endpoint has the id from here on. */
static int accept_ep(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct rdma_conn_param param = { .private_data = hello };
	int ret;

	if (ep->opts.path) {
		reject_id(req->v, req->id, PROTO_REJECT_RESOURCES,
			  PROTO_LIMIT_NONE, NULL, 0);
		return rdmamsg__fail_path();
	}
	ep->connect.passive = true;
	ep->connect.version = (uint32_t)rdmamsg__hello_version(&req->hello);
	ep->credit.limit = req->hello.credits;
	ep->connect.hello_ok = true;
	ep->state = EP_REQUESTED;
	ep->connect.peer_addr = req->peer;
	ep->connect.local_addr = req->local;
	ep->lane.v = req->v;
	ep->connect.id = req->id;
	ep->connect.id->context = &ep->connect.owner;
	req->id = NULL;
	ret = rdmamsg__ep_resources(ep);
	if (ret)
		goto reject;
	/* the smaller of what we have and what the peer can use */
	ep->lane.resp_res = min(ep->lane.resp_res, req->resp_res);
	ep->lane.init_depth = min(ep->lane.init_depth, req->init_depth);
	rdmamsg__features_take(ep, &req->hello);
	ret = rdmamsg__qp_init(ep);
	if (!ret)
		ret = rdmamsg__qp_ready(ep);
	if (ret)
		goto reject;
	rdmamsg__hello_fill(ep, hello, &param.private_data_len);
	param.qp_num = ep->hot.qp->qp_num;
	param.responder_resources = ep->lane.resp_res;
	param.initiator_depth = ep->lane.init_depth;
	param.rnr_retry_count = rdmamsg__rnr_retry(ep, rdmamsg__features(ep));
	param.flow_control = 1;
	ret = rdmamsg__v_accept(ep->lane.v, ep->connect.id, &param);
	if (ret == -EINVAL)
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	if (ret)
		/* the kernel has rejected the peer by now */
		return rdmamsg__cm_fail(ep->ctx, ret, "accepting");
	return 0;

reject:
	reject_id(ep->lane.v, ep->connect.id,
		  ep->connect.limit ? PROTO_REJECT_LIMIT
				    : PROTO_REJECT_RESOURCES,
		  ep->connect.limit, NULL, 0);
	return ret;
}

/* The visitor becomes half-open. setup_timeout_ms begins. */
static int take_visitor(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	struct visitor *v = &ep->connect.visitor;
	uint32_t ms;

	rdmamsg__visitor_pass(&req->visitor, v);
	rdmamsg__visitor_move(v, DOOR_HALF_OPEN);
	ms = rdmamsg__door_setup_ms(v->door);
	if (ms < ep->opts.timeout_ms)
		rdmamsg__timer_set(&ep->ctx->timers, &ep->timer, ms);
	if (!rdmamsg__door_is_fair(v->door))
		return 0;
	ep->rndv.lent->account =
		rdmamsg__account_get(ep->ctx, NULL, &req->peer);
	return ep->rndv.lent->account ? 0 :
	       rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
}

static int accept_request(struct rdmamsg_request *req,
			  const struct rdmamsg_ep_options *opts,
			  struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__ep_new(req->ctx, opts, &ep);

	if (ret) {
		reject_request(req, PROTO_REJECT_RESOURCES, NULL, 0);
		return ret;
	}
	ret = take_visitor(ep, req);
	if (ret)
		reject_request(req, PROTO_REJECT_RESOURCES, NULL, 0);
	else
		ret = req->oob ? rdmamsg__oob_accept(ep, req) :
		      accept_ep(ep, req);
	if (ret == -ENOBUFS || ret == -ENOMEM)
		rdmamsg__door_refused(ep->connect.visitor.door,
				      PROTO_LIMIT_MEMORY);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg_accept(struct rdmamsg_request *req,
		   const struct rdmamsg_ep_options *opts,
		   struct rdmamsg_ep **ret_ep)
{
	int ret = request_check(req);

	if (ret)
		return ret;
	if (req->dead || req->ctx->closing)
		ret = rdmamsg__fail(-ECONNRESET,
				    "the peer has gone meanwhile");
	else
		ret = accept_request(req, opts, ret_ep);
	rdmamsg__request_free(req);
	return ret;
}

/* ---- to another context ----------------------------------------------- */

struct move {
	struct rdmamsg_request *req;
	void (*fn)(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg);
	void *arg;
};

static void moved(struct rdmamsg *ctx, void *arg)
{
	struct move m = *(struct move *)arg;

	free(arg);
	list_add_tail(&ctx->requests, &m.req->node);
	if (ctx->closing)
		rdmamsg_reject(m.req, NULL, 0);
	else
		m.fn(ctx, m.req, m.arg);
}

/* The place of a request that stays. */
static void stayed(struct rdmamsg *ctx, void *arg)
{
}

static void give_to(struct rdmamsg_request *req, struct rdmamsg *ctx)
{
	req->ctx = ctx;
	if (req->oob)
		req->oob->ctx = ctx;
}

/*
 * The other thread gets events of the id as soon as it has moved, and the
 * request when the place is filled: nothing can fail after the first, and
 * nothing touches the request after the second. An event waits for the lock,
 * until the call that moves the id is back.
 */
static int hand_over(struct rdmamsg_request *req, struct rdmamsg *to,
		     struct rdma_event_channel *to_ch, struct move *m)
{
	struct rdmamsg *from = req->ctx;
	uint32_t ticket;
	int ret = rdmamsg__submit_reserve(to, &ticket);

	if (ret)
		return ret;
	list_del(&req->node);
	give_to(req, to);
	pthread_mutex_lock(&to->cm_lock);
	if (req->id)
		ret = rdmamsg__v_migrate_id(req->v, req->id, to_ch);
	pthread_mutex_unlock(&to->cm_lock);
	if (!ret) {
		rdmamsg__submit_fill(to, ticket, moved, m);
		return 0;
	}
	rdmamsg__submit_fill(to, ticket, stayed, NULL);
	give_to(req, from);
	list_add_tail(&from->requests, &req->node);
	return rdmamsg__cm_fail(from, ret, "moving a request");
}

int rdmamsg_request_move(struct rdmamsg_request *req, struct rdmamsg *to,
			 void (*fn)(struct rdmamsg *ctx,
				    struct rdmamsg_request *req, void *arg),
			 void *arg)
{
	struct rdma_event_channel *to_ch = NULL;
	struct move *m;
	int ret = request_check(req);

	if (!ret)
		ret = rdmamsg__ctx_check(to);
	if (ret)
		return ret;
	if (!fn)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_request_move: fn is NULL");
	m = malloc(sizeof(*m));
	if (!m)
		return rdmamsg__fail(-ENOMEM, "no memory to move a request");
	*m = (struct move){ req, fn, arg };
	if (!req->oob)
		ret = rdmamsg__cm_open(to, req->v, &to_ch);
	if (!ret)
		ret = hand_over(req, to, to_ch, m);
	if (ret)
		free(m);
	return ret;
}
