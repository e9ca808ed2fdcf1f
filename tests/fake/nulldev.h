/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that does nothing but copy, for one process and one thread: both
 * ends of every connection are here. It stands behind the seam, connection
 * management included, so the whole public API works on it; any address and
 * any port lead to it.
 *
 * What it does not do: check keys, time out, lose anything. A send that finds
 * no receive fails with RNR_RETRY_EXC_ERR at once.
 */
#ifndef RDMAMSG_TESTS_FAKE_NULLDEV_H
#define RDMAMSG_TESTS_FAKE_NULLDEV_H

#include "verbs_api.h"

#define NULLDEV_NAME	"null0"

/* rdmamsg__verbs = &nulldev_verbs, before the first context. */
extern const struct verbs_api nulldev_verbs;

struct nulldev_counts {
	unsigned long sends;		/* requests */
	unsigned long doorbells;	/* ibv_post_send() */
	unsigned long recvs;
	unsigned long recv_posts;	/* ibv_post_recv() */
	unsigned long polls;
	unsigned long empty_polls;
	unsigned long arms;
	unsigned long events;		/* completion events raised */
	/* what there is, to find leaks */
	long qps, cqs, mrs, pds, channels, ids, contexts;
};

extern struct nulldev_counts nulldev_counts;

#endif
