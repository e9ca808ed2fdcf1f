/* SPDX-License-Identifier: BSD-2-Clause */
/* DC: initiators choose targets, and targets serve initiators. All L. */
#ifndef SOFT_ENGINE_DC_H
#define SOFT_ENGINE_DC_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/fabric/rec.h"

struct soft_dev;
struct soft_qp;
struct soft_swqe;
struct soft_wire;

static inline bool soft_is_request(uint8_t op)
{
	return (op >= SOFT_SEND && op <= SOFT_FAA) || op == SOFT_MASKED;
}

/*
 * Aims an initiator at the target of a request. Returns false if the request
 * cannot be pushed yet. Then the engine tries again later.
 */
bool soft_dci_aim(struct soft_dev *dev, struct soft_qp *qp,
		  const struct soft_swqe *wqe);
/* Ends the session with the target, if there is one. */
void soft_dci_leave(struct soft_dev *dev, struct soft_qp *qp);
/*
 * A record has arrived for a target. Returns false if it is a request for which
 * the target has no responder.
 */
bool soft_dct_arrives(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_wire *w, const struct soft_rec *rec,
		      const void *payload);
/* A wire died, and so did the initiators at its other end. */
void soft_dct_wire_down(struct soft_dev *dev, const struct soft_wire *w);
/* An initiator leaves its target, or a target ends. */
void soft_dc_over(struct soft_dev *dev, struct soft_qp *qp);

#endif
