/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains that a program makes. On each device where one is used
 * it is a struct dev of its own, and so are the buffers, registrations, shared
 * receive queues and completion queues there: nothing of two domains can meet.
 */
#ifndef RDMAMSG_LIB_PD_H
#define RDMAMSG_LIB_PD_H

#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#include "base/list.h"

struct rdmamsg_pd {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	void *user;
	uint32_t refs;			/* endpoints, listeners, queue pairs */
	uint32_t regions;
};

/* That of an option; NULL is the device's own, and always right. */
int rdmamsg__pd_check(const struct rdmamsg *ctx, const struct rdmamsg_pd *pd);
static inline void rdmamsg__pd_hold(struct rdmamsg_pd *pd)
{
	if (pd)
		pd->refs++;
}

static inline void rdmamsg__pd_rele(struct rdmamsg_pd *pd)
{
	if (pd)
		pd->refs--;
}
void rdmamsg__pds_free(struct rdmamsg *ctx);

#endif
