/* SPDX-License-Identifier: BSD-2-Clause */
/* Two contexts whose loops run in turn. */
#ifndef TESTS_UNIT_DC_TWO_H
#define TESTS_UNIT_DC_TWO_H

#include "../until.h"
#include "base/base.h"

#include <poll.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

static struct rdmamsg *near, *far;

static inline void both(void)
{
	struct pollfd fds[2] = {
		{ rdmamsg_fd(near), POLLIN, 0 }, { rdmamsg_fd(far), POLLIN, 0 },
	};

	(void)poll(fds, 2, 10);
	assert_true(rdmamsg_process(near) >= 0);
	assert_true(rdmamsg_process(far) >= 0);
}

#define WAIT_FOR(condition)	UNTIL_BY(both(), condition)

static inline void both_for(uint64_t ms)
{
	for (uint64_t end = rdmamsg__now_ms() + ms; rdmamsg__now_ms() < end; )
		both();
}

#endif
