/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the program: checks and ordered copies. */
#ifndef SOFT_FABRIC_MEMORY_H
#define SOFT_FABRIC_MEMORY_H

#include <stddef.h>

#define SOFT_PROBE	256		/* bytes of the file 'probe' */

/*
 * Maps all pages, as registration pins pages on hardware. access is a mask of
 * enum ibv_access_flags. 'probe' is a file that takes a byte of each page, or
 * -1, which is slower. Returns 0, or EFAULT if the memory is absent or does not
 * permit the access.
 */
int soft_touch(int probe, void *addr, size_t len, int access);
/* Copies so that lower addresses become visible before higher ones. */
void soft_copy(void *dst, const void *src, size_t len);

#endif
