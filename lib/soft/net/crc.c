/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A register of 32 bits is a polynomial over GF(2) whose highest power is in
 * the lowest bit. A byte that is fed multiplies it by x^8 modulo the CRC's
 * polynomial. Long data is folded: 16 bytes at a distance of 64, or of 16,
 * become 16 bytes with the same remainder (V. Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ", 2009, which has the
 * constants).
 */
#include "soft/net/crc.h"

#include <endian.h>
#include <stdatomic.h>
#include <string.h>

#include "base/util.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POLY	0xedb88320u	/* x^32 is implied */
#define ONE	0x80000000u
#define SLICES	8

static uint32_t table[SLICES][256];
static _Atomic bool has_table;

/* Two threads may do it at the same time, with the same result. */
static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t reg = i;

		for (int bit = 0; bit < 8; bit++)
			reg = reg >> 1 ^ (reg & 1 ? POLY : 0);
		table[0][i] = reg;
	}
	for (int s = 1; s < SLICES; s++)
		for (uint32_t i = 0; i < 256; i++) {
			const uint32_t reg = table[s - 1][i];

			table[s][i] = reg >> 8 ^ table[0][reg & 0xff];
		}
	atomic_store_explicit(&has_table, true, memory_order_release);
}

uint32_t soft_crc_table(uint32_t reg, const void *buf, size_t len)
{
	const uint8_t *at = buf;

	if (unlikely(!atomic_load_explicit(&has_table, memory_order_acquire)))
		make_table();
	for (; len >= 8; len -= 8, at += 8) {
		uint32_t lo, hi;

		memcpy(&lo, at, 4);
		memcpy(&hi, at + 4, 4);
		lo = le32toh(lo) ^ reg;
		hi = le32toh(hi);
		reg = table[7][lo & 0xff] ^ table[6][lo >> 8 & 0xff] ^
		      table[5][lo >> 16 & 0xff] ^ table[4][lo >> 24] ^
		      table[3][hi & 0xff] ^ table[2][hi >> 8 & 0xff] ^
		      table[1][hi >> 16 & 0xff] ^ table[0][hi >> 24];
	}
	while (len--)
		reg = reg >> 8 ^ table[0][(reg ^ *at++) & 0xff];
	return reg;
}

#if defined(__x86_64__)
#define FOLD_MIN	64u

#define FOLDS	__attribute__((target("pclmul,sse4.1")))

static FOLDS inline __m128i fold(__m128i a, __m128i by, __m128i next)
{
	return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, by, 0x00),
					   _mm_clmulepi64_si128(a, by, 0x11)),
			     next);
}

/* len is a multiple of 16, and at least FOLD_MIN. */
static FOLDS uint32_t folded(uint32_t reg, const uint8_t *at, size_t len)
{
	const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i near = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	const __m128i half = _mm_set_epi64x(0, 0x163cd6124);
	const __m128i poly = _mm_set_epi64x(0x1f7011641, 0x1db710641);
	const __m128i low = _mm_set_epi32(0, 0, 0, -1);
	__m128i a[4], rest, quot;

	for (int i = 0; i < 4; i++)
		a[i] = _mm_loadu_si128((const __m128i *)(at + 16 * i));
	a[0] = _mm_xor_si128(a[0], _mm_cvtsi32_si128((int)reg));
	for (at += 64, len -= 64; len >= 64; at += 64, len -= 64)
		for (int i = 0; i < 4; i++)
			a[i] = fold(a[i], far, _mm_loadu_si128(
				(const __m128i *)(at + 16 * i)));
	for (int i = 1; i < 4; i++)
		a[0] = fold(a[0], near, a[i]);
	for (; len; at += 16, len -= 16)
		a[0] = fold(a[0], near,
			    _mm_loadu_si128((const __m128i *)at));
	/* 128 bits to 96, to 64, then Barrett's reduction to 32 */
	rest = _mm_xor_si128(_mm_clmulepi64_si128(a[0], near, 0x10),
			     _mm_srli_si128(a[0], 8));
	rest = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(rest, low),
						  half, 0x00),
			     _mm_srli_si128(rest, 4));
	quot = _mm_clmulepi64_si128(_mm_and_si128(rest, low), poly, 0x10);
	quot = _mm_clmulepi64_si128(_mm_and_si128(quot, low), poly, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(rest, quot), 1);
}

static bool can_fold(void)
{
	return __builtin_cpu_supports("pclmul") &&
	       __builtin_cpu_supports("sse4.1");
}

uint32_t soft_crc(uint32_t reg, const void *buf, size_t len)
{
	const size_t most = len & ~(size_t)15;

	if (len < FOLD_MIN || !can_fold())
		return soft_crc_table(reg, buf, len);
	reg = folded(reg, buf, most);
	return soft_crc_table(reg, (const uint8_t *)buf + most, len - most);
}
#else
uint32_t soft_crc(uint32_t reg, const void *buf, size_t len)
{
	return soft_crc_table(reg, buf, len);
}
#endif

/* The product of two registers. */
static uint32_t times(uint32_t a, uint32_t b)
{
	uint32_t ret = 0;

	for (; a; a <<= 1) {
		if (a & ONE)
			ret ^= b;
		b = b >> 1 ^ (b & 1 ? POLY : 0);
	}
	return ret;
}

/* Returns x to the power of -8 len. */
static uint32_t back(size_t len)
{
	/* the register 1 << 31 is x^0, so this is the inverse of x */
	uint32_t base = POLY << 1 | 1, ret = ONE;

	for (int i = 0; i < 3; i++)
		base = times(base, base);
	for (; len; len >>= 1, base = times(base, base))
		if (len & 1)
			ret = times(ret, base);
	return ret;
}

/*
 * Going back over the two bytes and all behind them leaves the two bytes
 * themselves, in the lower half.
 */
bool soft_crc_explains(uint32_t diff, size_t len)
{
	static _Thread_local size_t last_len;
	static _Thread_local uint32_t last;

	if (!diff)
		return true;
	if (!last || last_len != len) {
		last = back(len + 2);
		last_len = len;
	}
	return !(times(diff, last) >> 16);
}
