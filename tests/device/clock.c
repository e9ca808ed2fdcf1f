/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of the list, and of the server of rdmamsg-conform. */
#include "device.h"

#include <stdint.h>
#include <time.h>

int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}
