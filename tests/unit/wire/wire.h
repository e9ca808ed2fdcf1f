/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Helpers of the wire codecs' tests: input that must be refused, random values
 * and damage. A failure prints the seed. SEED=number repeats the random part.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include "wire/proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define ROUNDS		20000
/* memory that a failed decode leaves unchanged */
#define FILL		0xa5

/*
 * Input in memory of exactly its size, at an odd address, so that the address
 * sanitizer sees an overrun and the undefined one an aligned access.
 */
struct input {
	uint8_t *mem;
	uint8_t *bytes;
};

static inline struct input input_new(const void *bytes, size_t len)
{
	struct input in = { .mem = malloc(len + 1) };

	assert_non_null(in.mem);
	in.bytes = in.mem + 1;
	if (len)
		memcpy(in.bytes, bytes, len);
	return in;
}

static inline void assert_untouched(const void *obj, size_t len)
{
	const uint8_t *p = obj;

	while (len--)
		assert_int_equal(*p++, FILL);
}

static inline void put16(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

#define DEFINE_REFUSED(object)						\
static void object##_refused(const uint8_t *bytes, size_t len)		\
{									\
	struct input in = input_new(bytes, len);			\
	struct proto_##object x;					\
									\
	memset(&x, FILL, sizeof(x));					\
	assert_int_equal(rdmamsg__##object##_decode(&x, in.bytes, len),	\
			 -EPROTO);					\
	assert_untouched(&x, sizeof(x));				\
	free(in.mem);							\
}

/* ---- random ----------------------------------------------------------- */

static uint64_t rng;

static inline uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* Many values are powers of two and their neighbours, where bugs are likely. */
static inline uint64_t rnd_edgy(uint64_t low, uint64_t high)
{
	uint64_t v = rnd();

	if (v & 1)
		v = (UINT64_C(1) << (rnd() & 63)) + (v >> 1) % 3 - 1;
	if (v < low || v > high)
		v = high - low == UINT64_MAX ? v : low + v % (high - low + 1);
	return v;
}

static inline void rnd_bytes(uint8_t *p, size_t len)
{
	while (len--)
		*p++ = rnd();
}

/* Overwrite a few bytes, and sometimes cut; returns the new length. */
static inline size_t damage(uint8_t *p, size_t len)
{
	int n = 1 + rnd() % 3;

	while (n--)
		p[rnd() % len] = rnd() & 1 ? rnd() : 1u << (rnd() & 7);
	return rnd() % 8 ? len : rnd() % len;
}

/*
 * A decoder accepts damaged input only if the encoder could have sent it. The
 * accepted value survives another round trip unchanged.
 */
#define DEFINE_DAMAGED(object, max)					\
static void object##_damaged(uint8_t *bytes, size_t len)		\
{									\
	struct proto_##object x, y;					\
	struct input in;						\
	uint8_t out[max];						\
									\
	len = damage(bytes, len);					\
	in = input_new(bytes, len);					\
	memset(&x, FILL, sizeof(x));					\
	if (rdmamsg__##object##_decode(&x, in.bytes, len)) {		\
		assert_untouched(&x, sizeof(x));			\
	} else {							\
		len = rdmamsg__##object##_encode(&x, out);		\
		assert_true(len <= max);				\
		assert_int_equal(rdmamsg__##object##_decode(&y, out,	\
							    len), 0);	\
		assert_##object##_equal(&x, &y);			\
	}								\
	free(in.mem);							\
}

static inline int seed(void **state)
{
	const char *s = getenv("SEED");

	rng = s ? strtoull(s, NULL, 0) : 0;
	rng = rng ? rng : UINT64_C(0x9e3779b97f4a7c15);
	fprintf(stderr, "SEED=%llu\n", (unsigned long long)rng);
	return 0;
}

#endif
