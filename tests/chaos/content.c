/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of a message are a section of one long random sequence. The
 * connection, the direction and the number of the message give its offset.
 */
#include "chaos.h"

#include <stdlib.h>
#include <string.h>

#define ROW		((size_t)17 << 20)
#define STARTS		65521u

static uint8_t *row;

void *__real_malloc(size_t size);

void content_init(void)
{
	uint64_t *words = __real_malloc(ROW);

	if (!words)
		abort();
	for (size_t i = 0; i < ROW / sizeof(*words); i++)
		words[i] = mix(i, 1);
	row = (uint8_t *)words;
}

static const uint8_t *start(const struct plan *p, int side, uint32_t n)
{
	return row + mix(p->seed + (uint32_t)side, n) % STARTS;
}

void content_fill(const struct plan *p, int side, uint32_t n, uint8_t *dst,
		  size_t from, size_t len)
{
	if (len)
		memcpy(dst, start(p, side, n) + from, len);
}

size_t content_check(const struct plan *p, int side, uint32_t n,
		     const uint8_t *src, size_t from, size_t len)
{
	const uint8_t *want = start(p, side, n) + from;
	size_t i = 0;

	if (!len || !memcmp(src, want, len))
		return len;
	while (src[i] == want[i])
		i++;
	return i;
}
