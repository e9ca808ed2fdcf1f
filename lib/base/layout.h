/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts: bytes in several blocks of memory, numbered as if they were in one
 * piece. A group is a list of parts that is repeated for a number of rounds. A
 * part is a block, or a grid of equal blocks. In each round it begins 'step'
 * bytes later. The blocks of a part are in a source, which is one piece of
 * memory, or in an earlier group. The last group is the layout.
 */
#ifndef RDMAMSG_BASE_LAYOUT_H
#define RDMAMSG_BASE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_DIMS	3
#define LAYOUT_DEPTH	8	/* groups in each other */
#define LAYOUT_SOURCES	1024
#define LAYOUT_GROUPS	256
#define LAYOUT_PARTS	16384
#define LAYOUT_LEN_MAX	INT64_MAX	/* bytes */

/* Registered memory. */
struct layout_source {
	uint8_t access;			/* as in keys */
	uint32_t rkey;			/* for a device: the lkey */
	uint64_t region;
	uint64_t addr;
	uint64_t len;
};

struct layout_part {
	uint32_t index;			/* of the source or group */
	bool nested;			/* in a group */
	uint16_t dims;
	uint64_t offset;		/* of the first block */
	uint64_t len;			/* of a block */
	uint64_t step;
	/* of each dimension, the last varies fastest */
	uint64_t count[LAYOUT_DIMS];
	uint64_t stride[LAYOUT_DIMS];
	uint64_t start;			/* computed: bytes before in a round */
};

struct layout_group {
	uint32_t first, parts;
	uint64_t rounds;
	/* computed */
	uint64_t round;			/* bytes of one round */
	uint64_t len;
	uint32_t depth;
};

struct layout {
	uint64_t id;
	uint8_t access;			/* PROTO_KEY_READ, _WRITE, _ATOMIC */
	uint32_t sources, groups, parts;
	uint64_t len;			/* computed */
	uint32_t depth;			/* computed */
	struct layout_source *source;
	struct layout_group *group;
	struct layout_part *part;
};

/*
 * Checks the layout, and computes the values marked as computed. Merges blocks
 * of a part that are one piece of memory. Returns NULL, or what is wrong, and
 * then *ret_part is the part.
 */
const char *rdmamsg__layout_check(struct layout *l, uint32_t *ret_part);

/* Part of a source. */
struct layout_run {
	uint32_t source;
	uint64_t offset;
	uint64_t len;			/* up to the end of the block */
};

/* Finds byte 'at' of a checked layout. at < l->len */
void rdmamsg__layout_at(const struct layout *l, uint64_t at,
			struct layout_run *ret);

/*
 * Sets the part of the sources that the blocks of a checked layout touch, as
 * offsets from their beginning. Unused sources get lo > hi.
 */
void rdmamsg__layout_hull(const struct layout *l, uint64_t *lo, uint64_t *hi);

/* Returns the memory that the arrays of l need. */
static inline size_t rdmamsg__layout_room(const struct layout *l)
{
	return l->sources * sizeof(*l->source) +
	       l->groups * sizeof(*l->group) + l->parts * sizeof(*l->part);
}

/* Sets the pointers of l to arrays in such memory. */
static inline void rdmamsg__layout_place(struct layout *l, void *mem)
{
	l->source = mem;
	l->group = (struct layout_group *)(l->source + l->sources);
	l->part = (struct layout_part *)(l->group + l->groups);
}

#endif
