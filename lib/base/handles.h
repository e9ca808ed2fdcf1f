/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by number. Numbers are given in turn, so that a number is reused
 * late. An event that comes late for an object then finds no object.
 */
#ifndef RDMAMSG_LIB_HANDLES_H
#define RDMAMSG_LIB_HANDLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct handles {
	void **at;		/* NULL if the number is free */
	uint32_t size, hint;
};

/*
 * Gives the object a number from 'first' to end - 1. Returns 0, -EMFILE if no
 * number is left, or -ENOMEM.
 */
int rdmamsg__handle_give(struct handles *h, void *object, uint32_t first,
			 uint32_t end, uint32_t *number);
/* Takes the number back, unless it belongs to another object. */
void rdmamsg__handle_take(struct handles *h, const void *object,
			  uint32_t number);
void rdmamsg__handles_free(struct handles *h);

/* Returns NULL if the number is free. */
static inline void *rdmamsg__handle_of(const struct handles *h, uint32_t number)
{
	return likely(number < h->size) ? h->at[number] : NULL;
}

#endif
