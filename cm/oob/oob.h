/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting without the CM: records, paths, the exchange over TCP. */
#ifndef RDMAMSG_CM_OOB_H
#define RDMAMSG_CM_OOB_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#include "base/list.h"
#include "base/timer.h"
#include "base/watch.h"
#include "device/path.h"
#include "session/door.h"
#include "wire/proto.h"

/* A TCP connection for the exchange of records. */
struct oob_conn {
	struct watch watch;
	struct list node;		/* of the listener */
	struct rdmamsg *ctx;
	struct rdmamsg_listener *l;	/* no request yet */
	struct rdmamsg_ep *ep;
	struct timer timer;		/* until there is a request */
	struct visitor visitor;		/* until there is a request */
	bool connecting;
	bool have_record;
	char *device;			/* 'device' of the listener's options */
	struct sockaddr_storage local, peer;
	struct proto_oob record;	/* of the peer */
	size_t in_len, out_len, out_done;
	uint8_t in[PROTO_OOB_MAX], out[PROTO_OOB_MAX];
};

/* The listening socket of a listener. */
struct oob_listen {
	struct watch watch;
	struct rdmamsg_listener *l;
	struct timer again;		/* out of descriptors: pause */
	char *device;
	struct list conns;
	uint32_t count;
};

struct connector;
struct rdmamsg_request;
extern const struct connector rdmamsg__by_record;

/* exchange.c */
int rdmamsg__oob_init(struct rdmamsg_ep *ep);
/* Creates queue pair and record of the side that makes the offer. */
int rdmamsg__oob_begin(struct rdmamsg_ep *ep, const struct sockaddr *local);
/* Creates those of the side that answers, and goes to RTS. */
int rdmamsg__oob_reply(struct rdmamsg_ep *ep, const struct proto_oob *offer,
		       const struct sockaddr *local);
/* Takes the answer. Also returns 0 if the answer has ended the endpoint. */
int rdmamsg__oob_take(struct rdmamsg_ep *ep, const struct proto_oob *answer);
/* Fills the attributes of a step. tos: RDMAMSG_NONE or a traffic class. */
void rdmamsg__oob_attr(const struct oob *oob, uint32_t tos,
		       struct ibv_qp_attr *attr, int *mask);
void rdmamsg__oob_address(const struct oob *oob, uint32_t tos,
			  struct ibv_ah_attr *ah);
void rdmamsg__oob_psn(struct oob *oob);
void rdmamsg__oob_reject_fill(struct proto_oob *r,
			      const struct proto_oob *offer,
			      enum proto_reject code, uint32_t limit,
			      const void *data, size_t len);
int rdmamsg__oob_fail_record(int err);
int rdmamsg__oob_give(const struct proto_oob *r, void *buf, size_t size);

/* oob_tcp.c: a connection of either side */
struct oob_conn *rdmamsg__oob_conn_new(struct rdmamsg *ctx, int fd);
void rdmamsg__oob_conn_free(struct oob_conn *conn);
void rdmamsg__oob_leave(struct oob_conn *c);	/* its listener, if any */
void rdmamsg__oob_note_addrs(struct oob_conn *c);
/* Sends the rest of the record. Returns 1 if all is sent, 0 if not, -errno. */
int rdmamsg__oob_flush(struct oob_conn *c);
int rdmamsg__oob_send(struct oob_conn *c, const struct proto_oob *r);
/* The exchange failed with err. Ends the endpoint. */
void rdmamsg__oob_gone(struct rdmamsg_ep *ep, int err);
void rdmamsg__oob_connected(struct rdmamsg_ep *ep);
void rdmamsg__oob_stop(struct rdmamsg_ep *ep);

/* oob_dial.c */
int rdmamsg__oob_dial(struct rdmamsg_ep *ep);
/* Dials the address that has answered. */
int rdmamsg__oob_dial_again(struct rdmamsg_ep *ep);
void rdmamsg__oob_resolved(struct rdmamsg_ep *ep);
void rdmamsg__oob_dialled(struct oob_conn *c);	/* or failed: SO_ERROR */
void rdmamsg__oob_answered(struct oob_conn *c);

/* oob_listen.c */
void rdmamsg__oob_offered(struct oob_conn *c);
int rdmamsg__oob_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req);
/* 'limit' goes with PROTO_REJECT_LIMIT. */
void rdmamsg__oob_reject(struct oob_conn *conn, enum proto_reject code,
			 uint32_t limit, const void *data, size_t len);
int rdmamsg__oob_listen_addr(struct rdmamsg_listener *l, struct addrinfo *ai);
void rdmamsg__oob_unlisten(struct rdmamsg_listener *l);

#endif
