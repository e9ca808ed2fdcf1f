/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops that adapters exist for, all with the same calls. */
#ifndef RDMAMSG_TESTS_INTEGRATION_ADAPTERS_H
#define RDMAMSG_TESTS_INTEGRATION_ADAPTERS_H

#include <rdmamsg/rdmamsg.h>

struct loop_kind {
	const char *name;
	const char *symbol;	/* of its library */
	void *(*make)(void);
	/* Frees the loop. Everything in it has been stopped. */
	void (*end)(void *loop);
	/* Sleeps until something happens, and handles it. */
	void (*turn)(void *loop);
	/* Runs until quit(). */
	void (*run)(void *loop);
	void (*quit)(void *loop);
	/* The calls of the adapter. */
	int (*start)(void *loop, struct rdmamsg *ctx, void **ret);
	void (*stop)(void *adapter);
	/* A timer of the loop's own calls fn(arg) every 'ms' milliseconds. */
	void *(*timer)(void *loop, unsigned int ms, void (*fn)(void *arg),
		       void *arg);
	void (*timer_stop)(void *timer);
};

/* Those that this build has. The list ends with a kind without a name. */
extern const struct loop_kind loop_kinds[];
#define LOOP_KINDS_MAX	4

#endif
