/* SPDX-License-Identifier: BSD-2-Clause */
/* The attributes of a device agree with each other. */
#include "device.h"

static void device__attributes_COHERENT(void)
{
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr a;

	check_call(v->query_device(ctx, &a), 0);
	check(a.phys_port_cnt >= 1);
	check(a.node_guid && a.node_guid == v->get_device_guid(ctx->device));
	check(a.max_qp > 0 && a.max_qp_wr > 0 && a.max_sge > 0);
	check(a.max_cq > 0 && a.max_cqe > 0 && a.max_pd > 0 && a.max_mr > 0);
	check(a.max_mr_size >= MEM && a.page_size_cap & 4096);
	check(a.max_ah > 0 && a.max_pkeys > 0 && a.max_qp_rd_atom > 0);
	check(a.max_srq > 0 && a.max_srq_wr > 0 && a.max_srq_sge > 0);
	check(a.max_mcast_grp > 0 && a.max_mcast_qp_attach > 0);
	check(a.max_res_rd_atom >= a.max_qp_rd_atom);
	check_is(a.atomic_cap, IBV_ATOMIC_HCA);
	check_call(ibv_query_device_ex(ctx, NULL, &ex), 0);
	check(!memcmp(&ex.orig_attr, &a, sizeof(a)));
	check_is(ex.phys_port_cnt_ex, a.phys_port_cnt);
	check(ctx->num_comp_vectors > 0);
}

static void port__attributes_COHERENT(void)
{
	check_is(port.state, IBV_PORT_ACTIVE);
	check_is(port.phys_state, 5);		/* link up */
	check(port.max_mtu >= port.active_mtu);
	check(port.active_mtu >= IBV_MTU_256);
	check(port.gid_tbl_len > 0 && port.pkey_tbl_len > 0);
	check(port.max_msg_sz >= MEM);
	check(port.link_layer == IBV_LINK_LAYER_ETHERNET ||
	      port.link_layer == IBV_LINK_LAYER_INFINIBAND);
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		check(port.lid && port.lid < 0xc000);
	else
		check_is(port.lid, 0);
}

static void port__on_ethernet_SAYS_GRH_REQUIRED(void)
{
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		check(port.flags & IBV_QPF_GRH_REQUIRED);
}

static void port__of_no_such_number_EINVAL(void)
{
	struct ibv_device_attr a;
	struct ibv_port_attr p;

	check_call(v->query_device(ctx, &a), 0);
	check_call(v->query_port(ctx, 0, &p), EINVAL);
	check_call(v->query_port(ctx, (uint8_t)(a.phys_port_cnt + 1), &p),
		   EINVAL);
}

static void gid__table_and_entry_AGREE(void)
{
	struct ibv_gid_entry e;

	check_call(v->query_gid_ex(ctx, port_num, (uint32_t)gid_index, &e), 0);
	check(!memcmp(&e.gid, &gid, sizeof(gid)));
	check_is(e.gid_index, gid_index);
	check_is(e.port_num, port_num);
	check_is(e.gid_type, port.link_layer == IBV_LINK_LAYER_ETHERNET ?
		 IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB);
}

static void gid__beyond_the_table_REFUSED(void)
{
	union ibv_gid none;

	check(v->query_gid(ctx, port_num, port.gid_tbl_len, &none));
	check(v->query_gid(ctx, port_num, -1, &none));
}

static void pkey__first_DEFAULT_FULL_MEMBER(void)
{
	__be16 pkey;

	check_call(v->query_pkey(ctx, port_num, 0, &pkey), 0);
	check_is(be16toh(pkey), 0xffff);
	check(v->query_pkey(ctx, port_num, port.pkey_tbl_len, &pkey));
}

static void device__opened_twice_APART(void)
{
	struct ibv_context *one = ctx;
	struct ibv_context *two = v->open_device(ctx->device);
	struct ibv_pd *other;

	check(two && two != one);
	check(two->async_fd != one->async_fd);
	other = v->alloc_pd(two);
	check(other);
	check_call(v->dealloc_pd(other), 0);
	check_call(v->close_device(two), 0);
}

const struct device_case attr_cases[] = {
	CASE(device__attributes_COHERENT),
	CASE(port__attributes_COHERENT),
	CASE(port__on_ethernet_SAYS_GRH_REQUIRED),
	CASE(port__of_no_such_number_EINVAL),
	CASE(gid__table_and_entry_AGREE),
	CASE(gid__beyond_the_table_REFUSED),
	CASE(pkey__first_DEFAULT_FULL_MEMBER),
	CASE(device__opened_twice_APART),
	{ .name = NULL },
};
