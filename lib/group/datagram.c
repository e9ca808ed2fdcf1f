/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of a carrier: receives, requests and their completions. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/util.h"
#include "device/early.h"
#include "device/verbs_api.h"
#include "group/carrier.h"
#include "group/group.h"
#include "session/send.h"

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

/*
 * wr_id: the key, 1 bit for receives, 10 bits of the carrier's index, 21 bits:
 * the slot of a receive, or the low bits of a request's number. A request that
 * completes once more, because a call was ahead of the loop, is told by it.
 */
#define WR_RECV		0x80000000u
#define WR_INDEX	21
#define WR_LOW		((1u << WR_INDEX) - 1)
/* of no receive: calls have left something to the loop */
#define WR_LEFT		(WR_RECV | WR_LOW)
/*
 * A device that has done with datagrams at once never ends a callback that
 * publishes until it is refused, so this number in a round does. It is less
 * than the numbers that WR_LOW tells apart.
 */
#define ROUND_MAX	(1u << 17)

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
		.wr_id = wr_id(c, c->sent & WR_LOW), .sg_list = &sge, .num_sge = 1,
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
	if (!((slot + 1) & (every - 1)) || to->signaled)
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

/*
 * After requests have completed. A group that sends copies may need more room
 * than there is, and then waits for the next completions.
 */
static void go_on(struct carrier *c)
{
	uint32_t turns = 0;
	struct list *n;

	if (unlikely(!list_empty(&c->old_ahs)))
		rdmamsg__carrier_old_ahs(c, false);
	if (unlikely(!list_empty(&c->draining)))
		drain(c);
	list_for_each(n, &c->waiting)
		turns++;
	/* a callback may leave any group, but the carrier stays for now */
	while (turns-- && !list_empty(&c->waiting) &&
	       rdmamsg__carrier_room(c)) {
		struct rdmamsg_group *g = list_first(&c->waiting,
						     struct rdmamsg_group,
						     wait_node);

		list_del(&g->wait_node);
		rdmamsg__group_writable(g);
	}
}

/*
 * Returns the number of requests that have completed when the one of this
 * number has. No more than are outstanding: it was counted before.
 */
static uint32_t done_with(const struct carrier *c, uint32_t number)
{
	const uint32_t count = ((number - c->done) & WR_LOW) + 1;

	return likely(count <= c->sent - c->done) ? c->done + count : c->done;
}

static void sent(struct carrier *c, uint32_t number)
{
	const uint32_t to = done_with(c, number);

	if (to == c->done)
		return;
	/* on_sent may get ahead: rdmamsg__carrier_early() */
	while ((int32_t)(to - c->done) > 0)
		request_done(c);
	go_on(c);
}

static struct rdmamsg_group *untold(const struct carrier *c)
{
	struct list *n;

	list_for_each(n, &c->groups) {
		struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, node);

		if (g->untold_count)
			return g;
	}
	return NULL;
}

/* Does what sent_early() has left. */
static void take_rest(struct carrier *c)
{
	const uint32_t to = c->left_to;
	struct rdmamsg_group *g;

	c->leaves = c->left = false;
	/* a callback may end any group */
	while ((g = untold(c)))
		rdmamsg__group_tell_sent(g);
	while ((int32_t)(to - c->done) > 0)
		request_done(c);
	go_on(c);
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

static struct carrier *carrier_of(struct rdmamsg *ctx,
				  const struct ibv_wc *wc)
{
	const uint32_t low = (uint32_t)wc->wr_id;

	return rdmamsg__handle_of(&ctx->groups->table,
				  (low & ~WR_RECV) >> WR_INDEX);
}

void rdmamsg__carrier_done(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	uint32_t low = (uint32_t)wc->wr_id;
	struct carrier *c = carrier_of(ctx, wc);
	uint32_t slot = low & WR_LOW;

	if (!c || !c->qp)
		return;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		broken(c, wc);
	} else if (!(low & WR_RECV)) {
		sent(c, slot);
	} else if (slot < c->recv_depth) {
		received(c, slot, wc);
		if (c->state == CARRIER_READY && add_receive(c, slot))
			rdmamsg__carrier_lost(c, RDMAMSG_WHO_DEVICE,
					      RDMAMSG_CAUSE_TRANSPORT, -EIO,
					      "a receive of the group could "
					      "not be posted");
	} else if (slot == WR_LOW) {
		take_rest(c);
	}
}

/* ---- inside a call ----------------------------------------------------- */

/* Returns false if on_sent can be called only by the loop, before any other. */
static bool request_done_early(struct carrier *c)
{
	struct carrier_note *at = &c->notes[c->done & (c->send_depth - 1)];

	if (at->group && !rdmamsg__group_sent_early(at->group, at->message))
		return false;
	c->left |= at->group != NULL;
	at->group = NULL;
	c->done++;
	return true;
}

static bool is_left(const struct carrier *c)
{
	return c->left || c->done != c->left_to || !list_empty(&c->old_ahs) ||
	       !list_empty(&c->draining) || !list_empty(&c->waiting);
}

/* The loop gets a completion for what is left, unless it has one already. */
static void leave_rest(struct carrier *c, const struct ibv_wc *wc)
{
	struct ibv_wc left = *wc;

	if (c->leaves || !is_left(c))
		return;
	c->leaves = true;
	left.wr_id = wr_id(c, WR_LEFT);
	rdmamsg__early_keep(c->ctx, c->cq, &left);
}

static void sent_early(struct carrier *c, const struct ibv_wc *wc)
{
	const uint32_t to = done_with(c, (uint32_t)wc->wr_id & WR_LOW);

	if (to == c->done)
		return;
	if (!c->leaves || (int32_t)(to - c->left_to) > 0)
		c->left_to = to;
	while (c->done != to && request_done_early(c))
		;
	leave_rest(c, wc);
}

void rdmamsg__carrier_early(struct rdmamsg *ctx, struct cq *cq,
			    const struct ibv_wc *wc)
{
	struct carrier *c = carrier_of(ctx, wc);
	const bool is_sent = c && c->qp && wc->status == IBV_WC_SUCCESS &&
			     !(wc->wr_id & WR_RECV);

	if (is_sent && (cq || rdmamsg__early_reserve(c->cq)))
		sent_early(c, wc);
	else if (cq)
		rdmamsg__early_keep(ctx, cq, wc);
}

/* A round begins when the loop has taken what the one before has left. */
static bool in_bounds(struct carrier *c)
{
	if (!c->leaves)
		c->round_sent = c->sent;
	return c->sent - c->round_sent < ROUND_MAX;
}

static bool is_full(void *arg)
{
	return !rdmamsg__carrier_room(arg);
}

bool rdmamsg__carrier_make_room(struct carrier *c)
{
	if (!in_bounds(c))
		return false;
	c->left = true;
	rdmamsg__take_completions(c->ctx, c->cq, is_full, c);
	return !is_full(c);
}
