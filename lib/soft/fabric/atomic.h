/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SOFT_FABRIC_ATOMIC_H
#define SOFT_FABRIC_ATOMIC_H

struct soft_dev;

/* Reads RDMAMSG_SOFT_ATOMICS; 0 or -EINVAL. */
int soft_atomic_options(struct soft_dev *dev);

#endif
