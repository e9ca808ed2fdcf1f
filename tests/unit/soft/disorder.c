/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of unacknowledged transports: duplicates and reordering. */
#include "soft/control/soft_ctl.h"
#include "soft/fabric/limits.h"
#include "soft/soft.h"
#include "pair.h"
#include "../own_fabric.h"

#define QKEY	0x1111u

static const union ibv_gid group = {
	.raw = { 0xff, 0x12, 0x40, 1, 0xff, 0xff, [14] = 8, [15] = 2 },
};

static struct soft_ctl *ctl;
static struct ibv_cq *rcq;
static struct ibv_ah *ah;

static int setup(enum ibv_qp_type type)
{
	if (open_device(NULL) || soft_ctl_open(NULL, &ctl))
		return -1;
	rcq = soft_create_cq(c, 256, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = rcq, .qp_type = type,
			.cap = { 64, 64, 4, 4, 64 },
		};

		qp[i] = soft_create_qp(pd, &init);
		if (!qp[i])
			return -1;
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = {
			.port_num = 1, .qkey = QKEY, .qp_access_flags = 0,
			.path_mtu = IBV_MTU_4096,
			.dest_qp_num = qp[!i]->qp_num,
		};

		if (qp_walk(soft_modify_qp, qp[i], &a, IBV_QPS_RTS))
			return -1;
	}
	return 0;
}

static int setup_uc(void **state)
{
	return setup(IBV_QPT_UC);
}

static int setup_ud(void **state)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1, .dlid = 0xc001,
		.grh = { .dgid = group, .hop_limit = 1 },
	};

	if (setup(IBV_QPT_UD))
		return -1;
	ah = soft_create_ah(pd, &a);
	return ah && !soft_attach_mcast(qp[1], &group, 0xc001) ? 0 : -1;
}

static int teardown(void **state)
{
	if (qp[1]->qp_type == IBV_QPT_UD) {
		assert_int_equal(soft_detach_mcast(qp[1], &group, 0xc001), 0);
		assert_int_equal(soft_destroy_ah(ah), 0);
	}
	destroy_pair();
	assert_int_equal(soft_destroy_cq(rcq), 0);
	soft_ctl_close(ctl);
	return close_device(state);
}

static void set(struct soft_ctl_faults f)
{
	assert_int_equal(soft_ctl_faults(ctl, qp[0]->qp_num >> SOFT_QPN_BITS,
					 &f), 0);
}

/* n at once, so that each knows its successor; numbered in imm_data. */
static void send_all(uint32_t n, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr wr[16], *bad;

	for (uint32_t i = 0; i < n; i++) {
		wr[i] = (struct ibv_send_wr){
			.wr_id = i, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = i,
			.send_flags = IBV_SEND_SIGNALED,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
		};
		if (qp[0]->qp_type != IBV_QPT_UD)
			continue;
		wr[i].wr.ud.ah = ah;
		wr[i].wr.ud.remote_qpn = 0xffffff;
		wr[i].wr.ud.remote_qkey = QKEY;
	}
	for (uint32_t i = 0; i < 2 * n; i++)
		assert_int_equal(post_recv(qp[1], i, SIZE), 0);
	assert_int_equal(ibv_post_send(qp[0], wr, &bad), 0);
	/* whatever becomes of them, they have left once, and in order */
	for (uint32_t i = 0; i < n; i++)
		expect(i, IBV_WC_SUCCESS);
}

static void arrived(uint32_t number)
{
	struct ibv_wc wc = next(rcq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, number);
}

static void nothing_more(void)
{
	struct ibv_wc wc;

	/* requests on the own wire are in order: nothing is behind the last */
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ibv_poll_cq(rcq, 1, &wc), 0);
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	}
}

static void duplicated(uint32_t len)
{
	set((struct soft_ctl_faults){ .duplicate = 1000000 });
	send_all(8, len);
	for (uint32_t i = 0; i < 8; i++) {
		arrived(i);
		arrived(i);
	}
	nothing_more();
}

static void reordered(uint32_t len)
{
	set((struct soft_ctl_faults){ .reorder = 1000000 });
	send_all(8, len);
	for (uint32_t i = 0; i < 8; i += 2) {
		arrived(i + 1);
		arrived(i);
	}
	nothing_more();
}

static void uc__all_duplicated_EACH_TWICE(void **state)
{
	duplicated(100);
}

static void uc__of_many_segments_duplicated_EACH_TWICE(void **state)
{
	duplicated(SIZE);
}

static void uc__all_reordered_IN_PAIRS(void **state)
{
	reordered(100);
}

static void uc__of_many_segments_reordered_IN_PAIRS(void **state)
{
	reordered(SIZE);
}

static void uc__nobody_to_overtake_it_ARRIVES_ALL_THE_SAME(void **state)
{
	set((struct soft_ctl_faults){ .reorder = 1000000 });
	send_all(1, 100);
	arrived(0);
	nothing_more();
}

static void group__all_duplicated_EACH_TWICE(void **state)
{
	duplicated(100);
}

static void group__all_reordered_IN_PAIRS(void **state)
{
	reordered(100);
}

/*
 * Sends 16 messages with duplication. Each arrives at least once, in order.
 * Returns the set of those that arrived twice, which depends on the seed only.
 */
static uint32_t some_duplicated(uint32_t seed)
{
	uint32_t twice = 0, last = UINT32_MAX;
	struct ibv_wc wc;

	set((struct soft_ctl_faults){ .duplicate = 500000, .seed = seed });
	send_all(16, 8);
	for (uint32_t seen = 0; seen < 16;) {
		wc = next(rcq);
		if (wc.imm_data == last) {
			twice |= 1u << last;
			continue;
		}
		assert_int_equal(wc.imm_data, seen);
		last = seen++;
	}
	/* the last one's second, if there is one */
	for (int i = 0; i < 100; i++)
		if (ibv_poll_cq(rcq, 1, &wc) == 1)
			twice |= 1u << 15;
	return twice;
}

static void uc__some_duplicated_NEITHER_NONE_NOR_ALL(void **state)
{
	uint32_t twice = some_duplicated(3);

	assert_int_not_equal(twice, 0);
	assert_int_not_equal(twice, 0xffff);
}

#define UC(fn) cmocka_unit_test_setup_teardown(fn, setup_uc, teardown)
#define UD(fn) cmocka_unit_test_setup_teardown(fn, setup_ud, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		UC(uc__all_duplicated_EACH_TWICE),
		UC(uc__of_many_segments_duplicated_EACH_TWICE),
		UC(uc__all_reordered_IN_PAIRS),
		UC(uc__of_many_segments_reordered_IN_PAIRS),
		UC(uc__nobody_to_overtake_it_ARRIVES_ALL_THE_SAME),
		UD(group__all_duplicated_EACH_TWICE),
		UD(group__all_reordered_IN_PAIRS),
		UC(uc__some_duplicated_NEITHER_NONE_NOR_ALL),
	};

	join_own_fabric("disorder");
	return cmocka_run_group_tests_name("soft_disorder", tests, NULL, NULL);
}
