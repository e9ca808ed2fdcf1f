/* SPDX-License-Identifier: BSD-2-Clause */
/* Two streams of random numbers from one seed (splitmix64). */
#include "random.h"

#include <string.h>

static uint64_t steps, bytes;

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void sim_seed(uint64_t seed)
{
	steps = seed;
	steps = next(&steps);
	bytes = steps ^ 0x5555555555555555u;
}

uint32_t sim_below(uint32_t n)
{
	return (uint32_t)((next(&steps) >> 32) * n >> 32);
}

bool sim_once_in(uint32_t n)
{
	return !sim_below(n);
}

void sim_bytes(void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len) {
		uint64_t r = next(&bytes);
		size_t n = len < sizeof(r) ? len : sizeof(r);

		memcpy(p, &r, n);
		p += n;
		len -= n;
	}
}
