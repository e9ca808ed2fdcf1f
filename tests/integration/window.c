/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: the owner grants and revokes access to a part of a region. */
#include "rma_pair.h"
#include "../post.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

static struct rdmamsg_window *window;
static struct rdmamsg_region *windowed;	/* all of the server's memory */
static unsigned int taken; /* granted windows that the client has invalidated */
static struct rdmamsg_window *taken_window;

static void on_invalidated(struct rdmamsg_ep *ep, struct rdmamsg_window *w)
{
	if (rdmamsg_ep_user(ep) != &p.s)
		note("on_invalidated at the wrong end");
	taken++;
	taken_window = w;
}

static uint32_t ep_flags;		/* of both ends */

static bool has_windows(void)
{
	const char *lacks = getenv("RDMAMSG_SOFT_LACKS");

	return !strncmp(rdmamsg_ep_device_name(p.s.ep), "soft", 4) &&
	       !(lacks && strstr(lacks, "windows"));
}

/*
 * Opens a pair with a window. Returns false on a device without windows, which
 * must report that.
 */
static bool window_open_with(const struct rdmamsg_options *opts)
{
	rma_open(opts);
	p.c.opts.flags |= ep_flags;
	p.s.opts.flags |= ep_flags;
	p.s.on.on_invalidated = on_invalidated;
	rma_start();
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM,
					       RDMAMSG_ACCESS_WINDOW,
					       &windowed), 0);
	if (!has_windows()) {
		assert_error(rdmamsg_window_create(p.s.ep, &window),
			     -EOPNOTSUPP, "window");
		assert_int_equal(end_info(&p.c).send_invalidate, 0);
		assert_error(post_invalidate(p.c.ep, "x", 1, 1, &key, NULL),
			     -EOPNOTSUPP, "remote invalidate");
		assert_int_equal(rdmamsg_region_destroy(windowed), 0);
		rma_end();
		return false;
	}
	assert_int_equal(rdmamsg_region_register(windowed, p.s.ep), 0);
	assert_int_equal(rdmamsg_window_create(p.s.ep, &window), 0);
	return true;
}

static bool window_open(void)
{
	return window_open_with(NULL);
}

static struct cookie *server_cookie(void)
{
	p.s.sent++;
	return end_cookie(&p.s);
}

static void window_bind(size_t offset, size_t len, uint32_t access)
{
	struct cookie *c = server_cookie();

	if (rdmamsg_window_bind(window, windowed, offset, len, access, &key, c))
		fail_msg("rdmamsg_window_bind: %s", rdmamsg_error());
	wait_cookie(c, 0);
}

static void window__bound_and_again_GIVES_ACCESS(void **state)
{
	struct rdmamsg_key other;
	struct cookie *c;

	if (!window_open())
		return;
	for (int i = 0; i < 3; i++) {
		window_bind(4096, 1000, RDMAMSG_ACCESS_WRITE);
		memcpy(near, pattern(3), 1000);
		memset(far, 0, 8192);
		{
			struct rdmamsg_sge s = { near, 1000, near_region };

			c = cookie();
			assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0,
						       0, c), 0);
			wait_cookie(c, 0);
		}
		assert_memory_equal(far + 4096, pattern(3), 1000);
		assert_error(rdmamsg_region_revoke(windowed), -EBUSY,
			     "operations");
		assert_error(rdmamsg_window_bind(window, windowed, 0, 8,
						 RDMAMSG_ACCESS_READ, &other,
						 NULL), -EBUSY, "bound");
		c = server_cookie();
		assert_int_equal(rdmamsg_window_invalidate(window, c), 0);
		assert_error(rdmamsg_window_destroy(window), -EBUSY, "over");
		wait_cookie(c, 0);
		assert_error(rdmamsg_window_invalidate(window, NULL), -EINVAL,
			     "not bound");
	}
	assert_error(rdmamsg_window_bind(window, windowed, ROOM, 1,
					 RDMAMSG_ACCESS_READ, &other, NULL),
		     -EINVAL, "not in it");
	assert_error(rdmamsg_window_bind(window, far_region, 0, 1,
					 RDMAMSG_ACCESS_READ, &other, NULL),
		     -EACCES, "WINDOW");
	assert_error(rdmamsg_window_bind(window, windowed, 0, 1, 0, &other,
					 NULL), -EINVAL, "access");
	assert_int_equal(rdmamsg_window_destroy(window), 0);
	assert_int_equal(rdmamsg_window_destroy(NULL), 0);
	assert_int_equal(rdmamsg_region_destroy(windowed), 0);
	rma_end();
}

/* Opens a window, and the owner invalidates it. */
static bool window_open_invalidated(void)
{
	struct cookie *c;

	if (!window_open())
		return false;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	c = server_cookie();
	assert_int_equal(rdmamsg_window_invalidate(window, c), 0);
	wait_cookie(c, 0);
	return true;
}

static void window__invalidated_ACCESS(void **state)
{
	if (!window_open_invalidated())
		return;
	expect_refused('w');
	rma_fini();
}

static void window__beyond_it_ACCESS(void **state)
{
	if (!window_open())
		return;
	window_bind(0, 100, RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_READ);
	forge(24, 1000, 8);
	forge(16, (uintptr_t)far + 60, 8);
	expect_refused('r');
	rma_fini();
}

/* ---- invalidated by the peer ------------------------------------------ */

static void write_1000(uint32_t tag)
{
	struct rdmamsg_sge s = { near, 1000, near_region };
	struct cookie *c = cookie();

	memcpy(near, pattern(tag), 1000);
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c), 0);
	wait_cookie(c, 0);
}

/* Grants access for one operation each time, without a message of the owner. */
static void give_and_take(void)
{
	const size_t lens[] = { 0, 8, 240, 241, end_info(&p.c).eager_max };

	assert_int_equal(end_info(&p.s).send_invalidate, 1);
	assert_int_equal(end_info(&p.c).send_invalidate, 1);
	taken = 0;
	for (uint32_t i = 0; i < 50; i++) {
		size_t len = lens[i % ARRAY_SIZE(lens)];
		struct cookie *c = i % 2 ? cookie() : NULL;

		window_bind(4096, 1000, RDMAMSG_ACCESS_WRITE);
		write_1000(i);
		assert_memory_equal(far + 4096, pattern(i), 1000);
		end_expect(&p.s, len, i);
		assert_int_equal(
			post_invalidate(p.c.ep, pattern(i), len, i, &key, c),
			0);
		WAIT_FOR(p.s.received == i + 1);
		if (c)
			wait_cookie(c, 0);
		assert_int_equal(taken, i + 1);
		assert_ptr_equal(taken_window, window);
		assert_error(rdmamsg_window_invalidate(window, NULL), -EINVAL,
			     "not bound");
	}
	/* no window holds the region now */
	assert_int_equal(rdmamsg_region_revoke(windowed), 0);
	assert_int_equal(rdmamsg_window_destroy(window), 0);
	rma_end();
}

static void send_invalidate__TAKES_BACK(void **state)
{
	if (window_open())
		give_and_take();
}

static void send_invalidate__to_shared_receives_TAKES_BACK(void **state)
{
	const struct rdmamsg_srq_options srq = { .size = sizeof(srq) };
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .srq = &srq,
	};

	if (window_open_with(&opts))
		give_and_take();
}

static void send_invalidate__with_a_CRC_TAKES_BACK(void **state)
{
	ep_flags = RDMAMSG_EP_CRC;
	if (window_open())
		give_and_take();
	ep_flags = 0;
}

/* Invalidations keep the order of calls, among messages and when queued. */
static void send_invalidate__among_messages_IN_ORDER(void **state)
{
	struct rdmamsg_window *more[8];
	struct rdmamsg_key keys[8];

	if (!window_open())
		return;
	taken = 0;
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		struct cookie *c = server_cookie();

		assert_int_equal(rdmamsg_window_create(p.s.ep, &more[i]), 0);
		assert_int_equal(rdmamsg_window_bind(more[i], windowed, 8 * i,
						     8, RDMAMSG_ACCESS_READ,
						     &keys[i], c), 0);
		wait_cookie(c, 0);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(more); i++) {
		int ret;

		end_send_all(&p.c, HOW_SENDV, i % 2 ? 20 : 200000, i);
		end_expect(&p.s, 100, 100 + i);
		while ((ret = post_invalidate(p.c.ep, pattern(100 + i), 100,
					      100 + i, &keys[i], NULL)) ==
		       -EAGAIN) {
			unsigned int told = p.c.writable;

			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
	}
	WAIT_FOR(p.s.received == 2 * ARRAY_SIZE(more));
	assert_int_equal(taken, ARRAY_SIZE(more));
	rma_end();
}

static void send_invalidate__then_write_ACCESS(void **state)
{
	if (!window_open())
		return;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	end_expect(&p.s, 0, 1);
	assert_int_equal(post_invalidate(p.c.ep, NULL, 0, 1, &key, NULL), 0);
	WAIT_FOR(p.s.received == 1);
	expect_refused('w');
	rma_fini();
}

/* Checks that the message that should invalidate the window does not arrive. */
static void expect_not_taken(void)
{
	struct rdmamsg_key_attr info = { .size = sizeof(info) };
	struct cookie *c = cookie();
	char region[64];

	assert_int_equal(rdmamsg_key_query(&key, &info), 0);
	taken = 0;
	p.s.expect_nothing = true;
	assert_int_equal(post_invalidate(p.c.ep, "x", 1, 1, &key, c), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(c->count, 1);
	assert_int_equal(taken, 0);
	assert_int_equal(p.s.received, 0);
	/* on iWARP it may have completed before it was refused */
	if (test_iwarp() && !c->status)
		return;
	assert_int_not_equal(c->status, 0);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	snprintf(region, sizeof(region), "region %llu of the peer",
		 (unsigned long long)info.region);
	if (!strstr(p.c.why.text, "taken back") ||
	    !strstr(p.c.why.text, region))
		fail_msg("the client was told: %s", p.c.why.text);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ACCESS);
	if (!names_region(p.s.why.text, info.region))
		fail_msg("the server was told: %s", p.s.why.text);
	rma_fini();
}

static void send_invalidate__key_of_a_region_ACCESS(void **state)
{
	if (!window_open())
		return;
	expect_not_taken();
}

static void send_invalidate__key_never_given_ACCESS(void **state)
{
	if (!window_open())
		return;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	key.bytes[4] ^= 1;
	expect_not_taken();
}

static void send_invalidate__taken_back_by_its_owner_ACCESS(void **state)
{
	if (!window_open_invalidated())
		return;
	expect_not_taken();
}

/* The owner invalidates the window before the peer does, and learns of both. */
static void send_invalidate__crosses_its_owner_ACCESS(void **state)
{
	struct cookie *c, *late;

	if (!window_open())
		return;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	c = cookie();
	p.s.expect_nothing = true;
	assert_int_equal(post_invalidate(p.c.ep, "x", 1, 1, &key, c), 0);
	while (!c->count)
		test_drive(p.c.ctx);
	assert_int_equal(c->status, 0);
	late = server_cookie();
	assert_int_equal(rdmamsg_window_invalidate(window, late), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_not_equal(late->status, 0);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ACCESS);
	if (!strstr(p.s.why.text, "the peer had taken it back"))
		fail_msg("the server was told: %s", p.s.why.text);
	rma_fini();
}

/* A window serves the peer of its endpoint only. */
static void send_invalidate__window_of_another_endpoint_ACCESS(void **state)
{
	struct rdmamsg_key theirs;
	struct pair other;

	if (!window_open())
		return;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	theirs = key;
	pair_open(&other);
	other.s.expect_nothing = true;
	assert_int_equal(post_invalidate(other.c.ep, "x", 1, 1, &theirs, NULL),
			 0);
	WAIT_FOR(other.c.closed && other.s.closed);
	if (!test_iwarp())
		assert_int_equal(other.c.why.cause,
				 RDMAMSG_CAUSE_ACCESS);
	write_1000(7);
	assert_memory_equal(far, pattern(7), 1000);
	pair_fini(&other);
	rma_end();
}

static void check_bad_arguments(void)
{
	struct rdmamsg_key bad = { { 0 } };

	assert_error(post_invalidate(NULL, "x", 1, 1, &key, NULL), -EINVAL,
		     "NULL");
	assert_error(post_invalidate(p.c.ep, NULL, 1, 1, &key, NULL), -EINVAL,
		     "NULL");
	assert_error(post_invalidate(p.c.ep, "x", 1, 1, &bad, NULL), -EINVAL,
		     "no key");
	assert_error(post_invalidate(p.c.ep, pattern(0), 8177, 1, &key, NULL),
		     -EMSGSIZE, "8176");
}

/* A call that can never succeed fails at once, without -EAGAIN. */
static void send_invalidate__bad_arguments_ARE_TOLD(void **state)
{
	int ret;

	if (!window_open())
		return;
	check_bad_arguments();
	while (!(ret = rdmamsg_send(p.c.ep, pattern(1), 10, 1, NULL)))
		end_expect(&p.s, 10, 1);
	assert_int_equal(ret, -EAGAIN);
	check_bad_arguments();
	assert_int_equal(post_invalidate(p.c.ep, "x", 1, 1, &key, NULL),
			 -EAGAIN);
	WAIT_FOR(p.s.received == p.s.expected_count);
	rma_end();
}

/* A window has its own access rights: a forged key with more rights fails. */
static void window__too_weak_ACCESS(void **state)
{
	if (!window_open())
		return;
	window_bind(0, 100, RDMAMSG_ACCESS_READ);
	forge(1, ACCESS_ALL, 1);
	expect_refused('w');
	assert_int_equal(rdmamsg_region_destroy(windowed), 0);
	rma_fini();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(window__bound_and_again_GIVES_ACCESS),
		TEST(window__invalidated_ACCESS),
		TEST(window__beyond_it_ACCESS),
		TEST(window__too_weak_ACCESS),
		TEST(send_invalidate__TAKES_BACK),
		TEST(send_invalidate__to_shared_receives_TAKES_BACK),
		TEST(send_invalidate__with_a_CRC_TAKES_BACK),
		TEST(send_invalidate__among_messages_IN_ORDER),
		TEST(send_invalidate__then_write_ACCESS),
		TEST(send_invalidate__key_of_a_region_ACCESS),
		TEST(send_invalidate__key_never_given_ACCESS),
		TEST(send_invalidate__taken_back_by_its_owner_ACCESS),
		TEST(send_invalidate__crosses_its_owner_ACCESS),
		TEST(send_invalidate__window_of_another_endpoint_ACCESS),
		TEST(send_invalidate__bad_arguments_ARE_TOLD),
	};

	return test_main(tests, NULL, argc, argv);
}
