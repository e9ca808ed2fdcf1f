/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of a channel. */
#include "soft/cma/cma.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft/cma/calls.h"

/* Makes the id of a CONNECT_REQUEST. */
static int take_request(struct cma_event *ev,
			const struct rdma_ucm_event_resp *resp)
{
	struct cma_id *l = (struct cma_id *)(uintptr_t)resp->uid;
	struct cma_id *id = cma_id_new(l->rdma.channel, l->rdma.context,
				       l->rdma.ps);

	if (!id)
		return -ENOMEM;
	id->handle = resp->id;
	ev->rdma.id = &id->rdma;
	ev->rdma.listen_id = &l->rdma;
	if (cma_update(&id->rdma)) {
		cma_id_free(id);
		return -ENOMEM;
	}
	return 0;
}

static void fill_ud(struct cma_event *ev, const struct rdma_ucm_ud_param *ud)
{
	struct rdma_ud_param *p = &ev->rdma.param.ud;

	memcpy(ev->data, ud->private_data, sizeof(ev->data));
	p->private_data = ud->private_data_len ? ev->data : NULL;
	p->private_data_len = ud->private_data_len;
	p->qp_num = ud->qp_num;
	p->qkey = ud->qkey;
	cma_copy_ah(&p->ah_attr, &ud->ah_attr);
	if (ev->mc)
		p->private_data = ev->mc->context;
}

static void fill_event(struct cma_event *ev,
		       const struct rdma_ucm_event_resp *resp)
{
	const struct rdma_ucm_conn_param *c = &resp->param.conn;
	struct rdma_conn_param *p = &ev->rdma.param.conn;

	memset(ev, 0, sizeof(*ev));
	if (resp->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    resp->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
		ev->mc = (struct cma_mc *)(uintptr_t)resp->uid;
		ev->counts_for = ev->mc->id;
	} else {
		ev->counts_for = (struct cma_id *)(uintptr_t)resp->uid;
	}
	ev->rdma.id = &ev->counts_for->rdma;
	ev->rdma.event = (enum rdma_cm_event_type)resp->event;
	ev->rdma.status = (int)resp->status;
	if (ev->rdma.id->qp_type == IBV_QPT_UD) {
		fill_ud(ev, &resp->param.ud);
		return;
	}
	memcpy(ev->data, c->private_data, sizeof(ev->data));
	p->private_data = c->private_data_len ? ev->data : NULL;
	p->private_data_len = c->private_data_len;
	p->responder_resources = c->responder_resources;
	p->initiator_depth = c->initiator_depth;
	p->flow_control = c->flow_control;
	p->retry_count = c->retry_count;
	p->rnr_retry_count = c->rnr_retry_count;
	p->srq = c->srq;
	p->qp_num = c->qp_num;
}

static void acknowledge(struct cma_event *ev)
{
	struct cma_id *id = ev->counts_for;

	(void)pthread_mutex_lock(&id->lock);
	id->acked++;
	if (ev->mc)
		ev->mc->acked++;
	(void)pthread_cond_broadcast(&id->cond);
	(void)pthread_mutex_unlock(&id->lock);
}

int soft_cma_get_cm_event(struct rdma_event_channel *channel,
			  struct rdma_cm_event **ret)
{
	struct cma_channel *ch = (struct cma_channel *)channel;
	struct rdma_ucm_event_resp resp;
	struct cma_event *ev = malloc(sizeof(*ev));
	uint64_t one;
	int err;

	if (!ev)
		return cma_result(-ENOMEM);
	/* a destroyed id may have removed its events from the queue */
	do {
		if (read(channel->fd, &one, sizeof(one)) != sizeof(one)) {
			err = errno;
			free(ev);
			return cma_result(-err);
		}
		err = soft_cm_get_event(ch->file, &resp);
		if (err)
			continue;
		fill_event(ev, &resp);
		if (resp.event == RDMA_CM_EVENT_ADDR_RESOLVED ||
		    resp.event == RDMA_CM_EVENT_ROUTE_RESOLVED)
			(void)cma_update(ev->rdma.id);
		if (resp.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			err = take_request(ev, &resp);
		if (err)
			acknowledge(ev);
	} while (err);
	*ret = &ev->rdma;
	return 0;
}

int soft_cma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cma_event *ev = (struct cma_event *)event;

	acknowledge(ev);
	free(ev);
	return 0;
}
