/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts of both sides over a pair of ends, and operations on them. */
#ifndef LAYOUT_BOARD_H
#define LAYOUT_BOARD_H

#include "abilities.h"
#include "rma_pair.h"

#include <rdmamsg/device.h>
#include <rdmamsg/layout.h>

#include "../layout_model.h"

#define AREA		4096u	/* from a region of the model to the next */
#define AREAS		(MODEL_REGIONS * AREA)
#define KEY_ROOM	65536u
#define ANY		(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_LOCAL_WRITE)

/* ---- paths ------------------------------------------------------------ */

enum path { NATIVE, SOFTWARE };

static enum path path;

/* Only the soft HCA can have more than one path. */
static inline void take_path(enum path want)
{
	path = want;
	(void)setenv("RDMAMSG_SOFT_LAYOUTS", want == NATIVE ? "native" : "none",
		     1);
	if (!test_has(RDMAMSG_CAP_UMR, want == NATIVE ? RDMAMSG_CAP_NATIVE :
		      RDMAMSG_CAP_SOFTWARE))
		skip_because(want == NATIVE ? "the device has no native "
			     "layouts" : "the device has native layouts");
}

/* Regions for the layouts of one side, and the layouts of a model. */
struct board {
	struct end *e;
	uint8_t *mem;
	struct rdmamsg_region *region[MODEL_REGIONS];
	struct rdmamsg_layout *layout[MODEL_LAYOUTS];
	uint32_t layouts;
};

static struct board mine, theirs;
static bool iwarp;
static uint8_t key_bytes[KEY_ROOM];

static inline void board_init(struct board *b, struct end *e, uint8_t *mem)
{
	b->e = e;
	b->mem = mem;
	b->layouts = 0;
	for (uint32_t i = 0; i < MODEL_REGIONS; i++)
		assert_int_equal(rdmamsg_region_create(e->ctx, mem + i * AREA,
						       MODEL_REGION, ANY,
						       &b->region[i]), 0);
}

static inline struct rdmamsg_layout *layout_new(struct rdmamsg *ctx,
						uint32_t access)
{
	const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = access,
	};
	struct rdmamsg_layout *ret;

	assert_int_equal(rdmamsg_layout_create(ctx, &o, &ret), 0);
	return ret;
}

static inline void board_clear(struct board *b)
{
	while (b->layouts)
		if (rdmamsg_layout_destroy(b->layout[--b->layouts]))
			fail_msg("%s", rdmamsg_error());
}

static inline void board_fini(struct board *b)
{
	board_clear(b);
	for (uint32_t i = 0; i < MODEL_REGIONS; i++)
		assert_int_equal(rdmamsg_region_destroy(b->region[i]), 0);
}

static inline struct rdmamsg_layout *last(const struct board *b)
{
	return b->layout[b->layouts - 1];
}

/* Adds a layout. */
static inline struct rdmamsg_layout *
board_add(struct board *b, const struct rdmamsg_layout_part *parts,
	  uint32_t count, uint64_t rounds)
{
	struct rdmamsg_layout *l = layout_new(b->e->ctx, ANY);

	if (rdmamsg_layout_define(l, parts, count, rounds))
		fail_msg("%s", rdmamsg_error());
	b->layout[b->layouts++] = l;
	return l;
}

static inline void board_from(struct board *b, const struct model *m)
{
	for (uint32_t i = 0; i < m->layouts; i++) {
		const struct model_layout *from = &m->layout[i];
		struct rdmamsg_layout_part part[MODEL_PARTS];

		for (uint32_t k = 0; k < from->parts; k++) {
			const struct model_part *q = &from->part[k];

			part[k] = (struct rdmamsg_layout_part){
				.region = q->nested ?
					rdmamsg_layout_region(
						b->layout[q->index]) :
					b->region[q->index],
				.offset = q->offset, .len = q->len,
				.step = q->step, .dims = q->dims,
			};
			memcpy(part[k].count, q->count, sizeof(q->count));
			memcpy(part[k].stride, q->stride, sizeof(q->stride));
		}
		(void)board_add(b, part, from->parts, from->rounds);
	}
}

/* Returns the length of the key of a layout of this end, which is in buf. */
static inline size_t key_of(struct end *e, struct rdmamsg_layout *layout,
			    void *buf, size_t room)
{
	struct cookie *c = end_cookie(e);
	size_t ret;

	e->sent++;
	if (rdmamsg_layout_get_key(layout, e->ep, buf, room, &ret, c))
		fail_msg("%s", rdmamsg_error());
	assert_int_equal(c->count, 0);
	WAIT_FOR(c->count);
	assert_int_equal(c->status, 0);
	e->sent--;
	e->sent_ok--;
	return ret;
}

/* Gives the key of a layout of the server to the client. */
static inline struct rdmamsg_key give(struct rdmamsg_layout *layout)
{
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	struct rdmamsg_key ret;
	size_t len = key_of(&p.s, layout, key_bytes, KEY_ROOM);

	assert_int_equal(rdmamsg_layout_query(layout, &info), 0);
	assert_int_equal(path == SOFTWARE ? info.key_len : sizeof(ret), len);
	if (rdmamsg_layout_import(p.c.ctx, key_bytes, len, &ret))
		fail_msg("%s", rdmamsg_error());
	return ret;
}

static inline void boards_open(void)
{
	iwarp = test_iwarp();	/* opens the device */
	rma_pair();
	board_init(&mine, &p.c, near);
	board_init(&theirs, &p.s, far);
}

static inline void boards_fini(void)
{
	board_fini(&mine);
	board_fini(&theirs);
	rma_fini();
}

static inline void boards_close(void)
{
	pair_close(&p);
	boards_fini();
}

/* A column of a matrix whose rows have 'row' bytes. */
static inline void column(struct rdmamsg_layout_part *part,
			  struct rdmamsg_region *r, uint64_t offset,
			  uint64_t len, uint64_t count, uint64_t row)
{
	*part = (struct rdmamsg_layout_part){
		.region = r, .offset = offset, .len = len, .dims = 1,
		.count = { count }, .stride = { row },
	};
}

static inline void column_give(struct rdmamsg_key *ret)
{
	struct rdmamsg_layout_part part;

	column(&part, theirs.region[0], 0, 8, 100, 16);
	*ret = give(board_add(&theirs, &part, 1, 1));
}

/* ---- operations ------------------------------------------------------- */

enum way { WRITES, READS };

static inline int post(enum way way, const struct rdmamsg_sge *s, int count,
		       const struct rdmamsg_key *to, uint64_t offset,
		       struct cookie *c)
{
	return way == WRITES ?
	       rdmamsg_write(p.c.ep, s, count, to, offset, 0, c) :
	       rdmamsg_read(p.c.ep, s, count, to, offset, 0, c);
}

/* Posts, and waits while too many operations are out. */
static inline void post_all(enum way way, const struct rdmamsg_sge *s,
			    int count, const struct rdmamsg_key *to,
			    uint64_t offset, struct cookie *c)
{
	UNTIL_POSTED(post(way, s, count, to, offset, c));
}

static inline void complete(enum way way, const struct rdmamsg_sge *s,
			    int count, const struct rdmamsg_key *to,
			    uint64_t offset)
{
	struct cookie *c = cookie();

	post_all(way, s, count, to, offset, c);
	wait_cookie(c, 0);
}

/* When it returns, what it has written has arrived. */
static inline void run(enum way way, const struct rdmamsg_sge *s, int count,
		       const struct rdmamsg_key *to, uint64_t offset)
{
	struct rdmamsg_sge byte = { near + ROOM - 1, 1, near_region };

	complete(way, s, count, to, offset);
	/* on iWARP a write completes before it has arrived, a read after it */
	if (way == WRITES && iwarp)
		complete(READS, &byte, 1, &key, ROOM - 1);
}

static inline struct rdmamsg_sge entry(struct rdmamsg_layout *l,
				       uint64_t offset, size_t len)
{
	return (struct rdmamsg_sge){
		(void *)(uintptr_t)offset, len, rdmamsg_layout_region(l),
	};
}

static inline void fill(uint8_t *mem, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		mem[i] = (uint8_t)((seed += 2654435761u) >> 24);
}

/* ---- the cases -------------------------------------------------------- */

/* Defines two cases, which call this one on each path. */
#define ON_BOTH(name) \
void native__##name(void **state) \
{ \
	take_path(NATIVE); \
	name(state); \
} \
void software__##name(void **state) \
{ \
	take_path(SOFTWARE); \
	name(state); \
}

#define CASES(name) \
	void native__##name(void **state); \
	void software__##name(void **state)

/* layout.c */
CASES(list__each_layout_AS_LISTED);
CASES(random__layouts_AS_COPIED_BYTE_BY_BYTE);
CASES(blocks__longer_than_a_request_ALL_ARRIVE);
CASES(list__of_most_parts_DESCRIBED);
CASES(write_imm__through_a_layout_VALUE_AFTER_THE_BYTES);

/* layout_change.c */
CASES(key__of_a_changed_layout_REFUSED);
CASES(key__of_an_invalid_layout_REFUSED);
CASES(key__of_a_destroyed_layout_REFUSED);
CASES(define__anew_OTHER_BYTES);
void native__define__many_irregular_blocks_IN_SOFTWARE(void **state);
void layout__in_use_BUSY(void **state);
void import__of_other_bytes_EPROTO(void **state);
void key__forged_REFUSED_BY_THE_DEVICE(void **state);
void define__too_deep_EINVAL(void **state);
void calls__bad_arguments_ARE_TOLD(void **state);

/* layout_atomic.c */
CASES(atomics__in_a_block_DONE);
CASES(atomic__layout_without_the_right_EACCES);
CASES(atomics__only_AS_THE_KEY_SAYS);
void native__atomic__across_blocks_ACCESS(void **state);
void software__atomics__outside_of_a_block_ARE_TOLD(void **state);

/* layout_end.c */
CASES(close__with_layouts_ALL_FREED);
CASES(close__with_operations_DONE);
CASES(abort__by_either_side_EACH_ENDS);
CASES(invalidate__in_the_middle_EACH_ENDS);
CASES(killed__in_the_middle_EACH_ENDS);
CASES(get_key__then_the_end_CANCELLED);
int child_serves(int argc, char **argv);

/* layout_recv.c */
void recv__each_kind_and_size_IN_THE_BLOCKS(void **state);
void recv__into_random_layouts_AS_COPIED_BYTE_BY_BYTE(void **state);
void recv__what_a_layout_has_sent_IN_THE_BLOCKS(void **state);
void recv__into_what_cannot_be_REFUSED(void **state);
void recv__and_forward_EINVAL(void **state);
void recv__for_a_chain_EINVAL(void **state);
void recv__until_on_message_BUSY(void **state);
void recv__into_a_second_layout_IN_THE_LAST(void **state);
void recv__and_refuse_NOT_IN_USE(void **state);
void recv__many_at_once_EACH_IN_ITS_PLACE(void **state);
void recv__with_a_CRC_that_differs_ENDS(void **state);
void recv__when_a_side_aborts_NOT_IN_USE(void **state);
void recv__when_the_context_closes_ALL_FREED(void **state);
void recv__when_the_sender_is_killed_NOT_IN_USE(void **state);
int child_sends(int argc, char **argv);

#endif
