/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts that change, and what is refused. */
#include "layout_board.h"
#include "../post.h"

/* ---- changes ---------------------------------------------------------- */

enum change { DEFINED, INVALIDATED, DESTROYED };

/* The peer's earlier key is refused, with the reason on both sides. */
static void key__after(enum change change)
{
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	struct rdmamsg_sge s;
	struct rdmamsg_layout_part part;
	struct rdmamsg_key to;
	struct cookie *c;

	boards_open();
	s = (struct rdmamsg_sge){ near, 800, near_region };
	column_give(&to);
	run(WRITES, &s, 1, &to, 0);
	assert_int_equal(rdmamsg_layout_query(last(&theirs), &info), 0);
	column(&part, theirs.region[0], 8, 8, 100, 16);
	if (change == DEFINED)
		assert_int_equal(rdmamsg_layout_define(last(&theirs), &part, 1,
						       1), 0);
	else if (change == INVALIDATED)
		assert_int_equal(rdmamsg_layout_invalidate(last(&theirs)), 0);
	else
		board_clear(&theirs);
	memset(far, 0, AREAS);
	fill(near, 800, 3);
	c = cookie();
	assert_int_equal(post(WRITES, &s, 1, &to, 0, c), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	check_refused(&p.c, c);
	/* no event of siw tells of the offence */
	if (!test_on_siw() && (p.s.why.cause != RDMAMSG_CAUSE_ACCESS ||
			       !names_region(p.s.why.text, info.id)))
		fail_msg("the server was told: %d, %s", p.s.why.cause,
			 p.s.why.text);
	for (uint32_t i = 0; i < AREAS; i++)
		assert_int_equal(far[i], 0);
	boards_fini();
}

static void key__of_a_changed_layout_REFUSED(void **state)
{
	key__after(DEFINED);
}

static void key__of_an_invalid_layout_REFUSED(void **state)
{
	key__after(INVALIDATED);
}

static void key__of_a_destroyed_layout_REFUSED(void **state)
{
	key__after(DESTROYED);
}

/* A changed layout has another key, which works. */
static void define__anew_OTHER_BYTES(void **state)
{
	struct rdmamsg_sge s;
	struct rdmamsg_layout_part part;

	boards_open();
	s = (struct rdmamsg_sge){ near, 8, near_region };
	column(&part, theirs.region[0], 0, 8, 1, 1);
	(void)board_add(&theirs, &part, 1, 1);
	for (uint32_t i = 0; i < 200; i++) {
		struct rdmamsg_key to;

		column(&part, theirs.region[i % 3], i, 1, 8, 1 + i % 50);
		assert_int_equal(rdmamsg_layout_define(last(&theirs), &part, 1,
						       1), 0);
		to = give(last(&theirs));
		fill(near, 8, i);
		run(WRITES, &s, 1, &to, 0);
		for (uint32_t k = 0; k < 8; k++)
			assert_int_equal(far[i % 3 * AREA + i + k *
					     (1 + i % 50)], near[k]);
		assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &to), 0);
	}
	boards_close();
}

void layout__in_use_BUSY(void **state)
{
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	struct rdmamsg_layout_part part;
	struct rdmamsg_layout *inner, *outer;
	struct rdmamsg_sge s;
	struct rdmamsg_key to;
	struct cookie *c;

	take_path(SOFTWARE);
	boards_open();
	column(&part, mine.region[0], 0, 4, 10, 8);
	inner = board_add(&mine, &part, 1, 1);
	part = (struct rdmamsg_layout_part){
		.region = rdmamsg_layout_region(inner), .len = 20,
	};
	outer = board_add(&mine, &part, 1, 1);
	assert_int_equal(rdmamsg_layout_query(inner, &info), 0);
	assert_int_equal(info.outer, 1);
	assert_int_equal(info.len, 40);
	assert_int_equal(rdmamsg_layout_query(outer, &info), 0);
	assert_int_equal(info.outer, 0);
	assert_int_equal(info.depth, 2);
	assert_int_equal(info.blocks, 5);

	assert_error(rdmamsg_region_destroy(mine.region[0]), -EBUSY, "layout");
	assert_error(rdmamsg_region_revoke(mine.region[0]), -EBUSY, "layout");
	assert_error(rdmamsg_region_set_pd(mine.region[0], NULL), -EBUSY,
		     "layout");
	assert_error(rdmamsg_layout_destroy(inner), -EBUSY, "part of");
	assert_error(rdmamsg_layout_invalidate(inner), -EBUSY, "part of");
	assert_error(rdmamsg_layout_define(inner, &part, 1, 1), -EBUSY,
		     "part of");
	assert_int_equal(rdmamsg_layout_register(outer, p.c.ep), 0);

	/* an operation on the outer layout, and on the peer's */
	column_give(&to);
	s = entry(outer, 0, 20);
	c = cookie();
	assert_int_equal(post(WRITES, &s, 1, &to, 0, c), 0);
	assert_error(rdmamsg_layout_destroy(outer), -EBUSY, "operations");
	assert_error(rdmamsg_layout_forget(p.c.ctx, &to), -EBUSY, "operations");
	assert_int_equal(rdmamsg_layout_query(outer, &info), 0);
	assert_int_equal(info.operations, 1);
	wait_cookie(c, 0);
	assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &to), 0);
	assert_int_equal(rdmamsg_layout_invalidate(outer), 0);
	assert_error(post(WRITES, &s, 1, &key, 0, NULL), -EINVAL,
		     "not defined");
	assert_int_equal(rdmamsg_layout_invalidate(inner), 0);
	assert_int_equal(rdmamsg_region_revoke(mine.region[0]), 0);
	boards_close();
}

/* ---- what a native layout cannot have ---------------------------------- */

/* Each part is a grid, and both together repeat nothing. */
void native__define__many_irregular_blocks_IN_SOFTWARE(void **state)
{
	struct rdmamsg_layout_part parts[2];
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	const uint64_t count = 40000;
	struct rdmamsg_layout *l;
	struct rdmamsg_key to;
	struct rdmamsg_sge s;
	size_t len;

	take_path(NATIVE);
	boards_open();
	column(&parts[0], far_region, 0, 1, count, 3);
	column(&parts[1], far_region, 1, 1, count, 5);
	l = layout_new(p.s.ctx, RDMAMSG_ACCESS_WRITE);
	assert_int_equal(rdmamsg_layout_define(l, parts, 2, 1), 0);
	assert_int_equal(rdmamsg_layout_query(l, &info), 0);
	len = key_of(&p.s, l, key_bytes, KEY_ROOM);
	assert_int_equal(len, info.key_len);
	assert_int_equal(rdmamsg_layout_import(p.c.ctx, key_bytes, len, &to),
			 0);
	fill(near, 100, 3);
	s = (struct rdmamsg_sge){ near, 100, near_region };
	run(WRITES, &s, 1, &to, count - 50);
	for (uint64_t i = 0; i < 50; i++) {
		assert_int_equal(far[3 * (count - 50 + i)], near[i]);
		assert_int_equal(far[1 + 5 * i], near[50 + i]);
	}
	/* one that fits is native after that */
	assert_int_equal(rdmamsg_layout_define(l, parts, 1, 1), 0);
	assert_int_equal(key_of(&p.s, l, key_bytes, KEY_ROOM), sizeof(to));
	assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &to), 0);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
	boards_close();
}

/* ---- refused ---------------------------------------------------------- */

void import__of_other_bytes_EPROTO(void **state)
{
	struct rdmamsg_key_attr info = { .size = sizeof(info) };
	struct rdmamsg_sge s;
	struct rdmamsg_key to, forgotten, plain;
	struct rdmamsg_layout_attr attr = { .size = sizeof(attr) };
	uint64_t was;
	size_t len;

	take_path(SOFTWARE);
	boards_open();
	s = (struct rdmamsg_sge){ near, 8, near_region };
	column_give(&to);
	assert_int_equal(rdmamsg_layout_query(last(&theirs), &attr), 0);
	len = (size_t)attr.key_len;
	assert_int_equal(rdmamsg_key_query(&to, &info), 0);
	assert_int_equal(info.len, 800);
	assert_int_equal(info.region, attr.id);
	assert_int_equal(info.access, RDMAMSG_ACCESS_READ |
			 RDMAMSG_ACCESS_WRITE);
	assert_error(rdmamsg_key_import(key_bytes, len, &plain), -EPROTO,
		     "rdmamsg_layout_import");
	assert_error(rdmamsg_key_import(&to, sizeof(to), &plain), -EPROTO,
		     "no key");
	for (size_t i = 0; i < len; i++)
		assert_error(rdmamsg_layout_import(p.c.ctx, key_bytes, i,
						   &plain), -EPROTO, "key");
	/* an ordinary key stays as it is */
	assert_int_equal(rdmamsg_layout_import(p.c.ctx, &key, sizeof(key),
					       &plain), 0);
	assert_memory_equal(&plain, &key, sizeof(key));
	assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &plain), 0);
	key_bytes[24]++;	/* the length */
	assert_error(rdmamsg_layout_import(p.c.ctx, key_bytes, len, &plain),
		     -EPROTO, "length");

	/* keys that are not imported here, or no longer */
	assert_error(rdmamsg_layout_forget(p.s.ctx, &to), -EINVAL, "imported");
	assert_error(rdmamsg_layout_forget(p.c.ctx, NULL), -EINVAL,
		     "imported");
	assert_error(rdmamsg_write(p.s.ep, NULL, 0, &to, 0, 0, NULL), -EINVAL,
		     "key");
	column_give(&forgotten);
	assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &forgotten), 0);
	assert_error(post(WRITES, &s, 1, &forgotten, 0, NULL), -EINVAL, "key");
	assert_error(rdmamsg_layout_forget(p.c.ctx, &forgotten), -EINVAL,
		     "imported");

	/* out of range, and no atomics */
	assert_error(post(WRITES, &s, 1, &to, 793, NULL), -ERANGE, "reaches");
	assert_error(post(READS, &s, 1, &to, 801, NULL), -ERANGE, "reaches");
	assert_error(post(READS, &s, 1, &to, UINT64_MAX, NULL), -ERANGE,
		     "reaches");
	run(WRITES, &s, 1, &to, 792);
	run(WRITES, NULL, 0, &to, 800);
	if (end_info(&p.c).atomic_scope != RDMAMSG_ATOMIC_NONE)
		assert_error(rdmamsg_fetch_add(p.c.ep, &to, 0, 1, &was, 0,
					       NULL), -EACCES, "allow");
	boards_close();
}

/* The device checks what the description claims. */
void key__forged_REFUSED_BY_THE_DEVICE(void **state)
{
	struct rdmamsg_sge s;
	struct rdmamsg_layout_attr attr = { .size = sizeof(attr) };
	struct rdmamsg_key to;
	struct cookie *c;

	take_path(SOFTWARE);
	boards_open();
	s = (struct rdmamsg_sge){ near, 800, near_region };
	column_give(&to);
	assert_int_equal(rdmamsg_layout_query(last(&theirs), &attr), 0);
	/* the source is longer, and the part begins later */
	key_bytes[32 + 24 + 1]++;
	key_bytes[32 + 32 + 16 + 8 + 1]++;
	assert_int_equal(rdmamsg_layout_import(p.c.ctx, key_bytes,
					       (size_t)attr.key_len, &to), 0);
	c = cookie();
	assert_int_equal(post(WRITES, &s, 1, &to, 0, c), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	check_refused(&p.c, c);
	boards_fini();
}

/* Each layout contains the one before it. */
void define__too_deep_EINVAL(void **state)
{
	struct rdmamsg_layout *l[RDMAMSG_LAYOUT_DEPTH + 1];
	struct rdmamsg_layout_part part;

	take_path(SOFTWARE);
	boards_open();
	column(&part, mine.region[0], 0, 1, 4, 2);
	for (uint32_t i = 0; i < RDMAMSG_LAYOUT_DEPTH; i++) {
		l[i] = layout_new(p.c.ctx, 0);
		assert_int_equal(rdmamsg_layout_define(l[i], &part, 1, 1), 0);
		part = (struct rdmamsg_layout_part){
			.region = rdmamsg_layout_region(l[i]), .len = 4,
		};
	}
	l[RDMAMSG_LAYOUT_DEPTH] = layout_new(p.c.ctx, 0);
	assert_error(rdmamsg_layout_define(l[RDMAMSG_LAYOUT_DEPTH], &part, 1,
					   1), -EINVAL, "too deep");
	for (int i = RDMAMSG_LAYOUT_DEPTH; i >= 0; i--)
		assert_int_equal(rdmamsg_layout_destroy(l[i]), 0);
	boards_close();
}

void calls__bad_arguments_ARE_TOLD(void **state)
{
	struct rdmamsg_layout_options o = { .size = sizeof(o) };
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };
	struct rdmamsg_layout_part part = { .len = 1 };
	struct rdmamsg_region *weak, *all;
	struct rdmamsg_window *window = NULL;
	struct rdmamsg_layout *l;
	struct rdmamsg_key k;
	struct rdmamsg_sge s;
	uint8_t buf[400];
	size_t len;

	take_path(SOFTWARE);
	boards_open();
	o.access = RDMAMSG_ACCESS_WINDOW;
	assert_error(rdmamsg_layout_create(p.c.ctx, &o, &l), -EINVAL,
		     "access");
	o.access = 0;
	o.max_parts = RDMAMSG_LAYOUT_PARTS + 1;
	assert_error(rdmamsg_layout_create(p.c.ctx, &o, &l), -EINVAL,
		     "max_parts");
	assert_error(rdmamsg_layout_create(p.c.ctx, NULL, NULL), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_layout_create(NULL, NULL, &l), -EINVAL, "NULL");
	o.max_parts = 2;
	o.access = RDMAMSG_ACCESS_READ;
	assert_int_equal(rdmamsg_layout_create(p.c.ctx, &o, &l), 0);
	all = rdmamsg_layout_region(l);
	assert_null(rdmamsg_layout_region(NULL));

	/* a layout without parts */
	assert_int_equal(rdmamsg_layout_query(l, &info), 0);
	assert_int_equal(info.len, 0);
	assert_int_equal(info.max_parts, 2);
	assert_error(rdmamsg_layout_query(NULL, &info), -EINVAL, "NULL");
	assert_error(rdmamsg_layout_query(l, NULL), -EINVAL, "struct");
	assert_error(rdmamsg_layout_register(l, p.c.ep), -EINVAL, "defined");
	assert_error(rdmamsg_layout_get_key(l, p.c.ep, buf, sizeof(buf), &len,
					    buf), -EINVAL, "defined");
	assert_error(post_layout(p.c.ep, l, 0, 0, 0, NULL), -EINVAL, "defined");
	assert_error(rdmamsg_layout_copy_out(l, 0, buf, 1), -EINVAL, "defined");
	assert_int_equal(rdmamsg_layout_invalidate(l), 0);

	/* parts */
	assert_error(rdmamsg_layout_define(NULL, &part, 1, 1), -EINVAL, "NULL");
	assert_error(rdmamsg_layout_define(l, NULL, 1, 1), -EINVAL, "parts");
	assert_error(rdmamsg_layout_define(l, &part, 0, 1), -EINVAL, "parts");
	assert_error(rdmamsg_layout_define(l, &part, 1, 0), -EINVAL, "rounds");
	assert_error(rdmamsg_layout_define(l, &part, 3, 1), -ENOBUFS,
		     "max_parts");
	assert_error(rdmamsg_layout_define(l, &part, 1, 1), -EINVAL, "part 0");
	part.region = theirs.region[0];
	assert_error(rdmamsg_layout_define(l, &part, 1, 1), -EINVAL,
		     "context");
	part.region = all;
	assert_error(rdmamsg_layout_define(l, &part, 1, 1), -EINVAL, "itself");
	part.region = rdmamsg_layout_region(layout_new(p.c.ctx, ANY));
	assert_error(rdmamsg_layout_define(l, &part, 1, 1), -EINVAL,
		     "inner layout is not");
	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, 10,
					       RDMAMSG_ACCESS_WRITE, &weak), 0);
	part.region = weak;
	assert_error(rdmamsg_layout_define(l, &part, 1, 1), -EACCES, "access");
	part.region = mine.region[0];
	part.len = MODEL_REGION + 1;
	assert_error(rdmamsg_layout_define(l, &part, 1, 1), -EINVAL,
		     "outside");
	part.len = 8;
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);

	/* calls of regions, and rights */
	assert_error(rdmamsg_region_register(all, p.c.ep), -EINVAL, "layout");
	assert_error(rdmamsg_region_get_key(all, p.c.ep, &k), -EINVAL,
		     "layout");
	assert_error(rdmamsg_region_set_pd(all, NULL), -EINVAL, "layout");
	assert_error(rdmamsg_region_revoke(all), -EINVAL, "layout");
	assert_error(rdmamsg_region_destroy(all), -EINVAL, "layout");
	if (!rdmamsg_window_create(p.c.ep, &window))
		assert_error(rdmamsg_window_bind(window, all, 0, 1,
						 RDMAMSG_ACCESS_READ, &k,
						 NULL), -EINVAL, "region");
	assert_int_equal(rdmamsg_window_destroy(window), 0);
	assert_error(rdmamsg_layout_copy_in(l, 0, buf, 8), -EACCES, "LOCAL");
	assert_error(rdmamsg_layout_copy_out(l, 0, buf, 9), -ERANGE, "bytes");
	assert_error(rdmamsg_layout_copy_out(l, UINT64_MAX, buf, 1), -ERANGE,
		     "bytes");
	assert_error(rdmamsg_layout_copy_out(l, 0, NULL, 1), -EINVAL, "NULL");
	s = entry(l, 0, 8);
	assert_error(post(WRITES, &s, 1, &key, 0, NULL), -EINVAL,
		     "registered");
	assert_int_equal(rdmamsg_layout_register(l, p.c.ep), 0);
	assert_error(post(READS, &s, 1, &key, 0, NULL), -EACCES, "LOCAL_WRITE");
	s.len = 9;
	assert_error(post(WRITES, &s, 1, &key, 0, NULL), -ERANGE, "bytes");
	assert_error(rdmamsg_layout_get_key(l, p.c.ep, NULL, 400, &len, buf),
		     -EINVAL, "NULL");
	assert_error(rdmamsg_layout_get_key(l, p.c.ep, buf, 400, NULL, buf),
		     -EINVAL, "NULL");
	assert_error(rdmamsg_layout_get_key(l, p.c.ep, buf, 400, &len, NULL),
		     -EINVAL, "cookie");
	assert_error(rdmamsg_layout_get_key(l, NULL, buf, 400, &len, buf),
		     -EINVAL, "NULL");
	assert_error(rdmamsg_layout_get_key(l, p.s.ep, buf, 400, &len, buf),
		     -EINVAL, "context");
	assert_error(post_layout(p.s.ep, l, 0, 1, 0, NULL), -EINVAL, "context");
	assert_error(rdmamsg_layout_import(p.c.ctx, NULL, 1, &k), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_layout_import(NULL, buf, 1, &k), -EINVAL, "NULL");
	part.region = mine.region[1];
	o.access = 0;
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
	assert_int_equal(rdmamsg_layout_create(p.c.ctx, &o, &l), 0);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	assert_error(rdmamsg_layout_get_key(l, p.c.ep, buf, 400, &len, buf),
		     -EINVAL, "allows a peer nothing");
	assert_int_equal(rdmamsg_layout_destroy(NULL), 0);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
	assert_int_equal(rdmamsg_region_destroy(weak), 0);
	boards_close();
}

ON_BOTH(key__of_a_changed_layout_REFUSED)
ON_BOTH(key__of_an_invalid_layout_REFUSED)
ON_BOTH(key__of_a_destroyed_layout_REFUSED)
ON_BOTH(define__anew_OTHER_BYTES)
