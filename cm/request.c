/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests: admitted, accepted, rejected, moved to another context. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "memory/account.h"
#include "cm/connect.h"
#include "session/auth.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/resume.h"
#include "session/sessions.h"
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
	rdmamsg__request_keys_drop(req);
	req->by->drop(req);
	rdmamsg__visitor_leave(&req->visitor);
	rdmamsg__auth_free(req->auth);
	free(req);
}

static void count_reject(struct rdmamsg_stats *s, enum proto_reject code)
{
	if (code == PROTO_REJECT_APP)
		s->requests_rejected++;
	else if (code == PROTO_REJECT_LIMIT)
		s->requests_limited++;
	else
		s->requests_unusable++;
}

void rdmamsg__note_reject(struct rdmamsg *ctx,
			  const struct sockaddr_storage *from,
			  enum proto_reject code, uint32_t limit)
{
	static const char *const why[] = {
		[PROTO_REJECT_APP] = "by the program",
		[PROTO_REJECT_VERSION] = "no common protocol version",
		[PROTO_REJECT_PROTOCOL] = "not of rdmamsg, damaged, or "
			"for another link layer or partition",
		[PROTO_REJECT_RESOURCES] = "no memory or other resource",
		[PROTO_REJECT_LIMIT] = "a limit",
		[PROTO_REJECT_UNKEYED] = "it has no pre-shared key",
		[PROTO_REJECT_KEYED] = "it has a pre-shared key, and this "
			"side none",
		[PROTO_REJECT_PROOF] = "its pre-shared key is another one",
		[PROTO_REJECT_SESSION] = "this process has no such session",
		[PROTO_REJECT_CRC] = "it asks for no CRC",
	};
	char peer[96];

	count_reject(&ctx->sessions->st, code);
	if (rdmamsg__log_level < RDMAMSG_LOG_INFO)
		return;
	(void)rdmamsg__addr_text((const struct sockaddr *)from, peer,
				 sizeof(peer));
	if (code == PROTO_REJECT_LIMIT)
		log_info("context %u: a request of %s is rejected: the listener "
			 "limits %s", ctx->number, peer,
			 rdmamsg__limit_text(limit));
	else
		log_info("context %u: a request of %s is rejected: %s",
			 ctx->number, peer,
			 (size_t)code < sizeof(why) / sizeof(why[0]) &&
			 why[code] ? why[code] : "?");
}

int rdmamsg__request_admit(struct rdmamsg_listener *l,
			   const struct sockaddr_storage *from,
			   struct visitor *v)
{
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
	return ret;
}

int rdmamsg__request_new(struct rdmamsg_listener *l,
			 const struct proto_hello *hello, struct visitor *v,
			 struct rdmamsg_request **ret)
{
	const struct secret *s = rdmamsg__listener_secret(l);
	struct rdmamsg_request *req;

	if (l->draining && !l->shared &&
	    !(hello->features & PROTO_FEATURE_LANE)) {
		rdmamsg__door_refused(l->door, PROTO_LIMIT_DRAINING);
		return PROTO_LIMIT_DRAINING;
	}
	req = calloc(1, sizeof(*req));
	if (req && s)
		req->auth = rdmamsg__auth_new(s);
	if (!req || (s && !req->auth)) {
		free(req);
		return rdmamsg__fail(-ENOMEM, "no memory for a request");
	}
	rdmamsg__visitor_pass(v, &req->visitor);
	req->by = l->by;
	req->ctx = l->ctx;
	/* of a shared port, the session's listener decides: lane.c */
	req->draining = l->draining && !l->shared;
	req->came_to = l->shared;
	req->hello = *hello;
	memcpy(req->data, hello->data, hello->data_len);
	req->hello.data = req->data;
	list_init(&req->wait_node);
	list_add_tail(&l->ctx->sessions->requests, &req->node);
	*ret = req;
	return 0;
}

/* Reports the failure in rdmamsg__text(). The callback may close l. */
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
	log_warn("context %u: listener on port %u: a request could not be "
		 "accepted: %s", ctx->number, l->port, why.text);
	if (l->auto_accept)
		rdmamsg__tell(&ctx->loop, l->on.on_accept_failed, l, &why);
}

void rdmamsg__request_arrived(struct rdmamsg_listener *l,
			      struct rdmamsg_request *req)
{
	struct rdmamsg *ctx = l->ctx;	/* the callback may close l */
	int ret;

	if (l->on.on_request) {
		rdmamsg__tell(&ctx->loop, l->on.on_request, l, req);
	} else if (l->auto_accept) {
		ret = rdmamsg__try(rdmamsg_request_accept(req, &l->ep, NULL));
		if (ret)
			rdmamsg__accept_failed(l, ret);
	} else {
		list_add_tail(&l->requests, &req->wait_node);
	}
}

int rdmamsg__request_check(const struct rdmamsg_request *req)
{
	if (!req)
		return rdmamsg__fail(-EINVAL, "the request is NULL");
	return rdmamsg__ctx_check(req->ctx);
}

int rdmamsg_request_addrs(const struct rdmamsg_request *req,
			  struct sockaddr_storage *ret_local,
			  struct sockaddr_storage *ret_peer)
{
	int err = rdmamsg__request_check(req);

	if (err)
		return err;
	if (ret_local)
		*ret_local = req->local;
	if (ret_peer)
		*ret_peer = req->peer;
	return 0;
}

const void *rdmamsg_request_data(const struct rdmamsg_request *req,
				 size_t *ret_len)
{
	if (ret_len)
		*ret_len = req ? req->hello.data_len : 0;
	return req ? req->data : NULL;
}

int rdmamsg_request_reject(struct rdmamsg_request *req, const void *data,
			   size_t len)
{
	int ret = rdmamsg__request_check(req);

	if (ret)
		return ret;
	if (len > RDMAMSG_HELLO_DATA_MAX || (len && !data)) {
		ret = rdmamsg__fail(-EINVAL,
				    "rdmamsg_request_reject: at most %d bytes",
				    RDMAMSG_HELLO_DATA_MAX);
		len = 0;
	}
	if (!req->dead)
		req->by->reject(req, PROTO_REJECT_APP, data, len);
	rdmamsg__request_free(req);
	return ret;
}

/*
 * Answers the peer that this context takes nothing new. A program that has the
 * request still ends it with rdmamsg_request_accept() or
 * rdmamsg_request_reject().
 */
static void turn_away(struct rdmamsg_request *req)
{
	if (!req->dead) {
		req->limit = PROTO_LIMIT_DRAINING;
		req->by->reject(req, PROTO_REJECT_LIMIT, NULL, 0);
		rdmamsg__door_refused(req->visitor.door, PROTO_LIMIT_DRAINING);
	}
	req->dead = true;
	if (!list_empty(&req->wait_node))
		rdmamsg__request_free(req);
}

void rdmamsg__requests_turn_away(struct rdmamsg *ctx)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->sessions->requests)
		turn_away(list_entry(n, struct rdmamsg_request, node));
}

/*
 * For a new session the key of the listener counts, not that of the endpoint's
 * context. For another lane the key of the session counts, because any listener
 * of the process may get the request.
 */
static int take_auth(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	if (ep->carries)
		return rdmamsg__lane_auth(ep, ep->carries->resume);
	rdmamsg__auth_free(ep->connect.auth);
	ep->connect.auth = req->auth;
	req->auth = NULL;
	return 0;
}

/* Makes the visitor half-open, and starts setup_timeout_ms. */
static int take_visitor(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	struct visitor *v = &ep->connect.visitor;
	uint32_t ms;

	rdmamsg__visitor_pass(&req->visitor, v);
	rdmamsg__visitor_move(v, DOOR_HALF_OPEN);
	ms = rdmamsg__door_setup_ms(v->door);
	if (ms < ep->opts.timeout_ms)
		rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer, ms);
	if (!rdmamsg__door_is_fair(v->door))
		return 0;
	ep->rndv.lent->account =
		rdmamsg__account_get(ep->ctx, NULL, &req->peer);
	return ep->rndv.lent->account ? 0 :
	       rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
}

int rdmamsg__request_accept(struct rdmamsg_request *req,
			    const struct rdmamsg_ep_options *opts,
			    struct rdmamsg_ep *session,
			    struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__ep_new(req->ctx, req->by, opts, &ep);

	if (ret) {
		req->by->reject(req, PROTO_REJECT_RESOURCES, NULL, 0);
		return ret;
	}
	ep->carries = session;
	ret = take_auth(ep, req);
	if (!ret)
		ret = rdmamsg__request_keys_pass(req, ep);
	if (!ret)
		ret = take_visitor(ep, req);
	if (ret)
		req->by->reject(req, PROTO_REJECT_RESOURCES, NULL, 0);
	else
		ret = req->by->accept(ep, req);
	if (ret == -ENOBUFS || ret == -ENOMEM)
		rdmamsg__door_refused(ep->connect.visitor.door,
				      PROTO_LIMIT_MEMORY);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg__request_is_open(const struct rdmamsg_request *req)
{
	if (req->ctx->shutdown.begun)
		return rdmamsg__ctx_takes(req->ctx);
	if (req->dead || req->ctx->closing)
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	return 0;
}

int rdmamsg_request_accept(struct rdmamsg_request *req,
			   const struct rdmamsg_ep_options *opts,
			   struct rdmamsg_ep **ret_ep)
{
	int ret = rdmamsg__request_check(req);

	if (ret)
		return ret;
	ret = rdmamsg__request_is_open(req);
	if (!ret)
		ret = rdmamsg__request_accept(req, opts, NULL, ret_ep);
	rdmamsg__request_free(req);
	return ret;
}

/* ---- moving to another context ---------------------------------------- */

struct move {
	struct rdmamsg_request *req;
	void (*fn)(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg);
	void *arg;
	bool at_any_time;	/* also at the end of the context */
};

/* Returns false if the request has ended. */
static bool still_wanted(struct rdmamsg *ctx, struct rdmamsg_request *req)
{
	if (ctx->closing) {
		rdmamsg_request_reject(req, NULL, 0);
		return false;
	}
	/* another lane of a session that goes on has no place to wait in */
	if (ctx->shutdown.begun && !(req->hello.features & PROTO_FEATURE_LANE))
		turn_away(req);
	return true;
}

static void moved(struct rdmamsg *ctx, void *arg)
{
	struct move m = *(struct move *)arg;

	free(arg);
	list_add_tail(&ctx->sessions->requests, &m.req->node);
	if (m.at_any_time || still_wanted(ctx, m.req))
		m.fn(ctx, m.req, m.arg);
}

/* Fills the ticket of a request that could not be moved. */
static void stayed(struct rdmamsg *ctx, void *arg)
{
}

/*
 * After req->by->move() the other thread gets the events of the request, so
 * nothing may fail after it. After rdmamsg__submit_fill() the other thread has
 * the request, so this thread must not touch it any more.
 */
static int hand_over(struct rdmamsg_request *req, struct rdmamsg *to,
		     struct move *m)
{
	struct rdmamsg *from = req->ctx;
	uint32_t ticket;
	int ret = rdmamsg__submit_reserve(&to->loop, &ticket);

	if (ret)
		return ret;
	list_del(&req->node);
	req->ctx = to;
	ret = req->by->move(req, to);
	if (!ret) {
		rdmamsg__request_keys_drop(req);
		rdmamsg__submit_fill(&to->loop, ticket, moved, m);
		return 0;
	}
	rdmamsg__submit_fill(&to->loop, ticket, stayed, NULL);
	req->ctx = from;
	list_add_tail(&from->sessions->requests, &req->node);
	return ret;
}

static int move(struct rdmamsg_request *req, struct rdmamsg *to,
		const struct move *how)
{
	struct move *m = malloc(sizeof(*m));
	int ret;

	if (!m)
		return rdmamsg__fail(-ENOMEM, "no memory to move a request");
	*m = *how;
	ret = hand_over(req, to, m);
	if (ret)
		free(m);
	return ret;
}

int rdmamsg__request_hand_over(struct rdmamsg_request *req, struct rdmamsg *to,
			       void (*fn)(struct rdmamsg *ctx,
					  struct rdmamsg_request *req,
					  void *arg),
			       void *arg)
{
	return move(req, to, &(struct move){ req, fn, arg, true });
}

int rdmamsg_request_move(struct rdmamsg_request *req, struct rdmamsg *to,
			 void (*fn)(struct rdmamsg *ctx,
				    struct rdmamsg_request *req, void *arg),
			 void *arg)
{
	int ret = rdmamsg__request_check(req);

	if (!ret)
		ret = rdmamsg__ctx_check(to);
	if (ret)
		return ret;
	if (!fn)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_request_move: fn is NULL");
	return move(req, to, &(struct move){ req, fn, arg, false });
}
