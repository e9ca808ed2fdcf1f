/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported calls of libibverbs. Its inline calls dispatch through the
 * context. Calls that need no device stay with libibverbs: strings, rates,
 * copies of attributes.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "soft/preload/preload.h"
#include "base/fd.h"
#include "soft/fabric/dev.h"
#include "soft/soft.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/ctx.h"

/* macros over functions of the same name */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* from libibverbs' driver.h, which is not installed; it returns an enum */
int ibv_query_gid_type(struct ibv_context *verbs, uint8_t port,
		       unsigned int index, unsigned int *type);

/*
 * librdmamsg looks for this symbol. If it is there, librdmamsg uses no soft HCA
 * of its own.
 */
extern const char soft_preloaded[];
const char soft_preloaded[] = "soft0";

/*
 * Descriptors reserved for the next context. librdmacm reports ENODEV for every
 * failure to open the device. So earlier calls reserve the descriptors, or fail
 * with EMFILE. Opening a context or destroying the last event channel releases
 * them.
 */
#define CONTEXT_FDS	2

static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static int aside[CONTEXT_FDS] = { -1, -1 };
static uint32_t channels;		/* of this process */

static void release_aside(void)
{
	int err = errno;

	for (int i = 0; i < CONTEXT_FDS; i++) {
		if (aside[i] >= 0)
			close(aside[i]);
		aside[i] = -1;
	}
	errno = err;
}

static int put_aside(void)
{
	for (int i = 0; i < CONTEXT_FDS; i++) {
		if (aside[i] < 0)
			aside[i] = fd_high(eventfd(0, EFD_CLOEXEC));
		if (aside[i] < 0) {
			release_aside();
			return -errno;
		}
	}
	return 0;
}

static int hold(void)
{
	static pid_t holder;
	struct soft_dev *dev;
	int err;

	if (holder == getpid())
		return put_aside();
	err = soft_open(&dev);
	if (err)
		return err;
	/* in a forked child, the inherited descriptors will do */
	err = put_aside();
	if (err) {
		soft_dev_put(dev);
		return err;
	}
	holder = getpid();
	channels = 0;
	return 0;
}

static bool hold_device(uint32_t new_channels)
{
	int err;

	(void)pthread_mutex_lock(&hold_lock);
	err = hold();
	if (!err)
		channels += new_channels;
	if (!err && !channels)
		release_aside();
	(void)pthread_mutex_unlock(&hold_lock);
	errno = -err;
	return !err;
}

bool preload_add_channel(void)
{
	return hold_device(1);
}

void preload_drop_channel(void)
{
	(void)pthread_mutex_lock(&hold_lock);
	if (!--channels)
		release_aside();
	(void)pthread_mutex_unlock(&hold_lock);
}

/* ---- devices ---------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *num)
{
	return hold_device(0) ? soft_get_device_list(num) : NULL;
}

void ibv_free_device_list(struct ibv_device **list)
{
	soft_free_device_list(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return soft_get_device_name(device);
}

int ibv_get_device_index(struct ibv_device *device)
{
	return 0;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return soft_get_device_guid(device);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *verbs;

	(void)pthread_mutex_lock(&hold_lock);
	release_aside();
	verbs = soft_open_device(device);
	(void)pthread_mutex_unlock(&hold_lock);
	return verbs;
}

int ibv_close_device(struct ibv_context *verbs)
{
	return soft_close_device(verbs);
}

int ibv_get_async_event(struct ibv_context *verbs,
			struct ibv_async_event *event)
{
	return soft_get_async_event(verbs, event);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	soft_ack_async_event(event);
}

/* No fork support is needed, because only the CPU accesses memory. */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* ---- attributes ------------------------------------------------------- */

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	return soft_query_device(verbs, attr);
}

/* Programs built with libibverbs before 1.1.8 have a shorter struct. */
int ibv_query_port(struct ibv_context *verbs, uint8_t port,
		   struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr full;
	int ret = soft_query_port(verbs, port, &full);

	if (!ret)
		memcpy(attr, &full, offsetof(struct ibv_port_attr,
					     port_cap_flags2));
	return ret;
}

int ibv_query_gid(struct ibv_context *verbs, uint8_t port, int index,
		  union ibv_gid *gid)
{
	return soft_query_gid(verbs, port, index, gid);
}

int ibv_query_gid_type(struct ibv_context *verbs, uint8_t port,
		       unsigned int index, unsigned int *type)
{
	return soft_query_gid_type(verbs, port, index, type);
}

int _ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	return soft_query_gid_ex(verbs, port, index, entry, flags, size);
}

ssize_t _ibv_query_gid_table(struct ibv_context *verbs,
			     struct ibv_gid_entry *entries, size_t room,
			     uint32_t flags, size_t size)
{
	return soft_query_gid_table(verbs, entries, room, flags, size);
}

int ibv_query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		   __be16 *pkey)
{
	return soft_query_pkey(verbs, port, index, pkey);
}

int ibv_get_pkey_index(struct ibv_context *verbs, uint8_t port, __be16 pkey)
{
	return soft_get_pkey_index(verbs, port, pkey);
}

/* ---- domains and memory ----------------------------------------------- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
	return soft_alloc_pd(verbs);
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return soft_dealloc_pd(pd);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return soft_reg_mr(pd, addr, len, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
			       uint64_t iova, int access)
{
	return soft_reg_mr_iova(pd, addr, len, iova, access);
}

/* Flags of the optional range may be ignored. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, unsigned int access)
{
	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	return soft_reg_mr_iova(pd, addr, len, iova, (int)access);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t len, int access)
{
	return soft_rereg_mr(mr, flags, pd, addr, len, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return soft_dereg_mr(mr);
}

/* ---- completion queues ------------------------------------------------ */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *verbs)
{
	return soft_create_comp_channel(verbs);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return soft_destroy_comp_channel(channel);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int cqe,
			     void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	return soft_create_cq(verbs, cqe, cq_context, channel, comp_vector);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return soft_destroy_cq(cq);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **cq_context)
{
	return soft_get_cq_event(channel, cq, cq_context);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	soft_ack_cq_events(cq, n);
}

/* ---- queue pairs ------------------------------------------------------ */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return soft_create_qp(pd, attr);
}

/* Needed because libibverbs' own call looks for a flag elsewhere. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return soft_qp_to_qp_ex(qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return soft_modify_qp(qp, attr, mask);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	return soft_query_qp(qp, attr, mask, init);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return soft_destroy_qp(qp);
}

/* The device does not promise the order in which bytes become visible. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
			       uint32_t flags)
{
	return 0;
}

/* ---- datagrams and groups --------------------------------------------- */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return soft_create_ah(pd, attr);
}

int ibv_init_ah_from_wc(struct ibv_context *verbs, uint8_t port,
			struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	return soft_init_ah_from_wc(verbs, port, wc, grh, attr);
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				     struct ibv_grh *grh, uint8_t port)
{
	return soft_create_ah_from_wc(pd, wc, grh, port);
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return soft_destroy_ah(ah);
}

/* No frames exist, so reports the address of the loopback interface. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *verbs,
				struct ibv_ah_attr *attr,
				uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	bool ok;

	soft_lock(dev);
	ok = soft_ah_attr_ok(dev, attr);
	soft_unlock(dev);
	if (!ok)
		return -EHOSTUNREACH;
	memset(mac, 0, ETHERNET_LL_SIZE);
	if (vid)
		*vid = 0xffff;
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return soft_attach_mcast(qp, gid, lid);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return soft_detach_mcast(qp, gid, lid);
}

/* ---- shared receive queues, other sizes ------------------------------- */

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return soft_resize_cq(cq, cqe);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
			       struct ibv_srq_init_attr *attr)
{
	return soft_create_srq(pd, attr);
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return soft_modify_srq(srq, attr, mask);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return soft_query_srq(srq, attr);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return soft_destroy_srq(srq);
}
