/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses, and the messages that wait for their connections. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/session.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#define COPY_MAX	65536u		/* default of max_copy */
#define NAME_LEN	1025		/* with the end, as in NI_MAXHOST */

/* ---- messages that wait ----------------------------------------------- */

static bool is_open(const struct rdmamsg_dc_address *a)
{
	return a->initiator && a->initiator->state == INITIATOR_OPEN;
}

void rdmamsg__dc_wait(struct rdmamsg_dc_address *a)
{
	if (list_empty(&a->waiting)) {
		list_add_tail(&a->sender->waiting, &a->waiting);
		a->sender->wait_count++;
	}
	rdmamsg__dc_sender_due(a->sender);
}

struct rdmamsg_dc_address *rdmamsg__dc_unwait(struct rdmamsg_dc_sender *s)
{
	struct rdmamsg_dc_address *a =
		list_first(&s->waiting, struct rdmamsg_dc_address, waiting);

	list_del(&a->waiting);
	s->wait_count--;
	return a;
}

void rdmamsg__dc_take_off(struct rdmamsg_dc_address *a, struct dc_msg *m)
{
	struct rdmamsg_dc_sender *s = a->sender;

	list_del(&m->node);
	s->queued--;
	s->copied -= m->copied;
	if (s->want_writable)
		rdmamsg__dc_sender_due(s);
}

void rdmamsg__dc_msg_free(struct dc_msg *m)
{
	if (m->kind >= DC_WRITE)
		rdmamsg__dc_release(&m->op);
	free(m);
}

void rdmamsg__dc_cancel(struct rdmamsg_dc_address *a, int status)
{
	struct list msgs;

	/* not those that a callback adds */
	list_init(&msgs);
	while (!list_empty(&a->msgs)) {
		struct dc_msg *m = list_first(&a->msgs, struct dc_msg, node);

		rdmamsg__dc_take_off(a, m);
		list_add_tail(&msgs, &m->node);
	}
	while (!list_empty(&msgs)) {
		struct dc_msg *m = list_first(&msgs, struct dc_msg, node);
		void *cookie = m->cookie;

		list_del(&m->node);
		rdmamsg__dc_msg_free(m);
		rdmamsg__dc_complete(a, cookie, status);
	}
}

static int hand_over(struct rdmamsg_dc_address *a, const struct dc_msg *m)
{
	struct rdmamsg_ep *ep = a->initiator->ep;

	if (m->kind == DC_COPY)
		return rdmamsg_send(ep, m->data, m->copied, m->tag, m->cookie);
	if (m->kind == DC_BORROW)
		return rdmamsg_sendv(ep, m->iov, m->iovcnt, m->tag, m->cookie);
	return rdmamsg__dc_issue(ep, &m->op, m->cookie);
}

void rdmamsg__dc_pump(struct rdmamsg_dc_address *a)
{
	while (is_open(a) && !list_empty(&a->msgs)) {
		struct dc_msg *m = list_first(&a->msgs, struct dc_msg, node);
		void *cookie = m->cookie;
		int ret = rdmamsg__try(hand_over(a, m));

		/* on_writable or on_closed follows */
		if (ret == -EAGAIN || ret == -ESHUTDOWN || ret == -ENOTCONN)
			return;
		a->initiator->used = ++a->sender->uses;
		rdmamsg__dc_take_off(a, m);
		rdmamsg__dc_msg_free(m);
		if (ret)
			rdmamsg__dc_complete(a, cookie, ret);
	}
	if (is_open(a) && a->leaves && list_empty(&a->msgs))
		rdmamsg__dc_close(a->initiator);
}

/* ---- calls ------------------------------------------------------------ */

int rdmamsg__dc_check(const struct rdmamsg_dc_address *a, const char *name)
{
	if (!a)
		return rdmamsg__fail(-EINVAL, "%s: address is NULL", name);
	if (a->sender->ending || a->leaves || a->sender->ctx->closing)
		return rdmamsg__fail(-ESHUTDOWN, "%s: the %s", name,
				     a->sender->ctx->shutdown.begun ?
				     "context is being shut down" :
				     "sender or the address was destroyed");
	return rdmamsg__ctx_check(a->sender->ctx);
}

bool rdmamsg__dc_is_free(const struct rdmamsg_dc_address *a)
{
	return is_open(a) && list_empty(&a->msgs);
}

uint32_t rdmamsg__dc_max_copy(const struct rdmamsg_dc_sender *s)
{
	return rdmamsg__dc_option(s->tuning.max_copy, COPY_MAX, 0);
}

/* A copy above the limit is taken if it is the only one. */
bool rdmamsg__dc_has_room(const struct rdmamsg_dc_sender *s, size_t copied)
{
	return s->queued < s->opts.queue &&
	       (!copied || !s->copied ||
		(s->copied < s->opts.queue_bytes &&
		 copied <= s->opts.queue_bytes - s->copied));
}

struct dc_msg *rdmamsg__dc_msg_new(struct rdmamsg_dc_sender *s, size_t size,
				   size_t copied, int *ret)
{
	struct dc_msg *m;

	*ret = -EAGAIN;
	if (!rdmamsg__dc_has_room(s, copied)) {
		s->wanted = copied;
		s->want_writable = true;
		return NULL;
	}
	m = malloc(max(sizeof(*m), size));
	if (!m) {
		*ret = rdmamsg__fail(-ENOMEM, "no memory for a message that "
				     "waits for a connection");
		return NULL;
	}
	m->copied = copied;
	m->flight = NULL;
	return m;
}

int rdmamsg__dc_add(struct rdmamsg_dc_address *a, struct dc_msg *m)
{
	int ret = a->session && list_empty(&a->msgs) ?
		  rdmamsg__session_offer(a->session, m) : -EAGAIN;

	if (ret != -EAGAIN)
		return ret;
	list_add_tail(&a->msgs, &m->node);
	a->sender->queued++;
	a->sender->copied += m->copied;
	/* a session goes on when it can */
	if (!a->initiator && !a->session)
		rdmamsg__dc_wait(a);
	return 0;
}

bool rdmamsg__dc_is_decided(struct rdmamsg_dc_address *a, int ret)
{
	if (ret == -EAGAIN || ret == -ESHUTDOWN || ret == -ENOTCONN)
		return false;
	a->initiator->used = ++a->sender->uses;
	if (unlikely(ret))
		rdmamsg__fail(ret, "%s", rdmamsg__text());
	return true;
}

int rdmamsg_dc_send(struct rdmamsg_dc_address *a, const void *buf, size_t len,
		    uint32_t tag, void *cookie)
{
	uint32_t max_copy;
	struct dc_msg *m;
	int ret = rdmamsg__dc_check(a, "rdmamsg_dc_send");

	if (unlikely(ret))
		return ret;
	if (likely(rdmamsg__dc_is_free(a))) {
		ret = rdmamsg__try(rdmamsg_send(a->initiator->ep, buf, len, tag,
						cookie));
		if (likely(rdmamsg__dc_is_decided(a, ret)))
			return ret;
	} else if (a->session && rdmamsg__session_send(a->session, buf, len,
						       tag, cookie)) {
		return 0;
	}
	max_copy = rdmamsg__dc_max_copy(a->sender);
	if (len > max_copy)
		return rdmamsg__fail(-EMSGSIZE, "rdmamsg_dc_send: %zu bytes: "
				     "at most %u (max_copy)", len, max_copy);
	if (len && !buf)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_send: buf is NULL");
	m = rdmamsg__dc_msg_new(a->sender, offsetof(struct dc_msg, data) + len,
				len, &ret);
	if (!m)
		return ret;
	m->kind = DC_COPY;
	m->tag = tag;
	m->cookie = cookie;
	if (len)
		memcpy(m->data, buf, len);
	return rdmamsg__dc_add(a, m);
}

int rdmamsg__dc_sendv(struct rdmamsg_dc_address *a, const struct iovec *iov,
		      int iovcnt, uint32_t tag, void *cookie)
{
	struct dc_msg *m;
	int ret;

	if (rdmamsg__dc_is_free(a)) {
		ret = rdmamsg__try(rdmamsg_sendv(a->initiator->ep, iov, iovcnt,
						 tag, cookie));
		if (rdmamsg__dc_is_decided(a, ret))
			return ret;
	}
	m = rdmamsg__dc_msg_new(a->sender, sizeof(*m), 0, &ret);
	if (!m)
		return ret;
	m->kind = DC_BORROW;
	m->tag = tag;
	m->cookie = cookie;
	m->iovcnt = iovcnt;
	if (iovcnt)
		memcpy(m->iov, iov, (size_t)iovcnt * sizeof(*iov));
	return rdmamsg__dc_add(a, m);
}

/* ---- life ------------------------------------------------------------- */

int rdmamsg_dc_address_create(struct rdmamsg_dc_sender *s, const char *host,
			      const char *service, uint64_t access_key,
			      void *user, struct rdmamsg_dc_address **ret)
{
	struct rdmamsg_dc_address *a;
	size_t n, m;
	int err;

	if (!s || !host || !service || !ret)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_address_create: "
				     "sender, host, service or ret is NULL");
	err = rdmamsg__ctx_check(s->ctx);
	if (err)
		return err;
	if (s->ending)
		return rdmamsg__fail(-ESHUTDOWN, "rdmamsg_dc_address_create: "
				     "the sender was destroyed");
	n = strlen(host) + 1;
	m = strlen(service) + 1;
	if (n > NAME_LEN || m > NAME_LEN)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_address_create: a "
				     "name of more than %d bytes",
				     NAME_LEN - 1);
	a = calloc(1, sizeof(*a) + n + m);
	if (!a)
		return rdmamsg__fail(-ENOMEM, "no memory for an address");
	a->sender = s;
	a->user = user;
	a->access_key = access_key;
	a->leaves = s->ctx->shutdown.begun;
	memcpy(a->host, host, n);
	a->service = memcpy(a->host + n, service, m);
	list_init(&a->msgs);
	list_init(&a->waiting);
	list_add_tail(&s->addresses, &a->node);
	s->address_count++;
	*ret = a;
	return 0;
}

void rdmamsg__dc_address_put(struct rdmamsg_dc_address *a)
{
	if (!a->unused || a->held || a->initiator || a->session ||
	    !list_empty(&a->msgs))
		return;
	/* one without messages may still be in the row */
	if (!list_empty(&a->waiting)) {
		list_del(&a->waiting);
		a->sender->wait_count--;
	}
	list_del(&a->node);
	a->sender->address_count--;
	free(a);
}

void rdmamsg_dc_address_destroy(struct rdmamsg_dc_address *a)
{
	if (!a || rdmamsg__try(rdmamsg__ctx_check(a->sender->ctx)) ||
	    a->unused)
		return;
	a->unused = a->leaves = true;
	if (is_open(a))
		rdmamsg__dc_pump(a);
	if (a->session) {
		a->sender->told_sessions = true;
		rdmamsg__dc_sender_due(a->sender);
	}
	rdmamsg__dc_address_put(a);
}

void *rdmamsg_dc_address_user(const struct rdmamsg_dc_address *a)
{
	return a ? a->user : NULL;
}
