/* SPDX-License-Identifier: BSD-2-Clause */
/* Destroying an object that another object uses: EBUSY. */
#include "device.h"

static void pd__of_a_region_EBUSY(void)
{
	(void)new_mr(pd, new_mem(4096), 4096, 0);
	check_call(v->dealloc_pd(pd), EBUSY);
}

static void pd__of_a_queue_pair_EBUSY(void)
{
	(void)new_qp(IBV_QPT_RC, new_cq(8, NULL), NULL);
	check_call(v->dealloc_pd(pd), EBUSY);
}

static void pd__of_a_shared_queue_EBUSY(void)
{
	(void)new_srq(8);
	check_call(v->dealloc_pd(pd), EBUSY);
}

static void pd__of_a_window_EBUSY(void)
{
	(void)new_mw(IBV_MW_TYPE_1);
	check_call(v->dealloc_pd(pd), EBUSY);
}

static void pd__of_an_address_EBUSY(void)
{
	(void)new_ah(NULL);
	check_call(v->dealloc_pd(pd), EBUSY);
}

static void cq__of_a_queue_pair_EBUSY(void)
{
	struct ibv_cq *cq = new_cq(8, NULL);

	(void)new_qp(IBV_QPT_RC, cq, NULL);
	check_call(v->destroy_cq(cq), EBUSY);
}

static void srq__of_a_queue_pair_EBUSY(void)
{
	struct ibv_srq *srq = new_srq(8);

	(void)new_qp(IBV_QPT_RC, new_cq(8, NULL), srq);
	check_call(v->destroy_srq(srq), EBUSY);
}

static void channel__of_a_queue_EBUSY(void)
{
	struct ibv_comp_channel *channel = new_channel();

	(void)new_cq(8, channel);
	check_call(v->destroy_comp_channel(channel), EBUSY);
}

const struct device_case busy_cases[] = {
	CASE(pd__of_a_region_EBUSY),
	CASE(pd__of_a_queue_pair_EBUSY),
	CASE(pd__of_a_shared_queue_EBUSY),
	CASE(pd__of_a_window_EBUSY),
	CASE(pd__of_an_address_EBUSY),
	CASE(cq__of_a_queue_pair_EBUSY),
	CASE(srq__of_a_queue_pair_EBUSY),
	CASE(channel__of_a_queue_EBUSY),
	{ .name = NULL },
};
