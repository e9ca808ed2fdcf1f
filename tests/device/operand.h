/* SPDX-License-Identifier: BSD-2-Clause */
/* The operand of an atomic, in front of bytes that may not change. */
#ifndef TESTS_DEVICE_OPERAND_H
#define TESTS_DEVICE_OPERAND_H

#include "device.h"

static inline void set_operand(uint32_t bytes, const uint64_t *before)
{
	memset(end[0].mem, 0x33, 64);
	memset(end[1].mem, 0x55, 64);
	memcpy(end[1].mem, before, bytes);
}

static inline void check_operand(uint32_t bytes, const uint64_t *before,
				 const uint64_t *after)
{
	check(!memcmp(end[0].mem, before, bytes));
	check(end[0].mem[bytes] == 0x33);
	check(!memcmp(end[1].mem, after, bytes));
	check(end[1].mem[bytes] == 0x55);
}

/* Swaps the bytes of an answer to a raw request, of 4 or 8 bytes. */
static inline void swap_answer(void *answer, uint32_t bytes)
{
	uint64_t eight;
	uint32_t four;

	if (bytes == sizeof(four)) {
		memcpy(&four, answer, sizeof(four));
		four = __builtin_bswap32(four);
		memcpy(answer, &four, sizeof(four));
		return;
	}
	memcpy(&eight, answer, sizeof(eight));
	eight = __builtin_bswap64(eight);
	memcpy(answer, &eight, sizeof(eight));
}

#endif
