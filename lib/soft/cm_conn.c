/* SPDX-License-Identifier: BSD-2-Clause */
/* CM connections: request, reply, ready to use; reject; disconnect. */
#include "cm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PRIVATE_REQ	56		/* 92 without the CMA header, 36 */
#define PRIVATE_REP	196
#define PRIVATE_REJ	148
#define PRIVATE_SIDR_REQ 180		/* 216 without that header */
#define PRIVATE_SIDR_REP 136
#define REQ_NS		60000000000ull
#define BUSY_NS		100000000ull
#define BUSY_TRIES	600
#define DREQ_NS		4000000000ull
#define TIMEWAIT_NS	500000000ull

/* ---- messages --------------------------------------------------------- */

static void msg_init(struct soft_cm_msg *m, const struct soft_cm_id *id,
		     enum soft_msg_type type)
{
	memset(m, 0, sizeof(*m));
	m->hdr.magic = SOFT_MSG_MAGIC;
	m->hdr.type = (uint16_t)type;
	m->hdr.node = id->file->dev->node;
	m->hdr.to = id->peer;
	m->hdr.from = id->handle;
	m->ps = id->ps;
}

static int send_msg(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	if (!id->wire)
		return -ECONNRESET;
	if (!soft_cm_carried(id->file->dev))
		return 0;		/* lost on the way */
	return soft_wire_send(id->file->dev, id->wire, &m->hdr, sizeof(*m));
}

static int send_plain(struct soft_cm_id *id, enum soft_msg_type type,
		      uint8_t reason)
{
	struct soft_cm_msg m;

	msg_init(&m, id, type);
	m.reason = reason;
	return send_msg(id, &m);
}

static void new_psn(struct soft_cm_id *id)
{
	(void)!getrandom(&id->psn, sizeof(id->psn), GRND_NONBLOCK);
	id->psn &= SOFT_PSN_MASK;
}

static void over(struct soft_cm_id *id)
{
	id->state = SOFT_CM_OVER;
	soft_timer_set(id->file->dev, &id->timer, TIMEWAIT_NS);
}

/* One request less is waiting at its listener. */
static void not_waiting(struct soft_cm_id *id)
{
	struct soft_cm_id *l = soft_cm_find(id->file->dev, id->listener);

	if (l && l->waiting)
		l->waiting--;
	id->listener = 0;
}

/* The peer is told, in whatever state we leave it. */
void soft_cm_hang_up(struct soft_cm_id *id)
{
	enum soft_cm_state state = id->state;

	if (id->listener)
		not_waiting(id);
	id->state = SOFT_CM_OVER;
	switch (state) {
	case SOFT_CM_REQ_SENT:
	case SOFT_CM_REP_RCVD:
	case SOFT_CM_REQ_RCVD:
	case SOFT_CM_REP_SENT:
		(void)send_plain(id, SOFT_MSG_REJ, SOFT_REJ_CONSUMER);
		break;
	case SOFT_CM_CONNECTED:
		if (!soft_cm_is_ud(id))
			(void)send_plain(id, SOFT_MSG_DREQ, 0);
		break;
	case SOFT_CM_DREQ_RCVD:
		(void)send_plain(id, SOFT_MSG_DREP, 0);
		break;
	default:
		break;
	}
}

/* ---- the active side -------------------------------------------------- */

/* In a moment again, as long as hardware's would go on. */
void soft_cm_later(struct soft_cm_id *id)
{
	if (++id->tries > BUSY_TRIES) {
		soft_cm_not_found(id, -ETIMEDOUT);
		return;
	}
	id->state = SOFT_CM_LOOKUP;
	soft_timer_set(id->file->dev, &id->timer, BUSY_NS);
}

void soft_cm_not_found(struct soft_cm_id *id, int status)
{
	/* whoever was asked and has not answered */
	if (id->state == SOFT_CM_REQ_SENT)
		(void)send_plain(id, SOFT_MSG_REJ, SOFT_REJ_CONSUMER);
	id->state = SOFT_CM_OVER;
	if (status > 0 && soft_cm_is_ud(id))
		soft_cm_raise(id, RDMA_CM_EVENT_UNREACHABLE,
			      SOFT_SIDR_UNSUPPORTED);
	else if (status > 0)
		soft_cm_raise(id, RDMA_CM_EVENT_REJECTED, status);
	else
		soft_cm_raise(id, RDMA_CM_EVENT_UNREACHABLE, status);
}

void soft_cm_found(struct soft_cm_id *id, uint32_t node, uint32_t listener)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_cm_msg m;
	int ret;

	soft_wire_put(dev, id->wire);
	id->wire = NULL;
	ret = soft_wire_get(dev, node, &id->wire);
	if (ret) {
		/* it has just ended, or we have no means */
		soft_cm_not_found(id, ret == -ECONNREFUSED ?
				  SOFT_REJ_INVALID_SERVICE : ret);
		return;
	}
	id->peer = 0;
	msg_init(&m, id, SOFT_MSG_REQ);
	m.hdr.to = listener;
	m.psn = id->psn;
	m.param = id->param;
	memcpy(&m.src, &id->src, sizeof(m.src));
	memcpy(&m.dst, &id->dst, sizeof(m.dst));
	id->state = SOFT_CM_REQ_SENT;
	soft_timer_set(dev, &id->timer, REQ_NS);
	if (send_msg(id, &m))
		soft_cm_not_found(id, SOFT_REJ_CONSUMER);
}

static size_t request_len(uint8_t qp_type)
{
	return qp_type == IBV_QPT_UD ? PRIVATE_SIDR_REQ : PRIVATE_REQ;
}

int soft_cm_connect(struct soft_cm_file *file,
		    const struct rdma_ucm_connect *cmd)
{
	const struct rdma_ucm_conn_param *p = &cmd->conn_param;
	struct soft_cm_id *id;
	int ret = 0;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id || id->state != SOFT_CM_ROUTE || !p->valid ||
	    p->private_data_len > request_len(id->qp_type) ||
	    p->responder_resources > SOFT_MAX_RD ||
	    p->initiator_depth > SOFT_MAX_RD) {
		ret = -EINVAL;
		goto out;
	}
	id->param = *p;
	id->retry_count = p->retry_count & 7;
	id->rnr_retry_count = p->rnr_retry_count & 7;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	new_psn(id);
	id->state = SOFT_CM_LOOKUP;
	id->wildcard = false;
	id->tries = 0;
	soft_cm_lookup(id);
out:
	soft_unlock(file->dev);
	return ret;
}

static void fill_conn(struct soft_cm_event *ev, const struct soft_cm_msg *m,
		      size_t private_len)
{
	struct rdma_ucm_conn_param *c = &ev->resp.param.conn;

	*c = m->param;
	/* padded, and from the receiver's point of view */
	memset(c->private_data + min(m->param.private_data_len, private_len), 0,
	       sizeof(c->private_data) -
	       min(m->param.private_data_len, private_len));
	c->private_data_len = (uint8_t)private_len;
	c->responder_resources = m->param.initiator_depth;
	c->initiator_depth = m->param.responder_resources;
	c->valid = 1;
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
		soft_cm_fill_ud(ev, id, m, PRIVATE_SIDR_REP);
		soft_cm_event_post(id, ev);
		return;
	}
	id->peer = m->hdr.from;
	id->peer_qpn = m->param.qp_num;
	id->peer_psn = m->psn & SOFT_PSN_MASK;
	id->responder_resources = min(m->param.initiator_depth, SOFT_MAX_RD);
	id->initiator_depth = min(m->param.responder_resources, SOFT_MAX_RD);
	id->rnr_retry_count = m->param.rnr_retry_count & 7;
	id->state = SOFT_CM_REP_RCVD;
	ev = soft_cm_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (!ev)
		return;
	fill_conn(ev, m, PRIVATE_REP);
	soft_cm_event_post(id, ev);
}

int soft_cm_establish(struct soft_cm_file *file, uint32_t handle)
{
	struct soft_cm_id *id;
	int ret = -EINVAL;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, handle);
	if (id && id->state == SOFT_CM_REP_RCVD) {
		id->state = SOFT_CM_CONNECTED;
		(void)send_plain(id, SOFT_MSG_RTU, 0);
		ret = 0;
	} else if (id && id->state >= SOFT_CM_CONNECTED) {
		ret = -ECONNRESET;
	}
	soft_unlock(file->dev);
	return ret;
}

/* ---- the passive side ------------------------------------------------- */

static void answer(struct soft_dev *dev, struct soft_wire *w,
		   const struct soft_cm_msg *to, enum soft_msg_type type,
		   uint8_t reason)
{
	struct soft_cm_msg m;

	memset(&m, 0, sizeof(m));
	m.hdr.magic = SOFT_MSG_MAGIC;
	m.hdr.type = (uint16_t)type;
	m.hdr.node = dev->node;
	m.hdr.to = to->hdr.from;
	m.reason = reason;
	(void)soft_wire_send(dev, w, &m.hdr, sizeof(m));
}

static void on_req(struct soft_dev *dev, struct soft_wire *w,
		   const struct soft_cm_msg *m)
{
	struct soft_cm_id *l = soft_cm_find(dev, m->hdr.to), *id;
	struct soft_cm_event *ev;

	if (!soft_cm_carried(dev)) {
		/* to it, it is lost: it will come again */
		answer(dev, w, m, SOFT_MSG_BUSY, 0);
		return;
	}
	if (!l || l->state != SOFT_CM_LISTEN || l->ps != m->ps || dev->absent ||
	    m->param.private_data_len > request_len(l->qp_type) ||
	    (m->src.sin6_family != AF_INET && m->src.sin6_family != AF_INET6)) {
		answer(dev, w, m, SOFT_MSG_REJ, SOFT_REJ_INVALID_SERVICE);
		return;
	}
	id = l->waiting < l->backlog ? soft_cm_id_new(l->file) : NULL;
	ev = id ? soft_cm_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;
	if (!ev) {
		if (id)
			soft_cm_id_free(id);
		answer(dev, w, m, SOFT_MSG_BUSY, 0);
		return;
	}
	l->waiting++;
	id->listener = l->handle;
	id->ps = l->ps;
	id->qp_type = l->qp_type;
	id->state = SOFT_CM_REQ_RCVD;
	soft_wire_hold(w);
	id->wire = w;
	id->peer = m->hdr.from;
	memcpy(&id->src, &m->dst, sizeof(m->dst));
	memcpy(&id->dst, &m->src, sizeof(m->src));
	/* now: queue pairs are brought to RTS before the reply */
	new_psn(id);
	id->peer_qpn = m->param.qp_num;
	id->peer_psn = m->psn & SOFT_PSN_MASK;
	id->responder_resources = min(m->param.initiator_depth, SOFT_MAX_RD);
	id->initiator_depth = min(m->param.responder_resources, SOFT_MAX_RD);
	id->retry_count = m->param.retry_count & 7;
	id->rnr_retry_count = m->param.rnr_retry_count & 7;
	if (soft_cm_is_ud(id))
		soft_cm_fill_ud(ev, id, m, PRIVATE_SIDR_REQ);
	else
		fill_conn(ev, m, PRIVATE_REQ);
	/* what arrives is for the listener, about the new one */
	ev->resp.uid = l->uid;
	ev->child = id->handle;
	soft_cm_event_post(l, ev);
}

int soft_cm_accept(struct soft_cm_file *file, const struct rdma_ucm_accept *cmd)
{
	const struct rdma_ucm_conn_param *p = &cmd->conn_param;
	struct soft_cm_msg m;
	struct soft_cm_id *id;
	int ret = -EINVAL;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id || id->state != SOFT_CM_REQ_RCVD)
		goto out;
	if (p->private_data_len > (soft_cm_is_ud(id) ? PRIVATE_SIDR_REP :
				   PRIVATE_REP) ||
	    p->responder_resources > SOFT_MAX_RD ||
	    p->initiator_depth > SOFT_MAX_RD) {
		/* the kernel rejects the peer when accepting fails */
		soft_cm_hang_up(id);
		goto out;
	}
	if (id->listener)
		not_waiting(id);
	id->uid = cmd->uid;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	/* of a service nothing more comes: it has been told */
	id->state = soft_cm_is_ud(id) ? SOFT_CM_CONNECTED : SOFT_CM_REP_SENT;
	msg_init(&m, id, SOFT_MSG_REP);
	m.param = *p;
	if (soft_cm_is_ud(id) && !p->qkey)
		m.param.qkey = soft_cm_qkey(id);
	m.psn = id->psn;
	ret = send_msg(id, &m);
	if (ret == -ECONNRESET)
		ret = -EINVAL;
out:
	soft_unlock(file->dev);
	return ret;
}

int soft_cm_reject(struct soft_cm_file *file, const struct rdma_ucm_reject *cmd)
{
	struct soft_cm_msg m;
	struct soft_cm_id *id;
	int ret = -EINVAL;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id || cmd->private_data_len > (soft_cm_is_ud(id) ?
					    PRIVATE_SIDR_REP : PRIVATE_REJ) ||
	    (id->state != SOFT_CM_REQ_RCVD && id->state != SOFT_CM_REP_RCVD))
		goto out;
	if (id->listener)
		not_waiting(id);
	id->state = SOFT_CM_OVER;
	msg_init(&m, id, SOFT_MSG_REJ);
	m.reason = cmd->reason ? cmd->reason : SOFT_REJ_CONSUMER;
	m.param.private_data_len = cmd->private_data_len;
	memcpy(m.param.private_data, cmd->private_data, cmd->private_data_len);
	ret = 0;
	(void)send_msg(id, &m);
out:
	soft_unlock(file->dev);
	return ret;
}

/* ---- the end ---------------------------------------------------------- */

int soft_cm_disconnect(struct soft_cm_file *file,
		       const struct rdma_ucm_disconnect *cmd)
{
	struct soft_cm_id *id;
	int ret = 0;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id) {
		ret = -EINVAL;
		goto out;
	}
	if (soft_cm_is_ud(id)) {
		ret = -EINVAL;
		goto out;
	}
	switch (id->state) {
	case SOFT_CM_CONNECTED:
	case SOFT_CM_REP_SENT:
		id->state = SOFT_CM_DREQ_SENT;
		soft_timer_set(file->dev, &id->timer, DREQ_NS);
		(void)send_plain(id, SOFT_MSG_DREQ, 0);
		break;
	case SOFT_CM_DREQ_RCVD:
		over(id);
		(void)send_plain(id, SOFT_MSG_DREP, 0);
		break;
	case SOFT_CM_DREQ_SENT:
	case SOFT_CM_OVER:
		break;
	default:
		ret = -EINVAL;
	}
out:
	soft_unlock(file->dev);
	return ret;
}

static void on_rej(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	bool ud = soft_cm_is_ud(id);
	struct soft_cm_event *ev;
	int status = m->reason;

	if (id->state < SOFT_CM_LOOKUP || id->state >= SOFT_CM_DREQ_SENT ||
	    (ud && id->state == SOFT_CM_CONNECTED))
		return;
	if (ud)
		status = status == SOFT_REJ_INVALID_SERVICE ?
			 SOFT_SIDR_UNSUPPORTED : SOFT_SIDR_REJECT;
	if (id->listener)
		not_waiting(id);
	id->state = SOFT_CM_OVER;
	soft_timer_stop(&id->timer);
	if (!id->uid)
		return;
	ev = soft_cm_event_new(id, ud ? RDMA_CM_EVENT_UNREACHABLE :
			       RDMA_CM_EVENT_REJECTED, status);
	if (!ev)
		return;
	if (ud)
		soft_cm_fill_ud(ev, id, m, PRIVATE_SIDR_REP);
	else
		fill_conn(ev, m, PRIVATE_REJ);
	soft_cm_event_post(id, ev);
}

static void on_dreq(struct soft_cm_id *id)
{
	switch (id->state) {
	case SOFT_CM_CONNECTED:
	case SOFT_CM_REP_SENT:
	case SOFT_CM_REP_RCVD:
		id->state = SOFT_CM_DREQ_RCVD;
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case SOFT_CM_DREQ_SENT:
		/* both at once */
		over(id);
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		(void)send_plain(id, SOFT_MSG_DREP, 0);
		break;
	default:
		break;
	}
}

/* ---- what arrives ----------------------------------------------------- */

/* Ours, if it belongs to this peer. One that has no name of us yet scans. */
static struct soft_cm_id *addressee(struct soft_dev *dev, struct soft_wire *w,
				    const struct soft_msg *m)
{
	struct soft_cm_id *id = soft_cm_find(dev, m->to);
	struct list *n;

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
	struct soft_cm_msg m;
	struct soft_cm_id *id;

	if (len != sizeof(m))
		return;
	memcpy(&m, hdr, sizeof(m));
	if (m.hdr.type == SOFT_MSG_REQ) {
		on_req(dev, w, &m);
		return;
	}
	if (!soft_cm_carried(dev))
		return;
	id = addressee(dev, w, &m.hdr);
	if (!id || (soft_cm_is_ud(id) && (m.hdr.type == SOFT_MSG_RTU ||
					  m.hdr.type == SOFT_MSG_DREQ)))
		return;
	switch (m.hdr.type) {
	case SOFT_MSG_REP:
		on_rep(id, &m);
		break;
	case SOFT_MSG_RTU:
		if (id->state != SOFT_CM_REP_SENT)
			break;
		id->state = SOFT_CM_CONNECTED;
		soft_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case SOFT_MSG_REJ:
		on_rej(id, &m);
		break;
	case SOFT_MSG_BUSY:
		/* it has too many to look at */
		if (id->state == SOFT_CM_REQ_SENT)
			soft_cm_later(id);
		break;
	case SOFT_MSG_DREQ:
		on_dreq(id);
		break;
	case SOFT_MSG_DREP:
		if (id->state != SOFT_CM_DREQ_SENT)
			break;
		over(id);
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	default:
		break;
	}
}

/* A process that ends has hung up, as far as the others can tell. */
void soft_cm_wire_down(struct soft_dev *dev, struct soft_wire *w)
{
	const struct soft_cm_msg rej = { .reason = SOFT_REJ_CONSUMER };
	struct list *n, *t;

	/* behind a port that carried nothing it ended unseen, as hosts do */
	if (!soft_cm_carried(dev) ||
	    dev->fabric->node[w->peer].port[0] != SOFT_PORT_UP)
		return;
	list_for_each_safe(n, t, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->wire != w || (soft_cm_is_ud(id) &&
				      id->state == SOFT_CM_CONNECTED))
			continue;
		if (id->state == SOFT_CM_DREQ_SENT) {
			over(id);
			soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		} else if (id->state == SOFT_CM_CONNECTED) {
			on_dreq(id);
		} else {
			on_rej(id, &rej);
		}
	}
}
