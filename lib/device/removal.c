/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The removal of devices. Cards raise IBV_EVENT_DEVICE_FATAL, and the kernel
 * removes them at once. Soft-RoCE raises no event, and the kernel waits until
 * every process has closed the device. But the connection manager sends an
 * event to each id that is bound to the device. So each Soft-RoCE device has
 * such an id, for contexts without an id of their own there.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>

static int bind_one(struct rdmamsg_device *d, struct sockaddr *addr)
{
	int flags = fcntl(d->removal.ch->fd, F_GETFL);
	int err;

	(void)fcntl(d->removal.ch->fd, F_SETFL, flags | O_NONBLOCK);
	err = rdmamsg__v_create_id(d->v, d->removal.ch, NULL, RDMA_PS_TCP,
				   &d->removal.id);
	if (err)
		return err;
	err = rdmamsg__v_bind_addr(d->v, d->removal.id, addr);
	if (err)
		(void)rdmamsg__v_destroy_id(d->v, d->removal.id);
	return err;
}

void rdmamsg__removal_open(struct rdmamsg_device *d)
{
	struct sockaddr_storage addr;

	if (!rdmamsg__quirks(d)->removal_by_cm ||
	    !rdmamsg__verbs_addr(d->v, d->verbs, AF_UNSPEC, &addr))
		return;
	if (rdmamsg__v_create_event_channel(d->v, &d->removal.ch))
		return;
	if (!bind_one(d, (struct sockaddr *)&addr))
		return;
	log_info("device %s: only endpoints on the connection manager learn of "
		 "its removal", d->name);
	d->v->destroy_event_channel(d->removal.ch);
	d->removal.ch = NULL;
}

void rdmamsg__removal_close(struct rdmamsg_device *d)
{
	if (!d->removal.ch)
		return;
	(void)rdmamsg__v_destroy_id(d->v, d->removal.id);
	d->v->destroy_event_channel(d->removal.ch);
}

bool rdmamsg__removal_read(struct rdmamsg_device *d)
{
	struct rdma_cm_event *ev;
	bool removed = false;

	while (d->removal.ch &&
	       !rdmamsg__v_get_cm_event(d->v, d->removal.ch, &ev)) {
		removed |= ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
		(void)rdmamsg__v_ack_cm_event(d->v, ev);
	}
	return removed;
}
