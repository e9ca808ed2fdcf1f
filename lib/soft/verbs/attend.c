/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that waits attends to the device itself: peers wake it, and not the
 * device's thread, which would then wake the program. One channel at a time can
 * do so. What its armed queues get while the program is awake raises no event,
 * because the program polls them then. If something is left afterwards, the
 * event follows.
 */
#include "soft/verbs/cq.h"

#include "base/list.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"

int soft_attend_fd(struct ibv_comp_channel *ibv)
{
	struct soft_channel *ch = (struct soft_channel *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	int fd = -1;

	soft_lock(dev);
	if (!dev->attendant)
		dev->attendant = ch;
	if (dev->attendant == ch)
		fd = dev->near;
	soft_unlock(dev);
	return fd;
}

bool soft_attend_wait(struct ibv_comp_channel *ibv)
{
	struct soft_channel *ch = (struct soft_channel *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	bool empty;

	soft_lock(dev);
	ch->quiet = true;
	empty = soft_attend(dev) && !ch->missed;
	ch->quiet = false;
	soft_unlock(dev);
	return empty;
}

void soft_attend_woken(struct ibv_comp_channel *ibv)
{
	struct soft_channel *ch = (struct soft_channel *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);

	soft_lock(dev);
	ch->quiet = true;
	soft_attend_end(dev);
	soft_unlock(dev);
}

void soft_attend_done(struct ibv_comp_channel *ibv)
{
	struct soft_channel *ch = (struct soft_channel *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct list *n;

	soft_lock(dev);
	ch->quiet = false;
	if (ch->missed) {
		ch->missed = false;
		list_for_each(n, &dev->cqs)
			soft_cq_catch_up(list_entry(n, struct soft_cq, node),
					 ch);
	}
	soft_unlock(dev);
}

void soft_attend_forget(struct soft_dev *dev, const struct soft_channel *ch)
{
	if (dev->attendant != ch)
		return;
	dev->attendant = NULL;
	if (dev->attended)
		soft_attend_end(dev);
}
