/* SPDX-License-Identifier: BSD-2-Clause */
/* Behaviour of the soft HCA only. tests/device has the rest. */
#include "base/masked.h"
#include "pair.h"
#include "../own_fabric.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Registering finds a missing page, whether other pages are present or not. */
static void reg_mr__to_be_read_IS_LOOKED_AT(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *read;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(munmap(at + 2 * page, page), 0);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		assert_null(soft_reg_mr(pd, at, 3 * page,
					IBV_ACCESS_REMOTE_READ));
		assert_int_equal(errno, EFAULT);
		read = soft_reg_mr(pd, at, 2 * page, IBV_ACCESS_REMOTE_READ);
		assert_non_null(read);
		assert_int_equal(soft_dereg_mr(read), 0);
		memset(at, 1, 2 * page);
	}
	assert_int_equal(munmap(at, 2 * page), 0);
}

/* ---- a peer that cannot be reached ------------------------------------ */

static int to_rtr(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
		.dest_qp_num = q->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	return soft_modify_qp(q, &a, qp_step_mask(IBV_QPT_RC, IBV_QPS_RTR));
}

static void modify__to_RTR_without_a_descriptor_EMFILE(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp_attr a = { .port_num = 1 };
	struct ibv_qp *q = soft_create_qp(pd, &init);
	struct rlimit was, few;
	int ret;

	assert_non_null(q);
	assert_int_equal(qp_walk(soft_modify_qp, q, &a, IBV_QPS_INIT), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	few.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	ret = to_rtr(q);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(ret, EMFILE);
	assert_int_equal(state_of(q), IBV_QPS_INIT);
	assert_int_equal(to_rtr(q), 0);
	assert_int_equal(soft_destroy_qp(q), 0);
}

/* ---- atomics ---------------------------------------------------------- */

#define ADDS	20000u

static void *add_by_processor(void *word)
{
	for (uint32_t i = 0; i < ADDS; i++)
		(void)__atomic_fetch_add((uint64_t *)word, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* The processors add to the first word of the operand. */
static void masked__with_the_processors_NONE_IS_LOST(void **state)
{
	struct masked add = {
		.kind = MASKED_ADD, .value = { 1 }, .mask = { 1ull << 63 },
	};
	/* aligned for every size */
	const uint64_t at = ((uintptr_t)mem[1] + 31) & ~31ull;
	struct ibv_sge sge = { (uintptr_t)mem[0], 8, mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = at, .rkey = mr[1]->rkey },
	};
	uint64_t *word = (uint64_t *)(uintptr_t)at;
	pthread_t thread;

	for (add.size = 4; add.size <= MASKED_MAX; add.size *= 2) {
		sge.length = add.size;
		add.mask[1] = add.mask[2] = 1ull << 63;
		*word = 0;
		assert_int_equal(pthread_create(&thread, NULL, add_by_processor,
						word), 0);
		for (uint32_t i = 0; i < ADDS; i++) {
			assert_int_equal(soft_post_masked(qp[0], &wr, &add), 0);
			expect(1, IBV_WC_SUCCESS);
		}
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(*word, 2 * ADDS);
	}
}

static void atomics__with_the_processors_NONE_IS_LOST(void **state)
{
	uint64_t *word = (uint64_t *)mem[1];
	struct ibv_sge sge = { (uintptr_t)mem[0], 8, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {
			.remote_addr = (uintptr_t)mem[1], .compare_add = 1,
			.rkey = mr[1]->rkey,
		},
	};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add_by_processor, word),
			 0);
	for (uint32_t i = 0; i < ADDS; i++) {
		assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
		expect(1, IBV_WC_SUCCESS);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(*word, 2 * ADDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(reg_mr__to_be_read_IS_LOOKED_AT),
		PLAIN(modify__to_RTR_without_a_descriptor_EMFILE),
		PAIR(atomics__with_the_processors_NONE_IS_LOST),
		PAIR(masked__with_the_processors_NONE_IS_LOST),
	};

	join_own_fabric("soft");
	return cmocka_run_group_tests_name("soft", tests, NULL, NULL);
}
