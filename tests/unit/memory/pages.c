/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the machine lacks a kind of page, or provides it only at times.
 * The library still maps memory, reports the kind of its pages, and unmaps all
 * of it. Wrapped system calls give the kernel's answers.
 */
#include "memory/pool.h"
#include "memory/stretch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <cmocka.h>

#define SIZE	(3 * HUGE_PAGE)

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);
int __wrap_madvise(void *addr, size_t len, int advice);
long __wrap_syscall(long number, ...);

static bool have_huge, have_advice, have_node;
static int fail_at;		/* number of the failing mmap(); 0: none */
/* volatile: for the compiler, munmap() calls nothing that changes them */
static volatile int maps;
static volatile size_t mapped;	/* bytes */
static int node_of_page;
static char lines[16][256];
static int line_count;

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset)
{
	void *mem;

	if (++maps == fail_at || (flags & MAP_HUGETLB && !have_huge)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	mem = __real_mmap(addr, len, prot, flags & ~(MAP_HUGETLB |
			  (int)(63u << 26 /* MAP_HUGE_SHIFT */)), fd, offset);
	mapped += mem != MAP_FAILED ? len : 0;
	return mem;
}

int __wrap_munmap(void *addr, size_t len)
{
	int ret = __real_munmap(addr, len);

	mapped -= ret ? 0 : len;
	return ret;
}

int __wrap_madvise(void *addr, size_t len, int advice)
{
	assert_int_equal(advice, MADV_HUGEPAGE);
	assert_int_equal((uintptr_t)addr % HUGE_PAGE, 0);
	if (have_advice)
		return 0;
	errno = EINVAL;
	return -1;
}

long __wrap_syscall(long number, ...)
{
	va_list ap;
	int *got;

	if (!have_node) {
		errno = ENOSYS;
		return -1;
	}
	if (number == SYS_mbind)
		return 0;
	assert_int_equal(number, SYS_get_mempolicy);
	va_start(ap, number);
	got = va_arg(ap, int *);
	va_end(ap);
	*got = node_of_page;
	return 0;
}

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	if (line_count < 16)
		snprintf(lines[line_count++], sizeof(lines[0]), "%s", line);
}

static bool logged(const char *word)
{
	for (int i = 0; i < line_count; i++)
		if (strstr(lines[i], word))
			return true;
	return false;
}

static int set_up(void **state)
{
	have_huge = have_advice = have_node = false;
	fail_at = maps = line_count = 0;
	mapped = 0;
	node_of_page = 0;
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_INFO);
	return 0;
}

static struct pages take(uint32_t flags)
{
	const struct rdmamsg_pool_options o = {
		.size = sizeof(o), .flags = flags, .node = 1,
	};
	struct pages pages;
	uint8_t *mem = rdmamsg__pages_map(SIZE, &o, &pages);

	assert_ptr_not_equal(mem, MAP_FAILED);
	/* all SIZE bytes are writable, and no excess stays mapped */
	memset(mem, 1, SIZE);
	assert_int_equal(mapped, SIZE);
	assert_int_equal(munmap(mem, SIZE), 0);
	assert_int_equal(mapped, 0);
	return pages;
}

static void huge__there_TAKEN(void **state)
{
	struct pages pages;

	have_huge = have_advice = true;
	pages = take(RDMAMSG_POOL_HUGE);
	assert_true(pages.huge && !pages.advised && !pages.on_node);
	assert_false(logged("huge"));
}

static void huge__none_reserved_ASKS_TO_JOIN(void **state)
{
	struct pages pages;

	have_advice = true;
	pages = take(RDMAMSG_POOL_HUGE);
	assert_true(!pages.huge && pages.advised);
	assert_true(logged("no huge pages"));
	assert_true(logged("nr_hugepages"));
}

static void huge__kernel_does_not_join_PLAIN(void **state)
{
	struct pages pages = take(RDMAMSG_POOL_HUGE);

	assert_true(!pages.huge && !pages.advised);
	assert_true(logged("no huge pages"));
}

/* Each attempt has another failing mmap(). */
static void huge__nth_mapping_fails_FALLS_BACK(void **state)
{
	const struct rdmamsg_pool_options o = {
		.size = sizeof(o), .flags = RDMAMSG_POOL_HUGE,
	};
	struct pages pages;

	have_huge = have_advice = true;
	fail_at = 1;
	pages = take(RDMAMSG_POOL_HUGE);
	assert_true(!pages.huge && pages.advised);
	have_huge = false;
	maps = 0;
	fail_at = 2;
	assert_ptr_equal(rdmamsg__pages_map(SIZE, &o, &pages), MAP_FAILED);
	assert_int_equal(mapped, 0);
	assert_true(!pages.huge && !pages.advised);
	maps = 0;
	fail_at = 1;
	assert_ptr_equal(rdmamsg__pages_map(SIZE, NULL, &pages), MAP_FAILED);
}

static void node__there_TAKEN(void **state)
{
	have_node = true;
	node_of_page = 1;
	assert_true(take(RDMAMSG_POOL_NODE).on_node);
	assert_false(logged("node"));
}

static void node__without_memory_ANOTHER(void **state)
{
	have_node = true;
	assert_false(take(RDMAMSG_POOL_NODE).on_node);
	assert_true(logged("node 1"));
}

static void node__kernel_without_any_ANOTHER(void **state)
{
	struct pages pages = take(RDMAMSG_POOL_NODE | RDMAMSG_POOL_HUGE);

	assert_true(!pages.on_node && !pages.huge);
	assert_true(logged("node 1") && logged("no huge pages"));
}

#define TEST(fn) cmocka_unit_test_setup(fn, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(huge__there_TAKEN),
		TEST(huge__none_reserved_ASKS_TO_JOIN),
		TEST(huge__kernel_does_not_join_PLAIN),
		TEST(huge__nth_mapping_fails_FALLS_BACK),
		TEST(node__there_TAKEN),
		TEST(node__without_memory_ANOTHER),
		TEST(node__kernel_without_any_ANOTHER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
