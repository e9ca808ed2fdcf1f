/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The asynchronous calls of librdmacm on the soft HCA, over cm/cm.h. soft.h has
 * soft_cma_create_event_channel().
 */
#ifndef SOFT_CMA_CALLS_H
#define SOFT_CMA_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>

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

#endif
