/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting step by step: a waiting request and its outcome. */
#ifndef RDMAMSG_TESTS_INTEGRATION_REQUEST_H
#define RDMAMSG_TESTS_INTEGRATION_REQUEST_H

#include "common.h"

/* Requests that the listener has not answered yet. put_off() adds one. */
extern struct rdmamsg_request *waiting[128];
extern int waiting_count;
void put_off(struct rdmamsg_listener *l, struct rdmamsg_request *req);
/* Begins a pair whose server puts its requests off. */
void listen_put_off(struct pair *p);

void dial(struct end *c, const char *host, const char *service,
	  uint32_t timeout_ms);
/* Expects that the end fails to connect with this reason. error 0: any. */
void expect_end(struct end *c, enum rdmamsg_who who, enum rdmamsg_cause cause,
		int error);
/* Waits until both are connected, sends both ways, and closes. */
void pair_exchange(struct pair *p);

#endif
