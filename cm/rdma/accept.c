/* SPDX-License-Identifier: BSD-2-Clause */
/* The passive side over the CM: requests and their answers. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "cm/connect.h"
#include "cm/shared_port.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include "cm/rdma/cm.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

static void reject_id(struct rdmamsg *ctx, const struct verbs_api *v,
		      struct rdma_cm_id *id, enum proto_reject code,
		      uint32_t limit, const void *data, size_t len)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct proto_hello h = {
		.lowest = PROTO_VERSION_LOWEST,
		.highest = PROTO_VERSION,
		.reject = (uint16_t)code, .limit = limit, .data = data,
		.data_len = (uint8_t)len,
	};
	size_t n = rdmamsg__hello_encode(&h, hello);
	int ret = rdmamsg__v_reject(v, id, hello, (uint8_t)n);

	rdmamsg__note_reject(ctx, &id->route.addr.dst_storage, code, limit);
	if (ret)
		log_info("context %u: a request could not be rejected: %s",
			 ctx->number, strerror(-ret));
}

static void drop(struct rdmamsg *ctx, const struct cm_event *ev,
		 enum proto_reject code, uint32_t limit)
{
	reject_id(ctx, ev->v, ev->id, code, limit, NULL, 0);
	rdmamsg__cm_id_free(ev->v, ev->id);
}

/* Returns 0, -errno, or the enum proto_limit that is reached. */
static int request_of(struct rdmamsg_listener *l, const struct cm_event *ev,
		      const struct proto_hello *h,
		      struct rdmamsg_request **ret_req)
{
	struct visitor v = { .door = NULL };
	int ret = 0;

	/* rdmamsg__shared_port_give() chooses whose visitor it is */
	if (!l->shared || h->features & PROTO_FEATURE_LANE)
		ret = rdmamsg__request_admit(
				l, &ev->id->route.addr.dst_storage, &v);
	if (ret)
		return ret;
	ret = rdmamsg__request_new(l, h, &v, ret_req);
	if (ret)
		rdmamsg__visitor_leave(&v);
	return ret;
}

/* The peer has given up, or the device is gone. */
static void on_event(struct rdmamsg *ctx, struct cm_owner *owner,
		     const struct cm_event *ev)
{
	struct rdmamsg_request *req =
		list_entry(owner, struct rdmamsg_request, owner);

	/* wait until hand_over() in another thread has moved the request */
	pthread_mutex_lock(&ctx->sessions->cm_lock);
	pthread_mutex_unlock(&ctx->sessions->cm_lock);
	switch (ev->type) {
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/*
		 * Free the id at once, because the kernel waits for it and the
		 * program may answer much later.
		 */
		rdmamsg__cm_id_free(req->v, req->id);
		req->id = NULL;
		/* fall through */
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		/*
		 * The program may have the pointer. If so,
		 * rdmamsg_request_accept() fails and frees the request.
		 */
		req->dead = true;
		/* nothing will use the device */
		rdmamsg__request_keys_drop(req);
		if (!list_empty(&req->wait_node))
			rdmamsg__request_free(req);
		break;
	default:
		break;
	}
}

void rdmamsg__request_cm(struct rdmamsg_listener *l, const struct cm_event *ev)
{
	struct id_device on = { .transport = IBV_TRANSPORT_UNKNOWN };
	struct rdmamsg_request *req;
	struct proto_hello h;
	int ret;

	if (rdmamsg__hello_decode(&h, ev->data, ev->conn.private_data_len)) {
		drop(l->ctx, ev, PROTO_REJECT_PROTOCOL, PROTO_LIMIT_NONE);
		return;
	}
	if (rdmamsg__hello_version(&h) < 0) {
		log_debug("a request has protocol version %u to %u", h.lowest,
			  h.highest);
		drop(l->ctx, ev, PROTO_REJECT_VERSION, PROTO_LIMIT_NONE);
		return;
	}
	(void)ev->v->id_device(ev->id, &on);
	if (l->device && strcmp(l->device, on.name)) {
		drop(l->ctx, ev, PROTO_REJECT_APP, PROTO_LIMIT_NONE);
		return;
	}
	ret = rdmamsg__try(request_of(l, ev, &h, &req));
	if (ret > 0) {
		drop(l->ctx, ev, PROTO_REJECT_LIMIT, (uint32_t)ret);
		return;
	}
	if (ret) {
		drop(l->ctx, ev, PROTO_REJECT_RESOURCES, PROTO_LIMIT_NONE);
		rdmamsg__accept_failed(l, ret);
		return;
	}
	req->v = ev->v;
	req->id = ev->id;
	/* a new id inherits the context of the listener's id */
	req->owner.event = on_event;
	req->id->context = &req->owner;
	req->resp_res = ev->conn.responder_resources;
	req->init_depth = ev->conn.initiator_depth;
	req->peer = ev->id->route.addr.dst_storage;
	req->local = ev->id->route.addr.src_storage;
	if (unlikely(h.features & PROTO_FEATURE_LANE))
		rdmamsg__lane_arrived(req);
	else if (l->shared)
		rdmamsg__shared_port_give(l->shared, req);
	else
		rdmamsg__request_arrived(l, req);
}

/* Takes over req->id. */
int rdmamsg__cm_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct rdma_conn_param param = { .private_data = hello };
	int ret = rdmamsg__cm_init(ep);

	if (!ret)
		ret = rdmamsg__cm_check_pkey(ep->connect.pkey, req->id);
	if (ret) {
		reject_id(ep->ctx, req->v, req->id, PROTO_REJECT_RESOURCES,
			  PROTO_LIMIT_NONE, NULL, 0);
		return ret;
	}
	ep->connect.passive = true;
	ep->connect.version = (uint32_t)rdmamsg__hello_version(&req->hello);
	ep->credit.limit = req->hello.credits;
	ep->connect.hello_ok = true;
	rdmamsg__ep_enter(ep, EP_REQUESTED);
	rdmamsg__ep_addr_set(&ep->connect.peer_addr,
			     (const struct sockaddr *)&req->peer);
	rdmamsg__ep_addr_set(&ep->connect.local_addr,
			     (const struct sockaddr *)&req->local);
	ep->lane.v = req->v;
	ep->connect.id = req->id;
	ep->connect.owner.event = rdmamsg__ep_cm_event;
	ep->connect.id->context = &ep->connect.owner;
	req->id = NULL;
	ret = rdmamsg__crc_check(ep, &req->hello);
	if (!ret)
		ret = rdmamsg__ep_resources(ep);
	if (ret)
		goto reject;
	/* the smaller of what this side has and the peer can use */
	ep->lane.resp_res = min(ep->lane.resp_res, req->resp_res);
	ep->lane.init_depth = min(ep->lane.init_depth, req->init_depth);
	rdmamsg__features_take(ep, &req->hello);
	ret = rdmamsg__qp_init(ep);
	if (!ret)
		ret = rdmamsg__qp_ready(ep);
	if (ret)
		goto reject;
	rdmamsg__hello_fill(ep, hello, &param.private_data_len);
	param.qp_num = ep->lane.hot.qp->qp_num;
	param.responder_resources = ep->lane.resp_res;
	param.initiator_depth = ep->lane.init_depth;
	param.rnr_retry_count = rdmamsg__rnr_retry(ep, rdmamsg__features(ep));
	param.flow_control = 1;
	ret = rdmamsg__v_accept(ep->lane.v, ep->connect.id, &param);
	if (ret == -EINVAL)
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	if (ret)
		/* the kernel has rejected the peer already */
		return rdmamsg__cm_fail(ep->ctx, ret, "accepting");
	ep->connect.awaits_reply = rdmamsg__quirks(ep->lane.dev->device)->cm_only;
	return 0;

reject:
	reject_id(ep->ctx, ep->lane.v, ep->connect.id,
		  ep->connect.refused ? ep->connect.refused :
		  ep->connect.limit ? PROTO_REJECT_LIMIT :
				      PROTO_REJECT_RESOURCES,
		  ep->connect.limit, NULL, 0);
	return ret;
}

void rdmamsg__cm_reject(struct rdmamsg_request *req, enum proto_reject code,
			const void *data, size_t len)
{
	reject_id(req->ctx, req->v, req->id, code, req->limit, data, len);
}

const char *rdmamsg__cm_request_device(const struct rdmamsg_request *req,
				       char room[static 64])
{
	struct id_device on;

	if (!req->v->id_device(req->id, &on))
		return NULL;
	strcpy(room, on.name);
	return room;
}

void rdmamsg__cm_drop(struct rdmamsg_request *req)
{
	if (req->id)
		rdmamsg__cm_id_free(req->v, req->id);
	req->id = NULL;
}

/* Events of the moved id need cm_lock, so they wait until the move is done. */
int rdmamsg__cm_move(struct rdmamsg_request *req, struct rdmamsg *to)
{
	struct rdma_event_channel *channel;
	int ret = rdmamsg__cm_open(to, req->v, &channel);

	if (ret || !req->id)
		return ret;
	pthread_mutex_lock(&to->sessions->cm_lock);
	ret = rdmamsg__cm_migrate(to, req->v, req->id);
	pthread_mutex_unlock(&to->sessions->cm_lock);
	return ret ? rdmamsg__cm_fail(to, ret, "moving a request") : 0;
}
