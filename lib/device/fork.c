/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory and fork(). */
#include "base/base.h"
#include "device/device.h"
#include "device/verbs_call.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <infiniband/verbs.h>

/*
 * After fork() the kernel shares pages with the child until one of both writes.
 * If the parent writes to a registered page, it gets a copy, but the device
 * uses the old page. So either the kernel copies registered pages in fork(), or
 * libibverbs hides them from the child.
 */
void rdmamsg__fork_protect(const struct verbs_api *v)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool done;
	int ret = 0;

	if (!v->is_fork_initialized)
		return;
	pthread_mutex_lock(&lock);
	if (!done && v->is_fork_initialized() == IBV_FORK_DISABLED)
		ret = rdmamsg__v_fork_init(v);
	done = true;
	pthread_mutex_unlock(&lock);
	if (ret)
		log_warn("this kernel does not copy registered memory in "
			 "fork(), and ibv_fork_init() has failed (%s): data "
			 "may be lost after a fork(); call ibv_fork_init() "
			 "before the program registers memory", strerror(-ret));
}
