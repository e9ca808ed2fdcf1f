/* SPDX-License-Identifier: BSD-2-Clause */
/* The atomics that the device has, and the byte order of their answers. */
#include "soft/fabric/atomic.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft/fabric/dev.h"

int soft_atomic_options(struct soft_dev *dev)
{
	const char *atomics = getenv("RDMAMSG_SOFT_ATOMICS");

	dev->masked = (struct masked_caps){
		.sizes = MASKED_SIZES, .max_field = MASKED_FIELD,
	};
	if (!atomics || !*atomics || !strcmp(atomics, "masked"))
		return 0;
	if (!strcmp(atomics, "plain")) {
		dev->masked = (struct masked_caps){ .sizes = 0 };
		return 0;
	}
	dev->masked.swapped = BYTE_ORDER != BIG_ENDIAN;
	return strcmp(atomics, "big-endian") ? -EINVAL : 0;
}
