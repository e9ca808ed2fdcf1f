/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for buffers, on huge pages and on a NUMA node if available. */
#include "base/base.h"
#include "memory/pool.h"
#include "memory/stretch.h"

#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdmamsg/memory.h>

#define LONG_BITS	(8 * sizeof(unsigned long))
#define NODES		1024

#define HUGE_2MB	(21 << 26 /* MAP_HUGE_SHIFT */)

static void *map(size_t size, int flags)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Maps memory at a multiple of HUGE_PAGE. */
static void *map_aligned(size_t size)
{
	uint8_t *mem = map(size + HUGE_PAGE, 0);
	size_t head;

	if (mem == MAP_FAILED)
		return mem;
	head = -(uintptr_t)mem & (HUGE_PAGE - 1);
	if (head)
		munmap(mem, head);
	munmap(mem + head + size, HUGE_PAGE - head);
	return mem + head;
}

static void *map_huge(size_t size, struct pages *ret)
{
	void *mem = map(size, MAP_HUGETLB | HUGE_2MB);

	if (mem != MAP_FAILED) {
		ret->huge = true;
		return mem;
	}
	mem = map_aligned(size);
	if (mem == MAP_FAILED)
		return mem;
	ret->advised = !madvise(mem, size, MADV_HUGEPAGE);
	log_info("no huge pages for %zu bytes, see /proc/sys/vm/nr_hugepages: "
		 "ordinary ones%s", size, ret->advised ?
		 ", which the kernel is asked to join" : "");
	return mem;
}

/*
 * Prefers the node and does not bind to it. If bound memory has no free page on
 * its node, an access raises SIGBUS. Returns true if the first page is there.
 */
static bool put_on(void *mem, size_t size, uint32_t node)
{
	unsigned long mask[NODES / LONG_BITS] = { 0 };
	int got = -1;

	mask[node / LONG_BITS] = 1ul << node % LONG_BITS;
	if (syscall(SYS_mbind, mem, size, MPOL_PREFERRED, mask, NODES + 1, 0))
		return false;
	/* the other pages are likely to be on the same node */
	*(volatile uint8_t *)mem = 0;
	return !syscall(SYS_get_mempolicy, &got, NULL, 0, mem,
			MPOL_F_NODE | MPOL_F_ADDR) && got == (int)node;
}

void *rdmamsg__pages_map(size_t size, const struct rdmamsg_pool_options *opts,
			 struct pages *ret)
{
	struct pages got = { false };
	uint32_t flags = opts ? opts->flags : 0;
	void *mem = flags & RDMAMSG_POOL_HUGE ? map_huge(size, &got) :
		    map(size, 0);

	if (mem != MAP_FAILED && flags & RDMAMSG_POOL_NODE) {
		got.on_node = put_on(mem, size, opts->node);
		if (!got.on_node)
			log_info("NUMA node %u has no memory for %zu bytes; "
				 "using another node", opts->node, size);
	}
	*ret = got;
	return mem;
}
