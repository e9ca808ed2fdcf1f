/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults act on work requests, not on packets: there are none. The settings
 * are in the fabric's memory, a row for each node; a node works with a copy
 * that it has brought into bounds, taken when it is told that there are new
 * ones.
 */
#include "priv.h"

/* ---- settings --------------------------------------------------------- */

static bool acts(const struct soft_faults *f)
{
	for (int i = 0; i < SOFT_PORTS_MAX; i++)
		if (f->port[i] != SOFT_PORT_UP)
			return true;
	return f->drop || f->delay || f->duplicate || f->reorder;
}

static void tell_port(struct soft_dev *dev, int i, uint32_t from, uint32_t to)
{
	bool was = soft_port_seems_up(from), is = soft_port_seems_up(to);

	if (was != is)
		soft_async_port(dev, (uint8_t)(i + 1),
				is ? IBV_EVENT_PORT_ACTIVE :
				IBV_EVENT_PORT_ERR);
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
	for (int i = 0; i < dev->ports; i++)
		tell_port(dev, i, old.port[i], f.port[i]);
	soft_apm_ports(dev, &old);
}

/* ---- what becomes of a work request ----------------------------------- */

bool soft_port_carries(const struct soft_dev *dev, uint8_t port)
{
	return !port || port > dev->ports ||
	       dev->faults.port[port - 1] == SOFT_PORT_UP;
}

/* splitmix64: below SOFT_SHARE_ALL, the same for the same arguments. */
static uint32_t draw(uint32_t seed, uint32_t qpn, uint32_t n, uint32_t what)
{
	uint64_t z = ((uint64_t)seed << 32 | qpn) ^
		     ((uint64_t)n << 2 | what) * 0x9e3779b97f4a7c15ull;

	for (int i = 0; i < 2; i++) {
		z += 0x9e3779b97f4a7c15ull;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ z >> 27) * 0x94d049bb133111ebull;
		z ^= z >> 31;
	}
	return (uint32_t)((z >> 32) * SOFT_SHARE_ALL >> 32);
}

enum soft_fate soft_fate_drawn(struct soft_dev *dev, struct soft_qp *qp)
{
	const struct soft_faults *f = &dev->faults;
	uint32_t qpn = qp->ibv.qp_num, n;

	if (!soft_port_carries(dev, qp->attr.port_num))
		return SOFT_LOSE;
	if (qp->decided) {
		qp->decided = false;
		return SOFT_PASS;
	}
	n = qp->drawn++;
	if (draw(f->seed, qpn, n, 0) < f->drop)
		return SOFT_LOSE;
	if (draw(f->seed, qpn, n, 1) < f->delay) {
		qp->decided = true;
		return SOFT_DELAY;
	}
	if (qp->ibv.qp_type != IBV_QPT_UC && qp->ibv.qp_type != IBV_QPT_UD)
		return SOFT_PASS;
	if (draw(f->seed, qpn, n, 2) < f->duplicate)
		return SOFT_DUPLICATE;
	return draw(f->seed, qpn, n, 3) < f->reorder ? SOFT_REORDER : SOFT_PASS;
}

/* ---- objects that are refused ----------------------------------------- */

bool soft_refused(struct soft_dev *dev, enum soft_object what)
{
	return dev->refuse[what] && !--dev->refuse[what];
}

int soft_may_create(struct ibv_context *verbs, enum soft_object what)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	int err = 0;

	soft_lock(dev);
	if (soft_ctx(verbs)->removed)
		err = EIO;
	else if (soft_refused(dev, what))
		err = ENOMEM;
	soft_unlock(dev);
	return err;
}
