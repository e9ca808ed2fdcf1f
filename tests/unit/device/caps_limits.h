/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of abilities, native and in software. */
#ifndef RDMAMSG_TESTS_UNIT_CAPS_LIMITS_H
#define RDMAMSG_TESTS_UNIT_CAPS_LIMITS_H

#include "base/util.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/layout.h>

static const uint32_t bit_ops = 1u << RDMAMSG_CALC_AND |
				1u << RDMAMSG_CALC_OR | 1u << RDMAMSG_CALC_XOR;
static const uint32_t all_ops = (1u << (RDMAMSG_CALC_MAX + 1)) - 1;

static void assert_dc(void)
{
	struct ibv_device_attr a;
	struct rdmamsg_device_cap_attr cap = ask(RDMAMSG_CAP_DC);

	assert_int_equal(soft_query_device(c, &a), 0);
	assert_true(a.max_qp_rd_atom > 0 && a.max_qp_init_rd_atom > 0);
	assert_int_equal(cap.limits.dc.initiator_depth,
			 min(a.max_qp_init_rd_atom, 255));
	assert_int_equal(cap.limits.dc.responder_resources,
			 min(a.max_qp_rd_atom, 255));
	assert_int_equal(cap.limits.dc.violations, 1);
}

static struct rdmamsg_cap_umr assert_layouts(void)
{
	const struct rdmamsg_device_cap_attr cap = ask(RDMAMSG_CAP_UMR);

	assert_int_equal(cap.limits.umr.parts, RDMAMSG_LAYOUT_PARTS);
	assert_int_equal(cap.limits.umr.depth, RDMAMSG_LAYOUT_DEPTH);
	assert_int_equal(cap.limits.umr.dims, RDMAMSG_LAYOUT_DIMS);
	return cap.limits.umr;
}

static void assert_sizes(uint32_t sizes, uint32_t unit, uint32_t max_inline)
{
	const struct rdmamsg_device_cap_attr cap = ask(RDMAMSG_CAP_EXT_ATOMICS);

	assert_int_equal(cap.limits.ext_atomics.sizes, sizes);
	assert_int_equal(cap.limits.ext_atomics.max_field, 8);
	assert_int_equal(cap.limits.ext_atomics.unit, unit);
	assert_int_equal(cap.limits.ext_atomics.max_inline, max_inline);
}

static void assert_ops(uint32_t integer, uint32_t floating)
{
	const struct rdmamsg_device_cap_attr cap = ask(RDMAMSG_CAP_CHAINS);

	assert_int_equal(cap.limits.chains.types,
			 1u << RDMAMSG_CALC_INT | 1u << RDMAMSG_CALC_UINT |
			 1u << RDMAMSG_CALC_DOUBLE);
	assert_int_equal(cap.limits.chains.sizes, 8);
	assert_int_equal(cap.limits.chains.int_ops, integer);
	assert_int_equal(cap.limits.chains.uint_ops, integer);
	assert_int_equal(cap.limits.chains.double_ops, floating);
}

static void limits__in_software_ARE_THE_LIBRARYS(void **state)
{
	struct rdmamsg_cap_umr umr;

	table.mlx5_is_supported = NULL;
	table.query_masked = NULL;
	table.post_masked = NULL;
	assert_dc();
	umr = assert_layouts();
	assert_int_equal(umr.entries, 0);
	assert_int_equal(umr.blocks, 0);
	assert_int_equal(umr.max_step, 0);
	assert_sizes(4 | 8, 8, 0);
	assert_ops(all_ops, all_ops);
}

static void limits__of_absent_abilities_ARE_0(void **state)
{
	static const struct rdmamsg_device_cap_attr zero;
	struct rdmamsg_device_cap_attr cap;

	no_atomics = true;
	cap = ask(RDMAMSG_CAP_EXT_ATOMICS);
	assert_memory_equal(&cap.limits, &zero.limits, sizeof(cap.limits));
	no_atomics = false;
	refusal = EDQUOT;
	refused = CREATE_QP;
	cap = ask(RDMAMSG_CAP_UMR);
	assert_int_equal(cap.how, RDMAMSG_CAP_ABSENT);
	assert_memory_equal(&cap.limits, &zero.limits, sizeof(cap.limits));
}

#ifdef HAVE_MLX5DV

static int devx_qp_query_refused(struct ibv_qp *q, const void *in,
				 size_t inlen, void *out, size_t outlen)
{
	return EOPNOTSUPP;
}

static void limits__native_ARE_THE_DEVICES(void **state)
{
	struct rdmamsg_cap_umr umr;

	assert_dc();
	umr = assert_layouts();
	/* 1024 bytes of inline data are asked for */
	assert_int_equal(umr.entries, 64);
	assert_int_equal(umr.blocks, 65536);
	assert_int_equal(umr.max_step, 65535);
	assert_sizes(4 | 8 | 16 | 32, 4, 32);
	table.query_masked = NULL;
	table.post_masked = NULL;
	assert_sizes(4 | 8, 4, 8);
	assert_ops(bit_ops | 1u << RDMAMSG_CALC_ADD, bit_ops);
	/* the device does not tell its count */
	table.mlx5_devx_qp_query = devx_qp_query_refused;
	assert_int_equal(ask(RDMAMSG_CAP_DC).how, RDMAMSG_CAP_NATIVE);
	assert_int_equal(ask(RDMAMSG_CAP_DC).limits.dc.violations, 0);
}

#endif

#endif
