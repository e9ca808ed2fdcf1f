/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids, channels and events behind librdmacm's structs. */
#ifndef SOFT_CMA_CMA_H
#define SOFT_CMA_CMA_H

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/ib.h>

#include "base/list.h"
#include "soft/cm/cm.h"
#include "soft/cm/ucm_abi.h"

struct cma_verbs;

struct cma_channel {
	struct rdma_event_channel rdma;
	struct soft_cm_file *file;
};

struct cma_id {
	struct rdma_cm_id rdma;
	struct cma_verbs *on;
	uint32_t handle;
	uint32_t acked;			/* events that were acknowledged */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct list groups;		/* joined groups */
};

/* A joined group. The lock of the id protects it. */
struct cma_mc {
	struct list node;
	struct cma_id *id;
	void *context;
	struct sockaddr_storage addr;	/* as the program gave it */
	uint32_t handle;
	uint32_t acked;
};

struct cma_event {
	struct rdma_cm_event rdma;
	struct cma_id *counts_for;
	struct cma_mc *mc;		/* NULL: not about a group */
	uint8_t data[RDMA_MAX_PRIVATE_DATA];
};

static inline struct cma_id *cma_id(struct rdma_cm_id *id)
{
	return (struct cma_id *)id;
}

static inline struct soft_cm_file *cma_file(const struct rdma_cm_id *id)
{
	return ((struct cma_channel *)id->channel)->file;
}

/* Returns 0, or -1 with errno, from 0 or -errno. */
static inline int cma_result(int ret)
{
	if (!ret)
		return 0;
	errno = -ret;
	return -1;
}

static inline uint16_t cma_addr_len(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return sizeof(struct sockaddr_in);
	}
}

/* soft_cma_create_event_channel() of soft.h */
struct rdma_event_channel *soft_cma_channel_new(void);
struct cma_id *cma_id_new(struct rdma_event_channel *channel, void *context,
			  enum rdma_port_space ps);
void cma_id_free(struct cma_id *id);
/* Waits until *acked >= events. */
void cma_wait_acks(struct cma_id *id, const uint32_t *acked, uint32_t events);
/* Queries addresses and port anew and stores them in the id. */
int cma_update(struct rdma_cm_id *id);
void cma_copy_ah(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from);
void cma_forget_groups(struct cma_id *id);

/* verbs.c: the device context that the ids of all channels share. */
bool cma_verbs_get(void);
void cma_verbs_put(void);
void cma_verbs_take(struct cma_id *id);
void cma_verbs_let_go(struct cma_id *id);

#endif
