/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the device share. */
#ifndef RDMAMSG_TESTS_FAKE_NULLDEV_OBJECTS_H
#define RDMAMSG_TESTS_FAKE_NULLDEV_OBJECTS_H

#include <stdbool.h>

#include "nulldev.h"

struct null_channel {
	struct ibv_comp_channel ibv;
	struct null_cq *pending;	/* with an event nobody has got yet */
};

struct null_cq {
	struct ibv_cq ibv;
	struct null_cq *next;		/* pending */
	struct ibv_wc *ring;
	uint32_t mask, head, tail;
	bool armed;
	bool raised;
};

struct null_recv {
	uint64_t wr_id;
	uint8_t *addr;
	uint32_t length;
};

struct null_qp {
	struct ibv_qp ibv;
	struct null_qp *peer;
	uint32_t dest;
	struct null_recv *recvs;
	uint32_t mask, head, tail;
	bool all_signaled;
};

extern struct ibv_device nulldev_device;

/* nulldev_data.c */
void null_ops(struct ibv_context_ops *ops);
void null_fail(struct null_qp *qp);	/* to error, with its receives */

/* nulldev_cm.c */
struct rdma_event_channel *nullcm_create_event_channel(void);
void nullcm_destroy_event_channel(struct rdma_event_channel *rdma);
int nullcm_create_id(struct rdma_event_channel *channel,
		     struct rdma_cm_id **ret, void *context,
		     enum rdma_port_space ps);
int nullcm_destroy_id(struct rdma_cm_id *rdma);
int nullcm_migrate_id(struct rdma_cm_id *id,
		      struct rdma_event_channel *channel);
int nullcm_set_option(struct rdma_cm_id *id, int level, int optname,
		      void *optval, size_t optlen);
int nullcm_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr);
int nullcm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			struct sockaddr *dst, int timeout_ms);
int nullcm_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int nullcm_listen(struct rdma_cm_id *rdma, int backlog);
int nullcm_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param);
int nullcm_establish(struct rdma_cm_id *rdma);
int nullcm_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param);
int nullcm_reject(struct rdma_cm_id *rdma, const void *data, uint8_t len);
int nullcm_disconnect(struct rdma_cm_id *rdma);
int nullcm_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr,
			int *mask);
int nullcm_get_cm_event(struct rdma_event_channel *rdma,
			struct rdma_cm_event **event);
int nullcm_ack_cm_event(struct rdma_cm_event *event);
__be16 nullcm_get_src_port(struct rdma_cm_id *id);
struct ibv_context **nullcm_get_devices(int *num);
void nullcm_free_devices(struct ibv_context **list);

#endif
