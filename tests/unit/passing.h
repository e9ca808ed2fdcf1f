/* SPDX-License-Identifier: BSD-2-Clause */
/* Time that passes as soon as nothing else happens, for two contexts. */
#ifndef TESTS_UNIT_PASSING_H
#define TESTS_UNIT_PASSING_H

#include "../integration/clock.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

/* Nothing happens before a timer is due. */
static inline bool both_idle(struct rdmamsg *a, struct rdmamsg *b)
{
	struct pollfd fds[2] = {
		{ rdmamsg_fd(a), POLLIN, 0 }, { rdmamsg_fd(b), POLLIN, 0 },
	};

	return clock_others_sleep() && !poll(fds, 2, 0);
}

static inline void pass_when_idle(struct rdmamsg *a, struct rdmamsg *b,
				  uint32_t ms)
{
	if (both_idle(a, b))
		clock_pass(ms);
}

#endif
