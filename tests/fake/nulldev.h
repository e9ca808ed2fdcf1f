/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that does nothing but copy, for one process and one thread: both
 * ends of every connection are here. It stands behind the seam, connection
 * management included, so the whole public API works on it; any address and
 * any port lead to it.
 *
 * The device never checks bounds, times out or loses anything. A send that
 * finds no receive fails with RNR_RETRY_EXC_ERR at once.
 */
#ifndef RDMAMSG_TESTS_FAKE_NULLDEV_H
#define RDMAMSG_TESTS_FAKE_NULLDEV_H

#include <stdbool.h>

#include "device/verbs_api.h"

#define NULLDEV_NAME	"null0"

/* A test may change its transport_type. */
extern struct ibv_device nulldev_device;

/* Assign its address to rdmamsg__verbs before opening the first context. */
extern const struct verbs_api nulldev_verbs;

/* Raises a device removal event on every id, and does nothing else. */
void nulldev_remove(void);

struct nulldev_counts {
	unsigned long sends;		/* requests */
	unsigned long doorbells;	/* ibv_post_send() */
	unsigned long recvs;
	unsigned long recv_posts;	/* ibv_post_recv() */
	unsigned long polls;
	unsigned long empty_polls;
	unsigned long arms;
	unsigned long events;		/* completion events raised */
	/* objects that exist, to find leaks; threads of the library end some */
	_Atomic long qps, cqs, mrs, pds, channels, ids, contexts;
};

extern struct nulldev_counts nulldev_counts;

/*
 * While the device is cut, a posted request neither completes nor fails.  The
 * end of the cut carries all of them out.  A queue pair that is set to error
 * flushes them.
 */
void nulldev_cut(bool on);
/*
 * So many held requests of a queue pair complete in spite of the cut, like those
 * that TCP has taken on iWARP. Reads never do. 0 in the beginning.
 */
extern uint32_t nulldev_takes;
/* Carries out the n oldest requests of each queue pair, despite the cut. */
void nulldev_pass(uint32_t n);

/*
 * Attributes that the device reports. Set them before opening the first
 * context.
 */
extern uint32_t nulldev_vendor;
extern enum ibv_port_state nulldev_port;
/* The attributes of the last step to RTS. */
extern struct ibv_qp_attr nulldev_rts;

#endif
