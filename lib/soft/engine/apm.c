/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration. A connection has a path in use and may have an
 * alternate path. Migration swaps them.
 *
 *              modify         both ends are       port down, retries
 *              to REARM         at REARM          used up, modify, or
 *                                                  the peer migrated
 *   MIGRATED ----------> REARM ----------> ARMED -------------------.
 *      ^                                                            |
 *      '------------------- with the other path ------------------'
 *
 * The flag SOFT_F_PATH of a request names the path of the request. Both ends
 * begin with 0, and an end that migrates inverts its flag. An armed end that
 * gets a request over the other path knows that its peer has migrated, and
 * follows. A SOFT_PATH record carries the state: to agree on arming, and for
 * ends that send no requests. A port that is down drops the record. An end in
 * REARM sends it again when its port is up.
 *
 * A peer that lies about its state harms only its own connection. It can cause
 * at most two events each time that the program arms.
 */
#include "soft/engine/apm.h"

#include <stdint.h>

#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "soft/engine/resp.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"

static bool seems_up(const struct soft_dev *dev, uint8_t port)
{
	return port && port <= dev->ports &&
	       soft_port_seems_up(dev->faults.port[port - 1]);
}

static void tell(struct soft_dev *dev, struct soft_qp *qp)
{
	qp->path_due = true;
	soft_qp_pend(dev, qp);
}

static void migrate(struct soft_dev *dev, struct soft_qp *qp)
{
	struct ibv_qp_attr *a = &qp->attr, was = *a;

	a->ah_attr = was.alt_ah_attr;
	a->alt_ah_attr = was.ah_attr;
	a->pkey_index = was.alt_pkey_index;
	a->alt_pkey_index = was.pkey_index;
	a->port_num = was.alt_port_num;
	a->alt_port_num = was.port_num;
	a->timeout = was.alt_timeout;
	a->alt_timeout = was.timeout;
	a->path_mig_state = IBV_MIG_MIGRATED;
	qp->path ^= SOFT_F_PATH;
	soft_req_anew(qp);
	tell(dev, qp);
	soft_async_qp(dev, qp, IBV_EVENT_PATH_MIG);
}

static void failed(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->path_failed)
		return;
	qp->path_failed = true;
	soft_async_qp(dev, qp, IBV_EVENT_PATH_MIG_ERR);
}

/* ---- the program ------------------------------------------------------ */

void soft_apm_set(struct soft_dev *dev, struct soft_qp *qp,
		  enum ibv_mig_state state)
{
	if (state == IBV_MIG_REARM) {
		qp->attr.path_mig_state = state;
		qp->path_failed = false;
		tell(dev, qp);
	} else if (qp->attr.path_mig_state == IBV_MIG_ARMED) {
		migrate(dev, qp);
	}
	/* push now, so that the record precedes all further progress */
	if (soft_resp_push(dev, qp))
		soft_req_push(dev, qp);
}

/* ---- retries and ports ------------------------------------------------ */

bool soft_apm_retry(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->attr.path_mig_state != IBV_MIG_ARMED)
		return false;
	if (!seems_up(dev, qp->attr.alt_port_num)) {
		failed(dev, qp);
		return false;
	}
	migrate(dev, qp);
	return true;
}

static void look_at(struct soft_dev *dev, struct soft_qp *qp, uint32_t was)
{
	uint8_t port = qp->attr.port_num;

	if (qp->attr.path_mig_state == IBV_MIG_REARM &&
	    was != SOFT_PORT_UP && soft_port_carries(dev, port))
		tell(dev, qp);
	if (qp->attr.path_mig_state != IBV_MIG_ARMED || seems_up(dev, port))
		return;
	if (seems_up(dev, qp->attr.alt_port_num)) {
		migrate(dev, qp);
	} else if (soft_port_seems_up(was)) {
		qp->path_failed = false;
		failed(dev, qp);
	}
}

void soft_apm_ports(struct soft_dev *dev, const struct soft_faults *were)
{
	for (uint32_t i = 0; i < SOFT_QPS; i++) {
		struct soft_qp *qp = dev->qps[i];

		if (qp && soft_can_receive(qp))
			look_at(dev, qp, were->port[qp->attr.port_num - 1]);
	}
}

/* ---- the peer --------------------------------------------------------- */

static void told(struct soft_dev *dev, struct soft_qp *qp, uint8_t state,
		 bool other)
{
	enum ibv_mig_state now = qp->attr.path_mig_state;

	if (other && !qp->attr.alt_port_num)
		return;
	if (other) {
		/* a late record from a peer that has not followed yet */
		if (state != IBV_MIG_MIGRATED && now != IBV_MIG_ARMED)
			return;
		if (now == IBV_MIG_MIGRATED)
			failed(dev, qp);
		else
			migrate(dev, qp);
		return;
	}
	if (now == IBV_MIG_MIGRATED ||
	    (state != IBV_MIG_REARM && state != IBV_MIG_ARMED))
		return;
	qp->attr.path_mig_state = IBV_MIG_ARMED;
	if (state == IBV_MIG_REARM)
		tell(dev, qp);
}

bool soft_apm_arrives(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rec *rec)
{
	bool other = (rec->flags ^ qp->path) & SOFT_F_PATH;

	if (!soft_port_carries(dev, other ? qp->attr.alt_port_num :
			       qp->attr.port_num))
		return false;
	if (rec->op == SOFT_PATH)
		told(dev, qp, rec->code, other);
	else if (other && qp->attr.path_mig_state == IBV_MIG_ARMED)
		migrate(dev, qp);
	return true;
}
