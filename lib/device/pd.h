/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains that the program creates. On each device a domain has its
 * own struct dev, with its own buffers, registrations, shared receive queues
 * and completion queues. So the objects of two domains never mix.
 */
#ifndef RDMAMSG_LIB_PD_H
#define RDMAMSG_LIB_PD_H

#include <stdint.h>

#include "base/list.h"

struct rdmamsg_pd {
	struct list node;		/* in ctx->devices->pd_list */
	struct rdmamsg *ctx;
	uint32_t refs;			/* endpoints, listeners and others */
	uint32_t regions;
	struct dev *dev;		/* of the options, held; or NULL */
};

/*
 * Checks the domain in an option. NULL means the device's own domain, and is
 * always valid.
 */
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
