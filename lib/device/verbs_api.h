/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam. One table has every exported ibv_*() call and every asynchronous
 * rdma_*() call, under its own name. An entry fails as the call of that name
 * does. The library uses verbs_call.h, whose functions return 0 or -errno. The
 * data path (ibv_post_send() and others) is not in the table, because it
 * dispatches through context->ops. If the table has no context on the device of
 * an id, id->verbs is NULL and id_device() names the device.
 */
#ifndef RDMAMSG_LIB_VERBS_API_H
#define RDMAMSG_LIB_VERBS_API_H

#include <errno.h>
#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/masked.h"

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

#define TABLES	2	/* libibverbs (or a test's), soft HCA */

struct verbs_api {
	/* NULL: no memory is registered with the kernel */
	enum ibv_fork_status (*is_fork_initialized)(void);
	int (*fork_init)(void);
	struct ibv_device **(*get_device_list)(int *num);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	__be64 (*get_device_guid)(struct ibv_device *device);
	/* -1: unknown; only kernel devices have an index */
	int (*get_device_index)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *verbs);
	int (*query_device)(struct ibv_context *verbs,
			    struct ibv_device_attr *attr);
	int (*query_device_ex)(struct ibv_context *verbs,
			       struct ibv_device_attr_ex *attr);
	int (*query_port)(struct ibv_context *verbs, uint8_t port,
			  struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *verbs, uint8_t port, int index,
			 union ibv_gid *gid);
	int (*query_gid_ex)(struct ibv_context *verbs, uint32_t port,
			    uint32_t index, struct ibv_gid_entry *entry);
	int (*query_pkey)(struct ibv_context *verbs, uint8_t port, int index,
			  __be16 *pkey);
	int (*get_async_event)(struct ibv_context *verbs,
			       struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *verbs);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len,
				 int access);
	struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr,
				      size_t len, uint64_t iova, int access);
	/*
	 * NULL, or tells the peer's device what its program will be told: that
	 * it may read these bytes.
	 */
	void (*offer_read)(struct ibv_qp *qp, const struct ibv_mr *mr,
			   uint64_t raddr, uint64_t len);
	int (*rereg_mr)(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
			void *addr, size_t len, int access);
	/* NULL: not supported */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset,
					size_t len, uint64_t iova, int fd,
					int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *verbs, int cqe,
				    void *cq_context,
				    struct ibv_comp_channel *channel,
				    int comp_vector);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*destroy_cq)(struct ibv_cq *cq);
	/* retries.h; NULL: sysfs tells */
	uint64_t (*port_retries)(struct ibv_context *verbs, uint32_t port);
	/* attend.h; NULL: not supported */
	int (*attend_fd)(struct ibv_comp_channel *channel);
	bool (*attend_wait)(struct ibv_comp_channel *channel);
	void (*attend_woken)(struct ibv_comp_channel *channel);
	void (*attend_done)(struct ibv_comp_channel *channel);
	/*
	 * The soft HCA alone, else NULL: 0, or why it does not reach other
	 * hosts; whether the peer of a queue pair is on another one
	 */
	int (*far_error)(void);
	bool (*is_far)(struct ibv_qp *qp);
	int (*get_cq_event)(struct ibv_comp_channel *channel,
			    struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *verbs,
				       struct ibv_qp_init_attr_ex *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			 int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init);
	struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *qp);
	int (*destroy_qp)(struct ibv_qp *qp);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd,
				      struct ibv_srq_init_attr *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *verbs,
					 struct ibv_srq_init_attr_ex *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			  int mask);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd,
				    struct ibv_ah_attr *attr);
	struct ibv_ah *(*create_ah_from_wc)(struct ibv_pd *pd,
					    struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port);
	int (*destroy_ah)(struct ibv_ah *ah);
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid,
			    uint16_t lid);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid,
			    uint16_t lid);
	/*
	 * Of the soft HCA only, else NULL. rdma-core has masked atomics of 4
	 * and 8 bytes, as raw requests of mlx5: device/masked.h. Larger ones
	 * need the second entry. It posts one request as ibv_post_send() does,
	 * and ignores wr->opcode.
	 */
	void (*query_masked)(struct ibv_context *verbs,
			     struct masked_caps *ret);
	int (*post_masked)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			   const struct masked *m);

	/*
	 * The calls of libmlx5 for dynamically connected transport and indirect
	 * keys, under their names without mlx5dv_. NULL: not supported.
	 * qp_ex_from_ibv_qp_ex() may return NULL.
	 */
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

	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*create_id)(struct rdma_event_channel *channel,
			 struct rdma_cm_id **id, void *context,
			 enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*migrate_id)(struct rdma_cm_id *id,
			  struct rdma_event_channel *channel);
	int (*set_option)(struct rdma_cm_id *id, int level, int optname,
			  void *optval, size_t optlen);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src,
			    struct sockaddr *dst, int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*establish)(struct rdma_cm_id *id);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t len);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			    int *mask);
	int (*join_multicast)(struct rdma_cm_id *id,
			      struct rdma_cm_join_mc_attr_ex *attr,
			      void *context);
	int (*leave_multicast)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*get_cm_event)(struct rdma_event_channel *channel,
			    struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	__be16 (*get_src_port)(struct rdma_cm_id *id);
	/* Returns false if the id is not bound. */
	bool (*id_device)(struct rdma_cm_id *id, struct id_device *ret);
};

extern const struct verbs_api rdmamsg__verbs_system;
extern const struct verbs_api rdmamsg__verbs_soft;	/* soft_api.c */

/*
 * The table for new devices and event channels, beside the soft HCA. Tests may
 * set their own table. Then the soft HCA is not used.
 */
extern const struct verbs_api *rdmamsg__verbs;

/* id_device() for tables whose ids have a context on their device. */
bool rdmamsg__verbs_id_device(struct rdma_cm_id *id, struct id_device *ret);

/*
 * Converts the result of a call that returns an errno, or -1 and sets errno.
 * Returns 0 or -errno. For verbs_call.c and for the inlines of the data path.
 */
int rdmamsg__verbs_ret(int ret);
/*
 * Returns -errno after a call has returned NULL. For verbs_call.c. Inline, so
 * that compilers see that the result is not 0.
 */
static inline int rdmamsg__verbs_null(void)
{
	return errno ? -errno : -ENOMEM;
}

#endif
