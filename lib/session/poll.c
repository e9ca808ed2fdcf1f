/* SPDX-License-Identifier: BSD-2-Clause */
/* Polls completion queues and passes completions to endpoints. */
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/early.h"
#include "device/use.h"
#include "lane/srq.h"
#include "session/ep.h"
#include "session/poll.h"
#include "session/recv.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

void rdmamsg__cq_failed(struct rdmamsg *ctx, const struct cq *cq, int err,
			const char *what)
{
	struct list *n;

	list_for_each(n, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (ep->lane.cq != cq &&
		    (!ep->lane.srq || ep->lane.srq->cq != cq))
			continue;
		rdmamsg__ep_device_failed(ep, err, what);
	}
}

/* The next completions of the queue, early ones first: at most 16. */
static inline int next(struct rdmamsg *ctx, struct cq *cq,
		       struct ibv_wc *wc)
{
	if (unlikely(cq->early.count))
		return rdmamsg__early_take(ctx, cq, wc, 16);
	return ibv_poll_cq(cq->ibv, 16, wc);
}

void rdmamsg__cq_drain(struct rdmamsg *ctx, struct cq *cq)
{
	struct ibv_wc wc[16];
	uint32_t left = cq->room + cq->early.count;
	int got;

	do {
		got = next(ctx, cq, wc);
		if (got <= 0)
			return;
		rdmamsg__dispatch(ctx, wc, got);
		left -= min(left, (uint32_t)got);
	} while (left);
}

int rdmamsg__cq_poll(struct rdmamsg *ctx, int budget)
{
	/* outlives a callback that does not return; the inline poll is off */
	struct ibv_wc *wc = ctx->hot.wc;
	struct list *n, *m;
	int total = 0;

	list_for_each(n, &ctx->devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->single)
			break;		/* the rest of ctx->devs is single */
		list_for_each(m, &dev->cqs) {
			struct cq *cq = list_entry(m, struct cq, node);
			int got, sum = 0;

			do {
				got = next(ctx, cq, wc);
				if (unlikely(got < 0)) {
					ctx->devices->use->cq_failed(
						ctx, cq, -EIO,
						"polling the completion queue");
					break;
				}
				rdmamsg__dispatch(ctx, wc, got);
				sum += got;
			} while (got == 16 && sum < budget);
			total += sum;
		}
	}
	return total;
}
