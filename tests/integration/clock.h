/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock that a test can advance. The program defines clock_gettime() and
 * timerfd_settime(), which the library calls, too. Only this process's time
 * passes: not that of a child, and not that of the kernel.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_CLOCK_H
#define RDMAMSG_TESTS_INTEGRATION_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Advances the monotonic clock. Timers that are due then expire. */
void clock_pass(uint32_t ms);
/*
 * Stops the monotonic clock until clock_go(). Only clock_pass() advances it, so a
 * slow machine does not change what a test sees. The bounds of WAIT_FOR() do not
 * expire meanwhile, that of the test does.
 */
void clock_stop(void);
void clock_go(void);
/*
 * Returns true if every other thread of this process sleeps, and no timer that
 * is due waits for anyone. Nothing happens then until this thread or another
 * process does something.
 */
bool clock_others_sleep(void);

#endif
