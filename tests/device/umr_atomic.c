/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations through indirect keys, plain and masked. */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#ifndef CONFORM_INSTALLED
#include "base/masked.h"
#endif
#include "umr.h"

static void umr_atomic__device_supports_it(void)
{
	if (!has_umr())
		skip_rest("libmlx5 does not support the device");
}

static uint64_t *word_of(uint32_t at)
{
	return (uint64_t *)(void *)(end[1].mem + at);
}

/* A key of blocks of 16, 12, 12 and 8 bytes. The last is in another key. */
static struct mlx5dv_mkey *words(uint32_t access)
{
	struct mlx5dv_mkey *k = new_mkey(), *inner = new_mkey();
	struct ibv_sge one = piece(1, 512, 8), sge[] = {
		piece(1, 64, 16), piece(1, 136, 12), piece(1, 256, 12),
		{ 0, 8, inner->lkey },
	};

	set_list(inner, ALL, 1, &one);
	set_list(k, access, 4, sge);
	return k;
}

/* Of the words in a block, also in one of a key in the key. */
static void atomic__inside_of_a_block_DONE(void)
{
	static const uint32_t at[] = { 0, 64, 8, 72, 40, 512 };
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	k = words(ALL);
	clear(1);
	for (uint64_t i = 0; i < 6; i += 2) {
		struct request r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 8);

		*word_of(at[i + 1]) = 10 + i;
		r.wr.wr.atomic.compare_add = 5;
		aim(&r, at[i], k->rkey);
		post(0, &r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		check_is(*(uint64_t *)(void *)end[0].mem, 10 + i);
		check_is(*word_of(at[i + 1]), 15 + i);
	}
}

static void atomic_refused(uint64_t addr, uint32_t rkey,
			   enum ibv_wc_status status)
{
	struct request r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 9, 8);

	clear(1);
	r.wr.wr.atomic.compare_add = UINT64_MAX;
	aim(&r, addr, rkey);
	post(0, &r);
	(void)sent(0, 9, status);
	for (uint32_t i = 0; i < 1024; i++)
		check_is(end[1].mem[i], 0);
}

static void atomic__across_blocks_REFUSED(void)
{
	pair();
	umr_open();
	atomic_refused(24, words(ALL)->rkey, IBV_WC_REM_ACCESS_ERR);
}

/* An aligned address of the key is memory that is not. */
static void atomic__memory_not_aligned_REM_INV_REQ_ERR(void)
{
	pair();
	umr_open();
	atomic_refused(32, words(ALL)->rkey, IBV_WC_REM_INV_REQ_ERR);
}

static void atomic__key_without_the_right_REFUSED(void)
{
	pair();
	umr_open();
	atomic_refused(0, words(ALL & ~IBV_ACCESS_REMOTE_ATOMIC)->rkey,
		       IBV_WC_REM_ACCESS_ERR);
}

/* Sources do not tell what a card does. The soft HCA is strict. */
static void atomic__memory_without_the_right_REFUSED(void)
{
	if (strncmp(v->get_device_name(ctx->device), "soft", 4))
		return;
	how.mr_access &= ~IBV_ACCESS_REMOTE_ATOMIC;
	pair();
	umr_open();
	atomic_refused(0, words(ALL)->rkey, IBV_WC_REM_ACCESS_ERR);
}

#ifndef CONFORM_INSTALLED	/* libibverbs has no call for 16 bytes */

/* Masked atomics of the size of a block, and larger than one. */
static void masked__in_blocks_AS_PLAIN_ONES(void)
{
	const struct masked m = {
		.size = 16, .kind = MASKED_ADD, .value = { 1, 2 },
		.mask = { 1ull << 63, 1ull << 63 },
	};
	struct mlx5dv_mkey *k;
	struct request r;

	if (!v->post_masked)
		return;
	pair();
	umr_open();
	k = words(ALL);
	clear(1);
	for (uint64_t at = 0; at <= 16; at += 16) {
		r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, at, 16);
		r.wr.sg_list = r.sge;
		r.wr.wr_id = at;
		aim(&r, at, k->rkey);
		check_call(v->post_masked(end[0].qp, &r.wr, &m), 0);
		(void)sent(0, at, at ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	}
	check_is(*word_of(64), 1);
	check_is(*word_of(72), 2);
}

#endif

const struct device_case umr_atomic_cases[] = {
	GATE(umr_atomic__device_supports_it),
	CASE(atomic__inside_of_a_block_DONE),
	CASE(atomic__across_blocks_REFUSED),
	CASE(atomic__memory_not_aligned_REM_INV_REQ_ERR),
	CASE(atomic__key_without_the_right_REFUSED),
	CASE(atomic__memory_without_the_right_REFUSED),
#ifndef CONFORM_INSTALLED
	CASE(masked__in_blocks_AS_PLAIN_ONES),
#endif
	{ .name = NULL },
};

#endif
