/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that processes share by a descriptor. */
#ifndef RDMAMSG_SOFT_MEMFD_H
#define RDMAMSG_SOFT_MEMFD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns a descriptor of zeroed memory whose size nobody can change, or -errno.
 * -EFBIG: the limit on the size of files is lower (ulimit -f).
 */
int soft_memfd_create(const char *name, size_t size);
/* Returns true if fd is such memory of this size. */
bool soft_memfd_check(int fd, size_t size);

#endif
