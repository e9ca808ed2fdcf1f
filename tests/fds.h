/* SPDX-License-Identifier: BSD-2-Clause */
/* How many descriptors and other things this process has, by /proc. */
#ifndef RDMAMSG_TESTS_FDS_H
#define RDMAMSG_TESTS_FDS_H

#include <dirent.h>

/* Returns how many entries a directory has, without "." and "..". */
static inline int entries_of(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static inline int open_fds(void)
{
	return entries_of("/proc/self/fd") - 1;	/* the directory's own */
}

#endif
