/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids of the connection manager and their events, and the operations of
 * cm/rdma/connector.c, which connector.h describes.
 */
#ifndef RDMAMSG_CM_RDMA_CM_H
#define RDMAMSG_CM_RDMA_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "device/verbs_api.h"
#include "session/ep.h"
#include "wire/proto.h"

struct addrinfo;
struct cm_channel;
struct connector;
struct listen_id;
struct listen_ids;
struct rdmamsg_listener;
struct rdmamsg_request;

extern const struct connector rdmamsg__by_cm;

/* A CM event, copied before it was acknowledged. */
struct cm_event {
	const struct verbs_api *v;
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rdma_conn_param conn;	/* private_data points to data */
	struct rdma_ud_param ud;	/* in place of it, for a group */
	uint8_t data[256];
};

/* event.c */
int rdmamsg__cm_open(struct rdmamsg *ctx, const struct verbs_api *v,
		     struct rdma_event_channel **ret);
void rdmamsg__cm_close(struct rdmamsg *ctx);
/* Moves an id and its events to the channel of ctx, from any thread. */
int rdmamsg__cm_migrate(struct rdmamsg *ctx, const struct verbs_api *v,
			struct rdma_cm_id *id);
/* Most events of a channel in a row. It stays readable for the rest. */
#define EVENTS_MAX	64

int rdmamsg__cm_process(struct rdmamsg *ctx, struct cm_channel *cm);
/* Returns false if the channel has no event. */
bool rdmamsg__cm_take_event(const struct verbs_api *v,
			    struct rdma_event_channel *ch,
			    struct cm_event *ret);
/* A channel that no loop watches. */
int rdmamsg__cm_channel_new(const struct verbs_api *v,
			    struct rdma_event_channel **ret);
int rdmamsg__cm_id_at(struct rdmamsg *ctx, const struct verbs_api *v,
		      struct rdma_event_channel *ch, struct cm_owner *owner,
		      enum rdma_port_space ps, struct rdma_cm_id **ret);
int rdmamsg__cm_id_new(struct rdmamsg *ctx, const struct verbs_api *v,
		       struct cm_owner *owner, enum rdma_port_space ps,
		       struct rdma_cm_id **ret);
void rdmamsg__cm_id_free(const struct verbs_api *v, struct rdma_cm_id *id);

/* ep_event.c: of struct cm_owner */
void rdmamsg__ep_cm_event(struct rdmamsg *ctx, struct cm_owner *owner,
			  const struct cm_event *ev);

/* rdma_connect() has returned with ret, in the thread of call.c or here. */
void rdmamsg__cm_connect_returned(struct rdmamsg_ep *ep, int ret);

/* call.c */
/*
 * Calls rdma_connect() in a thread. Then rdmamsg__cm_connect_returned() follows,
 * unless the endpoint abandons the call.
 */
int rdmamsg__cm_call(struct rdmamsg_ep *ep,
		     const struct rdma_conn_param *param);
/*
 * The endpoint gives up. If the kernel may wait for the peer, a thread takes the
 * id and the queue pair. Otherwise this function has no effect.
 */
void rdmamsg__cm_abandon(struct rdmamsg_ep *ep);

/* connector.c */
/* Takes the P_Key of ep->opts.path. -EINVAL: the path says more. */
int rdmamsg__cm_init(struct rdmamsg_ep *ep);
/* -EINVAL: no port can have this P_Key. */
int rdmamsg__cm_pkey_valid(uint32_t pkey);
/* -EHOSTUNREACH: id has its way through another partition; 0: any will do. */
int rdmamsg__cm_check_pkey(uint16_t pkey, const struct rdma_cm_id *id);

/* dial.c */
/* rdmamsg__fail_verbs(), or -EPERM if the credentials have changed. */
int rdmamsg__cm_fail(const struct rdmamsg *ctx, int err, const char *what);
int rdmamsg__cm_dial(struct rdmamsg_ep *ep);
void rdmamsg__cm_resolved(struct rdmamsg_ep *ep);
int rdmamsg__cm_redial(struct rdmamsg_ep *ep);
/* Dials the next address. If there is none, ends with the reason noted. */
void rdmamsg__cm_next(struct rdmamsg_ep *ep);
int rdmamsg__cm_ms(const struct rdmamsg_ep *ep);	/* time for one step */

/* accept.c */
/* A request has arrived. Takes over ev->id. */
void rdmamsg__request_cm(struct rdmamsg_listener *l, const struct cm_event *ev);
int rdmamsg__cm_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req);
const char *rdmamsg__cm_request_device(const struct rdmamsg_request *req,
				       char room[static 64]);
void rdmamsg__cm_reject(struct rdmamsg_request *req, enum proto_reject code,
			const void *data, size_t len);
int rdmamsg__cm_move(struct rdmamsg_request *req, struct rdmamsg *to);
void rdmamsg__cm_drop(struct rdmamsg_request *req);

/* listen.c */
int rdmamsg__cm_listen(struct rdmamsg_listener *l, struct addrinfo *ai);
void rdmamsg__cm_unlisten(struct rdmamsg_listener *l);
const char *rdmamsg__cm_over(const struct rdmamsg_listener *l);
/*
 * Listens with the ids of l, or of its shared port, under the lock of the
 * latter. Sets l->port, and the port of *ai.
 */
int rdmamsg__cm_listen_here(struct rdmamsg_listener *l, struct addrinfo *ai);
/* Notes the address of an id that listens for l. */
void rdmamsg__cm_note_place(struct rdmamsg_listener *l,
			    const struct listen_id *li);
void rdmamsg__cm_lose_id(struct listen_ids *ids, const struct rdma_cm_id *id);
void rdmamsg__cm_free_ids(struct listen_ids *ids);
/* The address of l is lost: tries to listen again after a while. */
void rdmamsg__cm_listen_later(struct rdmamsg_listener *l);

/* join.c */
int rdmamsg__cm_join(struct rdmamsg_listener *l, struct addrinfo *ai);
void rdmamsg__cm_leave(struct rdmamsg_listener *l);
/* The channel of l's shared port. The caller has the lock. */
int rdmamsg__cm_port_channel(struct rdmamsg_listener *l,
			     const struct verbs_api *v,
			     struct rdma_event_channel **ret);

/* reach.c */
/* Adds the addresses of the context's listeners, for a peer of ep. */
void rdmamsg__cm_addresses(const struct rdmamsg_ep *ep,
			   struct proto_addresses *ret);

#endif
