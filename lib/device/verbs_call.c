/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/verbs_call.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/fd.h"

/* Clear errno, because some calls fail without setting errno. */
#define CALL(call)	(errno = 0, rdmamsg__verbs_ret(call))
#define MAKE(ret, call) ({						\
	__typeof__(*(ret)) made_ = (errno = 0, (call));			\
									\
	made_ ? (*(ret) = made_, 0) : rdmamsg__verbs_null();		\
})

/*
 * Calls that make descriptors of rdma-core's choice, none of them below 3. The
 * result is chosen last, so that compilers see when *ret is set.
 */
#define MAKE_FD(ret, call) ({						\
	struct fd_fill fill_;						\
	__typeof__(*(ret)) made_;					\
	int err_;							\
									\
	fd_fill(&fill_);						\
	errno = 0;							\
	made_ = (call);							\
	err_ = rdmamsg__verbs_null();					\
	fd_unfill(&fill_);						\
	made_ ? (*(ret) = made_, 0) : err_;				\
})

/* ---- devices ---------------------------------------------------------- */

int rdmamsg__v_fork_init(const struct verbs_api *v)
{
	return CALL(v->fork_init());
}

int rdmamsg__v_get_device_list(const struct verbs_api *v,
			       struct ibv_device ***ret, int *ret_n)
{
	return MAKE_FD(ret, v->get_device_list(ret_n));
}

int rdmamsg__v_open_device(const struct verbs_api *v, struct ibv_device *device,
			   struct ibv_context **ret)
{
	return MAKE_FD(ret, v->open_device(device));
}

int rdmamsg__v_close_device(const struct verbs_api *v,
			    struct ibv_context *verbs)
{
	return CALL(v->close_device(verbs));
}

int rdmamsg__v_query_device(const struct verbs_api *v,
			    struct ibv_context *verbs,
			    struct ibv_device_attr *attr)
{
	return CALL(v->query_device(verbs, attr));
}

int rdmamsg__v_query_device_ex(const struct verbs_api *v,
			       struct ibv_context *verbs,
			       struct ibv_device_attr_ex *attr)
{
	return CALL(v->query_device_ex(verbs, attr));
}

int rdmamsg__v_query_port(const struct verbs_api *v, struct ibv_context *verbs,
			  uint8_t port, struct ibv_port_attr *attr)
{
	return CALL(v->query_port(verbs, port, attr));
}

int rdmamsg__v_query_gid(const struct verbs_api *v, struct ibv_context *verbs,
			 uint8_t port, int index, union ibv_gid *gid)
{
	return CALL(v->query_gid(verbs, port, index, gid));
}

int rdmamsg__v_query_gid_ex(const struct verbs_api *v,
			    struct ibv_context *verbs, uint32_t port,
			    uint32_t index, struct ibv_gid_entry *entry)
{
	return CALL(v->query_gid_ex(verbs, port, index, entry));
}

int rdmamsg__v_query_pkey(const struct verbs_api *v, struct ibv_context *verbs,
			  uint8_t port, int index, __be16 *pkey)
{
	return CALL(v->query_pkey(verbs, port, index, pkey));
}

int rdmamsg__v_get_async_event(const struct verbs_api *v,
			       struct ibv_context *verbs,
			       struct ibv_async_event *event)
{
	return CALL(v->get_async_event(verbs, event));
}

/* ---- protection domains and memory ------------------------------------ */

int rdmamsg__v_alloc_pd(const struct verbs_api *v, struct ibv_context *verbs,
			struct ibv_pd **ret)
{
	return MAKE(ret, v->alloc_pd(verbs));
}

int rdmamsg__v_dealloc_pd(const struct verbs_api *v, struct ibv_pd *pd)
{
	return CALL(v->dealloc_pd(pd));
}

int rdmamsg__v_reg_mr(const struct verbs_api *v, struct ibv_pd *pd, void *addr,
		      size_t len, int access, struct ibv_mr **ret)
{
	return MAKE(ret, v->reg_mr(pd, addr, len, access));
}

int rdmamsg__v_reg_mr_iova(const struct verbs_api *v, struct ibv_pd *pd,
			   void *addr, size_t len, uint64_t iova, int access,
			   struct ibv_mr **ret)
{
	return MAKE(ret, v->reg_mr_iova(pd, addr, len, iova, access));
}

int rdmamsg__v_reg_dmabuf_mr(const struct verbs_api *v, struct ibv_pd *pd,
			     uint64_t offset, size_t len, uint64_t iova, int fd,
			     int access, struct ibv_mr **ret)
{
	if (!v->reg_dmabuf_mr)
		return -EOPNOTSUPP;
	return MAKE(ret, v->reg_dmabuf_mr(pd, offset, len, iova, fd, access));
}

int rdmamsg__v_dereg_mr(const struct verbs_api *v, struct ibv_mr *mr)
{
	return CALL(v->dereg_mr(mr));
}

/* ---- completion queues ------------------------------------------------ */

int rdmamsg__v_create_comp_channel(const struct verbs_api *v,
				   struct ibv_context *verbs,
				   struct ibv_comp_channel **ret)
{
	return MAKE_FD(ret, v->create_comp_channel(verbs));
}

int rdmamsg__v_destroy_comp_channel(const struct verbs_api *v,
				    struct ibv_comp_channel *channel)
{
	return CALL(v->destroy_comp_channel(channel));
}

int rdmamsg__v_create_cq(const struct verbs_api *v, struct ibv_context *verbs,
			 uint32_t entries, void *cq_context,
			 struct ibv_comp_channel *channel, uint32_t vector,
			 struct ibv_cq **ret)
{
	return MAKE(ret, v->create_cq(verbs, (int)entries, cq_context, channel,
				      (int)vector));
}

int rdmamsg__v_create_cq_ex(struct ibv_context *verbs,
			    struct ibv_cq_init_attr_ex *attr,
			    struct ibv_cq **ret)
{
	struct ibv_cq_ex *ex = NULL;
	int err = MAKE(&ex, ibv_create_cq_ex(verbs, attr));

	if (!err)
		*ret = ibv_cq_ex_to_cq(ex);
	return err;
}

int rdmamsg__v_resize_cq(const struct verbs_api *v, struct ibv_cq *cq,
			 uint32_t entries)
{
	return CALL(v->resize_cq(cq, (int)entries));
}

int rdmamsg__v_destroy_cq(const struct verbs_api *v, struct ibv_cq *cq)
{
	return CALL(v->destroy_cq(cq));
}

int rdmamsg__v_get_cq_event(const struct verbs_api *v,
			    struct ibv_comp_channel *channel,
			    struct ibv_cq **ret)
{
	void *cq_context;

	return CALL(v->get_cq_event(channel, ret, &cq_context));
}

/* ---- queue pairs, shared receive queues, address handles -------------- */

int rdmamsg__v_create_qp(const struct verbs_api *v, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr, struct ibv_qp **ret)
{
	return MAKE(ret, v->create_qp(pd, attr));
}

int rdmamsg__v_create_qp_ex(const struct verbs_api *v,
			    struct ibv_context *verbs,
			    struct ibv_qp_init_attr_ex *attr,
			    struct ibv_qp **ret)
{
	return MAKE(ret, v->create_qp_ex(verbs, attr));
}

int rdmamsg__v_modify_qp(const struct verbs_api *v, struct ibv_qp *qp,
			 struct ibv_qp_attr *attr, int mask)
{
	return CALL(v->modify_qp(qp, attr, mask));
}

int rdmamsg__v_query_qp(const struct verbs_api *v, struct ibv_qp *qp,
			struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_init_attr init;

	return CALL(v->query_qp(qp, attr, mask, &init));
}

int rdmamsg__v_destroy_qp(const struct verbs_api *v, struct ibv_qp *qp)
{
	return CALL(v->destroy_qp(qp));
}

int rdmamsg__v_create_srq(const struct verbs_api *v, struct ibv_pd *pd,
			  struct ibv_srq_init_attr *attr, struct ibv_srq **ret)
{
	return MAKE(ret, v->create_srq(pd, attr));
}

int rdmamsg__v_modify_srq(const struct verbs_api *v, struct ibv_srq *srq,
			  struct ibv_srq_attr *attr, int mask)
{
	return CALL(v->modify_srq(srq, attr, mask));
}

int rdmamsg__v_query_srq(const struct verbs_api *v, struct ibv_srq *srq,
			 struct ibv_srq_attr *attr)
{
	return CALL(v->query_srq(srq, attr));
}

int rdmamsg__v_destroy_srq(const struct verbs_api *v, struct ibv_srq *srq)
{
	return CALL(v->destroy_srq(srq));
}

int rdmamsg__v_create_ah(const struct verbs_api *v, struct ibv_pd *pd,
			 struct ibv_ah_attr *attr, struct ibv_ah **ret)
{
	return MAKE(ret, v->create_ah(pd, attr));
}

int rdmamsg__v_destroy_ah(const struct verbs_api *v, struct ibv_ah *ah)
{
	return CALL(v->destroy_ah(ah));
}

int rdmamsg__v_attach_mcast(const struct verbs_api *v, struct ibv_qp *qp,
			    const union ibv_gid *gid, uint16_t lid)
{
	return CALL(v->attach_mcast(qp, gid, lid));
}

int rdmamsg__v_detach_mcast(const struct verbs_api *v, struct ibv_qp *qp,
			    const union ibv_gid *gid, uint16_t lid)
{
	return CALL(v->detach_mcast(qp, gid, lid));
}

/* ---- masked atomics ---------------------------------------------------- */

void rdmamsg__v_query_masked(const struct verbs_api *v,
			     struct ibv_context *verbs,
			     struct masked_caps *ret)
{
	*ret = (struct masked_caps){ .sizes = 0 };
	if (v->query_masked)
		v->query_masked(verbs, ret);
}

int rdmamsg__v_post_masked(const struct verbs_api *v, struct ibv_qp *qp,
			   struct ibv_send_wr *wr, const struct masked *m)
{
	return CALL(v->post_masked(qp, wr, m));
}

/* ---- libmlx5 ----------------------------------------------------------- */

int rdmamsg__v_mlx5_create_qp(const struct verbs_api *v,
			      struct ibv_context *verbs,
			      struct ibv_qp_init_attr_ex *attr,
			      struct mlx5dv_qp_init_attr *mlx5,
			      struct ibv_qp **ret)
{
	return MAKE(ret, v->mlx5_create_qp(verbs, attr, mlx5));
}

int rdmamsg__v_mlx5_create_mkey(const struct verbs_api *v,
				struct mlx5dv_mkey_init_attr *attr,
				struct mlx5dv_mkey **ret)
{
	return MAKE(ret, v->mlx5_create_mkey(attr));
}

int rdmamsg__v_mlx5_destroy_mkey(const struct verbs_api *v,
				 struct mlx5dv_mkey *mkey)
{
	return CALL(v->mlx5_destroy_mkey(mkey));
}

/* ---- inlines of verbs.h, which dispatch through the context ----------- */

int rdmamsg__v_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type,
			struct ibv_mw **ret)
{
	return MAKE(ret, ibv_alloc_mw(pd, type));
}

int rdmamsg__v_dealloc_mw(struct ibv_mw *mw)
{
	return CALL(ibv_dealloc_mw(mw));
}

int rdmamsg__v_open_xrcd(struct ibv_context *verbs,
			 struct ibv_xrcd_init_attr *attr,
			 struct ibv_xrcd **ret)
{
	return MAKE(ret, ibv_open_xrcd(verbs, attr));
}

int rdmamsg__v_create_srq_ex(const struct verbs_api *v,
			     struct ibv_context *verbs,
			     struct ibv_srq_init_attr_ex *attr,
			     struct ibv_srq **ret)
{
	return MAKE(ret, v->create_srq_ex(verbs, attr));
}

int rdmamsg__v_get_srq_num(struct ibv_srq *srq, uint32_t *ret)
{
	return CALL(ibv_get_srq_num(srq, ret));
}

int rdmamsg__v_close_xrcd(struct ibv_xrcd *xrcd)
{
	return CALL(ibv_close_xrcd(xrcd));
}

int rdmamsg__v_create_wq(struct ibv_context *verbs,
			 struct ibv_wq_init_attr *attr, struct ibv_wq **ret)
{
	return MAKE(ret, ibv_create_wq(verbs, attr));
}

int rdmamsg__v_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	return CALL(ibv_modify_wq(wq, attr));
}

int rdmamsg__v_destroy_wq(struct ibv_wq *wq)
{
	return CALL(ibv_destroy_wq(wq));
}

int rdmamsg__v_create_rwq_ind_table(struct ibv_context *verbs,
				    struct ibv_rwq_ind_table_init_attr *attr,
				    struct ibv_rwq_ind_table **ret)
{
	return MAKE(ret, ibv_create_rwq_ind_table(verbs, attr));
}

int rdmamsg__v_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	return CALL(ibv_destroy_rwq_ind_table(table));
}

/* ---- the connection manager ------------------------------------------- */

int rdmamsg__v_create_event_channel(const struct verbs_api *v,
				    struct rdma_event_channel **ret)
{
	return MAKE_FD(ret, v->create_event_channel());
}

int rdmamsg__v_create_id(const struct verbs_api *v,
			 struct rdma_event_channel *channel, void *context,
			 enum rdma_port_space ps, struct rdma_cm_id **ret)
{
	return CALL(v->create_id(channel, ret, context, ps));
}

int rdmamsg__v_destroy_id(const struct verbs_api *v, struct rdma_cm_id *id)
{
	return CALL(v->destroy_id(id));
}

int rdmamsg__v_migrate_id(const struct verbs_api *v, struct rdma_cm_id *id,
			  struct rdma_event_channel *channel)
{
	return CALL(v->migrate_id(id, channel));
}

int rdmamsg__v_set_option(const struct verbs_api *v, struct rdma_cm_id *id,
			  int level, int optname, void *optval, size_t optlen)
{
	return CALL(v->set_option(id, level, optname, optval, optlen));
}

int rdmamsg__v_bind_addr(const struct verbs_api *v, struct rdma_cm_id *id,
			 struct sockaddr *addr)
{
	return CALL(v->bind_addr(id, addr));
}

int rdmamsg__v_resolve_addr(const struct verbs_api *v, struct rdma_cm_id *id,
			    struct sockaddr *src, struct sockaddr *dst,
			    int timeout_ms)
{
	return CALL(v->resolve_addr(id, src, dst, timeout_ms));
}

int rdmamsg__v_resolve_route(const struct verbs_api *v, struct rdma_cm_id *id,
			     int timeout_ms)
{
	return CALL(v->resolve_route(id, timeout_ms));
}

int rdmamsg__v_listen(const struct verbs_api *v, struct rdma_cm_id *id,
		      int backlog)
{
	return CALL(v->listen(id, backlog));
}

int rdmamsg__v_connect(const struct verbs_api *v, struct rdma_cm_id *id,
		       struct rdma_conn_param *param)
{
	return CALL(v->connect(id, param));
}

int rdmamsg__v_establish(const struct verbs_api *v, struct rdma_cm_id *id)
{
	return CALL(v->establish(id));
}

int rdmamsg__v_accept(const struct verbs_api *v, struct rdma_cm_id *id,
		      struct rdma_conn_param *param)
{
	return CALL(v->accept(id, param));
}

int rdmamsg__v_reject(const struct verbs_api *v, struct rdma_cm_id *id,
		      const void *data, uint8_t len)
{
	return CALL(v->reject(id, data, len));
}

int rdmamsg__v_disconnect(const struct verbs_api *v, struct rdma_cm_id *id)
{
	return CALL(v->disconnect(id));
}

int rdmamsg__v_init_qp_attr(const struct verbs_api *v, struct rdma_cm_id *id,
			    struct ibv_qp_attr *attr, int *mask)
{
	return CALL(v->init_qp_attr(id, attr, mask));
}

int rdmamsg__v_join_multicast(const struct verbs_api *v, struct rdma_cm_id *id,
			      struct rdma_cm_join_mc_attr_ex *attr,
			      void *context)
{
	return CALL(v->join_multicast(id, attr, context));
}

int rdmamsg__v_leave_multicast(const struct verbs_api *v, struct rdma_cm_id *id,
			       struct sockaddr *addr)
{
	return CALL(v->leave_multicast(id, addr));
}

int rdmamsg__v_get_cm_event(const struct verbs_api *v,
			    struct rdma_event_channel *channel,
			    struct rdma_cm_event **ret)
{
	return CALL(v->get_cm_event(channel, ret));
}

int rdmamsg__v_ack_cm_event(const struct verbs_api *v,
			    struct rdma_cm_event *event)
{
	return CALL(v->ack_cm_event(event));
}
