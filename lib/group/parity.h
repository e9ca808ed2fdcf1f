/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parity: behind some fragments a publisher sends what they are when XORed, so
 * that a subscriber that lacks one of them makes it from the others. Both sides
 * add up, a subscriber what has come since the last parity. The functions do no
 * I/O and read no clock.
 */
#ifndef RDMAMSG_LIB_PARITY_H
#define RDMAMSG_LIB_PARITY_H

#include <stdbool.h>
#include <stdint.h>

#include "group/stream.h"
#include "wire/frame.h"

#define PARITY_MOST	32u		/* fragments of a block */

/* A block, as far as it was added up. */
struct parity {
	uint32_t count;			/* fragments */
	/* of a subscriber: no other is before, and none behind */
	struct stream_place first, last;
	struct frame_parity sum;	/* number, index and length alone */
	uint32_t room, len;		/* bytes of data: most, and in use */
	/* of a subscriber */
	uint64_t came;			/* us, the last parity */
	uint32_t block_us;		/* between two of them */
	/* FRAME_PARITY_LEN bytes for the frame, then the data */
	uint8_t payload[];
};

/* For fragments of up to this size. Returns NULL without memory. */
struct parity *rdmamsg__parity_new(uint32_t size);
/* Adds a fragment with this data. */
void rdmamsg__parity_add(struct parity *p, const struct frame *f,
			 const uint8_t *data);
/* Writes the payload of the block's frame, f->data. The next block begins. */
void rdmamsg__parity_end(struct parity *p, struct frame *f);
/*
 * A PARITY has come. Returns true if one fragment of its block was missing:
 * *ret is that, with data that is valid until the next call. The next block
 * begins.
 */
bool rdmamsg__parity_make(struct parity *p, const struct frame *f,
			  struct frame *ret);

#endif
