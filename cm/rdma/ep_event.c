/* SPDX-License-Identifier: BSD-2-Clause */
/* CM events of an endpoint. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/async.h"
#include "device/choose.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "session/poll.h"
#include "wire/proto.h"

#include "cm/rdma/cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

/* IB reject reasons: enum ib_cm_rej_reason in Linux include/rdma/ib_cm.h */
#define REJ_NO_RESOURCES	3
#define REJ_INVALID_SERVICE	8
#define REJ_STALE		10
#define REJ_CONSUMER		28

static void on_addr(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	const struct verbs_api *v = ep->lane.v;
	const char *device = rdmamsg__asked(ep->connect.device);
	struct id_device on = { .transport = IBV_TRANSPORT_UNKNOWN };
	int ret;

	/* This device has a route, so a later failure does not try soft. */
	ep->connect.or_soft = false;
	ep->connect.led = true;
	if (ep->connect.all_soft)
		rdmamsg__ep_reason_forget(ep);
	(void)v->id_device(ep->connect.id, &on);
	if (rdmamsg__asked_by_name(device) && strcmp(device, on.name)) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
				   -ENODEV,
				   "the way to this peer is through "
				   "device %s, not %s",
				   on.name, device);
		rdmamsg__cm_next(ep);
		return;
	}
	ret = rdmamsg__try(rdmamsg__cm_check_pkey(ep->connect.pkey,
						  ep->connect.id));
	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_UNREACHABLE, ret, "%s",
				   rdmamsg__text());
		rdmamsg__cm_next(ep);
		return;
	}
	ret = rdmamsg__v_resolve_route(v, ep->connect.id, rdmamsg__cm_ms(ep));
	if (ret)
		rdmamsg__dial_failed(ep, ret == -ENODEV ?
				     RDMAMSG_CAUSE_ADDRESS :
				     RDMAMSG_CAUSE_RESOURCES,
				     rdmamsg__cm_fail(ep->ctx, ret, "route"));
}

/* The request could not be sent. */
static void connect_failed(struct rdmamsg_ep *ep, int err)
{
	rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES,
			     rdmamsg__cm_fail(ep->ctx, err, "connecting"));
}

static void on_route(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	uint8_t hello[PROTO_HELLO_MAX];
	struct rdma_conn_param param = { .private_data = hello };
	int ret = rdmamsg__ep_resources(ep);

	if (!ret)
		ret = rdmamsg__qp_init(ep);
	if (ret) {
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, ret);
		return;
	}
	rdmamsg__hello_fill(ep, hello, &param.private_data_len);
	param.qp_num = ep->lane.hot.qp->qp_num;
	param.responder_resources = ep->lane.resp_res;
	param.initiator_depth = ep->lane.init_depth;
	param.retry_count = (uint8_t)ep->tuning.retry_count;
	param.rnr_retry_count = rdmamsg__rnr_retry(ep, rdmamsg__features(ep));
	param.flow_control = 1;
	/* a reject may be an answer, which the device of this address uses */
	rdmamsg__ep_addr_set(&ep->connect.local_addr,
			     rdma_get_local_addr(ep->connect.id));
	rdmamsg__ep_enter(ep, EP_REQUESTED);
	if (rdmamsg__quirks(ep->lane.dev->device)->connects_in_call) {
		ret = rdmamsg__cm_call(ep, &param);
		if (ret)
			connect_failed(ep, ret);
		return;
	}
	rdmamsg__cm_connect_returned(ep, rdmamsg__v_connect(
			ep->lane.v, ep->connect.id, &param));
}

/* The connection is up: this side sends first. */
static void begin_setup(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_enter(ep, EP_SETUP);
	ep->ctrl.due |= CTRL_SETUP;
	if (rdmamsg__quirks(ep->lane.dev->device)->misses_first)
		rdmamsg__live_nudge(ep);
	rdmamsg__ep_touch(ep);
}

/*
 * The peer has accepted over iWARP, and the connection manager has brought the
 * queue pair to RTS. The event has the agreed depths.
 */
static void on_accepted(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	const bool swapped =
		rdmamsg__quirks(ep->lane.dev->device)->swaps_depths;
	int ret;

	if (rdmamsg__hello_check(ep, ev->data, ev->conn.private_data_len)) {
		rdmamsg__ep_kill(ep);
		return;
	}
	ep->lane.resp_res = min(ep->lane.resp_res, swapped ?
				ev->conn.initiator_depth :
				ev->conn.responder_resources);
	ep->lane.init_depth = min(ep->lane.init_depth, swapped ?
				  ev->conn.responder_resources :
				  ev->conn.initiator_depth);
	ret = rdmamsg__qp_ready(ep);
	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, ret);
	else
		begin_setup(ep);
}

static void on_response(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	int ret;

	if (ep->state != EP_REQUESTED)
		return;
	ep->connect.established = true; /* so that a disconnect is sent */
	if (rdmamsg__hello_check(ep, ev->data, ev->conn.private_data_len)) {
		rdmamsg__ep_kill(ep);
		return;
	}
	ret = rdmamsg__qp_ready(ep);
	if (!ret) {
		ret = rdmamsg__v_establish(ep->lane.v, ep->connect.id);
		/* the kernel returns -EINVAL if the connection has ended */
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
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, ret);
		return;
	}
	begin_setup(ep);
}

/*
 * Returns true if the peer's program rejects, or ends the connection before it
 * accepts. On iWARP a driver reports either as -ECONNREFUSED or -ECONNRESET. siw
 * has the latter for both (Linux 6.1, siw_cm.c, siw_proc_mpareply(),
 * SIW_CM_WORK_PEER_CLOSE).
 */
static bool is_consumer_reject(int status)
{
	return status == REJ_CONSUMER || status == -ECONNREFUSED ||
	       status == -ECONNRESET;
}

static void on_rejected(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	struct proto_hello h = { .reject = 0 };
	bool ours = !rdmamsg__hello_decode(&h, ev->data,
					   ev->conn.private_data_len);

	if (ev->status == REJ_STALE) {
		rdmamsg__dial_back_off(ep, PROTO_LIMIT_NONE);
		return;
	}
	if (ours && rdmamsg__rejected_for_now(ep, &h))
		return;
	ep->close.reason.cm_event = ev->type;
	ep->close.reason.cm_status = ev->status;
	if (ev->status == REJ_INVALID_SERVICE ||
	    (ev->status == -ECONNREFUSED && !ev->conn.private_data_len))
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
				   -ECONNREFUSED, "nobody listens on port %u "
				   "of that host%s",
				   ntohs(rdma_get_dst_port(ep->connect.id)),
				   rdmamsg__is_soft(ep->lane.v) ?
				   ", or on the soft HCA with another user, "
				   "network namespace or RDMAMSG_SOFT_FABRIC" :
				   "");
	else if (ours && rdmamsg__rejected(ep, &h))
		;
	else if (ev->status == REJ_NO_RESOURCES)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   RDMAMSG_CAUSE_RESOURCES, -ENOBUFS,
				   "rejected by the peer's connection manager: "
				   "no resources");
	else if (ours || !is_consumer_reject(ev->status))
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
				   -ECONNABORTED, "rejected by the peer "
				   "(reason %d)", ev->status);
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
				   -ECONNABORTED, "rejected by the peer, which "
				   "may not speak rdmamsg, or failed to "
				   "accept");
	rdmamsg__cm_next(ep);
}

static bool is_on_soft(const struct rdmamsg_ep *ep)
{
	return rdmamsg__is_soft(ep->lane.v) || rdmamsg__soft_below();
}

/* The soft HCA has found a peer of another link layer: soft/cm/id.h. */
static bool is_unlike(const struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	return ev->type == RDMA_CM_EVENT_UNREACHABLE &&
	       ev->status == -EPROTOTYPE && ev->conn.private_data_len &&
	       is_on_soft(ep);
}

/* Returns true if a limit or sandbox of this process refuses a connection. */
static bool is_limit_of_soft(const struct rdmamsg_ep *ep, int err)
{
	return is_on_soft(ep) &&
	       (err == -EACCES || err == -EFBIG || err == -ENOSYS);
}

/* Returns true if address resolution means that no device leads there. */
static bool is_no_device(int err)
{
	return err == -ENODEV || err == -EADDRNOTAVAIL || err == -EINVAL;
}

/* Sets the reason of a failed try, and tries the next address. */
static void on_failed(struct rdmamsg_ep *ep, const struct cm_event *ev)
{
	const char *device = rdmamsg__asked(ep->connect.device);
	int err = ev->status < 0 ? ev->status : -EHOSTUNREACH;

	if (ep->state >= EP_DRAINING)
		return;
	ep->connect.led |= ev->type != RDMA_CM_EVENT_ADDR_ERROR ||
			   !is_no_device(err);
	if (ev->type == RDMA_CM_EVENT_ADDR_ERROR && err == -ETIMEDOUT &&
	    rdmamsg__dial_unanswered(ep))
		return;
	ep->close.reason.cm_event = ev->type;
	ep->close.reason.cm_status = ev->status;
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (is_no_device(err))
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
					   RDMAMSG_CAUSE_ADDRESS, -ENODEV,
					   rdmamsg__is_soft(ep->lane.v) ?
					   "the soft HCA does not lead to %s: "
					   "no route ('ip route get'), or "
					   "RDMAMSG_SOFT_NET=0, _FABRIC or "
					   "_LINK keep it within this host" :
					   "no RDMA device leads to %s: see "
					   "'rdma link', or give the network "
					   "interface one with 'rdma link add "
					   "rxe0 type rxe netdev NAME'%s",
					   ep->connect.host,
					   device ? ", or take the soft HCA: "
					   "RDMAMSG_DEVICE=soft" : "");
		else
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
					   RDMAMSG_CAUSE_UNREACHABLE,
					   -EHOSTUNREACH,
					   "%s: no answer to address "
					   "resolution (%s)", ep->connect.host,
					   strerror(-err));
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
				   "no route to %s (%s)", ep->connect.host,
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
		    err == -EACCES || is_limit_of_soft(ep, err)) {
			/* a local error; no request was sent */
			err = is_limit_of_soft(ep, err) ?
			      rdmamsg__fail_soft(err) :
			      rdmamsg__cm_fail(ep->ctx, err, "connecting");
			rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_RESOURCES, err);
			return;
		}
		if (is_unlike(ep, ev)) {
			rdmamsg__ep_reason(
				ep, RDMAMSG_WHO_LOCAL,
				RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
				"soft HCA: %.*s: give both sides the same one",
				(int)ev->conn.private_data_len,
				(const char *)ev->data);
			break;
		}
		rdmamsg__ep_reason(
			ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_UNREACHABLE,
			-EHOSTUNREACH, "%s does not answer%s (%s)",
			ep->connect.host ? ep->connect.host : "the peer",
			ep->connect.all_soft ? " over UDP, and no RDMA device "
			"leads there" : "", strerror(-err));
	}
	/* after SETUP was sent, do not try another address */
	if (ep->connect.passive || ep->state == EP_SETUP)
		rdmamsg__ep_kill(ep);
	else
		rdmamsg__cm_next(ep);
}

/*
 * A device that connects in the call returns what other devices report as an
 * event.
 */
void rdmamsg__cm_connect_returned(struct rdmamsg_ep *ep, int ret)
{
	struct cm_event ev = { .v = ep->lane.v, .status = ret };

	ep->connect.awaits_reply = !ret && ep->lane.dev &&
		rdmamsg__quirks(ep->lane.dev->device)->cm_only;
	if (!ret)
		return;
	rdmamsg__try_begin();
	if (ret == -ECONNREFUSED || ret == -ECONNRESET) {
		ev.type = RDMA_CM_EVENT_REJECTED;
		on_rejected(ep, &ev);
	} else if (rdmamsg__is_unreachable(ret)) {
		ev.type = RDMA_CM_EVENT_UNREACHABLE;
		on_failed(ep, &ev);
	} else {
		connect_failed(ep, ret);
	}
	rdmamsg__try_end();
}

/* On iWARP the error state of our own queue pair disconnects, too. */
static bool has_hung_up(const struct rdmamsg_ep *ep)
{
	return ep->state >= EP_DRAINING && ep->lane.dev &&
	       rdmamsg__quirks(ep->lane.dev->device)->cm_only;
}

/*
 * On iWARP the connection ends, too, if our device has refused a request of the
 * peer. Returns true if an event tells so, which has the reason.
 */
static bool was_refused(struct rdmamsg_ep *ep)
{
	struct rdmamsg_device *d = ep->lane.dev ? ep->lane.dev->device : NULL;

	if (!d || !rdmamsg__quirks(d)->cm_only)
		return false;
	rdmamsg__async_read(ep->ctx, d);
	return ep->lane.refused_peer;
}

/* The peer's program or host has gone without a CLOSE. */
static void on_disconnected(struct rdmamsg_ep *ep)
{
	if (has_hung_up(ep))
		return;
	ep->close.disconnected = true;
	rdmamsg__record(ep->recorder, EVENT_DISCONNECT, 1, 0);
	/* deliver messages that arrived before the end */
	rdmamsg__cq_poll(ep->ctx, 1 << 20);
	if (ep->state == EP_CLOSING && ep->close.seen &&
	    (!rdmamsg__resume_goes_on(ep) || rdmamsg__resume_lingers(ep))) {
		/* the acknowledgement of our CLOSE may still be missing */
		rdmamsg__ep_peer_gone(ep);
		return;
	}
	if (ep->state < EP_DRAINING && was_refused(ep))
		return;
	if (ep->state < EP_DRAINING &&
	    ep->close.reason.cause == RDMAMSG_CAUSE_CLOSED)
		ep->close.reason_set = false;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
			   -ECONNRESET, "%s", rdmamsg__peer_gone_text(ep));
	rdmamsg__ep_kill(ep);
}

/* An error in fn goes to the reason of the endpoint, not to rdmamsg_error(). */
static void try(struct rdmamsg_ep *ep, const struct cm_event *ev,
		void (*fn)(struct rdmamsg_ep *ep, const struct cm_event *ev))
{
	rdmamsg__try_begin();
	fn(ep, ev);
	rdmamsg__try_end();
}

/* The kernel waits no longer. */
static bool is_reply(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_ESTABLISHED ||
	       type == RDMA_CM_EVENT_REJECTED ||
	       type == RDMA_CM_EVENT_UNREACHABLE ||
	       type == RDMA_CM_EVENT_CONNECT_ERROR ||
	       type == RDMA_CM_EVENT_DISCONNECTED;
}

void rdmamsg__ep_cm_event(struct rdmamsg *ctx, struct cm_owner *owner,
			  const struct cm_event *ev)
{
	struct rdmamsg_ep *ep =
		list_entry(owner, struct rdmamsg_ep, connect.owner);

	if (is_reply(ev->type))
		ep->connect.awaits_reply = false;
	/* An event may come in any state, so each handler checks the state. */
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (ep->state == EP_RESOLVING)
			try(ep, ev, on_addr);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (ep->state == EP_RESOLVING)
			try(ep, ev, on_route);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		try(ep, ev, on_response);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		ep->connect.established = true;
		if (ep->connect.passive && ep->state == EP_REQUESTED)
			rdmamsg__ep_enter(ep, EP_SETUP);
		else if (ep->state == EP_REQUESTED)
			try(ep, ev, on_accepted);
		rdmamsg__ep_touch(ep);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (ep->state == EP_REQUESTED && !ep->connect.passive)
			try(ep, ev, on_rejected);
		else if (ep->state < EP_SETUP)
			try(ep, ev, on_failed);
		else if (ep->connect.established)
			/* the connection ended before our establish arrived */
			on_disconnected(ep);
		/* else this side has given up and has its reason */
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		if (ep->state < EP_OPEN)
			try(ep, ev, on_failed);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/*
		 * Linux 6.0 and later also raises it when a neighbour entry
		 * changes under a working connection. So leave that to
		 * liveness.
		 */
		if (ep->state < EP_SETUP)
			try(ep, ev, on_failed);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/*
		 * nobody has answered our own disconnect: Linux,
		 * cma_ib_handler() on IB_CM_DREQ_ERROR
		 */
		if (ev->status == -ETIMEDOUT)
			ep->close.unanswered = true;
		on_disconnected(ep);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/*
		 * the device has acknowledged these messages, so deliver them
		 */
		rdmamsg__cq_poll(ep->ctx, 1 << 20);
		rdmamsg__ep_removed(ep);
		break;
	default:
		break;
	}
}
