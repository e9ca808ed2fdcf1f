/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAMSG_SOFT_PART, the part number of the device. */
#include "soft/soft.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../own_fabric.h"

#define VARIABLE	"RDMAMSG_SOFT_PART"

/* Returns the part number of the device, or -errno if it cannot be opened. */
static int part_with(const char *value)
{
	struct ibv_device **list = soft_get_device_list(NULL);
	struct ibv_device_attr attr;
	struct ibv_context *c;
	int ret;

	assert_int_equal(value ? setenv(VARIABLE, value, 1) :
			 unsetenv(VARIABLE), 0);
	errno = 0;
	c = soft_open_device(list[0]);
	ret = -errno;
	soft_free_device_list(list);
	if (!c)
		return ret;
	assert_int_equal(soft_query_device(c, &attr), 0);
	assert_int_equal(soft_close_device(c), 0);
	return (int)attr.vendor_part_id;
}

static void part__by_default_1(void **state)
{
	assert_int_equal(part_with(NULL), 1);
	assert_int_equal(part_with(""), 1);
}

static void part__of_the_environment_QUERIED(void **state)
{
	assert_int_equal(part_with("1"), 1);
	assert_int_equal(part_with("4123"), 4123);
	assert_int_equal(part_with("65535"), 65535);
	/* only this process's next device has it */
	assert_int_equal(part_with(NULL), 1);
}

static void part__that_is_none_EINVAL(void **state)
{
	static const char *const wrong[] = {
		"0", "65536", "-1", "4123x", "0x101b", "ConnectX", " ",
		"4294971419",		/* 4123 + 2^32 */
		"18446744073709555739",	/* 4123 + 2^64 */
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (part_with(wrong[i]) != -EINVAL)
			fail_msg("'%s' is taken", wrong[i]);
	assert_int_equal(part_with(NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(part__by_default_1),
		cmocka_unit_test(part__of_the_environment_QUERIED),
		cmocka_unit_test(part__that_is_none_EINVAL),
	};

	join_own_fabric("part");
	return cmocka_run_group_tests_name("part", tests, NULL, NULL);
}
