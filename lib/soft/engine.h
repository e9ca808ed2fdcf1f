/* SPDX-License-Identifier: BSD-2-Clause */
/* Progress: requests pushed, requests answered. */
#ifndef SOFT_ENGINE_H
#define SOFT_ENGINE_H

/* Takes what has arrived, pushes what waits. True if there was anything. L */
bool soft_progress(struct soft_dev *dev);
/* Something of it is to be pushed when there is room. L */
void soft_qp_pend(struct soft_dev *dev, struct soft_qp *qp);
/* A request that has no queue pair here: the one who asked is told. L */
void soft_wire_lost(struct soft_wire *w, const struct soft_rec *rec);

/* Room for a record and its payload in the ring, or NULL. L */
static inline struct soft_rec *soft_rec_new(struct soft_dev *dev,
					    struct soft_wire *w, size_t payload)
{
	size_t len = sizeof(struct soft_rec) + payload;
	struct soft_rec *rec = soft_ring_reserve(&w->tx, len);

	if (likely(rec))
		return rec;
	/* it may be full of what the other end was not woken for */
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

/* Of a record that nobody waits for: it is found with the next one. */
static inline void soft_rec_commit_quiet(struct soft_dev *dev,
					 struct soft_wire *w)
{
	soft_ring_commit(&w->tx, sizeof(struct soft_rec));
	w->dirty = max(w->dirty, SOFT_QUIET);
	dev->bells_due = true;
}

/* req.c, req_answer.c: the end that asks */
void soft_req_push(struct soft_dev *dev, struct soft_qp *qp);
void soft_req_answer(struct soft_dev *dev, struct soft_qp *qp,
		     const struct soft_rec *rec, const void *payload);
void soft_req_wire_down(struct soft_dev *dev, struct soft_qp *qp);
void soft_req_timer(struct soft_dev *dev, struct soft_timer *t);
/* Over another path: with all retries, and at once. */
void soft_req_anew(struct soft_qp *qp);

/* resp.c: the end that is asked */
void soft_resp_request(struct soft_dev *dev, struct soft_qp *qp,
		       const struct soft_rec *rec, const void *payload);
/* A request that is none: both ends come to an error. L */
void soft_refuse(struct soft_dev *dev, struct soft_qp *qp,
		 enum soft_nak code, enum ibv_event_type event);
/* The next receive, or NULL. L */
struct soft_rwqe *soft_receive(struct soft_qp *qp);
/* resp_push.c: its answers; false: there are more than the ring has room for */
bool soft_resp_push(struct soft_dev *dev, struct soft_qp *qp);

/*
 * What becomes of a work request at the moment it is first pushed: the one
 * place where faults of the fabric act (drop, delay, black hole, port
 * down), on the port of the path in use.
 */
enum soft_fate { SOFT_PASS, SOFT_LOSE, SOFT_DELAY, SOFT_DUPLICATE,
		 SOFT_REORDER };
enum soft_fate soft_fate_drawn(struct soft_dev *dev, struct soft_qp *qp);

/* DUPLICATE and REORDER: only where nothing is acknowledged. L */
static inline enum soft_fate soft_fate(struct soft_dev *dev, struct soft_qp *qp)
{
	return likely(!dev->faulty) ? SOFT_PASS : soft_fate_drawn(dev, qp);
}

#endif
