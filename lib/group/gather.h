/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a message to be published, in one or more pieces. */
#ifndef RDMAMSG_LIB_GROUP_GATHER_H
#define RDMAMSG_LIB_GROUP_GATHER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/util.h"

struct gather {
	const struct iovec *iov;
	uint32_t count;
	size_t len;			/* bytes of all pieces */
};

/* Copies 'len' bytes from byte 'at' on. The pieces have them. */
static inline void rdmamsg__gather_copy(const struct gather *from, size_t at,
					uint8_t *to, size_t len)
{
	for (const struct iovec *v = from->iov; len; v++) {
		size_t n;

		if (at >= v->iov_len) {
			at -= v->iov_len;
			continue;
		}
		n = min(len, v->iov_len - at);
		memcpy(to, (const uint8_t *)v->iov_base + at, n);
		to += n;
		len -= n;
		at = 0;
	}
}

#endif
