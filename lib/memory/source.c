/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/list.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "memory/hide.h"
#include "memory/large.h"
#include "memory/source.h"

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

void rdmamsg__source_dereg(struct large *l)
{
	const struct rdmamsg_device *d = l->stretch.dev->device;

	if (l->source.mr && rdmamsg__v_dereg_mr(d->v, l->source.mr))
		log_error("device %s: a large message could not be "
			  "deregistered", d->name);
	l->source.mr = NULL;
}

int rdmamsg__source_ready(struct large *l, uint64_t reader, size_t len)
{
	struct dev *dev = l->stretch.dev;
	struct source *s = &l->source;
	int err;

	if (s->mr && s->reader == reader && s->len >= len)
		return 0;
	rdmamsg__source_dereg(l);
	err = rdmamsg__hidden_address(dev, l->stretch.mem, &s->addr);
	if (err)
		return err;
	err = rdmamsg__v_reg_mr_iova(dev->device->v, dev->pd, l->stretch.mem,
				     len, s->addr, IBV_ACCESS_REMOTE_READ,
				     &s->mr);
	if (err)
		return rdmamsg__fail_verbs(err, "registering a large message");
	s->reader = reader;
	s->len = len;
	return 0;
}

static void end(struct large *l, uint64_t reader)
{
	if (l && l->source.reader == reader)
		rdmamsg__source_dereg(l);
}

void rdmamsg__sources_end(struct dev *dev, uint64_t reader)
{
	struct list *n;

	list_for_each(n, &dev->large)
		end(list_entry(n, struct large, node), reader);
	/* messages that the program has not sent */
	list_for_each(n, &dev->loose)
		end(list_entry(n, struct loose_msg, node)->large, reader);
}
