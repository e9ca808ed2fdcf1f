/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/hide.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

/*
 * Returns 8 bytes that nobody can guess. A system call brings as many as the
 * next 32 large messages need. 0 or an errno.
 */
static int unguessable(struct dev *dev, uint64_t *ret)
{
	if (!dev->random.left) {
		errno = 0;
		/* up to 256 bytes come at once, or none: getrandom(2) */
		if (getrandom(dev->random.stock, sizeof(dev->random.stock),
			      0) != sizeof(dev->random.stock))
			return errno ? errno : EIO;
		dev->random.left = sizeof(dev->random.stock) / sizeof(*ret);
	}
	*ret = dev->random.stock[--dev->random.left];
	dev->random.stock[dev->random.left] = 0;
	return 0;
}

int rdmamsg__hidden_address(struct dev *dev, const void *mem, uint64_t *ret)
{
	uint64_t random = 0;
	int err;

	*ret = 0;
	if (rdmamsg__quirks(dev->device)->plain_addresses) {
		*ret = (uintptr_t)mem;
		return 0;
	}
	err = unguessable(dev, &random);
	if (err)
		return rdmamsg__fail(-err, "no random address for a large "
				     "message: getrandom: %s", strerror(err));
	*ret = (random & (HIDE_TOP - 1) & ~HIDE_KEEP) |
	       ((uintptr_t)mem & HIDE_KEEP);
	return 0;
}
