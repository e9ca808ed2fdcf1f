/* SPDX-License-Identifier: BSD-2-Clause */
/* What of the soft HCA is nobody else's: for the rest see tests/device. */
#include "soft_pair.h"
#include "own_fabric.h"

#include <sys/mman.h>

/* A page that is missing is found, whether the others are in place or not. */
static void reg_mr__to_be_read_IS_LOOKED_AT(void **state)
{
	uint8_t *at = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *read;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(munmap(at + 2 * 4096, 4096), 0);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		assert_null(soft_reg_mr(pd, at, 3 * 4096,
					IBV_ACCESS_REMOTE_READ));
		assert_int_equal(errno, EFAULT);
		read = soft_reg_mr(pd, at, 2 * 4096, IBV_ACCESS_REMOTE_READ);
		assert_non_null(read);
		assert_int_equal(soft_dereg_mr(read), 0);
		memset(at, 1, 2 * 4096);
	}
	assert_int_equal(munmap(at, 2 * 4096), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(reg_mr__to_be_read_IS_LOOKED_AT),
	};

	join_own_fabric("soft");
	return cmocka_run_group_tests_name("soft", tests, NULL, NULL);
}
