/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a context that lanes share. */
#ifndef RDMAMSG_LIB_LANES_H
#define RDMAMSG_LIB_LANES_H

#include "base/handles.h"
#include "base/list.h"
#include "lane/batch.h"

#define SRQ_PARTS	128	/* per context */

struct lanes {
	struct list srq_list;		/* struct rdmamsg_srq */
	struct rdmamsg_srq *srq;	/* for endpoints without another one */
	struct handles srqs;		/* struct srq, by the index in wr_id */
	/*
	 * The sessions set it. q has failed, so all that use it must end. err
	 * is -errno.
	 */
	void (*srq_failed)(struct srq *q, int err, const char *what);
	struct tx_batch tx;
};

#endif
