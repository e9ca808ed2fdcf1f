/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "device/quirks.h"
#include "memory/hide.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

int rdmamsg__hidden_address(const struct rdmamsg_device *d, const void *mem,
			    uint64_t *ret)
{
	uint64_t random = 0;
	int err;

	*ret = 0;
	if (rdmamsg__quirks(d)->plain_addresses) {
		*ret = (uintptr_t)mem;
		return 0;
	}

	/* getrandom() returns 8 bytes at once, or fails */
	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		err = errno ? errno : EIO;
		return rdmamsg__fail(-err, "no random address for a large "
				     "message: getrandom: %s", strerror(err));
	}
	*ret = (random & (HIDE_TOP - 1) & ~HIDE_KEEP) |
	       ((uintptr_t)mem & HIDE_KEEP);
	return 0;
}
