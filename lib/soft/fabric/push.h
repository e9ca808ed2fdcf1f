/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing a record into the ring of a wire. All L. */
#ifndef SOFT_FABRIC_PUSH_H
#define SOFT_FABRIC_PUSH_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/wire.h"

/* Returns room for a record and its payload, or NULL. */
static inline struct soft_rec *soft_rec_new(struct soft_dev *dev,
					    struct soft_wire *w, size_t payload)
{
	size_t len = sizeof(struct soft_rec) + payload;
	struct soft_rec *rec = soft_ring_reserve(&w->tx, len);

	if (likely(rec))
		return rec;
	/* the ring may be full of quiet records, so ring the doorbell */
	w->dirty = SOFT_NEWS;
	dev->bells_due = true;
	if (dev->covered)
		return NULL;
	/* pairs with the fence in soft_bells() */
	atomic_store_explicit(&w->tx.shm->full, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return soft_ring_reserve(&w->tx, len);
}

static inline void soft_rec_commit(struct soft_dev *dev, struct soft_wire *w,
				   size_t payload)
{
	soft_ring_commit(&w->tx, sizeof(struct soft_rec) + payload);
	w->dirty = SOFT_NEWS;
	dev->bells_due = true;
}

/*
 * Commits a record that needs no doorbell. The peer finds it with the next
 * record.
 */
static inline void soft_rec_commit_quiet(struct soft_dev *dev,
					 struct soft_wire *w)
{
	soft_ring_commit(&w->tx, sizeof(struct soft_rec));
	w->dirty = max(w->dirty, SOFT_QUIET);
	dev->bells_due = true;
}

#endif
