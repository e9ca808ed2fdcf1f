/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offers: the owner of a region tells one queue pair of the peer where the
 * region is, before the peer asks. A read of it then takes no request: the
 * requester fetches the bytes with process_vm_readv(2) while it posts. The
 * owner's process does nothing, and is not woken. All L.
 *
 * An offer reveals what the peer is to be told anyway, the key and the address.
 * It ends as a shown payload does (fabric/vm.h), and with the queue pair. A
 * requester without an offer, or one that cannot use it, sends a request.
 */
#ifndef SOFT_ENGINE_OFFER_H
#define SOFT_ENGINE_OFFER_H

#include <stdbool.h>

#include "soft/fabric/rec.h"
#include "soft/fabric/vm.h"

struct soft_dev;
struct soft_qp;
struct soft_swqe;

/* Takes an offer of the peer. */
void soft_offer_arrives(struct soft_qp *qp, const struct soft_rec *rec,
			const struct soft_fetch *from);
/*
 * Executes the read at sq_next, if it was offered. Returns false if it has to
 * be pushed. Nothing is told to the peer, so the read gives its PSN back.
 */
bool soft_offer_take(struct soft_dev *dev, struct soft_qp *qp,
		     struct soft_swqe *wqe);

/* Withdraws all offers of this device: a read of one would see no fault. */
void soft_offers_end(struct soft_dev *dev);

#endif
