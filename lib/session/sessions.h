/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a context for endpoints, listeners and requests. */
#ifndef RDMAMSG_LIB_SESSIONS_H
#define RDMAMSG_LIB_SESSIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include <rdmamsg/rdmamsg.h>

#include "base/handles.h"
#include "base/list.h"
#include "device/verbs_api.h"
#include "wire/proto.h"

struct op_deadline;
struct secret;

struct sessions {
	struct list dirty;		/* eps with work before sleeping */
	uint64_t rounds;		/* calls that found such work */
	uint64_t rooms_round;		/* of 'rounds', of the next */
	uint32_t rooms;			/* made for one-sided: room.c */

	struct handles table;		/* eps, by the index of their key */
	uint32_t generation;		/* of keys */
	struct list eps;
	_Atomic int ep_count;		/* without carriers */
	struct list dead;		/* eps to free outside callbacks */
	struct list held;		/* closed eps that the program holds */
	struct list lents;		/* struct lent, also of freed eps */
	struct rdmamsg_stats st;	/* sums of closed eps */
	struct rdmamsg_reason wait_reason;
	uint8_t wait_data[PROTO_HELLO_DATA_MAX];	/* wait_reason.data */

	struct op_deadline *deadlines;	/* not in use, see deadline.c */

	struct list listeners;
	struct list requests;
	/* channels of the RDMA devices and of the soft HCA */
	struct cm_channel {
		const struct verbs_api *v;	/* NULL until first used */
		_Atomic(struct rdma_event_channel *) ch;
	} cm[TABLES];
	pthread_mutex_t cm_lock;	/* for opening cm[], for moved ids */
	struct secret *secret;		/* the pre-shared key, or NULL */
	uid_t euid;
	gid_t egid;
};

#endif
