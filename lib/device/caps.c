/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls: the abilities of the library on a device, found by trying. */
#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "device/query.h"
#include "device/quirks.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define CQ_ROOM		32	/* for all completions that are left over */
#define OLD_ENOTSUPP	524	/* of the kernel, unknown to user space */

/* ---- answers ---------------------------------------------------------- */

static void say(struct rdmamsg_device_cap_attr *ret, enum rdmamsg_cap_how how,
		uint64_t value, const char *fmt, va_list ap)
{
	ret->how = how;
	ret->value = value;
	vsnprintf(ret->reason, sizeof(ret->reason), fmt, ap);
}

int rdmamsg__cap_say(struct rdmamsg_device_cap_attr *ret,
		     enum rdmamsg_cap_how how, uint64_t value, const char *fmt,
		     ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(ret, how, value, fmt, ap);
	va_end(ap);
	return 0;
}

int rdmamsg__cap_untried(struct rdmamsg_device_cap_attr *ret,
			 enum rdmamsg_cap_how how, uint64_t value,
			 const char *fmt, ...)
{
	va_list ap;

	ret->tried = false;
	va_start(ap, fmt);
	say(ret, how, value, fmt, ap);
	va_end(ap);
	return 0;
}

int rdmamsg__refused(int err, const char *what)
{
	if (err == -OLD_ENOTSUPP)
		err = -EOPNOTSUPP;
	return rdmamsg__fail(err, "%s: %s", what, strerror(-err));
}

/* ---- abilities -------------------------------------------------------- */

static const struct ability {
	const char *name;
	trial_fn *fn;
} abilities[] = {
	[RDMAMSG_CAP_INLINE] = { "inline", rdmamsg__try_inline },
	[RDMAMSG_CAP_IMMEDIATE] = { "immediate", rdmamsg__try_immediate },
	[RDMAMSG_CAP_WRITE] = { "write", rdmamsg__try_write },
	[RDMAMSG_CAP_READ] = { "read", rdmamsg__try_read },
	[RDMAMSG_CAP_ATOMICS] = { "atomics", rdmamsg__try_atomics },
	[RDMAMSG_CAP_WINDOWS] = { "windows", rdmamsg__try_windows },
	[RDMAMSG_CAP_INVALIDATE] = {
		"remote-invalidate", rdmamsg__try_invalidate,
	},
	[RDMAMSG_CAP_SRQ] = { "srq", rdmamsg__try_srq },
	[RDMAMSG_CAP_UC] = { "uc", rdmamsg__try_uc },
	[RDMAMSG_CAP_UD] = { "ud", rdmamsg__try_ud },
	[RDMAMSG_CAP_XRC] = { "xrc", rdmamsg__try_xrc },
	[RDMAMSG_CAP_RAW_PACKET] = { "raw-packet", rdmamsg__try_raw_packet },
	[RDMAMSG_CAP_MULTICAST] = { "multicast", rdmamsg__try_multicast },
	[RDMAMSG_CAP_BLOCK_LOOPBACK] = {
		"block-loopback", rdmamsg__try_block_loopback,
	},
	[RDMAMSG_CAP_ODP] = { "odp", rdmamsg__try_odp },
	[RDMAMSG_CAP_DMABUF] = { "dmabuf", rdmamsg__try_dmabuf },
	[RDMAMSG_CAP_HUGE_PAGES] = { "huge-pages", rdmamsg__try_huge_pages },
	[RDMAMSG_CAP_FORK] = { "fork", rdmamsg__try_fork },
	[RDMAMSG_CAP_CQ_RESIZE] = { "cq-resize", rdmamsg__try_cq_resize },
	[RDMAMSG_CAP_SEND_OPS] = { "send-ops", rdmamsg__try_send_ops },
	[RDMAMSG_CAP_RSS] = { "rss", rdmamsg__try_rss },
	[RDMAMSG_CAP_TSO] = { "tso", rdmamsg__try_tso },
	[RDMAMSG_CAP_APM] = { "path-migration", rdmamsg__try_apm },
	[RDMAMSG_CAP_EP_APM] = { "endpoint-migration", rdmamsg__try_apm },
	[RDMAMSG_CAP_DC] = { "dc", rdmamsg__try_dc },
	[RDMAMSG_CAP_UMR] = { "composite-regions", rdmamsg__try_layout },
	[RDMAMSG_CAP_EXT_ATOMICS] = { "extended-atomics", rdmamsg__try_masked },
	[RDMAMSG_CAP_CHAINS] = { "chains", rdmamsg__try_chains },
};

_Static_assert(sizeof(abilities) / sizeof(abilities[0]) == RDMAMSG_CAPS,
	       "each ability has a name");

static void try_one(struct trial *t, uint32_t id,
		    struct rdmamsg_device_cap_attr *ret)
{
	const struct ability *a = &abilities[id];
	int err;

	*ret = (struct rdmamsg_device_cap_attr){
		.size = sizeof(*ret), .id = id, .tried = 1,
	};
	snprintf(ret->name, sizeof(ret->name), "%s", a->name);
	err = rdmamsg__try(a->fn(t, ret));
	if (err)
		(void)rdmamsg__cap_say(ret, RDMAMSG_CAP_ABSENT, 0, "%s",
				       rdmamsg__text());
	if (ret->how == RDMAMSG_CAP_ABSENT)
		memset(&ret->limits, 0, sizeof(ret->limits));
}

/* ---- a device to try -------------------------------------------------- */

void rdmamsg__trial_close(struct trial *t)
{
	rdmamsg__pair_drop(t);
	if (t->mr)
		(void)rdmamsg__v_dereg_mr(t->d.v, t->mr);
	if (t->mem)
		munmap(t->mem, TRIAL_MEM);
	if (t->cq)
		(void)rdmamsg__v_destroy_cq(t->d.v, t->cq);
	if (t->d.pd)
		(void)rdmamsg__v_dealloc_pd(t->d.v, t->d.pd);
	(void)rdmamsg__v_close_device(t->d.v, t->d.verbs);
}

static int describe(struct trial *t)
{
	struct rdmamsg_device *d = &t->d;
	int err = rdmamsg__v_query_device(d->v, d->verbs, &d->attr);

	if (err)
		return rdmamsg__fail_verbs(err,
					   "attributes of the RDMA device");
	if (rdmamsg__v_query_device_ex(d->v, d->verbs, &t->ex))
		memset(&t->ex, 0, sizeof(t->ex));
	d->kind = rdmamsg__kind_of(d->v, d->verbs, &d->attr);
	rdmamsg__v_query_masked(d->v, d->verbs, &d->masked);
	snprintf(d->name, sizeof(d->name), "%s",
		 d->v->get_device_name(d->verbs->device));
	return 0;
}

/* Registers memory with every right that the device may give. */
static int reg(struct trial *t)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ, err;
	void *mem = mmap(NULL, TRIAL_MEM, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return rdmamsg__fail(-ENOMEM, "no memory to try a device");
	t->mem = mem;
	if (rdmamsg__atomic_scope(&t->d) != RDMAMSG_ATOMIC_NONE)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	if (!rdmamsg__window_lack(&t->d))
		access |= IBV_ACCESS_MW_BIND;
	err = rdmamsg__v_reg_mr(t->d.v, t->d.pd, mem, TRIAL_MEM, access,
				&t->mr);
	return err ? rdmamsg__fail_verbs(err, "memory region") : 0;
}

static int prepare(struct trial *t)
{
	struct rdmamsg_device *d = &t->d;
	int err = describe(t);

	if (err)
		return err;
	err = rdmamsg__v_alloc_pd(d->v, d->verbs, &d->pd);
	if (err)
		return rdmamsg__fail_verbs(err, "protection domain");
	err = rdmamsg__v_create_cq(d->v, d->verbs, CQ_ROOM, NULL, NULL, 0,
				   &t->cq);
	if (err)
		return rdmamsg__fail_verbs(err, "completion queue");
	rdmamsg__fork_protect(d->v);
	return reg(t);
}

int rdmamsg__trial_open(const struct verbs_api *v, struct ibv_context *verbs,
			struct trial *ret)
{
	int err;

	*ret = (struct trial){ .d = { .v = v, .verbs = verbs } };
	err = prepare(ret);
	if (err)
		rdmamsg__trial_close(ret);
	return err;
}

static int open_asked(struct trial *t, const char *device)
{
	const struct verbs_api *v;
	struct ibv_context *verbs;
	int err = rdmamsg__open_asked(device, &v, &verbs);

	return err ? err : rdmamsg__trial_open(v, verbs, t);
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_device_caps(const char *device,
			struct rdmamsg_device_cap_attr *list, size_t size,
			int room)
{
	struct trial t;
	int err;

	if (room < 0 || (room && (!list || size < sizeof(size))))
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_device_caps: list or size");
	err = open_asked(&t, device);
	if (err)
		return err;
	for (int i = 0; i < min(room, RDMAMSG_CAPS); i++) {
		struct rdmamsg_device_cap_attr cap;

		try_one(&t, (uint32_t)i, &cap);
		memcpy((char *)list + (size_t)i * size, &cap,
		       min(size, sizeof(cap)));
	}
	rdmamsg__trial_close(&t);
	return RDMAMSG_CAPS;
}

int rdmamsg_device_cap_query(const char *device, enum rdmamsg_cap_id id,
			     struct rdmamsg_device_cap_attr *ret)
{
	struct rdmamsg_device_cap_attr cap;
	struct trial t;
	int err;

	if ((uint32_t)id >= RDMAMSG_CAPS)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_device_cap_query: there is no "
				     "ability %u",
				     (uint32_t)id);
	err = open_asked(&t, device);
	if (err)
		return err;
	try_one(&t, id, &cap);
	rdmamsg__trial_close(&t);
	return rdmamsg__give(ret, &cap, sizeof(cap));
}
