/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: layouts as entries of indirect keys: the bytes of random layouts
 * are those of the model, and what the entries cannot describe is refused.
 */
#include "device/umr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/layout.h"

#include "../../layout_model.h"

#define LAYOUTS	10000u
#define ROOM	63u
#define APART	(1u << 20)	/* from a source to the next */

static struct layout_source source[MODEL_REGIONS];
static struct layout_group group[MODEL_LAYOUTS];
static struct layout_part part[MODEL_LAYOUTS * MODEL_PARTS];
static struct layout l = { .source = source, .group = group, .part = part };

static void set_sources(uint32_t n, uint64_t len)
{
	l.sources = n;
	for (uint32_t i = 0; i < n; i++)
		source[i] = (struct layout_source){
			.rkey = 100 + i, .addr = APART * (i + 1), .len = len,
		};
}

static void finish(void)
{
	uint32_t wrong;

	assert_null(rdmamsg__layout_check(&l, &wrong));
}

static void from_model(const struct model *m)
{
	set_sources(m->regions, MODEL_REGION);
	l.groups = m->layouts;
	l.parts = 0;
	for (uint32_t i = 0; i < m->layouts; i++) {
		const struct model_layout *from = &m->layout[i];

		group[i] = (struct layout_group){
			.parts = from->parts, .rounds = from->rounds,
		};
		for (uint32_t k = 0; k < from->parts; k++) {
			const struct model_part *p = &from->part[k];
			struct layout_part *to = &part[l.parts++];

			*to = (struct layout_part){
				.index = p->index, .nested = p->nested,
				.dims = (uint16_t)p->dims, .offset = p->offset,
				.len = p->len, .step = p->step,
			};
			memcpy(to->count, p->count, sizeof(to->count));
			memcpy(to->stride, p->stride, sizeof(to->stride));
		}
	}
	finish();
}

/* Checks that a block is at the model's byte n, and returns the next n. */
static uint32_t same(const struct model_layout *m, uint32_t n, uint64_t addr,
		     uint32_t lkey, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++, n++) {
		assert_true(n < m->len);
		assert_int_equal(lkey, 100 + m->at[n].region);
		assert_int_equal(addr + i, APART * (m->at[n].region + 1) +
				 m->at[n].offset);
	}
	return n;
}

static void random__layouts_BYTES_OF_THE_MODEL(void **state)
{
	static struct model m;
	static struct ibv_sge sge[MODEL_LEN];
	struct umr_block block[ROOM];
	uint32_t regular = 0;

	for (uint32_t seed = 0; seed < LAYOUTS; seed++) {
		const struct model_layout *want;
		uint32_t n, rounds, at = 0;

		model_make(&m, seed);
		want = model_last(&m);
		from_model(&m);
		n = rdmamsg__umr_blocks(&l, MODEL_LEN, sge);
		for (uint32_t i = 0; i < n; i++)
			at = same(want, at, sge[i].addr, sge[i].lkey,
				  sge[i].length);
		assert_int_equal(at, want->len);
		if (n > 1)
			assert_int_equal(rdmamsg__umr_blocks(&l, n - 1, sge),
					 n);
		n = rdmamsg__umr_rounds(&l, ROOM, block, &rounds);
		if (!n)
			continue;
		regular++;
		at = 0;
		for (uint32_t r = 0; r < rounds; r++)
			for (uint32_t i = 0; i < n; i++)
				at = same(want, at, block[i].addr +
					  r * block[i].step, block[i].lkey,
					  block[i].len);
		assert_int_equal(at, want->len);
	}
	assert_true(regular > LAYOUTS / 10);
}

/* ---- limits ------------------------------------------------------------ */

static void set_grid(uint64_t len, uint64_t count, uint64_t stride)
{
	set_sources(1, UINT64_MAX / 4);
	group[0] = (struct layout_group){ .parts = 1, .rounds = 1 };
	part[0] = (struct layout_part){
		.len = len, .dims = 1, .count = { count }, .stride = { stride },
	};
	l.groups = l.parts = 1;
	finish();
}

static uint32_t rounds_of(uint32_t room, uint32_t *ret_rounds)
{
	struct umr_block block[ROOM];

	return rdmamsg__umr_rounds(&l, room, block, ret_rounds);
}

static void grid__sizes_of_16_bits_AT_MOST(void **state)
{
	uint32_t rounds;

	set_grid(65534, 9, 65535);
	assert_int_equal(rounds_of(ROOM, &rounds), 1);
	assert_int_equal(rounds, 9);
	set_grid(65534, 9, 65536);
	assert_int_equal(rounds_of(ROOM, &rounds), 0);
	set_grid(65536, 9, 65535);
	assert_int_equal(rounds_of(ROOM, &rounds), 0);
}

static void grid__count_of_32_bits_AT_MOST(void **state)
{
	uint32_t rounds;

	set_grid(1, UINT32_MAX, 2);
	assert_int_equal(rounds_of(ROOM, &rounds), 1);
	assert_int_equal(rounds, UINT32_MAX);
	set_grid(1, 1ull << 32, 2);
	assert_int_equal(rounds_of(ROOM, &rounds), 0);
}

static void grid__blocks_of_an_index_ROOM_AT_MOST(void **state)
{
	uint32_t rounds;

	set_grid(1, 5, 1000);
	part[0].dims = 2;
	part[0].count[1] = 20;
	part[0].stride[1] = 10;
	finish();
	assert_int_equal(rounds_of(20, &rounds), 20);
	assert_int_equal(rounds, 5);
	assert_int_equal(rounds_of(19, &rounds), 0);
}

/* One block longer than an entry takes several. */
static void blocks__of_gigabytes_SEVERAL_ENTRIES(void **state)
{
	struct ibv_sge sge[8];

	set_grid((5ull << 30) + 1, 1, 1);
	assert_int_equal(rdmamsg__umr_blocks(&l, 8, sge), 6);
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(sge[i].addr, APART + ((uint64_t)i << 30));
		assert_int_equal(sge[i].length, i < 5 ? 1u << 30 : 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random__layouts_BYTES_OF_THE_MODEL),
		cmocka_unit_test(grid__sizes_of_16_bits_AT_MOST),
		cmocka_unit_test(grid__count_of_32_bits_AT_MOST),
		cmocka_unit_test(grid__blocks_of_an_index_ROOM_AT_MOST),
		cmocka_unit_test(blocks__of_gigabytes_SEVERAL_ENTRIES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
