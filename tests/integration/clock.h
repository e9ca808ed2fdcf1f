/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock that a test can advance. The program defines clock_gettime() and
 * timerfd_settime(), which the library calls, too. Only this process's time
 * passes: not that of a child, and not that of the kernel.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_CLOCK_H
#define RDMAMSG_TESTS_INTEGRATION_CLOCK_H

#include <stdint.h>

/* Advances the monotonic clock. Timers that are due then expire. */
void clock_pass(uint32_t ms);

#endif
