/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into a program, makes a kernel with pages of 4 KB behave like one
 * with pages of 64 KB: for what a program asks, where mappings lie, and which
 * arguments are refused. pages.sh uses it.
 *
 * The program itself, its heap and its stacks lie where pages of 4 KB allow. So
 * a page of 64 KB may have holes, and parts with other permissions: advice has
 * succeeded if a part has taken it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define PAGE	((size_t)65536)
#define PART	((size_t)4096)

static size_t rounded(size_t len)
{
	return (len + PAGE - 1) & ~(PAGE - 1);
}

static bool aligned(const void *at)
{
	return !((uintptr_t)at & (PAGE - 1));
}

static int invalid(void)
{
	errno = EINVAL;
	return -1;
}

/* ---- what a program asks ---------------------------------------------- */

long sysconf(int name)
{
	static long (*next)(int);

	if (name == _SC_PAGESIZE)
		return (long)PAGE;
	if (!next)
		next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return next(name);
}

int getpagesize(void)
{
	return (int)PAGE;
}

/* ---- mappings --------------------------------------------------------- */

static void *map(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

/* Returns free addresses, which no other thread takes meanwhile. */
static uint8_t *reserve(size_t len)
{
	uint8_t *at = map(NULL, len + PAGE, PROT_NONE, MAP_PRIVATE |
			  MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (at == MAP_FAILED)
		return at;
	head = -(uintptr_t)at & (PAGE - 1);
	if (head)
		(void)syscall(SYS_munmap, at, head);
	(void)syscall(SYS_munmap, at + head + len, PAGE - head);
	return at + head;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	void *free_at, *ret;

	if ((size_t)off & (PAGE - 1) || !len) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	len = rounded(len);
	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
		if (aligned(at))
			return map(at, len, prot, flags, fd, off);
		errno = EINVAL;
		return MAP_FAILED;
	}
	if (flags & MAP_HUGETLB)
		return map(at, len, prot, flags, fd, off);
	free_at = reserve(len);
	if (free_at == MAP_FAILED)
		return free_at;
	ret = map(free_at, len, prot, flags | MAP_FIXED, fd, off);
	if (ret == MAP_FAILED) {
		int err = errno;

		(void)syscall(SYS_munmap, free_at, len);
		errno = err;
	}
	return ret;
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t off)
{
	return mmap(at, len, prot, flags, fd, off);
}

int munmap(void *at, size_t len)
{
	if (!aligned(at))
		return invalid();
	return (int)syscall(SYS_munmap, at, rounded(len));
}

int mprotect(void *at, size_t len, int prot)
{
	if (!aligned(at))
		return invalid();
	return (int)syscall(SYS_mprotect, at, rounded(len), prot);
}

/* ---- pages of which a part may be missing ----------------------------- */

static int advise_page(uint8_t *page, int advice)
{
	bool taken = false;

	if (!syscall(SYS_madvise, page, PAGE, advice))
		return 0;
	for (size_t i = 0; i < PAGE; i += PART)
		taken |= !syscall(SYS_madvise, page + i, PART, advice);
	return taken ? 0 : -1;
}

int madvise(void *at, size_t len, int advice)
{
	uint8_t *begin = at;

	if (!aligned(at))
		return invalid();
	len = rounded(len);
	if (!syscall(SYS_madvise, at, len, advice))
		return 0;
	if (!len)
		return -1;
	for (size_t i = 0; i < len; i += PAGE)
		if (advise_page(begin + i, advice))
			return -1;
	return 0;
}

static int look_at_page(uint8_t *page, unsigned char *ret)
{
	unsigned char part;
	bool mapped = false;

	*ret = 0;
	for (size_t i = 0; i < PAGE; i += PART)
		if (!syscall(SYS_mincore, page + i, PART, &part)) {
			mapped = true;
			*ret |= part;
		}
	return mapped ? 0 : -1;
}

int mincore(void *at, size_t len, unsigned char *ret)
{
	uint8_t *begin = at;

	if (!aligned(at))
		return invalid();
	for (size_t i = 0; i < rounded(len); i += PAGE)
		if (look_at_page(begin + i, &ret[i / PAGE]))
			return -1;
	return 0;
}
