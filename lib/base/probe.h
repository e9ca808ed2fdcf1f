/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static tracepoints for perf, bpftrace and SystemTap: provider "rdmamsg". A
 * tracepoint that nobody uses is a NOP. rdmamsg(7) lists the tracepoints and
 * their arguments.
 *
 * A tracepoint stands in a cold function only, because it keeps its arguments
 * in registers or memory. An array as argument needs a cast to a pointer.
 */
#ifndef RDMAMSG_LIB_PROBE_H
#define RDMAMSG_LIB_PROBE_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_SYS_SDT_H
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define probe(name, ...)	STAP_PROBEV(rdmamsg, name, __VA_ARGS__)
#else
static inline void probe_nothing(int n, ...)
{
}
#define probe(name, ...) \
	do { \
		if (0) \
			probe_nothing(0, __VA_ARGS__); \
	} while (0)
#endif

#endif
