/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: one list and one counting descriptor per context. */
#include "soft/verbs/ctx.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "soft/verbs/calls.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/srq.h"
#include "soft/verbs/wq.h"

static void raise_event(struct soft_ctx *ctx, const struct ibv_async_event *ev)
{
	struct soft_async *a = malloc(sizeof(*a));

	if (!a)
		return;
	a->ev = *ev;
	list_add_tail(&ctx->async, &a->node);
	(void)!write(ctx->v.context.async_fd, &(uint64_t){ 1 },
		     sizeof(uint64_t));
}

void soft_async_qp(struct soft_dev *dev, struct soft_qp *qp,
		   enum ibv_event_type type)
{
	struct ibv_async_event ev = {
		.element.qp = &qp->ibv, .event_type = type,
	};
	struct list *n;

	if (!qp->gone)
		raise_event(soft_ctx(qp->ibv.context), &ev);
	list_for_each(n, &qp->opened) {
		ev.element.qp = &list_entry(n, struct soft_qp, opened)->ibv;
		raise_event(soft_ctx(ev.element.qp->context), &ev);
	}
}

void soft_async_srq(struct soft_dev *dev, struct soft_srq *srq,
		    enum ibv_event_type type)
{
	struct ibv_async_event ev = {
		.element.srq = &srq->ibv, .event_type = type,
	};

	raise_event(soft_ctx(srq->ibv.context), &ev);
}

void soft_async_cq(struct soft_dev *dev, struct soft_cq *cq)
{
	struct ibv_async_event ev = {
		.element.cq = &cq->ibv, .event_type = IBV_EVENT_CQ_ERR,
	};

	raise_event(soft_ctx(cq->ibv.context), &ev);
}

void soft_async_wq(struct soft_dev *dev, struct soft_wq *wq)
{
	struct ibv_async_event ev = {
		.element.wq = &wq->ibv, .event_type = IBV_EVENT_WQ_FATAL,
	};

	raise_event(soft_ctx(wq->ibv.context), &ev);
}

void soft_async_port(struct soft_dev *dev, uint8_t port,
		     enum ibv_event_type type)
{
	struct ibv_async_event ev = { .event_type = type };
	struct list *n;

	ev.element.port_num = port;
	list_for_each(n, &dev->contexts) {
		struct soft_ctx *ctx = list_entry(n, struct soft_ctx, node);

		if (!ctx->removed)
			raise_event(ctx, &ev);
	}
}

void soft_async_ports(struct soft_dev *dev, const struct soft_faults *were)
{
	for (int i = 0; i < dev->ports; i++) {
		bool was = soft_port_seems_up(were->port[i]);
		bool is = soft_port_seems_up(dev->faults.port[i]);

		if (was != is)
			soft_async_port(dev, (uint8_t)(i + 1),
					is ? IBV_EVENT_PORT_ACTIVE :
					IBV_EVENT_PORT_ERR);
	}
}

void soft_async_device(struct soft_ctx *ctx, enum ibv_event_type type)
{
	const struct ibv_async_event ev = { .event_type = type };

	raise_event(ctx, &ev);
}

void soft_async_forget(struct soft_ctx *ctx, const void *object)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->async) {
		struct soft_async *a = list_entry(n, struct soft_async, node);

		/* element of a port event is a number and matches no object */
		if (a->ev.element.qp != object)
			continue;
		list_del(n);
		free(a);
	}
}

static bool is_cq(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR;
}

static bool is_srq(enum ibv_event_type type)
{
	return type == IBV_EVENT_SRQ_ERR ||
	       type == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool is_wq(enum ibv_event_type type)
{
	return type == IBV_EVENT_WQ_FATAL;
}

static bool is_qp(enum ibv_event_type type)
{
	return type <= IBV_EVENT_PATH_MIG_ERR ? !is_cq(type) :
	       type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

int soft_get_async_event(struct ibv_context *verbs,
			 struct ibv_async_event *ret)
{
	struct soft_ctx *ctx = soft_ctx(verbs);
	struct soft_async *a = NULL;
	uint64_t one;

	while (!a) {
		if (read(verbs->async_fd, &one, sizeof(one)) != sizeof(one))
			return -1;
		soft_lock(ctx->dev);
		if (!list_empty(&ctx->async)) {
			a = list_first(&ctx->async, struct soft_async, node);
			list_del(&a->node);
			if (is_qp(a->ev.event_type))
				soft_qp(a->ev.element.qp)->async_fetched++;
			else if (is_cq(a->ev.event_type))
				soft_cq(a->ev.element.cq)->async_fetched++;
			else if (is_srq(a->ev.event_type))
				((struct soft_srq *)a->ev.element.srq)
					->async_fetched++;
			else if (is_wq(a->ev.event_type))
				((struct soft_wq *)a->ev.element.wq)
					->async_fetched++;
		}
		soft_unlock(ctx->dev);
	}
	*ret = a->ev;
	free(a);
	return 0;
}

void soft_ack_async_event(struct ibv_async_event *event)
{
	if (is_qp(event->event_type)) {
		struct ibv_qp *qp = event->element.qp;

		(void)pthread_mutex_lock(&qp->mutex);
		qp->events_completed++;
		(void)pthread_cond_signal(&qp->cond);
		(void)pthread_mutex_unlock(&qp->mutex);
	} else if (is_cq(event->event_type)) {
		struct ibv_cq *cq = event->element.cq;

		(void)pthread_mutex_lock(&cq->mutex);
		cq->async_events_completed++;
		(void)pthread_cond_signal(&cq->cond);
		(void)pthread_mutex_unlock(&cq->mutex);
	} else if (is_srq(event->event_type)) {
		struct ibv_srq *srq = event->element.srq;

		(void)pthread_mutex_lock(&srq->mutex);
		srq->events_completed++;
		(void)pthread_cond_signal(&srq->cond);
		(void)pthread_mutex_unlock(&srq->mutex);
	} else if (is_wq(event->event_type)) {
		struct ibv_wq *wq = event->element.wq;

		(void)pthread_mutex_lock(&wq->mutex);
		wq->events_completed++;
		(void)pthread_cond_signal(&wq->cond);
		(void)pthread_mutex_unlock(&wq->mutex);
	}
}
