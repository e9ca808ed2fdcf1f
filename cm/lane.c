/* SPDX-License-Identifier: BSD-2-Clause */
/* Carriers: endpoints that bring another lane to a session. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "cm/connect.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

/* The carrier takes what both sides agreed for the session. */
static void adopt(struct rdmamsg_ep *carrier, struct rdmamsg_ep *ep)
{
	carrier->carries = ep;
	carrier->connect.carrier = true;
	carrier->connect.pkey = ep->connect.pkey;
	carrier->ctx->sessions->ep_count--;
	memcpy(carrier->connect.session, ep->connect.session,
	       sizeof(carrier->connect.session));
	carrier->rndv.announced_max = ep->rndv.announced_max;
}

int rdmamsg__dial_lane(struct rdmamsg_ep *ep, const char *host,
		       const char *service,
		       const struct rdmamsg_ep_options *opts,
		       struct rdmamsg_ep **ret)
{
	struct rdmamsg_ep *carrier;
	int err = rdmamsg__dial_new(ep->ctx, ep->connect.by, host, service,
				    opts, &carrier);

	if (err)
		return err;
	adopt(carrier, ep);
	err = rdmamsg__lane_auth(carrier, ep->resume);
	if (!err)
		err = ep->connect.by->init(carrier);
	if (!err)
		err = rdmamsg__dial_start(carrier);
	if (err)
		carrier->carries = NULL;
	return rdmamsg__ep_made(carrier, err, ret);
}

/* ---- the passive side -------------------------------------------------- */

static void refuse(struct rdmamsg_request *req, enum proto_reject code)
{
	if (!req->dead)
		req->by->reject(req, code, NULL, 0);
	rdmamsg__request_free(req);
}

static void refuse_for_now(struct rdmamsg_request *req, enum proto_limit limit)
{
	req->limit = limit;
	refuse(req, PROTO_REJECT_LIMIT);
}

static struct resume *find(struct rdmamsg *ctx, const uint8_t *session)
{
	struct list *n;

	list_for_each(n, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);
		struct resume *r = ep->resume;

		if (r && r->agreed && ep->connect.passive &&
		    (ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
		    !memcmp(r->session, session, sizeof(r->session)))
			return r;
	}
	return NULL;
}

static int accept_lane(struct rdmamsg_request *req, struct resume *r)
{
	struct carrier_options o;
	struct rdmamsg_ep *carrier;
	int err = rdmamsg__carrier_options(r, false, req->hello.epoch, &o);

	if (err)
		return err;
	rdmamsg__resume_renew(r, req->hello.epoch);
	err = rdmamsg__request_accept(req, &o.ep, r->ep, &carrier);
	if (err)
		return err;
	adopt(carrier, r->ep);
	r->carrier = carrier;
	return 0;
}

/*
 * Returns true for the request of an earlier try, or the same one again while it
 * is served.
 */
static bool is_stale(const struct resume *r, uint32_t epoch)
{
	return (int32_t)(epoch - r->proven_epoch) <= 0 ||
	       (r->carrier && epoch == r->epoch);
}

/*
 * Returns true if the listener of the request drains. If the request has come
 * to the shared port of the session's own listener, that one decides.
 */
static bool drains(const struct rdmamsg_request *req, const struct resume *r)
{
	struct list *n;

	list_for_each(n, &r->ep->ctx->sessions->listeners) {
		const struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, node);

		if (l->shared && l->shared == req->came_to &&
		    l->door == r->ep->connect.visitor.door)
			return l->draining;
	}
	return req->draining;
}

/* In the context of the session, which may have ended meanwhile. */
static void take(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg)
{
	struct resume *r = find(ctx, req->data);
	char peer[96];
	int err;

	if (!r || ctx->closing || req->dead) {
		refuse(req, PROTO_REJECT_SESSION);
		return;
	}
	err = rdmamsg__lane_verify(r, true, req->hello.epoch, req->data,
				   req->hello.data_len);
	if (err) {
		log_warn("context %u: a request of %s to take over a session "
			 "is rejected: its proof is wrong", ctx->number,
			 rdmamsg__addr_text((const struct sockaddr *)
					    &req->peer, peer, sizeof(peer)));
		rdmamsg__visitor_offends(&req->visitor);
		refuse(req, PROTO_REJECT_PROOF);
		return;
	}
	/* even a listener that drains replaces a lost lane */
	if (drains(req, r) && r->lane == LANE_UP) {
		refuse(req, PROTO_REJECT_LIMIT);
		return;
	}
	if (is_stale(r, req->hello.epoch)) {
		refuse(req, PROTO_REJECT_PROTOCOL);
		return;
	}
	/* the peer may use the carrier while this side still drains a lane */
	if (r->said && r->heard) {
		refuse(req, PROTO_REJECT_RESOURCES);
		return;
	}
	err = rdmamsg__try(accept_lane(req, r));
	if (err)
		ep_warn(r->ep, "accepting another connection: %s",
			rdmamsg__text());
	rdmamsg__request_free(req);
}

static int hand_over(struct rdmamsg *ctx, void *arg)
{
	struct rdmamsg_request *req = arg;

	if (ctx == req->ctx)
		return 0;
	return rdmamsg_request_move(req, ctx, take, NULL) ?: 1;
}

/*
 * Over the budget of its address, the peer tries again after a pause, as with
 * any limit that passes. New connections of the address are not concerned.
 */
static void refuse_unknown(struct rdmamsg_request *req)
{
	if (rdmamsg__visitor_may_ask(&req->visitor))
		refuse(req, PROTO_REJECT_SESSION);
	else
		refuse_for_now(req, PROTO_LIMIT_REQUESTS);
}

void rdmamsg__lane_arrived(struct rdmamsg_request *req)
{
	int ret = req->hello.data_len < sizeof(((struct resume *)0)->session) ?
		  -ENOENT :
		  rdmamsg__try(rdmamsg__registry_find(req->data, hand_over,
						      req));

	if (!ret)
		take(req->ctx, req, NULL);
	else if (ret == -ENOENT)
		refuse_unknown(req);
	else if (ret < 0)
		refuse(req, PROTO_REJECT_RESOURCES);
}
