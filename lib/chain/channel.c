/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/channel.h"

#include "base/base.h"
#include "base/util.h"
#include "chain/carry.h"
#include "chain/chain.h"
#include "device/cross.h"
#include "device/device.h"
#include "device/loopback.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "wire/team.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <infiniband/verbs.h>

#define ROOM		((size_t)CHANNEL_SLOTS * CHANNEL_FIRST)
#define WORD		sizeof(uint64_t)
#define BATCH		16
#define RNR_ENDLESS	7	/* the endpoint bounds the time */
#define RNR_TIMER	12	/* 0.64 ms */
#define PSN_MASK	0xffffffu

/* ---- parts of a channel, and of a run ---------------------------------- */

int rdmamsg__channel_cq(const struct dev *dev, uint32_t entries,
			struct ibv_cq **ret, uint32_t *number)
{
	const struct rdmamsg_device *d = dev->device;
	int err = rdmamsg__v_create_cq(d->v, d->verbs, (int)entries, NULL,
				       NULL, 0, ret);

	if (err)
		return rdmamsg__fail_verbs(err, "completion queue of a chain");
	return rdmamsg__cross_number(d, *ret, number);
}

void rdmamsg__channel_drop(const struct dev *dev, struct ibv_cq *cq)
{
	if (cq && rdmamsg__v_destroy_cq(dev->device->v, cq))
		log_error("device %s: a completion queue of a chain could not "
			  "be destroyed", dev->device->name);
}

int rdmamsg__channel_circle(const struct dev *dev, struct ibv_cq *cq,
			    uint32_t sends, struct cross *ret)
{
	static const enum ibv_qp_state steps[3] = {
		IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
	};
	const struct rdmamsg_device *d = dev->device;
	const struct cross_attr a = {
		.pd = dev->pd, .send_cq = cq, .recv_cq = cq,
		.cap = {
			.max_send_wr = sends, .max_recv_wr = 1,
			.max_send_sge = 2, .max_recv_sge = 1,
		},
	};
	struct oob path;
	int err = rdmamsg__loopback_path(d, 0, &path);

	if (!err)
		err = rdmamsg__cross_open(d, &a, ret);
	for (uint32_t i = 0; i < 3 && !err; i++)
		err = rdmamsg__loopback_step(d, ret->qp, &path,
					     ret->qp->qp_num, steps[i]);
	return err;
}

int rdmamsg__channel_memory(const struct dev *dev, size_t size, int access,
			    uint8_t **ret, struct ibv_mr **ret_mr)
{
	struct pages pages;
	void *mem = rdmamsg__pages_map(size, NULL, &pages);
	int err;

	if (mem == MAP_FAILED)
		return rdmamsg__fail(-ENOMEM, "no memory for %zu bytes", size);
	*ret = mem;
	err = rdmamsg__v_reg_mr(dev->device->v, dev->pd, mem, size, access,
				ret_mr);
	return err ? rdmamsg__fail_verbs(err, "memory of a chain") : 0;
}

void rdmamsg__channel_unmap(const struct dev *dev, uint8_t *mem, size_t size,
			    struct ibv_mr *mr)
{
	if (mr)
		(void)rdmamsg__v_dereg_mr(dev->device->v, mr);
	if (mem)
		(void)munmap(mem, size);
}

/* ---- opening ----------------------------------------------------------- */

static int check(const struct rdmamsg_ep *ep)
{
	if (!ep)
		return rdmamsg__fail(-ENOTCONN, "an endpoint has ended");
	if (ep->connect.features & (PROTO_FEATURE_RESUME | PROTO_FEATURE_PATH))
		return rdmamsg__fail(-EOPNOTSUPP, "an endpoint can move to "
				     "another path or device");
	if (ep->lane.dev->single)
		return rdmamsg__fail(-EOPNOTSUPP, "each endpoint has a "
				     "protection domain of its own");
	if (rdmamsg__is_iwarp(ep->lane.dev->device))
		return rdmamsg__fail(-EOPNOTSUPP, "iWARP has no cross-channel "
				     "queue pairs");
	return 0;
}

static int open_pair(struct channel *ch, uint32_t sends, uint32_t receives,
		     struct cross *ret)
{
	const struct cross_attr a = {
		.pd = ch->dev->pd, .send_cq = ch->send_cq,
		.recv_cq = ch->recv_cq,
		.cap = {
			.max_send_wr = sends, .max_recv_wr = receives,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};

	return rdmamsg__cross_open(ch->dev->device, &a, ret);
}

static int open_parts(struct channel *ch)
{
	int err = rdmamsg__channel_cq(ch->dev, CHANNEL_SENDS, &ch->send_cq,
				      &ch->send_num);

	if (!err)
		err = rdmamsg__channel_cq(ch->dev, CHANNEL_SLOTS, &ch->recv_cq,
					  &ch->recv_num);
	if (!err)
		err = open_pair(ch, CHANNEL_SENDS, 1, &ch->cross);
	if (!err)
		err = open_pair(ch, 1, CHANNEL_SLOTS, &ch->in);
	/* no peer may write there: it could guess the key */
	return err ? err : rdmamsg__channel_memory(ch->dev, ROOM,
						   IBV_ACCESS_LOCAL_WRITE,
						   &ch->slots, &ch->mr);
}

int rdmamsg__channel_open(struct chain_ep *end)
{
	int err = check(end->ep);
	struct channel *ch;
	struct dev *dev;

	if (err)
		return err;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return rdmamsg__fail(-ENOMEM, "no memory for a channel");
	dev = end->ep->lane.dev;
	err = rdmamsg__dev_get(dev->ctx, dev->device->v, dev->device->name,
			       dev->owner, &ch->dev);
	if (err) {
		free(ch);
		return err;
	}
	end->channel = ch;
	err = open_parts(ch);
	if (err)
		rdmamsg__channel_close(end);
	return err;
}

void rdmamsg__channel_stop(struct channel *ch)
{
	rdmamsg__cross_close(ch->dev->device, &ch->cross);
	rdmamsg__cross_close(ch->dev->device, &ch->in);
}

void rdmamsg__channel_close(struct chain_ep *end)
{
	struct channel *ch = end->channel;

	if (!ch)
		return;
	end->channel = NULL;
	rdmamsg__carry_close(ch);
	rdmamsg__channel_stop(ch);
	rdmamsg__channel_drop(ch->dev, ch->send_cq);
	rdmamsg__channel_drop(ch->dev, ch->recv_cq);
	rdmamsg__channel_unmap(ch->dev, ch->slots, ROOM, ch->mr);
	rdmamsg__dev_put(ch->dev);
	free(ch);
}

/* ---- connecting -------------------------------------------------------- */

void rdmamsg__channel_offer(struct channel *ch, struct proto_team_meet *ret)
{
	if (getrandom(&ch->psn, sizeof(ch->psn), GRND_NONBLOCK) < 0)
		ch->psn = (uint32_t)rdmamsg__now_ms();
	ch->psn &= PSN_MASK;
	*ret = (struct proto_team_meet){
		.can = true, .qp_num = ch->cross.qp->qp_num, .psn = ch->psn,
		.recv_qp_num = ch->in.qp->qp_num,
	};
}

int rdmamsg__channel_refill(struct channel *ch)
{
	const uint32_t count = CHANNEL_SLOTS - (ch->posted - ch->used);
	struct ibv_recv_wr wr[CHANNEL_SLOTS], *bad;
	struct ibv_sge sge[CHANNEL_SLOTS];

	for (uint32_t i = 0; i < count; i++) {
		sge[i] = (struct ibv_sge){
			(uintptr_t)rdmamsg__channel_slot(ch, ch->posted + i),
			CHANNEL_FIRST, ch->mr->lkey,
		};
		wr[i] = (struct ibv_recv_wr){
			.sg_list = &sge[i], .num_sge = 1,
			.next = i + 1 < count ? &wr[i + 1] : NULL,
		};
	}
	ch->posted += count;
	return count ? rdmamsg__verbs_ret(ibv_post_recv(ch->in.qp, wr, &bad))
		     : 0;
}

/* Connects one of both to the peer's queue pair. */
static int walk(const struct channel *ch, struct ibv_qp *qp,
		struct ibv_qp_attr *a, const struct proto_team_meet *peer)
{
	const struct verbs_api *v = ch->dev->device->v;
	int err;

	a->qp_state = IBV_QPS_INIT;
	a->qp_access_flags = 0;
	err = rdmamsg__v_modify_qp(v, qp, a, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				   IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a->qp_state = IBV_QPS_RTR;
	a->dest_qp_num = qp == ch->in.qp ? peer->qp_num : peer->recv_qp_num;
	a->rq_psn = peer->psn;
	a->max_dest_rd_atomic = 0;
	a->min_rnr_timer = RNR_TIMER;
	if (!err)
		err = rdmamsg__v_modify_qp(v, qp, a, IBV_QP_STATE | IBV_QP_AV |
					   IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
	a->qp_state = IBV_QPS_RTS;
	a->sq_psn = ch->psn;
	a->rnr_retry = RNR_ENDLESS;
	a->max_rd_atomic = 0;
	if (!err)
		err = rdmamsg__v_modify_qp(v, qp, a, IBV_QP_STATE |
					   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

/* The channel has the path and the deadlines of the endpoint. */
int rdmamsg__channel_connect(const struct chain_ep *end,
			     const struct proto_team_meet *peer)
{
	struct channel *ch = end->channel;
	struct ibv_qp_attr attr;
	int err;

	if (!end->ep)
		return rdmamsg__fail(-ENOTCONN, "an endpoint has ended");
	err = rdmamsg__v_query_qp(ch->dev->device->v, end->ep->lane.hot.qp,
				  &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				  IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
	if (!err)
		err = walk(ch, ch->in.qp, &attr, peer);
	if (!err)
		err = rdmamsg__channel_refill(ch);
	if (!err)
		err = walk(ch, ch->cross.qp, &attr, peer);
	return err ? rdmamsg__fail(err, "connecting a channel: %s",
				   strerror(-err)) : 0;
}

/* ---- messages ---------------------------------------------------------- */

enum ibv_wc_status rdmamsg__channel_poll_sends(struct channel *ch)
{
	enum ibv_wc_status ret = IBV_WC_SUCCESS;
	struct ibv_wc wc[BATCH];
	int got;

	do {
		got = ibv_poll_cq(ch->send_cq, BATCH, wc);
		for (int i = 0; i < got; i++, ch->confirmed++)
			if (ret == IBV_WC_SUCCESS)
				ret = wc[i].status;
	} while (got == BATCH);
	return ret;
}

enum ibv_wc_status rdmamsg__channel_poll_receives(struct channel *ch)
{
	enum ibv_wc_status ret = IBV_WC_SUCCESS;
	struct ibv_wc wc[CHANNEL_SLOTS];
	const int got = ibv_poll_cq(ch->recv_cq, CHANNEL_SLOTS, wc);

	for (int i = 0; i < got; i++) {
		const uint32_t slot = ch->arrived++ % CHANNEL_SLOTS;

		if (ret == IBV_WC_SUCCESS)
			ret = wc[i].status;
		ch->got[slot].len = wc[i].byte_len;
		ch->got[slot].tag = be32toh(wc[i].imm_data);
	}
	return ret;
}

void rdmamsg__channel_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	uint64_t word;

	for (; len >= WORD; len -= WORD, to += WORD, from += WORD) {
		memcpy(&word, from, WORD);
		word = htobe64(word);
		memcpy(to, &word, WORD);
	}
	memcpy(to, from, len);
}

size_t rdmamsg__channel_len(const uint8_t *slot, uint32_t len)
{
	uint64_t all;

	if (len != CHANNEL_FIRST)
		return len;
	memcpy(&all, slot, sizeof(all));
	all = be64toh(all);
	/* a length for which no pieces are needed is none */
	return all > CHANNEL_BYTES ? all : len;
}
