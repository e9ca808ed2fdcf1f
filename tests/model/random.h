/* SPDX-License-Identifier: BSD-2-Clause */
/* Random numbers of a schedule. */
#ifndef RDMAMSG_TESTS_MODEL_RANDOM_H
#define RDMAMSG_TESTS_MODEL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void sim_seed(uint64_t seed);
/* Returns a number below n, which is not 0. */
uint32_t sim_below(uint32_t n);
/* Returns true once in n times on average. */
bool sim_once_in(uint32_t n);
/* Fills memory from a second stream, for the numbers of the library. */
void sim_bytes(void *buf, size_t len);

#endif
