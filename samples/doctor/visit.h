/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-doctor: the state of the steps to a peer. */
#ifndef RDMAMSG_SAMPLES_DOCTOR_VISIT_H
#define RDMAMSG_SAMPLES_DOCTOR_VISIT_H

#include "doctor.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

struct rdmamsg;
struct rdmamsg_ep;

struct visit {
	const struct facts *facts;
	const char *target;
	char host[256], service[32];
	char text[INET6_ADDRSTRLEN];	/* the address of the host */
	struct sockaddr_storage to, from;
	socklen_t to_len;
	bool here;			/* the target is this host */
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct used own, theirs;
};

/*
 * route.c. A step adds a finding, and returns false if the next steps have no
 * chance.
 */
bool step_resolve(struct visit *v);
bool step_route(struct visit *v);

#endif
