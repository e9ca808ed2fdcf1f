/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the null device share. */
#ifndef RDMAMSG_TESTS_FAKE_NULLDEV_OBJECTS_H
#define RDMAMSG_TESTS_FAKE_NULLDEV_OBJECTS_H

#include <stdbool.h>

#include "nulldev.h"

#define NULL_SGE_MAX	16
#define NULL_INLINE_MAX	512

struct null_channel {
	struct ibv_comp_channel ibv;
	struct null_cq *pending;	/* list of CQs with an unread event */
};

struct null_cq {
	struct ibv_cq ibv;
	struct null_cq *next;		/* next CQ in pending */
	struct ibv_wc *ring;
	uint32_t mask, head, tail;
	bool armed;
	bool raised;
};

struct null_mr {
	struct ibv_mr ibv;		/* first */
	struct null_mr *next;
	uint64_t iova;
};

/* Returns the memory of a remote address, or NULL if the key does not exist. */
void *null_memory(uint32_t rkey, uint64_t addr);

struct null_recv {
	uint64_t wr_id;
	uint8_t *addr;
	uint32_t length;
};

/* A request that a cut keeps from its peer. */
struct null_held {
	struct null_held *next;
	bool told;			/* has completed */
	struct ibv_send_wr wr;
	struct ibv_sge sge[NULL_SGE_MAX];
	uint8_t inlined[NULL_INLINE_MAX];
};

struct null_qp {
	struct ibv_qp ibv;
	struct null_qp *peer;
	uint32_t dest;
	struct null_held *held, **held_end;
	uint32_t told;			/* of them */
	struct null_recv *recvs;
	uint32_t mask, head, tail;
	bool all_signaled;
};

extern bool null_is_cut;

/* nulldev_data.c */
void null_ops(struct ibv_context_ops *ops);
void null_fail(struct null_qp *qp);	/* enters error, flushes all */
/* carries out n held requests */
void null_pass(struct null_qp *qp, uint32_t n);
void null_drop(struct null_qp *qp);	/* frees all held requests */

/* nulldev.c */
void null_join(uint32_t a, uint32_t b);	/* both queue pairs go to RTS */

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

#endif
