/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of the kernel's connection manager. */
#include "device/ucm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ucm_event {
	struct rdma_cm_event rdma;	/* first member */
	uint8_t data[RDMA_MAX_PRIVATE_DATA];
};

static int fetch(struct rdma_event_channel *channel,
		 struct rdma_ucm_event_resp *resp)
{
	const struct rdma_ucm_get_event cmd = { .response = (uintptr_t)resp };

	memset(resp, 0, sizeof(*resp));
	return rdmamsg__ucm_command(channel, RDMA_USER_CM_CMD_GET_EVENT, &cmd,
				    sizeof(cmd), sizeof(*resp));
}

static void copy_conn(struct ucm_event *ev,
		      const struct rdma_ucm_conn_param *from)
{
	struct rdma_conn_param *to = &ev->rdma.param.conn;

	memcpy(ev->data, from->private_data, sizeof(ev->data));
	to->private_data = from->private_data_len ? ev->data : NULL;
	to->private_data_len = from->private_data_len;
	to->responder_resources = from->responder_resources;
	to->initiator_depth = from->initiator_depth;
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->srq = from->srq;
	to->qp_num = from->qp_num;
}

static void copy_ud(struct ucm_event *ev, const struct rdma_ucm_ud_param *from)
{
	struct rdma_ud_param *to = &ev->rdma.param.ud;

	memcpy(ev->data, from->private_data, sizeof(ev->data));
	to->private_data = from->private_data_len ? ev->data : NULL;
	to->private_data_len = from->private_data_len;
	rdmamsg__ucm_copy_ah(&to->ah_attr, &from->ah_attr);
	to->qp_num = from->qp_num;
	to->qkey = from->qkey;
}

/* Finds the id of an event, and copies the event's data. */
static void fill(struct ucm_event *ev, const struct rdma_ucm_event_resp *resp)
{
	void *owner = (void *)(uintptr_t)resp->uid;

	memset(ev, 0, sizeof(*ev));
	ev->rdma.event = (enum rdma_cm_event_type)resp->event;
	ev->rdma.status = (int)resp->status;
	if (resp->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    resp->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
		struct ucm_group *group = owner;

		ev->rdma.id = &group->id->rdma;
		copy_ud(ev, &resp->param.ud);
		ev->rdma.param.ud.private_data = group->context;
		return;
	}
	ev->rdma.id = owner;
	if (ev->rdma.id->qp_type == IBV_QPT_UD)
		copy_ud(ev, &resp->param.ud);
	else
		copy_conn(ev, &resp->param.conn);
}

static void resolved(struct ucm_event *ev)
{
	if (!rdmamsg__ucm_update(ev->rdma.id))
		return;
	ev->rdma.event = RDMA_CM_EVENT_ADDR_ERROR;
	ev->rdma.status = -errno;
}

/* Creates the id of a connection request. */
static int take_request(struct ucm_event *ev, uint32_t handle)
{
	struct rdma_cm_id *l = ev->rdma.id;
	struct ucm_id *id = rdmamsg__ucm_id_new(l->channel, l->context, l->ps);

	ev->rdma.listen_id = l;
	if (!id)
		return -1;
	id->handle = handle;
	if (rdmamsg__ucm_update(&id->rdma)) {
		rdmamsg__ucm_id_free(id);
		return -1;
	}
	ev->rdma.id = &id->rdma;
	return 0;
}

int rdmamsg__ucm_get_cm_event(struct rdma_event_channel *channel,
			      struct rdma_cm_event **ret)
{
	struct ucm_event *ev = malloc(sizeof(*ev));
	struct rdma_ucm_event_resp resp;
	int err;

	if (!ev) {
		errno = ENOMEM;
		return -1;
	}
	do {
		if (fetch(channel, &resp)) {
			err = errno;
			free(ev);
			errno = err;
			return -1;
		}
		/* old kernels report events of ids that are not accepted yet */
		err = !resp.uid;
		if (err)
			continue;
		fill(ev, &resp);
		if (resp.event == RDMA_CM_EVENT_ADDR_RESOLVED)
			resolved(ev);
		if (resp.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			err = take_request(ev, resp.id);
		/* destroying the id rejects the peer */
		if (err)
			(void)rdmamsg__ucm_destroy_handle(channel, resp.id);
	} while (err);
	*ret = &ev->rdma;
	return 0;
}

int rdmamsg__ucm_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}
