/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets up a soft fabric of this process's own, apart from other runs. */
#ifndef OWN_FABRIC_H
#define OWN_FABRIC_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char own_fabric[32];

static inline void join_own_fabric(const char *test)
{
	(void)snprintf(own_fabric, sizeof(own_fabric), "unit-%s-%d", test,
		       (int)getpid());
	(void)setenv("RDMAMSG_SOFT_FABRIC", own_fabric, 1);
}

#endif
