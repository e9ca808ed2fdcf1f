/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: GIDs, P_Keys and counters of ports. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "soft/fabric/count.h"
#include "soft/fabric/gid.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"

uint64_t soft_port_retries(struct ibv_context *verbs, uint32_t port)
{
	return soft_count_sum(soft_dev_of(verbs), port, SOFT_ACK_TIMEOUTS);
}

/* ---- GIDs ------------------------------------------------------------- */

/* Returns 0 or an errno. */
static int query(struct ibv_context *verbs, uint32_t port, uint32_t index,
		 struct soft_gid *ret)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	int err;

	if (soft_ctx(verbs)->removed)
		return EIO;
	soft_lock(dev);
	err = soft_gid_error(dev, port);
	if (!err)
		err = soft_port_gid(dev, port, index, ret);
	soft_unlock(dev);
	return err;
}

/* An empty entry is no error here, unlike in ibv_query_gid_ex(3). */
int soft_query_gid(struct ibv_context *verbs, uint8_t port, int index,
		   union ibv_gid *gid)
{
	struct soft_gid g;
	int err = query(verbs, port, (uint32_t)index, &g);

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*gid = g.gid;
	return 0;
}

int soft_query_gid_type(struct ibv_context *verbs, uint8_t port,
			unsigned int index, unsigned int *type)
{
	struct soft_gid g;
	int err = query(verbs, port, index, &g);

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	/* 0: InfiniBand, RoCE v1 or iWARP; 1: RoCE v2 */
	*type = soft_is_roce(soft_dev_of(verbs));
	return 0;
}

static void fill_entry(const struct soft_dev *dev, uint32_t port,
		       uint32_t index, const struct soft_gid *g,
		       struct ibv_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->gid = g->gid;
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = soft_is_roce(dev) ? IBV_GID_TYPE_ROCE_V2 :
			  IBV_GID_TYPE_IB;
	entry->ndev_ifindex = g->ifindex;
}

int soft_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags,
		      size_t entry_size)
{
	struct soft_gid g;
	int err;

	if (flags)
		return EOPNOTSUPP;
	if (entry_size < sizeof(*entry))
		return EINVAL;
	err = query(verbs, port, index, &g);
	if (!err)
		fill_entry(soft_dev_of(verbs), port, index, &g, entry);
	return err;
}

/* Returns the number of non-empty entries, or -EINVAL if room is too small. */
ssize_t soft_query_gid_table(struct ibv_context *verbs,
			     struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_gid g;
	size_t n = 0;
	int err = 0;

	if (flags)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(*entries))
		return -EINVAL;
	soft_lock(dev);
	soft_gids_read(dev);
	for (uint32_t port = 1; port <= (uint32_t)dev->ports; port++) {
		err = err ? err : soft_gid_error(dev, port);
		for (uint32_t i = 0; i < (uint32_t)soft_gids(dev); i++) {
			if (soft_port_gid(dev, port, i, &g))
				continue;
			if (n < max_entries)
				fill_entry(dev, port, i, &g,
					   (struct ibv_gid_entry *)
					   ((char *)entries + n * entry_size));
			n++;
		}
	}
	soft_unlock(dev);
	return err ? -err : n > max_entries ? -EINVAL : (ssize_t)n;
}

/* ---- P_Keys ----------------------------------------------------------- */

int soft_query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		    __be16 *pkey)
{
	if (soft_ctx(verbs)->removed) {
		errno = EIO;
		return -1;
	}
	if (soft_dev_of(verbs)->iwarp) {
		errno = ENOENT;		/* as libibverbs without the file */
		return -1;
	}
	if (!port || port > soft_dev_of(verbs)->ports || index) {
		errno = EINVAL;
		return -1;
	}
	errno = soft_pkey_error(soft_dev_of(verbs), port);
	if (errno)
		return -1;
	*pkey = htobe16(soft_pkey(soft_dev_of(verbs), port));
	return 0;
}

int soft_get_pkey_index(struct ibv_context *verbs, uint8_t port, __be16 pkey)
{
	if (!port || port > soft_dev_of(verbs)->ports ||
	    soft_dev_of(verbs)->iwarp || pkey != htobe16(soft_pkey(soft_dev_of(verbs), port))) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}
