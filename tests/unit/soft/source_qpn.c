/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams of the soft HCA as InfiniBand that have another source than their
 * queue pair. As RoCE, the device refuses to send such ones.
 */
#include "ud.h"

#define SOURCE	0x123456u

static struct ibv_qp *new_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = type, .pd = pd, .send_cq = cq, .recv_cq = cq,
		.cap = { 8, 8, 1, 1, 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_SOURCE_QPN, .source_qpn = SOURCE,
	};

	return soft_create_qp_ex(c, &a);
}

static struct ibv_ah *ah_to_self(void)
{
	struct ibv_ah_attr a = { .port_num = 1 };
	struct ibv_port_attr port;

	assert_int_equal(soft_query_port(c, 1, &port), 0);
	a.dlid = port.lid;
	return soft_create_ah(pd, &a);
}

static int send_from(struct ibv_qp *q, struct ibv_ah *ah, uint32_t to)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], 16, mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = &sge,
		.num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ah, to, QKEY },
	}, *bad;

	return ibv_post_send(q, &wr, &bad);
}

static void source__of_another_TOLD_AND_SENDS_ONLY(void **state)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], 100, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = 8, .sg_list = &sge, .num_sge = 1,
	};
	struct ibv_ah *ah = ah_to_self();
	struct ibv_qp *q = new_qp(IBV_QPT_UD);
	struct ibv_wc wc;

	assert_non_null(ah);
	assert_non_null(q);
	assert_int_equal(walk(q, 0), 0);
	assert_int_not_equal(q->qp_num, SOURCE);
	assert_int_equal(post_recv(1, 1, 100), 0);
	assert_int_equal(send_from(q, ah, qp[1]->qp_num), 0);
	expect(7, IBV_WC_SUCCESS);
	assert_int_equal(expect(1, IBV_WC_SUCCESS).src_qp, SOURCE);
	/* of the others, the source is their own */
	assert_int_equal(post_recv(1, 2, 100), 0);
	assert_int_equal(send_from(qp[0], ah, qp[1]->qp_num), 0);
	expect(7, IBV_WC_SUCCESS);
	assert_int_equal(expect(2, IBV_WC_SUCCESS).src_qp, qp[0]->qp_num);
	/* to it, datagrams are lost */
	assert_int_equal(ibv_post_recv(q, &wr, &bad), 0);
	assert_int_equal(send_from(qp[0], ah, q->qp_num), 0);
	expect(7, IBV_WC_SUCCESS);
	assert_int_equal(soft_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(soft_destroy_ah(ah), 0);
	assert_int_equal(soft_destroy_qp(q), 0);
}

static void source__of_other_types_EINVAL(void **state)
{
	assert_null(new_qp(IBV_QPT_RC));
	assert_int_equal(errno, EINVAL);
	assert_null(new_qp(IBV_QPT_UC));
	assert_int_equal(errno, EINVAL);
}

static void source__on_ethernet_EOPNOTSUPP(void **state)
{
	assert_null(new_qp(IBV_QPT_UD));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* A process has one fabric, so each link mode has a process. */
static int run(const char *link)
{
	const struct CMUnitTest ib[] = {
		cmocka_unit_test_setup_teardown(
			source__of_another_TOLD_AND_SENDS_ONLY, setup_ud,
			teardown),
		cmocka_unit_test_setup_teardown(
			source__of_other_types_EINVAL, setup_ud, teardown),
	};
	const struct CMUnitTest ethernet[] = {
		cmocka_unit_test_setup_teardown(
			source__on_ethernet_EOPNOTSUPP, setup_ud, teardown),
	};

	(void)setenv("RDMAMSG_SOFT_LINK", link, 1);
	join_own_fabric(link);
	return link[0] == 'i' ? cmocka_run_group_tests(ib, NULL, NULL) :
				cmocka_run_group_tests(ethernet, NULL, NULL);
}

int main(void)
{
	pid_t child = fork();
	int status = 1;

	if (!child)
		exit(run("ethernet") != 0);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	return run("ib") || status;
}
