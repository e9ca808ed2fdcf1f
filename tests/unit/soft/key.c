/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of the soft HCA: random, found, and invalid after deregistration. */
#include "soft/fabric/dev.h"
#include "soft/fabric/key.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"
#include "pair.h"
#include "../own_fabric.h"

#define KEYS	1000

static struct soft_dev *dev(void)
{
	return soft_dev_of(c);
}

/* ---- random ----------------------------------------------------------- */

/* Fair coins are further from half in one of 3 * 10^9 trials. */
#define FEWEST	(KEYS / 2 - 100)
#define MOST	(KEYS / 2 + 100)

static void check_bits(const uint32_t *keys)
{
	for (int bit = 0; bit < 32; bit++) {
		int ones = 0;

		for (int i = 0; i < KEYS; i++)
			ones += keys[i] >> bit & 1;
		if (ones < FEWEST || ones > MOST)
			fail_msg("bit %d is 1 in %d of %d keys", bit, ones,
				 KEYS);
	}
}

static void keys__of_regions_EACH_BIT_IS_RANDOM(void **state)
{
	static struct ibv_mr *all[KEYS];
	static uint32_t keys[KEYS];

	for (int i = 0; i < KEYS; i++) {
		all[i] = soft_reg_mr(pd, mem[0], 64, ALL);
		assert_non_null(all[i]);
		keys[i] = all[i]->rkey;
	}
	check_bits(keys);
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(soft_dereg_mr(all[i]), 0);
}

/* The keys of repeated registrations are random as well. */
static void keys__one_after_the_other_EACH_BIT_IS_RANDOM(void **state)
{
	static uint32_t keys[KEYS];

	for (int i = 0; i < KEYS; i++) {
		struct ibv_mr *m = soft_reg_mr(pd, mem[0], 64, ALL);

		assert_non_null(m);
		keys[i] = m->rkey;
		assert_int_equal(soft_dereg_mr(m), 0);
	}
	check_bits(keys);
}

static void keys__of_windows_EACH_BIT_IS_RANDOM(void **state)
{
	static struct ibv_mw *all[KEYS];
	static uint32_t keys[KEYS];

	for (int i = 0; i < KEYS; i++) {
		all[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		assert_non_null(all[i]);
		keys[i] = all[i]->rkey;
	}
	check_bits(keys);
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(ibv_dealloc_mw(all[i]), 0);
}

/* 0 or an errno: to all of mr[1]'s first bytes. */
static int bind_one(struct ibv_mw *mw, struct ibv_mr *m)
{
	struct ibv_mw_bind b = {
		.wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { m, (uintptr_t)mem[1], 64,
			       IBV_ACCESS_REMOTE_WRITE },
	};

	return ibv_bind_mw(qp[1], mw, &b);
}

static void keys__of_binds_EACH_BIT_IS_RANDOM(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	static uint32_t keys[KEYS];

	for (int i = 0; i < KEYS; i++) {
		assert_int_equal(bind_one(mw, mr[1]), 0);
		expect(3, IBV_WC_SUCCESS);
		keys[i] = mw->rkey;
	}
	check_bits(keys);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- found ------------------------------------------------------------ */

/* Returns a distinct pointer for entry i, which is never dereferenced. */
static struct soft_mr *entry(uint32_t i)
{
	return (struct soft_mr *)(uintptr_t)(0x1000 + i * 64);
}

static void check_all(const struct soft_keys *k, const uint32_t *live)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < KEYS; i++) {
		if (!live[i])
			continue;
		assert_ptr_equal(soft_key_region(k, live[i]), entry(i));
		n++;
	}
	assert_int_equal(k->count, n);
}

static void table__keys_come_and_go_ALL_ARE_FOUND(void **state)
{
	static uint32_t live[KEYS];
	struct soft_keys k = { .at = NULL };
	uint32_t old, seed = 1;

	assert_int_equal(soft_keys_init(&k), 0);
	for (uint32_t step = 0; step < 200 * KEYS; step++) {
		uint32_t i;

		seed = seed * 1664525u + 1013904223u;
		i = (seed >> 8) % KEYS;
		old = live[i];
		if (old) {
			soft_key_free(&k, old);
			live[i] = 0;
			assert_null(soft_key_region(&k, old));
		} else {
			assert_int_equal(soft_key_new(&k, entry(i), NULL,
						      &live[i]), 0);
		}
		if (!(step % KEYS))
			check_all(&k, live);
	}
	for (uint32_t i = 0; i < KEYS; i++)
		soft_key_free(&k, live[i]);
	for (uint32_t i = 0; i <= k.mask; i++)
		assert_int_equal(k.at[i].key, 0);
	assert_int_equal(k.count, 0);
	assert_null(soft_key_region(&k, 0));
	soft_keys_fini(&k);
}

/* ---- of binds that are not done --------------------------------------- */

static uint32_t count(void)
{
	uint32_t n;

	soft_lock(dev());
	n = dev()->keys.count;
	soft_unlock(dev());
	return n;
}

static void bind_mw__not_yet_done_REM_ACCESS_ERR(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	uint32_t before = count();

	enter(qp[1], IBV_QPS_SQD);
	assert_int_equal(bind_one(mw, mr[1]), 0);
	assert_int_equal(count(), before + 1);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mw->rkey), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next(cq);

		assert_int_equal(wc.status, wc.wr_id == 1 ?
				 IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	}
	expect_event(IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(count(), before);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(count(), before - 1);
}

static void bind_mw__comes_to_nothing_KEY_IS_FREED(void **state)
{
	struct ibv_mr *m = soft_reg_mr(pd, mem[1], 64,
				       ALL & ~IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	uint32_t before = count();

	/* refused when it is done, and when it is posted */
	assert_int_equal(bind_one(mw, m), 0);
	expect(3, IBV_WC_MW_BIND_ERR);
	assert_int_equal(count(), before);
	enter(qp[1], IBV_QPS_RESET);
	assert_int_equal(bind_one(mw, mr[1]), EINVAL);
	assert_int_equal(count(), before);
	/* still in the queue when that is reset */
	walk(qp[1], qp[0]->qp_num);
	enter(qp[1], IBV_QPS_SQD);
	assert_int_equal(bind_one(mw, mr[1]), 0);
	assert_int_equal(bind_one(mw, mr[1]), 0);
	assert_int_equal(count(), before + 2);
	enter(qp[1], IBV_QPS_RESET);
	assert_int_equal(count(), before);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(soft_dereg_mr(m), 0);
}

static void dealloc_mw__binds_in_the_queue_KEYS_ARE_FREED(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	uint32_t before = count();

	enter(qp[1], IBV_QPS_SQD);
	for (int i = 0; i < 8; i++)
		assert_int_equal(bind_one(mw, mr[1]), 0);
	assert_int_equal(count(), before + 8);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(count(), before - 1);
	assert_int_equal(soft_modify_qp(qp[1], &a, IBV_QP_STATE), 0);
	expect(3, IBV_WC_MW_BIND_ERR);
	for (int i = 1; i < 8; i++)
		expect(3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(count(), before - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(keys__of_regions_EACH_BIT_IS_RANDOM),
		PLAIN(keys__one_after_the_other_EACH_BIT_IS_RANDOM),
		PLAIN(keys__of_windows_EACH_BIT_IS_RANDOM),
		PAIR(keys__of_binds_EACH_BIT_IS_RANDOM),
		cmocka_unit_test(table__keys_come_and_go_ALL_ARE_FOUND),
		PAIR(bind_mw__not_yet_done_REM_ACCESS_ERR),
		PAIR(bind_mw__comes_to_nothing_KEY_IS_FREED),
		PAIR(dealloc_mw__binds_in_the_queue_KEYS_ARE_FREED),
	};

	join_own_fabric("key");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
