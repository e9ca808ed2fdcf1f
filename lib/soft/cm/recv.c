/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages from the peer, and the end of its process. */
#include "soft/cm/id.h"
#include "soft/cm/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft/engine/linger.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/wire.h"

/* MPA carries private data, its true length, and the depths. */
static void only_mpa(struct rdma_ucm_conn_param *c, uint8_t private_len)
{
	c->private_data_len = private_len;
	c->qp_num = c->qkey = 0;
	c->srq = c->flow_control = c->retry_count = c->rnr_retry_count = 0;
}

static void fill_conn(struct soft_cm_event *ev, const struct soft_cm_msg *m,
		      size_t private_len)
{
	struct rdma_ucm_conn_param *c = &ev->resp.param.conn;

	if (m->iwarp)
		private_len = SOFT_PRIVATE_IWARP;
	*c = m->param;
	/*
	 * pad the data; swap the depths, because the receiver's view is
	 * opposite
	 */
	memset(c->private_data + min(m->param.private_data_len, private_len), 0,
	       sizeof(c->private_data) -
	       min(m->param.private_data_len, private_len));
	c->private_data_len = (uint8_t)private_len;
	c->responder_resources = m->param.initiator_depth;
	c->initiator_depth = m->param.responder_resources;
	c->valid = 1;
	if (m->iwarp)
		only_mpa(c, m->param.private_data_len);
}

/* ---- requests --------------------------------------------------------- */

static void answer(struct soft_dev *dev, const struct soft_cm_from *from,
		   const struct soft_cm_msg *to, enum soft_msg_type type,
		   uint8_t reason)
{
	struct soft_cm_msg m;

	/* limit the outbox of a peer that does not read */
	if (from->wire && from->wire->letters >= SOFT_QPS)
		return;
	memset(&m, 0, sizeof(m));
	m.hdr.magic = SOFT_MSG_MAGIC;
	m.hdr.type = (uint16_t)type;
	m.hdr.node = dev->node;
	m.hdr.to = to->hdr.from;
	m.iwarp = dev->iwarp;
	m.reason = reason;
	if (from->wire)
		(void)soft_wire_send(dev, from->wire, &m.hdr, sizeof(m));
	else if (type != SOFT_MSG_BUSY)
		soft_cm_far_answer(dev, from, &m);
	/* a far peer repeats its request anyway */
}

/* Notes who has sent the request. Returns 0, -ENOMEM or -EMSGSIZE. */
static int take_from(struct soft_cm_id *id, const struct soft_cm_from *from)
{
	if (!from->wire)
		return soft_cm_far_take(id, from);
	soft_wire_hold(from->wire);
	id->wire = from->wire;
	return 0;
}

static void on_req(struct soft_dev *dev, const struct soft_cm_from *from,
		   const struct soft_cm_msg *m)
{
	struct soft_cm_id *l = soft_cm_find(dev, m->hdr.to), *id;
	struct soft_cm_event *ev;
	int err;

	if (!soft_cm_carried(dev)) {
		/* the port drops the request; BUSY makes the peer repeat it */
		answer(dev, from, m, SOFT_MSG_BUSY, 0);
		return;
	}
	if (!l || l->state != SOFT_CM_LISTEN || l->ps != m->ps || dev->absent ||
	    m->iwarp != dev->iwarp ||
	    m->param.private_data_len > soft_cm_request_len(l) ||
	    (m->src.sin6_family != AF_INET && m->src.sin6_family != AF_INET6)) {
		answer(dev, from, m, SOFT_MSG_REJ, SOFT_REJ_INVALID_SERVICE);
		return;
	}
	id = l->waiting < l->backlog ? soft_cm_id_new(l->file) : NULL;
	ev = !id ? NULL :
	     soft_cm_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (ev) {
		memcpy(&id->src, &m->dst, sizeof(m->dst));
		memcpy(&id->dst, &m->src, sizeof(m->src));
	}
	err = ev ? take_from(id, from) : -ENOMEM;
	if (err) {
		free(ev);
		if (id)
			soft_cm_id_free(id);
		answer(dev, from, m, err == -EMSGSIZE ? SOFT_MSG_REJ :
		       SOFT_MSG_BUSY, SOFT_REJ_MTU);
		return;
	}
	l->waiting++;
	id->listener = l->handle;
	id->ps = l->ps;
	id->ib = l->ib;
	id->qp_type = l->qp_type;
	id->state = SOFT_CM_REQ_RCVD;
	id->peer = m->hdr.from;
	/* needed now, because programs step to RTS before they accept */
	soft_cm_new_psn(id);
	id->peer_qpn = m->param.qp_num;
	id->peer_psn = m->psn & SOFT_PSN_MASK;
	id->responder_resources = min(m->param.initiator_depth, SOFT_MAX_RD);
	id->initiator_depth = min(m->param.responder_resources, SOFT_MAX_RD);
	id->retry_count = m->param.retry_count & 7;
	id->rnr_retry_count = m->param.rnr_retry_count & 7;
	if (soft_cm_is_ud(id))
		soft_cm_fill_ud(ev, id, m, soft_cm_request_len(id));
	else
		fill_conn(ev, m, soft_cm_request_len(id));
	/* the event belongs to the listener and names the new id */
	ev->resp.uid = l->uid;
	ev->child = id->handle;
	soft_cm_event_post(l, ev);
}

/* ---- replies ---------------------------------------------------------- */

static void on_mpa_reply(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	struct soft_cm_event *ev;
	int err = soft_cm_iwarp_up(id, false);

	id->state = err ? SOFT_CM_OVER : SOFT_CM_CONNECTED;
	if (err) {
		(void)soft_cm_send(id, SOFT_MSG_DREQ, 0);
		soft_cm_raise(id, RDMA_CM_EVENT_CONNECT_ERROR, err);
		return;
	}
	(void)soft_cm_send(id, SOFT_MSG_RTU, 0);
	ev = soft_cm_event_new(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (!ev)
		return;
	fill_conn(ev, m, SOFT_PRIVATE_REP);
	soft_cm_event_post(id, ev);
}

static void on_rep(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	struct soft_cm_event *ev;

	if (id->state != SOFT_CM_REQ_SENT)
		return;
	soft_timer_stop(&id->timer);
	if (soft_cm_is_ud(id)) {
		id->state = SOFT_CM_CONNECTED;
		ev = soft_cm_event_new(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		if (!ev)
			return;
		soft_cm_fill_ud(ev, id, m, SOFT_PRIVATE_SIDR_REP);
		soft_cm_event_post(id, ev);
		return;
	}
	id->peer = m->hdr.from;
	id->peer_qpn = m->param.qp_num;
	id->peer_psn = m->psn & SOFT_PSN_MASK;
	id->responder_resources = min(m->param.initiator_depth, SOFT_MAX_RD);
	id->initiator_depth = min(m->param.responder_resources, SOFT_MAX_RD);
	id->rnr_retry_count = m->param.rnr_retry_count & 7;
	if (m->iwarp) {
		on_mpa_reply(id, m);
		return;
	}
	id->state = SOFT_CM_REP_RCVD;
	ev = soft_cm_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (!ev)
		return;
	fill_conn(ev, m, SOFT_PRIVATE_REP);
	soft_cm_event_post(id, ev);
}

static void on_dreq(struct soft_cm_id *id)
{
	if (id->file->dev->iwarp) {
		/* TCP repeats the FIN until the port carries it */
		id->fin_waits = !soft_cm_carried(id->file->dev);
		if (!id->fin_waits)
			soft_cm_iwarp_ended(id);
		return;
	}
	switch (id->state) {
	case SOFT_CM_CONNECTED:
	case SOFT_CM_REP_SENT:
	case SOFT_CM_REP_RCVD:
		id->state = SOFT_CM_DREQ_RCVD;
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case SOFT_CM_DREQ_SENT:
		/* both ends disconnect at the same time */
		soft_cm_over(id);
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		(void)soft_cm_send(id, SOFT_MSG_DREP, 0);
		break;
	default:
		break;
	}
}

/*
 * A way that is too narrow is asked for again. The peer refuses a connection
 * that is up if its program has ended it before it heard so; a process that
 * does not know it has no number of the peer.
 */
static void on_far_rej(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	if (id->state == SOFT_CM_CONNECTED && !soft_cm_is_ud(id)) {
		if (m->hdr.from && m->hdr.from == id->peer)
			on_dreq(id);
		return;
	}
	if (soft_cm_far_smaller(id, m->reason) ||
	    id->state != SOFT_CM_REQ_SENT)
		return;
	soft_cm_not_found(id, SOFT_REJ_MTU);
}

static void on_rej(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	bool ud = soft_cm_is_ud(id);
	struct soft_cm_event *ev;
	int status = m->reason;

	if (id->far && (m->reason == SOFT_REJ_MTU ||
			id->state == SOFT_CM_CONNECTED)) {
		on_far_rej(id, m);
		return;
	}
	if (id->state < SOFT_CM_LOOKUP || id->state >= SOFT_CM_DREQ_SENT ||
	    (ud && id->state == SOFT_CM_CONNECTED))
		return;
	if (id->file->dev->iwarp && id->state == SOFT_CM_CONNECTED) {
		soft_cm_iwarp_ended(id);
		return;
	}
	if (id->file->dev->iwarp)
		status = -ECONNREFUSED;
	else if (ud)
		status = status == SOFT_REJ_INVALID_SERVICE ?
			 SOFT_SIDR_UNSUPPORTED : SOFT_SIDR_REJECT;
	/* the program still has to accept or reject a withdrawn request */
	id->state = SOFT_CM_OVER;
	soft_timer_stop(&id->timer);
	soft_cm_end_lookup(id);
	if (id->file->dev->iwarp)
		soft_cm_iwarp_rejected(id);
	if (!id->uid)
		return;
	ev = soft_cm_event_new(id, ud ? RDMA_CM_EVENT_UNREACHABLE :
			       RDMA_CM_EVENT_REJECTED, status);
	if (!ev)
		return;
	if (ud)
		soft_cm_fill_ud(ev, id, m, SOFT_PRIVATE_SIDR_REP);
	else
		fill_conn(ev, m, SOFT_PRIVATE_REJ);
	soft_cm_event_post(id, ev);
}

static void on_rtu(struct soft_cm_id *id)
{
	if (id->file->dev->iwarp) {
		soft_cm_iwarp_ready(id);
		return;
	}
	if (id->state != SOFT_CM_REP_SENT)
		return;
	id->state = SOFT_CM_CONNECTED;
	soft_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* ---- dispatch --------------------------------------------------------- */

/*
 * Returns the id that the peer's message is for, or NULL. A peer that does not
 * know the handle yet sends 0. Then search for the peer's own handle.
 */
static struct soft_cm_id *addressee(struct soft_dev *dev,
				    const struct soft_cm_from *from,
				    const struct soft_msg *m)
{
	struct soft_cm_id *id = soft_cm_find(dev, m->to);
	const struct soft_wire *w = from->wire;
	struct list *n;

	if (!w)
		return soft_cm_far_id(dev, from, m);
	if (id)
		return id->wire && id->wire->peer == w->peer &&
		       (!id->peer || !m->from || id->peer == m->from) ? id :
		       NULL;
	if (m->to)
		return NULL;
	list_for_each(n, &dev->cm_ids) {
		id = list_entry(n, struct soft_cm_id, node);
		if (id->wire && id->wire->peer == w->peer &&
		    id->peer == m->from && m->from &&
		    id->handle != m->from)
			return id;
	}
	return NULL;
}

void soft_cm_message(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_msg *hdr, size_t len)
{
	const struct soft_cm_from from = { .wire = w };
	struct soft_cm_msg m;

	if (len != sizeof(m))
		return;
	memcpy(&m, hdr, sizeof(m));
	if (dev->iwarp && (m.hdr.type == SOFT_MSG_DREQ ||
			   m.hdr.type == SOFT_MSG_REJ))
		soft_linger_stop(dev, m.hdr.to, w->peer);
	soft_cm_take(dev, &from, &m);
}

void soft_cm_take(struct soft_dev *dev, const struct soft_cm_from *from,
		  const struct soft_cm_msg *m)
{
	struct soft_cm_id *id;

	if (m->hdr.type == SOFT_MSG_REQ) {
		on_req(dev, from, m);
		return;
	}
	/* TCP repeats an RTR that a port has lost */
	if (!soft_cm_carried(dev) &&
	    !(dev->iwarp && (m->hdr.type == SOFT_MSG_RTU ||
			     m->hdr.type == SOFT_MSG_DREQ)))
		return;
	id = addressee(dev, from, &m->hdr);
	if (!id || (soft_cm_is_ud(id) && (m->hdr.type == SOFT_MSG_RTU ||
					  m->hdr.type == SOFT_MSG_DREQ)))
		return;
	switch (m->hdr.type) {
	case SOFT_MSG_REP:
		on_rep(id, m);
		break;
	case SOFT_MSG_RTU:
		on_rtu(id);
		break;
	case SOFT_MSG_REJ:
		on_rej(id, m);
		break;
	case SOFT_MSG_BUSY:
		/* the backlog of the listener is full */
		if (id->state == SOFT_CM_REQ_SENT)
			soft_cm_later(id);
		break;
	case SOFT_MSG_DREQ:
		on_dreq(id);
		break;
	case SOFT_MSG_DREP:
		if (id->state != SOFT_CM_DREQ_SENT)
			break;
		soft_cm_over(id);
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	default:
		break;
	}
}

/* Handles the end of a process as a disconnect of all its ids. */
void soft_cm_wire_down(struct soft_dev *dev, struct soft_wire *w)
{
	const struct soft_cm_msg rej = { .reason = SOFT_REJ_CONSUMER };
	struct list *n, *t;

	/* if a port is down, the end of the peer is not visible */
	if (!soft_cm_carried(dev) ||
	    dev->fabric->node[w->peer].port[0] != SOFT_PORT_UP)
		return;
	list_for_each_safe(n, t, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->wire != w || (soft_cm_is_ud(id) &&
				      id->state == SOFT_CM_CONNECTED))
			continue;
		if (id->state == SOFT_CM_DREQ_SENT) {
			soft_cm_over(id);
			soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		} else if (id->state == SOFT_CM_CONNECTED) {
			on_dreq(id);
		} else {
			on_rej(id, &rej);
		}
	}
}
