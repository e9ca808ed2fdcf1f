/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA as its users see it: every call of libibverbs it has, with
 * libibverbs' own conventions, and a shim of librdmacm's asynchronous calls.
 */
#ifndef SOFT_SOFT_H
#define SOFT_SOFT_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The device, its contexts and events */
struct ibv_device **soft_get_device_list(int *num);
void soft_free_device_list(struct ibv_device **list);
const char *soft_get_device_name(struct ibv_device *device);
__be64 soft_get_device_guid(struct ibv_device *device);
struct ibv_context *soft_open_device(struct ibv_device *device);
int soft_close_device(struct ibv_context *verbs);
int soft_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr);
int soft_query_device_ex(struct ibv_context *verbs,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size);
int soft_query_port(struct ibv_context *verbs, uint8_t port,
		    struct ibv_port_attr *attr);
int soft_query_gid(struct ibv_context *verbs, uint8_t port, int index,
		   union ibv_gid *gid);
int soft_query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		    __be16 *pkey);
int soft_query_gid_type(struct ibv_context *verbs, uint8_t port,
			unsigned int index, unsigned int *type);
int soft_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags,
		      size_t entry_size);
ssize_t soft_query_gid_table(struct ibv_context *verbs,
			     struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size);
int soft_get_pkey_index(struct ibv_context *verbs, uint8_t port, __be16 pkey);
int soft_get_async_event(struct ibv_context *verbs,
			 struct ibv_async_event *event);
void soft_ack_async_event(struct ibv_async_event *event);

struct ibv_pd *soft_alloc_pd(struct ibv_context *verbs);
int soft_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *soft_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			   int access);
struct ibv_mr *soft_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, int access);
struct ibv_mr *soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				 uint64_t iova, unsigned int access);
int soft_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		  size_t len, int access);
int soft_dereg_mr(struct ibv_mr *mr);

struct ibv_comp_channel *soft_create_comp_channel(struct ibv_context *verbs);
int soft_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *soft_create_cq(struct ibv_context *verbs, int cqe,
			      void *cq_context,
			      struct ibv_comp_channel *channel,
			      int comp_vector);
struct ibv_cq_ex *soft_create_cq_ex(struct ibv_context *verbs,
				    struct ibv_cq_init_attr_ex *attr);
int soft_resize_cq(struct ibv_cq *cq, int cqe);
int soft_destroy_cq(struct ibv_cq *cq);
int soft_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		      void **cq_context);
void soft_ack_cq_events(struct ibv_cq *cq, unsigned int n);

struct ibv_qp *soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *soft_create_qp_ex(struct ibv_context *verbs,
				 struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *soft_qp_to_qp_ex(struct ibv_qp *qp);
struct ibv_qp *soft_open_qp(struct ibv_context *verbs,
			    struct ibv_qp_open_attr *attr);
int soft_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int soft_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
int soft_destroy_qp(struct ibv_qp *qp);

struct ibv_srq *soft_create_srq(struct ibv_pd *pd,
				struct ibv_srq_init_attr *attr);
struct ibv_srq *soft_create_srq_ex(struct ibv_context *verbs,
				   struct ibv_srq_init_attr_ex *attr);
int soft_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int soft_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int soft_get_srq_num(struct ibv_srq *srq, uint32_t *num);
int soft_destroy_srq(struct ibv_srq *srq);
struct ibv_xrcd *soft_open_xrcd(struct ibv_context *verbs,
				struct ibv_xrcd_init_attr *attr);
int soft_close_xrcd(struct ibv_xrcd *xrcd);

/* Datagrams and groups */
struct ibv_ah *soft_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int soft_init_ah_from_wc(struct ibv_context *verbs, uint8_t port,
			 struct ibv_wc *wc, struct ibv_grh *grh,
			 struct ibv_ah_attr *attr);
struct ibv_ah *soft_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				      struct ibv_grh *grh, uint8_t port);
int soft_destroy_ah(struct ibv_ah *ah);
int soft_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
		      uint16_t lid);
int soft_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
		      uint16_t lid);

/* Connection management: cma.c, over the commands in cm.h */
struct rdma_event_channel *soft_cma_create_event_channel(void);
void soft_cma_destroy_event_channel(struct rdma_event_channel *channel);
int soft_cma_create_id(struct rdma_event_channel *channel,
		       struct rdma_cm_id **id, void *context,
		       enum rdma_port_space ps);
int soft_cma_destroy_id(struct rdma_cm_id *id);
int soft_cma_migrate_id(struct rdma_cm_id *id,
			struct rdma_event_channel *channel);
int soft_cma_set_option(struct rdma_cm_id *id, int level, int optname,
			void *optval, size_t optlen);
int soft_cma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int soft_cma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			  struct sockaddr *dst, int timeout_ms);
int soft_cma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int soft_cma_listen(struct rdma_cm_id *id, int backlog);
int soft_cma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int soft_cma_establish(struct rdma_cm_id *id);
int soft_cma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int soft_cma_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int soft_cma_disconnect(struct rdma_cm_id *id);
int soft_cma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			  int *mask);
/* cma_mcast.c */
int soft_cma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr,
			    void *context);
int soft_cma_join_multicast_ex(struct rdma_cm_id *id,
			       struct rdma_cm_join_mc_attr_ex *attr,
			       void *context);
int soft_cma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
int soft_cma_get_cm_event(struct rdma_event_channel *channel,
			  struct rdma_cm_event **event);
int soft_cma_ack_cm_event(struct rdma_cm_event *event);
__be16 soft_cma_get_src_port(struct rdma_cm_id *id);
struct ibv_context **soft_cma_get_devices(int *num);
void soft_cma_free_devices(struct ibv_context **list);

#endif
