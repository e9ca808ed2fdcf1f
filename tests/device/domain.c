/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent domains and thread domains. Shared receives with tag matching. */
#include "device.h"

static struct ibv_td *new_td(void)
{
	struct ibv_td_init_attr attr = { .comp_mask = 0 };
	struct ibv_td *td;

	errno = 0;
	td = ibv_alloc_td(ctx, &attr);
	if (!td)
		fail(__FILE__, __LINE__, "no thread domain: %s",
		     strerror(errno));
	return td;
}

static struct ibv_pd *new_parent(struct ibv_pd *of, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = { .pd = of, .td = td };
	struct ibv_pd *parent;

	errno = 0;
	parent = ibv_alloc_parent_domain(ctx, &attr);
	if (!parent)
		fail(__FILE__, __LINE__, "no parent domain: %s",
		     strerror(errno));
	return parent;
}

static int undo_td(void *td)
{
	return ibv_dealloc_td(td);
}

static int undo_pd(void *domain)
{
	return v->dealloc_pd(domain);
}

static void td__of_a_parent_domain_EBUSY(void)
{
	struct ibv_td *td = new_td();
	struct ibv_pd *parent = new_parent(pd, td);

	check_call(ibv_dealloc_td(td), EBUSY);
	check_call(v->dealloc_pd(parent), 0);
	check_call(ibv_dealloc_td(td), 0);
}

static void pd__of_a_parent_domain_EBUSY(void)
{
	struct ibv_pd *of = new_pd();
	struct ibv_pd *parent = new_parent(of, NULL);

	check_call(v->dealloc_pd(of), EBUSY);
	check_call(v->dealloc_pd(parent), 0);
	drop(of);
}

static void parent__bad_values_EINVAL(void)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd };
	struct ibv_td_init_attr td = { .comp_mask = 1u << 30 };

	v->dealloc_pd(new_parent(pd, NULL));
	attr.pd = NULL;
	check_null(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	check_null(ibv_alloc_td(ctx, &td), EINVAL);
}

/*
 * A program of a newer rdma-core asks for what this one does not know. EFA and
 * mana say that they lack it, and mlx5 says EINVAL.
 */
static void parent__unknown_bits_EOPNOTSUPP(void)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd };

	v->dealloc_pd(new_parent(pd, NULL));
	attr.comp_mask = 1u << 30;
	check_null(ibv_alloc_parent_domain(ctx, &attr), EOPNOTSUPP);
}

/*
 * A queue pair that is created in the parent domain uses regions of the
 * protection domain, and the other way round.
 */
static void parent__objects_ARE_OF_THE_PROTECTION_DOMAIN(void)
{
	struct ibv_td *td = new_td();
	struct ibv_pd *of = pd, *parent = new_parent(of, td);
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = of,
	};
	struct ibv_cq_ex *ex;
	struct ibv_mr *mr;
	struct request r;

	keep(td, undo_td);
	keep(parent, undo_pd);
	check_null(ibv_create_cq_ex(ctx, &attr), EINVAL);
	attr.parent_domain = parent;
	ex = ibv_create_cq_ex(ctx, &attr);
	check(ex);
	check_call(v->destroy_cq(ibv_cq_ex_to_cq(ex)), 0);

	mr = new_mr(parent, new_mem(4096), 4096, IBV_ACCESS_LOCAL_WRITE);
	pd = parent;
	ends();
	pd = of;
	if (is_iwarp())
		return;		/* only a connection manager brings it to RTS */
	walk(end[0].qp, end[1].qp->qp_num);
	walk(end[1].qp, end[0].qp->qp_num);
	r = request(IBV_WR_RDMA_WRITE, 1, 64);
	r.sge[0].addr = (uintptr_t)mr->addr;
	r.sge[0].lkey = mr->lkey;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
}

static void srq__tag_matching_REFUSED(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 1 }, .pd = pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .cq = new_cq(8, NULL),
		.tm_cap = { .max_num_tags = 4, .max_ops = 4 },
	};
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_SYNC }, *bad = NULL;
	struct ibv_device_attr_ex device;

	check_call(ibv_query_device_ex(ctx, NULL, &device), 0);
	check_is(device.tm_caps.max_num_tags, 0);
	check_null(ibv_create_srq_ex(ctx, &attr), EOPNOTSUPP);
	check_call(ibv_post_srq_ops(new_srq(8), &op, &bad), EOPNOTSUPP);
}

const struct device_case domain_cases[] = {
	CASE(td__of_a_parent_domain_EBUSY),
	CASE(pd__of_a_parent_domain_EBUSY),
	CASE(parent__bad_values_EINVAL),
	CASE(parent__unknown_bits_EOPNOTSUPP),
	CASE(parent__objects_ARE_OF_THE_PROTECTION_DOMAIN),
	CASE(srq__tag_matching_REFUSED),
	{ .name = NULL },
};
