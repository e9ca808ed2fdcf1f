/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs.h"

#include <dlfcn.h>
#include <stdio.h>

/* Macros of verbs.h, which the table needs as functions. */
static struct ibv_device **get_device_list(int *num)
{
	return ibv_get_device_list(num);
}

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	return ibv_query_port(verbs, port, attr);
}

static int query_gid_ex(struct ibv_context *verbs, uint32_t port,
			uint32_t index, struct ibv_gid_entry *entry)
{
	return ibv_query_gid_ex(verbs, port, index, entry, 0);
}

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

static bool id_device(struct rdma_cm_id *id, struct id_device *ret)
{
	if (!id->verbs)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%s",
		       id->verbs->device->name);
	ret->transport = id->verbs->device->transport_type;
	return true;
}

static struct verbs_api table = {
	.get_device_list = get_device_list,
	.free_device_list = ibv_free_device_list,
	.get_device_name = ibv_get_device_name,
	.get_device_guid = ibv_get_device_guid,
	.open_device = ibv_open_device,
	.close_device = ibv_close_device,
	.query_device = ibv_query_device,
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
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.resize_cq = ibv_resize_cq,
	.destroy_cq = ibv_destroy_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_qp = ibv_create_qp,
	.modify_qp = ibv_modify_qp,
	.query_qp = ibv_query_qp,
	.qp_to_qp_ex = ibv_qp_to_qp_ex,
	.destroy_qp = ibv_destroy_qp,
	.create_srq = ibv_create_srq,
	.modify_srq = ibv_modify_srq,
	.query_srq = ibv_query_srq,
	.destroy_srq = ibv_destroy_srq,
	.create_ah = ibv_create_ah,
	.create_ah_from_wc = ibv_create_ah_from_wc,
	.destroy_ah = ibv_destroy_ah,
	.attach_mcast = ibv_attach_mcast,
	.detach_mcast = ibv_detach_mcast,
	.create_event_channel = rdma_create_event_channel,
	.destroy_event_channel = rdma_destroy_event_channel,
	.create_id = rdma_create_id,
	.destroy_id = rdma_destroy_id,
	.migrate_id = rdma_migrate_id,
	.bind_addr = rdma_bind_addr,
	.resolve_addr = rdma_resolve_addr,
	.resolve_route = rdma_resolve_route,
	.listen = rdma_listen,
	.connect = rdma_connect,
	.establish = rdma_establish,
	.accept = rdma_accept,
	.reject = rdma_reject,
	.disconnect = rdma_disconnect,
	.init_qp_attr = rdma_init_qp_attr,
	.join_multicast = rdma_join_multicast_ex,
	.leave_multicast = rdma_leave_multicast,
	.get_cm_event = rdma_get_cm_event,
	.ack_cm_event = rdma_ack_cm_event,
	.get_src_port = rdma_get_src_port,
	.id_device = id_device,
};

/*
 * Stores the address of a function. The program's own symbols come first,
 * because rdmamsg-soft(1) preloads functions of these names.
 */
static void find(void *library, const char *name, void *ret)
{
	void *at = dlsym(RTLD_DEFAULT, name);

	if (!at && library)
		at = dlsym(library, name);
	*(void **)ret = at;
}

const struct verbs_api *verbs_table(void)
{
	void *library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
	struct verbs_api *t = &table;

	find(library, "mlx5dv_is_supported", &t->mlx5_is_supported);
	find(library, "mlx5dv_query_device", &t->mlx5_query_device);
	find(library, "mlx5dv_create_qp", &t->mlx5_create_qp);
	find(library, "mlx5dv_qp_ex_from_ibv_qp_ex",
	     &t->mlx5_qp_ex_from_ibv_qp_ex);
	find(library, "mlx5dv_dci_stream_id_reset",
	     &t->mlx5_dci_stream_id_reset);
	find(library, "mlx5dv_create_mkey", &t->mlx5_create_mkey);
	find(library, "mlx5dv_destroy_mkey", &t->mlx5_destroy_mkey);
	find(library, "mlx5dv_init_obj", &t->mlx5_init_obj);
	find(library, "mlx5dv_devx_qp_query", &t->mlx5_devx_qp_query);
	find(library, "mlx5dv_devx_qp_modify", &t->mlx5_devx_qp_modify);
	return t;
}
