/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_TUNING_H
#define TESTS_TUNING_H

#include <rdmamsg/rdmamsg.h>

/*
 * For the tuning in an initializer of options: .tuning = TUNING(.tos = 8). It
 * lives as long as the block.
 */
#define TUNING(...) \
	(&(const struct rdmamsg_ep_tuning){ \
		.size = sizeof(struct rdmamsg_ep_tuning), __VA_ARGS__ \
	})

#endif
