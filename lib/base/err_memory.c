/* SPDX-License-Identifier: BSD-2-Clause */
/* The error text of memory that cannot be registered. */
#include "base/base.h"
#include "base/page.h"
#include "base/util.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Returns true if no page of the range is known to lack the permission. */
static bool permits(uintptr_t from, size_t len, bool write)
{
	int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	/* EINVAL without a permission, or from Linux before 5.14 */
	int ret = madvise((void *)from, len, advice);

	return !ret || (errno == EINVAL && madvise((void *)from, 0, advice));
}

/* Returns 0 if the kernel finds no such page. */
static uintptr_t first_bad_page(const void *mem, size_t len, bool write)
{
	const size_t page = page_size();
	uintptr_t from = (uintptr_t)mem & ~(uintptr_t)(page - 1);
	size_t pages = (whole_pages((uintptr_t)mem + len) - from) / page;

	if (permits(from, pages * page, write))
		return 0;
	while (pages > 1) {
		size_t half = pages / 2;

		if (!permits(from, half * page, write)) {
			pages = half;
			continue;
		}
		from += half * page;
		pages -= half;
	}
	return from;
}

int rdmamsg__fail_memory(int err, const char *what, const void *mem, size_t len,
			 bool write)
{
	uintptr_t bad = err == -EFAULT ? first_bad_page(mem, len, write) : 0;

	if (!bad)
		return rdmamsg__fail_verbs(err, what);
	return rdmamsg__fail(err, "%s: of %zu bytes at %p, the page at %p is "
			     "not %s: it is not mapped, or protected", what,
			     len, mem, (void *)bad,
			     write ? "writable" : "readable");
}
