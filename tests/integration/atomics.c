/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics: one list of operations and their results, random operands
 * against a model, order and errors. Each path that the device has runs all of
 * it, with the same results.
 */
#include "atomics.h"
#include "../post.h"

/* ---- the list --------------------------------------------------------- */

static const struct op list[] = {
	/* all bits: a plain compare-and-swap */
	{ false, 8, { 7 }, { 9 }, { 9 }, { ONES }, { 7 }, { ONES } },
	{ false, 8, { 7 }, { 7 }, { 9 }, { ONES }, { 8 }, { ONES } },
	/* nothing to compare: bits are set in any case */
	{ false, 8, { 0x1234567890abcdef }, { 0x1234567890abffef },
	  { 0xff00 }, { 0xff00 }, { 0 }, { 0 } },
	/* some bits to compare, and others to swap */
	{ false, 8, { 0x1122334455667788 }, { 0xffff334455667788 },
	  { ONES }, { 0xffff000000000000 }, { 0x88 }, { 0xff } },
	{ false, 8, { 0x1122334455667788 }, { 0x1122334455667788 },
	  { ONES }, { 0xffff000000000000 }, { 0x89 }, { 0xff } },
	/* bits outside of the masks do not matter */
	{ false, 8, { 0x1122334455667788 }, { 0x1122334455667700 },
	  { 0xabcdef00 }, { 0xff }, { 0x9922334455667788 },
	  { 0x00ffffffffffffff } },
	/* nothing to swap */
	{ false, 8, { 42 }, { 42 }, { ONES }, { 0 }, { 42 }, { ONES } },
	{ false, 4, { 7 }, { 9 }, { 9 }, { 0xffffffff }, { 7 },
	  { 0xffffffff } },
	{ false, 4, { 0x80000000 }, { 0x8000beef }, { 0xdeadbeef }, { 0xffff },
	  { 0xffffffff }, { 0x80000000 } },
	{ false, 4, { 0x80000000 }, { 0x80000000 }, { 0xdeadbeef }, { 0xffff },
	  { 0x7fffffff }, { 0x80000000 } },
	{ false, 16, { 1, 2 }, { 3, 4 }, { 3, 4 }, { ONES, ONES }, { 1, 2 },
	  { ONES, ONES } },
	/* all words must be equal */
	{ false, 16, { 1, 2 }, { 1, 2 }, { 3, 4 }, { ONES, ONES }, { 1, 3 },
	  { ONES, ONES } },
	{ false, 16, { 1, 2 }, { 1, 2 }, { 3, 4 }, { ONES, ONES }, { 0, 2 },
	  { ONES, ONES } },
	{ false, 16, { 1, 2 }, { 3, 2 }, { 3, 4 }, { ONES, 0 }, { 9, 2 },
	  { 0, ONES } },
	{ false, 32, { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 5, 6, 7, 8 },
	  { ONES, ONES, ONES, ONES }, { 1, 2, 3, 4 },
	  { ONES, ONES, ONES, ONES } },
	{ false, 32, { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 5, 6, 7, 8 },
	  { ONES, ONES, ONES, ONES }, { 1, 2, 3, 5 },
	  { ONES, ONES, ONES, ONES } },
	{ false, 32, { 1, 2, 3, 4 }, { 1, 2, 3, 0xf4 }, { 0, 0, 0, 0xf0 },
	  { 0, 0, 0, 0xf0 }, { 1 }, { 1 } },

	/* one field */
	{ true, 8, { ONES }, { 1 }, { 2 }, { 0 } },
	{ true, 8, { ONES }, { 1 }, { 2 }, { TOP } },
	/* no carry crosses a top */
	{ true, 8, { 0x00000000ffffffff }, { 0 }, { 1 }, { 1ull << 31 } },
	{ true, 8, { 0xffffffffffffffff }, { 0x0000000000000000 },
	  { 0x0101010101010101 }, { BYTES } },
	{ true, 8, { 0x00ff7f80fe01807f }, { 0x0100800100018100 },
	  { 0x0101018102000181 }, { BYTES } },
	/* fields of 4 bits, and a field of one bit */
	{ true, 8, { 0xffffffffffffffff }, { 0x0123456789abcdef },
	  { 0x123456789abcdef0 }, { 0x8888888888888888 } },
	{ true, 8, { 3 }, { 0 }, { 3 }, { 3 } },
	/* fields of different lengths */
	{ true, 8, { 0xfff }, { 0xff0 }, { 1 }, { 0x8 } },
	{ true, 8, { 0xfff }, { 0x1008 }, { 9 }, { 0 } },
	{ true, 8, { 0xfff }, { 0x000 }, { 0x001 }, { 0x800 } },
	{ true, 8, { 5 }, { 5 }, { 0 }, { BYTES } },
	{ true, 4, { 0xffffffff }, { 1 }, { 2 }, { 0 } },
	{ true, 4, { 0xffff }, { 0 }, { 1 }, { 0x8000 } },
	{ true, 4, { 0xff80ff80 }, { 0x00000000 }, { 0x01800180 },
	  { 0x80808080 } },
	{ true, 16, { ONES, 5 }, { 0, 7 }, { 1, 2 }, { TOP, 0 } },
	{ true, 16, { ONES, ONES }, { 0, ONES }, { 1, 0 }, { TOP, TOP } },
	{ true, 32, { 1, ONES, 3, ONES }, { 11, 19, 33, 39 },
	  { 10, 20, 30, 40 }, { TOP, TOP, TOP, 0 } },
	{ true, 32, { ONES, ONES, ONES, ONES }, { 0, 0, 0, 0 },
	  { 0x0101010101010101, 0x0101010101010101, 0x0101010101010101,
	    0x0101010101010101 }, { BYTES, BYTES, BYTES, BYTES } },
};

static void list__each_operation_AS_LISTED(void)
{
	open_path();
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (!(list[i].bytes & sizes))
			continue;
		run(&list[i], AT);
		run(&list[i], AT + list[i].bytes);
	}
	rma_end();
}

static void masks__of_NULL_ALL_BITS(void)
{
	const uint64_t seven = 7, eight = 8;
	const struct post_swap swap = {
		.expected = &seven, .desired = &eight,
	};
	uint64_t *word, was;
	struct cookie *c;

	open_path();
	word = (uint64_t *)(far + AT);
	*word = 7;
	c = cookie();
	assert_int_equal(
		post_masked_swap(p.c.ep, &key, AT, 8, &swap, &was, 0, c), 0);
	wait_cookie(c, 0);
	assert_true(was == 7 && *word == 8);
	c = cookie();
	assert_int_equal(
		post_masked_swap(p.c.ep, &key, AT, 8, &swap, NULL, 0, c), 0);
	wait_cookie(c, 0);
	assert_true(*word == 8);
	*word = UINT64_MAX;
	c = cookie();
	assert_int_equal(
		post_add_fields(p.c.ep, &key, AT, 8, &seven, NULL, &was, 0, c),
		0);
	wait_cookie(c, 0);
	assert_true(was == UINT64_MAX && *word == 6);
	*word = UINT64_MAX;
	c = cookie();
	assert_int_equal(
		post_add_fields(p.c.ep, &key, AT, 4, &seven, NULL, NULL, 0, c),
		0);
	wait_cookie(c, 0);
	assert_true(((uint32_t *)word)[0] == 6);
	assert_true(((uint32_t *)word)[1] == UINT32_MAX);
	rma_end();
}

/* ---- a model: bit by bit ---------------------------------------------- */

static uint64_t seed;

static uint64_t rnd(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed ^ seed >> 29;
}

static bool bit(const uint64_t *words, size_t i)
{
	return words[i / 64] >> i % 64 & 1;
}

static void put(uint64_t *words, size_t i, bool set)
{
	words[i / 64] &= ~(1ull << i % 64);
	words[i / 64] |= (uint64_t)set << i % 64;
}

static void model_add(struct op *o)
{
	unsigned int carry = 0;

	for (size_t i = 0; i < 8 * o->bytes; i++) {
		unsigned int sum = bit(o->before, i) + bit(o->value, i) + carry;

		put(o->after, i, sum & 1);
		carry = bit(o->mask, i) ? 0 : sum >> 1;
	}
}

static void model_swap(struct op *o)
{
	for (size_t i = 0; i < 8 * o->bytes; i++)
		if (bit(o->compare, i) &&
		    bit(o->before, i) != bit(o->expected, i))
			return;
	for (size_t i = 0; i < 8 * o->bytes; i++)
		if (bit(o->mask, i))
			put(o->after, i, bit(o->value, i));
}

/* A random operand with sparse, dense, or no bits. */
static void draw(uint64_t words[WORDS], size_t bytes)
{
	static const uint64_t plain[] = { 0, UINT64_MAX, BYTES, TOP };

	memset(words, 0, WORDS * sizeof(*words));
	for (size_t i = 0; i < (bytes + 7) / 8; i++)
		words[i] = rnd() % 3 ? rnd() & (rnd() % 2 ? rnd() : ONES) :
			   plain[rnd() % 4];
	if (bytes == 4)
		words[0] = (uint32_t)words[0];
}

static void draw_op(struct op *o)
{
	do {
		o->bytes = (size_t)4 << rnd() % 4;
	} while (!(o->bytes & sizes));
	o->adds = rnd() % 2;
	draw(o->before, o->bytes);
	draw(o->value, o->bytes);
	draw(o->mask, o->bytes);
	draw(o->expected, o->bytes);
	draw(o->compare, o->bytes);
	memcpy(o->after, o->before, sizeof(o->after));
	if (o->adds) {
		for (size_t i = 0; i + 1 < o->bytes / 8; i++)
			o->mask[i] |= TOP;
		model_add(o);
		return;
	}
	/* half of the comparisons find equal bits */
	for (size_t i = 0; i < WORDS && rnd() % 2; i++)
		o->expected[i] = (o->before[i] & o->compare[i]) |
				 (o->expected[i] & ~o->compare[i]);
	model_swap(o);
}

static void random__operands_AS_THE_MODEL(void)
{
	struct op o;

	open_path();
	seed = 16;
	for (int i = 0; i < 2000; i++) {
		draw_op(&o);
		run(&o, AT + o.bytes * (rnd() % 4));
	}
	rma_end();
}

/* ---- order ------------------------------------------------------------ */

static void check_sum(struct end *e, struct rdmamsg_msg *msg)
{
	if (*(uint64_t *)(far + AT) != 40)
		note("the message came before the atomics before it");
	rdmamsg_msg_free(msg);
}

/* Behind the operations: an atomic, a read, a write and a message. */
static void order__of_the_calls_KEPT(void)
{
	static const uint64_t one = 1;
	static uint64_t was[41];
	struct rdmamsg_sge s = { .len = 8 };
	struct cookie *c[43];

	open_path();
	p.s.then_message = check_sum;
	s.data = near;
	s.region = near_region;
	for (size_t i = 0; i < 40; i++) {
		c[i] = cookie();
		assert_int_equal(post_add_fields(p.c.ep, &key, AT, 8, &one,
						 NULL, &was[i], 0, c[i]),
				 0);
	}
	c[40] = cookie();
	assert_int_equal(rdmamsg_fetch_add(p.c.ep, &key, AT, 0, &was[40], 0,
					   c[40]), 0);
	c[41] = cookie();
	assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, AT, 0, c[41]), 0);
	end_send_all(&p.c, HOW_SEND, 10, 3);
	s.data = near + 8;
	memset(near + 8, 0x77, 8);
	c[42] = cookie();
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, AT + 8, 0, c[42]),
			 0);
	while (!c[42]->count) {
		test_pump(100);
		check_notes();
		/* each after those before it */
		for (size_t i = 1; i < ARRAY_SIZE(c); i++)
			assert_true(c[i - 1]->count >= c[i]->count);
	}
	for (size_t i = 0; i < 41; i++)
		assert_int_equal(was[i], i);
	assert_int_equal(*(uint64_t *)near, 40);
	assert_int_equal(far[AT + 8], 0x77);
	rma_end();
	assert_int_equal(p.s.received, 1);
}

static void many__of_one_endpoint_EACH_ONCE(void)
{
	static uint32_t was[1000];
	struct op o = { .adds = true, .bytes = 4, .value = { 1 } };
	uint64_t sum = 0;

	open_path();
	for (size_t i = 0; i < ARRAY_SIZE(was); i++)
		post_all(&o, AT + 4, &was[i], cookie());
	WAIT_FOR(p.c.sent_ok == ARRAY_SIZE(was));
	for (size_t i = 0; i < ARRAY_SIZE(was); i++)
		sum += was[i];
	assert_int_equal(sum, ARRAY_SIZE(was) * (ARRAY_SIZE(was) - 1) / 2);
	assert_int_equal(*(uint32_t *)(far + AT), 0);
	assert_int_equal(*(uint32_t *)(far + AT + 4), ARRAY_SIZE(was));
	rma_end();
}

/* ---- refused ---------------------------------------------------------- */

static void calls__bad_arguments_ARE_TOLD(void)
{
	struct rdmamsg_masked_attr info = { .size = sizeof(info) };
	uint64_t v[WORDS] = { 0 };
	struct post_swap swap = { .expected = v, .desired = v };
	struct rdmamsg_ep *ep;

	open_path();
	ep = p.c.ep;
	for (size_t bytes = 1; bytes < 70; bytes++) {
		bool known = bytes == 4 || bytes == 8 || bytes == 16 ||
			     bytes == 32;

		if (known && bytes & sizes)
			continue;
		assert_error(
			post_add_fields(ep, &key, 0, bytes, v, NULL, v, 0, NULL),
			known ? -EOPNOTSUPP : -EINVAL, "operand");
		assert_error(
			post_masked_swap(ep, &key, 0, bytes, &swap, v, 0, NULL),
			known ? -EOPNOTSUPP : -EINVAL, "operand");
	}
	for (size_t bytes = 4; bytes <= 32; bytes *= 2) {
		if (!(bytes & sizes))
			continue;
		assert_error(post_add_fields(ep, &key, bytes / 2, bytes, v,
					     NULL, v, 0, NULL),
			     -EINVAL, "multiple of");
		assert_error(post_masked_swap(ep, &key, ROOM - bytes / 2, bytes,
					      &swap, v, 0, NULL),
			     -ERANGE, "reaches");
		if (bytes > 8)
			assert_error(post_add_fields(ep, &key, 0, bytes, v, v,
						     v, 0, NULL),
				     -EINVAL, "more than 8 bytes");
	}
	assert_error(post_add_fields(ep, &key, 0, 8, NULL, v, v, 0, NULL),
		     -EINVAL, "operand");
	assert_error(post_masked_swap(ep, &key, 0, 8, NULL, v, 0, NULL),
		     -EINVAL, "NULL");
	swap.desired = NULL;
	assert_error(post_masked_swap(ep, &key, 0, 8, &swap, v, 0, NULL),
		     -EINVAL, "NULL");
	swap.desired = v;
	swap.expected = NULL;
	assert_error(post_masked_swap(ep, &key, 0, 8, &swap, v, 0, NULL),
		     -EINVAL, "NULL");
	assert_error(post_add_fields(ep, NULL, 0, 8, v, v, v, 0, NULL), -EINVAL,
		     "key");
	assert_error(post_add_fields(ep, &key, 0, 8, v, v, v, 2, NULL), -EINVAL,
		     "flags");
	assert_error(post_add_fields(NULL, &key, 0, 8, v, v, v, 0, NULL),
		     -EINVAL, "NULL");
	assert_error(rdmamsg_ep_masked_query(NULL, &info), -EINVAL, "NULL");
	assert_error(rdmamsg_ep_masked_query(ep, NULL), -EINVAL, "struct");
	info.size = 3;
	assert_error(rdmamsg_ep_masked_query(ep, &info), -EINVAL, "size");
	rdmamsg_ep_close(ep);
	assert_error(post_add_fields(ep, &key, 0, 8, v, v, v, 0, NULL),
		     -ESHUTDOWN, "clos");
	WAIT_FOR(p.c.closed && p.s.closed);
	rma_fini();
}

/* In software the word around 4 bytes must be inside of the key. */
static void key__of_half_a_word_ENOUGH_FOR_THE_DEVICE(void)
{
	struct op o = {
		.adds = true, .bytes = 4, .before = { 1 }, .value = { 1 },
		.after = { 2 },
	};
	struct rdmamsg_region *half;

	open_path();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdmamsg_region_create(
					 p.s.ctx, far + AT + 4 * i, 4,
					 ACCESS_ALL, &half), 0);
		assert_int_equal(rdmamsg_region_get_key(half, p.s.ep, &key), 0);
		if (path == SOFTWARE)
			assert_error(post(&o, 0, NULL, NULL), -ERANGE,
				     "8 bytes");
		else
			run_at(&o, far + AT + 4 * i, 0);
		assert_int_equal(rdmamsg_region_destroy(half), 0);
	}
	rma_end();
}

static void key__without_atomics_ACCESS(void)
{
	struct op o = { .adds = true, .bytes = 8, .value = { 1 } };
	struct rdmamsg_region *weak;
	uint64_t was = 0x5555;
	struct cookie *c;

	open_path();
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM,
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE, &weak), 0);
	assert_int_equal(rdmamsg_region_get_key(weak, p.s.ep, &key), 0);
	assert_error(post(&o, AT, &was, NULL), -EACCES, "region");
	/* the device checks it as well */
	forge(1, ACCESS_ALL, 1);
	c = cookie();
	assert_int_equal(post(&o, AT, &was, c), 0);
	post_all(&o, AT, &was, cookie());
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(c->status, -EACCES);
	assert_int_equal(was, 0x5555);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	end_check_cookies(&p.c);
	assert_int_equal(rdmamsg_region_destroy(weak), 0);
	rma_fini();
}

ON_ALL(list__each_operation_AS_LISTED)
ON_ALL(masks__of_NULL_ALL_BITS)
ON_ALL(random__operands_AS_THE_MODEL)
ON_BOTH(order__of_the_calls_KEPT)
ON_BOTH(many__of_one_endpoint_EACH_ONCE)
ON_BOTH(calls__bad_arguments_ARE_TOLD)
ON_BOTH(key__of_half_a_word_ENOUGH_FOR_THE_DEVICE)
ON_BOTH(key__without_atomics_ACCESS)

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "adds", child_adds }, { "serves", child_serves },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(native__list__each_operation_AS_LISTED),
		TEST(software__list__each_operation_AS_LISTED),
		TEST(swapped__list__each_operation_AS_LISTED),
		TEST(native__masks__of_NULL_ALL_BITS),
		TEST(software__masks__of_NULL_ALL_BITS),
		TEST(swapped__masks__of_NULL_ALL_BITS),
		TEST(native__random__operands_AS_THE_MODEL),
		TEST(software__random__operands_AS_THE_MODEL),
		TEST(swapped__random__operands_AS_THE_MODEL),
		TEST(native__order__of_the_calls_KEPT),
		TEST(software__order__of_the_calls_KEPT),
		TEST(native__many__of_one_endpoint_EACH_ONCE),
		TEST(software__many__of_one_endpoint_EACH_ONCE),
		TEST(native__clients__of_many_processes_ADD_UP),
		TEST(software__clients__of_many_processes_ADD_UP),
		TEST(native__close__with_operations_DONE),
		TEST(software__close__with_operations_DONE),
		TEST(native__abort__with_operations_EACH_ENDS),
		TEST(software__abort__with_operations_EACH_ENDS),
		TEST(native__abort__by_the_peer_EACH_ENDS),
		TEST(software__abort__by_the_peer_EACH_ENDS),
		TEST(native__killed__in_the_middle_EACH_ENDS),
		TEST(software__killed__in_the_middle_EACH_ENDS),
		TEST(native__calls__bad_arguments_ARE_TOLD),
		TEST(software__calls__bad_arguments_ARE_TOLD),
		TEST(native__key__of_half_a_word_ENOUGH_FOR_THE_DEVICE),
		TEST(software__key__of_half_a_word_ENOUGH_FOR_THE_DEVICE),
		TEST(native__key__without_atomics_ACCESS),
		TEST(software__key__without_atomics_ACCESS),
	};

	return test_main(tests, roles, argc, argv);
}
