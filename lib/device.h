/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, of the process and as a context uses them. */
#ifndef RDMAMSG_LIB_DEVICE_H
#define RDMAMSG_LIB_DEVICE_H

enum device_kind { KIND_SOFT_ROCE, KIND_ROCE, KIND_IB, KIND_IWARP, KIND_SOFT };

struct rdmamsg_qp;

struct rdmamsg_device {
	struct list node;		/* all, under the lock */
	int refs;
	const struct verbs_api *v;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	enum device_kind kind;
	char name[64];
	bool gone;			/* removed: find a new one by name */
	struct list ports;		/* struct dev of each context */
	struct dev *async_reader;	/* its context reads async events */
};

/* What memory was made of. */
struct pages {
	bool huge, advised, on_node;
};

/* A registered stretch of pool memory. */
struct slab {
	struct list node;
	struct ibv_mr *mr;
	void *mem;
	size_t size;
	struct rdmamsg_msg *msgs;
	struct pages pages;
	uint32_t unused;		/* of its buffers, when it matters */
};

/* Buffers of one size in local-access memory of one dev. */
struct pool {
	struct list node;
	struct dev *dev;
	struct rdmamsg_pool *owner;	/* NULL: for all */
	size_t buf_size;
	struct rdmamsg_msg *free;
	uint32_t total, used;
	bool stays;			/* slabs do, though nobody uses them */
	struct list slabs;
};

struct cq {
	struct list node;
	struct ibv_cq *ibv;
	uint32_t room, used;		/* entries, and promised ones */
	uint32_t events;		/* got, not yet acked */
	bool unarmed;			/* arming failed: raises no event */
	bool own;			/* of one endpoint, and ends with it */
	uint32_t vector;
};

/* A device as one context uses it, in one protection domain. */
struct dev {
	struct list node;		/* of the context */
	struct list port_node;		/* of the device */
	struct rdmamsg *ctx;
	struct rdmamsg_device *device;
	struct ibv_pd *pd;		/* all is in this; NULL: it has gone */
	struct rdmamsg_pd *owner;	/* of pd, or NULL: the device */
	struct ibv_comp_channel *channel;
	struct list cqs;
	struct list recv_pools;
	struct list send_pools;
	struct list large;		/* free large buffers, struct large */
	struct list loose;		/* messages that are in no pool */
	size_t large_bytes;
	uint32_t eps;
	uint32_t msgs_out;		/* messages in the program's hands */
	struct list regions;		/* struct region_mr */
	struct list srqs;
	struct qpmap qps;		/* of endpoints with one */
	struct timer linger;		/* closes it when unused */
	bool reap;			/* close it when settling */
};

/* device.c */
/* The list of all, and what contexts share of each. */
extern pthread_mutex_t rdmamsg__devices_lock;
int rdmamsg__dev_get(struct rdmamsg *ctx, const struct verbs_api *v,
		     const char *name, struct rdmamsg_pd *pd, struct dev **ret);
void rdmamsg__dev_put(struct dev *dev);
void rdmamsg__dev_close(struct dev *dev);
/* Nothing uses it: its protection domain goes. -EBUSY if it cannot. */
int rdmamsg__dev_disown(struct dev *dev);
void rdmamsg__dev_removed(struct dev *dev);
/* One that goes refuses and flushes before it has said so. */
bool rdmamsg__device_lost(const struct rdmamsg_device *d);
/* This queue pair outlives its context: so does the device, for good. */
void rdmamsg__dev_keep(struct rdmamsg_qp *q);
void rdmamsg__devs_reap(struct rdmamsg *ctx);

/* async.c: has it read by this context, if by none yet; passes that on. */
void rdmamsg__async_start(struct dev *dev);	/* under the lock */
void rdmamsg__async_stop(struct dev *dev);	/* under the lock */
void rdmamsg__dev_async(struct dev *dev);
/* It could not be destroyed, but its owner goes: the device may tell of it. */
void rdmamsg__async_forget(struct ibv_qp *qp);

/* device_list.c */
const char *rdmamsg__kind_name(enum device_kind kind);
enum device_kind rdmamsg__kind_of(const struct verbs_api *v,
				  struct ibv_context *verbs,
				  const struct ibv_device_attr *attr);
/* -ENODEV, -EACCES */
int rdmamsg__open_by_name(const struct verbs_api *v, const char *name,
			  struct ibv_context **ret);
/* 0 if there is such a device and it can be opened. -ENODEV, -EACCES. */
int rdmamsg__device_check(const struct verbs_api *v, const char *name);
/* A local address of the named device, for binding. -ENODEV. */
int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret);
/* Whether an RDMA device is there to be opened, or -errno with the reason. */
int rdmamsg__device_any(const struct verbs_api *v);
/*
 * The table of what was asked for: "hw", "soft", or the name of a device.
 * NULL when nothing was: then the address decides.
 */
const struct verbs_api *rdmamsg__device_table(const char *asked);
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
