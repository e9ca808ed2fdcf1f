/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the program, registered with the devices that need it. */
#ifndef RDMAMSG_LIB_REGION_H
#define RDMAMSG_LIB_REGION_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#include "base/list.h"
#include "base/util.h"

#define ACCESS_REMOTE	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_ATOMIC)

struct umr_key;

struct rdmamsg_region {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	uint8_t *addr;			/* NULL: a dmabuf */
	size_t len;
	int fd;				/* of the dmabuf, or -1 */
	uint64_t fd_offset;
	uint32_t access;		/* enum rdmamsg_access */
	uint32_t busy;			/* operations, bound windows, layouts */
	uint32_t layouts;		/* defined layouts that contain it */
	uint32_t revocations;
	uint64_t id;
	struct cached *cached;		/* NULL: not of a cache */
	struct rdmamsg_layout *layout;	/* NULL: memory of its own */
	struct rdmamsg_pd *pd;		/* NULL: the device's */
	struct list mrs;		/* struct region_mr */
};

/* The registration of a region with a device. */
struct region_mr {
	struct list node;		/* of the region */
	struct list dev_node;		/* of the device */
	struct dev *dev;
	struct ibv_mr *ibv;
	struct umr_key *umr;		/* has ibv, or NULL: verbs have it */
};

/* Returns the region's registration with a device, or NULL. */
static inline struct ibv_mr *
rdmamsg__region_mr(const struct rdmamsg_region *region, const struct dev *dev)
{
	struct list *n;

	list_for_each(n, &region->mrs) {
		struct region_mr *mr = list_entry(n, struct region_mr, node);

		if (likely(mr->dev == dev))
			return mr->ibv;
	}
	return NULL;
}

/* -EINVAL: region is NULL or stands for a layout; -ECHILD. */
int rdmamsg__region_check(const struct rdmamsg_region *region);
/* -EPERM: another protection domain. Another error: that of registering. */
int rdmamsg__region_register(struct rdmamsg_region *region, struct dev *dev);
int rdmamsg__region_dereg(struct rdmamsg_region *region);
/* Takes a registration with dev. -ENOMEM, and then ibv is deregistered. */
int rdmamsg__region_adopt(struct rdmamsg_region *region, struct dev *dev,
			  struct ibv_mr *ibv, struct umr_key *umr);
/* For a region without registration: -EPERM: another domain; -EINVAL. */
int rdmamsg__region_missing(const struct rdmamsg_region *region,
			    const struct dev *dev);
void rdmamsg__region_put_in(struct rdmamsg_region *region,
			    struct rdmamsg_pd *pd);
/*
 * Writes the key of the region's registration with dev, which exists. Returns
 * its rkey.
 */
uint32_t rdmamsg__region_key(const struct rdmamsg_region *region,
			     const struct dev *dev, struct rdmamsg_key *ret);
/* Converts remote access to enum ibv_access_flags. */
int rdmamsg__verbs_remote(uint32_t access);
/* The peer of the endpoint has, or may soon have, a key of the region. */
void rdmamsg__region_given(const struct rdmamsg_region *region,
			   struct dev *dev, uint32_t ep_key);
/*
 * For a request of the peer that this side has refused. The device does not
 * report the region, so the call lists those that the request may have meant:
 * ", perhaps region 3 (revoked) or 5", or "". Returns buf.
 */
const char *rdmamsg__region_guess(const struct dev *dev, uint32_t ep_key,
				  char *buf, size_t size);
void rdmamsg__regions_dereg(struct dev *dev);	/* dev is being closed */
/* Frees the region. Returns an error if peers may still reach the memory. */
int rdmamsg__region_free(struct rdmamsg_region *region);
/* Sets the error text for such an error, and returns err. */
int rdmamsg__region_fail(int err);
void rdmamsg__regions_free(struct rdmamsg *ctx);

#endif
