/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that end by themselves: for calls that block without limit. */
#ifndef RDMAMSG_LIB_THREAD_H
#define RDMAMSG_LIB_THREAD_H

#include <pthread.h>

/*
 * Starts a detached thread with all signals blocked, because only the program's
 * own threads may handle signals. Nobody waits for the thread, so the library
 * is linked with -z nodelete. Returns 0 or -errno, without a text.
 */
int rdmamsg__thread_start(void *(*fn)(void *arg), void *arg, pthread_t *ret);

#endif
