/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All processes of a user share port 4791, and the kernel gives a packet to one
 * of them. If it is for another one, it goes there through shared memory: the
 * number of a queue pair names the process.
 */
#include "soft/net/state.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/push.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/upward.h"

#define ABSENT_NS	1000000000ull

/*
 * Returns a wire to the node, or NULL. Anybody can send a packet for any
 * number, so an absent node is remembered. A process that begins has another
 * GUID.
 */
static struct soft_wire *wire_to(struct soft_dev *dev, uint32_t node)
{
	struct soft_net *net = dev->net;
	const uint64_t guid = dev->fabric->guid[node];
	struct soft_wire *w;
	int ret;

	if (guid == net->absent_guid[node] &&
	    soft_now() - net->absent[node] < ABSENT_NS)
		return NULL;
	ret = soft_wire_get(dev, node, &w);
	if (!ret) {
		soft_wire_put(dev, w);
		return w;
	}
	if (ret == -ECONNREFUSED) {
		net->absent[node] = soft_now();
		net->absent_guid[node] = guid;
	}
	return NULL;
}

bool soft_net_forward(struct soft_dev *dev, uint32_t node,
		      const struct soft_path *back, const struct packet *p)
{
	const size_t len = sizeof(*back) + p->length_all;
	struct soft_rec *rec;
	struct soft_wire *w;
	uint8_t *at;

	if (node >= SOFT_NODES || node == dev->node || p->forwarded)
		return false;
	w = dev->to[node];
	if (!w) {
		w = wire_to(dev, node);
		if (!w)
			return false;
	}
	dev->packets.passed_on++;
	/* QP 1 is in every process */
	if (p->dst != SOFT_QPN_CM)
		net_steer(dev);
	/* a process that takes nothing loses it, as a network would */
	rec = soft_rec_new(dev, w, len);
	if (!rec)
		return true;
	memset(rec, 0, sizeof(*rec));
	rec->op = SOFT_PACKET;
	rec->flags = SOFT_F_UNRELIABLE;
	rec->src = dev->node << SOFT_QPN_BITS;
	rec->dst = node << SOFT_QPN_BITS;
	rec->bytes = (uint32_t)len;
	at = (uint8_t *)(rec + 1);
	memcpy(at, back, sizeof(*back));
	memcpy(at + sizeof(*back), p->at, p->length_all);
	soft_rec_commit(dev, w, len);
	return true;
}

void soft_net_forwarded(struct soft_dev *dev, const void *payload,
			uint32_t bytes)
{
	uint8_t copy[sizeof(struct soft_path) + PACKET_MAX];
	struct soft_path back;
	struct packet p;

	if (!dev->net || bytes <= sizeof(back) || bytes > sizeof(copy))
		return;
	/* the other process can change the ring after the checks */
	memcpy(copy, payload, bytes);
	memcpy(&back, copy, sizeof(back));
	if (!packet_get(&p, copy + sizeof(back),
			bytes - (uint32_t)sizeof(back)))
		return;
	p.forwarded = true;
	soft_fabric_up->net_packet(dev, &back, &p);
}
