/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: effects, order and errors. */
#include "rma_pair.h"
#include "../post.h"

#include <sys/mman.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rma.h>

/*
 * Cuts [0, len) of the client's memory into gather entries, the last takes the
 * rest.
 */
static int cut(struct rdmamsg_sge *s, int count, size_t len, bool region)
{
	size_t at = 0;

	for (int i = 0; i < count; i++) {
		size_t n = i == count - 1 ? len - at : len / (size_t)count;

		s[i].data = near + at;
		s[i].len = n;
		s[i].region = region ? near_region : NULL;
		at += n;
	}
	return count;
}

static struct cookie *write_now(size_t len, int entries, bool region,
				uint64_t offset, uint32_t tag)
{
	struct rdmamsg_sge s[RDMAMSG_SEGMENTS_MAX];
	struct cookie *c = cookie();

	memcpy(near, pattern(tag), len);
	memset(far + offset, 0, len);
	if (rdmamsg_write(p.c.ep, s, cut(s, entries, len, region), &key, offset,
			  0, c))
		fail_msg("rdmamsg_write: %s", rdmamsg_error());
	if (!region)
		memset(near, 0xee, len); /* the write has copied the bytes */
	return c;
}

static const size_t sizes[] = {
	0, 1, 7, 8, 9, 240, 241, 4096, 8176, 8177, 65536, (1 << 20) - 1,
	1 << 20, (1 << 20) + 1, (5 << 20) + 3,
};

static void write__any_size_IS_THERE(void **state)
{
	rma_pair();
	assert_int_equal(end_info(&p.c).one_sided, 1);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		wait_cookie(write_now(sizes[i], 1, true, i, (uint32_t)i), 0);
		assert_memory_equal(far + i, pattern((uint32_t)i), sizes[i]);
		assert_int_equal(far[i + sizes[i]], 0);
	}
	rma_end();
}

static void write__without_region_IS_COPIED(void **state)
{
	struct rdmamsg_sge s = { near, 8177, NULL };

	rma_pair();
	for (size_t i = 0; sizes[i] <= 8176; i++) {
		wait_cookie(write_now(sizes[i], 1 + (int)i, false, 0,
				      (uint32_t)i), 0);
		assert_memory_equal(far, pattern((uint32_t)i), sizes[i]);
	}
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), -EMSGSIZE,
		     "region");
	rma_end();
}

static void write__in_slices_IS_ONE(void **state)
{
	rma_pair();
	for (int n = 1; n <= RDMAMSG_SEGMENTS_MAX; n++) {
		size_t len = n % 2 ? 1000 : (3 << 20) + 5;

		wait_cookie(write_now(len, n, true, 3, (uint32_t)n), 0);
		assert_memory_equal(far + 3, pattern((uint32_t)n), len);
	}
	rma_end();
}

static void read__any_size_and_slices_IS_THERE(void **state)
{
	struct rdmamsg_sge s[RDMAMSG_SEGMENTS_MAX];

	rma_pair();
	memcpy(far, pattern(1), ROOM);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct cookie *c = cookie();
		int n = cut(s, (int)i + 1, sizes[i], true);

		memset(near, 0, ROOM);
		assert_int_equal(rdmamsg_read(p.c.ep, s, n, &key, 5, 0, c), 0);
		wait_cookie(c, 0);
		assert_memory_equal(near, pattern(1) + 5, sizes[i]);
		assert_int_equal(near[sizes[i]], 0);
	}
	rma_end();
}

/* The device limits the reads in flight. Only the last read has a cookie. */
static void read__many_small_ONE_COMPLETION(void **state)
{
	struct rdmamsg_stats before = { .size = sizeof(before) };
	struct rdmamsg_stats after = before;

	rma_open(NULL);
	p.c.tuning.initiator_depth = 2;
	rma_start();
	memcpy(far, pattern(6), 4000);
	assert_int_equal(rdmamsg_ep_get_stats(p.c.ep, &before), 0);
	for (size_t i = 0; i < 40; i++) {
		struct rdmamsg_sge s = { near + i * 100, 100, near_region };

		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, i * 100, 0,
					      i == 39 ? cookie() : NULL), 0);
	}
	WAIT_FOR(p.c.sent_ok == 1);
	assert_memory_equal(near, pattern(6), 4000);
	assert_int_equal(rdmamsg_ep_get_stats(p.c.ep, &after), 0);
	/* on iWARP, completions prove no other request */
	assert_in_range(after.completions - before.completions, 1,
			test_iwarp() ? 40 : 10);
	rma_end();
}

/*
 * On iWARP a write completes when the own device has taken it. What has been
 * read behind it tells that it has arrived.
 */
static void read_behind(uint64_t offset)
{
	struct rdmamsg_sge s = { near + offset, 1, near_region };
	struct cookie *c = cookie();

	assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, offset, 0, c), 0);
	wait_cookie(c, 0);
}

/* A fenced write sends the bytes that the read before it has fetched. */
static void write__fenced_behind_a_read_HAS_WHAT_WAS_READ(void **state)
{
	static const size_t lens[] = { 300, 4000, 1 << 20 };
	const uint64_t there = 3 << 20;

	rma_pair();
	for (uint32_t i = 0; i < 30; i++) {
		size_t len = lens[i % ARRAY_SIZE(lens)];
		struct rdmamsg_sge s = { near, len, near_region };
		struct cookie *c = cookie();

		memcpy(far, pattern(i), len);
		memset(far + there, 0, len);
		memset(near, 0, len);
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL),
				 0);
		assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, there,
					       RDMAMSG_FENCE, c), 0);
		wait_cookie(c, 0);
		if (test_iwarp())
			read_behind(there);
		assert_memory_equal(far + there, pattern(i), len);
	}
	rma_end();
}

/* When a message arrives, the write before it has arrived. */
static void check_written(struct end *e, struct rdmamsg_msg *msg)
{
	if (memcmp(far, pattern(9), (2 << 20) + 1))
		note("the message came before what was written");
	rdmamsg_msg_free(msg);
}

static void write__before_a_message_IS_THERE_FIRST(void **state)
{
	rma_pair();
	p.s.then_message = check_written;
	(void)write_now((2 << 20) + 1, 3, true, 0, 9);
	end_send_all(&p.c, HOW_SEND, 10, 3);
	rma_end();
	assert_int_equal(p.s.received, 1);
}

/* More writes than credits, between small and large messages. */
static void write_imm__beyond_credits_IN_ORDER(void **state)
{
	rma_pair();
	for (uint32_t i = 0; i < 300; i++) {
		struct rdmamsg_sge s = { near, i % 3 * 100, near_region };
		struct cookie *c = cookie();
		int ret;

		while ((ret = post_notify(p.c.ep, &s, 1, &key, i, i, 0, c)) ==
		       -EAGAIN) {
			unsigned int told = p.c.writable;

			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
		if (i % 50 == 0)
			end_send_all(&p.c, HOW_SENDV, i % 100 ? 20 : 200000, i);
	}
	WAIT_FOR(value_count == 300);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(values[i], i);
	WAIT_FOR(p.c.sent_ok == p.c.sent);
	end_check_cookies(&p.c);
	rma_end();
}

static void flush__behind_writes_DATA_THERE(void **state)
{
	static const size_t lens[] = { 0, 1, 100, 5000, 70000, ROOM };

	rma_pair();
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct rdmamsg_sge s = { near, lens[i], near_region };
		struct cookie *c = cookie();

		memset(near, (int)(i + 1), lens[i]);
		assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0,
					       NULL), 0);
		assert_int_equal(rdmamsg_flush(p.c.ep, c), 0);
		wait_cookie(c, 0);
		assert_memory_equal(far, near, lens[i]);
	}
	rma_end();
}

/* The write itself may complete with success before it is refused. */
static void flush__behind_a_refused_write_FAILS(void **state)
{
	struct rdmamsg_sge s;
	struct cookie *c;

	rma_pair();
	s = (struct rdmamsg_sge){ near, 64, near_region };
	c = cookie();
	assert_int_equal(rdmamsg_region_revoke(far_region), 0);
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), 0);
	assert_int_equal(rdmamsg_flush(p.c.ep, c), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(c->count, 1);
	assert_int_not_equal(c->status, 0);
	rma_fini();
}

static void atomics__give_what_was_BEFORE(void **state)
{
	uint64_t *word, was = 1;
	struct cookie *c;

	skip_on_iwarp(NO_ATOMICS);
	rma_pair();
	word = (uint64_t *)(far + 64);
	assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTED);
	if (test_on_soft())
		assert_int_equal(end_info(&p.s).atomic_scope,
				 RDMAMSG_ATOMIC_HOST);
	else
		assert_int_not_equal(end_info(&p.s).atomic_scope,
				     RDMAMSG_ATOMIC_NONE);
	*word = 40;
	c = cookie();
	assert_int_equal(rdmamsg_fetch_add(p.c.ep, &key, 64, 2, &was, 0, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(was, 40);
	assert_int_equal(*word, 42);
	c = cookie();
	assert_int_equal(rdmamsg_compare_swap(p.c.ep, &key, 64, 41, 7, &was, 0,
					      c), 0);
	wait_cookie(c, 0);
	assert_int_equal(was, 42);
	assert_int_equal(*word, 42);
	c = cookie();
	assert_int_equal(rdmamsg_compare_swap(p.c.ep, &key, 64, 42, 7, &was,
					      RDMAMSG_FENCE, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(was, 42);
	assert_int_equal(*word, 7);
	assert_error(rdmamsg_fetch_add(p.c.ep, &key, 65, 2, NULL, 0, NULL),
		     -EINVAL, "multiple of 8");
	assert_error(rdmamsg_fetch_add(p.c.ep, &key, ROOM - 4, 2, NULL, 0,
				       NULL), -ERANGE, "reaches");
	rma_end();
}

/* Each atomic returns another value, and the sum is right. */
static void atomics__many_EACH_ONCE(void **state)
{
	static uint64_t was[500];
	uint64_t sum = 0;

	skip_on_iwarp(NO_ATOMICS);
	rma_pair();
	for (size_t i = 0; i < ARRAY_SIZE(was); i++) {
		struct cookie *c = cookie();
		int ret;

		while ((ret = rdmamsg_fetch_add(p.c.ep, &key, 0, 1, &was[i], 0,
						c)) == -EAGAIN) {
			unsigned int told = p.c.writable;

			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
	}
	WAIT_FOR(p.c.sent_ok == ARRAY_SIZE(was));
	for (size_t i = 0; i < ARRAY_SIZE(was); i++)
		sum += was[i];
	assert_int_equal(sum, ARRAY_SIZE(was) * (ARRAY_SIZE(was) - 1) / 2);
	assert_int_equal(*(uint64_t *)far, ARRAY_SIZE(was));
	rma_end();
}

/* The library reads large messages while the program's reads go on. */
static void read__with_large_messages_BOTH(void **state)
{
	struct rdmamsg_sge s;

	rma_open(NULL);
	p.c.tuning.initiator_depth = 2;
	rma_start();
	memcpy(far, pattern(4), ROOM);
	for (uint32_t i = 0; i < 40; i++) {
		s = (struct rdmamsg_sge){
			near + i * 100000, 100000, near_region,
		};
		end_send_all(&p.s, HOW_SENDV, 1 << 20, i);
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key,
					      i * 100000, 0,
					      cookie()), 0);
	}
	WAIT_FOR(p.c.sent_ok == 40 && p.c.received == 40);
	assert_memory_equal(near, pattern(4), 4000000);
	rma_end();
}

#define READS		20
#define MESSAGES_MAX	1000

static uint32_t supplied;

/* Supplies large messages until the reads are done. */
static void supply(struct end *e)
{
	if (p.c.sent_ok < READS && supplied < MESSAGES_MAX &&
	    !end_send(e, HOW_SENDV, 100000, supplied))
		supplied++;
}

static void read__with_large_messages_without_end_HAS_ITS_TURN(void **state)
{
	rma_open(NULL);
	p.c.tuning.initiator_depth = 1;
	p.s.then_sent = supply;
	rma_start();
	supplied = 0;
	memcpy(far, pattern(4), ROOM);
	for (int i = 0; i < 8; i++)
		supply(&p.s);
	for (uint32_t i = 0; i < READS; i++) {
		struct rdmamsg_sge s = {
			near + i * 100000, 100000, near_region,
		};

		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key,
					      i * 100000, 0, cookie()), 0);
	}
	WAIT_FOR(p.c.sent_ok == READS);
	assert_true(supplied < MESSAGES_MAX);
	WAIT_FOR(p.c.received == p.c.expected_count);
	assert_memory_equal(near, pattern(4), READS * 100000);
	rma_end();
}

/*
 * Behind a waiting large message each write keeps its credit, which bounds
 * them.
 */
static void write_imm__behind_one_that_waits_BOUNDED(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 14 << 20,
		.max_send_registered = 2 << 20,
	};
	uint32_t accepted = 0, idle = 0;

	rma_open(&opts);
	p.s.keep = true;
	rma_start();
	end_send_all(&p.c, HOW_SENDV, 4 << 20, 1);
	WAIT_FOR(p.s.kept_count == 1);
	/* the receiver has memory for one such message */
	end_send_all(&p.c, HOW_SENDV, 4 << 20, 2);
	while (accepted < 3000 && idle < 20) {
		int ret = post_notify(p.c.ep, NULL, 0, &key, 0, accepted, 0,
				      NULL);

		if (!ret) {
			accepted++;
			idle = 0;
			continue;
		}
		assert_int_equal(ret, -EAGAIN);
		test_pump(100);
		idle++;
	}
	/* recv_depth, and the queue at the sender */
	if (accepted > 64 + 128)
		fail_msg("%u were taken", accepted);
	assert_int_equal(value_count, 0);
	end_release(&p.s);
	WAIT_FOR(value_count == accepted);
	for (uint32_t i = 0; i < accepted; i++)
		assert_int_equal(values[i], i);
	rma_end();
}

static void write__full_EAGAIN_THEN_WRITABLE(void **state)
{
	struct rdmamsg_sge s;
	unsigned int refused = 0;

	rma_open(NULL);
	p.c.tuning.send_depth = 4;
	rma_start();
	for (uint32_t i = 0; i < 200; i++) {
		struct cookie *c = cookie();
		int ret;

		s = (struct rdmamsg_sge){ near, 1000, near_region };
		while ((ret = rdmamsg_write(p.c.ep, &s, 1, &key, i, 0, c)) ==
		       -EAGAIN) {
			unsigned int told = p.c.writable;

			refused++;
			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
	}
	assert_true(refused > 0);
	rma_end();
	assert_int_equal(p.c.sent_ok, 200);
}

/* A graceful close completes accepted operations, an abort cancels them. */
static void close__with_operations_DONE(void **state)
{
	struct rdmamsg_sge s;

	rma_pair();
	for (uint32_t i = 0; i < 30; i++) {
		s = (struct rdmamsg_sge){ near, 1 << 20, near_region };
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0,
					      cookie()), 0);
		assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0,
					       cookie()), 0);
	}
	assert_error(rdmamsg_region_revoke(near_region), -EBUSY, "on_complete");
	rma_end();
	assert_int_equal(p.c.sent_ok, 60);
}

static void abort__with_operations_EACH_ENDS(void **state)
{
	struct rdmamsg_sge s;

	rma_pair();
	for (uint32_t i = 0; i < 60; i++) {
		s = (struct rdmamsg_sge){ near, 3 << 20, near_region };
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0,
					      cookie()), 0);
		assert_int_equal(
			post_notify(p.c.ep, &s, 1, &key, 0, 1, 0, cookie()), 0);
	}
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	rma_fini();
}

/* ---- refused ---------------------------------------------------------- */

static void key__revoked_ACCESS(void **state)
{
	rma_pair();
	wait_cookie(write_now(64, 1, true, 0, 1), 0);
	assert_int_equal(rdmamsg_region_revoke(far_region), 0);
	memset(far, 0x55, 64);
	memset(near, 0xaa, 64);
	expect_refused('w');
	assert_int_equal(far[0], 0x55);
	rma_fini();
}

static void key__wrong_rkey_ACCESS(void **state)
{
	rma_pair();
	key.bytes[5] ^= 0x40;
	expect_refused('w');
	rma_fini();
}

static void key__out_of_range_ACCESS(void **state)
{
	rma_pair();
	forge(16, (uintptr_t)far + ROOM - 8, 8);
	expect_refused('r');
	rma_fini();
}

static void key__too_weak_ACCESS(void **state)
{
	static const struct {
		uint32_t access;
		int op;
	} weak[] = {
		{ RDMAMSG_ACCESS_READ, 'w' }, { RDMAMSG_ACCESS_WRITE, 'r' },
		{ RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE, 'a' },
	};

	for (size_t i = 0; i < ARRAY_SIZE(weak); i++) {
		if (weak[i].op == 'a' && test_iwarp())
			continue;
		/* siw checks no right to read (siw_qp_sq_proc_tx()) */
		if (weak[i].op == 'r' && test_on_siw())
			continue;
		rma_pair();
		assert_int_equal(rdmamsg_region_destroy(far_region), 0);
		export_key(weak[i].access);
		forge(1, ACCESS_ALL, 1);
		expect_refused(weak[i].op);
		rma_fini();
	}
}

static void calls__bad_arguments_ARE_TOLD(void **state)
{
	struct rdmamsg_sge s = { .len = 64 };
	struct rdmamsg_region *other, *weak;
	struct rdmamsg_key bad;
	struct rdmamsg_key_attr info = { .size = sizeof(info) };
	struct cookie *c;

	rma_pair();
	s.data = near;
	s.region = near_region;
	/* the first write takes the slow path, which checks all arguments */
	c = cookie();
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(rdmamsg_key_query(&key, &info), 0);
	assert_int_equal(info.len, ROOM);
	assert_int_equal(info.access, ACCESS_ALL);
	assert_error(rdmamsg_key_query(NULL, &info), -EINVAL, "NULL");
	bad = key;
	bad.bytes[0] = 9;
	assert_error(rdmamsg_key_import(&bad, 32, &bad), -EPROTO, "no key");
	assert_error(rdmamsg_key_import(&key, 31, &bad), -EPROTO, "no key");
	assert_error(rdmamsg_key_query(&bad, &info), -EPROTO, "no key");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &bad, 0, 0, NULL), -EINVAL,
		     "key");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, NULL, 0, 0, NULL), -EINVAL,
		     "key");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, ROOM + 1, 0, NULL),
		     -ERANGE, "reaches");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, ROOM - 63, 0, NULL),
		     -ERANGE, "reaches");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 2, NULL), -EINVAL,
		     "flags");
	assert_error(rdmamsg_write(p.c.ep, &s, 17, &key, 0, 0, NULL), -EINVAL,
		     "16");
	assert_error(rdmamsg_write(p.c.ep, NULL, 1, &key, 0, 0, NULL), -EINVAL,
		     "NULL");
	s.region = NULL;
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "region");
	s.region = near_region;
	s.data = near + ROOM - 1;
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "outside");
	s.data = near;
	s.region = far_region;
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "outside");

	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, 64, 0, &weak), 0);
	s.region = weak;
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "rdmamsg_region_register");
	assert_error(rdmamsg_region_get_key(weak, p.c.ep, &bad), -EINVAL,
		     "nothing");
	assert_int_equal(rdmamsg_region_register(weak, p.c.ep), 0);
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EACCES,
		     "LOCAL_WRITE");
	assert_error(rdmamsg_region_register(weak, p.s.ep), -EINVAL, "context");
	assert_int_equal(rdmamsg_region_destroy(weak), 0);
	assert_int_equal(rdmamsg_region_destroy(NULL), 0);
	assert_error(rdmamsg_region_create(p.c.ctx, NULL, 64, 0, &other),
		     -EINVAL, "NULL");
	assert_error(rdmamsg_region_create(p.c.ctx, near, 64, 1u << 30, &other),
		     -EINVAL, "access");

	assert_int_equal(rdmamsg_region_destroy(far_region), 0);
	export_key(RDMAMSG_ACCESS_READ);
	s.region = near_region;
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), -EACCES,
		     "allow");
	rma_end();
}

static void region__again_OTHER_KEY(void **state)
{
	struct rdmamsg_key old;

	rma_pair();
	old = key;
	assert_int_equal(rdmamsg_region_revoke(far_region), 0);
	assert_int_equal(rdmamsg_region_get_key(far_region, p.s.ep, &key), 0);
	assert_memory_not_equal(&old, &key, sizeof(key));
	wait_cookie(write_now(100, 1, true, 0, 1), 0);
	/* rdmamsg_close() destroys the remaining region */
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, 0,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_register(near_region, p.s.ep), 0);
	near_region = NULL;
	rma_end();
}

/* No tested device registers a dmabuf. */
static void dmabuf__not_taken_EOPNOTSUPP(void **state)
{
	struct rdmamsg_region *region;
	int fds = open_fds();

	rma_pair();
	assert_error(rdmamsg_region_dmabuf(p.c.ctx, -1, 0, 4096, 0, &region),
		     -EBADF, "fd");
	assert_error(rdmamsg_region_dmabuf(p.c.ctx, 0, 0, 0, 0, &region),
		     -EINVAL, "len");
	assert_int_equal(rdmamsg_region_dmabuf(p.c.ctx, 0, 0, 4096,
					       RDMAMSG_ACCESS_READ, &region),
			 0);
	assert_error(rdmamsg_region_register(region, p.c.ep), -EOPNOTSUPP,
		     "dmabuf");
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	rma_end();
	assert_int_equal(open_fds(), fds);
}

/* ---- memory that does not permit the access --------------------------- */

static void region__page_inside_not_permitted_NAMED(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 9 * page;
	char *mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* some kernels register for reading what permits nothing */
	uint32_t access = test_on_soft() ? RDMAMSG_ACCESS_READ :
					   RDMAMSG_ACCESS_WRITE;
	struct rdmamsg_region *r;
	char text[32];

	assert_ptr_not_equal(mem, MAP_FAILED);
	memset(mem, 1, len);
	rma_pair();
	for (int i = 0; i < 9; i++) {
		assert_int_equal(mprotect(mem + (size_t)i * page, page, PROT_NONE), 0);
		(void)snprintf(text, sizeof(text), "page at %p ",
			       (void *)(mem + (size_t)i * page));
		assert_int_equal(rdmamsg_region_create(p.c.ctx, mem, len,
						       access, &r), 0);
		assert_error(rdmamsg_region_register(r, p.c.ep), -EFAULT,
			     text);
		assert_int_equal(mprotect(mem + (size_t)i * page, page,
					  PROT_READ | PROT_WRITE), 0);
		assert_int_equal(rdmamsg_region_register(r, p.c.ep), 0);
		assert_int_equal(rdmamsg_region_destroy(r), 0);
	}
	rma_end();
	assert_int_equal(munmap(mem, len), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(region__page_inside_not_permitted_NAMED),
		TEST(write__any_size_IS_THERE),
		TEST(write__without_region_IS_COPIED),
		TEST(write__in_slices_IS_ONE),
		TEST(write__before_a_message_IS_THERE_FIRST),
		TEST(write__fenced_behind_a_read_HAS_WHAT_WAS_READ),
		TEST(write__full_EAGAIN_THEN_WRITABLE),
		TEST(write_imm__beyond_credits_IN_ORDER),
		TEST(write_imm__behind_one_that_waits_BOUNDED),
		TEST(read__any_size_and_slices_IS_THERE),
		TEST(read__many_small_ONE_COMPLETION),
		TEST(read__with_large_messages_BOTH),
		TEST(read__with_large_messages_without_end_HAS_ITS_TURN),
		TEST(flush__behind_writes_DATA_THERE),
		TEST(flush__behind_a_refused_write_FAILS),
		TEST(atomics__give_what_was_BEFORE),
		TEST(atomics__many_EACH_ONCE),
		TEST(close__with_operations_DONE),
		TEST(abort__with_operations_EACH_ENDS),
		TEST(key__revoked_ACCESS),
		TEST(key__wrong_rkey_ACCESS),
		TEST(key__out_of_range_ACCESS),
		TEST(key__too_weak_ACCESS),
		TEST(calls__bad_arguments_ARE_TOLD),
		TEST(region__again_OTHER_KEY),
		TEST(dmabuf__not_taken_EOPNOTSUPP),
	};

	return test_main(tests, NULL, argc, argv);
}
