/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a context that knows its endpoints. */
#ifndef RDMAMSG_LIB_SESSIONS_H
#define RDMAMSG_LIB_SESSIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

#include "base/handles.h"
#include "base/list.h"
#include "device/verbs_api.h"
#include "wire/proto.h"

struct sessions {
	struct list dirty;		/* eps with work before sleeping */
	uint64_t rounds;		/* calls that had some of it to do */

	struct handles table;		/* eps, by the index of their key */
	uint32_t generation;		/* of keys */
	struct list eps;
	int ep_count;
	struct list dead;		/* eps to free outside callbacks */
	struct list held;		/* closed ones that the program holds */
	struct list lents;		/* struct lent, of endpoints gone too */
	struct rdmamsg_counters st;	/* of endpoints that are gone */
	struct rdmamsg_reason wait_reason;
	uint8_t wait_data[PROTO_HELLO_DATA_MAX];	/* its data */

	struct list listeners;
	struct list requests;
	/* of the RDMA devices, and of the soft HCA */
	struct cm_channel {
		const struct verbs_api *v;	/* NULL until first used */
		_Atomic(struct rdma_event_channel *) ch;
	} cm[TABLES];
	pthread_mutex_t cm_lock;	/* of opening them, of ids that come */
	uid_t euid;
	gid_t egid;
};

#endif
