/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of a DC initiator: rdma-core, man/mlx5dv_dci_stream_id_reset.3. An
 * error of a request puts only its stream into error. The queue pair goes into
 * error when as many different streams are in error as its creator has said.
 */
#ifndef SOFT_VERBS_STREAM_H
#define SOFT_VERBS_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/verbs/qp.h"

/* Logarithms of what mlx5dv_create_qp() takes at most. */
#define SOFT_LOG_STREAMS	6
#define SOFT_LOG_ERRORED	6

struct soft_streams {
	uint16_t now;			/* of the requests under way */
	uint16_t count, max;		/* in error; with max, the queue pair */
	uint16_t errored[];		/* numbers of the streams in error */
};

/* A request without an address belongs to stream 0. */
static inline uint16_t soft_stream_of(const struct soft_swqe *wqe)
{
	return wqe->ah ? wqe->stream : 0;
}

/* Returns NULL if there is no memory. free() ends the streams. */
struct soft_streams *soft_streams_new(unsigned int log_errored);
bool soft_stream_is_errored(const struct soft_streams *s, uint16_t stream);
/* Puts a stream into error. Returns true if the queue pair goes on. L */
bool soft_stream_fail(struct soft_streams *s, uint16_t stream);
/* Returns false if the stream is not in error. L */
bool soft_stream_reset(struct soft_streams *s, uint16_t stream);

#endif
