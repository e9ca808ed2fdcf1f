/* SPDX-License-Identifier: BSD-2-Clause */
/* An end of a connection between two hosts. */
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS	(2 * PEER_DEPTH)	/* receives, then sends */
#define ROOM	(SLOTS * sizeof(struct peer_message) + PEER_MEM)

struct peer_message *peer_slot(struct peer_end *e, unsigned int i)
{
	return (struct peer_message *)(void *)e->mem + i;
}

uint8_t *peer_data(struct peer_end *e)
{
	return (uint8_t *)peer_slot(e, SLOTS);
}

static struct ibv_sge slot_sge(struct peer_end *e, unsigned int i)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)peer_slot(e, i),
		.length = sizeof(struct peer_message), .lkey = e->mr->lkey,
	};
}

int peer_recv(struct peer_end *e, unsigned int i)
{
	struct ibv_sge sge = slot_sge(e, i);
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(e->id->qp, &wr, &bad);
}

int peer_send(struct peer_end *e, unsigned int i, uint64_t wr_id)
{
	struct ibv_sge sge = slot_sge(e, PEER_DEPTH + i);
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	return ibv_post_send(e->id->qp, &wr, &bad);
}

static int make_qp(struct peer_end *e)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = PEER_DEPTH, .max_recv_wr = PEER_DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return rdma_create_qp(e->id, e->pd, &attr);
}

static int open_all(struct peer_end *e)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	int ret = 0;

	e->mem = aligned_alloc(4096, (ROOM + 4095) / 4096 * 4096);
	e->pd = ibv_alloc_pd(e->id->verbs);
	e->cq = ibv_create_cq(e->id->verbs, 4 * PEER_DEPTH, NULL, NULL, 0);
	if (!e->mem || !e->pd || !e->cq)
		return -1;
	memset(e->mem, 0, ROOM);
	e->mr = ibv_reg_mr(e->pd, e->mem, ROOM, access);
	if (!e->mr || make_qp(e))
		return -1;
	for (unsigned int i = 0; i < PEER_DEPTH && !ret; i++)
		ret = peer_recv(e, i);
	return ret;
}

int peer_end_open(struct peer_end *e, struct rdma_cm_id *id)
{
	*e = (struct peer_end){ .id = id };
	if (!open_all(e))
		return 0;
	peer_end_close(e);
	return errno ? errno : EIO;
}

void peer_end_close(struct peer_end *e)
{
	if (e->id->qp)
		rdma_destroy_qp(e->id);
	if (e->mr)
		(void)ibv_dereg_mr(e->mr);
	if (e->cq)
		(void)ibv_destroy_cq(e->cq);
	if (e->pd)
		(void)ibv_dealloc_pd(e->pd);
	free(e->mem);
}
