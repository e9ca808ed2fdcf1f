/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of libibverbs for programs that are linked with libibverbs, and the
 * rdma_cm device for an unmodified librdmacm.
 */
#ifndef SOFT_PRELOAD_PRELOAD_H
#define SOFT_PRELOAD_PRELOAD_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

struct soft_dev;

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

/* ---- sysname.c -------------------------------------------------------- */

#define PRELOAD_PATH	256

/*
 * Returns the name behind /sys/class/infiniband, empty for the directory
 * itself, if the path is that directory or belongs to the device; else NULL.
 * The name is in buf.
 */
const char *preload_sysfs_name(const char *path, char buf[PRELOAD_PATH]);
/*
 * Returns the path that the kernel serves: the path itself, or one that stands
 * in for it. Below device/net/ that is a network device's own directory.
 */
const char *preload_path(const char *path, char buf[PRELOAD_PATH]);
/* Returns the inode number of the file 'name' in a directory that is ours. */
unsigned long preload_inode(const char *dir, const char *name);
/*
 * Sets the name of the i-th network device whose addresses reach the device,
 * false behind them. On InfiniBand, they stand for those of IP over InfiniBand,
 * whose parent is the device's: Linux, ipoib_main.c, SET_NETDEV_DEV().
 */
bool preload_net_name(unsigned int i, char name[IF_NAMESIZE]);

/* ---- sysfs.c, systree.c, syscount.c ------------------------------------ */

/*
 * Reads a file below /sys. Returns the length, -1 if the device has no such
 * file, or PRELOAD_NOT_OURS if the path is not the device's.
 */
#define PRELOAD_NOT_OURS	-2
int preload_sysfs(const char *path, char *buf, size_t size);
/* Returns S_IFDIR, S_IFREG, -1 for no such file, or PRELOAD_NOT_OURS. */
int preload_sysfs_type(const char *path);
/*
 * Writes the name of entry i of a directory that is ours. Returns its type, or
 * 0 behind the last one.
 */
int preload_sysfs_entry(const char *path, unsigned int i, char name[64]);
/* Opens a file: returns a descriptor, -1 with errno, or PRELOAD_NOT_OURS. */
int preload_sysfs_open(const char *path);

/* Names of the files of counters/ and hw_counters/; NULL ends a list. */
extern const char *const preload_counters[], *const preload_hw_counters[];
/* Returns false if there is no such counter. */
bool preload_counter(const struct soft_dev *dev, unsigned int port,
		     const char *dir, const char *name,
		     unsigned long long *ret);
/*
 * Opens the device, and keeps it open until the process ends, because a program
 * that reads one file reads many. Returns 0 or -errno; soft_dev_put() it.
 */
int preload_open_kept(struct soft_dev **ret);

#endif
