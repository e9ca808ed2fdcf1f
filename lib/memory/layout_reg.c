/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations of layouts. A layout has registrations of its own for peers,
 * which end when the layout changes. With the registrations of its regions,
 * earlier keys would stay valid.
 */
#include "base/base.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "device/umr.h"
#include "memory/layout.h"
#include "memory/layout_ask.h"
#include "memory/region.h"
#include "wire/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/rdmamsg.h>

/* ---- regions ---------------------------------------------------------- */

int rdmamsg__layout_ready(const struct rdmamsg_layout *layout,
			  const struct dev *dev)
{
	const struct layout_map *m = layout->map;

	for (uint32_t i = 0; i < m->desc.sources; i++)
		if (!rdmamsg__region_mr(m->regions[i], dev))
			return rdmamsg__region_missing(m->regions[i], dev);
	return 0;
}

static int register_sources(const struct layout_map *m, struct dev *dev)
{
	int err = 0;

	for (uint32_t i = 0; i < m->desc.sources && !err; i++)
		err = rdmamsg__region_register(m->regions[i], dev);
	return err;
}

static int register_shadows(const struct layout_map *m, struct dev *dev)
{
	int err = 0;

	for (uint32_t i = 0; i < m->desc.sources && !err; i++)
		err = rdmamsg__region_register(&m->shadows[i], dev);
	return err;
}

/* ---- keys of the device ----------------------------------------------- */

static struct layout_job *find_job(const struct layout_map *m,
				   const struct dev *dev, bool own)
{
	struct list *n;

	list_for_each(n, &m->jobs) {
		struct layout_job *j = list_entry(n, struct layout_job, node);

		if (j->dev == dev && j->own == own)
			return j;
	}
	return NULL;
}

static void job_free(struct layout_job *j)
{
	list_del(&j->node);
	free(j);
}

/* A device that has failed leaves layouts in software. */
static void defined(void *arg, struct umr_key *key, int err)
{
	struct layout_job *j = arg;
	struct layout_map *m = j->map;

	if (!err)
		err = rdmamsg__try(rdmamsg__region_adopt(
				j->own ? &m->own : &m->native, j->dev,
				rdmamsg__umr_mr(key), key));
	if (j->own)
		m->gathers |= err == -EOPNOTSUPP;
	else if (err == -EOPNOTSUPP)
		err = rdmamsg__try(register_shadows(m, j->dev));
	rdmamsg__layout_asks_due(&j->asks, err);
	job_free(j);
}

static int begin(struct layout_job *j, int access)
{
	struct layout_map *m = j->map;

	for (uint32_t i = 0; i < m->desc.sources; i++)
		m->desc.source[i].rkey =
			rdmamsg__region_mr(m->regions[i], j->dev)->lkey;
	return rdmamsg__dev_umr_begin(j->dev, &m->desc, access, defined, j,
				      &j->umr);
}

/* Begins to make a key of the device for the layout. */
static int define(struct layout_map *m, struct dev *dev, int access, bool own,
		  struct layout_job **ret)
{
	struct layout_job *j = malloc(sizeof(*j));
	int err;

	if (!j)
		return rdmamsg__fail(-ENOMEM, "no memory for a key");
	*j = (struct layout_job){ .map = m, .dev = dev, .own = own };
	list_init(&j->asks);
	list_init(&j->node);
	err = begin(j, access);
	if (err) {
		job_free(j);
		return err;
	}
	list_add_tail(&m->jobs, &j->node);
	*ret = j;
	return 0;
}

/* ---- for this program ------------------------------------------------- */

/* A few blocks fit into the gather list of one request. */
static bool has_few_blocks(const struct layout *l)
{
	struct layout_run run;
	uint64_t at = 0;

	for (uint32_t n = 0; n < RDMAMSG_SEGMENTS_MAX && at < l->len; n++) {
		rdmamsg__layout_at(l, at, &run);
		at += run.len;
	}
	return at == l->len;
}

/*
 * Registers the layout where that saves requests. Until the device has defined
 * the key, requests gather the blocks.
 */
static int register_own(const struct rdmamsg_layout *layout, struct dev *dev)
{
	const bool writes = layout->region.access &
			    RDMAMSG_ACCESS_LOCAL_WRITE;
	struct layout_map *m = layout->map;
	struct layout_job *j;
	int err = 0;

	if (m->gathers || rdmamsg__region_mr(&m->own, dev) ||
	    find_job(m, dev, true))
		return 0;
	m->gathers = has_few_blocks(&m->desc);
	if (!m->gathers)
		err = define(m, dev, writes ? IBV_ACCESS_LOCAL_WRITE : 0, true,
			     &j);
	m->gathers |= err == -EOPNOTSUPP;
	if (m->gathers || err)
		return m->gathers ? 0 : err;
	/* some devices have defined it already */
	rdmamsg__dev_umr_poll(dev);
	return 0;
}

int rdmamsg__layout_register(const struct rdmamsg_layout *layout,
			     struct dev *dev)
{
	int err = register_sources(layout->map, dev);

	return err ? err : register_own(layout, dev);
}

void rdmamsg__layout_sge(const struct rdmamsg_layout *layout,
			 const struct dev *dev, uint64_t at, uint32_t len,
			 struct ibv_sge *ret)
{
	const struct layout_map *m = layout->map;
	const struct ibv_mr *own = rdmamsg__region_mr(&m->own, dev);
	struct layout_run run;

	if (own) {
		*ret = (struct ibv_sge){ at, len, own->lkey };
		return;
	}
	rdmamsg__layout_at(&m->desc, at, &run);
	ret->addr = m->desc.source[run.source].addr + run.offset;
	ret->length = (uint32_t)min(run.len, (uint64_t)len);
	ret->lkey = rdmamsg__region_mr(m->regions[run.source], dev)->lkey;
}

/* ---- for peers -------------------------------------------------------- */

/* Returns the access of a key for peers. */
static int key_access(uint32_t access)
{
	return rdmamsg__verbs_remote(access) |
	       (access & (RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_ATOMIC) ?
		IBV_ACCESS_LOCAL_WRITE : 0);
}

/* -EOPNOTSUPP: the device has no such layout. */
static int share_native(struct layout_map *m, struct dev *dev,
			struct layout_job **ret)
{
	int err = register_sources(m, dev);

	return err ? err : define(m, dev, key_access(m->desc.access), false,
				  ret);
}

int rdmamsg__layout_share(struct rdmamsg_layout *layout, struct dev *dev,
			  struct layout_job **ret)
{
	struct layout_map *m = layout->map;
	int err;

	*ret = find_job(m, dev, false);
	if (*ret || rdmamsg__region_mr(&m->native, dev))
		return 0;
	err = share_native(m, dev, ret);
	return err == -EOPNOTSUPP ? register_shadows(m, dev) : err;
}

bool rdmamsg__layout_exported(const struct rdmamsg_layout *layout,
			      const struct dev *dev)
{
	const struct layout_map *m = layout->map;

	return m && (rdmamsg__region_mr(&m->native, dev) ||
		     rdmamsg__region_mr(&m->shadows[m->desc.sources - 1],
					dev));
}

/*
 * A layout of the device has an ordinary key. Otherwise the key has the
 * description, and the sources get the rkeys of this device.
 */
size_t rdmamsg__layout_key_bytes(const struct rdmamsg_layout *layout,
				 const struct dev *dev, uint8_t *out)
{
	const struct layout_map *m = layout->map;
	const struct ibv_mr *native = rdmamsg__region_mr(&m->native, dev);
	const struct proto_key key = {
		.access = m->desc.access, .rkey = native ? native->rkey : 0,
		.region = m->desc.id, .len = m->desc.len,
	};

	if (native) {
		rdmamsg__key_encode(&key, out);
		return PROTO_KEY_LEN;
	}
	for (uint32_t i = 0; i < m->desc.sources; i++)
		m->desc.source[i].rkey =
			rdmamsg__region_mr(&m->shadows[i], dev)->rkey;
	rdmamsg__layout_encode(&m->desc, out);
	return rdmamsg__layout_bytes(&m->desc);
}

/* ---- end -------------------------------------------------------------- */

int rdmamsg__layout_withdraw(struct layout_map *m)
{
	int own, ret;

	while (!list_empty(&m->jobs)) {
		struct layout_job *j = list_first(&m->jobs, struct layout_job,
						  node);

		rdmamsg__umr_cancel(j->umr);
		job_free(j);
	}
	own = rdmamsg__region_dereg(&m->own);
	ret = rdmamsg__region_dereg(&m->native);
	ret = ret ? ret : own;
	for (uint32_t i = 0; i < m->desc.sources; i++) {
		int err = rdmamsg__region_dereg(&m->shadows[i]);

		ret = ret ? ret : err;
	}
	return ret;
}
