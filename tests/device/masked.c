/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics: operands of 4 to 32 bytes. On devices that cannot be asked
 * for them, these cases check nothing.
 */
#include "config.h"
#include "operand.h"

#include "base/masked.h"

#define ONES	UINT64_MAX
#define TOP	(1ull << 63)

static struct masked_caps caps;

static bool reports_masked(void)
{
	caps.sizes = 0;
	if (v->query_masked)
		v->query_masked(ctx, &caps);
	return caps.sizes;
}

static bool have_masked(void)
{
	return has(MASKED_ATOMICS, reports_masked());
}

uint32_t masked_sizes(bool *ret_swapped)
{
	(void)reports_masked();
	*ret_swapped = caps.swapped;
	return caps.sizes;
}

/* Opens the device again, with these atomics. */
static void open_with(const char *atomics)
{
	(void)setenv("RDMAMSG_SOFT_ATOMICS", atomics, 1);
	device_close();
	device_open("soft0");
}

static int try_masked(uint64_t id, struct request *r, const struct masked *m)
{
	r->wr.wr_id = id;
	r->wr.sg_list = r->sge;
	return v->post_masked(end[0].qp, &r->wr, m);
}

/* A request for the operand at the beginning of the memory of end 1. */
static struct request masked_request(uint32_t bytes)
{
	return request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, bytes);
}

static void execute(const struct masked *m)
{
	struct request r = masked_request(m->size);
	struct ibv_wc wc;

	check_call(try_masked(1, &r, m), 0);
	wc = sent(0, 1, IBV_WC_SUCCESS);
	check_is(wc.opcode, IBV_WC_DRIVER2);
	check_is(wc.byte_len, m->size);
	if (caps.swapped)
		masked_swap_bytes(end[0].mem, m->size);
}

static void swaps(void)
{
	const uint64_t before[] = { 0x11223344, 2, 3, 0x4444444444444444 };
	const uint64_t after[] = { 0x1122ff44, 0x8000000000000002, 3,
				   0x4444444444444499 };
	struct masked m = {
		.kind = MASKED_SWAP, .value = { 0xffff, TOP | 1, 7, 0x7799 },
		.mask = { 0xff00, TOP, 0, 0xff },
		.expected = { 0x11000000, 2, 9, 0x4444444444444444 },
		.compare = { 0xff000000, ONES, 0, ONES },
	};

	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		set_operand(m.size, before);
		execute(&m);
		check_operand(m.size, before, after);
	}
}

static void masked_swap__equal_bits_SWAPS_BITS(void)
{
	if (!have_masked())
		return;
	check_is(caps.sizes, 4 | 8 | 16 | 32);
	check_is(caps.max_field, 8);
	pair();
	swaps();
}

/* One different bit in any word keeps all words. */
static void masked_swap__other_bits_KEEPS(void)
{
	const uint64_t before[] = { 0x11223344, 2, 3, 4 };
	struct masked m = {
		.kind = MASKED_SWAP, .value = { ONES, ONES, ONES, ONES },
		.mask = { ONES, ONES, ONES, ONES },
		.compare = { 0xffffffff, ONES, ONES, ONES },
	};

	if (!have_masked())
		return;
	pair();
	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		for (uint32_t i = 0; i < masked_words(m.size); i++) {
			memcpy(m.expected, before, sizeof(before));
			m.expected[i] ^= 1u << 31;
			set_operand(m.size, before);
			execute(&m);
			check_operand(m.size, before, before);
		}
	}
}

static void adds(void)
{
	const uint64_t before[] = { 0xff80ff01, ONES, 5, ONES };
	const uint64_t after[] = { 0x00000002, 6, 5, 0xffffffff00000000 };
	struct masked m = {
		.kind = MASKED_ADD, .value = { 0x01800101, 7, 0, 1 },
		.mask = { 0x80808080 | TOP, TOP, TOP, TOP | 1u << 31 },
	};

	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		set_operand(m.size, before);
		execute(&m);
		check_operand(m.size, before, after);
	}
}

static void masked_add__fields_CARRY_NOT(void)
{
	if (!have_masked())
		return;
	pair();
	adds();
}

/* Each word of an answer is in the byte order that the device reports. */
static void masked__answers_big_endian_AS_REPORTED(void)
{
	if (!have_masked())
		return;
	check(!caps.swapped);
	open_with("big-endian");
	check(have_masked());
	check(caps.swapped == (BYTE_ORDER == LITTLE_ENDIAN));
	pair();
	swaps();
	adds();
}

static void masked__device_has_none_EINVAL(void)
{
	const struct masked m = { .size = 8 };
	struct request r;

	if (!have_masked())
		return;
	open_with("plain");
	check(!reports_masked());
	pair();
	r = masked_request(8);
	check_call(try_masked(1, &r, &m), EINVAL);
	quiet();
}

static void masked__many_with_plain_ADD_UP(void)
{
	const struct masked m = {
		.size = 8, .kind = MASKED_ADD, .value = { 1 },
		.mask = { 1ull << 31 | TOP },
	};
	struct request r;

	if (!have_masked())
		return;
	how.depth = 2;
	pair();
	for (uint64_t i = 0; i < 48; i += 2) {
		r = masked_request(8);
		r.sge[0].addr += 8 * i;
		check_call(try_masked(i, &r, &m), 0);
		r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i + 1, 8);
		r.sge[0].addr += 8 * (i + 1);
		r.wr.wr.atomic.compare_add = 1;
		post(0, &r);
	}
	for (uint64_t i = 0; i < 48; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	check_is(*(uint64_t *)(void *)end[1].mem, 48);
	for (uint64_t i = 0; i < 48 && !caps.swapped; i++)
		check_is(((uint64_t *)(void *)end[0].mem)[i], i);
	quiet();
}

/* A fenced write behind it sends the answer. */
static void masked__fence_behind_SENDS_WHAT_CAME(void)
{
	const struct masked m = {
		.size = 32, .kind = MASKED_ADD, .mask = { TOP, TOP, TOP, TOP },
	};
	struct request r;

	if (!have_masked())
		return;
	pair();
	fill(1, 5);
	r = masked_request(32);
	r.wr.send_flags = 0;
	check_call(try_masked(1, &r, &m), 0);
	r = request(IBV_WR_RDMA_WRITE, 2, 32);
	aim(&r, (uintptr_t)end[1].mem + 4096, end[1].mr->rkey);
	r.wr.send_flags |= IBV_SEND_FENCE;
	post(0, &r);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	quiet();
	if (!caps.swapped)
		check(!memcmp(end[1].mem, end[1].mem + 4096, 32));
}

/* ---- refused ---------------------------------------------------------- */

static void masked__not_aligned_REM_INV_REQ_ERR(void)
{
	struct masked m = { .kind = MASKED_SWAP };

	if (!have_masked())
		return;
	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		struct request r;

		pair();
		r = masked_request(m.size);
		aim(&r, (uintptr_t)end[1].mem + m.size / 2, end[1].mr->rkey);
		check_call(try_masked(1, &r, &m), 0);
		(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
		check_state(end[0].qp, IBV_QPS_ERR);
	}
}

static void fails(uint64_t offset, enum ibv_wc_status status)
{
	const struct masked m = { .size = 32, .mask = { ONES } };
	struct request r = masked_request(32);

	aim(&r, (uintptr_t)end[1].mem + offset, end[1].mr->rkey);
	check_call(try_masked(1, &r, &m), 0);
	(void)sent(0, 1, status);
	check(!*(uint64_t *)(void *)end[1].mem);
}

static void masked__outside_of_the_region_REM_ACCESS_ERR(void)
{
	if (!have_masked())
		return;
	pair();
	fails(MEM, IBV_WC_REM_ACCESS_ERR);
}

static void masked__region_without_atomics_REM_ACCESS_ERR(void)
{
	if (!have_masked())
		return;
	how.mr_access &= ~IBV_ACCESS_REMOTE_ATOMIC;
	pair();
	fails(0, IBV_WC_REM_ACCESS_ERR);
}

static void masked__queue_pair_without_atomics_REM_INV_REQ_ERR(void)
{
	if (!have_masked())
		return;
	how.qp_access &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
	pair();
	fails(0, IBV_WC_REM_INV_REQ_ERR);
}

static void refused(const struct masked *m, uint32_t len, unsigned int flags)
{
	struct request r = masked_request(len);

	r.wr.send_flags |= flags;
	check_call(try_masked(1, &r, m), EINVAL);
}

static void post_masked__bad_request_EINVAL(void)
{
	struct masked m = { .kind = MASKED_ADD, .mask = { 0, TOP, TOP, TOP } };

	if (!have_masked())
		return;
	pair();
	for (m.size = 0; m.size <= 64; m.size++)
		if (m.size < 4 || m.size > 32 || m.size & (m.size - 1))
			refused(&m, m.size, 0);
	/* a field of more than 8 bytes */
	m.size = 16;
	refused(&m, 16, 0);
	m.mask[0] = TOP;
	refused(&m, 15, 0);
	refused(&m, 17, 0);
	refused(&m, 16, IBV_SEND_INLINE);
	m.kind = 2;
	refused(&m, 16, 0);
	quiet();
	check_state(end[0].qp, IBV_QPS_RTS);
}

static void post_masked__queue_full_ENOMEM(void)
{
	const struct masked m = { .size = 8 };
	struct request r;
	uint32_t n = 0;
	int ret = 0;

	if (!have_masked())
		return;
	how.retry_cnt = 7;
	pair();
	/* without a posted receive, the Send and all behind it wait */
	r = request(IBV_WR_SEND, 0, 8);
	post(0, &r);
	while (!ret && n < 100000) {
		r = masked_request(8);
		ret = try_masked(n, &r, &m);
		n += !ret;
	}
	check(n + 1 >= end[0].cap.max_send_wr);
	check_is(ret, ENOMEM);
}

const struct device_case masked_cases[] = {
	CASE(masked_swap__equal_bits_SWAPS_BITS),
	CASE(masked_swap__other_bits_KEEPS),
	CASE(masked_add__fields_CARRY_NOT),
	CASE(masked__answers_big_endian_AS_REPORTED),
	CASE(masked__device_has_none_EINVAL),
	CASE(masked__many_with_plain_ADD_UP),
	CASE(masked__fence_behind_SENDS_WHAT_CAME),
	CASE(masked__not_aligned_REM_INV_REQ_ERR),
	CASE(masked__outside_of_the_region_REM_ACCESS_ERR),
	CASE(masked__region_without_atomics_REM_ACCESS_ERR),
	CASE(masked__queue_pair_without_atomics_REM_INV_REQ_ERR),
	CASE(post_masked__bad_request_EINVAL),
	CASE(post_masked__queue_full_ENOMEM),
	{ .name = NULL },
};
