/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Branch hints, minimum, maximum. min() and max() may evaluate an argument
 * twice.
 */
#ifndef RDMAMSG_BASE_UTIL_H
#define RDMAMSG_BASE_UTIL_H

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))

#endif
