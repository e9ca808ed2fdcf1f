/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libibverbs on the soft HCA, with libibverbs' conventions. soft.h
 * has those that open the device.
 */
#ifndef SOFT_VERBS_CALLS_H
#define SOFT_VERBS_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

/* The device, its contexts and events */
struct ibv_device **soft_get_device_list(int *num);
void soft_free_device_list(struct ibv_device **list);
const char *soft_get_device_name(struct ibv_device *device);
int soft_close_device(struct ibv_context *verbs);
int soft_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr);
int soft_query_device_ex(struct ibv_context *verbs,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size);
int soft_query_rt_values(struct ibv_context *verbs,
			 struct ibv_values_ex *values);
int soft_query_port(struct ibv_context *verbs, uint8_t port,
		    struct ibv_port_attr *attr);
/* Requests sent again after an ack timeout, of all processes of the fabric. */
uint64_t soft_port_retries(struct ibv_context *verbs, uint32_t port);
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
struct ibv_td *soft_alloc_td(struct ibv_context *verbs,
			     struct ibv_td_init_attr *attr);
int soft_dealloc_td(struct ibv_td *td);
struct ibv_pd *soft_alloc_parent_domain(struct ibv_context *verbs,
				struct ibv_parent_domain_init_attr *attr);
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
/*
 * Not in libibverbs. For a program that polls the channel's queues whenever it
 * wakes. Returns a descriptor that it waits for besides the channel's, edge-
 * triggered and without reading, or -1 if another channel has it. The program
 * calls soft_attend_wait() before it waits, which returns false if it must not
 * wait, then soft_attend_woken() in any case, polls, and calls
 * soft_attend_done() before it returns to others that may wait for the channel.
 */
int soft_attend_fd(struct ibv_comp_channel *channel);
bool soft_attend_wait(struct ibv_comp_channel *channel);
void soft_attend_woken(struct ibv_comp_channel *channel);
void soft_attend_done(struct ibv_comp_channel *channel);
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
/* Returns true if the peer is reached by packets. */
bool soft_qp_is_far(struct ibv_qp *qp);
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

/* Receive work queues, and the steering of Ethernet frames */
struct ibv_wq *soft_create_wq(struct ibv_context *verbs,
			      struct ibv_wq_init_attr *attr);
int soft_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int soft_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *
soft_create_rwq_ind_table(struct ibv_context *verbs,
			  struct ibv_rwq_ind_table_init_attr *attr);
int soft_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_flow *soft_create_flow(struct ibv_qp *qp,
				  struct ibv_flow_attr *attr);
int soft_destroy_flow(struct ibv_flow *flow);

/* Memory windows */
struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int soft_dealloc_mw(struct ibv_mw *mw);
int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind);

/* Work requests and completions, behind the inline functions of verbs.h */
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad);
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/*
 * Masked atomics, for which libibverbs has no call. soft_post_masked() posts
 * one request as ibv_post_send() does. wr->opcode is ignored. The gather list,
 * of m->size bytes, takes the previous value of the operand at
 * wr->wr.atomic.remote_addr. The completion has the opcode IBV_WC_DRIVER2.
 */
struct masked;
struct masked_caps;
void soft_query_masked(struct ibv_context *verbs, struct masked_caps *ret);
int soft_post_masked(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     const struct masked *m);

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

#endif
