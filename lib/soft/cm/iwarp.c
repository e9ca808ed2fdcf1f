/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of iWARP, after Linux drivers/infiniband/core/cma.c and iwcm.c:
 *
 *   - connect and accept name a queue pair. The connection manager brings it to
 *     RTS. So the active side gets no CONNECT_RESPONSE.
 *   - The passive side sends nothing until the active side is in RTS. The RTU
 *     stands for the RTR message of MPA version 2, with which cards such as
 *     cxgb4 let the passive side send first (siw_cm.c, siw_rtr_data_ready()).
 *   - Connection and queue pair end together: an error of the queue pair
 *     disconnects both sides, and a disconnect flushes both queue pairs.
 */
#include "soft/cm/id.h"

#include <errno.h>

#include "soft/engine/linger.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/upward.h"

#define SOON_NS	1u

/* Returns the queue pair of a connection, or NULL if it has ended. */
static struct soft_qp *qp_of(const struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_qp *qp = soft_qp_find(dev, id->param.qp_num);

	return qp && qp->ibv.qp_num == id->param.qp_num &&
	       qp->cm_id == id->handle ? qp : NULL;
}

int soft_cm_iwarp_check(const struct soft_cm_id *id, uint32_t qp_num)
{
	struct soft_dev *dev = id->file->dev;
	const struct soft_qp *qp = soft_qp_find(dev, qp_num);

	if (soft_cm_is_ud(id))
		return -EOPNOTSUPP;
	return qp && qp->ibv.qp_num == qp_num ? 0 : -EINVAL;
}

int soft_cm_iwarp_up(struct soft_cm_id *id, bool passive)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_qp *qp = soft_qp_find(dev, id->param.qp_num);

	if (!qp || qp->ibv.qp_num != id->param.qp_num)
		return -EINVAL;
	return soft_qp_iwarp_up(dev, qp, id->peer_qpn, id->handle,
				id->responder_resources, id->initiator_depth,
				passive);
}

void soft_cm_iwarp_ready(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_qp *qp = qp_of(id);

	if (!qp)
		return;
	qp->gate &= (uint8_t)~SOFT_GATE_MUTE;
	soft_verbs_up->push(dev, qp);
}

void soft_cm_iwarp_flush(struct soft_cm_id *id, bool by_peer)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_qp *qp = qp_of(id);

	if (!qp)
		return;
	/* a due answer tells the peer what is done, or why the stream ends */
	(void)soft_verbs_up->answer(dev, qp);
	if (!by_peer)
		soft_linger_new(dev, qp);
	qp->cm_id = 0;
	soft_qp_error(dev, qp);
}

void soft_cm_iwarp_fin(struct soft_cm_id *id)
{
	struct soft_cm_msg m;

	if (!id->wire)
		return;
	soft_cm_msg_init(&m, id, SOFT_MSG_DREQ);
	soft_linger_fin(id->file->dev, id->wire, id->handle, &m.hdr,
			sizeof(m));
}

void soft_cm_iwarp_rejected(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_qp *qp = soft_qp_find(dev, id->param.qp_num);

	if (qp && qp->ibv.qp_num == id->param.qp_num)
		soft_qp_error(dev, qp);
}

void soft_cm_iwarp_end(struct soft_cm_id *id)
{
	soft_timer_stop(&id->timer);
	soft_cm_iwarp_flush(id, false);
	id->state = SOFT_CM_OVER;
	soft_cm_iwarp_fin(id);
	soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/*
 * The peer has closed the connection. Its messages before the end arrive first,
 * as with TCP.
 */
void soft_cm_iwarp_ended(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;

	id->fin_waits = false;
	if (id->wire && !id->wire->dead)
		soft_wire_take_rest(dev, id->wire);
	if (id->state != SOFT_CM_CONNECTED)
		return;
	soft_timer_stop(&id->timer);
	soft_cm_iwarp_flush(id, true);
	if (id->wire)
		soft_linger_stop(dev, id->handle, id->wire->peer);
	id->state = SOFT_CM_OVER;
	soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

void soft_cm_iwarp_ports(struct soft_dev *dev)
{
	struct list *n, *t;

	if (!dev->iwarp || !soft_cm_carried(dev))
		return;
	list_for_each_safe(n, t, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->fin_waits)
			soft_cm_iwarp_ended(id);
	}
}

/*
 * Called while a record is executed. The timer ends the connection afterwards,
 * so that the peer gets the due answer first.
 */
void soft_cm_iwarp_qp_over(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_cm_id *id = soft_cm_find(dev, qp->cm_id);

	soft_linger_new(dev, qp);
	qp->cm_id = 0;
	if (id && id->state == SOFT_CM_CONNECTED)
		soft_timer_set(dev, &id->timer, SOON_NS);
}
