/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of the program that exchange a message. For qp.c and qp_xrc.c. */
#ifndef RDMAMSG_TESTS_INTEGRATION_QP_H
#define RDMAMSG_TESTS_INTEGRATION_QP_H

#include "abilities.h"
#include "common.h"
#include "../verbs_of.h"

#include <rdmamsg/oob.h>
#include <rdmamsg/verbs.h>

static inline struct rdmamsg_qp_options options(enum ibv_qp_type type)
{
	return (struct rdmamsg_qp_options) {
		.size = sizeof(struct rdmamsg_qp_options), .type = type,
		.device = test_device(), .max_send = 16, .max_recv = 16,
		.max_inline = 32,
	};
}

static inline struct rdmamsg_qp *make(struct rdmamsg *ctx,
				      const struct rdmamsg_qp_options *o)
{
	struct rdmamsg_qp *q;

	if (rdmamsg_qp_create(ctx, o, &q))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
	return q;
}

static inline struct rdmamsg_qp_attr info(const struct rdmamsg_qp *q)
{
	struct rdmamsg_qp_attr i = { .size = sizeof(i) };

	assert_int_equal(rdmamsg_qp_query(q, &i), 0);
	return i;
}

static inline void introduce(struct rdmamsg_qp *a, struct rdmamsg_qp *b)
{
	uint8_t rec[2][RDMAMSG_OOB_MAX];
	int len[2] = {
		rdmamsg_qp_record(a, rec[0], sizeof(rec[0])),
		rdmamsg_qp_record(b, rec[1], sizeof(rec[1])),
	};

	assert_true(len[0] > 0 && len[1] > 0);
	if (rdmamsg_qp_connect(a, rec[1], (size_t)len[1]) ||
	    rdmamsg_qp_connect(b, rec[0], (size_t)len[0]))
		fail_msg("rdmamsg_qp_connect: %s", rdmamsg_error());
	assert_int_equal(info(a).state, IBV_QPS_RTS);
	assert_int_equal(info(b).peer_qp_num, info(a).qp_num);
	assert_true(info(a).mtu == info(b).mtu && info(a).mtu >= 256);
}

/* Posts a receive without memory, for immediate data only. */
static inline void post_receive(struct rdmamsg_qp *q)
{
	struct ibv_recv_wr wr = { .wr_id = 5 }, *bad;

	assert_int_equal(ibv_post_recv(verbs_of(q).qp, &wr, &bad), 0);
}

static inline void send_imm(struct rdmamsg_qp *q)
{
	struct ibv_send_wr wr = {
		.wr_id = 6, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(77),
	}, *bad;

	assert_int_equal(ibv_post_send(verbs_of(q).qp, &wr, &bad), 0);
}

static inline struct ibv_wc completion(struct ibv_cq *cq)
{
	uint64_t end = now_ms() + WAIT_MS;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		if (now_ms() > end)
			fail_msg("waited in vain for a completion");
	assert_int_equal(n, 1);
	return wc;
}

static inline void check_arrives(struct rdmamsg_qp *from, struct rdmamsg_qp *to)
{
	struct ibv_wc wc = completion(verbs_of(from).send_cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 6);
	wc = completion(verbs_of(to).recv_cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(be32toh(wc.imm_data), 77);
}

#endif
