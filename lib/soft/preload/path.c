/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Some programs look for the device in the file system, for example UCX. The
 * node below /dev becomes /dev/null. The files below /sys become memfds. All
 * other paths stay as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft/preload/preload.h"

static const char *instead(const char *path)
{
	return path && !strcmp(path, "/dev/infiniband/uverbs-soft0") ?
	       "/dev/null" : path;
}

int stat(const char *restrict path, struct stat *restrict st)
{
	return fstatat(AT_FDCWD, instead(path), st, 0);
}

int stat64(const char *restrict path, struct stat64 *restrict st)
{
	return fstatat64(AT_FDCWD, instead(path), st, 0);
}

int access(const char *path, int mode)
{
	return faccessat(AT_FDCWD, instead(path), mode, 0);
}

/* Returns a descriptor, -1 with errno, or PRELOAD_NOT_OURS. */
static int open_sysfs(const char *path)
{
	char text[64];
	int n = path ? preload_sysfs(path, text, sizeof(text) - 1) :
		PRELOAD_NOT_OURS, fd;

	if (n == PRELOAD_NOT_OURS)
		return n;
	if (n < 0 || n >= (int)sizeof(text) - 1) {
		errno = ENOENT;
		return -1;
	}
	text[n++] = '\n';
	fd = memfd_create("soft-sysfs", MFD_CLOEXEC);
	if (fd >= 0 && pwrite(fd, text, (size_t)n, 0) != n) {
		close(fd);
		errno = EIO;
		return -1;
	}
	return fd;
}

static int do_open(const char *path, int flags, mode_t mode)
{
	int fd = open_sysfs(path);

	return fd != PRELOAD_NOT_OURS ? fd :
	       openat(AT_FDCWD, path, flags, mode);
}

/* Reads the mode only if the flags require the argument. */
static mode_t mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ?
	       va_arg(ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return do_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return do_open(path, flags | O_LARGEFILE, mode);
}
