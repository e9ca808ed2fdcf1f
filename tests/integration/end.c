/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends of connections, and the events that they record. */
#include "common.h"

#include <rdmamsg/endpoint.h>

static void on_connected(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->connected++ || e->closed || e->received)
		note("%s: on_connected out of turn", e->name);
	if (rdmamsg_ep_state(ep) != RDMAMSG_CONNECTED)
		note("%s: on_connected, but state %d", e->name,
		     rdmamsg_ep_state(ep));
	if (e->then_connected)
		e->then_connected(e);
}

static void check_message(struct end *e, const struct rdmamsg_msg *msg)
{
	const struct expected *x = &e->expected[e->received];
	size_t len = rdmamsg_msg_len(msg);

	if (e->expect_nothing)
		return;
	if (e->received >= e->expected_count)
		note("%s: message %zu of %zu bytes, not expected", e->name,
		     e->received, len);
	else if (len != x->len || rdmamsg_msg_tag(msg) != x->tag)
		note("%s: message %zu: %zu bytes, tag %u, not %zu, %u", e->name,
		     e->received, len, rdmamsg_msg_tag(msg), x->len, x->tag);
	else if (len && len <= PATTERN_MAX &&
		 memcmp(rdmamsg_msg_data(msg), pattern(x->tag), len))
		note("%s: message %zu of %zu bytes: wrong content", e->name,
		     e->received, len);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->connected != 1 || e->closed)
		note("%s: a message when connected %u, closed %u", e->name,
		     e->connected, e->closed);
	check_message(e, msg);
	e->received++;
	if (e->then_message) {
		e->then_message(e, msg);
		return;
	}
	if (!e->keep) {
		rdmamsg_msg_free(msg);
		return;
	}
	if (e->kept_count == e->kept_room) {
		e->kept_room = e->kept_room ? 2 * e->kept_room : 64;
		e->kept = realloc(e->kept, e->kept_room * sizeof(*e->kept));
	}
	e->kept[e->kept_count++] = msg;
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);
	struct cookie *c = cookie;

	if (c->count++ || e->closed)
		note("%s: on_complete %u times, closed %u", e->name, c->count,
		     e->closed);
	if (status > 0)
		note("%s: on_complete with status %d", e->name, status);
	c->status = status;
	if (status)
		e->sent_failed++;
	else
		e->sent_ok++;
	if (e->then_sent)
		e->then_sent(e);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->closed)
		note("%s: on_writable after on_closed", e->name);
	e->writable++;
	if (e->then_writable)
		e->then_writable(e);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->closed++)
		note("%s: on_closed twice", e->name);
	if (rdmamsg_ep_state(ep) != RDMAMSG_CLOSED ||
	    rdmamsg_ep_reason(ep) != why)
		note("%s: on_closed, but state %d", e->name,
		     rdmamsg_ep_state(ep));
	if (!why->who || !why->cause || !why->text[0] ||
	    (why->error == 0) != (why->cause == RDMAMSG_CAUSE_CLOSED))
		note("%s: closed by %d, cause %d, error %d: '%s'", e->name,
		     why->who, why->cause, why->error, why->text);
	e->why = *why;
	if (why->data_len)
		memcpy(e->why_data, why->data, why->data_len);
	e->why.data = e->why_data;
	for (const struct cookie *c = e->cookies; c; c = c->next)
		if (c->count != 1)
			note("%s: closed with a cookie given back %u times",
			     e->name, c->count);
	if (e->then_closed)
		e->then_closed(e);
	e->ep = NULL;
}

void end_init(struct end *e, const char *name, struct rdmamsg *ctx)
{
	memset(e, 0, sizeof(*e));
	e->name = name;
	e->ctx = ctx;
	e->on = (struct rdmamsg_ep_handlers) {
		.size = sizeof(e->on),
		.on_connected = on_connected,
		.on_message = on_message,
		.on_complete = on_complete,
		.on_writable = on_writable,
		.on_closed = on_closed,
	};
	e->opts = (struct rdmamsg_ep_options) {
		.size = sizeof(e->opts), .user = e, .handlers = &e->on,
		.timeout_ms = WAIT_MS, .close_timeout_ms = WAIT_MS,
		.tuning = &e->tuning,
	};
	e->tuning.size = sizeof(e->tuning);
}

void end_fini(struct end *e)
{
	while (e->cookies) {
		struct cookie *c = e->cookies;

		e->cookies = c->next;
		free(c);
	}
	free(e->kept);
	free(e->expected);
	e->kept = NULL;
	e->expected = NULL;
	e->kept_count = e->kept_room = 0;
	e->expected_count = e->expected_room = 0;
}

struct cookie *end_cookie(struct end *e)
{
	struct cookie *c = calloc(1, sizeof(*c));

	c->next = e->cookies;
	e->cookies = c;
	return c;
}

static void drop_cookie(struct end *e)
{
	struct cookie *c = e->cookies;

	e->cookies = c->next;
	free(c);
}

void end_expect(struct end *e, size_t len, uint32_t tag)
{
	if (e->expected_count == e->expected_room) {
		e->expected_room = e->expected_room ? 2 * e->expected_room : 64;
		e->expected = realloc(e->expected, e->expected_room *
				      sizeof(*e->expected));
	}
	e->expected[e->expected_count].len = len;
	e->expected[e->expected_count++].tag = tag;
}

static int send_msg(struct end *e, size_t len, uint32_t tag, void *cookie)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(e->ep, len, &msg);

	if (ret)
		return ret;
	if (len)
		memcpy(rdmamsg_msg_data(msg), pattern(tag), len);
	ret = rdmamsg_msg_send(e->ep, msg, tag, cookie);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

int end_sendv(struct end *e, int segments, size_t len, uint32_t tag)
{
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	struct cookie *c = end_cookie(e);
	size_t at = 0;
	int ret;

	for (int i = 0; i < segments; i++) {
		/* uneven segments, some of them empty */
		size_t n = i == segments - 1 ? len - at :
			   i % 3 == 1 ? 0 : (len - at) / 2;

		iov[i].iov_base = n ? (void *)(uintptr_t)(pattern(tag) + at) :
				  NULL;
		iov[i].iov_len = n;
		at += n;
	}
	ret = rdmamsg_sendv(e->ep, iov, segments, tag, c);
	if (ret) {
		drop_cookie(e);
		return ret;
	}
	e->sent++;
	end_expect(e->peer, at, tag);
	return 0;
}

int end_send(struct end *e, enum how how, size_t len, uint32_t tag)
{
	struct cookie *c;
	int ret;

	if (how == HOW_SENDV)
		return end_sendv(e, 1 + tag % 4, len, tag);
	c = end_cookie(e);
	if (how == HOW_MSG)
		ret = send_msg(e, len, tag, c);
	else
		ret = rdmamsg_send(e->ep, pattern(tag), len, tag, c);
	if (ret) {
		drop_cookie(e);
		return ret;
	}
	e->sent++;
	end_expect(e->peer, len, tag);
	return 0;
}

void end_send_all(struct end *e, enum how how, size_t len, uint32_t tag)
{
	int ret;

	for (;;) {
		unsigned int before = e->writable;

		ret = end_send(e, how, len, tag);
		if (ret != -EAGAIN)
			break;
		WAIT_FOR(e->writable != before || e->closed);
		if (e->closed)
			fail_msg("%s: closed: %s", e->name, e->why.text);
	}
	if (ret)
		fail_msg("%s: sending %zu bytes (%d): %s", e->name, len, how,
			 rdmamsg_error());
}

void end_release(struct end *e)
{
	for (size_t i = 0; i < e->kept_count; i++)
		rdmamsg_msg_free(e->kept[i]);
	e->kept_count = 0;
}

struct rdmamsg_stats end_stats(const struct end *e)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };

	if (rdmamsg_get_stats(e->ctx, &s))
		fail_msg("rdmamsg_get_stats: %s", rdmamsg_error());
	return s;
}

struct rdmamsg_ep_attr end_info(const struct end *e)
{
	struct rdmamsg_ep_attr i = { .size = sizeof(i) };

	if (rdmamsg_ep_query(e->ep, &i))
		fail_msg("rdmamsg_ep_query: %s", rdmamsg_error());
	return i;
}

bool end_tells_death(const struct rdmamsg_reason *why)
{
	if (test_on_siw() && why->who == RDMAMSG_WHO_NETWORK &&
	    why->error == -ECONNRESET)
		return true;
	return why->who == RDMAMSG_WHO_PEER &&
	       (why->cause == RDMAMSG_CAUSE_ABORTED ||
		((why->cause == RDMAMSG_CAUSE_ACCESS ||
		  why->cause == RDMAMSG_CAUSE_TRANSPORT) &&
		 strstr(why->text, "killed")));
}

void end_check_cookies(const struct end *e)
{
	for (const struct cookie *c = e->cookies; c; c = c->next)
		if (c->count != 1)
			fail_msg("%s: a cookie given back %u times", e->name,
				 c->count);
	assert_int_equal(e->sent_ok + e->sent_failed, e->sent);
}
