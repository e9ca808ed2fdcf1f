/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics on each path of a device, and the cases of atomics_peers.c. */
#ifndef ATOMICS_H
#define ATOMICS_H

#include "rma_pair.h"
#include "../post.h"

#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>

#define WORDS	4
#define AT	64u		/* offset of the operand */

static uint32_t sizes;		/* of operands on this path */

#define ONES	UINT64_MAX
#define TOP	(1ull << 63)
#define BYTES	0x8080808080808080ull	/* tops of 8 fields */

/* ---- paths ------------------------------------------------------------ */

enum path { NATIVE, SWAPPED, SOFTWARE };

static enum path path;

/* Only the soft HCA has more than one path. */
static inline void take_path(enum path want)
{
	static const char *const atomics[] = { "masked", "big-endian",
					       "plain" };

	skip_on_iwarp(NO_ATOMICS);
	if (!test_on_soft() && want != SOFTWARE)
		skip_because("libibverbs has no masked atomics");
	path = want;
	(void)setenv("RDMAMSG_SOFT_ATOMICS", atomics[want], 1);
}

static inline void open_path(void)
{
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };
	bool soft = path == SOFTWARE;

	rma_pair();
	assert_int_equal(rdmamsg_ep_masked_query(p.c.ep, &can), 0);
	assert_int_equal(can.how, soft ? RDMAMSG_CAP_SOFTWARE :
			 RDMAMSG_CAP_NATIVE);
	assert_int_equal(can.sizes, soft ? 4 | 8 : 4 | 8 | 16 | 32);
	assert_int_equal(can.max_field, 8);
	assert_int_equal(can.unit, soft ? 8 : 4);
	assert_true(can.reason[0]);
	sizes = can.sizes;
}

/* ---- one operation ---------------------------------------------------- */

/* Masked compare-and-swap if 'adds' is false. */
struct op {
	bool adds;
	size_t bytes;
	uint64_t before[WORDS], after[WORDS];
	uint64_t value[WORDS];		/* to add, or desired */
	uint64_t mask[WORDS];		/* boundary, or bits to swap */
	uint64_t expected[WORDS], compare[WORDS];
};

static inline int post(const struct op *o, uint64_t offset, void *result,
		       struct cookie *c)
{
	const struct post_swap swap = {
		o->expected, o->compare, o->value, o->mask,
	};

	return o->adds ? post_add_fields(p.c.ep, &key, offset, o->bytes,
					 o->value, o->mask, result, 0, c)
		       : post_masked_swap(p.c.ep, &key, offset, o->bytes, &swap,
					  result, 0, c);
}

/* Posts, and waits while too many operations are out. */
static inline void post_all(const struct op *o, uint64_t offset, void *result,
			    struct cookie *c)
{
	UNTIL_POSTED(post(o, offset, result, c));
}

/* Runs the operation, and checks the memory, its neighbours and the answer. */
static inline void run_at(const struct op *o, uint8_t *operand, uint64_t offset)
{
	uint8_t want[96], got[48], *at = operand - 32;
	struct cookie *c = cookie();

	memset(at, 0x5a, sizeof(want));
	memset(got, 0xa5, sizeof(got));
	memcpy(operand, o->before, o->bytes);
	memcpy(want, at, sizeof(want));
	memcpy(want + 32, o->after, o->bytes);
	assert_int_equal(post(o, offset, got, c), 0);
	wait_cookie(c, 0);
	assert_memory_equal(at, want, sizeof(want));
	assert_memory_equal(got, o->before, o->bytes);
	assert_int_equal(got[o->bytes], 0xa5);
}

static inline void run(const struct op *o, uint64_t offset)
{
	run_at(o, far + offset, offset);
}

/* ---- the cases -------------------------------------------------------- */

#define ON(test, name, path) \
	void name##__##test(void **state); \
	void name##__##test(void **state) \
	{ \
		take_path(path); \
		test(); \
	}
#define ON_BOTH(test) ON(test, native, NATIVE) ON(test, software, SOFTWARE)
#define ON_ALL(test) ON_BOTH(test) ON(test, swapped, SWAPPED)

/* atomics_peers.c */
void native__clients__of_many_processes_ADD_UP(void **state);
void software__clients__of_many_processes_ADD_UP(void **state);
void native__close__with_operations_DONE(void **state);
void software__close__with_operations_DONE(void **state);
void native__abort__with_operations_EACH_ENDS(void **state);
void software__abort__with_operations_EACH_ENDS(void **state);
void native__abort__by_the_peer_EACH_ENDS(void **state);
void software__abort__by_the_peer_EACH_ENDS(void **state);
void native__killed__in_the_middle_EACH_ENDS(void **state);
void software__killed__in_the_middle_EACH_ENDS(void **state);
int child_adds(int argc, char **argv);
int child_serves(int argc, char **argv);

#endif
