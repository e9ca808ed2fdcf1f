/* SPDX-License-Identifier: BSD-2-Clause */
/* The size of a page, which the kernel chooses: 4 to 64 KB. */
#ifndef RDMAMSG_BASE_PAGE_H
#define RDMAMSG_BASE_PAGE_H

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif

static inline size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t whole_pages(size_t size)
{
	return (size + page_size() - 1) & ~(page_size() - 1);
}

#endif
