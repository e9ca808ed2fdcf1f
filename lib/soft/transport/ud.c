/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams to and from other hosts, those of multicast groups among them. */
#include "soft/transport/far.h"

#include <endian.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/ud.h"
#include "soft/fabric/count.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/groups.h"
#include "soft/fabric/rec.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ah.h"

void soft_far_datagram(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe)
{
	const struct soft_ah *ah = wqe->ah;
	const bool imm = wqe->op == IBV_WR_SEND_WITH_IMM;
	struct packet p = {
		.opcode = PACKET_UD | (imm ? PACKET_SEND_ONLY_IMM :
				       PACKET_SEND_ONLY),
		.solicited = wqe->flags & IBV_SEND_SOLICITED,
		.dst = ah->mcast ? SOFT_QPN_MCAST : wqe->dest_qpn,
		.psn = wqe->psn, .imm = wqe->imm,
		.qkey = wqe->qkey >> 31 ? qp->attr.qkey : wqe->qkey,
		.src = qp->create_flags & IBV_QP_CREATE_SOURCE_QPN ?
		       qp->source_qpn : qp->ibv.qp_num,
		.bytes = wqe->length,
	};
	uint8_t *at = soft_net_room(dev);
	uint32_t head;

	/* as a datagram longer than the MTU, and one that a port loses */
	if (!at || wqe->length > 128u << soft_path_mtu(ah->path.mtu)) {
		soft_count(dev, qp->attr.port_num, SOFT_XMIT_DISCARDS, 1);
		return;
	}
	head = packet_put(&p, at);
	memset(at + head + wqe->length, 0, 4);
	if (wqe->inlined) {
		memcpy(at + head, wqe->data, wqe->length);
	} else if (soft_gather(qp, wqe->sge, wqe->num_sge, 0, at + head,
			       wqe->length)) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		return;
	}
	soft_net_put(dev, &ah->path, head + wqe->length + p.pad);
	soft_count_xmit(dev, qp->attr.port_num, wqe->length);
	if (ah->mcast)
		soft_count(dev, qp->attr.port_num, SOFT_XMIT_MCAST, 1);
}

/*
 * If one socket of a port has joined a group of IPv4, Linux gives its packets
 * to any socket of the port (inet_steal_sock(), 6.18), and if several have, to
 * each of them.
 */
static void pass_on(struct soft_dev *dev, const struct soft_path *back,
		    const struct packet *p)
{
	uint64_t mgid[2];

	memcpy(mgid, back->from, 16);
	for (uint32_t n = 0; n < SOFT_NODES; n++)
		if (soft_groups_has(dev, n, mgid))
			(void)soft_net_forward(dev, n, back, p);
}

void soft_far_arrives(struct soft_dev *dev, const struct soft_path *back,
		      const struct packet *p)
{
	struct soft_rec rec = {
		.op = SOFT_DATAGRAM,
		.flags = SOFT_F_LAST | SOFT_F_UNRELIABLE | SOFT_F_GRH,
		.dst = p->dst, .srqn = p->src, .psn = p->psn,
		/* no queue pair of this process */
		.src = UINT32_MAX,
		.rkey = p->qkey, .total = p->bytes,
	};

	if (p->dst == SOFT_QPN_MCAST && !p->forwarded &&
	    !soft_group_find(dev, back->from)) {
		if (soft_gid_v4(back->from))
			pass_on(dev, back, p);
		return;
	}
	if (p->opcode & 1) {
		rec.flags |= SOFT_F_IMM;
		rec.imm = p->imm;
	}
	if (p->solicited)
		rec.flags |= SOFT_F_SOLICITED;
	soft_ud_packet(dev, &rec, back, p->payload);
}
