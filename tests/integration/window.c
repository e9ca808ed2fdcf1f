/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: access to a part of a region, given and taken back. */
#include "rma_pair.h"

static struct rdmamsg_window *window;
static struct rdmamsg_region *windowed;	/* all of the server's memory */

/* False on a device that has none: that is told, and nothing else happens. */
static bool window_open(void)
{
	rma_pair();
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM,
					       RDMAMSG_ACCESS_WINDOW,
					       &windowed), 0);
	if (strncmp(rdmamsg_device_name(p.s.ep), "soft", 4)) {
		assert_error(rdmamsg_window_create(p.s.ep, &window),
			     -EOPNOTSUPP, "window");
		assert_int_equal(rdmamsg_region_destroy(windowed), 0);
		rma_end();
		return false;
	}
	assert_int_equal(rdmamsg_region_attach(windowed, p.s.ep), 0);
	assert_int_equal(rdmamsg_window_create(p.s.ep, &window), 0);
	return true;
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
			struct rdmamsg_slice s = { near, 1000, near_region };

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

static void window__invalidated_ACCESS(void **state)
{
	struct cookie *c;

	if (!window_open())
		return;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	c = server_cookie();
	assert_int_equal(rdmamsg_window_invalidate(window, c), 0);
	wait_cookie(c, 0);
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

/* Its access is its own, and it ends with the endpoint. */
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
	};

	return test_main(tests, NULL, argc, argv);
}
