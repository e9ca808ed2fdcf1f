/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains that the program creates. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/pd.h"
#include "device/use.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

int rdmamsg__pd_check(const struct rdmamsg *ctx, const struct rdmamsg_pd *pd)
{
	if (!pd || pd->ctx == ctx)
		return 0;
	return rdmamsg__fail(-EINVAL, "pd: it belongs to another context");
}

void rdmamsg__pds_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->devices->pd_list)) {
		struct rdmamsg_pd *pd = list_first(&ctx->devices->pd_list,
						   struct rdmamsg_pd, node);

		/* the devices are closed, so the domain is gone */
		list_del(&pd->node);
		free(pd);
	}
}

/* ---- public ----------------------------------------------------------- */

static int hold_device(struct rdmamsg_pd *pd, const char *device)
{
	const struct verbs_api *v;
	char *name = NULL;
	int ret = rdmamsg__choose_device(device, NULL, &v, &name);

	if (!ret)
		ret = rdmamsg__dev_get(pd->ctx, v, name, pd, &pd->dev);
	free(name);
	return ret;
}

int rdmamsg_pd_create(struct rdmamsg *ctx,
		      const struct rdmamsg_pd_options *opts,
		      struct rdmamsg_pd **ret_pd)
{
	struct rdmamsg_pd_options o;
	struct rdmamsg_pd *pd;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_pd)
		return rdmamsg__fail(-EINVAL, "rdmamsg_pd_create: ret is NULL");
	ret = rdmamsg__opts_copy(&o, sizeof(o), opts, "rdmamsg_pd_options");
	if (ret)
		return ret;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return rdmamsg__fail(-ENOMEM, "no memory for a protection "
				     "domain");
	pd->ctx = ctx;
	ret = o.device ? hold_device(pd, o.device) : 0;
	if (ret) {
		free(pd);
		return ret;
	}
	list_add_tail(&ctx->devices->pd_list, &pd->node);
	*ret_pd = pd;
	return 0;
}

static int check_unused(const struct rdmamsg_pd *pd)
{
	uint32_t messages = 0;
	struct list *n;

	if (pd->refs)
		return rdmamsg__fail(-EBUSY, "rdmamsg_pd_destroy: %u "
				     "endpoints, listeners, requests and queue "
				     "pairs have it", pd->refs);
	if (pd->regions)
		return rdmamsg__fail(-EBUSY, "rdmamsg_pd_destroy: %u regions "
				     "are in it, those of caches included: "
				     "rdmamsg_region_destroy(), "
				     "rdmamsg_cache_invalidate()", pd->regions);
	pd->ctx->devices->use->take_back(pd->ctx);
	list_for_each(n, &pd->ctx->devices->devs) {
		const struct dev *dev = list_entry(n, struct dev, node);

		if (dev->owner == pd)
			messages += dev->msgs_out;
	}
	if (messages)
		return rdmamsg__fail(-EBUSY, "rdmamsg_pd_destroy: the program "
				     "has %u messages of it: "
				     "rdmamsg_msg_free()", messages);
	return 0;
}

/* Ends the domain on all devices. */
static int disown_all(struct rdmamsg_pd *pd)
{
	struct list *n;
	int ret;

	list_for_each(n, &pd->ctx->devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		ret = dev->owner == pd ? rdmamsg__dev_disown(dev) : 0;
		if (ret)
			return ret;
	}
	return 0;
}

int rdmamsg_pd_destroy(struct rdmamsg_pd *pd)
{
	struct dev *held;
	int ret = pd ? rdmamsg__ctx_check(pd->ctx) : 0;

	if (ret || !pd)
		return ret;
	ret = check_unused(pd);
	if (ret)
		return ret;
	held = pd->dev;
	if (held)
		rdmamsg__dev_put(held);
	ret = disown_all(pd);
	if (ret) {
		/* the domain can be used further */
		if (held)
			(void)rdmamsg__dev_get(pd->ctx, held->device->v,
					       held->device->name, pd,
					       &pd->dev);
		return ret;
	}
	list_del(&pd->node);
	free(pd);
	return 0;
}
