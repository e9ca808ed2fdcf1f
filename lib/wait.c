/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocking helpers: each drives the context until its moment has come. */
#include "internal.h"

#include <string.h>

struct until {
	uint64_t end;		/* ms, 0: no bound */
};

static int begin(struct rdmamsg *ctx, int timeout_ms, struct until *u)
{
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (ctx->in_callback)
		return rdmamsg__fail(-EDEADLK, "a *_wait() call in a callback "
				     "would wait for itself");
	u->end = timeout_ms < 0 ? 0 : rdmamsg__now_ms() + (uint64_t)timeout_ms;
	return 0;
}

static int step(struct rdmamsg *ctx, const struct until *u)
{
	int left = -1, ret;

	if (u->end) {
		uint64_t now = rdmamsg__now_ms();

		/* one look without waiting is always due */
		left = now >= u->end ? 0 : (int)min(u->end - now, 86400000ull);
	}
	ret = rdmamsg_wait(ctx, left);
	if (ret < 0 && ret != -EINTR)
		return ret;
	if (!ret && !left)
		return -ETIMEDOUT;
	return 0;
}

static int closed_error(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_reason *r = &ep->reason;

	return rdmamsg__fail(r->error ? r->error : -ESHUTDOWN, "%s", r->text);
}

/* Until it is connected: then it is held for the caller. */
static int wait_connected(struct rdmamsg *ctx, struct rdmamsg_ep *ep,
			  const struct until *u, struct rdmamsg_ep **ret_ep)
{
	int ret = 0;

	rdmamsg_ep_hold(ep);
	while (!ret && ep->state != EP_OPEN && ep->state != EP_CLOSING &&
	       ep->state != EP_CLOSED)
		ret = step(ctx, u);
	/* it may have been open for a moment: its messages are there */
	if (!ret && ep->state == EP_CLOSED && !ep->connected_told)
		ret = closed_error(ep);
	if (ret == -ETIMEDOUT && ep->state != EP_CLOSED)
		rdmamsg__fail(ret, "not connected in time");
	if (ret) {
		rdmamsg_ep_abort(ep);
		rdmamsg_ep_rele(ep);
		return ret;
	}
	*ret_ep = ep;
	return 0;
}

int rdmamsg_connect_wait(struct rdmamsg *ctx, const char *host,
			 const char *service,
			 const struct rdmamsg_ep_options *opts, int timeout_ms,
			 struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	struct until u;
	int ret = begin(ctx, timeout_ms, &u);

	if (!ret && !ret_ep)
		ret = rdmamsg__fail(-EINVAL,
				    "rdmamsg_connect_wait: ret is NULL");
	if (!ret)
		ret = rdmamsg_connect(ctx, host, service, opts, &ep);
	if (ret)
		return ret;
	return wait_connected(ctx, ep, &u, ret_ep);
}

/* Until somebody asks; a callback may close the listener meanwhile. */
static int wait_request(struct rdmamsg_listener *l, const struct until *u)
{
	int ret = 0;

	l->waiting = true;
	while (!ret && !l->closed && list_empty(&l->requests))
		ret = l->dead ? -ENODEV : step(l->ctx, u);
	l->waiting = false;
	if (l->closed) {
		rdmamsg__listener_free(l);
		return rdmamsg__fail(-ESHUTDOWN, "the listener was closed");
	}
	return ret ? rdmamsg__fail(ret, "nobody has connected") : 0;
}

int rdmamsg_accept_wait(struct rdmamsg_listener *l,
			const struct rdmamsg_ep_options *opts, int timeout_ms,
			struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg *ctx;
	struct rdmamsg_request *req;
	struct rdmamsg_ep *ep;
	struct until u;
	int ret;

	if (!l || !ret_ep)
		return rdmamsg__fail(-EINVAL, "rdmamsg_accept_wait: %s is NULL",
				     l ? "ret" : "the listener");
	ret = begin(l->ctx, timeout_ms, &u);
	if (!ret && (l->opts.on_request || l->auto_accept))
		return rdmamsg__fail(-EINVAL, "rdmamsg_accept_wait: the "
				     "listener accepts by itself");
	if (!ret)
		ret = wait_request(l, &u);
	if (ret)
		return ret;
	ctx = l->ctx;
	req = list_first(&l->requests, struct rdmamsg_request, wait_node);
	ret = rdmamsg_accept(req, opts, &ep);
	if (ret)
		return ret;
	return wait_connected(ctx, ep, &u, ret_ep);
}

/* The cookie of a send that somebody waits for lives on his stack. */
struct rdmamsg_waiter {
	bool done;
	int status;
};

void rdmamsg__waiter_done(struct rdmamsg_waiter *w, int status)
{
	w->done = true;
	w->status = status;
}

int rdmamsg_send_wait(struct rdmamsg_ep *ep, const void *buf, size_t len,
		      uint32_t tag, int timeout_ms)
{
	struct rdmamsg_waiter w = { false, 0 };
	struct iovec iov = { (void *)buf, len };
	struct until u;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	ret = begin(ep->ctx, timeout_ms, &u);
	if (ret)
		return ret;
	rdmamsg_ep_hold(ep);
	while ((ret = rdmamsg__sendv_waiter(ep, &iov, tag, &w)) == -EAGAIN) {
		ret = step(ep->ctx, &u);
		if (ret == -ETIMEDOUT)
			/* as below: a caller need not know how far it came */
			rdmamsg_ep_abort(ep);
		if (ret)
			break;
	}
	if (ret)
		goto out;
	while (!w.done) {
		ret = step(ep->ctx, &u);
		if (!ret)
			continue;
		/* the memory must be the caller's again before we return */
		rdmamsg_ep_abort(ep);
		while (!w.done)
			(void)rdmamsg_wait(ep->ctx, 1000);
		goto out;
	}
	ret = w.status;
	if (ret)
		rdmamsg__fail(ret, "the message was not delivered: %s",
			      ep->reason_set ? ep->reason.text :
			      strerror(-ret));
out:
	rdmamsg_ep_rele(ep);
	return ret;
}

int rdmamsg_recv_wait(struct rdmamsg_ep *ep, int timeout_ms,
		      struct rdmamsg_msg **ret_msg)
{
	struct until u;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	if (!ret_msg)
		return rdmamsg__fail(-EINVAL, "rdmamsg_recv_wait: ret is NULL");
	if (ep->on.on_message)
		return rdmamsg__fail(-EINVAL, "rdmamsg_recv_wait: messages go "
				     "to on_message");
	ret = begin(ep->ctx, timeout_ms, &u);
	if (ret)
		return ret;
	rdmamsg_ep_hold(ep);
	while (!ep->inbox && !ret) {
		if (ep->state == EP_CLOSED)
			ret = closed_error(ep);
		else if (ep->close_seen && list_empty(&ep->arriving))
			ret = rdmamsg__fail(-ESHUTDOWN, "the peer has closed");
		else
			ret = step(ep->ctx, &u);
	}
	if (!ret) {
		*ret_msg = ep->inbox;
		ep->inbox = ep->inbox->next;
		if (!ep->inbox)
			ep->inbox_tail = &ep->inbox;
	} else if (ret == -ETIMEDOUT) {
		rdmamsg__fail(ret, "no message in %d ms", timeout_ms);
	}
	rdmamsg_ep_rele(ep);
	return ret;
}

int rdmamsg_close_wait(struct rdmamsg_ep *ep, int timeout_ms)
{
	struct rdmamsg *ctx;
	struct until u;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	ctx = ep->ctx;
	ret = begin(ctx, timeout_ms, &u);
	if (ret)
		return ret;
	rdmamsg_ep_close(ep);
	while (ep->state != EP_CLOSED && !ret)
		ret = step(ctx, &u);
	if (ret == -ETIMEDOUT) {
		rdmamsg_ep_abort(ep);
		while (ep->state != EP_CLOSED)
			(void)rdmamsg_wait(ctx, 1000);
		rdmamsg__fail(ret, "not closed in %d ms", timeout_ms);
	} else if (!ret && ep->reason.error) {
		ret = closed_error(ep);
	}
	rdmamsg_ep_rele(ep);
	return ret;
}
