/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains that the program creates. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
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

int rdmamsg_pd_destroy(struct rdmamsg_pd *pd)
{
	struct list *n;
	int ret = pd ? rdmamsg__ctx_check(pd->ctx) : 0;

	if (ret || !pd)
		return ret;
	ret = check_unused(pd);
	if (ret)
		return ret;
	list_for_each(n, &pd->ctx->devices->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->owner == pd)
			ret = rdmamsg__dev_disown(dev);
		if (ret)
			return ret;
	}
	list_del(&pd->node);
	free(pd);
	return 0;
}
