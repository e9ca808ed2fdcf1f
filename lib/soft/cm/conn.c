/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands: connecting, accepting, disconnecting, and their messages. */
#include "soft/cm/id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "soft/cm/far.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/wire.h"

#define REQ_NS		60000000000ull
#define BUSY_NS		100000000ull
#define BUSY_TRIES	600
#define DREQ_NS		4000000000ull
#define TIMEWAIT_NS	500000000ull

/* ---- messages --------------------------------------------------------- */

void soft_cm_msg_init(struct soft_cm_msg *m, const struct soft_cm_id *id,
		      enum soft_msg_type type)
{
	memset(m, 0, sizeof(*m));
	m->hdr.magic = SOFT_MSG_MAGIC;
	m->hdr.type = (uint16_t)type;
	m->hdr.node = id->file->dev->node;
	m->hdr.to = id->peer;
	m->hdr.from = id->handle;
	m->ps = id->ps;
	m->iwarp = id->file->dev->iwarp;
}

static int send_msg(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	if (!id->wire && !id->far)
		return -ECONNRESET;
	if (id->far)
		return soft_cm_far_send(id, m);
	if (!soft_cm_carried(id->file->dev))
		return 0;		/* the port loses the message */
	return soft_wire_send(id->file->dev, id->wire, &m->hdr, sizeof(*m));
}

int soft_cm_send(struct soft_cm_id *id, enum soft_msg_type type,
		 uint8_t reason)
{
	struct soft_cm_msg m;

	soft_cm_msg_init(&m, id, type);
	m.reason = reason;
	return send_msg(id, &m);
}

void soft_cm_new_psn(struct soft_cm_id *id)
{
	(void)!getrandom(&id->psn, sizeof(id->psn), GRND_NONBLOCK);
	id->psn &= SOFT_PSN_MASK;
}

void soft_cm_over(struct soft_cm_id *id)
{
	id->state = SOFT_CM_OVER;
	soft_timer_set(id->file->dev, &id->timer, TIMEWAIT_NS);
}

void soft_cm_not_waiting(struct soft_cm_id *id)
{
	struct soft_cm_id *l = soft_cm_find(id->file->dev, id->listener);

	if (l && l->waiting)
		l->waiting--;
	id->listener = 0;
}

/* Tells the peer that the id is gone. */
void soft_cm_hang_up(struct soft_cm_id *id)
{
	enum soft_cm_state state = id->state;

	if (id->listener)
		soft_cm_not_waiting(id);
	if (id->file->dev->iwarp)
		soft_cm_iwarp_flush(id, false);
	id->state = SOFT_CM_OVER;
	switch (state) {
	case SOFT_CM_REQ_SENT:
	case SOFT_CM_REP_RCVD:
	case SOFT_CM_REQ_RCVD:
	case SOFT_CM_REP_SENT:
		(void)soft_cm_send(id, SOFT_MSG_REJ, SOFT_REJ_CONSUMER);
		break;
	case SOFT_CM_CONNECTED:
		if (id->file->dev->iwarp)
			soft_cm_iwarp_fin(id);
		else if (!soft_cm_is_ud(id))
			(void)soft_cm_send(id, SOFT_MSG_DREQ, 0);
		break;
	case SOFT_CM_DREQ_RCVD:
		(void)soft_cm_send(id, SOFT_MSG_DREP, 0);
		break;
	default:
		break;
	}
}

/* ---- the active side -------------------------------------------------- */

/* Repeats the request after BUSY_NS, as often as hardware would. */
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
	const bool asked = id->state == SOFT_CM_REQ_SENT;

	id->state = SOFT_CM_OVER;
	soft_timer_stop(&id->timer);
	/* withdraw the request */
	if (asked)
		(void)soft_cm_send(id, SOFT_MSG_REJ, SOFT_REJ_CONSUMER);
	if (status > 0 && soft_cm_is_ud(id))
		soft_cm_raise(id, RDMA_CM_EVENT_UNREACHABLE,
			      SOFT_SIDR_UNSUPPORTED);
	else if (status > 0)
		soft_cm_raise(id, RDMA_CM_EVENT_REJECTED,
			      id->file->dev->iwarp ? -ECONNREFUSED : status);
	else
		soft_cm_raise(id, RDMA_CM_EVENT_UNREACHABLE, status);
}

void soft_cm_unlike(struct soft_cm_id *id, uint32_t link)
{
	struct soft_cm_event *ev;
	uint8_t *data, *len;

	id->state = SOFT_CM_OVER;
	if (!id->uid)
		return;
	ev = soft_cm_event_new(id, RDMA_CM_EVENT_UNREACHABLE, -EPROTOTYPE);
	if (!ev)
		return;
	if (soft_cm_is_ud(id)) {
		data = ev->resp.param.ud.private_data;
		len = &ev->resp.param.ud.private_data_len;
	} else {
		data = ev->resp.param.conn.private_data;
		len = &ev->resp.param.conn.private_data_len;
	}
	*len = (uint8_t)snprintf((char *)data, SOFT_PRIVATE_SIDR_REP,
				 "RDMAMSG_SOFT_LINK is %s here and %s there",
				 soft_link_name(soft_link(id->file->dev)),
				 soft_link_name(link));
	soft_cm_event_post(id, ev);
}

void soft_cm_found(struct soft_cm_id *id, uint32_t node, uint32_t listener)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_cm_msg m;
	int ret;

	soft_wire_put(dev, id->wire);
	id->wire = NULL;
	ret = soft_wire_get(dev, node, &id->wire);
	/* every user can fill the backlog: looked up again soon */
	if (ret == -EAGAIN && ++id->tries < SOFT_LOOKUP_TRIES) {
		soft_timer_set(dev, &id->timer, SOFT_LOOKUP_NS);
		return;
	}
	if (ret) {
		/*
		 * the listener has just ended, or this process lacks resources
		 */
		soft_cm_not_found(id, ret == -ECONNREFUSED ?
				  SOFT_REJ_INVALID_SERVICE : ret);
		return;
	}
	id->peer = 0;
	soft_cm_msg_init(&m, id, SOFT_MSG_REQ);
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

int soft_cm_connect(struct soft_cm_file *file,
		    const struct rdma_ucm_connect *cmd)
{
	const struct rdma_ucm_conn_param *p = &cmd->conn_param;
	struct soft_cm_id *id;
	int ret = 0;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id || id->state != SOFT_CM_ROUTE || !p->valid ||
	    p->private_data_len > soft_cm_request_len(id) ||
	    p->responder_resources > SOFT_MAX_RD ||
	    p->initiator_depth > SOFT_MAX_RD) {
		ret = -EINVAL;
		goto out;
	}
	if (file->dev->iwarp) {
		ret = soft_cm_iwarp_check(id, p->qp_num);
		if (ret)
			goto out;
	}
	id->param = *p;
	id->retry_count = p->retry_count & 7;
	id->rnr_retry_count = p->rnr_retry_count & 7;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	soft_cm_new_psn(id);
	id->state = SOFT_CM_LOOKUP;
	id->wildcard = false;
	id->tries = 0;
	id->refusals = 0;
	if (id->far)
		soft_cm_far_connect(id);
	else
		soft_cm_lookup(id);
out:
	soft_unlock(file->dev);
	return ret;
}

int soft_cm_establish(struct soft_cm_file *file, uint32_t handle)
{
	struct soft_cm_id *id;
	int ret = -EINVAL;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, handle);
	if (id && id->state == SOFT_CM_REP_RCVD) {
		id->state = SOFT_CM_CONNECTED;
		(void)soft_cm_send(id, SOFT_MSG_RTU, 0);
		ret = 0;
	} else if (id && id->state >= SOFT_CM_CONNECTED &&
		   !file->dev->iwarp) {
		ret = -ECONNRESET;
	}
	soft_unlock(file->dev);
	return ret;
}

/* ---- the passive side ------------------------------------------------- */

/* The queue pair is up before the peer may send. */
static int accept_iwarp(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	int ret;

	id->param = m->param;
	id->state = SOFT_CM_CONNECTED;
	ret = soft_cm_iwarp_up(id, true);
	if (ret) {
		(void)soft_cm_send(id, SOFT_MSG_REJ, SOFT_REJ_CONSUMER);
		id->state = SOFT_CM_OVER;
		return ret;
	}
	soft_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	ret = send_msg(id, m);
	if (ret)
		soft_cm_iwarp_end(id);
	return 0;
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
	if (p->private_data_len > soft_cm_private(id, soft_cm_is_ud(id) ?
						  SOFT_PRIVATE_SIDR_REP :
						  SOFT_PRIVATE_REP) ||
	    (file->dev->iwarp && soft_cm_iwarp_check(id, p->qp_num)) ||
	    p->responder_resources > SOFT_MAX_RD ||
	    p->initiator_depth > SOFT_MAX_RD) {
		/* the kernel rejects the peer when accept fails */
		soft_cm_hang_up(id);
		goto out;
	}
	if (id->listener)
		soft_cm_not_waiting(id);
	id->uid = cmd->uid;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	/* SIDR ends with the reply */
	id->state = soft_cm_is_ud(id) ? SOFT_CM_CONNECTED : SOFT_CM_REP_SENT;
	soft_cm_msg_init(&m, id, SOFT_MSG_REP);
	m.param = *p;
	if (soft_cm_is_ud(id) && !p->qkey)
		m.param.qkey = soft_cm_qkey(id);
	m.psn = id->psn;
	ret = file->dev->iwarp ? accept_iwarp(id, &m) : send_msg(id, &m);
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
	if (!id || cmd->private_data_len >
		   soft_cm_private(id, soft_cm_is_ud(id) ?
				   SOFT_PRIVATE_SIDR_REP : SOFT_PRIVATE_REJ) ||
	    (id->state != SOFT_CM_REQ_RCVD && id->state != SOFT_CM_REP_RCVD))
		goto out;
	if (id->listener)
		soft_cm_not_waiting(id);
	id->state = SOFT_CM_OVER;
	soft_cm_msg_init(&m, id, SOFT_MSG_REJ);
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
		if (file->dev->iwarp) {
			/* consume ACKs, so that their requests succeed */
			if (id->wire && !id->wire->dead)
				soft_wire_take_rest(file->dev, id->wire);
			if (id->state == SOFT_CM_CONNECTED)
				soft_cm_iwarp_end(id);
			break;
		}
		id->state = SOFT_CM_DREQ_SENT;
		soft_timer_set(file->dev, &id->timer, DREQ_NS);
		/* a far peer is asked more than once in that time */
		(void)soft_cm_send(id, SOFT_MSG_DREQ, 0);
		break;
	case SOFT_CM_DREQ_RCVD:
		soft_cm_over(id);
		(void)soft_cm_send(id, SOFT_MSG_DREP, 0);
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
