/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies each CM event, acknowledges it at once, and gives the copy to the
 * owner of its id. The owner may destroy the id, because no event of the id is
 * outstanding then.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "base/watch.h"
#include "cm/rdma/cm.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

/* Finds out what is missing: a device, permission, or the kernel module. */
static int no_channel(const struct verbs_api *v, int err)
{
	int ret = rdmamsg__device_any(v);

	if (ret)
		return ret;
	if (rdmamsg__is_soft(v))
		return rdmamsg__fail_soft(err);
	err = rdmamsg__node_error(err, "rdma_cm");
	if (err != -ENODEV && err != -ENOENT)
		return rdmamsg__fail_verbs(err, "RDMA connection manager");
	return rdmamsg__fail(-ENODEV, "no RDMA connection manager: 'modprobe "
			     "rdma_ucm', and see rdmamsg_devices(3) for the "
			     "devices there are");
}

int rdmamsg__cm_channel_new(const struct verbs_api *v,
			    struct rdma_event_channel **ret_ch)
{
	struct rdma_event_channel *ch;
	int ret, flags;

	rdmamsg__fork_mark();
	ret = rdmamsg__v_create_event_channel(v, &ch);
	if (ret)
		return no_channel(v, ret);
	flags = fcntl(ch->fd, F_GETFL);
	if (fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK)) {
		ret = -errno;
		v->destroy_event_channel(ch);
		return rdmamsg__fail(ret, "event channel: %s", strerror(-ret));
	}
	*ret_ch = ch;
	return 0;
}

static int open_channel(struct rdmamsg *ctx, struct cm_channel *cm,
			const struct verbs_api *v)
{
	struct rdma_event_channel *ch;
	int ret = rdmamsg__cm_channel_new(v, &ch);

	if (ret)
		return ret;
	ret = rdmamsg__watch(&ctx->loop, ch->fd, cm);
	if (ret) {
		v->destroy_event_channel(ch);
		return rdmamsg__fail(ret, "event channel: %s", strerror(-ret));
	}
	cm->v = v;
	cm->ch = ch;
	return 0;
}

/* Another thread may call it to move a request to ctx. */
int rdmamsg__cm_open(struct rdmamsg *ctx, const struct verbs_api *v,
		     struct rdma_event_channel **ret_ch)
{
	struct cm_channel *cm = &ctx->sessions->cm[rdmamsg__is_soft(v)];
	int ret = 0;

	pthread_mutex_lock(&ctx->sessions->cm_lock);
	if (!cm->ch)
		ret = open_channel(ctx, cm, v);
	if (!ret)
		*ret_ch = cm->ch;
	pthread_mutex_unlock(&ctx->sessions->cm_lock);
	return ret;
}

/*
 * The kernel moves events without waking those who wait on the new channel
 * (Linux 6.1, ucma.c, ucma_migrate_id()).
 */
int rdmamsg__cm_migrate(struct rdmamsg *ctx, const struct verbs_api *v,
			struct rdma_cm_id *id)
{
	struct cm_channel *cm = &ctx->sessions->cm[rdmamsg__is_soft(v)];
	int ret = rdmamsg__v_migrate_id(v, id, cm->ch);

	return ret ? ret : rdmamsg__watch_again(&ctx->loop, cm->ch->fd, cm);
}

void rdmamsg__cm_close(struct rdmamsg *ctx)
{
	for (int i = 0; i < TABLES; i++) {
		struct cm_channel *cm = &ctx->sessions->cm[i];
		struct rdma_event_channel *ch = cm->ch;

		if (!ch)
			continue;
		rdmamsg__unwatch(&ctx->loop, ch->fd);
		cm->v->destroy_event_channel(ch);
		cm->ch = NULL;
	}
}

int rdmamsg__cm_id_at(struct rdmamsg *ctx, const struct verbs_api *v,
		      struct rdma_event_channel *ch, struct cm_owner *owner,
		      enum rdma_port_space ps, struct rdma_cm_id **ret_id)
{
	int ret = rdmamsg__v_create_id(v, ch, owner, ps, ret_id);

	return ret ? rdmamsg__cm_fail(ctx, ret, "connection id") : 0;
}

int rdmamsg__cm_id_new(struct rdmamsg *ctx, const struct verbs_api *v,
		       struct cm_owner *owner, enum rdma_port_space ps,
		       struct rdma_cm_id **ret_id)
{
	struct rdma_event_channel *ch;
	int ret = rdmamsg__cm_open(ctx, v, &ch);

	if (ret)
		return ret;
	return rdmamsg__cm_id_at(ctx, v, ch, owner, ps, ret_id);
}

void rdmamsg__cm_id_free(const struct verbs_api *v, struct rdma_cm_id *id)
{
	int ret = rdmamsg__v_destroy_id(v, id);

	if (ret)
		log_error("a connection id could not be destroyed: %s",
			  strerror(-ret));
}

static void dispatch(struct rdmamsg *ctx, const struct cm_event *ev)
{
	struct cm_owner *owner = ev->id->context;

	log_debug("context %u: cm id %p: %s, status %d", ctx->number,
		  (void *)ev->id, rdma_event_str(ev->type), ev->status);
	owner->event(ctx, owner, ev);
}

/* The answer to a service lookup. */
static void copy_ud(const struct rdma_ud_param *from, struct cm_event *ev)
{
	const size_t len = from->private_data ? from->private_data_len : 0;

	ev->ud = *from;
	if (len)
		memcpy(ev->data, from->private_data,
		       min(len, sizeof(ev->data)));
	ev->ud.private_data = ev->data;
	ev->ud.private_data_len = (uint8_t)len;
}

static void copy_event(const struct rdma_cm_event *from, struct cm_event *ev)
{
	size_t len = from->param.conn.private_data_len;

	ev->type = from->event;
	ev->status = from->status;
	ev->id = from->id;
	if (from->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    from->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
		ev->ud = from->param.ud;
		return;
	}
	if (from->event == RDMA_CM_EVENT_ESTABLISHED &&
	    from->id->ps == RDMA_PS_UDP) {
		copy_ud(&from->param.ud, ev);
		return;
	}
	ev->conn = from->param.conn;
	if (!from->param.conn.private_data)
		len = 0;
	if (len)
		memcpy(ev->data, from->param.conn.private_data,
		       min(len, sizeof(ev->data)));
	ev->conn.private_data = ev->data;
	ev->conn.private_data_len = (uint8_t)len;
}

bool rdmamsg__cm_take_event(const struct verbs_api *v,
			    struct rdma_event_channel *ch,
			    struct cm_event *ret)
{
	struct rdma_cm_event *from;

	if (rdmamsg__v_get_cm_event(v, ch, &from))
		return false;
	*ret = (struct cm_event){ .v = v };
	copy_event(from, ret);
	(void)rdmamsg__v_ack_cm_event(v, from);
	return true;
}

int rdmamsg__cm_process(struct rdmamsg *ctx, struct cm_channel *cm)
{
	struct cm_event ev;
	int n = 0;

	while (cm->ch && n < EVENTS_MAX &&
	       rdmamsg__cm_take_event(cm->v, cm->ch, &ev)) {
		dispatch(ctx, &ev);
		n++;
	}
	return n;
}
