/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends that connect without the connection manager. */
#ifndef RDMAMSG_TESTS_INTEGRATION_OOB_PAIR_H
#define RDMAMSG_TESTS_INTEGRATION_OOB_PAIR_H

#include "common.h"

#include <rdmamsg/oob.h>

void oob_init(struct pair *p);
/* Listens on any port of the address, and accepts as the server. */
void oob_listen(struct pair *p, const char *addr);
void oob_connect(struct pair *p, const char *addr);
void oob_wait_connected(struct pair *p);
/* Sends with every call, in both directions. */
void oob_talk(struct pair *p);

struct oob_record {
	uint8_t bytes[RDMAMSG_OOB_MAX];
	size_t len;
};

void oob_get_record(struct rdmamsg_ep *ep, struct oob_record *r);
void oob_make_offer(struct end *e, struct oob_record *r);

#endif
