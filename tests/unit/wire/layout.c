/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: layouts on the wire: the place of each byte of 10,000 random
 * layouts, and counts, lengths and products that must be refused.
 */
#include "wire.h"

#include "wire/layout.h"

#include "../../layout_model.h"

#define LAYOUTS	10000

/* A layout with room for the largest model. */
struct box {
	struct layout l;
	struct layout_source source[LAYOUT_DEPTH + 2];
	struct layout_group group[LAYOUT_DEPTH + 2];
	struct layout_part part[MODEL_LAYOUTS * MODEL_PARTS + LAYOUT_DEPTH];
};

static struct box *box_new(void)
{
	struct box *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->l = (struct layout){
		.id = 0x0102030405060708, .access = PROTO_KEY_READ,
		.source = b->source, .group = b->group, .part = b->part,
	};
	return b;
}

static void set_source(struct box *b, uint32_t number, uint64_t len)
{
	b->source[number] = (struct layout_source){
		.access = PROTO_KEY_READ, .rkey = 100 + number,
		.region = number, .addr = 4096 * (number + 1), .len = len,
	};
}

static void from_model(struct box *b, const struct model *m)
{
	b->l.sources = m->regions;
	b->l.groups = m->layouts;
	b->l.parts = 0;
	for (uint32_t i = 0; i < m->regions; i++)
		set_source(b, i, m->region_len[i]);
	for (uint32_t i = 0; i < m->layouts; i++) {
		const struct model_layout *from = &m->layout[i];

		b->group[i] = (struct layout_group){
			.parts = from->parts, .rounds = from->rounds,
		};
		for (uint32_t k = 0; k < from->parts; k++) {
			const struct model_part *p = &from->part[k];
			struct layout_part *to = &b->part[b->l.parts++];

			*to = (struct layout_part){
				.index = p->index, .nested = p->nested,
				.dims = (uint16_t)p->dims, .offset = p->offset,
				.len = p->len, .step = p->step,
			};
			memcpy(to->count, p->count, sizeof(to->count));
			memcpy(to->stride, p->stride, sizeof(to->stride));
		}
	}
}

static void assert_places(const struct layout *l, const struct model *m,
			  unsigned int seed)
{
	const struct model_layout *want = model_last(m);
	uint64_t at = 0;

	assert_int_equal(l->len, want->len);
	for (struct layout_run run; at < l->len; at += run.len) {
		rdmamsg__layout_at(l, at, &run);
		assert_in_range(run.len, 1, l->len - at);
		for (uint64_t i = 0; i < run.len; i++)
			if (want->at[at + i].region != run.source ||
			    want->at[at + i].offset != run.offset + i)
				fail_msg("layout %u: byte %llu", seed,
					 (unsigned long long)(at + i));
	}
	/* each byte by itself */
	for (at = 0; at < l->len; at++) {
		struct layout_run run;

		rdmamsg__layout_at(l, at, &run);
		if (want->at[at].region != run.source ||
		    want->at[at].offset != run.offset)
			fail_msg("layout %u: byte %llu alone", seed,
				 (unsigned long long)at);
	}
}

static void assert_hull(const struct layout *l, const struct model *m)
{
	uint64_t lo[MODEL_REGIONS], hi[MODEL_REGIONS];
	const struct model_layout *all = model_last(m);

	rdmamsg__layout_hull(l, lo, hi);
	for (uint32_t i = 0; i < all->len; i++) {
		assert_true(lo[all->at[i].region] <= all->at[i].offset);
		assert_true(hi[all->at[i].region] > all->at[i].offset);
		assert_true(hi[all->at[i].region] <=
			    m->region_len[all->at[i].region]);
	}
}

/* Decodes like a program's import. Returns NULL, or the reason. */
static const char *import(struct box *b, const void *bytes, size_t len)
{
	struct layout head;
	uint64_t total;
	uint32_t part;
	const char *wrong;

	if (rdmamsg__layout_head(&head, bytes, len, &total))
		return "head";
	assert_true(head.sources <= sizeof(b->source) / sizeof(b->source[0]));
	assert_true(head.groups <= sizeof(b->group) / sizeof(b->group[0]));
	assert_true(head.parts <= sizeof(b->part) / sizeof(b->part[0]));
	b->l = head;
	b->l.source = b->source;
	b->l.group = b->group;
	b->l.part = b->part;
	if (rdmamsg__layout_decode(&b->l, bytes, len))
		return "bytes";
	wrong = rdmamsg__layout_check(&b->l, &part);
	return wrong ? wrong : total != b->l.len ? "length" : NULL;
}

static void layout_at__random_layouts_AS_COPIED_BYTE_BY_BYTE(void **state)
{
	static struct model m;

	for (unsigned int seed = 0; seed < LAYOUTS; seed++) {
		struct box *b = box_new(), *got = box_new();
		struct input in;
		uint8_t *out;
		uint32_t part;
		size_t len;

		model_make(&m, seed);
		from_model(b, &m);
		assert_null(rdmamsg__layout_check(&b->l, &part));
		assert_places(&b->l, &m, seed);
		assert_hull(&b->l, &m);

		len = rdmamsg__layout_bytes(&b->l);
		out = malloc(len);
		rdmamsg__layout_encode(&b->l, out);
		in = input_new(out, len);
		assert_null(import(got, in.bytes, len));
		assert_places(&got->l, &m, seed);
		assert_int_equal(got->l.depth, b->l.depth);
		assert_int_equal(got->l.id, b->l.id);
		assert_int_equal(got->source[0].rkey, 100);
		free(in.mem);
		free(out);
		free(b);
		free(got);
	}
}

/* Two blocks of 4 bytes, 8 apart, in a source of 100 bytes. */
static struct box *small(void)
{
	struct box *b = box_new();

	b->l.sources = b->l.groups = b->l.parts = 1;
	set_source(b, 0, 100);
	b->group[0] = (struct layout_group){ .parts = 1, .rounds = 1 };
	b->part[0] = (struct layout_part){
		.len = 4, .dims = 1, .count = { 2 }, .stride = { 8 },
	};
	return b;
}

static void expect(struct box *b, const char *word)
{
	uint32_t part;
	const char *wrong = rdmamsg__layout_check(&b->l, &part);

	if (!wrong || !strstr(wrong, word))
		fail_msg("'%s', not '%s'", wrong ? wrong : "accepted", word);
	free(b);
}

#define REFUSED(word, ...) \
	do { \
		struct box *b = small(); \
		struct layout_part *p = b->part; \
		struct layout_group *g = b->group; \
\
		(void)p; \
		(void)g; \
		__VA_ARGS__; \
		expect(b, word); \
	} while (0)

static void layout_check__wrong_parts_ARE_TOLD(void **state)
{
	REFUSED("len is 0", p->len = 0);
	REFUSED("dims", p->dims = 4);
	REFUSED("count is 0", p->count[0] = 0);
	REFUSED("beyond dims", p->count[1] = 1);
	REFUSED("beyond dims", p->stride[2] = 1);
	REFUSED("rounds is 0", g->rounds = 0);
	REFUSED("no parts", g->parts = 0);
	REFUSED("no parts", g->parts = 2);
	REFUSED("no group", b->l.parts = 2);
	REFUSED("no group", b->l.groups = 0);
	REFUSED("no source", p->index = 1);
	REFUSED("no source", b->l.sources = 0);
	REFUSED("no earlier", p->nested = true);
	REFUSED("outside", p->offset = 89);
	REFUSED("outside", p->offset = UINT64_MAX);
	REFUSED("outside", p->len = 93);
	REFUSED("outside", p->len = UINT64_MAX);
	REFUSED("outside", b->source[0].len = 11);
	REFUSED("outside", p->stride[0] = 97);
	REFUSED("outside", p->stride[0] = UINT64_MAX);
	REFUSED("outside", p->count[0] = 14);
	REFUSED("outside", g->rounds = 2; p->step = 89);
	/* products that are small modulo 2^64 */
	REFUSED("outside", p->count[0] = (1ull << 63) + 1; p->stride[0] = 2);
	REFUSED("outside", g->rounds = (1ull << 62) + 1; p->step = 4);
	REFUSED("outside", p->count[0] = (1ull << 32) + 1;
		p->stride[0] = 1ull << 32);
	/* blocks without end in few bytes of memory */
	REFUSED("too many", p->count[0] = 1ull << 62; p->stride[0] = 0);
	REFUSED("too many", p->count[0] = UINT64_MAX; p->stride[0] = 0);
	REFUSED("too many", p->dims = 2; p->stride[0] = 0;
		p->count[0] = p->count[1] = 1ull << 31);
	REFUSED("too many", g->rounds = 1ull << 61);
	REFUSED("too many", g->rounds = UINT64_MAX);
}

/* Each group is the one before it. */
static void nest(struct box *b, uint32_t groups)
{
	b->l.groups = b->l.parts = groups;
	for (uint32_t i = 1; i < groups; i++) {
		b->group[i] = b->group[0];
		b->part[i] = (struct layout_part){
			.nested = true, .index = i - 1, .len = 8,
		};
	}
}

static void layout_check__deep_nesting_REFUSED(void **state)
{
	struct box *deep = small();
	uint32_t part;

	nest(deep, LAYOUT_DEPTH);
	assert_null(rdmamsg__layout_check(&deep->l, &part));
	assert_int_equal(deep->l.depth, LAYOUT_DEPTH);
	free(deep);
	REFUSED("too deep", nest(b, LAYOUT_DEPTH + 1));
	/* no group is part of itself or of a later one */
	REFUSED("no earlier", nest(b, 3); b->part[1].index = 1);
	REFUSED("no earlier", nest(b, 3); b->part[1].index = 2);
	REFUSED("outside", nest(b, 3); b->part[2].len = 9);
}

static void layout_at__largest_numbers_EXACT(void **state)
{
	struct box *b = small();
	struct layout_run run;
	uint32_t part;

	/* the longest layout of one byte */
	b->source[0].len = 1;
	b->part[0] = (struct layout_part){
		.len = 1, .dims = 1, .count = { INT64_MAX },
	};
	assert_null(rdmamsg__layout_check(&b->l, &part));
	assert_int_equal(b->l.len, INT64_MAX);
	rdmamsg__layout_at(&b->l, INT64_MAX - 1, &run);
	assert_int_equal(run.offset, 0);
	assert_int_equal(run.len, 1);
	/* one block of all memory */
	b->source[0].addr = 0;
	b->source[0].len = INT64_MAX;
	b->part[0] = (struct layout_part){ .len = INT64_MAX };
	assert_null(rdmamsg__layout_check(&b->l, &part));
	rdmamsg__layout_at(&b->l, INT64_MAX - 1, &run);
	assert_int_equal(run.offset, INT64_MAX - 1);
	assert_int_equal(run.len, 1);
	free(b);
}

static void layout_check__touching_blocks_MERGED(void **state)
{
	struct box *b = small();
	struct layout_run run;
	uint32_t part;

	b->part[0] = (struct layout_part){
		.len = 2, .dims = 3, .count = { 2, 1, 3 },
		.stride = { 50, 99, 2 },
	};
	assert_null(rdmamsg__layout_check(&b->l, &part));
	rdmamsg__layout_at(&b->l, 1, &run);
	assert_int_equal(run.offset, 1);
	assert_int_equal(run.len, 5);
	rdmamsg__layout_at(&b->l, 6, &run);
	assert_int_equal(run.offset, 50);
	assert_int_equal(run.len, 6);
	free(b);
}

enum { AT_ACCESS = 1, AT_ZERO = 2, AT_BYTES = 4, AT_SOURCES = 16,
       AT_GROUPS = 20, AT_LEN = 24, AT_SOURCE = PROTO_LAYOUT_LEN,
       AT_GROUP = AT_SOURCE + PROTO_KEY_LEN,
       AT_PART = AT_GROUP + PROTO_LAYOUT_GROUP_LEN,
       SMALL = AT_PART + PROTO_LAYOUT_PART_LEN };

static const uint8_t small_wire[SMALL] = {
	2, 1, 0, 0, SMALL, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1,
	1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
	/* the source */
	1, 1, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 16, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0,
	/* the group */
	1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
	/* the part */
	0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
};

static void layout_encode__any_BYTES(void **state)
{
	struct box *b = small(), *got = box_new();
	uint8_t out[SMALL];
	uint32_t part;

	assert_null(rdmamsg__layout_check(&b->l, &part));
	assert_int_equal(rdmamsg__layout_bytes(&b->l), SMALL);
	rdmamsg__layout_encode(&b->l, out);
	assert_memory_equal(out, small_wire, sizeof(out));
	assert_null(import(got, small_wire, sizeof(small_wire)));
	free(b);
	free(got);
}

static void layout_decode__shorter_EPROTO(void **state)
{
	struct box *b = box_new();

	for (size_t len = 0; len < SMALL; len++) {
		struct input in = input_new(small_wire, len);

		assert_string_equal(import(b, in.bytes, len), "head");
		free(in.mem);
	}
	free(b);
}

static void change(size_t at, uint8_t value, const char *word)
{
	struct box *b = box_new();
	struct input in = input_new(small_wire, SMALL);
	const char *wrong;

	in.bytes[at] = value;
	wrong = import(b, in.bytes, SMALL);
	if (!wrong || !strstr(wrong, word))
		fail_msg("byte %zu: '%s', not '%s'", at,
			 wrong ? wrong : "accepted", word);
	free(in.mem);
	free(b);
}

static void layout_decode__wrong_bytes_EPROTO(void **state)
{
	change(0, 1, "head");
	change(0, 3, "head");
	change(AT_ACCESS, 0, "head");
	change(AT_ACCESS, PROTO_KEY_ATOMIC, "bytes");
	change(AT_ACCESS, 8, "head");
	change(AT_ZERO, 1, "head");
	change(AT_ZERO + 1, 1, "head");
	change(AT_BYTES, SMALL - 1, "head");
	change(AT_BYTES, AT_PART, "no parts");
	change(AT_BYTES + 3, 0x80, "head");
	change(AT_SOURCES, 0, "head");
	change(AT_SOURCES + 3, 1, "head");
	change(AT_GROUPS, 0, "head");
	change(AT_GROUPS + 2, 1, "head");
	change(AT_LEN, 9, "length");
	change(AT_LEN + 7, 0x80, "length");
	/* the source allows less than the layout, or is none */
	change(AT_ACCESS, PROTO_KEY_WRITE, "bytes");
	change(AT_SOURCE, 2, "bytes");
	change(AT_SOURCE + 24, 11, "outside");
	change(AT_SOURCE + 2, 1, "bytes");
	change(AT_GROUP + 4, 1, "bytes");
	change(AT_PART + 4, 2, "bytes");
	change(AT_PART + 5, 1, "bytes");
	change(AT_PART + 4, 1, "no earlier");
}

/* Damage gives an error, or a layout all of whose bytes are in its sources. */
static void layout_decode__damaged_INSIDE_OR_REFUSED(void **state)
{
	static struct model m;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct box *b = box_new(), *got = box_new();
		struct layout_run run;
		struct input in;
		uint8_t *out;
		uint32_t part;
		size_t len;

		model_make(&m, rnd());
		from_model(b, &m);
		assert_null(rdmamsg__layout_check(&b->l, &part));
		len = rdmamsg__layout_bytes(&b->l);
		out = malloc(len);
		rdmamsg__layout_encode(&b->l, out);
		in = input_new(out, len);
		/* the counts of the head stay, because 'got' has their room */
		for (uint32_t n = 1 + model_random(&m, 4); n; n--)
			in.bytes[PROTO_LAYOUT_LEN + model_random(
				 &m, (uint32_t)(len - PROTO_LAYOUT_LEN))] =
				(uint8_t)model_random(&m, 256);
		if (!import(got, in.bytes, len))
			for (int n = 0; n < 100; n++) {
				const struct layout_source *source;

				rdmamsg__layout_at(&got->l,
						   rnd() % got->l.len, &run);
				source = &got->source[run.source];
				assert_true(run.source < got->l.sources);
				assert_true(run.len && run.offset < source->len
					    && run.len <= source->len -
					    run.offset);
			}
		free(in.mem);
		free(out);
		free(b);
		free(got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			layout_at__random_layouts_AS_COPIED_BYTE_BY_BYTE),
		cmocka_unit_test(layout_at__largest_numbers_EXACT),
		cmocka_unit_test(layout_check__wrong_parts_ARE_TOLD),
		cmocka_unit_test(layout_check__deep_nesting_REFUSED),
		cmocka_unit_test(layout_check__touching_blocks_MERGED),
		cmocka_unit_test(layout_encode__any_BYTES),
		cmocka_unit_test(layout_decode__shorter_EPROTO),
		cmocka_unit_test(layout_decode__wrong_bytes_EPROTO),
		cmocka_unit_test(layout_decode__damaged_INSIDE_OR_REFUSED),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
