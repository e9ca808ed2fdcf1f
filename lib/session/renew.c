/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of regions outlive a lane. On another device a region has another rkey.
 * So the owner tells the peer the present rkey of each key that it has given.
 * The programs go on using the keys that they have.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "memory/memory.h"
#include "memory/region.h"
#include "session/ep.h"
#include "session/resume.h"
#include "wire/resume.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- the owner --------------------------------------------------------- */

static struct rdmamsg_region *find_region(struct rdmamsg_ep *ep, uint64_t id)
{
	struct list *n;

	list_for_each(n, &ep->ctx->memory->region_list) {
		struct rdmamsg_region *region =
			list_entry(n, struct rdmamsg_region, node);

		if (region->id == id)
			return region;
	}
	return NULL;
}

void rdmamsg__renew_key(struct rdmamsg_ep *ep, struct dev *dev, uint32_t at,
			struct proto_renewed *ret)
{
	const struct given_key *p = &ep->resume->given.keys[at];
	struct rdmamsg_region *region = find_region(ep, p->region);

	*ret = (struct proto_renewed){
		.region = p->region, .given = p->rkey,
		.state = PROTO_KEY_REVOKED,
	};
	if (!region || region->revocations != p->revocations)
		return;
	/* on failure the peer loses this key, and the session goes on */
	if (rdmamsg__try(rdmamsg__region_register(region, dev))) {
		ep_warn(ep, "the peer's key of region %llu ends: %s",
			(unsigned long long)p->region, rdmamsg__text());
		return;
	}
	ret->rkey = rdmamsg__region_mr(region, dev)->rkey;
	ret->state = PROTO_KEY_VALID;
}

/* ---- the peer ---------------------------------------------------------- */

int rdmamsg__renew_take(struct resume *r, const struct proto_renewed *k)
{
	struct proto_renewed *p;

	if (r->renewing_count == KEYS_MAX)
		return -EPROTO;
	p = realloc(r->renewing, (r->renewing_count + 1) * sizeof(*p));
	if (!p)
		return -ENOMEM;
	r->renewing = p;
	r->renewing[r->renewing_count++] = *k;
	return 0;
}

void rdmamsg__renew_forget(struct resume *r)
{
	free(r->renewing);
	r->renewing = NULL;
	r->renewing_count = 0;
}

static int compare(const void *a, const void *b)
{
	const struct proto_renewed *x = a, *y = b;

	if (x->region != y->region)
		return x->region < y->region ? -1 : 1;
	return x->given < y->given ? -1 : x->given > y->given;
}

void rdmamsg__renew_done(struct resume *r)
{
	if (r->renewing_count)
		qsort(r->renewing, r->renewing_count, sizeof(*r->renewing),
		      compare);
	free(r->renewed);
	r->renewed = r->renewing;
	r->renewed_count = r->renewing_count;
	r->renewing = NULL;
	r->renewing_count = 0;
}

/* Keys that are not in the list were given over the lane in use. */
int rdmamsg__renew_find(const struct rdmamsg_ep *ep, uint64_t region,
			uint32_t *rkey)
{
	const struct resume *r = ep->resume;
	const struct proto_renewed want = { .region = region, .given = *rkey };
	const struct proto_renewed *k;

	if (!r->renewed_count)
		return 0;
	k = bsearch(&want, r->renewed, r->renewed_count, sizeof(want), compare);
	if (!k)
		return 0;
	if (k->state == PROTO_KEY_REVOKED)
		return rdmamsg__fail(-EACCES, "the peer has revoked the key of "
				     "region %llu", (unsigned long long)region);
	*rkey = k->rkey;
	return 0;
}
