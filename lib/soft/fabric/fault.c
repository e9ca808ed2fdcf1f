/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults act on work requests, because the device has no packets. The fabric's
 * memory has a row of settings for each node. A node works with a clamped copy
 * of its row, and takes a new copy when rdmamsg-soft-ctl(1) has changed the
 * row.
 */
#include "soft/fabric/fault.h"

#include "base/util.h"
#include "soft/fabric/count.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/upward.h"

/* ---- settings --------------------------------------------------------- */

static bool acts(const struct soft_faults *f)
{
	for (int i = 0; i < SOFT_PORTS_MAX; i++)
		if (f->port[i] != SOFT_PORT_UP)
			return true;
	return f->drop || f->delay || f->duplicate || f->reorder;
}

/* Opening the device is no change, and has no counters yet. */
static void count_downs(struct soft_dev *dev, const struct soft_faults *old)
{
	for (uint8_t i = 0; dev->count && i < SOFT_PORTS_MAX; i++)
		if (soft_port_seems_up(old->port[i]) &&
		    !soft_port_seems_up(dev->faults.port[i]))
			soft_count(dev, (uint8_t)(i + 1), SOFT_LINK_DOWNED, 1);
}

void soft_faults_take(struct soft_dev *dev)
{
	struct soft_faults old = dev->faults;
	struct soft_faults f = dev->fabric->node[dev->node];

	for (int i = 0; i < SOFT_PORTS_MAX; i++)
		if (f.port[i] > SOFT_PORT_BLACK_HOLE)
			f.port[i] = SOFT_PORT_UP;
	f.drop = min(f.drop, SOFT_SHARE_ALL);
	f.delay = min(f.delay, SOFT_SHARE_ALL);
	f.duplicate = min(f.duplicate, SOFT_SHARE_ALL);
	f.reorder = min(f.reorder, SOFT_SHARE_ALL);
	f.delay_us = min(f.delay_us, SOFT_DELAY_MAX);
	dev->faults = f;
	dev->faulty = acts(&f);
	count_downs(dev, &old);
	soft_fabric_up->ports(dev, &old);
}

/* ---- ports ------------------------------------------------------------ */

enum soft_port soft_port_state(const struct soft_dev *dev, int port)
{
	return (enum soft_port)dev->faults.port[port - 1];
}

bool soft_port_carries(const struct soft_dev *dev, uint8_t port)
{
	return !port || port > dev->ports ||
	       dev->faults.port[port - 1] == SOFT_PORT_UP;
}

/* ---- objects ---------------------------------------------------------- */

bool soft_refused(struct soft_dev *dev, enum soft_object what)
{
	return dev->refuse[what] && !--dev->refuse[what];
}
