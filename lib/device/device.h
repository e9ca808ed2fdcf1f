/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, of the process and as a context uses them. */
#ifndef RDMAMSG_LIB_DEVICE_H
#define RDMAMSG_LIB_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#include "base/ctx.h"
#include "base/list.h"
#include "base/qpmap.h"
#include "base/timer.h"
#include "device/verbs_api.h"

enum device_kind { KIND_SOFT_ROCE, KIND_ROCE, KIND_IB, KIND_IWARP, KIND_SOFT };

struct device_use;

struct rdmamsg_device {
	struct list node;		/* these two: device.c's lock */
	int refs;
	const struct verbs_api *v;
	struct ibv_context *verbs;	/* NULL until it is open */
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	enum device_kind kind;
	char name[64];
	_Atomic bool gone;		/* removed: find a new one by name */
	/* whether ibv_resize_cq() works, once it was tried */
	_Atomic enum { RESIZE_UNKNOWN, RESIZE_WORKS, RESIZE_FAILS } cq_resize;
	struct {			/* removal.c; NULL: not watched */
		struct rdma_event_channel *ch;
		struct rdma_cm_id *id;
	} removal;
	pthread_mutex_t lock;		/* of opening, events, and the rest */
	struct list ports;		/* struct dev of each context */
	bool silent;			/* no async event will come any more */
};

/* A device as one context uses it, in one protection domain. */
struct dev {
	struct list node;		/* of the context */
	struct list port_node;		/* of the device */
	struct rdmamsg *ctx;
	struct rdmamsg_device *device;
	struct ibv_pd *pd;		/* all is in this; NULL: it has gone */
	struct rdmamsg_pd *owner;	/* of pd; NULL: the device or single */
	bool single;			/* pd is of one guarded endpoint */
	/* channel and cqs are in queues: this dev unless it is single */
	struct dev *queues;
	struct ibv_comp_channel *channel;
	struct list cqs;
	struct list recv_pools;
	struct list send_pools;
	struct list large;		/* spare large buffers, struct large */
	struct list loose;		/* messages that are in no pool */
	uint32_t eps;
	uint32_t msgs_out;		/* messages in the program's hands */
	struct list regions;		/* struct region_mr */
	/* whose keys peers were given, a ring: region.c knows what for */
	struct export {
		uint64_t region;	/* id, 0: none yet */
		uint32_t ep;		/* key of the endpoint */
	} exports[16];
	uint32_t export_count;
	struct list srqs;
	struct qpmap qps;		/* of endpoints with one */
	struct timer linger;		/* closes it when unused */
	bool reap;			/* close it when settling */
};

/* The part of a context. */
struct devices {
	const struct device_use *use;
	struct list devs;		/* single ones last */
	struct list pd_list;		/* struct rdmamsg_pd */
	bool reap;			/* a dev is to be closed */
};

/* A device is to be closed when we are through. */
static inline void rdmamsg__reap(struct rdmamsg *ctx)
{
	ctx->devices->reap = true;
	ctx->loop.work = true;
}

/* fork.c: called before memory is registered. */
void rdmamsg__fork_protect(const struct verbs_api *v);

/* device.c */
int rdmamsg__dev_get(struct rdmamsg *ctx, const struct verbs_api *v,
		     const char *name, struct rdmamsg_pd *pd, struct dev **ret);
/* A new dev for one endpoint. Its protection domain ends with the endpoint. */
int rdmamsg__dev_single(struct rdmamsg *ctx, const struct verbs_api *v,
			const char *name, struct dev **ret);
void rdmamsg__dev_put(struct dev *dev);
void rdmamsg__dev_close(struct dev *dev);
/* Nothing uses it: its protection domain goes. -EBUSY if it cannot. */
int rdmamsg__dev_disown(struct dev *dev);
void rdmamsg__dev_removed(struct dev *dev);
/* The same for one of which the caller may have nothing. */
void rdmamsg__device_removed(struct rdmamsg_device *d);
/* Parts of a removed device that nothing uses are closed soon. */
void rdmamsg__devs_gone(struct rdmamsg *ctx, const struct rdmamsg_device *d);
/* One that goes refuses and flushes before it has said so. */
bool rdmamsg__device_lost(const struct rdmamsg_device *d);
/* The device stays open for good. */
void rdmamsg__device_keep(struct rdmamsg_device *d);
void rdmamsg__devs_reap(struct rdmamsg *ctx);

/* removal.c: what tells of it on Soft-RoCE */
void rdmamsg__removal_open(struct rdmamsg_device *d);
void rdmamsg__removal_close(struct rdmamsg_device *d);
/* Under the device's lock. */
bool rdmamsg__removal_read(struct rdmamsg_device *d);

/* device_list.c */
/* -ENODEV, -EACCES */
int rdmamsg__open_by_name(const struct verbs_api *v, const char *name,
			  struct ibv_context **ret);
/* -EOPNOTSUPP if endpoints are not made on such a device. */
int rdmamsg__device_carries(const char *name,
			    enum ibv_transport_type transport);
/*
 * 0 if there is such a device, and it can be opened and carries endpoints.
 * -ENODEV, -EACCES, -EOPNOTSUPP.
 */
int rdmamsg__device_check(const struct verbs_api *v, const char *name);
/* A local address of the named device, for binding. The same errors. */
int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret);
/* The same for an open device; false: it has none. AF_UNSPEC: of any family. */
bool rdmamsg__verbs_addr(const struct verbs_api *v, struct ibv_context *verbs,
			 int family, struct sockaddr_storage *ret);
/* Whether an RDMA device is there to be opened, or -errno with the reason. */
int rdmamsg__device_any(const struct verbs_api *v);
/*
 * Exported by the soft HCA's preload library, rdmamsg-soft(1). Then the device
 * is below libibverbs, and a second one beside it would only be in its way.
 */
extern const char soft_preloaded[] __attribute__((weak));
static inline bool rdmamsg__soft_below(void)
{
	return soft_preloaded && rdmamsg__verbs == &rdmamsg__verbs_system;
}
/* Whether there may be one beside the devices of libibverbs. */
static inline bool rdmamsg__soft_possible(void)
{
	return !soft_preloaded && rdmamsg__verbs == &rdmamsg__verbs_system;
}

#endif
