/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of regions for a request. The device of the request is known before its
 * endpoint exists. A registration lasts while the device is open, so the
 * request holds the device until the endpoint does.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/pd.h"
#include "device/verbs_api.h"
#include "memory/region.h"
#include "cm/connect.h"
#include "session/connector.h"
#include "session/ep.h"
#include "session/given.h"
#include "session/resume.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

/* Key of no endpoint, for rdmamsg__region_given(). */
#define NOT_YET		0

static int check(const struct rdmamsg_request *req,
		 const struct rdmamsg_region *region,
		 const struct rdmamsg_key *ret)
{
	int err = rdmamsg__request_check(req);

	if (!err)
		err = rdmamsg__region_check(region);
	if (err)
		return err;
	if (!ret || req->ctx != region->ctx ||
	    !(region->access & ACCESS_REMOTE))
		return rdmamsg__fail(-EINVAL, "rdmamsg_request_get_key: %s",
				     !ret ? "ret is NULL" :
				     req->ctx != region->ctx ?
				     "the region is of another context" :
				     "the region allows a peer nothing");
	if (!req->by->request_device)
		return rdmamsg__fail(-EOPNOTSUPP, "rdmamsg_request_get_key: "
				     "the endpoint of an out-of-band request "
				     "chooses the device: "
				     "rdmamsg_region_get_key() when it is "
				     "connected");
	return rdmamsg__request_is_open(req);
}

/* Opens the device of the request in the domain of the region. */
static int hold_dev(struct rdmamsg_request *req, struct rdmamsg_pd *pd)
{
	struct request_keys *k = &req->keys;
	char room[64];
	const char *name;
	int ret;

	/* not every connection manager tells a request of the removal */
	if (k->dev)
		return !k->dev->device->gone ? 0 :
		       rdmamsg__fail(-ENODEV, "rdmamsg_request_get_key: device "
				     "%s was removed", k->dev->device->name);
	name = req->by->request_device(req, room);
	if (!name)
		return rdmamsg__fail(-ENODEV, "rdmamsg_request_get_key: the "
				     "request has no device");
	ret = rdmamsg__dev_get(req->ctx, req->v, name, pd, &k->dev);
	if (ret)
		return ret;
	rdmamsg__pd_hold(pd);
	k->pd = pd;
	return 0;
}

void rdmamsg__request_keys_drop(struct rdmamsg_request *req)
{
	struct request_keys *k = &req->keys;

	if (k->dev)
		rdmamsg__dev_put(k->dev);
	rdmamsg__pd_rele(k->pd);
	rdmamsg__given_free(&k->given);
	*k = (struct request_keys){ .dev = NULL };
}

int rdmamsg__request_keys_pass(struct rdmamsg_request *req,
			       struct rdmamsg_ep *ep)
{
	struct request_keys *k = &req->keys;

	if (!k->given.count)
		return 0;
	if (ep->opts.pd != k->pd || ep->opts.flags & RDMAMSG_EP_GUARD)
		return rdmamsg__fail(-EPERM, "the endpoint is in another "
				     "protection domain than the keys that "
				     "were made for its request");
	if (!ep->resume)
		return 0;
	ep->resume->given = k->given;
	k->given = (struct given){ .keys = NULL };
	return 0;
}

int rdmamsg_request_get_key(struct rdmamsg_request *req,
			    struct rdmamsg_region *region,
			    struct rdmamsg_key *ret)
{
	struct request_keys *k;
	struct rdmamsg_key key;
	int err = check(req, region, ret);

	if (err)
		return err;
	k = &req->keys;
	err = hold_dev(req, region->pd);
	if (!err)
		err = rdmamsg__region_register(region, k->dev);
	if (!err)
		err = rdmamsg__given_add(&k->given, region,
					 rdmamsg__region_key(region, k->dev,
							     &key));
	if (err && !k->given.count)
		rdmamsg__request_keys_drop(req);
	if (err)
		return err;
	*ret = key;
	rdmamsg__region_given(region, k->dev, NOT_YET);
	return 0;
}
