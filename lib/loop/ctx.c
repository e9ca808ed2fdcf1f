/* SPDX-License-Identifier: BSD-2-Clause */
/* The context: created, checked, closed in order. */
#include "base/addrmap.h"
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/util.h"
#include "base/watch.h"
#include "chain/chain.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "device/device.h"
#include "device/pd.h"
#include "group/group.h"
#include "lane/srq.h"
#include "session/tx.h"
#include "loop/device_use.h"
#include "loop/left.h"
#include "loop/stats_server.h"
#include "loop/timer.h"
#include "loop/wait.h"
#include "memory/layout.h"
#include "memory/layout_ask.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/regcache.h"
#include "memory/region.h"
#include "memory/share.h"
#include "memory/stretch.h"
#include "qp/rawqp.h"
#include "qp/xrc.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "session/ep.h"
#include "session/hmac.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/secret.h"
#include "session/deadline.h"
#include "session/sessions.h"
#include "session/shared.h"
#include "session/srq_share.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* All parts of a context, in one allocation. */
struct context {
	struct rdmamsg ctx;		/* first member */
	struct devices devices;
	struct memory memory;
	struct lanes lanes;
	struct sessions sessions;
	struct groups groups;
	struct chains chains;
	struct dcs dcs;
};

static int take_key(struct rdmamsg *ctx)
{
	struct rdmamsg_options *o = &ctx->opts;
	int ret = rdmamsg__secret_new(o->key, o->key_len, o->key_file,
				      &ctx->sessions->secret);

	o->key = o->key_file = NULL;
	o->key_len = 0;
	return ret;
}

static struct rdmamsg *context_new(void)
{
	struct context *c = rdmamsg__object_new(sizeof(*c));

	if (!c)
		return NULL;
	c->ctx.devices = &c->devices;
	c->ctx.memory = &c->memory;
	c->ctx.lanes = &c->lanes;
	c->ctx.tx = &c->lanes.tx;
	c->ctx.sessions = &c->sessions;
	c->ctx.groups = &c->groups;
	c->ctx.chains = &c->chains;
	c->ctx.dcs = &c->dcs;
	return &c->ctx;
}

static void context_free(struct rdmamsg *ctx)
{
	rdmamsg__object_free(ctx, sizeof(struct context));
}

/* Not in a forked child, where the number is the parent's. */
static void context_end(struct rdmamsg *ctx)
{
	rdmamsg__secret_free(ctx->sessions->secret);
	rdmamsg__deadlines_free(ctx->sessions);
	rdmamsg__ctx_number_free(ctx->number);
	context_free(ctx);
}

static int ctx_options(struct rdmamsg *ctx, const struct rdmamsg_options *opts)
{
	int ret = rdmamsg__opts_copy(&ctx->opts, sizeof(ctx->opts), opts,
				     "rdmamsg_options");

	if (!ret)
		ret = rdmamsg__opts_copy(&ctx->on, sizeof(ctx->on),
					 ctx->opts.handlers,
					 "rdmamsg_ctx_handlers");
	if (ret)
		return ret;
	if (ctx->opts.max_lanes)
		return rdmamsg__fail(-EOPNOTSUPP, "max_lanes %u: endpoints of "
				     "this version keep their connection",
				     ctx->opts.max_lanes);
	if (!ctx->opts.submit_depth)
		ctx->opts.submit_depth = 1024;
	if (ctx->opts.submit_depth > 1u << 20)
		return rdmamsg__fail(-EINVAL, "submit_depth %u: at most %u",
				     ctx->opts.submit_depth, 1u << 20);
	if (ctx->opts.spin_us == RDMAMSG_NONE)
		ctx->opts.spin_us = 0;
	if (ctx->opts.spin_us > 1000000)
		return rdmamsg__fail(-EINVAL, "spin_us %u: at most 1000000",
				     ctx->opts.spin_us);
	if (!ctx->opts.max_registered)
		ctx->opts.max_registered = (size_t)2 << 30;
	if (!ctx->opts.max_send_registered)
		ctx->opts.max_send_registered = ctx->opts.max_registered / 4;
	if (ctx->opts.max_send_registered >= ctx->opts.max_registered)
		return rdmamsg__fail(-EINVAL, "max_send_registered %zu: must be "
				     "less than max_registered, %zu",
				     ctx->opts.max_send_registered,
				     ctx->opts.max_registered);
	if (ctx->opts.group_rate && (ctx->opts.group_rate < 100 ||
				     ctx->opts.group_rate > 100000000))
		return rdmamsg__fail(-EINVAL, "group_rate %u: must be 100 to "
				     "100000000", ctx->opts.group_rate);
	rdmamsg__pace_init(&ctx->groups->pace, ctx->opts.group_rate,
			   rdmamsg__now_ns());
	rdmamsg__budgets_init(ctx);
	ctx->user = ctx->opts.user;
	return take_key(ctx);
}

int rdmamsg_open(struct rdmamsg **ret_ctx, const struct rdmamsg_options *opts)
{
	struct rdmamsg *ctx;
	int ret;

	rdmamsg__env_init();
	rdmamsg__hmac_init();
	if (!ret_ctx)
		return rdmamsg__fail(-EINVAL, "rdmamsg_open: ret is NULL");
	ret = rdmamsg__fork_check();
	if (ret)
		return ret;
	ctx = context_new();
	if (!ctx)
		return rdmamsg__fail(-ENOMEM, "rdmamsg_open: no memory");
	list_init(&ctx->devices->devs);
	list_init(&ctx->sessions->eps);
	list_init(&ctx->sessions->listeners);
	list_init(&ctx->sessions->requests);
	list_init(&ctx->sessions->dirty);
	list_init(&ctx->sessions->dead);
	list_init(&ctx->sessions->held);
	list_init(&ctx->qps);
	list_init(&ctx->timers);
	list_init(&ctx->xrcds);
	list_init(&ctx->groups->carriers);
	list_init(&ctx->groups->dead);
	list_init(&ctx->groups->homeless);
	ctx->group_done = rdmamsg__carrier_done;
	ctx->group_early = rdmamsg__carrier_early;
	ctx->dc_done = rdmamsg__port_completed;
	ctx->chain_done = rdmamsg__chains_completed;
	list_init(&ctx->memory->region_list);
	list_init(&ctx->lanes->srq_list);
	ctx->lanes->srq_failed = rdmamsg__srq_failed;
	list_init(&ctx->memory->pool_list);
	list_init(&ctx->devices->pd_list);
	list_init(&ctx->memory->caches);
	list_init(&ctx->sessions->lents);
	ctx->number = rdmamsg__ctx_number();
	ctx->settle = rdmamsg__settle_now;
	ctx->devices->use = &rdmamsg__device_use;
	ctx->memory->ask = rdmamsg__tx_ask;
	ctx->polls = ctx->batch = 1;
	ctx->last = &rdmamsg__nobody;
	ctx->received = (struct wc_kind){IBV_WC_SUCCESS, IBV_WC_RECV};
	rdmamsg__batch_init(ctx->tx);
	ctx->sessions->euid = geteuid();
	ctx->sessions->egid = getegid();
	ret = ctx_options(ctx, opts);
	if (ret)
		goto err_ctx;
	ret = rdmamsg__loop_open(&ctx->loop, ctx, ctx->opts.submit_depth);
	if (ret) {
		rdmamsg__fail(ret, "rdmamsg_open: %s%s", strerror(-ret),
			      ret == -EMFILE ? ": the limit on open files is "
			      "ulimit -n" : "");
		goto err_ctx;
	}
	ret = rdmamsg__starved_init(ctx);
	if (!ret)
		ret = rdmamsg__spares_init(ctx);
	if (!ret)
		ret = rdmamsg__shares_open(ctx, rdmamsg__shared_given);
	if (!ret)
		ret = rdmamsg__layout_asks_init(ctx);
	if (!ret)
		ret = rdmamsg__chains_open(ctx);
	if (!ret)
		ret = rdmamsg__dcs_open(ctx);
	if (ret) {
		rdmamsg__fail(ret, "rdmamsg_open: no memory");
		goto err_loop;
	}
	pthread_mutex_init(&ctx->sessions->cm_lock, NULL);
	ctx->magic = CTX_MAGIC;
	if (ctx->opts.srq)
		ret = rdmamsg_srq_create(ctx, ctx->opts.srq, &ctx->lanes->srq);
	ctx->opts.srq = NULL;
	if (ret) {
		rdmamsg_close(ctx);
		return ret;
	}
	rdmamsg__stats_open(ctx, rdmamsg__env_stats());
	*ret_ctx = ctx;
	return 0;

err_loop:
	rdmamsg__shares_free(ctx);
	rdmamsg__loop_close(&ctx->loop);
err_ctx:
	context_end(ctx);
	return ret;
}

/* Waits for the next event, or a little if the descriptor is lost. */
static void idle(const struct loop *loop)
{
	struct epoll_event ev;

	if (loop->lost)
		(void)poll(NULL, 0, 1);
	else
		(void)epoll_wait(loop->epfd, &ev, 1, 1000);
}

/* Ends soon, because every endpoint has a drain deadline. */
static void close_eps(struct rdmamsg *ctx)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED, "the context was closed");
		rdmamsg__ep_kill(ep);
	}
	rdmamsg__settle(ctx);
	while (!list_empty(&ctx->sessions->eps)) {
		if (rdmamsg_process(ctx) <= 0)
			idle(&ctx->loop);
	}
}

/* They are valid until rdmamsg_ep_release(), but have no context. */
static void forget_held(struct rdmamsg *ctx)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->sessions->held) {
		list_entry(n, struct rdmamsg_ep, node)->ctx = NULL;
		list_del(n);
	}
}

void rdmamsg_close(struct rdmamsg *ctx)
{
	struct list *n, *t;

	if (!ctx)
		return;
	if (ctx->magic != CTX_MAGIC) {
		/* in a forked child: only free its copy of the memory */
		context_free(ctx);
		return;
	}
	rdmamsg__cork_drop(ctx);
	if (rdmamsg__in_callback(ctx)) {
		log_error("rdmamsg_close() in a callback: ignored");
		return;
	}
	ctx->closing = true;
	rdmamsg__user_timers_stop(ctx);
	rdmamsg__stats_close(ctx);
	list_for_each_safe(n, t, &ctx->sessions->listeners)
		rdmamsg_listener_close(list_entry(n, struct rdmamsg_listener,
						  node));
	while (!list_empty(&ctx->sessions->requests))
		rdmamsg_request_reject(list_first(&ctx->sessions->requests,
						  struct rdmamsg_request, node),
				       NULL, 0);
	rdmamsg__groups_free(ctx);
	close_eps(ctx);
	/* run what was submitted, because it may free its argument */
	while (rdmamsg__submit_run(&ctx->loop))
		;
	rdmamsg__settle(ctx);
	list_for_each(n, &ctx->sessions->held)
		rdmamsg__ep_drop_inbox(list_entry(n, struct rdmamsg_ep, node));
	rdmamsg__chains_close(ctx);
	rdmamsg__dcs_close(ctx);
	rdmamsg__rawqps_free(ctx);
	rdmamsg__xrcds_free(ctx);
	rdmamsg__shares_close(ctx);
	list_for_each_safe(n, t, &ctx->devices->devs)
		rdmamsg__dev_close(list_entry(n, struct dev, node));
	rdmamsg__lents_free(ctx);
	rdmamsg__addrmap_fini(&ctx->memory->accounts);
	rdmamsg__caches_free(ctx);
	rdmamsg__regions_free(ctx);
	rdmamsg__imports_free(ctx);
	rdmamsg__srqs_free(ctx);
	rdmamsg__userpools_free(ctx);
	rdmamsg__pds_free(ctx);
	/* mail that other contexts of the devices have just sent */
	while (rdmamsg__submit_run(&ctx->loop))
		;
	rdmamsg__shares_free(ctx);
	rdmamsg__cm_close(ctx);
	rdmamsg__user_timers_free(ctx);
	rdmamsg__loop_close(&ctx->loop);
	pthread_mutex_destroy(&ctx->sessions->cm_lock);
	rdmamsg__handles_free(&ctx->sessions->table);
	rdmamsg__handles_free(&ctx->lanes->srqs);
	forget_held(ctx);
	context_end(ctx);
}

void *rdmamsg_user(const struct rdmamsg *ctx)
{
	return ctx ? ctx->user : NULL;
}

int rdmamsg_fd(const struct rdmamsg *ctx)
{
	int ret = rdmamsg__ctx_check(ctx);

	return ret ? ret : ctx->loop.epfd;
}
