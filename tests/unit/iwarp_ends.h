/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends on the null device as iWARP, some of whose calls a test replaces. */
#ifndef TESTS_UNIT_IWARP_ENDS_H
#define TESTS_UNIT_IWARP_ENDS_H

#include "two_ends.h"
#include "device/verbs_api.h"

#include <infiniband/verbs.h>

#include "../fake/nulldev.h"

#define SIW_VENDOR	0x626d74	/* of the kernel's siw */

static struct verbs_api device;		/* the calls of the null device */

static inline void use_iwarp(uint32_t vendor)
{
	rdmamsg__verbs = &device;
	nulldev_device.transport_type = IBV_TRANSPORT_IWARP;
	nulldev_vendor = vendor;
	clear_ends();
}

static inline int open_both(void)
{
	return rdmamsg_open(&client.ctx, NULL) ||
	       rdmamsg_open(&server.ctx, NULL);
}

static inline void leave_iwarp(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
	nulldev_device.transport_type = IBV_TRANSPORT_IB;
	nulldev_vendor = 1;
}

#endif
