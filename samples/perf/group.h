/* SPDX-License-Identifier: BSD-2-Clause */
/* group-lat: the memory that its processes share. */
#ifndef RDMAMSG_SAMPLES_PERF_GROUP_H
#define RDMAMSG_SAMPLES_PERF_GROUP_H

#include "perf.h"

#include <stdatomic.h>

/* in a sample: the message was lost and repaired */
#define GROUP_REPAIRED	(UINT64_C(1) << 63)

struct group_result {
	uint64_t delivered;
	uint64_t overtaken;	/* of these, without an order: by later ones */
	uint64_t gaps, told;	/* calls of on_gap, and messages in them */
	uint64_t wrong;		/* out of order, twice, or of another size */
	uint64_t repeated, asked;	/* as in struct rdmamsg_group_stats */
};

struct group_shared {
	uint32_t size, count, warm;
	_Atomic bool go;
	_Atomic uint32_t joined, heard, done;	/* processes, subscribers */
	/* 32 bits, for processors that have no atomics of 64 */
	_Atomic uint32_t first;	/* measured message; UINT32_MAX: not yet */
	_Atomic uint32_t published;
	/* of the publisher, before it has joined or after it has ended */
	uint64_t id;
	uint64_t late;		/* ns: the longest behind the schedule */
	uint64_t took;		/* ns */
	char device[PERF_WORD_MAX];
	bool soft;
	struct group_result results[PERF_SUBSCRIBERS_MAX];
	uint64_t samples[];	/* ns; 'count' for each subscriber */
};

/* A side of the group, in a process of its own. Returns an exit status. */
int group_publisher(const struct perf_options *o, struct group_shared *shared);
int group_subscriber(const struct perf_options *o, struct group_shared *shared,
		     uint32_t which);

#endif
