/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of an endpoint: register, export to its peer, revoke. */
#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "device/pd.h"
#include "memory/regcache.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/send.h"
#include "session/tx.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

/* Key of no endpoint, for rdmamsg__region_given(). */
#define NO_ENDPOINT	0

int rdmamsg__region_ep_check(const struct rdmamsg *ctx,
			     const struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	if (ctx != ep->ctx)
		return rdmamsg__fail(-EINVAL, "the endpoint belongs to another "
				     "context");
	if (!ep->lane.dev && rdmamsg__lane_lost(ep))
		return rdmamsg__tx_check(ep);
	if (!ep->lane.dev)
		return rdmamsg__fail(-ENOTCONN, "the endpoint has no device: "
				     "wait for on_connected");
	return 0;
}

int rdmamsg__region_here(struct rdmamsg_ep *ep, struct rdmamsg_region *region,
			 struct ibv_mr **ret)
{
	int err;

	*ret = rdmamsg__region_mr(region, ep->lane.dev);
	if (likely(*ret))
		return 0;
	if (!ep->resume || !ep->resume->lanes)
		return rdmamsg__region_missing(region, ep->lane.dev);
	err = rdmamsg__region_register(region, ep->lane.dev);
	*ret = rdmamsg__region_mr(region, ep->lane.dev);
	return rdmamsg__tx_refused(ep, err);
}

int rdmamsg_region_register(struct rdmamsg_region *region,
			  const struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__region_check(region);

	if (!ret)
		ret = rdmamsg__region_ep_check(region->ctx, ep);
	if (ret)
		return ret;
	ret = rdmamsg__region_register(region, ep->lane.dev);
	return rdmamsg__tx_refused((struct rdmamsg_ep *)ep, ret);
}

struct ibv_mr *rdmamsg_region_mr(const struct rdmamsg_region *region,
				 const struct rdmamsg_ep *ep)
{
	if (!region || !ep || region->layout || ep->ctx != region->ctx ||
	    !ep->lane.dev)
		return NULL;
	return rdmamsg__region_mr(region, ep->lane.dev);
}

/* The region's domain has a device, which no endpoint uses yet. */
static int early_key(struct rdmamsg_region *region, struct dev *dev,
		     struct rdmamsg_key *ret)
{
	int err = !dev->device->gone ? rdmamsg__region_register(region, dev) :
		  rdmamsg__fail(-ENODEV, "device %s of the protection domain "
				"was removed: make another domain",
				dev->device->name);

	if (err)
		return err;
	(void)rdmamsg__region_key(region, dev, ret);
	rdmamsg__region_given(region, dev, NO_ENDPOINT);
	return 0;
}

int rdmamsg_region_get_key(struct rdmamsg_region *region,
			  const struct rdmamsg_ep *ep, struct rdmamsg_key *ret)
{
	struct rdmamsg_key key;
	uint32_t rkey;
	int err = rdmamsg__region_check(region);

	if (err)
		return err;
	if (!ret || !(region->access & ACCESS_REMOTE))
		return rdmamsg__fail(-EINVAL, "rdmamsg_region_get_key: %s",
				     !ret ? "ret is NULL" :
				     "the region allows a peer nothing");
	if (!ep && region->pd && region->pd->dev)
		return early_key(region, region->pd->dev, ret);
	err = rdmamsg_region_register(region, ep);
	if (err)
		return err;
	rkey = rdmamsg__region_key(region, ep->lane.dev, &key);
	if (rdmamsg__keeps(ep)) {
		err = rdmamsg__given_add(&ep->resume->given, region, rkey);
		if (err)
			return err;
	}
	*ret = key;
	rdmamsg__region_given(region, ep->lane.dev, ep->key);
	return 0;
}

int rdmamsg_region_revoke(struct rdmamsg_region *region)
{
	int ret = rdmamsg__region_check(region);

	if (ret)
		return ret;
	if (region->cached)
		return rdmamsg__fail(-EINVAL, "the region is a cache's: "
				     "rdmamsg_cache_put(), or "
				     "rdmamsg_cache_invalidate()");
	if (region->layouts)
		return rdmamsg__fail(-EBUSY, "region %llu is part of %u "
				     "layouts: invalidate them first",
				     (unsigned long long)region->id,
				     region->layouts);
	if (region->busy) {
		rdmamsg__tx_ask(region->ctx);
		return rdmamsg__fail(-EBUSY,
				     "region %llu: %u operations of "
				     "this program still use it: wait for "
				     "on_complete",
				     (unsigned long long)region->id,
				     region->busy);
	}
	region->revocations++;
	return rdmamsg__region_dereg(region);
}

int rdmamsg_region_destroy(struct rdmamsg_region *region)
{
	int ret = region ? rdmamsg_region_revoke(region) : 0;

	if (!ret && region)
		(void)rdmamsg__region_free(region);
	return ret;
}

int rdmamsg_cache_get(struct rdmamsg_cache *cache, const struct rdmamsg_ep *ep,
		      void *addr, size_t len, uint32_t access,
		      struct rdmamsg_region **ret)
{
	const struct cache_want want = { addr, len, access };
	int err = rdmamsg__cache_check(cache);

	if (!err)
		err = rdmamsg__region_ep_check(cache->ctx, ep);
	if (err)
		return err;
	if (!addr || !len || !ret)
		return rdmamsg__fail(-EINVAL, "rdmamsg_cache_get: an argument "
				     "is NULL or 0");
	err = rdmamsg__cache_get(cache, ep->lane.dev, ep->opts.pd, &want, ret);
	return rdmamsg__tx_refused((struct rdmamsg_ep *)ep, err);
}
