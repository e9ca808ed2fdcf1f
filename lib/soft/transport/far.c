/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs with a far peer: their begin and end, and packets for them. */
#include "soft/transport/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/sockaddr.h"
#include "soft/verbs/qp.h"

/* Returns true if the address is on another host. */
static bool is_far(struct soft_dev *dev, const struct ibv_ah_attr *a)
{
	const uint8_t *to = a->grh.dgid.raw;

	if (!soft_is_roce(dev) || !a->is_global || soft_gid_mcast(to))
		return false;
	return dev->all_far || (soft_gid_index(dev, 1, to) < 0 &&
				soft_gid_local(to) == -EADDRNOTAVAIL);
}

static int find_path(struct soft_dev *dev, const struct ibv_ah_attr *a,
		     struct soft_path *ret)
{
	struct soft_gid from;
	int err = soft_port_gid(dev, a->port_num, a->grh.sgid_index, &from);

	if (err)
		return -err;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->to, a->grh.dgid.raw, 16);
	memcpy(ret->from, from.gid.raw, 16);
	if (soft_path_local(ret->from))
		ret->scope = from.ifindex;
	return soft_net_route(ret);
}

int soft_far_up(struct soft_dev *dev, struct soft_qp *qp,
		const struct ibv_qp_attr *a)
{
	struct soft_path path;
	struct soft_far *far;
	int err, most;

	if (!dev->far || !is_far(dev, &a->ah_attr))
		return 0;
	if (qp->ibv.qp_type != IBV_QPT_RC)
		return -EOPNOTSUPP;
	err = soft_net_open(dev);
	if (!err)
		err = find_path(dev, &a->ah_attr, &path);
	if (err)
		return err;
	most = soft_path_mtu(path.mtu);
	/* a path that carries less would lose every packet that is full */
	if ((int)a->path_mtu > most)
		return -EMSGSIZE;
	far = calloc(1, sizeof(*far));
	if (!far)
		return -ENOMEM;
	far->qp = qp;
	far->path = path;
	far->mtu = 128u << a->path_mtu;
	list_init(&far->timer.node);
	far->timer.fn = soft_far_timer;
	soft_window_begin(far);
	list_add_tail(&dev->fars, &far->node);
	qp->far = far;
	qp->far_mtu = far->mtu;
	return 1;
}

void soft_far_down(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_far *far = qp->far;

	if (!far)
		return;
	qp->far = NULL;
	qp->far_mtu = 0;
	soft_timer_stop(&far->timer);
	list_del(&far->node);
	free(far);
}

int soft_far_route(struct soft_dev *dev, struct soft_path *path, bool group)
{
	const int err = soft_net_open(dev);

	return err ? err : group ? soft_net_interface(path) :
	       soft_net_route(path);
}

int soft_far_group(struct soft_dev *dev, const uint8_t mgid[16], bool join)
{
	const int ret = soft_is_roce(dev) && join ? soft_net_open(dev) : 0;

	if (soft_is_roce(dev) && dev->net)
		soft_net_group(dev, mgid, join);
	return ret;
}

void soft_far_look(const struct soft_qp *qp, uint32_t *window, uint32_t *rtt)
{
	const struct soft_far *far = qp->far;

	*window = far ? soft_window_psns(far) : 0;
	*rtt = far ? (uint32_t)(far->rtt / 1000) : 0;
}

void soft_far_room(struct soft_dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->fars)
		soft_qp_pend(dev, list_entry(n, struct soft_far, node)->qp);
}

void soft_far_packet(struct soft_dev *dev, const struct soft_path *back,
		     const struct packet *p)
{
	struct soft_qp *qp;

	if (p->flags & PACKET_F_DETH) {
		soft_far_arrives(dev, back, p);
		return;
	}
	if (((p->opcode & PACKET_KIND) != PACKET_RC &&
	     p->opcode != PACKET_CNP) || p->dst >> SOFT_QPN_BITS != dev->node)
		return;
	qp = soft_qp_find(dev, p->dst);
	/* only the peer may send to a queue pair */
	if (!qp || !qp->far || !soft_can_receive(qp) ||
	    !soft_path_same(back, &qp->far->path) ||
	    (dev->faulty && !soft_port_carries(dev, qp->attr.port_num)))
		return;
	if (unlikely(p->marked))
		soft_far_marked(dev, qp->far, p);
	if (p->flags & PACKET_F_REQUEST)
		soft_far_request(dev, qp->far, p);
	else if (p->opcode == PACKET_CNP)
		soft_far_notified(dev, qp->far);
	else if (qp->state != IBV_QPS_RTR)
		soft_far_answered(dev, qp->far, p);
}
