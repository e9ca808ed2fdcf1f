/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of a DC initiator. All L. */
#ifndef SOFT_ENGINE_STREAM_H
#define SOFT_ENGINE_STREAM_H

#include <stdbool.h>

struct soft_dev;
struct soft_qp;
struct soft_swqe;

/* The gate of an initiator decides so about the request at sq_next. */
enum soft_pass {
	SOFT_PUSHES,
	SOFT_WAITS,			/* the engine tries again later */
	SOFT_FLUSHED,			/* look at the next request */
};

/* For an initiator with streams. */
enum soft_pass soft_stream_enter(struct soft_dev *dev, struct soft_qp *qp,
				 const struct soft_swqe *wqe);
/*
 * A request has failed, and all requests before it are complete. Returns true
 * if the queue pair goes on, which then pushes the requests of other streams.
 */
bool soft_stream_survives(struct soft_dev *dev, struct soft_qp *qp,
			  const struct soft_swqe *failed);

#endif
