/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks of routers whose queues are long (RFC 3168). The receiver of a marked
 * request tells its sender by a congestion notification packet, as cards do.
 * Its form is that of scapy, contrib/roce.py, CNP_OPCODE and CNPPadding. The
 * answer to a read is marked for the window of the queue pair that has asked,
 * because the other end has none for it.
 *
 * Soft-RoCE drops the notification, because its opcode is not one of RC; some
 * old kernels do not (Linux, rxe_recv.c, check_type_state()). But routers do
 * not mark what Soft-RoCE sends, because it is not ECN-capable.
 */
#include "soft/transport/far.h"

#define PAUSE_NS	50000u	/* between two notifications */

static void notify(struct soft_dev *dev, struct soft_far *far)
{
	struct packet p = { .opcode = PACKET_CNP,
			    .dst = far->qp->attr.dest_qp_num };
	const uint64_t now = soft_now();
	uint8_t *at;

	if (now - far->notified_at < PAUSE_NS)
		return;
	at = soft_net_room(dev);
	if (!at)
		return;
	far->notified_at = now;
	soft_net_put(dev, &far->path, packet_put(&p, at));
	dev->packets.cnps_sent++;
}

void soft_far_marked(struct soft_dev *dev, struct soft_far *far,
		     const struct packet *p)
{
	if (!(p->flags & PACKET_F_DATA))
		return;
	if (p->flags & PACKET_F_REQUEST)
		notify(dev, far);
	else
		soft_window_marked(far);
}

void soft_far_notified(struct soft_dev *dev, struct soft_far *far)
{
	dev->packets.cnps_received++;
	soft_window_marked(far);
}
