/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's connection manager, through the commands of
 * <rdma/rdma_user_cm.h>. The functions replace the asynchronous calls of
 * librdmacm, and fail as those do: -1 and errno.
 *
 * librdmacm opens each device that an id is bound to. It closes the device
 * after the device has disappeared, when another id is bound. So it never
 * closes the only device, nor any device in an idle process (rdma-core v44.0,
 * librdmacm/cma.c, sync_devices_list()). Until then the kernel cannot remove
 * the device. librdmacm also enters each id into a table, and clears the entry
 * after the kernel may have reused the number. The functions here open no
 * device, and the kernel returns the pointer to the id with each event.
 *
 * Two rules keep them simple: the thread that owns an id makes all calls on the
 * id, and it acknowledges an event before its next call.
 */
#ifndef RDMAMSG_LIB_UCM_H
#define RDMAMSG_LIB_UCM_H

#include "device/verbs_api.h"

#include "base/list.h"
/* both headers define some of the same constants */
#include "soft/cm/ucm_abi.h"

#define UCM_NO_INDEX	UINT32_MAX	/* device index unknown */

struct ucm_id {
	struct rdma_cm_id rdma;		/* first member */
	uint32_t handle;		/* of the kernel */
	bool bound;
	struct id_device device;	/* valid if bound */
	struct list groups;		/* struct ucm_group */
	struct ucm_id *next_kept;	/* in the list of kept ids */
};

static inline struct ucm_id *ucm_id(struct rdma_cm_id *id)
{
	return (struct ucm_id *)id;
}

/* ucm.c */
int rdmamsg__ucm_command(const struct rdma_event_channel *channel, uint32_t cmd,
			 const void *in, size_t in_len, size_t out_len);
size_t rdmamsg__ucm_addr_len(const struct sockaddr *addr);
struct ucm_id *rdmamsg__ucm_id_new(struct rdma_event_channel *channel,
				   void *context, enum rdma_port_space ps);
void rdmamsg__ucm_id_free(struct ucm_id *id);
/* Destroys the id, and its events that are not fetched yet. */
int rdmamsg__ucm_destroy_handle(const struct rdma_event_channel *channel,
				uint32_t handle);
/* Reads the current state of the id: addresses, device, port, GIDs. */
int rdmamsg__ucm_update(struct rdma_cm_id *id);
int rdmamsg__ucm_create_id(struct rdma_event_channel *channel,
			   struct rdma_cm_id **ret, void *context,
			   enum rdma_port_space ps);
int rdmamsg__ucm_destroy_id(struct rdma_cm_id *id);
int rdmamsg__ucm_migrate_id(struct rdma_cm_id *id,
			    struct rdma_event_channel *channel);
int rdmamsg__ucm_set_option(struct rdma_cm_id *id, int level, int optname,
			    void *optval, size_t optlen);
int rdmamsg__ucm_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int rdmamsg__ucm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			      struct sockaddr *dst, int timeout_ms);
int rdmamsg__ucm_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int rdmamsg__ucm_listen(struct rdma_cm_id *id, int backlog);
__be16 rdmamsg__ucm_get_src_port(struct rdma_cm_id *id);
bool rdmamsg__ucm_id_device(struct rdma_cm_id *id, struct id_device *ret);

/* ucm_conn.c */
void rdmamsg__ucm_copy_ah(struct ibv_ah_attr *to,
			  const struct ib_uverbs_ah_attr *from);
int rdmamsg__ucm_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int rdmamsg__ucm_establish(struct rdma_cm_id *id);
int rdmamsg__ucm_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int rdmamsg__ucm_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int rdmamsg__ucm_disconnect(struct rdma_cm_id *id);
int rdmamsg__ucm_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			      int *mask);

/* ucm_event.c */
int rdmamsg__ucm_get_cm_event(struct rdma_event_channel *channel,
			      struct rdma_cm_event **ret);
int rdmamsg__ucm_ack_cm_event(struct rdma_cm_event *event);

/* ucm_group.c */
struct ucm_group {
	struct list node;		/* in the list of the id */
	struct ucm_id *id;
	void *context;
	struct sockaddr_storage addr;	/* as the caller gave it */
	uint32_t handle;
};

int rdmamsg__ucm_join_multicast(struct rdma_cm_id *id,
				struct rdma_cm_join_mc_attr_ex *attr,
				void *context);
int rdmamsg__ucm_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
void rdmamsg__ucm_forget_groups(struct ucm_id *id);

/* ucm_device.c: the device with this index and GUID. -ENODEV. */
int rdmamsg__ucm_find_device(uint32_t index, __be64 guid,
			     struct id_device *ret);

#endif
