/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "memory/hide.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

/*
 * All devices that carry endpoints serve memory at any address. The exception
 * would be siw, whose siw_reg_user_mr() does not use rnic_va (Linux 6.1,
 * siw_verbs.c), but rdmamsg__device_carries() refuses iWARP.
 */
int rdmamsg__hidden_address(const void *mem, uint64_t *ret)
{
	uint64_t random = 0;

	/* getrandom() returns 8 bytes at once, or fails */
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return rdmamsg__fail(-errno, "no random address for a large "
				     "message: getrandom: %s",
				     strerror(errno));
	*ret = (random & (HIDE_TOP - 1) & ~HIDE_KEEP) |
	       ((uintptr_t)mem & HIDE_KEEP);
	return 0;
}
