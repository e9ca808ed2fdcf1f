/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA, opened once, with what two queue pairs of one process need
 * beside themselves; for unit tests.
 */
#ifndef TESTS_UNIT_SOFT_DEVICE_H
#define TESTS_UNIT_SOFT_DEVICE_H

#include "../../qp_walk.h"
#include "soft/soft.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SIZE	(256u << 10)
#define ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		 IBV_ACCESS_MW_BIND)

static struct ibv_context *c;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static bool with_channel;		/* the test sets it: cq has one */
static struct ibv_comp_channel *channel;
static struct ibv_qp *qp[2];		/* the test's */
static struct ibv_mr *mr[2];
static uint8_t *mem[2];

static inline int open_device(void **state)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	c = soft_open_device(list[0]);
	soft_free_device_list(list);
	if (!c)
		return -1;
	pd = soft_alloc_pd(c);
	channel = with_channel ? soft_create_comp_channel(c) : NULL;
	cq = soft_create_cq(c, 256, NULL, channel, 0);
	for (int i = 0; i < 2; i++) {
		mem[i] = calloc(1, SIZE);
		mr[i] = soft_reg_mr(pd, mem[i], SIZE, ALL);
	}
	return pd && cq && mr[0] && mr[1] ? 0 : -1;
}

static inline int close_device(void **state)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(soft_dereg_mr(mr[i]), 0);
		free(mem[i]);
	}
	assert_int_equal(soft_destroy_cq(cq), 0);
	if (channel)
		assert_int_equal(soft_destroy_comp_channel(channel), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_close_device(c), 0);
	return 0;
}

#endif
