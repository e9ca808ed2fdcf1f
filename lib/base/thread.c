/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that end by themselves. */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

int rdmamsg__thread_start(void *(*fn)(void *arg), void *arg, pthread_t *ret)
{
	sigset_t all, old;
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)sigfillset(&all);
	/* a new thread has the mask of its creator */
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(ret, &attr, fn, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}
