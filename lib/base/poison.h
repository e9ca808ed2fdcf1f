/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks buffers that are not in use. AddressSanitizer, and Valgrind in
 * debugging builds, report any access to such a buffer. The tools do not see
 * what a device writes, so a buffer in use counts as initialised.
 */
#ifndef RDMAMSG_LIB_POISON_H
#define RDMAMSG_LIB_POISON_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POISON_ASAN
#endif

#ifdef POISON_ASAN
#include <sanitizer/asan_interface.h>
#endif
#if defined(RDMAMSG_DEBUG) && defined(HAVE_VALGRIND_MEMCHECK_H)
#define POISON_VALGRIND
#include <valgrind/memcheck.h>
#endif

static inline void rdmamsg__poison(void *mem, size_t size)
{
#ifdef POISON_ASAN
	__asan_poison_memory_region(mem, size);
#endif
#ifdef POISON_VALGRIND
	(void)VALGRIND_MAKE_MEM_NOACCESS(mem, size);
#endif
}

static inline void rdmamsg__unpoison(void *mem, size_t size)
{
#ifdef POISON_ASAN
	__asan_unpoison_memory_region(mem, size);
#endif
#ifdef POISON_VALGRIND
	(void)VALGRIND_MAKE_MEM_DEFINED(mem, size);
#endif
}

#endif
