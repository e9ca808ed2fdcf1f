/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the seam. Each calls the entry of that name in the table, and
 * returns 0 or -errno. Calls that create an object return it in *ret, and do
 * not change *ret on failure. For entries that cannot fail, use the table
 * itself. The data path uses the inlines of verbs.h.
 */
#ifndef RDMAMSG_LIB_VERBS_CALL_H
#define RDMAMSG_LIB_VERBS_CALL_H

#include "device/verbs_api.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* ---- devices ---------------------------------------------------------- */

int rdmamsg__v_fork_init(const struct verbs_api *v);
/* The caller frees the list with free_device_list() of the table. */
int rdmamsg__v_get_device_list(const struct verbs_api *v,
			       struct ibv_device ***ret, int *ret_n);
int rdmamsg__v_open_device(const struct verbs_api *v, struct ibv_device *device,
			   struct ibv_context **ret);
int rdmamsg__v_close_device(const struct verbs_api *v,
			    struct ibv_context *verbs);
int rdmamsg__v_query_device(const struct verbs_api *v,
			    struct ibv_context *verbs,
			    struct ibv_device_attr *attr);
int rdmamsg__v_query_device_ex(const struct verbs_api *v,
			       struct ibv_context *verbs,
			       struct ibv_device_attr_ex *attr);
int rdmamsg__v_query_port(const struct verbs_api *v, struct ibv_context *verbs,
			  uint8_t port, struct ibv_port_attr *attr);
int rdmamsg__v_query_gid(const struct verbs_api *v, struct ibv_context *verbs,
			 uint8_t port, int index, union ibv_gid *gid);
int rdmamsg__v_query_gid_ex(const struct verbs_api *v,
			    struct ibv_context *verbs, uint32_t port,
			    uint32_t index, struct ibv_gid_entry *entry);
int rdmamsg__v_query_pkey(const struct verbs_api *v, struct ibv_context *verbs,
			  uint8_t port, int index, __be16 *pkey);
int rdmamsg__v_get_async_event(const struct verbs_api *v,
			       struct ibv_context *verbs,
			       struct ibv_async_event *event);

/* ---- protection domains and memory ------------------------------------ */

int rdmamsg__v_alloc_pd(const struct verbs_api *v, struct ibv_context *verbs,
			struct ibv_pd **ret);
int rdmamsg__v_dealloc_pd(const struct verbs_api *v, struct ibv_pd *pd);
int rdmamsg__v_reg_mr(const struct verbs_api *v, struct ibv_pd *pd, void *addr,
		      size_t len, int access, struct ibv_mr **ret);
int rdmamsg__v_reg_mr_iova(const struct verbs_api *v, struct ibv_pd *pd,
			   void *addr, size_t len, uint64_t iova, int access,
			   struct ibv_mr **ret);
/* -EOPNOTSUPP, too, if the table has no such call. */
int rdmamsg__v_reg_dmabuf_mr(const struct verbs_api *v, struct ibv_pd *pd,
			     uint64_t offset, size_t len, uint64_t iova, int fd,
			     int access, struct ibv_mr **ret);
int rdmamsg__v_dereg_mr(const struct verbs_api *v, struct ibv_mr *mr);

/* ---- completion queues ------------------------------------------------ */

int rdmamsg__v_create_comp_channel(const struct verbs_api *v,
				   struct ibv_context *verbs,
				   struct ibv_comp_channel **ret);
int rdmamsg__v_destroy_comp_channel(const struct verbs_api *v,
				    struct ibv_comp_channel *channel);
int rdmamsg__v_create_cq(const struct verbs_api *v, struct ibv_context *verbs,
			 uint32_t entries, void *cq_context,
			 struct ibv_comp_channel *channel, uint32_t vector,
			 struct ibv_cq **ret);
/* -EOPNOTSUPP: the device lacks the extended call. */
int rdmamsg__v_create_cq_ex(struct ibv_context *verbs,
			    struct ibv_cq_init_attr_ex *attr,
			    struct ibv_cq **ret);
int rdmamsg__v_resize_cq(const struct verbs_api *v, struct ibv_cq *cq,
			 uint32_t entries);
int rdmamsg__v_destroy_cq(const struct verbs_api *v, struct ibv_cq *cq);
int rdmamsg__v_get_cq_event(const struct verbs_api *v,
			    struct ibv_comp_channel *channel,
			    struct ibv_cq **ret);

/* ---- queue pairs, shared receive queues, address handles -------------- */

int rdmamsg__v_create_qp(const struct verbs_api *v, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr, struct ibv_qp **ret);
int rdmamsg__v_create_qp_ex(const struct verbs_api *v,
			    struct ibv_context *verbs,
			    struct ibv_qp_init_attr_ex *attr,
			    struct ibv_qp **ret);
int rdmamsg__v_modify_qp(const struct verbs_api *v, struct ibv_qp *qp,
			 struct ibv_qp_attr *attr, int mask);
int rdmamsg__v_query_qp(const struct verbs_api *v, struct ibv_qp *qp,
			struct ibv_qp_attr *attr, int mask);
int rdmamsg__v_destroy_qp(const struct verbs_api *v, struct ibv_qp *qp);
int rdmamsg__v_create_srq(const struct verbs_api *v, struct ibv_pd *pd,
			  struct ibv_srq_init_attr *attr, struct ibv_srq **ret);
int rdmamsg__v_modify_srq(const struct verbs_api *v, struct ibv_srq *srq,
			  struct ibv_srq_attr *attr, int mask);
int rdmamsg__v_query_srq(const struct verbs_api *v, struct ibv_srq *srq,
			 struct ibv_srq_attr *attr);
int rdmamsg__v_destroy_srq(const struct verbs_api *v, struct ibv_srq *srq);
int rdmamsg__v_create_ah(const struct verbs_api *v, struct ibv_pd *pd,
			 struct ibv_ah_attr *attr, struct ibv_ah **ret);
int rdmamsg__v_destroy_ah(const struct verbs_api *v, struct ibv_ah *ah);
int rdmamsg__v_attach_mcast(const struct verbs_api *v, struct ibv_qp *qp,
			    const union ibv_gid *gid, uint16_t lid);
int rdmamsg__v_detach_mcast(const struct verbs_api *v, struct ibv_qp *qp,
			    const union ibv_gid *gid, uint16_t lid);

/* ---- masked atomics ---------------------------------------------------- */

/* Without such atomics, *ret has no sizes. */
void rdmamsg__v_query_masked(const struct verbs_api *v,
			     struct ibv_context *verbs,
			     struct masked_caps *ret);
/* The device must have such atomics. */
int rdmamsg__v_post_masked(const struct verbs_api *v, struct ibv_qp *qp,
			   struct ibv_send_wr *wr, const struct masked *m);

/* ---- libmlx5 ----------------------------------------------------------- */

/* The table must have these calls. */
int rdmamsg__v_mlx5_create_qp(const struct verbs_api *v,
			      struct ibv_context *verbs,
			      struct ibv_qp_init_attr_ex *attr,
			      struct mlx5dv_qp_init_attr *mlx5,
			      struct ibv_qp **ret);
int rdmamsg__v_mlx5_create_mkey(const struct verbs_api *v,
				struct mlx5dv_mkey_init_attr *attr,
				struct mlx5dv_mkey **ret);
int rdmamsg__v_mlx5_destroy_mkey(const struct verbs_api *v,
				 struct mlx5dv_mkey *mkey);

/* ---- inlines of verbs.h, which dispatch through the context ----------- */

int rdmamsg__v_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type,
			struct ibv_mw **ret);
int rdmamsg__v_dealloc_mw(struct ibv_mw *mw);
int rdmamsg__v_open_xrcd(struct ibv_context *verbs,
			 struct ibv_xrcd_init_attr *attr,
			 struct ibv_xrcd **ret);
int rdmamsg__v_create_srq_ex(const struct verbs_api *v,
			     struct ibv_context *verbs,
			     struct ibv_srq_init_attr_ex *attr,
			     struct ibv_srq **ret);
int rdmamsg__v_get_srq_num(struct ibv_srq *srq, uint32_t *ret);
int rdmamsg__v_close_xrcd(struct ibv_xrcd *xrcd);
int rdmamsg__v_create_wq(struct ibv_context *verbs,
			 struct ibv_wq_init_attr *attr, struct ibv_wq **ret);
int rdmamsg__v_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int rdmamsg__v_destroy_wq(struct ibv_wq *wq);
int rdmamsg__v_create_rwq_ind_table(struct ibv_context *verbs,
				    struct ibv_rwq_ind_table_init_attr *attr,
				    struct ibv_rwq_ind_table **ret);
int rdmamsg__v_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* ---- the connection manager ------------------------------------------- */

int rdmamsg__v_create_event_channel(const struct verbs_api *v,
				    struct rdma_event_channel **ret);
int rdmamsg__v_create_id(const struct verbs_api *v,
			 struct rdma_event_channel *channel, void *context,
			 enum rdma_port_space ps, struct rdma_cm_id **ret);
int rdmamsg__v_destroy_id(const struct verbs_api *v, struct rdma_cm_id *id);
int rdmamsg__v_migrate_id(const struct verbs_api *v, struct rdma_cm_id *id,
			  struct rdma_event_channel *channel);
int rdmamsg__v_set_option(const struct verbs_api *v, struct rdma_cm_id *id,
			  int level, int optname, void *optval, size_t optlen);
int rdmamsg__v_bind_addr(const struct verbs_api *v, struct rdma_cm_id *id,
			 struct sockaddr *addr);
int rdmamsg__v_resolve_addr(const struct verbs_api *v, struct rdma_cm_id *id,
			    struct sockaddr *src, struct sockaddr *dst,
			    int timeout_ms);
int rdmamsg__v_resolve_route(const struct verbs_api *v, struct rdma_cm_id *id,
			     int timeout_ms);
int rdmamsg__v_listen(const struct verbs_api *v, struct rdma_cm_id *id,
		      int backlog);
int rdmamsg__v_connect(const struct verbs_api *v, struct rdma_cm_id *id,
		       struct rdma_conn_param *param);
int rdmamsg__v_establish(const struct verbs_api *v, struct rdma_cm_id *id);
int rdmamsg__v_accept(const struct verbs_api *v, struct rdma_cm_id *id,
		      struct rdma_conn_param *param);
int rdmamsg__v_reject(const struct verbs_api *v, struct rdma_cm_id *id,
		      const void *data, uint8_t len);
int rdmamsg__v_disconnect(const struct verbs_api *v, struct rdma_cm_id *id);
int rdmamsg__v_init_qp_attr(const struct verbs_api *v, struct rdma_cm_id *id,
			    struct ibv_qp_attr *attr, int *mask);
int rdmamsg__v_join_multicast(const struct verbs_api *v, struct rdma_cm_id *id,
			      struct rdma_cm_join_mc_attr_ex *attr,
			      void *context);
int rdmamsg__v_leave_multicast(const struct verbs_api *v, struct rdma_cm_id *id,
			       struct sockaddr *addr);
int rdmamsg__v_get_cm_event(const struct verbs_api *v,
			    struct rdma_event_channel *channel,
			    struct rdma_cm_event **ret);
int rdmamsg__v_ack_cm_event(const struct verbs_api *v,
			    struct rdma_cm_event *event);

#endif
