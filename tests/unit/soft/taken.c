/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of iWARP that have completed, and are in the send queue for the sake
 * of others: their memory is the program's again.
 */
#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "iwarp.h"

static struct soft_dev *dev;

/* The peer has got no request behind those that it has answered. */
static void lose_the_rest(void)
{
	struct soft_qp *asks = soft_qp(qp[0]);
	const struct soft_rec lost = {
		.op = SOFT_NAK, .code = SOFT_NAK_LOST, .aux = asks->tries,
	};

	soft_lock(dev);
	soft_req_answer(dev, asks, &lost, NULL);
	soft_unlock(dev);
}

/* The peer answers reads as late as the test wants. */
static void reads_wait(bool yes)
{
	struct soft_qp *asked = soft_qp(qp[1]);

	soft_lock(dev);
	asked->reads_late = yes;
	if (!yes)
		soft_qp_pend(dev, asked);
	soft_unlock(dev);
}

static void read_waits(void)
{
	reads_wait(true);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 1, 8,
			      (uintptr_t)mem[1] + LEN, mr[1]->rkey), 0);
}

static void answered__behind_a_read_NOT_REPEATED(void **state)
{
	uint8_t *gone = malloc(LEN);
	struct ibv_mr *of_it;
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	dev = soft_dev_of(c);
	assert_non_null(gone);
	of_it = soft_reg_mr(pd, gone, LEN, ALL);
	assert_non_null(of_it);
	sge = (struct ibv_sge){ (uintptr_t)gone, LEN, of_it->lkey };
	fill(7);
	memcpy(gone, mem[0], LEN);
	assert_int_equal(post_recv(qp[1], 20, LEN), 0);
	assert_int_equal(post_recv(qp[1], 21, LEN), 0);
	read_waits();
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	expect(2, IBV_WC_SUCCESS);
	has_arrived(20, 7);
	assert_int_equal(soft_dereg_mr(of_it), 0);
	free(gone);

	lose_the_rest();
	reads_wait(false);
	expect(1, IBV_WC_SUCCESS);
	fill(9);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 3, LEN, 0, 0), 0);
	has_arrived(21, 9);
	expect(3, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IWARP(answered__behind_a_read_NOT_REPEATED),
	};

	/* no request completes before it is answered */
	join_iwarp("taken", "0");
	return cmocka_run_group_tests_name("soft_taken", tests, NULL, NULL);
}
