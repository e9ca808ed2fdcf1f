/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts: one list with its bytes, random layouts against a model that copies
 * byte by byte, and large ones.
 */
#include "layout_board.h"
#include "../post.h"

/* ---- the list --------------------------------------------------------- */

/* Bytes 0 to 255 are in region 0, and 100 to 255 in region 1 from byte 0. */
static const struct row {
	const char *name;
	uint32_t parts;
	uint64_t rounds;
	struct {
		int region;	/* -1: the layout of the row before */
		uint64_t offset, len, step;
		uint32_t dims;
		uint64_t count[3], stride[3];
	} part[3];
	uint32_t len;
	uint8_t want[24];
} rows[] = {
	{ "a block", 1, 1, { { 0, 7, 3, 0, 0, { 0 }, { 0 } } },
	  3, { 7, 8, 9 } },
	{ "a list", 3, 1,
	  { { 1, 5, 2, 0, 0, { 0 }, { 0 } }, { 0, 1, 1, 0, 0, { 0 }, { 0 } },
	    { 0, 0, 3, 0, 0, { 0 }, { 0 } } },
	  6, { 105, 106, 1, 0, 1, 2 } },
	{ "a column", 1, 1, { { 0, 3, 2, 0, 1, { 4 }, { 16 } } },
	  8, { 3, 4, 19, 20, 35, 36, 51, 52 } },
	{ "two dimensions", 1, 1,
	  { { 0, 0, 2, 0, 2, { 2, 3 }, { 100, 10 } } },
	  12, { 0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121 } },
	{ "three dimensions", 1, 1,
	  { { 0, 1, 1, 0, 3, { 2, 2, 3 }, { 128, 64, 2 } } },
	  12, { 1, 3, 5, 65, 67, 69, 129, 131, 133, 193, 195, 197 } },
	{ "interleaved", 2, 3,
	  { { 0, 0, 2, 4, 0, { 0 }, { 0 } }, { 1, 0, 1, 1, 0, { 0 }, { 0 } } },
	  9, { 0, 1, 100, 4, 5, 101, 8, 9, 102 } },
	{ "interleaved grids", 2, 2,
	  { { 0, 0, 1, 50, 1, { 2 }, { 5 } },
	    { 1, 9, 1, 0, 0, { 0 }, { 0 } } },
	  6, { 0, 5, 109, 50, 55, 109 } },
	{ "nested in the row before", 2, 1,
	  { { -1, 1, 3, 0, 0, { 0 }, { 0 } }, { 0, 200, 1, 0, 0, { 0 }, { 0 } } },
	  4, { 5, 109, 50, 200 } },
	{ "nested twice, strided", 1, 1,
	  { { -1, 0, 1, 0, 1, { 2 }, { 3 } } }, 2, { 5, 200 } },
	{ "a block again and again", 1, 1,
	  { { 0, 8, 2, 0, 1, { 3 }, { 0 } } }, 6, { 8, 9, 8, 9, 8, 9 } },
	{ "rounds without a step", 1, 2, { { 0, 8, 2, 0, 0, { 0 }, { 0 } } },
	  4, { 8, 9, 8, 9 } },
	{ "blocks that touch", 1, 2,
	  { { 0, 0, 2, 6, 1, { 3 }, { 2 } } },
	  12, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 } },
};

static void row_add(struct board *b, const struct row *row)
{
	struct rdmamsg_layout_part part[3];

	for (uint32_t i = 0; i < row->parts; i++) {
		const bool nested = row->part[i].region < 0;

		part[i] = (struct rdmamsg_layout_part){
			.region = nested ? rdmamsg_layout_region(last(b)) :
				b->region[row->part[i].region],
			.offset = row->part[i].offset,
			.len = row->part[i].len, .step = row->part[i].step,
			.dims = row->part[i].dims,
		};
		memcpy(part[i].count, row->part[i].count,
		       sizeof(part[i].count));
		memcpy(part[i].stride, row->part[i].stride,
		       sizeof(part[i].stride));
	}
	if (row->part[0].region >= 0)
		board_clear(b);
	(void)board_add(b, part, row->parts, row->rounds);
}

static void board_numbers(struct board *b)
{
	for (uint32_t i = 0; i < 256; i++)
		b->mem[i] = (uint8_t)i;
	for (uint32_t i = 0; i < 156; i++)
		b->mem[AREA + i] = (uint8_t)(100 + i);
}

/* Reads the row out of the peer, and writes it out of this side. */
static void row_run(const struct row *row)
{
	uint8_t *const plain = near + AREAS;
	struct rdmamsg_sge s = { plain, row->len, near_region };
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	struct rdmamsg_key to;

	row_add(&theirs, row);
	row_add(&mine, row);
	assert_int_equal(rdmamsg_layout_query(last(&mine), &info), 0);
	assert_int_equal(info.len, row->len);
	assert_int_equal(rdmamsg_layout_register(last(&mine), p.c.ep), 0);
	to = give(last(&theirs));
	memset(plain, 0xee, 32);
	run(READS, &s, 1, &to, 0);
	if (memcmp(plain, row->want, row->len) || plain[row->len] != 0xee)
		fail_msg("%s: other bytes are read", row->name);

	memset(far + AREAS, 0xee, 32);
	s = entry(last(&mine), 0, row->len);
	run(WRITES, &s, 1, &key, AREAS);
	if (memcmp(far + AREAS, row->want, row->len) ||
	    far[AREAS + row->len] != 0xee)
		fail_msg("%s: other bytes are written", row->name);
	assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &to), 0);
}

static void list__each_layout_AS_LISTED(void **state)
{
	boards_open();
	board_numbers(&mine);
	board_numbers(&theirs);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_run(&rows[i]);
	boards_close();
}

/* ---- random ----------------------------------------------------------- */

static uint8_t want_far[AREAS], want_near[AREAS];

static uint8_t *place(uint8_t *mem, const struct model_layout *l, uint32_t i)
{
	return &mem[l->at[i].region * AREA + l->at[i].offset];
}

static char difference[128];

/* Describes the first and the last byte that differ, if there is one. */
static bool differs(const char *name, const uint8_t *mem, const uint8_t *want)
{
	uint32_t first = 0, last = AREAS - 1, count = 0;

	if (!memcmp(mem, want, AREAS))
		return false;
	for (uint32_t i = 0; i < AREAS; i++)
		count += mem[i] != want[i];
	/* bytes that arrive meanwhile may leave no difference */
	while (first < last && mem[first] == want[first])
		first++;
	while (last > first && mem[last] == want[last])
		last--;
	snprintf(difference, sizeof(difference),
		 "%s differs in %u bytes from %u (0x%02x, not 0x%02x) to %u "
		 "(0x%02x, not 0x%02x)", name, count, first, mem[first],
		 want[first], last, mem[last], want[last]);
	return true;
}

/* One operation between parts of the two last layouts. */
static void random_run(enum way way, struct model *here, struct model *there,
		       const struct rdmamsg_key *to, uint32_t number)
{
	const struct model_layout *a = model_last(here), *b = model_last(there);
	const uint32_t from = model_random(here, a->len);
	const uint32_t at = model_random(there, b->len);
	const uint32_t most = a->len - from < b->len - at ? a->len - from :
			      b->len - at;
	const uint32_t len = 1 + model_random(here, most);
	struct rdmamsg_sge s = entry(last(&mine), from, len);

	fill(near, AREAS, number);
	fill(far, AREAS, number + 1000000);
	memcpy(want_near, near, AREAS);
	memcpy(want_far, far, AREAS);
	for (uint32_t i = 0; i < len; i++)
		if (way == WRITES)
			*place(want_far, b, at + i) = *place(near, a, from + i);
		else
			*place(want_near, a, from + i) = *place(far, b, at + i);
	run(way, &s, 1, to, at);
	if (differs("far", far, want_far) || differs("near", near, want_near))
		fail_msg("layout %u: %s %u bytes from %u to %u: %s", number,
			 way == WRITES ? "wrote" : "read", len, from, at,
			 difference);
}

static void random_copy(struct model *here, uint32_t number)
{
	const struct model_layout *a = model_last(here);
	uint8_t plain[MODEL_LEN];

	fill(near, AREAS, number);
	assert_int_equal(rdmamsg_layout_copy_out(last(&mine), 0, plain, a->len),
			 0);
	for (uint32_t i = 0; i < a->len; i++)
		assert_int_equal(plain[i], *place(near, a, i));
	memcpy(want_near, near, AREAS);
	fill(plain, a->len, number + 1);
	for (uint32_t i = 0; i < a->len; i++)
		*place(want_near, a, i) = plain[i];
	assert_int_equal(rdmamsg_layout_copy_in(last(&mine), 0, plain, a->len),
			 0);
	assert_memory_equal(near, want_near, AREAS);
}

/* Sends the client's layout. The server puts it into its layout. */
static void random_send(struct model *here, struct model *there)
{
	const struct model_layout *a = model_last(here), *b = model_last(there);
	const uint32_t len = a->len < b->len ? a->len : b->len;
	const uint8_t *data;

	memcpy(want_far, far, AREAS);
	for (uint32_t i = 0; i < len; i++)
		*place(want_far, b, i) = *place(near, a, i);
	assert_int_equal(post_layout(p.c.ep, last(&mine), 0, len, 7, cookie()),
			 0);
	WAIT_FOR(p.s.kept_count);
	data = rdmamsg_msg_data(p.s.kept[0]);
	assert_int_equal(rdmamsg_msg_len(p.s.kept[0]), len);
	assert_int_equal(rdmamsg_layout_copy_in(last(&theirs), 0, data, len),
			 0);
	assert_memory_equal(far, want_far, AREAS);
	end_release(&p.s);
}

static void random__layouts_AS_COPIED_BYTE_BY_BYTE(void **state)
{
	const uint32_t count = test_on_soft() ? 10000 : 500;
	static struct model here, there;

	boards_open();
	p.s.keep = p.s.expect_nothing = true;
	for (uint32_t i = 0; i < count; i++) {
		struct rdmamsg_key to;

		model_make(&here, i);
		model_make(&there, i + 1000000);
		board_from(&mine, &here);
		board_from(&theirs, &there);
		assert_int_equal(rdmamsg_layout_register(last(&mine), p.c.ep),
				 0);
		to = give(last(&theirs));
		random_run(WRITES, &here, &there, &to, i);
		random_run(READS, &here, &there, &to, i);
		if (i % 16 == 0) {
			random_copy(&here, i);
			random_send(&here, &there);
		}
		assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &to), 0);
		board_clear(&mine);
		board_clear(&theirs);
	}
	p.s.received = 0;	/* all are checked above */
	boards_close();
}

/* ---- many and large --------------------------------------------------- */

/* Blocks longer than a request, next to each other in the gather list. */
static void blocks__longer_than_a_request_ALL_ARRIVE(void **state)
{
	const size_t len = (size_t)5 << 20;
	struct rdmamsg_layout *here, *there;
	struct rdmamsg_layout_part part;
	struct rdmamsg_key to;
	struct rdmamsg_sge s[2];

	boards_open();
	here = layout_new(p.c.ctx, RDMAMSG_ACCESS_LOCAL_WRITE);
	column(&part, near_region, 100, len / 2, 2, len / 2 + 1000);
	assert_int_equal(rdmamsg_layout_define(here, &part, 1, 1), 0);
	there = layout_new(p.s.ctx, ACCESS_ALL & ~RDMAMSG_ACCESS_ATOMIC);
	column(&part, far_region, 5, 1000, len / 1000, 1001);
	assert_int_equal(rdmamsg_layout_define(there, &part, 1, 1), 0);
	to = give(there);
	fill(near, ROOM, 1);
	s[0] = entry(here, 0, 4000000);
	s[1] = (struct rdmamsg_sge){ near, 100, near_region };
	run(WRITES, s, 2, &to, 500);
	for (size_t i = 0; i < 4000100; i++) {
		const size_t at = 500 + i;
		const size_t from = i >= 4000000 ? i - 4000000 : 100 + i +
				    (i >= len / 2 ? 1000 : 0);

		if (far[5 + at / 1000 * 1001 + at % 1000] != near[from])
			fail_msg("byte %zu", i);
	}
	/* and back, into other memory */
	memset(near, 0, ROOM);
	s[0] = entry(here, 1000, 4000000);
	run(READS, s, 1, &to, 500);
	for (size_t i = 0; i < 4000000; i++) {
		const size_t at = 500 + i, j = 1000 + i;

		if (far[5 + at / 1000 * 1001 + at % 1000] !=
		    near[100 + j + (j >= len / 2 ? 1000 : 0)])
			fail_msg("byte %zu read", i);
	}
	assert_int_equal(rdmamsg_layout_destroy(here), 0);
	assert_int_equal(rdmamsg_layout_destroy(there), 0);
	boards_close();
}

/* A list of all parts that a layout can have. */
static void list__of_most_parts_DESCRIBED(void **state)
{
	static struct rdmamsg_layout_part parts[RDMAMSG_LAYOUT_PARTS + 1];
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	const size_t room = (size_t)2 << 20;
	uint8_t *bytes = malloc(room);
	struct rdmamsg_layout *l;
	struct rdmamsg_key to;
	struct rdmamsg_sge s;
	size_t len;

	boards_open();
	for (uint32_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i] = (struct rdmamsg_layout_part){
			.region = far_region, .len = 3,
			.offset = 16ull * (RDMAMSG_LAYOUT_PARTS - i),
		};
	l = layout_new(p.s.ctx, RDMAMSG_ACCESS_WRITE);
	assert_error(rdmamsg_layout_define(l, parts, ARRAY_SIZE(parts), 1),
		     -ENOBUFS, "max_parts");
	assert_int_equal(rdmamsg_layout_define(l, parts, RDMAMSG_LAYOUT_PARTS,
					       1), 0);
	assert_int_equal(rdmamsg_layout_query(l, &info), 0);
	assert_int_equal(info.parts, RDMAMSG_LAYOUT_PARTS);
	assert_int_equal(info.max_parts, RDMAMSG_LAYOUT_PARTS);
	assert_int_equal(info.blocks, RDMAMSG_LAYOUT_PARTS);
	assert_int_equal(info.len, 3 * RDMAMSG_LAYOUT_PARTS);
	assert_int_equal(info.regions, 1);
	assert_int_equal(info.depth, 1);
	assert_int_equal(info.max_depth, RDMAMSG_LAYOUT_DEPTH);
	assert_error(rdmamsg_layout_get_key(l, p.s.ep, bytes, info.key_len - 1,
					    &len, bytes), -EMSGSIZE, "bytes");
	len = key_of(&p.s, l, bytes, room);
	assert_int_equal(rdmamsg_layout_import(p.c.ctx, bytes, len, &to), 0);
	fill(near, 3 * RDMAMSG_LAYOUT_PARTS, 5);
	s = (struct rdmamsg_sge){ near, 3 * RDMAMSG_LAYOUT_PARTS, near_region };
	run(WRITES, &s, 1, &to, 0);
	for (uint32_t i = 0; i < RDMAMSG_LAYOUT_PARTS; i++)
		assert_memory_equal(far + parts[i].offset, near + 3 * i, 3);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
	free(bytes);
	boards_close();
}

/* Operations of all kinds stay in order, and the value comes last. */
static void write_imm__through_a_layout_VALUE_AFTER_THE_BYTES(void **state)
{
	struct rdmamsg_layout_part part;
	struct rdmamsg_sge plain, s;
	struct rdmamsg_key to;

	boards_open();
	plain = (struct rdmamsg_sge){ near, 64, near_region };
	column(&part, theirs.region[0], 3, 2, 100, 20);
	to = give(board_add(&theirs, &part, 1, 1));
	column(&part, mine.region[0], 1, 4, 50, 30);
	assert_int_equal(rdmamsg_layout_register(
				 board_add(&mine, &part, 1, 1), p.c.ep), 0);
	s = entry(last(&mine), 0, 200);
	for (uint32_t i = 0; i < 40; i++) {
		struct rdmamsg_sge copied = { &i, sizeof(i), NULL };

		fill(near, AREA, i);
		/* the registered memory changes when this one is done */
		assert_int_equal(
			post_notify(p.c.ep, &s, 1, &to, 0, i, 0, cookie()), 0);
		assert_int_equal(rdmamsg_write(p.c.ep, &plain, 1, &key, AREAS,
					       0, cookie()), 0);
		assert_int_equal(post_notify(p.c.ep, &copied, 1, &to, 1,
					     1000 + i, 0, cookie()),
				 0);
		WAIT_FOR(value_count == 2 * i + 2);
		assert_int_equal(values[2 * i], i);
		assert_int_equal(values[2 * i + 1], 1000 + i);
		assert_int_equal(far[3], near[1]);
		/* 4 copied bytes over 3 blocks */
		assert_memory_equal(far + 4, &i, 1);
		assert_int_equal(far[23], 0);
		for (uint32_t k = 6; k < 200; k++)
			assert_int_equal(far[3 + k / 2 * 20 + k % 2],
					 near[1 + k / 4 * 30 + k % 4]);
		WAIT_FOR(p.c.sent_ok == 3 * (i + 1));
	}
	boards_close();
}

/* Messages of many sizes, with few and with many blocks. */
static void send__of_layouts_WHOLE_MESSAGES(void **state)
{
	static const struct { uint64_t len, count; } sizes[] = {
		{ 1, 3 }, { 30, 16 }, { 30, 17 }, { 1000, 100 },
		{ 100000, 8 }, { 10000, 200 },
	};
	unsigned int received = 0;

	take_path(SOFTWARE);
	boards_open();
	p.s.keep = p.s.expect_nothing = true;
	fill(near, ROOM, 9);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const uint64_t len = sizes[i].len, n = sizes[i].count;
		struct rdmamsg_layout *l = layout_new(p.c.ctx, 0);
		struct rdmamsg_layout_part part;
		const uint8_t *got;

		column(&part, near_region, 7, len, n, len + 13);
		assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
		assert_int_equal(
			post_layout(p.c.ep, l, 0, len * n, 1, cookie()), 0);
		WAIT_FOR(p.s.kept_count);
		received++;
		got = rdmamsg_msg_data(p.s.kept[0]);
		assert_int_equal(rdmamsg_msg_len(p.s.kept[0]), len * n);
		for (uint64_t k = 0; k < n; k++)
			assert_memory_equal(got + k * len,
					    near + 7 + k * (len + 13), len);
		end_release(&p.s);
		WAIT_FOR(p.c.sent_ok == received);
		assert_error(post_layout(p.c.ep, l, 1, len * n, 1, NULL),
			     -ERANGE, "bytes");
		assert_int_equal(rdmamsg_layout_destroy(l), 0);
	}
	p.s.received = 0;	/* all are checked above */
	boards_close();
}

ON_BOTH(list__each_layout_AS_LISTED)
ON_BOTH(random__layouts_AS_COPIED_BYTE_BY_BYTE)
ON_BOTH(blocks__longer_than_a_request_ALL_ARRIVE)
ON_BOTH(list__of_most_parts_DESCRIBED)
ON_BOTH(write_imm__through_a_layout_VALUE_AFTER_THE_BYTES)

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "serves", child_serves }, { "sends", child_sends },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(native__list__each_layout_AS_LISTED),
		TEST(software__list__each_layout_AS_LISTED),
		TEST(native__random__layouts_AS_COPIED_BYTE_BY_BYTE),
		TEST(software__random__layouts_AS_COPIED_BYTE_BY_BYTE),
		TEST(native__blocks__longer_than_a_request_ALL_ARRIVE),
		TEST(software__blocks__longer_than_a_request_ALL_ARRIVE),
		TEST(native__list__of_most_parts_DESCRIBED),
		TEST(software__list__of_most_parts_DESCRIBED),
		TEST(native__write_imm__through_a_layout_VALUE_AFTER_THE_BYTES),
		TEST(software__write_imm__through_a_layout_VALUE_AFTER_THE_BYTES),
		TEST(send__of_layouts_WHOLE_MESSAGES),
		TEST(native__key__of_a_changed_layout_REFUSED),
		TEST(software__key__of_a_changed_layout_REFUSED),
		TEST(native__key__of_an_invalid_layout_REFUSED),
		TEST(software__key__of_an_invalid_layout_REFUSED),
		TEST(native__key__of_a_destroyed_layout_REFUSED),
		TEST(software__key__of_a_destroyed_layout_REFUSED),
		TEST(native__define__anew_OTHER_BYTES),
		TEST(software__define__anew_OTHER_BYTES),
		TEST(native__define__many_irregular_blocks_IN_SOFTWARE),
		TEST(layout__in_use_BUSY),
		TEST(import__of_other_bytes_EPROTO),
		TEST(key__forged_REFUSED_BY_THE_DEVICE),
		TEST(define__too_deep_EINVAL),
		TEST(calls__bad_arguments_ARE_TOLD),
		TEST(native__atomics__in_a_block_DONE),
		TEST(software__atomics__in_a_block_DONE),
		TEST(native__atomic__across_blocks_ACCESS),
		TEST(software__atomics__outside_of_a_block_ARE_TOLD),
		TEST(native__atomic__layout_without_the_right_EACCES),
		TEST(software__atomic__layout_without_the_right_EACCES),
		TEST(native__atomics__only_AS_THE_KEY_SAYS),
		TEST(software__atomics__only_AS_THE_KEY_SAYS),
		TEST(native__close__with_layouts_ALL_FREED),
		TEST(software__close__with_layouts_ALL_FREED),
		TEST(native__close__with_operations_DONE),
		TEST(software__close__with_operations_DONE),
		TEST(native__abort__by_either_side_EACH_ENDS),
		TEST(software__abort__by_either_side_EACH_ENDS),
		TEST(native__invalidate__in_the_middle_EACH_ENDS),
		TEST(software__invalidate__in_the_middle_EACH_ENDS),
		TEST(native__killed__in_the_middle_EACH_ENDS),
		TEST(software__killed__in_the_middle_EACH_ENDS),
		TEST(native__get_key__then_the_end_CANCELLED),
		TEST(software__get_key__then_the_end_CANCELLED),
		TEST(recv__each_kind_and_size_IN_THE_BLOCKS),
		TEST(recv__into_random_layouts_AS_COPIED_BYTE_BY_BYTE),
		TEST(recv__what_a_layout_has_sent_IN_THE_BLOCKS),
		TEST(recv__into_what_cannot_be_REFUSED),
		TEST(recv__and_forward_EINVAL),
		TEST(recv__for_a_chain_EINVAL),
		TEST(recv__until_on_message_BUSY),
		TEST(recv__into_a_second_layout_IN_THE_LAST),
		TEST(recv__and_refuse_NOT_IN_USE),
		TEST(recv__many_at_once_EACH_IN_ITS_PLACE),
		TEST(recv__with_a_CRC_that_differs_ENDS),
		TEST(recv__when_a_side_aborts_NOT_IN_USE),
		TEST(recv__when_the_context_closes_ALL_FREED),
		TEST(recv__when_the_sender_is_killed_NOT_IN_USE),
	};

	return test_main(tests, roles, argc, argv);
}
