/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random addresses for large messages. A peer reads a large message at the
 * address in its announcement, which need not be the address of the memory.
 * The rkeys of most devices are an index and 8 bits, which a stranger guesses.
 * HIDE_BITS random bits in the address make the guess hopeless.
 */
#ifndef RDMAMSG_LIB_HIDE_H
#define RDMAMSG_LIB_HIDE_H

#include <stdint.h>

/* Keep the offset in a huge page, because devices map huge pages whole. */
#define HIDE_KEEP	(((uint64_t)2 << 20) - 1)
/* An address and a message after it stay below 2^63. */
#define HIDE_TOP	((uint64_t)1 << 62)
#define HIDE_BITS	41

_Static_assert((HIDE_KEEP + 1) << HIDE_BITS == HIDE_TOP, "all bits between");

struct dev;

/*
 * Writes a random address for mem to *ret, a different one each time; its own
 * address if the device serves no other. Returns 0 or the error of
 * getrandom(2).
 */
int rdmamsg__hidden_address(struct dev *dev, const void *mem, uint64_t *ret);

#endif
