/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock that the test moves. The linker (-Wl,--wrap) puts it in the library's
 * place.
 */
#ifndef RDMAMSG_TESTS_MOVED_CLOCK_H
#define RDMAMSG_TESTS_MOVED_CLOCK_H

#include <stdint.h>

static uint64_t now = 1000000;	/* us */

uint64_t __wrap_rdmamsg__now_ms(void);
uint64_t __wrap_rdmamsg__now_ms(void)
{
	return now / 1000;
}

uint64_t __wrap_rdmamsg__now_us(void);
uint64_t __wrap_rdmamsg__now_us(void)
{
	return now;
}

#endif
