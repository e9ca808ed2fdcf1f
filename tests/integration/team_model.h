/* SPDX-License-Identifier: BSD-2-Clause */
/* Operands of all-reduces, and the bits that they must give. */
#ifndef RDMAMSG_TESTS_INTEGRATION_TEAM_MODEL_H
#define RDMAMSG_TESTS_INTEGRATION_TEAM_MODEL_H

#include "mesh.h"

/* Any bits, and as doubles any but NaN. */
static inline uint64_t random_bits(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed ^ *seed >> 33) & ~(1ull << 62);
}

static inline uint64_t input(uint32_t round, uint32_t rank, uint32_t i)
{
	uint64_t seed = (uint64_t)round << 40 | (uint64_t)rank << 20 | i;

	seed ^= (uint64_t)mesh_seed * 0x9e3779b97f4a7c15ull;
	(void)random_bits(&seed);
	return random_bits(&seed);
}

static inline double as_double(uint64_t x)
{
	double d;

	memcpy(&d, &x, 8);
	return d;
}

/* The model: no element is a NaN, nor are there zeros of two signs. */
static inline uint64_t model_op(int op, int type, uint64_t a, uint64_t b)
{
	double x = as_double(a), y = as_double(b);
	bool less;

	if (type == RDMAMSG_CALC_DOUBLE && op == RDMAMSG_CALC_ADD) {
		x += y;
		memcpy(&a, &x, 8);
		return a;
	}
	less = type == RDMAMSG_CALC_DOUBLE ? y < x :
	       type == RDMAMSG_CALC_INT ? (int64_t)b < (int64_t)a : b < a;
	switch (op) {
	case RDMAMSG_CALC_ADD:
		return a + b;
	case RDMAMSG_CALC_AND:
		return a & b;
	case RDMAMSG_CALC_OR:
		return a | b;
	case RDMAMSG_CALC_XOR:
		return a ^ b;
	case RDMAMSG_CALC_MIN:
		return less ? b : a;
	default:
		return less ? a : b;
	}
}

/* The order of the all-reduce: pairs of neighbours, then of pairs, ... */
static inline uint64_t model(int op, int type, uint32_t round, uint32_t i)
{
	uint64_t x[MESH_MAX];
	uint32_t power = 1, extra, n = 0;

	while (power * 2 <= mesh_size)
		power *= 2;
	extra = mesh_size - power;
	for (uint32_t rank = 0; rank < mesh_size; rank++) {
		uint64_t in = input(round, rank, i);

		if (rank < 2 * extra && rank % 2)
			x[n - 1] = model_op(op, type, x[n - 1], in);
		else
			x[n++] = in;
	}
	for (; power > 1; power /= 2)
		for (uint32_t k = 0; k < power / 2; k++)
			x[k] = model_op(op, type, x[2 * k], x[2 * k + 1]);
	return x[0];
}

#endif
