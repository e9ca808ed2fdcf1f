/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages from regions: checks the gather entries. */
#include "base/base.h"
#include "base/util.h"
#include "memory/region.h"
#include "onesided/rma_ask.h"
#include "onesided/send_entries.h"
#include "session/ep.h"
#include "session/send.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static int check_entry(struct rdmamsg_ep *ep, const struct rdmamsg_sge *s)
{
	struct rdmamsg_region *r = s->region;
	uintptr_t at = (uintptr_t)s->data, from;
	struct ibv_mr *mr;

	if (!r)
		return 0;
	from = (uintptr_t)r->addr;
	if (r->ctx != ep->ctx || r->fd >= 0 || at < from ||
	    at - from > r->len || s->len > r->len - (at - from))
		return rdmamsg__fail(-EINVAL, "rdmamsg_post: %s",
				     r->fd >= 0 ? "the region is a dmabuf" :
				     "a gather entry is outside of its region");
	if (!(r->access & RDMAMSG_ACCESS_READ))
		return rdmamsg__fail(-EACCES, "rdmamsg_post: region "
				     "%llu does not have RDMAMSG_ACCESS_READ",
				     (unsigned long long)r->id);
	return rdmamsg__region_here(ep, r, &mr);
}

/* Splits the entries into memory and regions. */
static int take_entries(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
			int count, struct iovec *iov,
			struct rdmamsg_region **regions)
{
	if (count < 0 || count > RDMAMSG_SEGMENTS_MAX || (count && !src))
		return rdmamsg__fail(-EINVAL, "rdmamsg_post: sge is NULL, or "
				     "count not 0 to %d",
				     RDMAMSG_SEGMENTS_MAX);
	for (int i = 0; i < count; i++) {
		int ret = check_entry(ep, &src[i]);

		if (ret)
			return ret;
		iov[i].iov_base = src[i].data;
		iov[i].iov_len = src[i].len;
		regions[i] = src[i].region;
	}
	return 0;
}

int rdmamsg__send_entries(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
			  int count, uint32_t tag,
			  const struct rdmamsg_key *key, void *cookie,
			  enum tell tell)
{
	struct rdmamsg_region *regions[RDMAMSG_SEGMENTS_MAX];
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	int ret = rdmamsg__tx_check(ep);

	if (!ret)
		ret = take_entries(ep, src, count, iov, regions);
	if (ret)
		return ret;
	return key ? rdmamsg__send_invalidate(ep, iov, count, tag, key,
					      cookie, tell) :
	       rdmamsg__sendv_regions(ep, iov, regions, count, tag, cookie,
				      tell);
}
