/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of targets and addresses, and of their queue pairs. */
#include "base/base.h"
#include "base/list.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/session.h"
#include "dc/visitor.h"
#include "device/cq.h"
#include "device/dc.h"
#include "device/device.h"
#include "device/loopback.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "session/ep.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/device.h>

/* A DCT can be asked about these only: Linux hw/mlx5/qp.c. */
#define DCT_MASK	(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | \
			 IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | \
			 IBV_QP_PATH_MTU | IBV_QP_PKEY_INDEX)
#define DCI_MASK	(IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PATH_MTU | \
			 IBV_QP_PKEY_INDEX | IBV_QP_TIMEOUT | \
			 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
			 IBV_QP_MAX_QP_RD_ATOMIC)

/* ---- targets ----------------------------------------------------------- */

static int take_dct(const struct dc_port *p, struct rdmamsg_dc_target_attr *a)
{
	const struct rdmamsg_device *d = p->dev->device;
	struct ibv_qp_attr q;
	uint32_t unused;
	int err = rdmamsg__v_query_qp(d->v, p->dct, &q, DCT_MASK);

	if (err)
		return rdmamsg__fail_verbs(err, "attributes of a target of DC");
	a->path = RDMAMSG_DC_NATIVE;
	a->dct_num = p->dct->qp_num;
	snprintf(a->device, sizeof(a->device), "%s", d->name);
	a->state = q.qp_state;
	a->access = q.qp_access_flags;
	a->port = q.port_num;
	a->mtu = RDMAMSG_MTU_BYTES(q.path_mtu);
	a->pkey_index = q.pkey_index;
	a->min_rnr_timer = q.min_rnr_timer;
	a->service_level = q.ah_attr.sl;
	a->gid_index = q.ah_attr.grh.sgid_index;
	a->traffic_class = q.ah_attr.grh.traffic_class;
	a->flow_label = q.ah_attr.grh.flow_label;
	a->hop_limit = q.ah_attr.grh.hop_limit;
	a->receives = p->receives - p->hole_count;
	a->max_receives = p->depth;
	a->cq_entries = (uint32_t)p->cq->ibv->cqe;
	a->counts_violations =
		!rdmamsg__try(rdmamsg__dct_violations(d, p->dct, &unused));
	return 0;
}

int rdmamsg_dc_target_query(const struct rdmamsg_dc_target *t,
			    struct rdmamsg_dc_target_attr *attr)
{
	struct rdmamsg_dc_target_attr a;
	int err;

	if (!t)
		return rdmamsg__fail(-EINVAL, "rdmamsg_dc_target_query: target "
				     "is NULL");
	err = rdmamsg__ctx_check(t->ctx);
	if (err)
		return err;
	a = (struct rdmamsg_dc_target_attr){
		.access_key = t->opts.access_key, .armed = t->armed,
		.connections = t->connections + t->sessions,
		.key_violations = t->violations +
				  rdmamsg__visitors_violations(t),
		.messages = t->messages, .sessions = t->sessions,
		.pd = t->opts.ep ? t->opts.ep->pd : NULL,
		.path = RDMAMSG_DC_CONNECTIONS,
	};
	err = t->dc && !t->dc->failed ? take_dct(t->dc, &a) : 0;
	return err ? err : rdmamsg__give(attr, &a, sizeof(a));
}

/* ---- addresses --------------------------------------------------------- */

static enum rdmamsg_dc_state state_of(const struct rdmamsg_dc_address *a)
{
	static const enum rdmamsg_dc_state of_initiator[] = {
		[INITIATOR_CONNECTING] = RDMAMSG_DC_CONNECTING,
		[INITIATOR_OPEN] = RDMAMSG_DC_OPEN,
		[INITIATOR_CLOSING] = RDMAMSG_DC_CLOSING,
	};
	static const enum rdmamsg_dc_state of_session[] = {
		[SESSION_HELLO] = RDMAMSG_DC_CONNECTING,
		[SESSION_GREETED] = RDMAMSG_DC_CONNECTING,
		[SESSION_OPEN] = RDMAMSG_DC_OPEN,
		[SESSION_CLOSING] = RDMAMSG_DC_CLOSING,
		[SESSION_ENDED] = RDMAMSG_DC_CLOSING,
	};

	if (a->initiator)
		return of_initiator[a->initiator->state];
	if (a->session)
		return of_session[a->session->state];
	return list_empty(&a->msgs) ? RDMAMSG_DC_IDLE : RDMAMSG_DC_WAITING;
}

static uint32_t count(const struct list *msgs)
{
	const struct list *n;
	uint32_t ret = 0;

	for (n = msgs->next; n != msgs; n = n->next)
		ret++;
	return ret;
}

static void take_address(const struct ibv_ah_attr *ah,
			 struct rdmamsg_dc_address_attr *a)
{
	a->service_level = ah->sl;
	a->gid_index = ah->grh.sgid_index;
	a->traffic_class = ah->grh.traffic_class;
	a->flow_label = ah->grh.flow_label;
	a->hop_limit = ah->grh.hop_limit;
}

static int take_qp(const struct rdmamsg_device *d, struct ibv_qp *qp, int mask,
		   struct ibv_qp_attr *q, struct rdmamsg_dc_address_attr *a)
{
	int err = rdmamsg__v_query_qp(d->v, qp, q, mask);

	if (err)
		return rdmamsg__fail_verbs(err, "attributes of an initiator");
	a->qp_num = qp->qp_num;
	snprintf(a->device, sizeof(a->device), "%s", d->name);
	a->qp_state = q->qp_state;
	a->port = q->port_num;
	a->mtu = RDMAMSG_MTU_BYTES(q->path_mtu);
	a->pkey_index = q->pkey_index;
	a->ack_timeout = q->timeout;
	a->retry_count = q->retry_cnt;
	a->rnr_retry_count = q->rnr_retry;
	a->initiator_depth = q->max_rd_atomic;
	return 0;
}

static int take_connection(const struct rdmamsg_ep *ep,
			   struct rdmamsg_dc_address_attr *a)
{
	struct ibv_qp_attr q;
	int err;

	a->path = RDMAMSG_DC_CONNECTIONS;
	if (a->state != RDMAMSG_DC_OPEN)
		return 0;
	a->max_send = ep->connect.peer.max_msg;
	a->peer_qp_num = ep->lane.peer_qp_num;
	/* failover has none for a while */
	if (!ep->lane.hot.qp)
		return 0;
	err = take_qp(ep->lane.dev->device, ep->lane.hot.qp,
		      DCI_MASK | IBV_QP_AV, &q, a);
	if (err)
		return err;
	/* of iWARP, the device does not tell them */
	a->port = ep->lane.port;
	a->mtu = ep->lane.mtu;
	take_address(&q.ah_attr, a);
	return 0;
}

static int take_session(const struct dc_session *x,
			struct rdmamsg_dc_address_attr *a)
{
	const struct dc_port *p = x->peer.port;
	struct ibv_qp_attr q;
	struct ibv_ah_attr ah;
	int err;

	a->path = RDMAMSG_DC_NATIVE;
	a->peer_qp_num = x->peer.to.dctn;
	if (a->state == RDMAMSG_DC_OPEN)
		a->max_send = x->max_msg;
	if (!x->peer.dci || p->failed)
		return 0;
	err = take_qp(p->dev->device, x->peer.dci->dci.qp, DCI_MASK, &q, a);
	if (err)
		return err;
	/* each request has the address */
	rdmamsg__loopback_address(&p->path, &ah);
	take_address(&ah, a);
	return 0;
}

int rdmamsg_dc_address_query(const struct rdmamsg_dc_address *a,
			     struct rdmamsg_dc_address_attr *attr)
{
	struct rdmamsg_dc_address_attr i;
	int err = rdmamsg__dc_check(a, "rdmamsg_dc_address_query");

	if (err)
		return err;
	i = (struct rdmamsg_dc_address_attr){
		.access_key = a->access_key, .state = state_of(a),
		.path = RDMAMSG_DC_AUTO, .queued = count(&a->msgs),
	};
	if (a->initiator)
		err = take_connection(a->initiator->ep, &i);
	else if (a->session)
		err = take_session(a->session, &i);
	return err ? err : rdmamsg__give(attr, &i, sizeof(i));
}
