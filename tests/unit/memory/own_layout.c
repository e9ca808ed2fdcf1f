/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a layout of this program takes one gather entry on a device that
 * has layouts, and an entry for each block on another one. Its key ends with
 * the layout.
 */
#include "config.h"

#include "../own_fabric.h"
#include "base/ctx.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/umr.h"
#include "memory/layout.h"
#include "memory/region.h"
#include "soft/control/soft_ctl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define BLOCK	64u
#define STRIDE	256u
#define MOST	64u

static uint8_t memory[MOST * STRIDE];
static struct rdmamsg *ctx;
static struct rdmamsg_region *region;
static struct rdmamsg_layout *layout;
static struct dev *dev;

static void define(uint32_t blocks)
{
	const struct rdmamsg_layout_part part = {
		.region = region, .len = BLOCK, .dims = 1, .count = { blocks },
		.stride = { STRIDE },
	};

	assert_int_equal(rdmamsg_layout_define(layout, &part, 1, 1), 0);
}

static void open_all(uint32_t access)
{
	const struct rdmamsg_layout_options opts = {
		.size = sizeof(opts), .access = access,
	};
	const struct verbs_api *v = NULL;
	char *name = NULL;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg__choose_device("soft", NULL, &v, &name), 0);
	assert_int_equal(rdmamsg__dev_get(ctx, v, name, NULL, &dev), 0);
	free(name);
	assert_int_equal(rdmamsg_region_create(ctx, memory, sizeof(memory),
					       access, &region), 0);
	assert_int_equal(rdmamsg_layout_create(ctx, &opts, &layout), 0);
}

static void close_all(void)
{
	assert_int_equal(rdmamsg_layout_destroy(layout), 0);
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	rdmamsg__dev_put(dev);
	rdmamsg_close(ctx);
}

/* Returns the bytes of one gather entry. */
static uint32_t entry(uint64_t at, uint32_t len)
{
	struct ibv_sge sge;

	assert_int_equal(rdmamsg__layout_register(layout, dev), 0);
	rdmamsg__layout_sge(layout, dev, at, len, &sge);
	return sge.length;
}

static void device__has_layouts_ONE_ENTRY(void **state)
{
	open_all(RDMAMSG_ACCESS_LOCAL_WRITE);
	define(MOST);
	assert_int_equal(entry(0, MOST * BLOCK), MOST * BLOCK);
	assert_int_equal(entry(BLOCK / 2, 2 * BLOCK), 2 * BLOCK);
	close_all();
}

/* A gather list of one request has them all. */
static void blocks__few_AN_ENTRY_FOR_EACH(void **state)
{
	open_all(RDMAMSG_ACCESS_LOCAL_WRITE);
	define(RDMAMSG_SEGMENTS_MAX);
	assert_int_equal(entry(0, RDMAMSG_SEGMENTS_MAX * BLOCK), BLOCK);
	define(RDMAMSG_SEGMENTS_MAX + 1);
	assert_int_equal(entry(0, MOST * BLOCK), MOST * BLOCK);
	close_all();
}

static void device__has_none_AN_ENTRY_FOR_EACH(void **state)
{
	(void)setenv("RDMAMSG_SOFT_LAYOUTS", "none", 1);
	open_all(RDMAMSG_ACCESS_LOCAL_WRITE);
	define(MOST);
	assert_int_equal(entry(0, MOST * BLOCK), BLOCK);
	assert_int_equal(entry(BLOCK / 2, 2 * BLOCK), BLOCK / 2);
	close_all();
	(void)unsetenv("RDMAMSG_SOFT_LAYOUTS");
}

/* The key for this program is not the one that peers get. */
static void key__of_this_program_NOT_FOR_PEERS(void **state)
{
	struct layout_job *job;
	struct ibv_sge sge;

	open_all(RDMAMSG_ACCESS_READ);
	define(MOST);
	assert_int_equal(rdmamsg__layout_register(layout, dev), 0);
	assert_false(rdmamsg__layout_exported(layout, dev));
	assert_int_equal(rdmamsg__layout_share(layout, dev, &job), 0);
	assert_non_null(job);
	rdmamsg__dev_umr_poll(dev);
	assert_true(rdmamsg__layout_exported(layout, dev));
	rdmamsg__layout_sge(layout, dev, 0, BLOCK, &sge);
	assert_int_equal(sge.lkey, rdmamsg__region_mr(&layout->map->own,
						      dev)->lkey);
	assert_int_not_equal(sge.lkey,
			     rdmamsg__region_mr(&layout->map->native,
						dev)->rkey);
	close_all();
}

/* Returns how many registrations and keys the device has. */
static uint32_t keys_of_device(void)
{
	struct soft_ctl_node node;
	struct soft_ctl *ctl;
	uint32_t next = 0;

	assert_int_equal(soft_ctl_open(own_fabric, &ctl), 0);
	assert_int_equal(soft_ctl_next(ctl, &next, &node), 0);
	soft_ctl_close(ctl);
	return node.mrs;
}

/* Each definition has a key of its own, and none is left. */
static void layout__changes_NEXT_KEY(void **state)
{
	struct ibv_sge before, after;
	uint32_t keys;

	open_all(RDMAMSG_ACCESS_LOCAL_WRITE);
	define(MOST);
	assert_int_equal(rdmamsg__layout_register(layout, dev), 0);
	rdmamsg__layout_sge(layout, dev, 0, BLOCK, &before);
	keys = keys_of_device();
	define(MOST - 1);
	assert_null(rdmamsg__region_mr(&layout->map->own, dev));
	assert_int_equal(rdmamsg__layout_register(layout, dev), 0);
	rdmamsg__layout_sge(layout, dev, 0, BLOCK, &after);
	assert_int_not_equal(before.lkey, after.lkey);
	assert_int_equal(keys_of_device(), keys);
	close_all();
}

int main(void)
{
#ifndef HAVE_MLX5DV
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device__has_layouts_ONE_ENTRY),
		cmocka_unit_test(blocks__few_AN_ENTRY_FOR_EACH),
		cmocka_unit_test(device__has_none_AN_ENTRY_FOR_EACH),
		cmocka_unit_test(key__of_this_program_NOT_FOR_PEERS),
		cmocka_unit_test(layout__changes_NEXT_KEY),
	};

	join_own_fabric("own-layout");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
