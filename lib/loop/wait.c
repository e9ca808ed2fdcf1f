/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The blocking calls. Each runs the context until it is done or its timeout is
 * over. A call that fails sets the text last, because callbacks may have set
 * other texts.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/team.h"
#include "loop/left.h"
#include "loop/wait.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "session/recv.h"
#include "session/send.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

struct until {
	const char *call;
	int timeout_ms;
	uint64_t end;		/* ms; 0: no timeout */
};

static int begin(struct rdmamsg *ctx, const char *call, int timeout_ms,
		 struct until *u)
{
	int ret = rdmamsg__ctx_check(ctx);

	*u = (struct until){ .call = call, .timeout_ms = timeout_ms };
	if (ret)
		return ret;
	if (rdmamsg__in_callback(ctx))
		return rdmamsg__deadlock(ctx, call);
	if (timeout_ms >= 0)
		u->end = rdmamsg__now_ms() + (uint64_t)timeout_ms;
	return 0;
}

/* Returns -ETIMEDOUT without a text if the time is over. */
static int step(struct rdmamsg *ctx, const struct until *u)
{
	int left = -1, ret;

	if (u->end) {
		uint64_t now = rdmamsg__now_ms();

		/* always poll once, even if the time is over */
		left = now >= u->end ? 0 : (int)min(u->end - now, 86400000ull);
	}
	ret = rdmamsg__wait(ctx, left);
	if (ret < 0 && ret != -EINTR)
		return ret;
	if (!ret && !left)
		return -ETIMEDOUT;
	return 0;
}

/* Sets the text from the error of step() and from what has not happened. */
static int fail_step(const struct until *u, int err, const char *what)
{
	if (err == -ETIMEDOUT)
		return rdmamsg__fail(err, "%s: %d ms (its timeout_ms) have "
				     "passed: %s", u->call, u->timeout_ms,
				     what);
	return rdmamsg__fail(err, "%s: %s: %s", u->call, rdmamsg__loop_text(err),
			     what);
}

/* Ends the endpoint because step() has failed. The text is its reason, too. */
static void give_up(struct rdmamsg_ep *ep, const struct until *u, int err,
		    const char *what)
{
	fail_step(u, err, what);
	rdmamsg__ep_abort(ep, err == -ETIMEDOUT ? RDMAMSG_CAUSE_TIMEOUT :
			  RDMAMSG_CAUSE_ABORTED, err, rdmamsg__text());
}

/* The end of every call, with the endpoint or NULL. Keeps the reason. */
static int end(struct rdmamsg *ctx, const struct rdmamsg_ep *ep, int ret)
{
	struct rdmamsg_reason *r = &ctx->sessions->wait_reason;

	if (!ret)
		return 0;
	*r = *rdmamsg_ep_reason(ep);
	if (r->cause == RDMAMSG_CAUSE_NONE) {
		r->error = ret;
		snprintf(r->text, sizeof(r->text), "%s", rdmamsg_error());
	}
	if (r->data_len) {
		memcpy(ctx->sessions->wait_data, r->data, r->data_len);
		r->data = ctx->sessions->wait_data;
	}
	return ret;
}

static int closed_error(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_reason *r = &ep->close.reason;

	return rdmamsg__fail(r->error ? r->error : -ESHUTDOWN, "%s", r->text);
}

/* Waits until the endpoint is connected, and holds it for the caller. */
static int wait_connected(struct rdmamsg *ctx, struct rdmamsg_ep *ep,
			  const struct until *u, struct rdmamsg_ep **ret_ep)
{
	char what[80];
	int ret = 0;

	rdmamsg_ep_hold(ep);
	while (!ret && ep->state != EP_OPEN && ep->state != EP_CLOSING &&
	       ep->state != EP_CLOSED)
		ret = step(ctx, u);
	/* also if it was open for a moment, because it may have messages */
	if (!ret && (ep->state != EP_CLOSED || ep->connect.told)) {
		*ret_ep = ep;
		return 0;
	}
	if (ret) {
		snprintf(what, sizeof(what), "not connected, still %s",
			 rdmamsg__ep_waits_for(ep));
		give_up(ep, u, ret, what);
	} else {
		ret = closed_error(ep);
	}
	end(ctx, ep, ret);
	rdmamsg_ep_release(ep);
	return ret;
}

int rdmamsg_connect_wait(struct rdmamsg *ctx, const char *host,
			 const char *service,
			 const struct rdmamsg_ep_options *opts, int timeout_ms,
			 struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	struct until u;
	int ret = begin(ctx, "rdmamsg_connect_wait", timeout_ms, &u);

	if (ret)
		return ret;
	if (!ret_ep)
		ret = rdmamsg__fail(-EINVAL,
				    "rdmamsg_connect_wait: ret is NULL");
	if (!ret)
		ret = rdmamsg_connect(ctx, host, service, opts, &ep);
	return ret ? end(ctx, NULL, ret) : wait_connected(ctx, ep, &u, ret_ep);
}

/* Waits for a request. A callback may close the listener. */
static int wait_request(struct rdmamsg_listener *l, const struct until *u)
{
	int ret = 0;

	l->waiting = true;
	while (!ret && !l->closed && !l->dead && list_empty(&l->requests)) {
		ret = rdmamsg__ctx_takes(l->ctx);
		if (!ret)
			ret = step(l->ctx, u);
	}
	l->waiting = false;
	if (l->closed) {
		rdmamsg__listener_free(l);
		return rdmamsg__fail(-ESHUTDOWN, "the listener was closed");
	}
	if (ret == -ESHUTDOWN)
		return ret;
	if (ret)
		return fail_step(u, ret, "nobody has connected");
	if (list_empty(&l->requests))
		return rdmamsg__fail(-ENODEV,
				     "rdmamsg_listener_accept_wait: the device "
				     "of the listener was removed");
	return 0;
}

/* Accepts the next request. May free the listener. */
static int accept_next(struct rdmamsg_listener *l,
		       const struct rdmamsg_ep_options *opts,
		       const struct until *u, struct rdmamsg_ep **ret)
{
	int err;

	if (l->on.on_request || l->auto_accept)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_listener_accept_wait: the "
				     "listener accepts by itself");
	err = wait_request(l, u);
	return err ? err : rdmamsg_request_accept(list_first(&l->requests,
							     struct rdmamsg_request,
							     wait_node), opts, ret);
}

int rdmamsg_listener_accept_wait(struct rdmamsg_listener *l,
				 const struct rdmamsg_ep_options *opts, int timeout_ms,
				 struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct until u;
	int ret;

	if (!l || !ret_ep)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_listener_accept_wait: %s is NULL",
				     l ? "ret" : "the listener");
	ctx = l->ctx;
	ret = begin(ctx, "rdmamsg_listener_accept_wait", timeout_ms, &u);
	if (ret)
		return ret;
	ret = accept_next(l, opts, &u, &ep);
	return ret ? end(ctx, NULL, ret) : wait_connected(ctx, ep, &u, ret_ep);
}

static int fail_send(const struct rdmamsg_ep *ep, int err)
{
	const char *why = "the peer's program refused it (on_incoming)";

	if (ep->state >= EP_DRAINING)
		why = ep->close.reason.text;
	return rdmamsg__fail(err, "the message was not delivered: %s", why);
}

static int send_and_wait(struct rdmamsg_ep *ep, const struct iovec *iov,
			 uint32_t tag, const struct until *u)
{
	static const char what[] = "the peer does not have the message";
	struct rdmamsg_waiter w = { false, 0 };
	int ret, err = 0;

	while ((ret = rdmamsg__sendv_waiter(ep, iov, tag, &w)) == -EAGAIN) {
		err = step(ep->ctx, u);
		if (err)
			break;
	}
	if (ret && ret != -EAGAIN)
		return ret;
	while (!err && !w.done)
		err = step(ep->ctx, u);
	if (!err)
		return w.status ? fail_send(ep, w.status) : 0;
	/* it is unknown how much was delivered */
	give_up(ep, u, err, what);
	/* before returning, the memory must be the caller's again */
	while (!ret && !w.done)
		(void)rdmamsg__wait(ep->ctx, 1000);
	return fail_step(u, err, what);
}

int rdmamsg_send_wait(struct rdmamsg_ep *ep, const void *buf, size_t len,
		      uint32_t tag, int timeout_ms)
{
	struct iovec iov = { (void *)buf, len };
	struct until u;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	ret = begin(ep->ctx, "rdmamsg_send_wait", timeout_ms, &u);
	if (ret)
		return ret;
	rdmamsg_ep_hold(ep);
	/* the peer may have closed */
	(void)rdmamsg_poll(ep->ctx);
	ret = end(ep->ctx, ep, send_and_wait(ep, &iov, tag, &u));
	rdmamsg_ep_release(ep);
	return ret;
}

/* Waits for a message. After the peer's CLOSE there are no more messages. */
static int wait_message(struct rdmamsg_ep *ep, const struct until *u)
{
	int ret;

	while (!ep->inbox) {
		if (ep->close.seen && !rdmamsg__rx_waits(ep))
			return rdmamsg__fail(-ESHUTDOWN, "the peer has closed, "
					     "and there are no more messages");
		if (ep->state == EP_CLOSED) {
			ret = closed_error(ep);
			/* -ETIMEDOUT is for a connection that lives on */
			return ret == -ETIMEDOUT ? -ECONNRESET : ret;
		}
		ret = step(ep->ctx, u);
		if (ret)
			return fail_step(u, ret, "no message");
	}
	return 0;
}

int rdmamsg_recv_wait(struct rdmamsg_ep *ep, int timeout_ms,
		      struct rdmamsg_msg **ret_msg)
{
	struct until u;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	ret = begin(ep->ctx, "rdmamsg_recv_wait", timeout_ms, &u);
	if (ret)
		return ret;
	if (!ret_msg)
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_recv_wait: ret is NULL");
	else if (ep->on.on_message)
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_recv_wait: messages go "
				    "to on_message");
	if (ret)
		return end(ep->ctx, NULL, ret);
	rdmamsg_ep_hold(ep);
	ret = end(ep->ctx, ep, wait_message(ep, &u));
	if (!ret)
		*ret_msg = rdmamsg__inbox_take(ep);
	rdmamsg_ep_release(ep);
	return ret;
}

/* ---- a rendezvous ----------------------------------------------------- */

/* The content of the message whose tag is the point. */
static const char meet_text[] = "rdmamsg: here I am";

static bool is_meeting(const struct rdmamsg_msg *msg)
{
	return rdmamsg_msg_len(msg) == sizeof(meet_text) &&
	       !memcmp(rdmamsg_msg_data(msg), meet_text, sizeof(meet_text));
}

static int say_point(struct rdmamsg_ep *ep, uint32_t point,
		     const struct until *u)
{
	int ret;

	while ((ret = rdmamsg_send(ep, meet_text, sizeof(meet_text), point,
				   NULL)) == -EAGAIN) {
		ret = step(ep->ctx, u);
		if (ret)
			return fail_step(u, ret, "no room to send");
	}
	return ret;
}

/* Takes the peer's message if it is a rendezvous. */
static int check_point(struct rdmamsg_ep *ep, uint32_t point)
{
	const struct rdmamsg_msg *msg = ep->inbox;
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (!is_meeting(msg))
		return rdmamsg__fail(-EPROTO,
				     "rdmamsg_ep_meet_wait: this program "
				     "is at point %u, the peer has sent a "
				     "message of %zu bytes with tag %u: "
				     "rdmamsg_recv_wait()",
				     point, rdmamsg_msg_len(msg), tag);
	rdmamsg_msg_free(rdmamsg__inbox_take(ep));
	if (tag == point)
		return 0;
	return rdmamsg__fail(-EPROTO, "rdmamsg_ep_meet_wait: this program is "
			     "at point %u, the peer's at point %u", point,
			     tag);
}

static int meet(struct rdmamsg_ep *ep, uint32_t point, const struct until *u)
{
	int ret = say_point(ep, point, u);

	if (!ret)
		ret = wait_message(ep, u);
	if (ret == -ETIMEDOUT)
		give_up(ep, u, ret, "the peer has not come");
	return ret ? ret : check_point(ep, point);
}

int rdmamsg_ep_meet_wait(struct rdmamsg_ep *ep, uint32_t point, int timeout_ms)
{
	struct until u;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	ret = begin(ep->ctx, "rdmamsg_ep_meet_wait", timeout_ms, &u);
	if (ret)
		return ret;
	if (ep->on.on_message)
		return end(ep->ctx, NULL,
			   rdmamsg__fail(-EINVAL,
					 "rdmamsg_ep_meet_wait: messages "
					 "go to on_message"));
	rdmamsg_ep_hold(ep);
	ret = end(ep->ctx, ep, meet(ep, point, &u));
	rdmamsg_ep_release(ep);
	return ret;
}

/* ---- the end ---------------------------------------------------------- */

/* The end of a close whose context the program has closed before. */
static int close_late(struct rdmamsg_ep *ep)
{
	int ret = ep->close.reason.error ? closed_error(ep) : 0;

	rdmamsg_ep_release(ep);
	return ret;
}

int rdmamsg_ep_close_wait(struct rdmamsg_ep *ep, int timeout_ms)
{
	struct rdmamsg *ctx;
	struct until u;
	int ret = rdmamsg__ep_look(ep);

	if (ret)
		return ret;
	ctx = ep->ctx;
	if (!ctx)
		return close_late(ep);
	ret = begin(ctx, "rdmamsg_ep_close_wait", timeout_ms, &u);
	if (ret)
		return ret;
	rdmamsg_ep_close(ep);
	while (ep->state != EP_CLOSED && !ret)
		ret = step(ctx, &u);
	if (ret) {
		give_up(ep, &u, ret, "not closed");
		while (ret == -ETIMEDOUT && ep->state != EP_CLOSED)
			(void)rdmamsg__wait(ctx, 1000);
	}
	/* by then the close may have succeeded */
	if (ep->state == EP_CLOSED && !ep->close.reason.error)
		ret = 0;
	else if (ret)
		fail_step(&u, ret, "not closed");
	else
		ret = closed_error(ep);
	end(ctx, ep, ret);
	rdmamsg_ep_release(ep);
	return ret;
}

int rdmamsg_shutdown_wait(struct rdmamsg *ctx, int timeout_ms)
{
	struct until u;
	int ret = begin(ctx, "rdmamsg_shutdown_wait", -1, &u);

	if (!ret)
		ret = rdmamsg_shutdown(ctx, timeout_ms);
	if (ret)
		return ret;
	/* after timeout_ms the end comes in a bounded time */
	while (!ret && !ctx->shutdown.over)
		ret = step(ctx, &u);
	if (ret)
		return end(ctx, NULL, fail_step(&u, ret, "not shut down"));
	return (int)min(ctx->shutdown.failed, (uint32_t)INT32_MAX);
}

const struct rdmamsg_reason *rdmamsg_wait_reason(const struct rdmamsg *ctx)
{
	return ctx && ctx->sessions->wait_reason.size
		       ? &ctx->sessions->wait_reason
		       : rdmamsg_ep_reason(NULL);
}

/*
 * Waits for the end of a run. on_done may destroy the chain or team. After
 * -ETIMEDOUT the run goes on, unless 'ends'.
 */
static int wait_run(struct rdmamsg_chain *c, const struct until *u, bool ends)
{
	struct rdmamsg *ctx = c->ctx;
	struct chains *chains = ctx->chains;
	int ret = 0;

	chains->waited = c;
	while (!ret && chains->waited)
		ret = step(ctx, u);
	if (!chains->waited)
		return chains->waited_end.status ?
		       rdmamsg__fail(chains->waited_end.status, "%s",
				     chains->waited_end.text) : 0;
	chains->waited = NULL;
	if (ends)
		rdmamsg__chain_stop(c);
	return fail_step(u, ret, "the run has not ended");
}

int rdmamsg_chain_run(struct rdmamsg_chain *c, int timeout_ms)
{
	struct until u;
	int ret = c ? begin(c->ctx, "rdmamsg_chain_run", timeout_ms, &u) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_chain_run: chain is NULL");

	if (!ret)
		ret = rdmamsg_chain_post(c);
	return ret ? ret : wait_run(c, &u, true);
}

int rdmamsg_team_wait(struct rdmamsg_team *t, int timeout_ms)
{
	struct until u;
	int ret = t ? begin(t->ctx, "rdmamsg_team_wait", timeout_ms, &u) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_team_wait: team is NULL");

	if (ret)
		return ret;
	if (t->chain->state != CHAIN_IDLE)
		return wait_run(t->chain, &u, false);
	return t->status ? rdmamsg__fail(t->status, "%s", t->reason.text) : 0;
}
