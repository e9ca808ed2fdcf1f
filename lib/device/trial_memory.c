/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorts of memory that are tried by registering some. */
#include "base/base.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define HUGE_PAGE	(2u << 20)
#define HUGE_2MB	(21 << 26)	/* MAP_HUGE_2MB, with MAP_HUGETLB */
#define NOT_A_FD	(-1)

static int try_reg(struct trial *t, void *addr, size_t len, int access)
{
	struct ibv_mr *mr;
	int err = rdmamsg__v_reg_mr(t->d.v, t->d.pd, addr, len,
				    IBV_ACCESS_LOCAL_WRITE | access, &mr);

	if (!err)
		(void)rdmamsg__v_dereg_mr(t->d.v, mr);
	return err;
}

int rdmamsg__try_odp(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	int err = try_reg(t, t->mem, TRIAL_MEM, IBV_ACCESS_ON_DEMAND);

	if (err)
		return rdmamsg__refused(err, "registering memory with "
					"IBV_ACCESS_ON_DEMAND");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "memory was "
				"registered with IBV_ACCESS_ON_DEMAND");
}

/*
 * No dmabuf is at hand. But only a device that supports dmabufs looks at the
 * descriptor, and then the error is EBADF (Linux, ib_umem_dmabuf_get()).
 */
int rdmamsg__try_dmabuf(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_mr *mr;
	int err = rdmamsg__v_reg_dmabuf_mr(t->d.v, t->d.pd, 0, TRIAL_MEM, 0,
					   NOT_A_FD, IBV_ACCESS_LOCAL_WRITE,
					   &mr);

	if (!err)
		(void)rdmamsg__v_dereg_mr(t->d.v, mr);
	if (err != -EBADF)
		return rdmamsg__refused(err ? err : -EIO, "registering a "
					"dmabuf");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "the device looked "
				"for the dmabuf of a descriptor that is none");
}

/* ---- huge pages ------------------------------------------------------- */

/* Pools do the same if there is no huge page: lib/memory/pages.c. */
static int no_huge_page(struct rdmamsg_device_cap_attr *ret)
{
	const size_t size = 2 * HUGE_PAGE;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = 0;

	if (mem == MAP_FAILED)
		return rdmamsg__refused(-errno, "memory");
	if (madvise(mem, size, MADV_HUGEPAGE))
		err = rdmamsg__refused(-errno, "no huge page is free "
				       "(vm.nr_hugepages), and the kernel "
				       "joins no pages (MADV_HUGEPAGE)");
	munmap(mem, size);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0,
					    "no huge page of 2 MB is free "
					    "(vm.nr_hugepages); pools ask the "
					    "kernel to join pages, which it "
					    "need not do");
}

int rdmamsg__try_huge_pages(struct trial *t,
			    struct rdmamsg_device_cap_attr *ret)
{
	void *mem = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2MB,
			 -1, 0);
	int err;

	if (mem == MAP_FAILED)
		return no_huge_page(ret);
	err = try_reg(t, mem, HUGE_PAGE, 0);
	munmap(mem, HUGE_PAGE);
	if (err)
		return rdmamsg__refused(err, "registering a huge page");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, HUGE_PAGE,
				"a huge page was registered");
}

/* ---- fork ------------------------------------------------------------- */

/* rdmamsg__fork_protect() was called before the first registration. */
int rdmamsg__try_fork(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	if (!t->d.v->is_fork_initialized)
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "no memory "
					"is registered with the kernel");
	switch (t->d.v->is_fork_initialized()) {
	case IBV_FORK_UNNEEDED:
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "this "
					"kernel copies registered pages in "
					"fork()");
	case IBV_FORK_ENABLED:
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0, "child "
					"processes do not see registered "
					"pages (ibv_fork_init())");
	default:
		return rdmamsg__fail(-EINVAL, "this kernel does not copy "
				     "registered pages in fork(), and "
				     "ibv_fork_init() came too late");
	}
}
