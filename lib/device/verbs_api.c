/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/verbs_api.h"

#include <errno.h>
#include <stdio.h>

#include "device/mlx5.h"
#include "device/ucm.h"

/* Macros of verbs.h, which the table needs as functions. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	return ibv_reg_mr(pd, addr, len, access);
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				  uint64_t iova, int access)
{
	return ibv_reg_mr_iova(pd, addr, len, iova, access);
}

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	return ibv_query_port(verbs, port, attr);
}

static int query_device_ex(struct ibv_context *verbs,
			   struct ibv_device_attr_ex *attr)
{
	return ibv_query_device_ex(verbs, NULL, attr);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *attr)
{
	return ibv_create_qp_ex(verbs, attr);
}

static int query_gid_ex(struct ibv_context *verbs, uint32_t port,
			uint32_t index, struct ibv_gid_entry *entry)
{
	return ibv_query_gid_ex(verbs, port, index, entry, 0);
}

static struct ibv_device **get_device_list(int *num)
{
	return ibv_get_device_list(num);
}

const struct verbs_api rdmamsg__verbs_system = {
	.is_fork_initialized = ibv_is_fork_initialized,
	.fork_init = ibv_fork_init,
	.get_device_list = get_device_list,
	.free_device_list = ibv_free_device_list,
	.get_device_name = ibv_get_device_name,
	.get_device_guid = ibv_get_device_guid,
	.get_device_index = ibv_get_device_index,
	.open_device = ibv_open_device,
	.close_device = ibv_close_device,
	.query_device = ibv_query_device,
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.query_gid = ibv_query_gid,
	.query_gid_ex = query_gid_ex,
	.query_pkey = ibv_query_pkey,
	.get_async_event = ibv_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = reg_mr,
	.reg_mr_iova = reg_mr_iova,
	.rereg_mr = ibv_rereg_mr,
	.reg_dmabuf_mr = ibv_reg_dmabuf_mr,
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.resize_cq = ibv_resize_cq,
	.destroy_cq = ibv_destroy_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_qp = ibv_create_qp,
	.create_qp_ex = create_qp_ex,
	.modify_qp = ibv_modify_qp,
	.query_qp = ibv_query_qp,
	.qp_to_qp_ex = ibv_qp_to_qp_ex,
	.destroy_qp = ibv_destroy_qp,
	.create_srq = ibv_create_srq,
	.create_srq_ex = ibv_create_srq_ex,
	.modify_srq = ibv_modify_srq,
	.query_srq = ibv_query_srq,
	.destroy_srq = ibv_destroy_srq,
	.create_ah = ibv_create_ah,
	.create_ah_from_wc = ibv_create_ah_from_wc,
	.destroy_ah = ibv_destroy_ah,
	.attach_mcast = ibv_attach_mcast,
	.detach_mcast = ibv_detach_mcast,
	.mlx5_is_supported = rdmamsg__mlx5_is_supported,
	.mlx5_query_device = rdmamsg__mlx5_query_device,
	.mlx5_create_qp = rdmamsg__mlx5_create_qp,
	.mlx5_qp_ex_from_ibv_qp_ex = rdmamsg__mlx5_qp_ex,
	.mlx5_dci_stream_id_reset = rdmamsg__mlx5_dci_stream_id_reset,
	.mlx5_create_mkey = rdmamsg__mlx5_create_mkey,
	.mlx5_destroy_mkey = rdmamsg__mlx5_destroy_mkey,
	.mlx5_init_obj = rdmamsg__mlx5_init_obj,
	.mlx5_devx_qp_query = rdmamsg__mlx5_devx_qp_query,
	.mlx5_devx_qp_modify = rdmamsg__mlx5_devx_qp_modify,
	.create_event_channel = rdma_create_event_channel,
	.destroy_event_channel = rdma_destroy_event_channel,
	.create_id = rdmamsg__ucm_create_id,
	.destroy_id = rdmamsg__ucm_destroy_id,
	.migrate_id = rdmamsg__ucm_migrate_id,
	.set_option = rdmamsg__ucm_set_option,
	.bind_addr = rdmamsg__ucm_bind_addr,
	.resolve_addr = rdmamsg__ucm_resolve_addr,
	.resolve_route = rdmamsg__ucm_resolve_route,
	.listen = rdmamsg__ucm_listen,
	.connect = rdmamsg__ucm_connect,
	.establish = rdmamsg__ucm_establish,
	.accept = rdmamsg__ucm_accept,
	.reject = rdmamsg__ucm_reject,
	.disconnect = rdmamsg__ucm_disconnect,
	.init_qp_attr = rdmamsg__ucm_init_qp_attr,
	.join_multicast = rdmamsg__ucm_join_multicast,
	.leave_multicast = rdmamsg__ucm_leave_multicast,
	.get_cm_event = rdmamsg__ucm_get_cm_event,
	.ack_cm_event = rdmamsg__ucm_ack_cm_event,
	.get_src_port = rdmamsg__ucm_get_src_port,
	.id_device = rdmamsg__ucm_id_device,
};

const struct verbs_api *rdmamsg__verbs = &rdmamsg__verbs_system;

bool rdmamsg__verbs_id_device(struct rdma_cm_id *id, struct id_device *ret)
{
	if (!id->verbs)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%s",
		       id->verbs->device->name);
	ret->transport = id->verbs->device->transport_type;
	return true;
}

int rdmamsg__verbs_ret(int ret)
{
	if (!ret)
		return 0;
	if (ret > 0)
		return -ret;
	/* -1 with errno, or the -errno of some providers */
	if (ret == -1)
		return errno ? -errno : -EIO;
	return ret;
}
