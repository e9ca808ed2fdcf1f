/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-conform: the calls of libibverbs, librdmacm and libmlx5 that the cases
 * in tests/device make, in a table as the library's own. Nothing here is private
 * to the library. An entry fails as the call of that name does.
 */
#ifndef RDMAMSG_SAMPLES_CONFORM_VERBS_H
#define RDMAMSG_SAMPLES_CONFORM_VERBS_H

#include <errno.h>
#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

struct mlx5dv_context;
struct mlx5dv_mkey;
struct mlx5dv_mkey_init_attr;
struct mlx5dv_obj;
struct mlx5dv_qp_ex;
struct mlx5dv_qp_init_attr;

/* The device that a CM id is bound to. */
struct id_device {
	char name[IBV_SYSFS_NAME_MAX];
	enum ibv_transport_type transport;
};

struct verbs_api {
	struct ibv_device **(*get_device_list)(int *num);
	__typeof__(ibv_free_device_list) *free_device_list;
	__typeof__(ibv_get_device_name) *get_device_name;
	__typeof__(ibv_get_device_guid) *get_device_guid;
	__typeof__(ibv_open_device) *open_device;
	__typeof__(ibv_close_device) *close_device;
	__typeof__(ibv_query_device) *query_device;
	int (*query_port)(struct ibv_context *verbs, uint8_t port,
			  struct ibv_port_attr *attr);
	__typeof__(ibv_query_gid) *query_gid;
	int (*query_gid_ex)(struct ibv_context *verbs, uint32_t port,
			    uint32_t index, struct ibv_gid_entry *entry);
	__typeof__(ibv_query_pkey) *query_pkey;
	__typeof__(ibv_get_async_event) *get_async_event;
	__typeof__(ibv_ack_async_event) *ack_async_event;
	__typeof__(ibv_alloc_pd) *alloc_pd;
	__typeof__(ibv_dealloc_pd) *dealloc_pd;
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len,
				 int access);
	struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr,
				      size_t len, uint64_t iova, int access);
	__typeof__(ibv_rereg_mr) *rereg_mr;
	__typeof__(ibv_dereg_mr) *dereg_mr;
	__typeof__(ibv_create_comp_channel) *create_comp_channel;
	__typeof__(ibv_destroy_comp_channel) *destroy_comp_channel;
	__typeof__(ibv_create_cq) *create_cq;
	__typeof__(ibv_resize_cq) *resize_cq;
	__typeof__(ibv_destroy_cq) *destroy_cq;
	__typeof__(ibv_get_cq_event) *get_cq_event;
	__typeof__(ibv_ack_cq_events) *ack_cq_events;
	__typeof__(ibv_create_qp) *create_qp;
	__typeof__(ibv_modify_qp) *modify_qp;
	__typeof__(ibv_query_qp) *query_qp;
	__typeof__(ibv_qp_to_qp_ex) *qp_to_qp_ex;
	__typeof__(ibv_destroy_qp) *destroy_qp;
	__typeof__(ibv_create_srq) *create_srq;
	__typeof__(ibv_modify_srq) *modify_srq;
	__typeof__(ibv_query_srq) *query_srq;
	__typeof__(ibv_destroy_srq) *destroy_srq;
	__typeof__(ibv_create_ah) *create_ah;
	__typeof__(ibv_create_ah_from_wc) *create_ah_from_wc;
	__typeof__(ibv_destroy_ah) *destroy_ah;
	__typeof__(ibv_attach_mcast) *attach_mcast;
	__typeof__(ibv_detach_mcast) *detach_mcast;

	/* NULL: libmlx5 is absent */
	bool (*mlx5_is_supported)(struct ibv_device *device);
	int (*mlx5_query_device)(struct ibv_context *verbs,
				 struct mlx5dv_context *attr);
	struct ibv_qp *(*mlx5_create_qp)(struct ibv_context *verbs,
					 struct ibv_qp_init_attr_ex *attr,
					 struct mlx5dv_qp_init_attr *mlx5);
	struct mlx5dv_qp_ex *(*mlx5_qp_ex_from_ibv_qp_ex)(struct ibv_qp_ex *ex);
	int (*mlx5_dci_stream_id_reset)(struct ibv_qp *qp, uint16_t stream);
	struct mlx5dv_mkey *
	(*mlx5_create_mkey)(struct mlx5dv_mkey_init_attr *attr);
	int (*mlx5_destroy_mkey)(struct mlx5dv_mkey *mkey);
	int (*mlx5_init_obj)(struct mlx5dv_obj *obj, uint64_t types);
	int (*mlx5_devx_qp_query)(struct ibv_qp *qp, const void *in,
				  size_t inlen, void *out, size_t outlen);
	int (*mlx5_devx_qp_modify)(struct ibv_qp *qp, const void *in,
				   size_t inlen, void *out, size_t outlen);

	__typeof__(rdma_create_event_channel) *create_event_channel;
	__typeof__(rdma_destroy_event_channel) *destroy_event_channel;
	__typeof__(rdma_create_id) *create_id;
	__typeof__(rdma_destroy_id) *destroy_id;
	__typeof__(rdma_migrate_id) *migrate_id;
	__typeof__(rdma_bind_addr) *bind_addr;
	__typeof__(rdma_resolve_addr) *resolve_addr;
	__typeof__(rdma_resolve_route) *resolve_route;
	__typeof__(rdma_listen) *listen;
	__typeof__(rdma_connect) *connect;
	__typeof__(rdma_establish) *establish;
	__typeof__(rdma_accept) *accept;
	__typeof__(rdma_reject) *reject;
	__typeof__(rdma_disconnect) *disconnect;
	__typeof__(rdma_init_qp_attr) *init_qp_attr;
	__typeof__(rdma_join_multicast_ex) *join_multicast;
	__typeof__(rdma_leave_multicast) *leave_multicast;
	__typeof__(rdma_get_cm_event) *get_cm_event;
	__typeof__(rdma_ack_cm_event) *ack_cm_event;
	__typeof__(rdma_get_src_port) *get_src_port;
	/* Returns false if the id is not bound. */
	bool (*id_device)(struct rdma_cm_id *id, struct id_device *ret);
};

/* Loads libmlx5, if it is there. */
const struct verbs_api *verbs_table(void);

/* As the library's: a call's errno, -1 with errno, or -errno, as 0 or -errno. */
static inline int rdmamsg__verbs_ret(int ret)
{
	if (ret == -1)
		return errno ? -errno : -EIO;
	return ret > 0 ? -ret : ret;
}

#endif
