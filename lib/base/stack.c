/* SPDX-License-Identifier: BSD-2-Clause */
/* The stack of the calling thread. */
#include "base/stack.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool rdmamsg__on_this_stack(const void *a, const void *b)
{
	pthread_attr_t attr;
	uintptr_t from;
	size_t size;
	void *addr;
	int err;

	if (pthread_getattr_np(pthread_self(), &attr))
		return false;
	err = pthread_attr_getstack(&attr, &addr, &size);
	pthread_attr_destroy(&attr);
	from = (uintptr_t)addr;
	return !err && (uintptr_t)a - from < size &&
	       (uintptr_t)b - from < size;
}
