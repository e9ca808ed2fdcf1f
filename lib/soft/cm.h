/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management, with the commands of the kernel's rdma_cm device for
 * an interface (<rdma/rdma_user_cm.h>): a thin shim makes the asynchronous
 * rdma_*() calls of it, and what answers the real librdmacm's write() needs
 * nothing else. Every command returns 0 or -errno and takes the device's lock
 * by itself. An answer goes to resp; the response pointers in the commands are
 * not looked at.
 *
 *   active:   IDLE -> BOUND -> ADDR -> ROUTE -> LOOKUP -> REQ_SENT -> REP_RCVD
 *   passive:  IDLE -> BOUND -> LISTEN;  REQ_RCVD -> REP_SENT
 *   both:     -> CONNECTED -> DREQ_SENT | DREQ_RCVD -> OVER
 *   datagrams (SIDR): a REQ and its REP or REJ, and then nothing any more
 */
#ifndef SOFT_CM_H
#define SOFT_CM_H

#include "priv.h"
#include "ucm_abi.h"

#include <netinet/in.h>

/* What an open of the device is: a queue of events behind a descriptor. */
struct soft_cm_file {
	struct soft_dev *dev;
	struct list node;		/* dev->cm_files */
	int fd;				/* eventfd: how many events there are */
	struct list events;
};

enum soft_cm_state {
	SOFT_CM_IDLE, SOFT_CM_BOUND, SOFT_CM_ADDR, SOFT_CM_ROUTE,
	SOFT_CM_LISTEN, SOFT_CM_LOOKUP, SOFT_CM_REQ_SENT, SOFT_CM_REP_RCVD,
	SOFT_CM_REQ_RCVD, SOFT_CM_REP_SENT, SOFT_CM_CONNECTED,
	SOFT_CM_DREQ_SENT, SOFT_CM_DREQ_RCVD, SOFT_CM_OVER,
};

struct soft_cm_id {
	struct list node;		/* dev->cm_ids */
	struct soft_cm_file *file;
	uint32_t handle;
	uint64_t uid;			/* what its user calls it */
	uint16_t ps;
	uint8_t qp_type;
	enum soft_cm_state state;
	struct sockaddr_storage src, dst;
	bool afonly;
	uint8_t ack_timeout;		/* 0: the default */

	/* of a listener: the name, in IPv6 perhaps one for IPv4 as well */
	struct soft_watch sock[2];
	uint32_t backlog, waiting;	/* requests nobody has accepted yet */

	/* of a connection */
	struct soft_watch lookup;
	bool wildcard;			/* the lookup is at its second name */
	uint32_t tries;
	struct soft_wire *wire;
	uint32_t peer;			/* its id there */
	uint32_t listener;		/* our handle, while it waits there */
	struct rdma_ucm_conn_param param; /* as given to connect or accept */
	uint32_t psn, peer_psn, peer_qpn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	struct soft_timer timer;
	uint32_t events_reported;
};

struct soft_cm_event {
	struct list node;		/* file->events */
	uint32_t owner;			/* in whose events_reported it counts */
	uint32_t child;			/* CONNECT_REQUEST: the new id */
	uint32_t mc;			/* of a group: counts for it, too */
	struct rdma_ucm_event_resp resp;
};

/* A group that an id has joined. */
struct soft_cm_mc {
	struct list node;		/* dev->cm_mcs */
	struct soft_cm_id *id;
	uint32_t handle;		/* these have numbers of their own */
	uint64_t uid;
	uint8_t mgid[16];
	uint32_t events_reported;
};

/* A CM message: type, ids and node are in the header. */
struct soft_cm_msg {
	struct soft_msg hdr;
	uint16_t ps;
	uint8_t reason;			/* of a REJ */
	uint8_t pad;
	uint32_t psn;
	struct sockaddr_in6 src, dst;	/* or sockaddr_in */
	struct rdma_ucm_conn_param param;
};
_Static_assert(sizeof(struct soft_cm_msg) <= SOFT_MSG_MAX, "one datagram");

/* IB reject reasons, enum ib_cm_rej_reason in Linux include/rdma/ib_cm.h */
enum { SOFT_REJ_INVALID_SERVICE = 8, SOFT_REJ_CONSUMER = 28 };
/* enum ib_cm_sidr_status, likewise */
enum { SOFT_SIDR_UNSUPPORTED = 1, SOFT_SIDR_REJECT = 2 };

/* Bytes of private data; of requests 36 less, those of the CMA header. */
enum { SOFT_PRIVATE_REQ = 92 - 36, SOFT_PRIVATE_REP = 196,
       SOFT_PRIVATE_REJ = 148, SOFT_PRIVATE_SIDR_REQ = 216 - 36,
       SOFT_PRIVATE_SIDR_REP = 136 };

/* ---- commands --------------------------------------------------------- */

int soft_cm_open(struct soft_cm_file **ret);
void soft_cm_close(struct soft_cm_file *file);
int soft_cm_create_id(struct soft_cm_file *file,
		      const struct rdma_ucm_create_id *cmd,
		      struct rdma_ucm_create_id_resp *resp);
int soft_cm_destroy_id(struct soft_cm_file *file,
		       const struct rdma_ucm_destroy_id *cmd,
		       struct rdma_ucm_destroy_id_resp *resp);
int soft_cm_migrate_id(struct soft_cm_file *from, struct soft_cm_file *to,
		       const struct rdma_ucm_migrate_id *cmd,
		       struct rdma_ucm_migrate_resp *resp);
int soft_cm_bind(struct soft_cm_file *file, const struct rdma_ucm_bind *cmd);
int soft_cm_resolve_addr(struct soft_cm_file *file,
			 const struct rdma_ucm_resolve_addr *cmd);
int soft_cm_resolve_route(struct soft_cm_file *file,
			  const struct rdma_ucm_resolve_route *cmd);
int soft_cm_query_addr(struct soft_cm_file *file,
		       const struct rdma_ucm_query *cmd,
		       struct rdma_ucm_query_addr_resp *resp);
/* cm_query.c */
int soft_cm_query_gid(struct soft_cm_file *file,
		      const struct rdma_ucm_query *cmd,
		      struct rdma_ucm_query_addr_resp *resp);
int soft_cm_query_path(struct soft_cm_file *file,
		       const struct rdma_ucm_query *cmd,
		       struct rdma_ucm_query_path_resp *resp, size_t size);
int soft_cm_query_route(struct soft_cm_file *file, uint32_t id,
			struct rdma_ucm_query_route_resp *resp);
int soft_cm_notify(struct soft_cm_file *file,
		   const struct rdma_ucm_notify *cmd);
int soft_cm_listen(struct soft_cm_file *file,
		   const struct rdma_ucm_listen *cmd);
int soft_cm_connect(struct soft_cm_file *file,
		    const struct rdma_ucm_connect *cmd);
int soft_cm_accept(struct soft_cm_file *file,
		   const struct rdma_ucm_accept *cmd);
int soft_cm_reject(struct soft_cm_file *file,
		   const struct rdma_ucm_reject *cmd);
int soft_cm_disconnect(struct soft_cm_file *file,
		       const struct rdma_ucm_disconnect *cmd);
int soft_cm_init_qp_attr(struct soft_cm_file *file,
			 const struct rdma_ucm_init_qp_attr *cmd,
			 struct ib_uverbs_qp_attr *resp);
/* The user's queue pair is at work: the RTU. RDMA_USER_CM_CMD_ACCEPT there. */
int soft_cm_establish(struct soft_cm_file *file, uint32_t id);
int soft_cm_set_option(struct soft_cm_file *file,
		       const struct rdma_ucm_set_option *cmd,
		       const void *optval);
int soft_cm_join_mcast(struct soft_cm_file *file,
		       const struct rdma_ucm_join_mcast *cmd,
		       struct rdma_ucm_create_id_resp *resp);
int soft_cm_join_ip_mcast(struct soft_cm_file *file,
			  const struct rdma_ucm_join_ip_mcast *cmd,
			  struct rdma_ucm_create_id_resp *resp);
/* The id in the command is the one that joining has returned. */
int soft_cm_leave_mcast(struct soft_cm_file *file,
			const struct rdma_ucm_destroy_id *cmd,
			struct rdma_ucm_destroy_id_resp *resp);
/* -EAGAIN when there is none. */
int soft_cm_get_event(struct soft_cm_file *file,
		      struct rdma_ucm_event_resp *resp);

/* ---- between its files, all L ----------------------------------------- */

struct soft_cm_id *soft_cm_find(struct soft_dev *dev, uint32_t handle);
struct soft_cm_id *soft_cm_id_of(struct soft_cm_file *file, uint32_t handle);
struct soft_cm_id *soft_cm_id_new(struct soft_cm_file *file);
void soft_cm_id_free(struct soft_cm_id *id);
struct soft_cm_event *soft_cm_event_new(struct soft_cm_id *id, uint32_t type,
					int status);
void soft_cm_event_post(struct soft_cm_id *owner, struct soft_cm_event *ev);
void soft_cm_uncount(struct soft_cm_file *file);
void soft_cm_raise(struct soft_cm_id *id, uint32_t type, int status);
void soft_cm_hang_up(struct soft_cm_id *id);
/* The node that has the listener, or -errno: cm_name.c, cm_conn.c. */
void soft_cm_found(struct soft_cm_id *id, uint32_t node, uint32_t listener);
void soft_cm_not_found(struct soft_cm_id *id, int status);
void soft_cm_later(struct soft_cm_id *id);
void soft_cm_lookup(struct soft_cm_id *id);
void soft_cm_unlisten(struct soft_cm_id *id);
void soft_cm_end_lookup(struct soft_cm_id *id);
bool soft_cm_on_device(const struct soft_cm_id *id);
int soft_cm_copy_addr(struct sockaddr_storage *dst, const void *src,
		      size_t len);
bool soft_cm_is_any(const struct sockaddr_storage *a);
bool soft_cm_is_local(const struct sockaddr_storage *addr);
/* An IPv4 address in IPv6's clothes becomes one: listeners may be either. */
void soft_cm_unmap(struct sockaddr_storage *a);
in_port_t *soft_cm_port_of(struct sockaddr_storage *a);
void soft_cm_new_port(struct soft_cm_id *id);	/* that may be free, to src */
/* cm_conn.c: a message without data to the peer, if there is one */
int soft_cm_send(struct soft_cm_id *id, enum soft_msg_type type,
		 uint8_t reason);
void soft_cm_new_psn(struct soft_cm_id *id);
void soft_cm_over(struct soft_cm_id *id);
/* One request less is waiting at its listener. */
void soft_cm_not_waiting(struct soft_cm_id *id);

static inline size_t soft_cm_request_len(uint8_t qp_type)
{
	return qp_type == IBV_QPT_UD ? SOFT_PRIVATE_SIDR_REQ :
				       SOFT_PRIVATE_REQ;
}

/* Whether messages pass: ids are on port 1. */
static inline bool soft_cm_carried(const struct soft_dev *dev)
{
	return likely(!dev->faulty) || soft_port_carries(dev, 1);
}

/* cm_ud.c */
bool soft_cm_is_ud(const struct soft_cm_id *id);
uint32_t soft_cm_qkey(const struct soft_cm_id *id);
void soft_cm_gid(const struct soft_cm_id *id, bool peer, uint8_t gid[16]);
void soft_cm_ah(const struct soft_cm_id *id, struct ib_uverbs_ah_attr *ah);
void soft_cm_fill_ud(struct soft_cm_event *ev, const struct soft_cm_id *id,
		     const struct soft_cm_msg *m, size_t private_len);
struct soft_cm_mc *soft_cm_mc_find(struct soft_dev *dev, uint32_t handle);
void soft_cm_leave_all(struct soft_cm_id *id);

#endif
