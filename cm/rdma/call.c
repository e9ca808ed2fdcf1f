/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads for iWARP, where calls of the connection manager wait for the peer.
 *
 * rdma_connect() of devices that connect in the call takes minutes, if the host
 * does not answer:
 *
 *	WAITS --------> RUNS --------> OVER
 *	a thread is     in the         mail is on its way
 *	free            kernel         to the context
 *
 * The call has the id on an event channel of its own, so that another thread can
 * destroy both if the endpoint gives up, after the context has ended, too. At
 * success the id returns to the channel of the context, with its events.
 *
 * An endpoint that gives up cancels the thread. write(2) of rdma_connect() is a
 * cancellation point, and the only one in the call.
 *
 * When the call has returned, the kernel destroys the id and the queue pair only
 * after the peer's answer, or when it gives up: siw after 10 s (Linux 6.1,
 * iwcm.c, destroy_cm_id(); siw_verbs.c, siw_destroy_qp(); siw_cm.h,
 * MPAREQ_TIMEOUT). So an endpoint that ends before leaves both to one more
 * thread, the undertaker. The kernel waits for all of them at the same time, so
 * that one thread is enough.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/submit.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/late.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "lane/qp.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "wire/proto.h"

#include "cm/rdma/cm.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

#define CALLS_MAX	16	/* threads of the process */

struct call {
	struct mail mail;
	struct list node;		/* in calls.waiting or calls.left */
	const struct verbs_api *v;
	struct rdma_event_channel *ch;	/* of the id alone */
	struct rdma_cm_id *id;
	struct late_qp qp;		/* of an endpoint that has given up */
	struct rdma_conn_param param;
	uint8_t data[PROTO_HELLO_MAX];
	bool cancels;			/* the thread can be cancelled */
	/* under calls.lock */
	struct rdmamsg_ep *ep;		/* NULL: it has given up */
	enum { CALL_WAITS, CALL_RUNS, CALL_OVER } state;
	pthread_t thread;		/* if it runs */
	int ret;
};

static struct {
	pthread_mutex_t lock;
	struct list waiting;
	unsigned int running;		/* <= CALLS_MAX */
	struct list left;		/* for the undertaker */
	bool undertaker;		/* the thread runs */
} calls = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.waiting = { &calls.waiting, &calls.waiting },
	.left = { &calls.left, &calls.left },
};

/* The id comes first: as long as it connects, it holds the queue pair. */
static void discard(struct call *c)
{
	if (c->id)
		rdmamsg__cm_id_free(c->v, c->id);
	rdmamsg__late_destroy(&c->qp);
	if (c->ch)
		c->v->destroy_event_channel(c->ch);
	free(c);
}

/* ---- the undertaker --------------------------------------------------- */

static void *undertaker(void *arg)
{
	pthread_mutex_lock(&calls.lock);
	while (!list_empty(&calls.left)) {
		struct call *c = list_first(&calls.left, struct call, node);

		list_del(&c->node);
		pthread_mutex_unlock(&calls.lock);
		discard(c);
		pthread_mutex_lock(&calls.lock);
	}
	calls.undertaker = false;
	pthread_mutex_unlock(&calls.lock);
	return NULL;
}

/* Discards a call in the undertaker. If there can be none, waits for it here. */
static void leave_behind(struct call *c)
{
	pthread_t thread;
	int ret = 0;

	pthread_mutex_lock(&calls.lock);
	if (!calls.undertaker)
		ret = rdmamsg__thread_start(undertaker, NULL, &thread);
	if (!ret) {
		calls.undertaker = true;
		list_add_tail(&calls.left, &c->node);
	}
	pthread_mutex_unlock(&calls.lock);
	if (ret)
		discard(c);
}

/* ---- the thread of a call --------------------------------------------- */

static void *call_thread(void *arg);

/* Under the lock, so that the context of an endpoint exists. */
static void finish(struct call *c, int ret)
{
	c->ret = ret;
	c->state = CALL_OVER;
	rdmamsg__mail_post(&c->ep->ctx->loop, &c->mail);
}

/*
 * Starts threads for calls that wait. If none can be made, they wait for the
 * running ones, and fail if there is none. Under the lock.
 */
static void start_waiting(void)
{
	while (calls.running < CALLS_MAX && !list_empty(&calls.waiting)) {
		struct call *c = list_first(&calls.waiting, struct call, node);
		int ret = rdmamsg__thread_start(call_thread, c, &c->thread);

		if (ret && calls.running)
			return;
		list_del(&c->node);
		if (ret) {
			finish(c, ret);
			continue;
		}
		c->state = CALL_RUNS;
		calls.running++;
	}
}

static void leave(void)
{
	calls.running--;
	start_waiting();
}

/* rdma_connect() has returned. */
static void over(struct call *c, int ret)
{
	bool wanted;

	pthread_mutex_lock(&calls.lock);
	wanted = c->ep;
	if (wanted)
		finish(c, ret);
	leave();
	pthread_mutex_unlock(&calls.lock);
	if (!wanted)
		leave_behind(c);
}

static void canceled(void *arg)
{
	over(arg, -ECANCELED);
}

static void *call_thread(void *arg)
{
	struct call *c = arg;
	int ret, state;

	/* the lock is held until c->thread and c->state are set */
	pthread_mutex_lock(&calls.lock);
	pthread_mutex_unlock(&calls.lock);
	if (!c->cancels)
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cleanup_push(canceled, c);
	do {
		ret = rdmamsg__v_connect(c->v, c->id, &c->param);
	} while (ret == -EINTR);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cleanup_pop(0);
	over(c, ret);
	return NULL;
}

/* ---- the context ------------------------------------------------------ */

/* Moves the id to the channel of the context. On failure, destroys it. */
static int come_back(struct rdmamsg_ep *ep, struct call *c)
{
	struct rdma_event_channel *ch;
	int ret = rdmamsg__cm_open(ep->ctx, c->v, &ch);

	if (!ret)
		ret = rdmamsg__cm_migrate(ep->ctx, c->v, c->id);
	if (ret)
		ep->connect.id = NULL;
	else
		c->id = NULL;		/* the endpoint's */
	discard(c);
	return ret;
}

static void arrived(struct rdmamsg *ctx, struct mail *mail)
{
	struct call *c = list_entry(mail, struct call, mail);
	struct rdmamsg_ep *ep = c->ep;	/* only this thread changes it now */
	int ret = c->ret, err;

	if (!ep) {
		leave_behind(c);
		return;
	}
	ep->connect.call = NULL;
	err = come_back(ep, c);
	rdmamsg__cm_connect_returned(ep, err ? err : ret);
}

/* pthread_cancel() of glibc ends the process if it cannot load libgcc_s. */
static bool can_cancel(void)
{
	static _Atomic int known;	/* 1: yes, -1: no */

	if (!known)
		known = dlopen("libgcc_s.so.1", RTLD_NOW) ? 1 : -1;
	return known > 0;
}

/* Creates a call with the id of the endpoint. */
static int call_new(struct rdmamsg_ep *ep, struct call **ret_c)
{
	const struct verbs_api *v = ep->lane.v;
	struct call *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->v = v;
	c->ep = ep;
	c->mail.fn = arrived;
	list_init(&c->mail.node);
	list_init(&c->node);
	/* without a device there is no call in the kernel to cancel */
	c->cancels = ep->lane.dev && can_cancel() &&
		rdmamsg__quirks(ep->lane.dev->device)->cancels_connect;
	ret = rdmamsg__v_create_event_channel(v, &c->ch);
	if (!ret)
		ret = rdmamsg__v_migrate_id(v, ep->connect.id, c->ch);
	if (ret) {
		discard(c);
		return ret;
	}
	c->id = ep->connect.id;
	*ret_c = c;
	return 0;
}

int rdmamsg__cm_call(struct rdmamsg_ep *ep, const struct rdma_conn_param *param)
{
	struct call *c;
	int ret = call_new(ep, &c);

	if (ret)
		return ret;
	c->param = *param;
	memcpy(c->data, param->private_data, param->private_data_len);
	c->param.private_data = c->data;
	ep->connect.call = c;
	pthread_mutex_lock(&calls.lock);
	list_add_tail(&calls.waiting, &c->node);
	start_waiting();
	pthread_mutex_unlock(&calls.lock);
	return 0;
}

/* Gives up a call: the thread, the mail or this function goes on with it. */
static void abandon(struct call *c)
{
	bool waits;

	pthread_mutex_lock(&calls.lock);
	c->ep = NULL;
	waits = c->state == CALL_WAITS;
	if (waits)
		list_del(&c->node);
	else if (c->state == CALL_RUNS && c->cancels)
		(void)pthread_cancel(c->thread);
	pthread_mutex_unlock(&calls.lock);
	if (waits)
		discard(c);
}

void rdmamsg__cm_abandon(struct rdmamsg_ep *ep)
{
	struct call *c = ep->connect.call;
	const bool called = c;

	if (!called && (!ep->connect.awaits_reply || call_new(ep, &c)))
		return;
	rdmamsg__lane_give_qp(&ep->lane, &c->qp);
	ep->connect.call = NULL;
	ep->connect.id = NULL;
	ep->connect.awaits_reply = false;
	if (called)
		abandon(c);
	else
		leave_behind(c);
}
