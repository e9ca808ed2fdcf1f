/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a subscriber makes one lost fragment of a block from the others,
 * while no time passes and without asking; and never makes a wrong one. Under
 * the test's clock.
 */
#include "members.h"
#include "moved_clock.h"
#include "base/list.h"
#include "group/parity.h"

#define BLOCK	4u
#define SIZE	100u			/* bytes of a fragment, in blocks alone */

/* ---- blocks alone ------------------------------------------------------- */

static uint8_t bytes[64][SIZE];

/* Fragments of messages with up to five of them; the last one is shorter. */
static uint32_t make_fragments(struct frame *f, uint32_t count, uint32_t seed)
{
	uint32_t number = 0xffffffffu - seed % 7, at = 0;

	while (at < count) {
		const uint32_t length = (seed = seed * 1664525u + 1013904223u) >>
					23;
		const uint32_t n = rdmamsg__frame_count(length, SIZE);

		for (uint32_t i = 0; i < n && at < count; i++, at++) {
			f[at] = (struct frame){
				.type = FRAME_DATA, .number = number,
				.length = length, .size = SIZE,
				.index = (uint16_t)i, .data = bytes[at],
			};
			assert_true(rdmamsg__fragment_len(&f[at],
							  &f[at].data_len));
			for (uint32_t k = 0; k < SIZE; k++)
				bytes[at][k] = (uint8_t)(seed + k * 7 + at);
		}
		number++;
	}
	return at;
}

static uint8_t sent[FRAME_PARITY_LEN + SIZE];

/* As it arrives. */
static struct frame parity_of(const struct frame *f, uint32_t count)
{
	struct parity *p = rdmamsg__parity_new(SIZE);
	struct frame of = { .type = FRAME_PARITY, .size = SIZE };

	assert_non_null(p);
	for (uint32_t i = 0; i < count; i++)
		rdmamsg__parity_add(p, &f[i], f[i].data);
	rdmamsg__parity_end(p, &of);
	memcpy(sent, of.data, of.data_len);
	of.data = sent;
	free(p);
	return of;
}

static void expect_made(struct parity *p, const struct frame *of,
			const struct frame *f)
{
	struct frame made;

	assert_true(rdmamsg__parity_make(p, of, &made));
	assert_int_equal(made.type, FRAME_DATA);
	assert_int_equal(made.number, f->number);
	assert_int_equal(made.index, f->index);
	assert_int_equal(made.length, f->length);
	assert_int_equal(made.data_len, f->data_len);
	assert_memory_equal(made.data, f->data, f->data_len);
}

static void one__of_a_block_IS_MADE(void **state)
{
	struct parity *p = rdmamsg__parity_new(SIZE);
	struct frame f[PARITY_MOST];

	assert_non_null(p);
	for (uint32_t count = 1; count <= PARITY_MOST; count++)
		for (uint32_t lost = 0; lost < count; lost++) {
			struct frame of;

			make_fragments(f, count, 53 * count + lost);
			of = parity_of(f, count);
			/* the first one comes last, as networks may have it */
			for (uint32_t i = count; i-- > 0;)
				if (i != lost)
					rdmamsg__parity_add(p, &f[i],
							    f[i].data);
			expect_made(p, &of, &f[lost]);
		}
	free(p);
}

/* Whatever came, or not, beside one fragment: nothing is made of it. */
static void another_number__of_a_block_MAKES_NOTHING(void **state)
{
	struct parity *p = rdmamsg__parity_new(SIZE);
	struct frame f[3 * BLOCK], of, made;

	assert_non_null(p);
	make_fragments(f, 3 * BLOCK, 7);
	of = parity_of(f + BLOCK, BLOCK);
	for (uint32_t came = 0; came < 1u << 3 * BLOCK; came++) {
		const uint32_t here = came >> BLOCK & ((1u << BLOCK) - 1);
		const bool right = here << BLOCK == came &&
				   __builtin_popcount(here) == BLOCK - 1;

		for (uint32_t i = 0; i < 3 * BLOCK; i++)
			if (came >> i & 1)
				rdmamsg__parity_add(p, &f[i], f[i].data);
		assert_int_equal(rdmamsg__parity_make(p, &of, &made), right);
	}
	free(p);
}

/* The sums of a block that the sender has made wrong. */
static void lies__of_a_sender_MAKE_NOTHING(void **state)
{
	struct parity *p = rdmamsg__parity_new(SIZE);
	struct frame f[BLOCK], of, made;

	assert_non_null(p);
	make_fragments(f, BLOCK, 9);
	for (uint32_t at = 0; at < 8 * (FRAME_PARITY_LEN - 4); at++) {
		of = parity_of(f, BLOCK);
		sent[at / 8] ^= (uint8_t)(1u << at % 8);
		for (uint32_t i = 1; i < BLOCK; i++)
			rdmamsg__parity_add(p, &f[i], f[i].data);
		if (rdmamsg__parity_make(p, &of, &made)) {
			assert_true(made.data_len <= SIZE);
			assert_true(made.index <
				    rdmamsg__frame_count(made.length, SIZE));
		}
	}
	/* longer than any fragment, and none at all */
	of = parity_of(f, BLOCK);
	for (uint32_t i = 1; i < BLOCK; i++)
		rdmamsg__parity_add(p, &f[i], f[i].data);
	of.size = 0;
	assert_false(rdmamsg__parity_make(p, &of, &made));
	of = parity_of(f, BLOCK);
	of.data_len = FRAME_PARITY_LEN + SIZE + 1;
	assert_false(rdmamsg__parity_make(p, &of, &made));
	free(p);
}

/* ---- members ------------------------------------------------------------ */

static struct rdmamsg_group_stats counters(const struct end *m)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_group_get_stats(m->group, &st), 0);
	return st;
}

static struct member *sender_at(const struct end *m)
{
	struct list *first = m->group->members.next;

	assert_ptr_not_equal(first, &m->group->members);
	return list_entry(first, struct member, node);
}

static bool know_each_other(void)
{
	for (int i = 1; i <= SUBSCRIBERS; i++)
		if (all[i].due != published || !sender_at(&all[i])->rtt ||
		    sender_at(&all[i])->audience != SUBSCRIBERS)
			return false;
	return true;
}

static void pass_time_until_known(void)
{
	for (int i = 0; i < 10 * TURNS && (i < 4000 || !know_each_other());
	     i++) {
		turn(i % 64 == 63);
		now += 500;
	}
	assert_true(know_each_other());
}

static void begin(const char *key)
{
	published = 0;
	for (int i = 0; i <= SUBSCRIBERS; i++)
		join_one(&all[i], (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_REPAIR |
				 (i ? RDMAMSG_GROUP_SUBSCRIBE :
				      RDMAMSG_GROUP_PUBLISH),
			.parity = i ? 0 : BLOCK,
			.key = key, .key_len = key ? strlen(key) : 0,
		});
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined);
	publish(1);
	/* they know each other, and how long a block takes */
	pass_time_until_known();
	for (int block = 0; block < 3; block++) {
		now += 1000;
		do
			publish(1);
		while (all[0].group->parity->count);
		assert_true(comes_at_once(published));
	}
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		assert_non_null(sender_at(&all[i])->parity);
		assert_true(sender_at(&all[i])->parity->block_us >= 1000);
	}
}

/* The next message is a datagram, and begins a block or is within one. */
static void publish_to(bool first)
{
	while (length_of(published) > 1000 ||
	       (all[0].group->parity->count == 0) != first ||
	       all[0].group->parity->count > BLOCK - 2)
		publish(1);
	assert_true(comes_at_once(published));
}

static void lose_one(void)
{
	assert_true(length_of(published) <= 1000);
	drop(1000000);
	publish(1);
	drop(0);
}

static void end_block(void)
{
	do
		publish(1);
	while (all[0].group->parity->count);
}

static uint64_t requests(void)
{
	uint64_t sum = 0;

	for (int i = 1; i <= SUBSCRIBERS; i++)
		sum += counters(&all[i]).asked;
	return sum;
}

static void expect_right(void)
{
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		assert_int_equal(all[i].gaps, 0);
		assert_false(all[i].bad);
		assert_int_equal(all[i].messages, published);
	}
	end_all();
}

static void one_loss__of_a_block_NOBODY_ASKS(void **state)
{
	uint64_t asked;

	begin(NULL);
	asked = requests();
	for (uint32_t n = 1; n <= 20; n++) {
		publish_to(n % 2);
		lose_one();
		end_block();
		assert_true(comes_at_once(published));
		for (int i = 1; i <= SUBSCRIBERS; i++)
			assert_int_equal(counters(&all[i]).recovered, n);
	}
	assert_int_equal(requests(), asked);
	assert_true(counters(&all[0]).sent_parity > 20);
	expect_right();
}

static void one_loss__with_a_key_NOBODY_ASKS(void **state)
{
	uint64_t asked;

	begin("the key of the group");
	asked = requests();
	publish_to(true);
	lose_one();
	end_block();
	assert_true(comes_at_once(published));
	assert_int_equal(requests(), asked);
	assert_int_equal(counters(&all[1]).recovered, 1);
	expect_right();
}

/* They ask as soon as the parity does not help. */
static void two_losses__of_a_block_ARE_ASKED_FOR_AT_ONCE(void **state)
{
	uint64_t asked;

	begin(NULL);
	asked = requests();
	do {
		publish_to(true);
		lose_one();
	} while (length_of(published) > 1000);
	lose_one();
	end_block();
	assert_true(comes_at_once(published));
	assert_true(requests() >= asked + SUBSCRIBERS);
	expect_right();
}

/* The parity is lost as well: it is not awaited for ever. */
static void loss__of_the_parity_too_IS_ASKED_FOR(void **state)
{
	begin(NULL);
	publish_to(true);
	lose_one();
	publish(1);
	drop(1000000);
	while (all[0].group->parity->count)
		publish(1);
	drop(0);
	for (int i = 0; i < TURNS && !all_due(published); i++) {
		turn(i % 64 == 63);
		now += 50;
	}
	assert_true(all_due(published));
	expect_right();
}

/* Fragments that a stream has put out may come again, and be summed twice. */
static void loss__where_parts_were_taken_out_IS_ASKED_FOR(void **state)
{
	begin(NULL);
	publish_to(true);
	lose_one();
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		sender_at(&all[i])->stream.evicted++;
	end_block();
	assert_true(comes_at_once(published));
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_int_equal(counters(&all[i]).recovered, 0);
	expect_right();
}

/* When nothing follows, the block ends with the heartbeat. */
static void loss__of_the_last_NOBODY_ASKS(void **state)
{
	uint64_t asked;

	begin(NULL);
	asked = requests();
	publish_to(false);
	lose_one();
	assert_false(comes_at_once(published));
	now += 10000;
	assert_true(comes_at_once(published));
	assert_int_equal(requests(), asked);
	assert_int_equal(counters(&all[1]).recovered, 1);
	expect_right();
}

static void losses__at_random_ARE_REPAIRED(void **state)
{
	begin(NULL);
	drop(50000);
	for (int i = 0; i < 100; i++) {
		publish(10);
		now += 1000;
		for (int k = 0; k < 4; k++)
			turn(0);
	}
	drop(0);
	for (int i = 0; i < TURNS && !all_due(published); i++) {
		turn(i % 64 == 63);
		now += 500;
	}
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_true(counters(&all[i]).recovered > 0);
	expect_right();
}

static void option__without_repair_EINVAL(void **state)
{
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .parity = BLOCK,
	}, more = {
		.size = sizeof(more), .parity = PARITY_MOST + 1,
		.flags = RDMAMSG_GROUP_REPAIR,
	};
	struct rdmamsg_group *g;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &opts, &g), -EINVAL);
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &more, &g), -EINVAL);
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one__of_a_block_IS_MADE),
		cmocka_unit_test(another_number__of_a_block_MAKES_NOTHING),
		cmocka_unit_test(lies__of_a_sender_MAKE_NOTHING),
		cmocka_unit_test(one_loss__of_a_block_NOBODY_ASKS),
		cmocka_unit_test(one_loss__with_a_key_NOBODY_ASKS),
		cmocka_unit_test(two_losses__of_a_block_ARE_ASKED_FOR_AT_ONCE),
		cmocka_unit_test(loss__of_the_parity_too_IS_ASKED_FOR),
		cmocka_unit_test(loss__where_parts_were_taken_out_IS_ASKED_FOR),
		cmocka_unit_test(loss__of_the_last_NOBODY_ASKS),
		cmocka_unit_test(losses__at_random_ARE_REPAIRED),
		cmocka_unit_test(option__without_repair_EINVAL),
	};

	return run_members("parity", tests, sizeof(tests) / sizeof(*tests));
}
