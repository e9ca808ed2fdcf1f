/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers in network order, at any address. */
#ifndef SOFT_FABRIC_BYTES_H
#define SOFT_FABRIC_BYTES_H

#include <stdint.h>

static inline void soft_put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static inline void soft_put24(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 16);
	soft_put16(at + 1, v);
}

static inline void soft_put32(uint8_t *at, uint32_t v)
{
	soft_put16(at, v >> 16);
	soft_put16(at + 2, v);
}

static inline void soft_put64(uint8_t *at, uint64_t v)
{
	soft_put32(at, (uint32_t)(v >> 32));
	soft_put32(at + 4, (uint32_t)v);
}

static inline uint32_t soft_get16(const uint8_t *at)
{
	return (uint32_t)(at[0] << 8 | at[1]);
}

static inline uint32_t soft_get24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | soft_get16(at + 1);
}

static inline uint32_t soft_get32(const uint8_t *at)
{
	return soft_get16(at) << 16 | soft_get16(at + 2);
}

static inline uint64_t soft_get64(const uint8_t *at)
{
	return (uint64_t)soft_get32(at) << 32 | soft_get32(at + 4);
}

#endif
