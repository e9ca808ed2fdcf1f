/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of a carrier: receives, requests and their completions. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/util.h"
#include "device/verbs_api.h"
#include "group/carrier.h"
#include "group/group.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define REPOSTS		16u	/* receives posted in one call */

/* wr_id: the key, 1 bit for receives, 10 bits of index, 21 bits of slot */
#define WR_RECV		0x80000000u
#define WR_INDEX	21
#define WR_SLOTS	(1u << WR_INDEX)

static uint64_t wr_id(const struct carrier *c, uint32_t low)
{
	return (uint64_t)GROUP_KEY << 32 | c->index << WR_INDEX | low;
}

static uint8_t *recv_buf(const struct carrier *c, uint32_t slot)
{
	return (uint8_t *)c->recv_mem.mem +
	       (size_t)slot * rdmamsg__carrier_recv_size(c);
}

struct recv_slot {
	struct ibv_recv_wr wr;
	struct ibv_sge sge;
};

static int post_receives(struct carrier *c)
{
	struct ibv_recv_wr *bad;
	int ret;

	if (!c->reposts)
		return 0;
	ret = rdmamsg__verbs_ret(ibv_post_recv(c->qp, c->reposts, &bad));
	c->reposts = NULL;
	c->repost_count = 0;
	return ret;
}

static int add_receive(struct carrier *c, uint32_t slot)
{
	struct recv_slot *r = &c->recv_slots[slot];

	r->wr.next = c->reposts;
	c->reposts = &r->wr;
	return ++c->repost_count >= min(REPOSTS, c->recv_depth / 4) ?
	       post_receives(c) : 0;
}

int rdmamsg__carrier_receives(struct carrier *c)
{
	struct recv_slot *slots = calloc(c->recv_depth, sizeof(*slots));
	int ret = 0;

	c->recv_slots = slots;
	if (!slots)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	for (uint32_t i = 0; i < c->recv_depth && !ret; i++) {
		slots[i].sge = (struct ibv_sge){
			(uintptr_t)recv_buf(c, i), GRH + c->mtu,
			c->recv_mem.mr->lkey,
		};
		slots[i].wr = (struct ibv_recv_wr){
			.wr_id = wr_id(c, WR_RECV | i),
			.sg_list = &slots[i].sge, .num_sge = 1,
		};
		ret = add_receive(c, i);
	}
	if (!ret)
		ret = post_receives(c);
	return ret ? rdmamsg__fail_verbs(ret, "receives of a group") : 0;
}

uint32_t rdmamsg__carrier_room(const struct carrier *c)
{
	return c->send_depth - (c->sent - c->done);
}

static uint32_t send_slot(const struct carrier *c)
{
	return c->sent & (c->send_depth - 1);
}

void *rdmamsg__carrier_buffer(struct carrier *c)
{
	if (!rdmamsg__carrier_room(c))
		return NULL;
	return (uint8_t *)c->send_mem.mem +
	       (size_t)send_slot(c) * rdmamsg__carrier_send_size(c);
}

int rdmamsg__carrier_send(struct carrier *c, uint32_t len,
			  const struct carrier_to *to)
{
	uint32_t slot = send_slot(c), every = c->send_depth / 4;
	struct ibv_sge sge = {
		(uintptr_t)rdmamsg__carrier_buffer(c), len,
		c->send_mem.mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id(c, slot), .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {
			.ah = to->ah, .remote_qpn = to->qpn,
			.remote_qkey = to->qkey,
		},
	};
	int ret;

	if (to->imm) {
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htobe32(*to->imm);
	}
	/* a full queue always has a signaled request that will complete */
	if (slot % every == every - 1 || to->signaled)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (len <= c->max_inline)
		wr.send_flags |= IBV_SEND_INLINE;
	ret = rdmamsg__verbs_ret(ibv_post_send(c->qp, &wr, &bad));
	if (!ret) {
		c->notes[slot] = to->note;
		c->sent++;
	}
	return ret;
}

void rdmamsg__carrier_unnote(struct carrier *c, const struct rdmamsg_group *g)
{
	for (uint32_t i = 0; c->notes && i < c->send_depth; i++)
		if (c->notes[i].group == g)
			c->notes[i].group = NULL;
}

static void map_ipv4(union ibv_gid *gid, const uint8_t addr[static 4])
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, addr, 4);
}

/*
 * RoCE v2 over IPv4 has the IPv4 header in the second half, and nothing useful
 * in the first half (InfiniBand Annex 17, as in ibv_init_ah_from_wc() of
 * rdma-core).
 */
static void addresses(struct datagram *d)
{
	const uint8_t *ip = (const uint8_t *)d->grh + 20;

	if (ip[0] == 0x45 && ip[9] == IPPROTO_UDP &&
	    (((const uint8_t *)d->grh)[0] & 0xf0) != 0x60) {
		map_ipv4(&d->from.gid, ip + 12);
		map_ipv4(&d->to, ip + 16);
	} else {
		d->from.gid = d->grh->sgid;
		d->to = d->grh->dgid;
	}
}

/* Finds the group by the destination GID, which is the MGID in multicast. */
static struct rdmamsg_group *find_group(const struct carrier *c,
					const union ibv_gid *to)
{
	struct list *n;

	list_for_each(n, &c->groups) {
		struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, node);

		if (g->attached && !memcmp(&g->mgid, to, sizeof(*to)))
			return g;
	}
	return NULL;
}

static void received(struct carrier *c, uint32_t slot,
		     const struct ibv_wc *wc)
{
	const uint8_t *buf = recv_buf(c, slot);
	struct datagram d = {
		.data = buf + GRH, .len = wc->byte_len - GRH,
		.from = {
			.qpn = wc->src_qp, .slid = wc->slid, .sl = wc->sl,
			.path_bits = wc->dlid_path_bits,
		},
		.has_imm = wc->wc_flags & IBV_WC_WITH_IMM,
	};
	struct rdmamsg_group *g;

	if (wc->byte_len < GRH || !(wc->wc_flags & IBV_WC_GRH))
		return;
	if (d.has_imm)
		d.imm = be32toh(wc->imm_data);
	d.grh = (const struct ibv_grh *)(const void *)buf;
	addresses(&d);
	g = find_group(c, &d.to);
	if (g)
		rdmamsg__group_datagram(g, &d);
	else
		rdmamsg__group_unicast(c, &d);
}

/* Ends groups whose last datagram has completed. Makes no callbacks. */
static void drain(struct carrier *c)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &c->draining) {
		struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, wait_node);

		if ((int32_t)(c->done - g->drained_at) >= 0)
			rdmamsg__group_left(g);
	}
}

/* The callback may publish, which uses the slot again. */
static void request_done(struct carrier *c)
{
	struct carrier_note *at = &c->notes[c->done & (c->send_depth - 1)];
	const struct carrier_note note = *at;

	at->group = NULL;
	c->done++;
	if (note.group)
		rdmamsg__group_was_sent(note.group, note.message);
}

static void sent(struct carrier *c, uint32_t slot)
{
	/* it completes all requests up to its own */
	uint32_t count = ((slot - c->done) & (c->send_depth - 1)) + 1;

	if (count > c->sent - c->done)
		return;
	while (count--)
		request_done(c);
	if (unlikely(!list_empty(&c->old_ahs)))
		rdmamsg__carrier_old_ahs(c, false);
	if (unlikely(!list_empty(&c->draining)))
		drain(c);
	/* a callback may leave any group, but the carrier stays for now */
	while (!list_empty(&c->waiting) && rdmamsg__carrier_room(c)) {
		struct rdmamsg_group *g = list_first(&c->waiting,
						     struct rdmamsg_group,
						     wait_node);

		list_del(&g->wait_node);
		rdmamsg__group_writable(g);
	}
}

static void broken(struct carrier *c, const struct ibv_wc *wc)
{
	char text[128];

	if (c->state != CARRIER_READY)
		return;
	snprintf(text, sizeof(text), "the queue pair of the group has failed: "
		 "%s", ibv_wc_status_str(wc->status));
	rdmamsg__carrier_lost(c, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_TRANSPORT,
			      -EIO, text);
}

void rdmamsg__carrier_done(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	uint32_t low = (uint32_t)wc->wr_id;
	struct carrier *c =
		rdmamsg__handle_of(&ctx->groups->table,
				   (low & ~WR_RECV) >> WR_INDEX);
	uint32_t slot = low & (WR_SLOTS - 1);

	if (!c || !c->qp)
		return;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		broken(c, wc);
	} else if (!(low & WR_RECV)) {
		if (slot < c->send_depth)
			sent(c, slot);
	} else if (slot < c->recv_depth) {
		received(c, slot, wc);
		if (c->state == CARRIER_READY && add_receive(c, slot))
			rdmamsg__carrier_lost(c, RDMAMSG_WHO_DEVICE,
					      RDMAMSG_CAUSE_TRANSPORT, -EIO,
					      "a receive of the group could "
					      "not be posted");
	}
}
