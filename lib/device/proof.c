/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/page.h"
#include "device/device.h"
#include "device/proof.h"
#include "device/quirks.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int reg(const struct dev *dev, uint64_t *bytes, int access,
	       struct ibv_mr **ret)
{
	return rdmamsg__v_reg_mr(dev->device->v, dev->pd, bytes, sizeof(*bytes),
				 access, ret);
}

static int dereg(const struct dev *dev, struct ibv_mr *mr)
{
	return mr ? rdmamsg__v_dereg_mr(dev->device->v, mr) : 0;
}

int rdmamsg__dev_proof_open(struct dev *dev)
{
	const int sink = IBV_ACCESS_LOCAL_WRITE |
			 rdmamsg__quirks(dev->device)->read_sink_access;
	int ret;

	if (dev->proof)
		return 0;
	/* a page alone: a child of fork() may not have it */
	dev->proof = aligned_alloc(page_size(), page_size());
	if (!dev->proof)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	memset(dev->proof, 0, sizeof(*dev->proof));
	ret = reg(dev, &dev->proof->bytes[0], IBV_ACCESS_REMOTE_READ,
		  &dev->proof->served);
	if (!ret)
		ret = reg(dev, &dev->proof->bytes[1], sink, &dev->proof->sink);
	if (!ret)
		return 0;
	rdmamsg__dev_proof_close(dev);
	return rdmamsg__fail_verbs(ret, "memory of an endpoint");
}

void rdmamsg__dev_proof_close(struct dev *dev)
{
	struct proof *p = dev->proof;

	if (!p)
		return;
	dev->proof = NULL;
	if (dereg(dev, p->served) || dereg(dev, p->sink))
		return;		/* the device may still use the memory */
	free(p);
}
