/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of cm/rdma/connector.c, which connector.h describes. */
#ifndef RDMAMSG_CM_RDMA_CM_H
#define RDMAMSG_CM_RDMA_CM_H

#include <stddef.h>

#include <rdmamsg/rdmamsg.h>

#include "wire/proto.h"

struct addrinfo;
struct rdmamsg_listener;
struct rdmamsg_request;

/* connector.c */
int rdmamsg__cm_without_path(struct rdmamsg_ep *ep);

/* dial.c */
int rdmamsg__cm_dial(struct rdmamsg_ep *ep);
void rdmamsg__cm_resolved(struct rdmamsg_ep *ep);
int rdmamsg__cm_redial(struct rdmamsg_ep *ep);
/* Dials the next address. If there is none, ends with the reason noted. */
void rdmamsg__cm_next(struct rdmamsg_ep *ep);
int rdmamsg__cm_ms(const struct rdmamsg_ep *ep);	/* time for one step */

/* accept.c */
int rdmamsg__cm_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req);
void rdmamsg__cm_reject(struct rdmamsg_request *req, enum proto_reject code,
			const void *data, size_t len);
int rdmamsg__cm_move(struct rdmamsg_request *req, struct rdmamsg *to);
void rdmamsg__cm_drop(struct rdmamsg_request *req);

/* listen.c */
int rdmamsg__cm_listen(struct rdmamsg_listener *l, struct addrinfo *ai);
void rdmamsg__cm_unlisten(struct rdmamsg_listener *l);
const char *rdmamsg__cm_over(const struct rdmamsg_listener *l);

#endif
