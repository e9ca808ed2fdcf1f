/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: queue pairs of XRC, and the shared receive queues of their
 * domain.
 */
#include "qp.h"

static void xrc__where_there_is_one_CONNECTS(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_XRC_SEND);
	struct rdmamsg_qp *a, *b;

	if (!test_on_soft()) {
		assert_error(rdmamsg_qp_create(ctx, &o, &a), -EOPNOTSUPP, "XRC");
		o.type = IBV_QPT_XRC_RECV;
		assert_error(rdmamsg_qp_create(ctx, &o, &a), -EOPNOTSUPP, "XRC");
		test_close(ctx);
		return;
	}
	a = make(ctx, &o);
	o.type = IBV_QPT_XRC_RECV;
	b = make(ctx, &o);
	introduce(a, b);
	test_close(ctx);
}

/* Sends through the domain's queue pair to one of its queues. */
static void send_to(struct rdmamsg_qp *q, const struct rdmamsg_xrc_srq *srq,
		    uint32_t imm)
{
	struct ibv_send_wr wr = {
		.wr_id = 6, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(imm),
		.qp_type.xrc.remote_srqn = xrc_verbs_of(srq).number,
	}, *bad;

	assert_int_equal(ibv_post_send(verbs_of(q).qp, &wr, &bad), 0);
	assert_int_equal(completion(verbs_of(q).send_cq).status,
			 IBV_WC_SUCCESS);
}

static void xrc__message_for_each_queue_of_a_domain_ARRIVES(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	const struct rdmamsg_xrcd_options xo = {
		.size = sizeof(xo), .device = test_device(),
	};
	const struct rdmamsg_xrc_srq_options so = {
		.size = sizeof(so), .context = ctx, .max_recv = 4,
	};
	struct rdmamsg_qp_options o = options(IBV_QPT_XRC_SEND);
	struct rdmamsg_xrc_srq *srq[3];
	struct rdmamsg_xrcd *x;
	struct rdmamsg_qp *a, *b;

	if (!test_on_soft()) {
		assert_error(rdmamsg_xrcd_open(ctx, &xo, &x), -EOPNOTSUPP,
			     "IBV_DEVICE_XRC");
		test_close(ctx);
		return;
	}
	assert_int_equal(rdmamsg_xrcd_open(ctx, &xo, &x), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;

		assert_int_equal(rdmamsg_xrc_srq_create(x, &so, &srq[i]), 0);
		assert_ptr_equal(xrc_verbs_of(srq[i]).srq->srq_context,
				 ctx);
		assert_int_equal(ibv_post_srq_recv(xrc_verbs_of(srq[i]).srq,
						   &wr, &bad), 0);
	}
	a = make(ctx, &o);
	o.type = IBV_QPT_XRC_RECV;
	o.xrcd = xrc_verbs_of(srq[0]).xrcd;
	b = make(ctx, &o);
	introduce(a, b);
	/* in another order than that of the queues */
	send_to(a, srq[2], 12);
	send_to(a, srq[0], 10);
	send_to(a, srq[1], 11);
	for (uint32_t i = 0; i < 3; i++) {
		struct ibv_wc wc = completion(xrc_verbs_of(srq[i]).cq);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(be32toh(wc.imm_data), 10 + i);
	}
	assert_error(rdmamsg_xrcd_close(x), -EBUSY, "shared receive queues");
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_xrc_srq_destroy(srq[i]), 0);
	assert_error(rdmamsg_xrcd_close(x), -EBUSY, "queue pairs");
	assert_int_equal(rdmamsg_qp_destroy(b), 0);
	assert_int_equal(rdmamsg_xrcd_close(x), 0);
	test_close(ctx);
}

static void xrc__wrong_options_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_xrcd_options xo = {
		.size = sizeof(xo), .device = test_device(),
		.file = "/nowhere/at/all",
	};
	struct rdmamsg_xrc_srq_options so = {
		.size = sizeof(so), .max_recv = 1u << 21,
	};
	struct rdmamsg_device_attr device = { .size = sizeof(device) };
	struct rdmamsg_xrc_srq *srq;
	struct rdmamsg_xrcd *x;

	assert_error(rdmamsg_xrcd_open(ctx, &xo, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_xrc_srq_create(NULL, NULL, &srq), -EINVAL, "NULL");
	if (!test_on_soft()) {
		test_close(ctx);
		return;
	}
	assert_error(rdmamsg_xrcd_open(ctx, &xo, &x), -ENOENT, "/nowhere");
	xo.file = NULL;
	assert_int_equal(rdmamsg_xrcd_open(ctx, &xo, &x), 0);
	assert_error(rdmamsg_xrc_srq_create(x, &so, &srq), -EINVAL, "max_recv");
	/* the smaller of both limits counts */
	assert_int_equal(rdmamsg_device_query(test_device(), &device), 0);
	so.max_recv = device.max_srq_wr < device.max_cqe ?
		      device.max_srq_wr + 1 : device.max_cqe + 1;
	assert_error(rdmamsg_xrc_srq_create(x, &so, &srq), -EINVAL,
		     "max_srq_wr and max_cqe");
	so.max_recv = 0;
	so.max_recv_sge = 1024;
	assert_error(rdmamsg_xrc_srq_create(x, &so, &srq), -EINVAL,
		     "max_srq_sge");
	/* the context closes what is left */
	assert_int_equal(rdmamsg_xrc_srq_create(x, NULL, &srq), 0);
	test_close(ctx);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc__where_there_is_one_CONNECTS),
		TEST(xrc__message_for_each_queue_of_a_domain_ARRIVES),
		TEST(xrc__wrong_options_EINVAL),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, NULL, argc, argv);
}
