/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An exception of C++ or longjmp(3) may leave a callback, and with it the call
 * of the library that has run the callback. That call's frame is then no longer
 * on the stack, which a later call finds out. So nothing depends on how the
 * program or the library was compiled, as long as there are unwind tables.
 *
 * The call that was left has lost completions: those that it had polled, and the
 * one that it was handling. So all that completes through the context's queues
 * ends, and the context goes on without it.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/stack.h"
#include "chain/chain.h"
#include "cm/connect.h"
#include "device/attend.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/use.h"
#include "lane/srq.h"
#include "loop/left.h"
#include "session/ep.h"
#include "session/sessions.h"
#include "session/srq_share.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <unwind.h>

#include <rdmamsg/endpoint.h>

static const char what[] = "a callback was left by an exception or longjmp()";

/* ---- the stack --------------------------------------------------------- */

struct search {
	uintptr_t frame, ret;
	bool known, alive;
};

/*
 * Each step has the end of a frame and the address to which its function
 * returns. The first end above the address of the frame in question belongs to
 * that frame, if it is still there.
 */
/*
 * Returns true if the call with this frame was made further up on the stack. The
 * frame's address is that at which the stack was before the call (the CFA) on
 * RISC-V and LoongArch, and is below it elsewhere.
 */
static bool is_above(uintptr_t frame, uintptr_t cfa)
{
#if defined(__riscv) || defined(__loongarch__)
	return frame > cfa;
#else
	return frame >= cfa;
#endif
}

static _Unwind_Reason_Code look(struct _Unwind_Context *c, void *arg)
{
	struct search *s = arg;

	if (is_above(s->frame, (uintptr_t)_Unwind_GetCFA(c)))
		return _URC_NO_REASON;
	s->known = true;
	s->alive = (uintptr_t)_Unwind_GetIP(c) == s->ret;
	return _URC_NORMAL_STOP;
}

/*
 * Returns true if the call is no longer on the stack. On another stack, as that
 * of a coroutine or of another thread, it may still be. A call that comes from
 * the same place as the one that was left has the same frame and the same
 * return address. But a callback's calls are below the call that runs it.
 */
static bool is_gone(const struct loop *loop, const void *here)
{
	const void *frame = rdmamsg__loop_frame(loop);
	struct search s = {
		.frame = (uintptr_t)frame, .ret = (uintptr_t)loop->ret,
	};

	if (!frame || !rdmamsg__on_this_stack(__builtin_frame_address(0),
					      frame))
		return false;
	if (s.frame <= (uintptr_t)here)
		return true;
	(void)_Unwind_Backtrace(look, &s);
	return s.known && !s.alive;
}

/* ---- repair ------------------------------------------------------------ */

static void forget_calls(struct rdmamsg *ctx)
{
	struct list *n;

	ctx->loop.in_callback = ctx->loop.busy = 0;
	ctx->polls = ctx->batch;
	ctx->hot.polls = ctx->hot.cq ? ctx->polls : 0;
	ctx->handled_count = 0;
	ctx->chains->waited = NULL;
	list_for_each(n, &ctx->sessions->listeners)
		list_entry(n, struct rdmamsg_listener, node)->waiting = false;
	rdmamsg__attend_done(ctx->devices);
}

static void end_all(struct rdmamsg *ctx)
{
	struct list *n, *m, *t;

	list_for_each(n, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		ep->rndv.asking = NULL;
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED, "%s", what);
	}
	list_for_each(n, &ctx->devices->devs)
		list_for_each_safe(m, t, &list_entry(n, struct dev, node)->srqs)
			rdmamsg__srq_left(list_entry(m, struct srq, dev_node));
	list_for_each(n, &ctx->devices->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->cqs)
			ctx->devices->use->cq_failed(
				ctx, list_entry(m, struct cq, node), -ECANCELED,
				what);
}

bool rdmamsg__still_in_callback(struct rdmamsg *ctx, const void *here)
{
	/* a cork counts as a callback, and no call is in progress there */
	if (ctx->loop.corks || !is_gone(&ctx->loop, here))
		return true;
	log_warn("%s: the connections of context %u end", what, ctx->number);
	forget_calls(ctx);
	end_all(ctx);
	ctx->loop.work = true;
	rdmamsg__loop_kick(&ctx->loop);
	return false;
}
