/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The budget of each asker: datagrams that it is sent again. An address gets
 * QUOTA_TIMES of what it can have received, which is what was published since
 * it has asked first and shortly before, and QUOTA_LEAST a second in any case.
 * So a request with a forged source address brings little to that address. The
 * functions do no I/O and read no clock.
 */
#ifndef RDMAMSG_LIB_QUOTA_H
#define RDMAMSG_LIB_QUOTA_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "group/carrier.h"

#define QUOTA_TIMES	4u
#define QUOTA_LEAST	50u		/* a second, and at first */
#define QUOTA_ASKERS	256u		/* addresses with their own budget */
#define QUOTA_IDLE_MS	1000u		/* then another one may take the place */

struct asker {
	union ibv_gid gid;		/* zeros: slid instead */
	uint16_t slid;
	uint32_t left;
	uint64_t when;			/* ms, when 'left' was computed */
	uint64_t published;		/* at that time */
};

struct quota {
	struct asker all;		/* of what is sent to the group */
	struct asker rest;		/* of addresses without a place */
	struct asker at[QUOTA_ASKERS];
	uint32_t count;
};

/* Datagrams of the publisher that repeat nothing. */
struct quota_sent {
	uint64_t now;			/* ms */
	uint64_t published;		/* ever */
	uint64_t recent;		/* of these, shortly before */
	uint64_t kept;			/* of these, that can be repeated */
};

/* Returns the asker at this address, with what it may get now. */
struct asker *rdmamsg__quota_of(struct quota *of,
				 const struct carrier_peer *by,
				 const struct quota_sent *sent);
/* Grants an asker that has proved its address so many more. */
void rdmamsg__quota_grant(struct asker *a, uint64_t more,
			  const struct quota_sent *sent);
/* Returns all members together. */
struct asker *rdmamsg__quota_of_all(struct quota *of,
				     const struct quota_sent *sent);

#endif
