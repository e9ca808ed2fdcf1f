/* SPDX-License-Identifier: BSD-2-Clause */
/* A node executes the orders of soft_ctl.h. */
#include "soft/control/control.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/srq.h"
#include "soft/verbs/upward.h"

static void describe_node(const struct soft_dev *dev, struct soft_ctl_node *d)
{
	const struct soft_faults *f = &dev->faults;
	const struct list *n;

	memset(d, 0, sizeof(*d));
	d->node = dev->node;
	d->ports = (uint32_t)dev->ports;
	d->qps = dev->qp_count;
	list_for_each(n, &dev->contexts) {
		d->contexts++;
		d->cqs += (uint32_t)list_entry(n, struct soft_ctx,
					       node)->objects;
	}
	list_for_each(n, &dev->pds)
		d->pds++;
	d->mrs = dev->mrs;
	for (uint32_t i = 0; i < dev->srqs.size; i++)
		d->srqs += dev->srqs.at[i] != NULL;
	list_for_each(n, &dev->cm_ids)
		d->cm_ids++;
	d->pid = getpid();
	d->absent = dev->absent;
	d->guid = dev->guid;
	for (int i = 0; i < dev->ports; i++)
		d->port[i] = (uint8_t)f->port[i];
	d->faults = (struct soft_ctl_faults){
		.drop = f->drop, .delay = f->delay, .duplicate = f->duplicate,
		.reorder = f->reorder, .delay_us = f->delay_us, .seed = f->seed,
	};
	d->rnr = dev->rnr;
	d->on_network = dev->net != NULL;
	d->packets = dev->packets;
}

static void describe_qp(const struct soft_qp *qp, struct soft_ctl_qp *d)
{
	memset(d, 0, sizeof(*d));
	d->qpn = qp->ibv.qp_num;
	d->peer = qp->attr.dest_qp_num;
	d->type = (uint8_t)qp->ibv.qp_type;
	d->state = (uint8_t)qp->state;
	d->port = qp->attr.port_num;
	d->wired = qp->wire && !qp->wire->dead;
	d->sends = soft_sq_used(qp);
	d->recvs = qp->rq.tail - qp->rq.head;
	d->retries = qp->retries;
	d->alt_port = qp->attr.alt_port_num;
	d->migration = (uint8_t)qp->attr.path_mig_state;
	d->sq_psn = qp->psn_next;
	d->rq_psn = qp->epsn;
	d->rnr_sent = (uint32_t)qp->rnr.sent;
	d->rnr_received = (uint32_t)qp->rnr.received;
	soft_verbs_up->far_look(qp, &d->window, &d->rtt);
}

void soft_rnr_naks(struct ibv_context *verbs, struct ibv_qp *qp,
		   struct soft_rnr *ret)
{
	struct soft_dev *dev = soft_dev_of(verbs);

	soft_lock(dev);
	*ret = qp ? soft_qp_real(qp)->rnr : dev->rnr;
	soft_unlock(dev);
}

/* Lists a page from index arg[0] on: arg[1] elements, next index arg[0]. */
static void list_qps(const struct soft_dev *dev, const struct soft_ctl_msg *m,
		     struct soft_ctl_msg *a)
{
	uint32_t i = m->arg[0], n = 0;

	for (; i < SOFT_QPS && n < SOFT_CTL_PAGE; i++)
		if (dev->qps[i])
			describe_qp(dev->qps[i], &a->qps[n++]);
	a->arg[0] = i;
	a->arg[1] = n;
}

/* Lists the groups in the slots of one page. */
static void list_groups(const struct soft_dev *dev,
			const struct soft_ctl_msg *m, struct soft_ctl_msg *a)
{
	uint32_t from = min(m->arg[0], SOFT_GROUPS), n = 0;
	const struct list *at, *member;

	for (int b = 0; b < SOFT_GROUP_BUCKETS; b++)
		list_for_each(at, &dev->groups[b]) {
			const struct soft_group *g =
				list_entry(at, struct soft_group, node);

			/* MGIDs, not the addresses of verbs/flow.h */
			if (!soft_gid_mcast(g->mgid) || g->slot < from ||
			    g->slot - from >= SOFT_CTL_PAGE)
				continue;
			memcpy(a->groups[n].mgid, g->mgid, 16);
			list_for_each(member, &g->members)
				a->groups[n].members++;
			n++;
		}
	a->arg[0] = min(from + SOFT_CTL_PAGE, SOFT_GROUPS);
	a->arg[1] = n;
}

static int set_port(struct soft_dev *dev, const struct soft_ctl_msg *m)
{
	struct soft_faults *rows[2] = { &dev->fabric->node[dev->node],
					&dev->fabric->fresh };
	uint32_t port = m->arg[0];

	if (port > (uint32_t)dev->ports || m->arg[1] > SOFT_PORT_BLACK_HOLE)
		return -EINVAL;
	for (int r = 0; r < (m->fresh ? 2 : 1); r++)
		for (uint32_t i = 0; i < (uint32_t)dev->ports; i++)
			if (!port || i == port - 1)
				rows[r]->port[i] = m->arg[1];
	soft_faults_take(dev);
	return 0;
}

static int set_faults(struct soft_dev *dev, const struct soft_ctl_msg *m)
{
	const struct soft_ctl_faults f = m->faults;
	struct soft_faults *rows[2] = { &dev->fabric->node[dev->node],
					&dev->fabric->fresh };

	if (f.drop > SOFT_SHARE_ALL || f.delay > SOFT_SHARE_ALL ||
	    f.duplicate > SOFT_SHARE_ALL || f.reorder > SOFT_SHARE_ALL ||
	    f.delay_us > SOFT_DELAY_MAX)
		return -EINVAL;
	for (int r = 0; r < (m->fresh ? 2 : 1); r++) {
		rows[r]->drop = f.drop;
		rows[r]->delay = f.delay;
		rows[r]->duplicate = f.duplicate;
		rows[r]->reorder = f.reorder;
		rows[r]->delay_us = f.delay_us;
		rows[r]->seed = f.seed;
	}
	/* restart the sequence: the same seed then hits the same requests */
	for (uint32_t i = 0; i < SOFT_QPS; i++)
		if (dev->qps[i]) {
			dev->qps[i]->drawn = 0;
			dev->qps[i]->decided = false;
		}
	soft_faults_take(dev);
	return 0;
}

/* An end of XRC has one completion queue or none. */
static int raise_cqs(struct soft_dev *dev, struct soft_qp *qp)
{
	struct ibv_cq *recv = qp->ibv.recv_cq, *send = qp->ibv.send_cq;

	if (recv)
		soft_async_cq(dev, soft_cq(recv));
	if (send && send != recv)
		soft_async_cq(dev, soft_cq(send));
	return recv || send ? 0 : -EINVAL;
}

static int raise_event(struct soft_dev *dev, enum ibv_event_type type,
		       uint32_t element)
{
	struct soft_qp *qp = element >> SOFT_QPN_BITS == dev->node ?
			     soft_qp_find(dev, element) : NULL;
	struct list *n;

	switch (type) {
	case IBV_EVENT_DEVICE_FATAL:
		list_for_each(n, &dev->contexts)
			soft_async_device(list_entry(n, struct soft_ctx, node),
					  type);
		return 0;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		if (!element || element > (uint32_t)dev->ports)
			return -EINVAL;
		/* the program that hears the event finds the new table */
		if (type == IBV_EVENT_GID_CHANGE)
			soft_gids_read(dev);
		soft_async_port(dev, (uint8_t)element, type);
		return 0;
	case IBV_EVENT_CQ_ERR:
		return qp ? raise_cqs(dev, qp) : -EINVAL;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		if (!qp)
			return -EINVAL;
		soft_async_qp(dev, qp, type);
		return 0;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		if (!qp || !qp->ibv.srq)
			return -EINVAL;
		soft_async_srq(dev, (struct soft_srq *)qp->ibv.srq, type);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* The program that hears the event finds the new value. */
static int set_attr(struct soft_dev *dev, const struct soft_ctl_msg *m)
{
	static const enum ibv_event_type events[] = {
		[SOFT_ATTR_LID] = IBV_EVENT_LID_CHANGE,
		[SOFT_ATTR_SM_LID] = IBV_EVENT_SM_CHANGE,
		[SOFT_ATTR_PKEY] = IBV_EVENT_PKEY_CHANGE,
		[SOFT_ATTR_PREFIX] = IBV_EVENT_GID_CHANGE,
	};
	int ret;

	if (m->arg[0] >= SOFT_ATTRS || m->arg[1] > SOFT_PORTS_MAX)
		return -EINVAL;
	ret = soft_attr_set(dev, (enum soft_attr)m->arg[0], (int)m->arg[1],
			    m->value, m->fresh);
	/* no device tells of a table that cannot be read */
	if (!ret && m->arg[0] < SOFT_ATTR_GID_ERROR)
		soft_async_port(dev, (uint8_t)m->arg[1], events[m->arg[0]]);
	return ret;
}

static int obey(struct soft_dev *dev, const struct soft_ctl_msg *m,
		struct soft_ctl_msg *a)
{
	switch (m->op) {
	case SOFT_CTL_NODE:
		describe_node(dev, &a->node);
		return 0;
	case SOFT_CTL_QPS:
		list_qps(dev, m, a);
		return 0;
	case SOFT_CTL_GROUPS:
		list_groups(dev, m, a);
		return 0;
	case SOFT_CTL_OBJECTS:
		return soft_list_objects(dev, m, a);
	case SOFT_CTL_PORT:
		return set_port(dev, m);
	case SOFT_CTL_FAULTS:
		return set_faults(dev, m);
	case SOFT_CTL_REFUSE:
		if (m->arg[0] >= SOFT_OBJECTS)
			return -EINVAL;
		dev->refuse[m->arg[0]] = m->arg[1];
		return 0;
	case SOFT_CTL_REMOVE:
		if (m->fresh)
			dev->fabric->fresh_absent = 1;
		soft_remove(dev);
		return 0;
	case SOFT_CTL_ADD:
		if (m->fresh)
			dev->fabric->fresh_absent = 0;
		soft_readd(dev);
		return 0;
	case SOFT_CTL_SET:
		return set_attr(dev, m);
	case SOFT_CTL_EVENT:
		return raise_event(dev, (enum ibv_event_type)m->arg[0],
				   m->arg[1]);
	default:
		return -EOPNOTSUPP;
	}
}

int soft_ctl_asked(struct soft_dev *dev, int fd, const struct soft_msg *hdr,
		   size_t len)
{
	struct soft_ctl_msg m, a;

	if (len != sizeof(m))
		return -EPROTO;
	memcpy(&m, hdr, sizeof(m));
	memset(&a, 0, sizeof(a));
	a.hdr.magic = SOFT_MSG_MAGIC;
	a.hdr.type = SOFT_MSG_CTL_DONE;
	a.hdr.node = dev->node;
	a.op = m.op;
	(void)soft_progress(dev);
	a.result = obey(dev, &m, &a);
	return soft_msg_send(fd, &a, sizeof(a), NULL, 0);
}
