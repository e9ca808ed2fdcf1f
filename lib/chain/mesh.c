/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mesh is made of what any program has: a listener, endpoints that try again
 * until the others listen, and a timer. Two members tell each other the size of
 * their team and their ranks, so that a stranger, or a member that was started
 * with another list, is found by name.
 */
#include "chain/mesh.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "chain/team.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/timer.h>

#define TIMEOUT_MS	60000	/* default of the option */

/* Another member. */
struct link {
	struct mesh *of;
	uint32_t rank;
	bool up;
};

struct mesh {
	struct rdmamsg_team *t;
	struct rdmamsg_listener *listener;	/* NULL: nobody dials here */
	struct rdmamsg_timer *timer;
	uint32_t missing;		/* endpoints that are not up */
	struct rdmamsg_ep **eps;	/* NULL: none yet */
	struct link *links;
	uint8_t hello[PROTO_TEAM_HELLO_LEN];
};

/* ---- failing ---------------------------------------------------------- */

static void unformed(struct mesh *m, uint32_t rank, enum rdmamsg_who who,
		     enum rdmamsg_cause cause, int error, const char *why)
{
	struct rdmamsg_team_failure r = {
		.rank = rank, .told_by = m->t->rank, .error = error,
		.who = who, .cause = cause,
	};

	(void)snprintf(r.text, sizeof(r.text), "member %u: %.160s", rank, why);
	rdmamsg__team_unformed(m->t, &r);
}

/* The one at the other end is no member with this rank, or of another team. */
static void not_that_member(struct mesh *m, uint32_t rank,
			    const struct proto_team_hello *h)
{
	char text[160] = "its address leads to a program that is not in a team";

	if (h)
		(void)snprintf(text, sizeof(text), "its address leads to "
			       "member %u of a team of %u, not of %u: the "
			       "lists of addresses differ", h->rank, h->size,
			       m->t->size);
	unformed(m, rank, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL, -EPROTO,
		 text);
}

static void on_timer(struct rdmamsg_timer *timer, void *user)
{
	struct mesh *m = user;
	const struct rdmamsg_team *t = m->t;
	char text[160];
	uint32_t rank = 0;

	(void)timer;
	while (rank + 1 < t->size && (rank == t->rank || m->links[rank].up))
		rank++;
	(void)snprintf(text, sizeof(text), "has not come within %u ms, and %u "
		       "in all are missing: is it running, with the same list "
		       "of addresses?", t->opts.timeout_ms, m->missing);
	unformed(m, rank, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_TIMEOUT, -ETIMEDOUT,
		 text);
}

/* ---- endpoints -------------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct link *l = rdmamsg_ep_user(ep);
	struct proto_team_hello h;
	const void *data;
	size_t len;
	int err;

	if (!l)
		return;
	data = rdmamsg_ep_peer_data(ep, &len);
	err = data ? rdmamsg__team_hello_decode(&h, data, len) : -EPROTO;
	if (err || h.size != l->of->t->size || h.rank != l->rank) {
		not_that_member(l->of, l->rank, err ? NULL : &h);
		return;
	}
	l->up = true;
	if (!--l->of->missing)
		rdmamsg__team_formed(l->of->t);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct link *l = rdmamsg_ep_user(ep);
	struct proto_team_hello h;

	if (!l)
		return;
	l->of->eps[l->rank] = NULL;
	if (why->cause == RDMAMSG_CAUSE_REJECTED && why->data &&
	    !rdmamsg__team_hello_decode(&h, why->data, why->data_len))
		not_that_member(l->of, l->rank, &h);
	else
		unformed(l->of, l->rank, why->who, why->cause,
			 why->error ? why->error : -ESHUTDOWN, why->text);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed,
};

static struct rdmamsg_ep_options options_for(struct mesh *m, uint32_t rank)
{
	struct rdmamsg_ep_options o = m->t->ep_opts;

	o.handlers = &handlers;
	o.user = &m->links[rank];
	return o;
}

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	struct mesh *m = rdmamsg_listener_user(listener);
	struct rdmamsg_ep_options o;
	struct proto_team_hello h;
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (!data || rdmamsg__team_hello_decode(&h, data, len) ||
	    h.size != m->t->size || h.rank <= m->t->rank || m->eps[h.rank]) {
		(void)rdmamsg_request_reject(req, m->hello, sizeof(m->hello));
		return;
	}
	o = options_for(m, h.rank);
	o.setup_data = m->hello;
	o.setup_data_len = sizeof(m->hello);
	/* a member that has gone meanwhile ends the team by its absence */
	if (rdmamsg__try(rdmamsg_request_accept(req, &o, &m->eps[h.rank])))
		m->eps[h.rank] = NULL;
}

/* ---- beginning -------------------------------------------------------- */

struct address {
	char host[256];
	const char *port;
};

/* HOST:PORT, or [HOST]:PORT if the host has colons. */
static int split(const char *text, uint32_t rank, struct address *a)
{
	const char *colon = text ? strrchr(text, ':') : NULL;
	size_t len = colon ? (size_t)(colon - text) : 0;

	if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (len && memchr(text, ':', len)) {
		len = 0;
	}
	if (!len || len >= sizeof(a->host) || !colon[1])
		return rdmamsg__fail(-EINVAL, "rdmamsg_team_connect: address "
				     "%u, '%s': HOST:PORT or [HOST]:PORT", rank,
				     text ? text : "NULL");
	memcpy(a->host, text, len);
	a->host[len] = '\0';
	a->port = colon + 1;
	return 0;
}

static int listen_at(struct mesh *m, const char *address)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &on,
		.device = m->t->ep_opts.device,
	};
	struct address a;
	int ret = split(address, m->t->rank, &a);

	if (ret || m->t->rank + 1 == m->t->size)
		return ret;
	return rdmamsg_listen(m->t->ctx, a.host, a.port, &opts, &m->listener);
}

static int dial(struct mesh *m, uint32_t rank, const char *address)
{
	struct rdmamsg_ep_options o = options_for(m, rank);
	struct address a;
	int ret = split(address, rank, &a);

	if (ret)
		return ret;
	o.flags |= RDMAMSG_EP_RETRY;
	o.timeout_ms = m->t->opts.timeout_ms;
	o.hello_data = o.setup_data = m->hello;
	o.hello_data_len = o.setup_data_len = sizeof(m->hello);
	return rdmamsg_connect(m->t->ctx, a.host, a.port, &o, &m->eps[rank]);
}

static int begin(struct mesh *m, const char *const *addresses)
{
	const uint32_t rank = m->t->rank;
	int ret = listen_at(m, addresses[rank]);

	for (uint32_t i = 0; !ret && i < rank; i++)
		ret = dial(m, i, addresses[i]);
	if (!ret)
		ret = rdmamsg_timer_create(m->t->ctx, on_timer, m, &m->timer);
	return ret ? ret :
	       rdmamsg_timer_start(m->timer, m->t->opts.timeout_ms, 0);
}

/* internal */

int rdmamsg__mesh_new(struct rdmamsg_team *t, const char *const *addresses,
		      struct mesh **ret_mesh)
{
	const struct proto_team_hello h = { .size = t->size, .rank = t->rank };
	struct mesh *m = calloc(1, sizeof(*m));
	int ret = 0;

	if (!t->opts.timeout_ms)
		t->opts.timeout_ms = TIMEOUT_MS;
	if (m) {
		m->t = t;
		m->missing = t->size - 1;
		m->eps = calloc(t->size, sizeof(struct rdmamsg_ep *));
		m->links = calloc(t->size, sizeof(*m->links));
	}
	if (!m || !m->eps || !m->links)
		ret = rdmamsg__fail(-ENOMEM, "no memory for a team");
	for (uint32_t i = 0; !ret && i < t->size; i++)
		m->links[i] = (struct link){ .of = m, .rank = i };
	if (!ret) {
		rdmamsg__team_hello_encode(&h, m->hello);
		ret = begin(m, addresses);
	}
	if (ret)
		rdmamsg__mesh_free(m);
	else
		*ret_mesh = m;
	return ret;
}

struct rdmamsg_ep *const *rdmamsg__mesh_eps(const struct mesh *m)
{
	return m->eps;
}

void rdmamsg__mesh_let_go(struct mesh *m)
{
	for (uint32_t i = 0; i < m->t->size; i++) {
		if (m->eps[i])
			rdmamsg_ep_set_user(m->eps[i], NULL);
		m->eps[i] = NULL;
	}
}

static void abort_all(const struct mesh *m)
{
	for (uint32_t i = 0; i < m->t->size; i++) {
		if (!m->eps[i])
			continue;
		rdmamsg_ep_set_user(m->eps[i], NULL);
		rdmamsg_ep_abort(m->eps[i]);
	}
}

void rdmamsg__mesh_free(struct mesh *m)
{
	if (!m)
		return;
	if (m->eps)
		abort_all(m);
	rdmamsg_timer_destroy(m->timer);
	/* a context that closes has closed its listeners */
	if (!m->t->ctx->closing)
		rdmamsg_listener_close(m->listener);
	free(m->eps);
	free(m->links);
	free(m);
}
