/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The second face of the soft HCA: libibverbs' names for programs that were
 * linked with libibverbs, and below librdmacm the commands of its device.
 */
#ifndef SOFT_PRELOAD_H
#define SOFT_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Keeps the device open until the process ends: programs open it, remember its
 * LIDs and GIDs, close it, and open it again. False with errno.
 */
bool preload_hold_device(void);

/* The length of what a file below /sys says, -1: nothing is there. */
#define PRELOAD_NOT_OURS	-2
int preload_sysfs(const char *path, char *buf, size_t size);

#endif
