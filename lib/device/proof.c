/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/page.h"
#include "device/device.h"
#include "device/proof.h"
#include "device/quirks.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <sys/mman.h>

static int reg(const struct dev *dev, uint64_t *bytes, int access,
	       struct ibv_mr **ret)
{
	return rdmamsg__v_reg_mr(dev->device->v, dev->pd, bytes, sizeof(*bytes),
				 access, ret);
}

static void dereg(const struct dev *dev, struct ibv_mr *mr)
{
	if (mr && rdmamsg__v_dereg_mr(dev->device->v, mr))
		log_error("device %s: memory of endpoints could not be "
			  "deregistered", dev->device->name);
}

int rdmamsg__dev_proof_open(struct dev *dev)
{
	const int sink = IBV_ACCESS_LOCAL_WRITE |
			 rdmamsg__quirks(dev->device)->read_sink_access;
	void *mem;
	int ret;

	if (dev->proof)
		return 0;
	/* a page alone: a child of fork() may not have it */
	mem = mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	dev->proof = mem;
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
	dereg(dev, p->served);
	dereg(dev, p->sink);
	(void)munmap(p, page_size());
}
