/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of contexts and endpoints, options structs, the clock. */
#include "base/base.h"
#include "base/forked.h"
#include "base/page.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CACHE_LINE	64u

/*
 * A cache chooses the place of a line by the low bits of its address. Objects
 * that all began with a page would share few places, and hundreds of endpoints
 * would evict each other. So each begins with another line of its first page.
 */
static size_t next_colour(size_t size)
{
	static _Atomic unsigned int next;
	size_t lines = (whole_pages(size) - size) / CACHE_LINE + 1;

	return atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) %
	       lines * CACHE_LINE;
}

void *rdmamsg__object_new(size_t size)
{
	char *p = mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (!rdmamsg__wipe_on_fork(p, whole_pages(size))) {
		munmap(p, whole_pages(size));
		return NULL;
	}
	return p + next_colour(size);
}

void rdmamsg__object_free(void *obj, size_t size)
{
	char *p = obj;

	if (!p)
		return;
	p -= (uintptr_t)p % page_size();
	rdmamsg__wipe_forget(p);
	munmap(p, whole_pages(size));
}

/*
 * The libraries below open devices for the process and do not notice a fork. So
 * after their first use, a child must not use them.
 */
static _Atomic pid_t used_by;

void rdmamsg__fork_mark(void)
{
	const pid_t pid = getpid();

	if (used_by == pid)
		return;
	rdmamsg__fork_forget();
	used_by = pid;
}

int rdmamsg__fork_check(void)
{
	/* in another PID namespace, a child may have its parent's id */
	if (!used_by || (used_by == getpid() && !rdmamsg__is_forked()))
		return 0;
	return rdmamsg__fail(-ECHILD, "this process was forked from one that "
			     "uses RDMA: fork first, or exec a program that "
			     "opens its own context");
}

int rdmamsg__opts_copy(void *dst, size_t dst_size, const void *src,
		       const char *name)
{
	size_t size;

	memset(dst, 0, dst_size);
	if (src) {
		memcpy(&size, src, sizeof(size));
		if (size < sizeof(size) || size > 4096)
			return rdmamsg__fail(-EINVAL, "%s: size is %zu: set it "
					     "to sizeof the struct", name,
					     size);
		/*
		 * The longer struct of a newer program is accepted, unless it
		 * sets fields that this library does not know.
		 */
		for (size_t i = dst_size; i < size; i++)
			if (((const char *)src)[i])
				return rdmamsg__fail(-EINVAL, "%s: has fields "
						     "this library does not "
						     "know", name);
		memcpy(dst, src, min(size, dst_size));
	}
	memcpy(dst, &dst_size, sizeof(dst_size));
	return 0;
}

int rdmamsg__set_ranges(void *opts, const struct range *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct range *r = &list[i];
		uint32_t *field = (uint32_t *)((char *)opts + r->offset);

		if (!*field) {
			*field = r->def;
			continue;
		}
		if (*field == RDMAMSG_NONE)
			*field = r->none;
		if (*field == RDMAMSG_NONE)
			continue;
		if (*field < r->lowest || *field > r->highest)
			return rdmamsg__fail(-EINVAL, "%s %u: must be %u to %u",
					     r->name, *field, r->lowest,
					     r->highest);
	}
	return 0;
}

void rdmamsg__unset_ranges(void *opts, const struct range *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct range *r = &list[i];
		uint32_t *field = (uint32_t *)((char *)opts + r->offset);

		if (*field == r->def)
			*field = 0;
		else if (!*field)
			*field = RDMAMSG_NONE;
	}
}

int rdmamsg__give(void *dst, const void *src, size_t src_size)
{
	size_t size;

	if (!dst)
		return rdmamsg__fail(-EINVAL, "no struct to fill");
	memcpy(&size, dst, sizeof(size));
	if (size < sizeof(size) || size > 4096)
		return rdmamsg__fail(-EINVAL, "size is %zu: set it to sizeof "
				     "the struct", size);
	memset((char *)dst + sizeof(size), 0, size - sizeof(size));
	memcpy((char *)dst + sizeof(size), (const char *)src + sizeof(size),
	       min(size, src_size) - sizeof(size));
	return 0;
}

uint64_t rdmamsg__now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t rdmamsg__now_us(void)
{
	return rdmamsg__now_ns() / 1000;
}

uint64_t rdmamsg__now_ms(void)
{
	return rdmamsg__now_ns() / 1000000;
}

uint64_t rdmamsg__about_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}
