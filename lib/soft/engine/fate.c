/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/engine/fate.h"

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "soft/verbs/qp.h"

/*
 * splitmix64: returns a number < SOFT_SHARE_ALL, which depends on the input
 * only.
 */
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

bool soft_fate_early(const struct soft_dev *dev, struct soft_qp *qp)
{
	return dev->order &&
	       draw(dev->order, qp->ibv.qp_num, qp->orders++, 0) <
	       SOFT_SHARE_ALL / 4 * 3;
}

bool soft_fate_late(const struct soft_dev *dev, struct soft_qp *qp)
{
	return dev->order &&
	       draw(dev->order, qp->ibv.qp_num, qp->orders++, 1) <
	       SOFT_SHARE_ALL / 4;
}
