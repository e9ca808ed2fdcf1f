/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by number. A number that was given back stays unused for as long as
 * there are others, so that what comes late for its object finds nobody.
 */
#ifndef RDMAMSG_LIB_HANDLES_H
#define RDMAMSG_LIB_HANDLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct handles {
	void **at;		/* NULL: the number is free */
	uint32_t size, hint;
};

/*
 * Gives the object a number from 'first' up to 'end', which is not one. 0,
 * -EMFILE when all are given, -ENOMEM
 */
int rdmamsg__handle_give(struct handles *h, void *object, uint32_t first,
			 uint32_t end, uint32_t *number);
/* Nothing if that number is another object's. */
void rdmamsg__handle_take(struct handles *h, const void *object,
			  uint32_t number);
void rdmamsg__handles_free(struct handles *h);

/* NULL if the number is nobody's. */
static inline void *rdmamsg__handle_of(const struct handles *h, uint32_t number)
{
	return likely(number < h->size) ? h->at[number] : NULL;
}

#endif
