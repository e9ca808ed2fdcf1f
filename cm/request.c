/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to connect: looked at, accepted, rejected, given to another. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void rdmamsg__request_free(struct rdmamsg_request *req)
{
	list_del(&req->node);
	list_del(&req->wait_node);
	if (req->id)
		rdmamsg__cm_id_free(req->v, req->id);
	if (req->oob)
		rdmamsg__oob_conn_free(req->oob);
	free(req);
}

static void reject_id(const struct verbs_api *v, struct rdma_cm_id *id,
		      enum proto_reject code, const void *data, size_t len)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.reject = (uint16_t)code, .data = data,
		.data_len = (uint8_t)len,
	};
	size_t n = rdmamsg__hello_encode(&h, hello);

	if (v->reject(id, hello, (uint8_t)n))
		log_info("a request could not be rejected: %m");
}

static void reject_request(struct rdmamsg_request *req, enum proto_reject code,
			   const void *data, size_t len)
{
	if (req->oob)
		rdmamsg__oob_reject(req->oob, code, data, len);
	else
		reject_id(req->v, req->id, code, data, len);
}

struct rdmamsg_request *rdmamsg__request_new(struct rdmamsg_listener *l,
					     const struct proto_hello *hello)
{
	struct rdmamsg_request *req = calloc(1, sizeof(*req));

	if (!req)
		return NULL;
	req->owner.kind = CM_REQUEST;
	req->ctx = l->ctx;
	req->hello = *hello;
	memcpy(req->data, hello->data, hello->data_len);
	req->hello.data = req->data;
	list_init(&req->wait_node);
	list_add_tail(&l->ctx->requests, &req->node);
	return req;
}

void rdmamsg__request_arrived(struct rdmamsg_listener *l,
			      struct rdmamsg_request *req)
{
	struct rdmamsg *ctx = l->ctx;	/* the callback may close l */

	if (l->opts.on_request) {
		ctx->in_callback++;
		l->opts.on_request(l, req);
		ctx->in_callback--;
	} else if (l->auto_accept) {
		if (rdmamsg_accept(req, &l->ep, NULL))
			log_warn("a request could not be accepted: %s",
				 rdmamsg_error());
	} else {
		list_add_tail(&l->requests, &req->wait_node);
	}
}

static void drop(struct rdmamsg_listener *l, const struct cm_event *ev,
		 enum proto_reject code)
{
	reject_id(ev->v, ev->id, code, NULL, 0);
	rdmamsg__cm_id_free(ev->v, ev->id);
}

void rdmamsg__request_cm(struct rdmamsg_listener *l, const struct cm_event *ev)
{
	struct rdmamsg_request *req;
	struct proto_hello h;

	if (rdmamsg__hello_decode(&h, ev->data, ev->conn.private_data_len)) {
		log_info("a request that does not speak rdmamsg: rejected");
		drop(l, ev, PROTO_REJECT_PROTOCOL);
		return;
	}
	if (rdmamsg__hello_version(&h) < 0) {
		log_info("a request of protocol version %u to %u: rejected",
			 h.lowest, h.highest);
		drop(l, ev, PROTO_REJECT_VERSION);
		return;
	}
	if (l->device &&
	    strcmp(l->device, ev->v->get_device_name(ev->id->verbs->device))) {
		drop(l, ev, PROTO_REJECT_APP);
		return;
	}
	req = rdmamsg__request_new(l, &h);
	if (!req) {
		drop(l, ev, PROTO_REJECT_RESOURCES);
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
void rdmamsg__request_cm_event(struct rdmamsg_request *req,
			       const struct cm_event *ev)
{
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
		reject_id(req->v, req->id, PROTO_REJECT_RESOURCES, NULL, 0);
		return rdmamsg__fail_path();
	}
	ep->passive = true;
	ep->version = (uint32_t)rdmamsg__hello_version(&req->hello);
	ep->tx_limit = req->hello.credits;
	ep->hello_ok = true;
	ep->state = EP_REQUESTED;
	ep->peer_addr = req->peer;
	ep->local_addr = req->local;
	ep->v = req->v;
	ep->id = req->id;
	ep->id->context = &ep->owner;
	req->id = NULL;
	ret = rdmamsg__ep_resources(ep);
	if (ret)
		goto reject;
	/* the smaller of what we have and what the peer can use */
	ep->resp_res = min(ep->resp_res, req->resp_res);
	ep->init_depth = min(ep->init_depth, req->init_depth);
	ret = rdmamsg__qp_init(ep);
	if (!ret)
		ret = rdmamsg__qp_ready(ep);
	if (ret)
		goto reject;
	rdmamsg__features_take(ep, &req->hello);
	rdmamsg__hello_fill(ep, hello, &param.private_data_len);
	param.qp_num = ep->hot.qp->qp_num;
	param.responder_resources = ep->resp_res;
	param.initiator_depth = ep->init_depth;
	param.rnr_retry_count = (uint8_t)ep->opts.rnr_retry_count;
	param.flow_control = 1;
	ret = rdmamsg__verbs_ret(ep->v->accept(ep->id, &param));
	if (ret == -EINVAL)
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	if (ret)
		/* the kernel has rejected the peer by now */
		return rdmamsg__cm_fail(ep->ctx, ret, "accepting");
	return 0;

reject:
	reject_id(ep->v, ep->id, PROTO_REJECT_RESOURCES, NULL, 0);
	return ret;
}

int rdmamsg_accept(struct rdmamsg_request *req,
		   const struct rdmamsg_ep_options *opts,
		   struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	int ret = request_check(req);

	if (ret)
		return ret;
	ctx = req->ctx;
	if (req->dead || ctx->closing) {
		rdmamsg__request_free(req);
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	}
	ret = rdmamsg__ep_new(ctx, opts, &ep);
	if (ret) {
		reject_request(req, PROTO_REJECT_RESOURCES, NULL, 0);
		rdmamsg__request_free(req);
		return ret;
	}
	ret = req->oob ? rdmamsg__oob_accept(ep, req) : accept_ep(ep, req);
	rdmamsg__request_free(req);
	return rdmamsg__ep_made(ep, ret, ret_ep);
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

int rdmamsg_request_move(struct rdmamsg_request *req, struct rdmamsg *to,
			 void (*fn)(struct rdmamsg *ctx,
				    struct rdmamsg_request *req, void *arg),
			 void *arg)
{
	struct rdma_event_channel *to_ch, *from_ch;
	struct rdmamsg *from;
	struct move *m;
	int ret = request_check(req);

	if (!ret)
		ret = rdmamsg__ctx_check(to);
	if (ret)
		return ret;
	if (!fn)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_request_move: fn is NULL");
	from = req->ctx;
	m = malloc(sizeof(*m));
	if (!m)
		return rdmamsg__fail(-ENOMEM, "no memory to move a request");
	m->req = req;
	m->fn = fn;
	m->arg = arg;
	list_del(&req->node);
	req->ctx = to;
	if (req->oob)
		req->oob->ctx = to;
	from_ch = req->id ? req->id->channel : NULL;
	if (!req->oob)
		ret = rdmamsg__cm_open(to, req->v, &to_ch);
	if (ret)
		goto err;
	if (req->id)
		ret = rdmamsg__verbs_ret(req->v->migrate_id(req->id, to_ch));
	if (ret) {
		ret = rdmamsg__cm_fail(from, ret, "moving a request");
		goto err;
	}
	/* from here on its events come up in the other thread */
	ret = rdmamsg_submit(to, moved, m);
	if (!ret)
		return 0;
	if (req->id && req->v->migrate_id(req->id, from_ch))
		log_error("a request could not be moved back: %m");
err:
	req->ctx = from;
	if (req->oob)
		req->oob->ctx = from;
	list_add_tail(&from->requests, &req->node);
	free(m);
	return ret;
}
