/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: declaring, registering, exporting, revoking. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/list.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/pd.h"
#include "device/umr.h"
#include "device/verbs_call.h"
#include "memory/layout.h"
#include "memory/memory.h"
#include "memory/region.h"
#include "wire/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define ACCESS_LOCAL	(RDMAMSG_ACCESS_LOCAL_WRITE | RDMAMSG_ACCESS_WINDOW)

_Static_assert(RDMAMSG_ACCESS_READ == PROTO_KEY_READ &&
	       RDMAMSG_ACCESS_WRITE == PROTO_KEY_WRITE &&
	       RDMAMSG_ACCESS_ATOMIC == PROTO_KEY_ATOMIC, "as on the wire");
_Static_assert(sizeof(struct rdmamsg_key) == PROTO_KEY_LEN, "as on the wire");

int rdmamsg__verbs_remote(uint32_t access)
{
	return (access & RDMAMSG_ACCESS_READ ? IBV_ACCESS_REMOTE_READ : 0) |
	       (access & RDMAMSG_ACCESS_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
	       (access & RDMAMSG_ACCESS_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

/* ibv_reg_mr(3): remote write and atomic need local write as well. */
static int verbs_access(const struct rdmamsg_device *d, uint32_t access)
{
	return rdmamsg__verbs_remote(access) |
	       (access & RDMAMSG_ACCESS_LOCAL_WRITE ?
		rdmamsg__sink_access(d) : 0) |
	       (access & ~(uint32_t)RDMAMSG_ACCESS_READ ?
		IBV_ACCESS_LOCAL_WRITE : 0) |
	       (access & RDMAMSG_ACCESS_WINDOW ? IBV_ACCESS_MW_BIND : 0);
}

static int dereg(const struct rdmamsg_device *d, struct ibv_mr *ibv,
		 struct umr_key *umr)
{
	return umr ? rdmamsg__umr_undefine(umr) :
	       rdmamsg__v_dereg_mr(d->v, ibv);
}

/*
 * Deregisters and frees mr. Returns the device's error if peers may still reach
 * the memory. mr is freed in any case.
 */
static int mr_free(struct region_mr *mr)
{
	const struct rdmamsg_device *d = mr->dev->device;
	int ret = dereg(d, mr->ibv, mr->umr);

	if (ret)
		log_error("device %s: a region could not be deregistered",
			  d->name);
	if (d->gone)
		ret = 0;
	list_del(&mr->node);
	list_del(&mr->dev_node);
	free(mr);
	return ret;
}

void rdmamsg__regions_dereg(struct dev *dev)
{
	while (!list_empty(&dev->regions))
		(void)mr_free(list_first(&dev->regions, struct region_mr,
					 dev_node));
}

static int dereg_all(struct rdmamsg_region *region)
{
	int ret = 0, err;

	while (!list_empty(&region->mrs)) {
		err = mr_free(list_first(&region->mrs, struct region_mr, node));
		ret = ret ? ret : err;
	}
	return ret;
}

void rdmamsg__region_put_in(struct rdmamsg_region *region,
			    struct rdmamsg_pd *pd)
{
	if (region->pd)
		region->pd->regions--;
	region->pd = pd;
	if (pd)
		pd->regions++;
}

static int check_domain(const struct rdmamsg_region *region,
			const struct dev *dev)
{
	if (region->pd == dev->owner)
		return 0;
	return rdmamsg__fail(-EPERM, "region %llu and the endpoint are in "
			     "different protection domains: "
			     "rdmamsg_region_set_pd(), or pd of the endpoint's "
			     "options", (unsigned long long)region->id);
}

int rdmamsg__region_missing(const struct rdmamsg_region *region,
			    const struct dev *dev)
{
	int ret = check_domain(region, dev);

	return ret ? ret : rdmamsg__fail(-EINVAL, "region %llu is not "
					 "registered with device %s: "
					 "rdmamsg_region_register()",
					 (unsigned long long)region->id,
					 dev->device->name);
}

int rdmamsg__region_free(struct rdmamsg_region *region)
{
	int ret = dereg_all(region);

	if (region->fd >= 0)
		close(region->fd);
	rdmamsg__region_put_in(region, NULL);
	list_del(&region->node);
	free(region);
	return ret;
}

int rdmamsg__region_fail(int err)
{
	return rdmamsg__fail_verbs(err, "deregistering a region: peers may "
				   "still reach it");
}

void rdmamsg__regions_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->memory->region_list)) {
		struct rdmamsg_region *region =
			list_first(&ctx->memory->region_list,
				   struct rdmamsg_region, node);

		if (region->layout)
			rdmamsg__layout_free(region->layout);
		else
			(void)rdmamsg__region_free(region);
	}
}

int rdmamsg__region_check(const struct rdmamsg_region *region)
{
	if (region && !region->layout)
		return rdmamsg__ctx_check(region->ctx);
	return rdmamsg__fail(-EINVAL, region ? "the region stands for a "
			     "layout: use rdmamsg_layout_*()" :
			     "the region is NULL");
}

static int reg(const struct rdmamsg_region *region, const struct dev *dev,
	       struct ibv_mr **ret)
{
	const struct verbs_api *v = dev->device->v;
	int access = verbs_access(dev->device, region->access);

	if (region->fd < 0)
		return rdmamsg__v_reg_mr(v, dev->pd, region->addr, region->len,
					 access, ret);
	return rdmamsg__v_reg_dmabuf_mr(v, dev->pd, region->fd_offset,
					region->len, 0, region->fd, access,
					ret);
}

int rdmamsg__region_adopt(struct rdmamsg_region *region, struct dev *dev,
			  struct ibv_mr *ibv, struct umr_key *umr)
{
	struct region_mr *mr = calloc(1, sizeof(*mr));

	if (!mr) {
		(void)dereg(dev->device, ibv, umr);
		return rdmamsg__fail(-ENOMEM, "no memory for a region");
	}
	mr->dev = dev;
	mr->ibv = ibv;
	mr->umr = umr;
	list_add_tail(&region->mrs, &mr->node);
	list_add_tail(&dev->regions, &mr->dev_node);
	return 0;
}

static int mr_new(struct rdmamsg_region *region, struct dev *dev)
{
	struct ibv_mr *ibv;
	int ret = rdmamsg__device_mr_check(dev->device, region->len);

	if (ret)
		return ret;
	ret = reg(region, dev, &ibv);
	if (ret) {
		if (ret == -EOPNOTSUPP && region->fd >= 0)
			rdmamsg__fail(ret, "device %s takes no dmabuf",
				      dev->device->name);
		else if (region->fd >= 0)
			rdmamsg__fail_verbs(ret, "registering a region");
		else
			rdmamsg__fail_memory(ret, "registering a region",
					     region->addr, region->len,
					     verbs_access(dev->device,
							  region->access) &
					     IBV_ACCESS_LOCAL_WRITE);
		return ret;
	}
	return rdmamsg__region_adopt(region, dev, ibv, NULL);
}

/* ---- regions that a refused request may have meant -------------------- */

#define EXPORTS		((uint32_t)(sizeof(((struct dev *)0)->exports) / \
				    sizeof(struct export)))
#define GUESSES		4

void rdmamsg__region_given(const struct rdmamsg_region *region,
			   struct dev *dev, uint32_t ep_key)
{
	for (uint32_t i = 0; i < EXPORTS; i++)
		if (dev->exports[i].region == region->id &&
		    dev->exports[i].ep == ep_key)
			return;
	dev->exports[dev->export_count++ % EXPORTS] = (struct export){
		.region = region->id, .ep = ep_key,
	};
}

/* Returns true if the region has been revoked or destroyed. */
static bool is_revoked(const struct dev *dev, uint64_t id)
{
	struct list *n;

	list_for_each(n, &dev->ctx->memory->region_list) {
		const struct rdmamsg_region *region =
			list_entry(n, struct rdmamsg_region, node);

		if (region->id == id)
			return region->layout ?
			       !rdmamsg__layout_exported(region->layout, dev) :
			       !rdmamsg__region_mr(region, dev);
	}
	return true;
}

/*
 * Appends to ret the regions exported to the endpoint, or if 'any' to any
 * endpoint, the latest first. Returns the new count.
 */
static int guess(const struct dev *dev, uint32_t ep_key, bool any, bool revoked,
		 uint64_t ret[static GUESSES], int count)
{
	for (uint32_t i = 1; i <= EXPORTS && count < GUESSES; i++) {
		const struct export *e =
			&dev->exports[(dev->export_count - i) % EXPORTS];

		if (e->region && (any || e->ep == ep_key) &&
		    is_revoked(dev, e->region) == revoked)
			ret[count++] = e->region;
	}
	return count;
}

const char *rdmamsg__region_guess(const struct dev *dev, uint32_t ep_key,
				  char *buf, size_t size)
{
	uint64_t ids[GUESSES];
	int revoked = 0, n = 0;
	size_t len = 0;

	buf[0] = 0;
	/* all peers in the domain can use a key, so try other endpoints too */
	for (int any = 0; dev && any < 2 && !n; any++) {
		revoked = guess(dev, ep_key, any, true, ids, 0);
		n = guess(dev, ep_key, any, false, ids, revoked);
	}
	for (int i = 0; i < n && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%llu%s",
					!i ? ", perhaps region " :
					i < n - 1 ? ", " : " or ",
					(unsigned long long)ids[i],
					i < revoked ? " (revoked)" : "");
	return buf;
}

/* ---- public ----------------------------------------------------------- */

static int region_new(struct rdmamsg *ctx, void *addr, size_t len,
		      uint32_t access, struct rdmamsg_region **ret)
{
	const uint32_t unknown = access & ~(ACCESS_REMOTE | ACCESS_LOCAL);
	struct rdmamsg_region *region;

	if (!len || !ret || unknown || (uintptr_t)addr + len < (uintptr_t)addr)
		return rdmamsg__fail(-EINVAL, "a region: %s", !ret ?
				     "ret is NULL" : unknown ?
				     "unknown access bits" :
				     "len is 0 or out of range");
	region = calloc(1, sizeof(*region));
	if (!region)
		return rdmamsg__fail(-ENOMEM, "no memory for a region");
	region->ctx = ctx;
	region->addr = addr;
	region->len = len;
	region->fd = -1;
	region->access = access;
	region->id = ++ctx->memory->regions;
	list_init(&region->mrs);
	list_add_tail(&ctx->memory->region_list, &region->node);
	*ret = region;
	return 0;
}

int rdmamsg_region_create(struct rdmamsg *ctx, void *addr, size_t len,
			  uint32_t access, struct rdmamsg_region **ret)
{
	int err = rdmamsg__ctx_check(ctx);

	if (!err && !addr)
		err = rdmamsg__fail(-EINVAL, "rdmamsg_region_create: addr is "
				    "NULL");
	return err ? err : region_new(ctx, addr, len, access, ret);
}

int rdmamsg_region_dmabuf(struct rdmamsg *ctx, int fd, uint64_t offset,
			  size_t len, uint32_t access,
			  struct rdmamsg_region **ret)
{
	int err = rdmamsg__ctx_check(ctx), copy;

	if (err)
		return err;
	copy = fd_copy(fd);
	if (copy < 0)
		return rdmamsg__fail(-errno, "rdmamsg_region_dmabuf: fd %d: %s",
				     fd, strerror(errno));
	err = region_new(ctx, NULL, len, access, ret);
	if (err) {
		close(copy);
		return err;
	}
	(*ret)->fd = copy;
	(*ret)->fd_offset = offset;
	return 0;
}

int rdmamsg_region_set_pd(struct rdmamsg_region *region, struct rdmamsg_pd *pd)
{
	int ret = rdmamsg__region_check(region);

	if (!ret)
		ret = rdmamsg__pd_check(region->ctx, pd);
	if (ret)
		return ret;
	if (region->cached)
		return rdmamsg__fail(-EINVAL, "rdmamsg_region_set_pd: a "
				     "cache's region is where the endpoint is "
				     "that it was got for");
	if (region->layouts)
		return rdmamsg__fail(-EBUSY, "region %llu is part of %u "
				     "layouts: invalidate them first",
				     (unsigned long long)region->id,
				     region->layouts);
	if (!list_empty(&region->mrs))
		return rdmamsg__fail(-EBUSY, "region %llu is registered: "
				     "rdmamsg_region_revoke() comes first",
				     (unsigned long long)region->id);
	rdmamsg__region_put_in(region, pd);
	return 0;
}

int rdmamsg__region_register(struct rdmamsg_region *region, struct dev *dev)
{
	int ret = check_domain(region, dev);

	return ret || rdmamsg__region_mr(region, dev) ? ret :
	       mr_new(region, dev);
}

uint32_t rdmamsg__region_key(const struct rdmamsg_region *region,
			     const struct dev *dev, struct rdmamsg_key *ret)
{
	const struct proto_key key = {
		.access = (uint8_t)(region->access & ACCESS_REMOTE),
		.rkey = rdmamsg__region_mr(region, dev)->rkey,
		.region = region->id,
		.addr = (uintptr_t)region->addr, .len = region->len,
	};

	rdmamsg__key_encode(&key, ret->bytes);
	return key.rkey;
}

int rdmamsg__region_dereg(struct rdmamsg_region *region)
{
	int ret = dereg_all(region);

	return ret ? rdmamsg__region_fail(ret) : 0;
}
