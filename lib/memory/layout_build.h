/* SPDX-License-Identifier: BSD-2-Clause */
/* The description of parts. */
#ifndef RDMAMSG_LIB_LAYOUT_BUILD_H
#define RDMAMSG_LIB_LAYOUT_BUILD_H

#include <stdint.h>

#include <rdmamsg/layout.h>

#include "memory/layout.h"

/* Checks the parts, and makes a map of them. -EINVAL, -EACCES, -ENOMEM, ... */
int rdmamsg__layout_build(const struct rdmamsg_layout *layout,
			  const struct rdmamsg_layout_part *parts,
			  uint32_t count, uint64_t rounds,
			  struct layout_map **ret);

#endif
