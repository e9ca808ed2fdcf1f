/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, of the process and of a context. */
#ifndef RDMAMSG_LIB_DEVICE_H
#define RDMAMSG_LIB_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#include "base/ctx.h"
#include "base/list.h"
#include "base/masked.h"
#include "base/qpmap.h"
#include "base/timer.h"
#include "base/watch.h"
#include "device/verbs_api.h"

enum device_kind { KIND_UNKNOWN, KIND_SOFT_ROCE, KIND_ROCE, KIND_IB, KIND_IWARP,
		   KIND_SIW, KIND_SOFT, KIND_SOFT_IWARP };

struct device_cache;
struct device_use;
struct late;
struct umr_loop;

struct rdmamsg_device {
	struct list node;		/* with refs under devices_lock */
	int refs;
	const struct verbs_api *v;
	struct ibv_context *verbs;	/* NULL before it is open */
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	/* atomics that libibverbs lacks: rdmamsg__device_masked() */
	struct masked_caps masked;
	pthread_mutex_t masked_lock;
	_Atomic bool masked_known;
	enum device_kind kind;
	struct ibv_cq *reserve;		/* NULL: none needed; see device.c */
	char name[64];
	_Atomic bool gone;		/* removed; a new one may follow */
	/* result of trying ibv_resize_cq() */
	_Atomic enum { RESIZE_UNKNOWN, RESIZE_WORKS, RESIZE_FAILS } cq_resize;
	struct {			/* removal.c; NULL: not watched */
		struct rdma_event_channel *ch;
		struct rdma_cm_id *id;
	} removal;
	struct device_cache *cache;	/* cached.h */
	pthread_mutex_t lock;		/* for opening, events, and all below */
	struct list ports;		/* struct dev of each context */
	bool silent;			/* no more async events will come */
};

/* A device, as one context uses it in one protection domain. */
struct dev {
	struct list node;		/* in ctx->devices->devs */
	struct list port_node;		/* in device->ports */
	struct rdmamsg *ctx;
	struct rdmamsg_device *device;
	struct ibv_pd *pd;		/* of all objects; NULL: it is gone */
	struct rdmamsg_pd *owner;	/* NULL: pd of device, or single */
	bool single;			/* pd is of one guarded endpoint */
	/* dev with channel and cqs: itself, unless it is single */
	struct dev *queues;
	struct ibv_comp_channel *channel;
	struct watch near;		/* attend.h; fd -1: none */
	struct {
		uint64_t stock[32];
		uint32_t left;		/* numbers that are not used yet */
	} random;			/* memory/hide.c */
	bool asks_near;			/* for it, when it first waits */
	bool attends;			/* since attend_wait() */
	struct list cqs;
	struct list recv_pools;
	struct list send_pools;
	struct list large;		/* struct large, free buffers */
	struct list loose;		/* messages outside of pools */
	uint32_t eps;
	uint32_t msgs_out;		/* messages that the program has */
	struct list regions;		/* struct region_mr */
	struct umr_loop *umr;		/* defines keys of layouts, or NULL */
	struct proof *proof;		/* NULL: not needed yet */
	bool umr_absent;		/* the device has no such keys */
	/* a ring of the keys given to peers, see region.c */
	struct export {
		uint64_t region;	/* id; 0: unused */
		uint32_t ep;		/* key of the endpoint */
	} exports[16];
	uint32_t export_count;
	struct list srqs;
	struct qpmap qps;		/* of endpoints with an srq */
	struct timer linger;		/* until an unused dev is closed */
	bool reap;			/* close it when settling */
	bool watched;			/* by the program; counted in eps */
	struct late *late;		/* NULL: no queue pair was late */
};

/* The devices of a context. */
struct devices {
	const struct device_use *use;
	struct list devs;		/* single devs last */
	struct list pd_list;		/* struct rdmamsg_pd */
	bool reap;			/* a dev has reap set */
	uint32_t early;			/* queues with early completions */
};

/* Closes devs when the context settles. */
static inline void rdmamsg__reap(struct rdmamsg *ctx)
{
	ctx->devices->reap = true;
	ctx->loop.work = true;
}

/* fork.c: call it before memory is registered. */
void rdmamsg__fork_protect(const struct verbs_api *v);

/* device.c */
int rdmamsg__dev_get(struct rdmamsg *ctx, const struct verbs_api *v,
		     const char *name, struct rdmamsg_pd *pd, struct dev **ret);
/*
 * Creates a dev for one endpoint. Its protection domain ends with the endpoint.
 */
int rdmamsg__dev_single(struct rdmamsg *ctx, const struct verbs_api *v,
			const char *name, struct dev **ret);
void rdmamsg__dev_put(struct dev *dev);
/* Creates a completion channel that does not block. */
int rdmamsg__channel_new(const struct rdmamsg_device *d,
			 struct ibv_comp_channel **ret);
void rdmamsg__dev_close(struct dev *dev);
/*
 * Frees the protection domain of an unused dev. -EBUSY if it cannot be freed.
 */
int rdmamsg__dev_disown(struct dev *dev);
void rdmamsg__dev_removed(struct dev *dev);
/* Like rdmamsg__dev_removed(), without a dev. */
void rdmamsg__device_removed(struct rdmamsg_device *d);
/* Closes the unused devs of a removed device soon. */
void rdmamsg__devs_gone(struct rdmamsg *ctx, const struct rdmamsg_device *d);
/*
 * Returns true if the device does not answer. A removed device refuses calls
 * and flushes requests before its removal is reported.
 */
bool rdmamsg__device_lost(const struct rdmamsg_device *d);
/* -EINVAL: the device registers no region of that size. */
int rdmamsg__device_mr_check(const struct rdmamsg_device *d, size_t len);
/* Drops a reference. The last one closes the device. From any thread. */
void rdmamsg__device_put(struct rdmamsg_device *d);
/* Keeps the device open for the life of the process. */
void rdmamsg__device_keep(struct rdmamsg_device *d);
void rdmamsg__devs_reap(struct rdmamsg *ctx);

/* removal.c: the removal of Soft-RoCE devices */
void rdmamsg__removal_open(struct rdmamsg_device *d);
void rdmamsg__removal_close(struct rdmamsg_device *d);
/* Returns true if the device was removed. The caller holds d->lock. */
bool rdmamsg__removal_read(struct rdmamsg_device *d);

/* device_list.c */
/*
 * Lists the devices of a table, at least one. The caller frees the list with
 * free_device_list() of the table. -ENODEV, -EACCES, -EMFILE, -ENOMEM.
 */
int rdmamsg__list_devices(const struct verbs_api *v, struct ibv_device ***ret,
			  int *ret_n);
/*
 * Returns -EACCES if this process may not open the device node, else err.
 * Needed because the libraries below try several ways to open a node, and
 * report the error of the last.
 */
int rdmamsg__node_error(int err, const char *node);
int rdmamsg__open_listed(const struct verbs_api *v, struct ibv_device *device,
			 struct ibv_context **ret);
/* -ENODEV: there is no device; -ENXIO: none has that name; -EACCES */
int rdmamsg__open_by_name(const struct verbs_api *v, const char *name,
			  struct ibv_context **ret);
/*
 * Returns -EOPNOTSUPP if only the connection manager can connect queue pairs of
 * such a device.
 */
int rdmamsg__device_walks(const char *name, enum ibv_transport_type transport);
/*
 * Returns 0 if the device exists and can be opened. Else the errors of
 * rdmamsg__open_by_name(). If 'by_cm' is false, also -EOPNOTSUPP as above.
 */
int rdmamsg__device_check(const struct verbs_api *v, const char *name,
			  bool by_cm);
/* Returns a local address of the device, for binding. Same errors. */
int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret);
/*
 * Writes the addresses of this host that lead to the device, or to any device
 * if name is NULL, but at most 'room'. Returns their number.
 */
unsigned int rdmamsg__device_addrs(const struct verbs_api *v, const char *name,
				   bool loopback, struct sockaddr_storage *ret,
				   unsigned int room);
/*
 * Gives an address of an open device. Returns false if it has none of the
 * family. AF_UNSPEC: any family.
 */
bool rdmamsg__verbs_addr(const struct verbs_api *v, struct ibv_context *verbs,
			 int family, struct sockaddr_storage *ret);
/*
 * Returns 0 if there is an RDMA device that this process can open, else -errno.
 */
int rdmamsg__device_any(const struct verbs_api *v);
/*
 * Returns true if a device is iWARP. There a listener at the wildcard of IPv6
 * takes no IPv4: Linux 6.1, cma.c, iw_conn_req_handler() asks
 * rdma_translate_ip() for the interface of the local address, which fails for
 * an IPv4 address mapped into IPv6.
 */
bool rdmamsg__device_any_iwarp(const struct verbs_api *v);
/*
 * The preload library of the soft HCA exports this symbol, see rdmamsg-soft(1).
 * Then the soft HCA is a device of libibverbs, and a second table would only
 * duplicate it.
 */
extern const char soft_preloaded[] __attribute__((weak));
static inline bool rdmamsg__soft_below(void)
{
	return soft_preloaded && rdmamsg__verbs == &rdmamsg__verbs_system;
}
/* Returns true if the soft HCA may be used beside the devices of libibverbs. */
static inline bool rdmamsg__soft_possible(void)
{
	return !soft_preloaded && rdmamsg__verbs == &rdmamsg__verbs_system;
}

#endif
