/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: peers whose library offers fewer features. The test carries the
 * record in which each side names its features, and changes it.
 */
#include "rma_pair.h"
#include "../post.h"

#include <rdmamsg/device.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rma.h>

/* offsets in the record, as in rdmamsg-proto(7) */
#define HELLO_AT	58
#define FEATURES	8
#define ONE_SIDED	1u
#define INVALIDATE	2u
#define MASKED		(32u | 512u)	/* of any size, of 4 and 8 bytes */
#define MASKED_LARGE	32u

static uint32_t mask_features(uint8_t *record, uint32_t mask)
{
	uint16_t hello;
	uint32_t said, left;

	memcpy(&hello, record + HELLO_AT, sizeof(hello));
	record += le16toh(hello) + FEATURES;
	memcpy(&said, record, sizeof(said));
	said = le32toh(said);
	left = htole32(said & mask);
	memcpy(record, &left, sizeof(left));
	return said;
}

/* Each side offers only the features of its mask. */
static void rma_start_with(uint32_t to_client, uint32_t to_server)
{
	uint8_t record[RDMAMSG_OOB_MAX];
	uint32_t said;
	int len;

	rma_open(NULL);
	p.c.opts.device = p.s.opts.device = test_device();
	/* without the CM only missing acknowledgements reveal an abort */
	p.c.opts.dead_after_ms = p.s.opts.dead_after_ms = test_dead_after_ms();
	assert_int_equal(rdmamsg_oob_offer(p.c.ctx, &p.c.opts, &p.c.ep), 0);
	len = rdmamsg_oob_record(p.c.ep, record, sizeof(record));
	assert_true(len > 0);
	said = mask_features(record, to_server);
	assert_true(said & ONE_SIDED);
	assert_int_equal(!!(said & INVALIDATE), test_on_soft());
	assert_int_equal(!!(said & MASKED), test_on_soft());
	assert_int_equal(rdmamsg_oob_answer(p.s.ctx, record, (size_t)len,
					    &p.s.opts, &p.s.ep), 0);
	len = rdmamsg_oob_record(p.s.ep, record, sizeof(record));
	assert_true(len > 0);
	assert_int_equal(mask_features(record, to_client), said);
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, record, (size_t)len), 0);
	WAIT_FOR(p.c.connected && p.s.connected);
	export_key(ACCESS_ALL);
	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, ROOM,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_register(near_region, p.c.ep), 0);
}

/* Messages of every size work without the feature. */
static void talk(void)
{
	static const size_t lens[] = { 0, 100, 5000, 300000 };

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		end_send_all(&p.c, HOW_SENDV, lens[i], i);
		end_send_all(&p.s, HOW_SENDV, lens[i], i);
	}
	WAIT_FOR(p.c.received == ARRAY_SIZE(lens) &&
		 p.s.received == ARRAY_SIZE(lens));
}

static void rma__peer_knows_none_EOPNOTSUPP(void **state)
{
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };
	struct rdmamsg_sge s = { NULL, 8, NULL };
	struct rdmamsg_window *w;

	rma_start_with(0, 0);
	assert_int_equal(end_info(&p.c).one_sided, 0);
	assert_int_equal(end_info(&p.c).send_invalidate, 0);
	s.data = near;
	s.region = near_region;
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL),
		     -EOPNOTSUPP, "peer");
	assert_error(post_notify(p.c.ep, &s, 1, &key, 0, 1, 0, NULL),
		     -EOPNOTSUPP, "peer");
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL),
		     -EOPNOTSUPP, "peer");
	assert_error(rdmamsg_fetch_add(p.c.ep, &key, 0, 1, NULL, 0, NULL),
		     -EOPNOTSUPP, "peer");
	assert_error(rdmamsg_compare_swap(p.c.ep, &key, 0, 0, 1, NULL, 0, NULL),
		     -EOPNOTSUPP, "peer");
	assert_error(
		post_add_fields(p.c.ep, &key, 0, 8, near, NULL, NULL, 0, NULL),
		-EOPNOTSUPP, "peer");
	assert_int_equal(rdmamsg_ep_masked_query(p.c.ep, &can), 0);
	assert_int_equal(can.how, RDMAMSG_CAP_ABSENT);
	assert_int_equal(can.sizes, 0);
	assert_error(rdmamsg_window_create(p.c.ep, &w), -EOPNOTSUPP, "peer");
	assert_error(post_invalidate(p.c.ep, "x", 1, 1, &key, NULL),
		     -EOPNOTSUPP, "peer");
	talk();
	rma_end();
}

/* The peer's device has no masked atomics, so the library does without. */
static void masked__peer_has_none_IN_SOFTWARE(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_masked_attr can = { .size = sizeof(can) };
		const uint64_t one = 1;
		struct cookie *c;

		rma_start_with(i ? ~MASKED : ~0u, ~0u);
		assert_int_equal(rdmamsg_ep_masked_query(p.c.ep, &can), 0);
		assert_int_equal(can.how, i || !test_on_soft() ?
				 RDMAMSG_CAP_SOFTWARE : RDMAMSG_CAP_NATIVE);
		c = cookie();
		assert_int_equal(post_add_fields(p.c.ep, &key, 8, 8, &one, NULL,
						 NULL, 0, c),
				 0);
		wait_cookie(c, 0);
		assert_int_equal(((uint64_t *)far)[1], 1);
		talk();
		rma_end();
	}
}

/* The peer's device has those of 4 and 8 bytes, as cards do. */
static void masked__peer_has_small_ones_NATIVE(void **state)
{
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };
	const uint64_t two[2] = { 1, 1 };
	struct cookie *c;

	if (!test_on_soft())
		skip_because("the device has no masked atomics");
	rma_start_with(~MASKED_LARGE, ~0u);
	assert_int_equal(rdmamsg_ep_masked_query(p.c.ep, &can), 0);
	assert_int_equal(can.how, RDMAMSG_CAP_NATIVE);
	assert_int_equal(can.sizes, 4 | 8);
	c = cookie();
	assert_int_equal(
		post_add_fields(p.c.ep, &key, 8, 8, two, NULL, NULL, 0, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(((uint64_t *)far)[1], 1);
	assert_error(
		post_add_fields(p.c.ep, &key, 16, 16, two, NULL, NULL, 0, NULL),
		-EOPNOTSUPP, "4 and 8 bytes");
	talk();
	rma_end();
}

/* Without the feature everything works but post_invalidate(). */
static void invalidate__peer_cannot_EOPNOTSUPP(void **state)
{
	struct rdmamsg_sge s = { NULL, 8, NULL };
	struct rdmamsg_window *w;
	struct cookie *c;

	rma_start_with(ONE_SIDED, ONE_SIDED);
	assert_int_equal(end_info(&p.c).one_sided, 1);
	assert_int_equal(end_info(&p.c).send_invalidate, 0);
	s.data = near;
	s.region = near_region;
	c = cookie();
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c), 0);
	wait_cookie(c, 0);
	assert_error(post_invalidate(p.c.ep, "x", 1, 1, &key, NULL),
		     -EOPNOTSUPP, "peer");
	/* the call fails for good, so it never becomes -EAGAIN */
	while (!rdmamsg_send(p.c.ep, pattern(9), 10, 9, NULL))
		end_expect(&p.s, 10, 9);
	assert_error(post_invalidate(p.c.ep, "x", 1, 1, &key, NULL),
		     -EOPNOTSUPP, "peer");
	WAIT_FOR(p.s.received == p.s.expected_count);
	p.s.received = p.s.expected_count = 0;
	if (test_on_soft()) {
		assert_int_equal(rdmamsg_window_create(p.s.ep, &w), 0);
		assert_int_equal(rdmamsg_window_destroy(w), 0);
	}
	talk();
	rma_end();
}

/* Only one side has agreed on remote invalidate. */
static void invalidate__not_agreed_PROTOCOL(void **state)
{
	struct rdmamsg_region *windowed;
	struct rdmamsg_window *w;

	if (!test_on_soft())
		return;		/* the device lacks remote invalidate */
	rma_start_with(~0u, ONE_SIDED);
	p.s.expect_nothing = true;
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM,
					       RDMAMSG_ACCESS_WINDOW,
					       &windowed), 0);
	assert_int_equal(rdmamsg_region_register(windowed, p.s.ep), 0);
	assert_int_equal(rdmamsg_window_create(p.s.ep, &w), 0);
	assert_int_equal(rdmamsg_window_bind(w, windowed, 0, 8,
					     RDMAMSG_ACCESS_READ, &key, NULL),
			 0);
	end_send_all(&p.s, HOW_SEND, 1, 1);
	WAIT_FOR(p.c.received == 1);
	assert_int_equal(post_invalidate(p.c.ep, "x", 1, 1, &key, NULL), 0);
	WAIT_PASSING(p.c.closed && p.s.closed);
	assert_int_equal(p.s.received, 0);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	rma_fini();
}

static void written__not_agreed_PROTOCOL(void **state)
{
	rma_start_with(~0u, 0);
	assert_int_equal(post_notify(p.c.ep, NULL, 0, &key, 0, 1, 0, NULL), 0);
	WAIT_PASSING(p.c.closed && p.s.closed);
	assert_int_equal(value_count, 0);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	rma_fini();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(rma__peer_knows_none_EOPNOTSUPP),
		TEST(masked__peer_has_none_IN_SOFTWARE),
		TEST(masked__peer_has_small_ones_NATIVE),
		TEST(invalidate__peer_cannot_EOPNOTSUPP),
		TEST(invalidate__not_agreed_PROTOCOL),
		TEST(written__not_agreed_PROTOCOL),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, NULL, argc, argv);
}
