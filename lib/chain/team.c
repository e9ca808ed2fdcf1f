/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Teams: created, destroyed, failed. Every two members are connected, so each
 * member sees when another ends. But only two members see that a connection has
 * broken, so a member that sees a failure also tells the others.
 */
#include "chain/team.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/meet.h"
#include "chain/native.h"
#include "session/ep.h"
#include "session/send.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/endpoint.h>

/* ---- failing ---------------------------------------------------------- */

static void team_put(struct rdmamsg_team *t)
{
	if (--t->refs)
		return;
	free(t->members);
	free(t);
}

/* Takes the endpoint out of a team that is destroyed. */
static void leave(struct chain_ep *end)
{
	struct rdmamsg_ep *ep = end->team->owns ? end->ep : NULL;

	end->team->members[end->rank] = NULL;
	end->team = NULL;
	end->busy = NULL;
	rdmamsg__chain_ep_put(end);
	if (ep)
		rdmamsg_ep_close(ep);
}

static void say_fail(struct rdmamsg_team *t, struct chain_ep *end)
{
	struct proto_team_fail f = {
		.rank = t->reason.rank, .error = (uint32_t)-t->reason.error,
		.who = (uint8_t)t->reason.who,
		.cause = (uint8_t)t->reason.cause,
	};
	uint8_t buf[PROTO_TEAM_FAIL_MAX];
	size_t len;

	if (!end->ep)
		return;
	(void)snprintf(f.text, sizeof(f.text), "%s", t->reason.text);
	len = rdmamsg__team_fail_encode(&f, buf);
	/* if the endpoint has ended, the peer sees that itself */
	if (rdmamsg__try(rdmamsg_send(end->ep, buf, len, PROTO_TEAM_FAIL_TAG,
				      NULL)) != -EAGAIN)
		return;
	end->fail_due = true;
	t->refs++;
}

/* The members have no more operations. */
static void drop_native(struct rdmamsg_team *t)
{
	(void)rdmamsg__meeting_free(t->chain);
	rdmamsg__native_free(t->chain->native);
	t->chain->native = NULL;
	t->native = false;
	for (uint32_t i = 0; i < t->size; i++) {
		if (!t->members[i])
			continue;
		rdmamsg__channel_close(t->members[i]);
		t->members[i]->met = MET_NOT;
	}
}

static void fail(struct rdmamsg_team *t, const struct rdmamsg_team_failure *why)
{
	if (t->reason.error)
		return;
	t->reason = *why;
	t->reason.size = sizeof(t->reason);
	rdmamsg__chain_fail(t->chain, NO_STEP, why->error, "%s", why->text);
	drop_native(t);
	for (uint32_t i = 0; i < t->size && why->told_by == t->rank; i++)
		if (t->members[i])
			say_fail(t, t->members[i]);
}

/*
 * The endpoint has failed. If the cause is on this side, this member is the one
 * that has failed.
 */
static void fail_end(struct rdmamsg_team *t, const struct chain_ep *end,
		     const struct rdmamsg_reason *why, int error)
{
	const bool ours = why->who == RDMAMSG_WHO_LOCAL ||
			  why->who == RDMAMSG_WHO_DEVICE;
	struct rdmamsg_team_failure r = {
		.rank = ours ? t->rank : end->rank, .told_by = t->rank,
		.error = error, .who = why->who, .cause = why->cause,
	};

	if (ours)
		(void)snprintf(r.text, sizeof(r.text), "member %u: its "
			       "endpoint to member %u: %.120s", t->rank,
			       end->rank, why->text);
	else
		(void)snprintf(r.text, sizeof(r.text), "member %u: %.150s",
			       end->rank, why->text);
	fail(t, &r);
}

void rdmamsg__team_broken(struct rdmamsg_team *t, uint32_t rank,
			  const char *why)
{
	struct rdmamsg_team_failure r = {
		.rank = rank, .told_by = t->rank, .error = -EIO,
		.who = rank == t->rank ? RDMAMSG_WHO_DEVICE :
		       RDMAMSG_WHO_PEER,
		.cause = RDMAMSG_CAUSE_TRANSPORT,
	};

	(void)snprintf(r.text, sizeof(r.text), "member %u: a channel of the "
		       "team has failed: %.110s", rank, why);
	fail(t, &r);
}

void rdmamsg__team_step_failed(struct rdmamsg_team *t,
			       const struct rdmamsg_chain *c)
{
	const struct rdmamsg_chain_end *why = &c->end;
	const struct chain_ep *end = why->step == RDMAMSG_NONE ? NULL :
				     c->steps[why->step].end;
	struct rdmamsg_reason r = {
		.who = RDMAMSG_WHO_PEER, .cause = RDMAMSG_CAUSE_PROTOCOL,
	};

	if (!end || t->reason.error)
		return;
	if (why->status == -EPROTO)
		(void)snprintf(r.text, sizeof(r.text), "another operation than "
			       "member %u: %.120s", t->rank, why->text);
	else
		r = end->ep ? *rdmamsg_ep_reason(end->ep) : end->why;
	if (r.cause == RDMAMSG_CAUSE_NONE)
		(void)snprintf(r.text, sizeof(r.text), "%.150s", why->text);
	if (r.cause == RDMAMSG_CAUSE_NONE)
		r.who = RDMAMSG_WHO_LOCAL;
	/* a send on an endpoint that ends gives -ESHUTDOWN: say why it ends */
	fail_end(t, end, &r, r.error ? r.error : why->status);
}

void rdmamsg__team_done(struct rdmamsg_team *t)
{
	const int status = t->chain->end.status;

	/* or the operation was ended by fail() */
	if (status)
		rdmamsg__team_step_failed(t, t->chain);
	/* the endpoint's end may have come after the step that it failed */
	t->status = status ? t->reason.error : 0;
	rdmamsg__tell(&t->ctx->loop, t->on.on_done, t, t->cookie,
		      t->status);
}

/* The members of such a team meet before its first operation. */
static bool meets(const struct rdmamsg_team *t)
{
	return t->opts.path == RDMAMSG_CHAIN_NATIVE && t->size > 1 &&
	       t->size <= NATIVE_ENDS;
}

static void go_in_loop(struct rdmamsg_team *t)
{
	rdmamsg__chain_loop(t->chain);
	if (t->native && t->chain->state == CHAIN_RUNS)
		rdmamsg__native_watch(t->chain);
}

/* All members have met with the same result. */
void rdmamsg__team_go(struct rdmamsg_team *t)
{
	t->native = meets(t) && t->members[!t->rank]->met == MET_YES;
	if (!t->native || !t->fits)
		go_in_loop(t);
	else if (rdmamsg__try(rdmamsg__native_start(t->chain)))
		rdmamsg__team_broken(t, t->rank, rdmamsg__text());
}

void rdmamsg__team_closed(struct chain_ep *end)
{
	struct rdmamsg_team *t = end->team;

	if (end->fail_due) {
		end->fail_due = false;
		if (!t->chain)
			leave(end);
		team_put(t);
	} else if (end->receives != NO_QUEUE || end->sends != NO_QUEUE) {
		/* the step finds the end */
		end->receives = end->sends = NO_QUEUE;
		rdmamsg__chain_wake(end->busy, 0);
	} else if (end->why.error) {
		fail_end(t, end, &end->why, end->why.error);
	} else if (rdmamsg__native_needs(end)) {
		fail_end(t, end, &end->why, -ESHUTDOWN);
	}
}

bool rdmamsg__team_takes(struct chain_ep *end, const struct rdmamsg_msg *msg)
{
	struct rdmamsg_team *t = end->team;
	struct rdmamsg_team_failure r = { .told_by = end->rank };
	struct proto_team_fail f;

	if (rdmamsg_msg_tag(msg) != PROTO_TEAM_FAIL_TAG || !t->chain ||
	    rdmamsg__team_fail_decode(&f, rdmamsg_msg_data(msg),
				      rdmamsg_msg_len(msg)) ||
	    f.rank >= t->size)
		return false;
	r.rank = f.rank;
	r.error = -(int)f.error;
	r.who = (enum rdmamsg_who)f.who;
	r.cause = (enum rdmamsg_cause)f.cause;
	(void)snprintf(r.text, sizeof(r.text), "%s", f.text);
	fail(t, &r);
	return true;
}

void rdmamsg__team_writable(struct chain_ep *end)
{
	struct rdmamsg_team *t = end->team;

	end->fail_due = false;
	say_fail(t, end);
	if (!end->fail_due && !t->chain)
		leave(end);
	team_put(t);
}

/* ---- public ----------------------------------------------------------- */

static int check_args(struct rdmamsg *ctx, const void *members, uint32_t size,
		      uint32_t rank, struct rdmamsg_team *const *ret,
		      const char *call)
{
	if (!ctx || !members || !ret)
		return rdmamsg__fail(-EINVAL, "%s: ctx, the list of "
				     "members or ret is NULL", call);
	if (!size || size > RDMAMSG_TEAM_MAX || rank >= size)
		return rdmamsg__fail(-EINVAL, "%s: rank %u of %u members: at "
				     "most %u", call, rank, size,
				     RDMAMSG_TEAM_MAX);
	return rdmamsg__ctx_check(ctx);
}

/* Undoes join() for the members below n. */
static void leave_all(struct rdmamsg_team *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t->members[i] && !t->members[i]->fail_due)
			leave(t->members[i]);
}

/* Returns true if the program waits for messages, which the team receives. */
static bool has_on_message(const struct rdmamsg_ep *ep)
{
	return ep->chain ? ep->chain->on.on_message : ep->on.on_message;
}

static int join(struct rdmamsg_team *t, struct rdmamsg_ep *ep, uint32_t rank)
{
	struct chain_ep *end;
	int ret = rdmamsg__tx_check(ep);

	if (!ret && has_on_message(ep))
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_team_create: the "
				    "endpoint to member %u has on_message, "
				    "which is not called in a team: leave it "
				    "NULL", rank);
	if (!ret)
		ret = rdmamsg__chain_own(t->ctx, ep, &end);
	if (ret)
		return ret;
	if (end->team || end->busy)
		return rdmamsg__fail(-EBUSY, "rdmamsg_team_create: the "
				     "endpoint to member %u is in a %s", rank,
				     end->team ? "team" : "chain that runs");
	end->refs++;
	end->team = t;
	end->rank = rank;
	end->busy = t->chain;
	t->members[rank] = end;
	return 0;
}

static int join_all(struct rdmamsg_team *t, struct rdmamsg_ep *const *eps)
{
	for (uint32_t i = 0; i < t->size; i++) {
		int ret = i == t->rank ? 0 : join(t, eps[i], i);

		if (!ret)
			continue;
		leave_all(t, i);
		return ret;
	}
	return 0;
}

/* All members meet before the first operation. */
static int plan_meeting(struct rdmamsg_team *t)
{
	int err = rdmamsg__meeting_new(t->chain, t->size - 1);

	if (err) {
		leave_all(t, t->size);
		return err;
	}
	for (uint32_t i = 0; i < t->size; i++)
		if (i != t->rank)
			rdmamsg__meeting_add(t->chain, t->members[i]);
	return 0;
}

static void team_free(struct rdmamsg_team *t)
{
	if (t->chain)
		rdmamsg__chain_delete(t->chain);
	t->chain = NULL;
	free(t->temp);
	team_put(t);
}

static int take_opts(struct rdmamsg_team *t,
		     const struct rdmamsg_team_options *opts, const char *call)
{
	int ret = rdmamsg__opts_copy(&t->opts, sizeof(t->opts), opts,
				     "rdmamsg_team_options");

	if (!ret)
		ret = rdmamsg__opts_copy(&t->on, sizeof(t->on),
					 t->opts.handlers,
					 "rdmamsg_team_handlers");
	if (!ret && t->opts.path > RDMAMSG_CHAIN_NATIVE)
		ret = rdmamsg__fail(-EINVAL, "%s: path %u: there is none", call,
				    t->opts.path);
	return ret;
}

/* Makes a team without endpoints. */
static int team_new(struct rdmamsg *ctx,
		    const struct rdmamsg_team_options *opts, uint32_t size,
		    uint32_t rank, struct rdmamsg_team **ret_team,
		    const char *call)
{
	struct rdmamsg_team *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return rdmamsg__fail(-ENOMEM, "no memory for a team");
	t->ctx = ctx;
	t->refs = 1;
	t->size = size;
	t->rank = rank;
	list_init(&t->node);
	t->reason.size = sizeof(t->reason);
	t->chain = rdmamsg__chain_new(ctx);
	t->members = calloc(size, sizeof(*t->members));
	if (!t->chain || !t->members)
		ret = rdmamsg__fail(-ENOMEM, "no memory for a team");
	else
		ret = take_opts(t, opts, call);
	if (ret) {
		team_free(t);
		return ret;
	}
	t->chain->team = t;
	*ret_team = t;
	return 0;
}

static int take_endpoints(struct rdmamsg_team *t, struct rdmamsg_ep *const *eps)
{
	int ret = join_all(t, eps);

	return ret || !meets(t) ? ret : plan_meeting(t);
}

int rdmamsg_team_create(struct rdmamsg *ctx,
			const struct rdmamsg_team_options *opts,
			struct rdmamsg_ep *const *eps, uint32_t size,
			uint32_t rank, struct rdmamsg_team **ret_team)
{
	struct rdmamsg_team *t;
	int ret = check_args(ctx, eps, size, rank, ret_team,
			     "rdmamsg_team_create");

	if (!ret)
		ret = team_new(ctx, opts, size, rank, &t,
			       "rdmamsg_team_create");
	if (ret)
		return ret;
	ret = take_endpoints(t, eps);
	if (ret) {
		team_free(t);
		return ret;
	}
	list_add_tail(&ctx->chains->teams, &t->node);
	*ret_team = t;
	return 0;
}

/* ---- a team that makes its endpoints ---------------------------------- */

static void drop_mesh(struct rdmamsg_team *t)
{
	struct mesh *m = t->mesh;

	t->mesh = NULL;
	rdmamsg__mesh_free(m);
}

void rdmamsg__team_unformed(struct rdmamsg_team *t,
			    const struct rdmamsg_team_failure *why)
{
	drop_mesh(t);
	fail(t, why);
}

/*
 * The team's first run, that of forming it, has no steps. Members that ask for
 * native runs meet in it.
 */
void rdmamsg__team_formed(struct rdmamsg_team *t)
{
	struct rdmamsg_team_failure r = {
		.rank = t->rank, .told_by = t->rank,
		.who = RDMAMSG_WHO_LOCAL, .cause = RDMAMSG_CAUSE_RESOURCES,
	};

	r.error = rdmamsg__try(take_endpoints(t, rdmamsg__mesh_eps(t->mesh)));
	if (r.error) {
		(void)snprintf(r.text, sizeof(r.text), "member %u: %.160s",
			       t->rank, rdmamsg__text());
		rdmamsg__team_unformed(t, &r);
		return;
	}
	rdmamsg__mesh_let_go(t->mesh);
	drop_mesh(t);
	if (t->chain->meets)
		rdmamsg__meeting_start(t->chain);
	else
		rdmamsg__team_go(t);
}

static int check_ep_opts(struct rdmamsg_team *t)
{
	const struct rdmamsg_ep_options *o = &t->ep_opts;
	int ret = rdmamsg__opts_copy(&t->ep_opts, sizeof(t->ep_opts),
				     t->opts.ep, "rdmamsg_ep_options");

	if (!ret && (o->handlers || o->user || o->hello_data || o->setup_data))
		ret = rdmamsg__fail(-EINVAL, "rdmamsg_team_connect: the team "
				    "sets handlers, user, hello_data and "
				    "setup_data of its endpoints");
	return ret;
}

int rdmamsg_team_connect(struct rdmamsg *ctx,
			 const struct rdmamsg_team_options *opts,
			 const char *const *addresses, uint32_t size,
			 uint32_t rank, struct rdmamsg_team **ret_team)
{
	struct rdmamsg_team *t;
	int ret = check_args(ctx, addresses, size, rank, ret_team,
			     "rdmamsg_team_connect");

	if (!ret)
		ret = rdmamsg__ctx_takes(ctx);
	if (!ret)
		ret = team_new(ctx, opts, size, rank, &t,
			       "rdmamsg_team_connect");
	if (ret)
		return ret;
	t->owns = true;
	ret = check_ep_opts(t);
	if (!ret)
		ret = rdmamsg__mesh_new(t, addresses, &t->mesh);
	if (ret) {
		team_free(t);
		return ret;
	}
	list_add_tail(&ctx->chains->teams, &t->node);
	rdmamsg__chain_hold(t->chain);
	if (size == 1)
		rdmamsg__team_formed(t);
	*ret_team = t;
	return 0;
}

static void abort_as(struct rdmamsg_team *t, const char *what)
{
	struct rdmamsg_team_failure r = {
		.rank = t->rank, .told_by = t->rank, .error = -ECANCELED,
		.who = RDMAMSG_WHO_LOCAL, .cause = RDMAMSG_CAUSE_ABORTED,
	};

	(void)snprintf(r.text, sizeof(r.text), "member %u: its program has %s",
		       t->rank, what);
	fail(t, &r);
}

void rdmamsg__teams_unform(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->chains->teams) {
		struct rdmamsg_team *t = list_entry(n, struct rdmamsg_team,
						    node);

		if (!t->mesh)
			continue;
		drop_mesh(t);
		abort_as(t, "shut the context down");
	}
}

void rdmamsg_team_destroy(struct rdmamsg_team *t)
{
	if (!t || rdmamsg__try(rdmamsg__ctx_check(t->ctx)))
		return;
	drop_mesh(t);
	if (t->chain->state == CHAIN_RUNS)
		abort_as(t, "destroyed the team in an operation");
	list_del(&t->node);
	drop_native(t);
	leave_all(t, t->size);
	team_free(t);
}

void rdmamsg_team_abort(struct rdmamsg_team *t)
{
	if (!t || rdmamsg__try(rdmamsg__ctx_check(t->ctx)))
		return;
	drop_mesh(t);
	abort_as(t, "aborted the operation");
}

uint32_t rdmamsg_team_path(const struct rdmamsg_team *t)
{
	if (t && t->chain->meets)
		return RDMAMSG_CHAIN_AUTO;
	return t && t->native ? RDMAMSG_CHAIN_NATIVE : RDMAMSG_CHAIN_LOOP;
}

void *rdmamsg_team_user(const struct rdmamsg_team *t)
{
	return t ? t->opts.user : NULL;
}

const struct rdmamsg_team_failure *
rdmamsg_team_reason(const struct rdmamsg_team *t)
{
	static const struct rdmamsg_team_failure none = {
		.size = sizeof(none), .text = "no team",
	};

	return t ? &t->reason : &none;
}
