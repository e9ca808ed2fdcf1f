/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/page.h"
#include "base/util.h"

static int populate(uintptr_t from, uintptr_t to, int advice)
{
	if (!madvise((void *)from, to - from, advice))
		return 0;
	/* EINVAL: access not permitted, or Linux before 5.14 */
	if (errno == EINVAL)
		return madvise((void *)from, 0, advice) ? 0 : EFAULT;
	return errno == ENOMEM ? EFAULT : errno;
}

/*
 * Returns true if each page lets itself be read: the kernel copies a byte of each
 * to the descriptor. That takes a quarter of the time of MADV_POPULATE_READ.
 * mincore() is faster still, but counts a page as present that permits nothing.
 * pwritev() itself would make AddressSanitizer judge bytes that nobody uses.
 */
static bool readable(int probe, uintptr_t from, uintptr_t to, size_t page)
{
	struct iovec byte[SOFT_PROBE];
	int n;

	while (from < to) {
		for (n = 0; n < SOFT_PROBE && from < to; n++, from += page)
			byte[n] = (struct iovec){ (void *)from, 1 };
		if (syscall(SYS_pwritev, probe, byte, n, 0L, 0L) != n)
			return false;
	}
	return true;
}

/* Returns false if a page is absent, and reading it would be a page fault. */
static bool resident(uintptr_t from, uintptr_t to, size_t page)
{
	unsigned char in[1024];

	for (uintptr_t n; from < to; from += n) {
		n = min(to - from, (uintptr_t)sizeof(in) * page);
		if (mincore((void *)from, n, in))
			return false;
		for (uintptr_t i = 0; i < n / page; i++)
			if (!(in[i] & 1))
				return false;
	}
	return true;
}

/*
 * Registration must fail for memory that is absent or does not permit the
 * access. Otherwise the device's thread would get SIGSEGV later. So each page is
 * looked at.
 */
int soft_touch(int probe, void *addr, size_t len, int access)
{
	const size_t page = page_size();
	uintptr_t from = (uintptr_t)addr & ~(uintptr_t)(page - 1);
	uintptr_t to = whole_pages((uintptr_t)addr + len);

	if (!len)
		return 0;
	if (access & IBV_ACCESS_LOCAL_WRITE)
		return populate(from, to, MADV_POPULATE_WRITE);
	if (probe >= 0 && resident(from, to, page) &&
	    readable(probe, from, to, page))
		return 0;
	return populate(from, to, MADV_POPULATE_READ);
}

/*
 * A program may poll on the last byte, so the other bytes must be visible
 * before.
 */
void soft_copy(void *dst, const void *src, size_t len)
{
	size_t head = len > 8 ? len - 8 : 0;

	if (head) {
		memcpy(dst, src, head);
		atomic_thread_fence(memory_order_release);
	}
	if (len >= 8) {
		uint64_t last;

		memcpy(&last, (const uint8_t *)src + head, 8);
		memcpy((uint8_t *)dst + head, &last, 8);
		return;
	}
	for (size_t i = 0; i < len; i++)
		((volatile uint8_t *)dst)[i] = ((const uint8_t *)src)[i];
}
