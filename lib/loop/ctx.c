/* SPDX-License-Identifier: BSD-2-Clause */
/* The context: made, checked, taken down in order. */
#include "base/addrmap.h"
#include "base/base.h"
#include "base/list.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/util.h"
#include "base/watch.h"
#include "device/device.h"
#include "device/pd.h"
#include "lane/srq.h"
#include "loop/ctx.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "memory/stretch.h"
#include "qp/rawqp.h"
#include "session/connect.h"
#include "session/ep.h"
#include "session/lent.h"

#include <errno.h>
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

int rdmamsg__ctx_check(const struct rdmamsg *ctx)
{
	if (likely(ctx && ctx->magic == CTX_MAGIC))
		return 0;
	if (!ctx)
		return rdmamsg__fail(-EINVAL, "the context is NULL");
	return rdmamsg__fail(-ECHILD, "this process was forked from the one "
			     "that opened the context, which cannot be used "
			     "here");
}

static int ctx_options(struct rdmamsg *ctx, const struct rdmamsg_options *opts)
{
	int ret = rdmamsg__opts_copy(&ctx->opts, sizeof(ctx->opts), opts,
				     "rdmamsg_options");

	if (ret)
		return ret;
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
	rdmamsg__budgets_init(ctx);
	ctx->user = ctx->opts.user;
	return 0;
}

int rdmamsg_open(struct rdmamsg **ret_ctx, const struct rdmamsg_options *opts)
{
	struct rdmamsg *ctx;
	int ret;

	rdmamsg__env_init();
	if (!ret_ctx)
		return rdmamsg__fail(-EINVAL, "rdmamsg_open: ret is NULL");
	ret = rdmamsg__fork_check();
	if (ret)
		return ret;
	ctx = rdmamsg__object_new(sizeof(*ctx));
	if (!ctx)
		return rdmamsg__fail(-ENOMEM, "rdmamsg_open: no memory");
	list_init(&ctx->devs);
	list_init(&ctx->eps);
	list_init(&ctx->listeners);
	list_init(&ctx->requests);
	list_init(&ctx->dirty);
	list_init(&ctx->dead);
	list_init(&ctx->held);
	list_init(&ctx->qps);
	list_init(&ctx->region_list);
	list_init(&ctx->srq_list);
	list_init(&ctx->pool_list);
	list_init(&ctx->pd_list);
	list_init(&ctx->caches);
	list_init(&ctx->lents);
	ctx->polls = SLOW_EVERY;
	ctx->last = &rdmamsg__nobody;
	ctx->received = (struct wc_kind){ IBV_WC_SUCCESS, IBV_WC_RECV };
	rdmamsg__tx_init(&ctx->tx);
	ctx->euid = geteuid();
	ctx->egid = getegid();
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
	if (ret) {
		rdmamsg__fail(ret, "rdmamsg_open: no memory");
		goto err_loop;
	}
	pthread_mutex_init(&ctx->cm_lock, NULL);
	ctx->magic = CTX_MAGIC;
	if (ctx->opts.srq)
		ret = rdmamsg_srq_create(ctx, ctx->opts.srq, &ctx->srq);
	ctx->opts.srq = NULL;
	if (ret) {
		rdmamsg_close(ctx);
		return ret;
	}
	*ret_ctx = ctx;
	return 0;

err_loop:
	rdmamsg__loop_close(&ctx->loop);
err_ctx:
	rdmamsg__object_free(ctx, sizeof(*ctx));
	return ret;
}

/* Bounded: every endpoint has a drain deadline of its own. */
static void close_eps(struct rdmamsg *ctx)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED, "the context was closed");
		rdmamsg__ep_kill(ep);
	}
	rdmamsg__settle(ctx);
	while (!list_empty(&ctx->eps)) {
		struct epoll_event ev;

		if (rdmamsg_process(ctx) <= 0)
			(void)epoll_wait(ctx->loop.epfd, &ev, 1, 1000);
	}
}

void rdmamsg_close(struct rdmamsg *ctx)
{
	struct list *n, *t;

	if (!ctx)
		return;
	if (ctx->magic != CTX_MAGIC) {
		/* a forked child: its copy of the memory, nothing more */
		rdmamsg__object_free(ctx, sizeof(*ctx));
		return;
	}
	if (ctx->loop.in_callback) {
		log_error("rdmamsg_close() in a callback: ignored");
		return;
	}
	ctx->closing = true;
	list_for_each_safe(n, t, &ctx->listeners)
		rdmamsg_listener_close(list_entry(n, struct rdmamsg_listener,
						  node));
	while (!list_empty(&ctx->requests))
		rdmamsg_reject(list_first(&ctx->requests,
					  struct rdmamsg_request, node),
			       NULL, 0);
	close_eps(ctx);
	/* what was submitted runs, even if it only frees its argument */
	while (rdmamsg__submit_run(&ctx->loop))
		;
	rdmamsg__settle(ctx);
	list_for_each_safe(n, t, &ctx->held) {
		/* theirs until rdmamsg_ep_release(), but on its own */
		rdmamsg__ep_drop_inbox(list_entry(n, struct rdmamsg_ep, node));
		list_del(n);
	}
	rdmamsg__rawqps_free(ctx);
	list_for_each_safe(n, t, &ctx->devs)
		rdmamsg__dev_close(list_entry(n, struct dev, node));
	rdmamsg__lents_free(ctx);
	rdmamsg__addrmap_fini(&ctx->accounts);
	rdmamsg__caches_free(ctx);
	rdmamsg__regions_free(ctx);
	rdmamsg__srqs_free(ctx);
	rdmamsg__userpools_free(ctx);
	rdmamsg__pds_free(ctx);
	/* what other contexts of the devices have sent until just now */
	while (rdmamsg__submit_run(&ctx->loop))
		;
	rdmamsg__cm_close(ctx);
	rdmamsg__loop_close(&ctx->loop);
	pthread_mutex_destroy(&ctx->cm_lock);
	free(ctx->table);
	rdmamsg__object_free(ctx, sizeof(*ctx));
}

void *rdmamsg_user(const struct rdmamsg *ctx)
{
	return ctx->user;
}

int rdmamsg_fd(const struct rdmamsg *ctx)
{
	int ret = rdmamsg__ctx_check(ctx);

	return ret ? ret : ctx->loop.epfd;
}
