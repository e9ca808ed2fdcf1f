/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of libibverbs for programs that are linked with libibverbs, and the
 * rdma_cm device for an unmodified librdmacm.
 */
#ifndef SOFT_PRELOAD_PRELOAD_H
#define SOFT_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Call it before making an event channel. Keeps the device open until the
 * process ends, because programs open it, remember its LIDs and GIDs, close it,
 * and open it again. Returns false with errno.
 */
bool preload_add_channel(void);
/*
 * Call it after destroying a channel, or after failing to make it. Preserves
 * errno.
 */
void preload_drop_channel(void);

/*
 * Reads a file below /sys. Returns the length, -1 if the device has no such
 * file, or PRELOAD_NOT_OURS if the path is not the device's.
 */
#define PRELOAD_NOT_OURS	-2
int preload_sysfs(const char *path, char *buf, size_t size);

#endif
