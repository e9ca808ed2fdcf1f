/* SPDX-License-Identifier: BSD-2-Clause */
/* The second table of the seam: the soft HCA. */
#include "device/verbs_api.h"

#include "soft/soft.h"

static int query_device_ex(struct ibv_context *verbs,
			   struct ibv_device_attr_ex *attr)
{
	return soft_query_device_ex(verbs, NULL, attr, sizeof(*attr));
}

static int query_gid_ex(struct ibv_context *verbs, uint32_t port,
			uint32_t index, struct ibv_gid_entry *entry)
{
	return soft_query_gid_ex(verbs, port, index, entry, 0, sizeof(*entry));
}

const struct verbs_api rdmamsg__verbs_soft = {
	.get_device_list = soft_get_device_list,
	.free_device_list = soft_free_device_list,
	.get_device_name = soft_get_device_name,
	.get_device_guid = soft_get_device_guid,
	.open_device = soft_open_device,
	.close_device = soft_close_device,
	.query_device = soft_query_device,
	.query_device_ex = query_device_ex,
	.query_port = soft_query_port,
	.query_gid = soft_query_gid,
	.query_gid_ex = query_gid_ex,
	.query_pkey = soft_query_pkey,
	.get_async_event = soft_get_async_event,
	.ack_async_event = soft_ack_async_event,
	.alloc_pd = soft_alloc_pd,
	.dealloc_pd = soft_dealloc_pd,
	.reg_mr = soft_reg_mr,
	.reg_mr_iova = soft_reg_mr_iova,
	.rereg_mr = soft_rereg_mr,
	.dereg_mr = soft_dereg_mr,
	.create_comp_channel = soft_create_comp_channel,
	.destroy_comp_channel = soft_destroy_comp_channel,
	.create_cq = soft_create_cq,
	.resize_cq = soft_resize_cq,
	.destroy_cq = soft_destroy_cq,
	.get_cq_event = soft_get_cq_event,
	.ack_cq_events = soft_ack_cq_events,
	.create_qp = soft_create_qp,
	.create_qp_ex = soft_create_qp_ex,
	.modify_qp = soft_modify_qp,
	.query_qp = soft_query_qp,
	.qp_to_qp_ex = soft_qp_to_qp_ex,
	.destroy_qp = soft_destroy_qp,
	.create_srq = soft_create_srq,
	.modify_srq = soft_modify_srq,
	.query_srq = soft_query_srq,
	.destroy_srq = soft_destroy_srq,
	.create_ah = soft_create_ah,
	.create_ah_from_wc = soft_create_ah_from_wc,
	.destroy_ah = soft_destroy_ah,
	.attach_mcast = soft_attach_mcast,
	.detach_mcast = soft_detach_mcast,
	.query_masked = soft_query_masked,
	.post_masked = soft_post_masked,
	.mlx5_is_supported = soft_mlx5_is_supported,
	.mlx5_query_device = soft_mlx5_query_device,
	.mlx5_create_qp = soft_mlx5_create_qp,
	.mlx5_qp_ex_from_ibv_qp_ex = soft_mlx5_qp_ex,
	.mlx5_create_mkey = soft_mlx5_create_mkey,
	.mlx5_destroy_mkey = soft_mlx5_destroy_mkey,
	.mlx5_devx_qp_query = soft_mlx5_devx_qp_query,
	.mlx5_devx_qp_modify = soft_mlx5_devx_qp_modify,
	.create_event_channel = soft_cma_create_event_channel,
	.destroy_event_channel = soft_cma_destroy_event_channel,
	.create_id = soft_cma_create_id,
	.destroy_id = soft_cma_destroy_id,
	.migrate_id = soft_cma_migrate_id,
	.set_option = soft_cma_set_option,
	.bind_addr = soft_cma_bind_addr,
	.resolve_addr = soft_cma_resolve_addr,
	.resolve_route = soft_cma_resolve_route,
	.listen = soft_cma_listen,
	.connect = soft_cma_connect,
	.establish = soft_cma_establish,
	.accept = soft_cma_accept,
	.reject = soft_cma_reject,
	.disconnect = soft_cma_disconnect,
	.init_qp_attr = soft_cma_init_qp_attr,
	.join_multicast = soft_cma_join_multicast_ex,
	.leave_multicast = soft_cma_leave_multicast,
	.get_cm_event = soft_cma_get_cm_event,
	.ack_cm_event = soft_cma_ack_cm_event,
	.get_src_port = soft_cma_get_src_port,
	.id_device = rdmamsg__verbs_id_device,
};
