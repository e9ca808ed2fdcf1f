/* SPDX-License-Identifier: BSD-2-Clause */
/* Removal of the device, for CM ids. */
#include "soft/cm/id.h"
#include "soft/fabric/wire.h"

static void end_id(struct soft_dev *dev, struct soft_cm_id *id)
{
	soft_cm_unlisten(id);
	soft_timer_stop(&id->timer);
	soft_cm_end_lookup(id);
	/*
	 * A removed device sends no message to the peer, except that TCP closes
	 * the connections of iWARP.
	 */
	if (dev->iwarp && id->state == SOFT_CM_CONNECTED)
		soft_cm_iwarp_fin(id);
	soft_wire_put(dev, id->wire);
	id->wire = NULL;
	id->state = SOFT_CM_OVER;
	soft_cm_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

void soft_cm_removed(struct soft_dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (soft_cm_on_device(id))
			end_id(dev, id);
	}
}
