/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder: resp.c executes requests, resp_push.c answers. All L. */
#ifndef SOFT_ENGINE_RESP_H
#define SOFT_ENGINE_RESP_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "soft/fabric/rec.h"

struct soft_dev;
struct soft_qp;

void soft_resp_request(struct soft_dev *dev, struct soft_qp *qp,
		       const struct soft_rec *rec, const void *payload);
/* Pushes due answers. Returns false if the ring is full. */
bool soft_resp_push(struct soft_dev *dev, struct soft_qp *qp);
/* Refuses an invalid request: NAK, error state, event. */
void soft_refuse(struct soft_dev *dev, struct soft_qp *qp,
		 enum soft_nak code, enum ibv_event_type event);
/* Returns the next posted receive, or NULL. */
struct soft_rwqe *soft_receive(struct soft_qp *qp);

#endif
