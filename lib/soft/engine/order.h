/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of completions with iWARP. A SEND or WRITE completes when the device
 * has taken its bytes, which tells nothing of the peer; a READ completes when
 * its last byte is there (RFC 5040, 5.5; Linux 6.1, siw_qp_tx.c,
 * siw_qp_sq_process(), and siw_qp_rx.c, siw_rdmap_complete()). So the former
 * pass the latter. Which of them complete early, and which reads are answered
 * late, is drawn by the seed of the device. A request that completes before the
 * peer has answered it has a copy of its payload until then. All L.
 */
#ifndef SOFT_ENGINE_ORDER_H
#define SOFT_ENGINE_ORDER_H

#include <stdbool.h>

struct soft_dev;
struct soft_qp;
struct soft_swqe;

/* The SEND or WRITE before sq_next is pushed: perhaps completes it now. */
void soft_order_pushed(struct soft_dev *dev, struct soft_qp *qp);
/*
 * The request at sq_next is lost, and repeated later. TCP takes it and the
 * requests behind it, as far as its buffer reaches: completes them.
 */
void soft_order_lost(struct soft_dev *dev, struct soft_qp *qp);
/*
 * Returns true if a completed request is in the queue only because of a read
 * before it. It is not repeated: its memory is the program's again.
 */
bool soft_order_has_arrived(const struct soft_qp *qp,
			    const struct soft_swqe *wqe);
/* Completes all answered requests that have not completed. */
void soft_order_answered(struct soft_dev *dev, struct soft_qp *qp);
/* Another read is to be answered: perhaps lets it wait. */
void soft_order_read(struct soft_dev *dev, struct soft_qp *qp);

#endif
