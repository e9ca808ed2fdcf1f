/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Some programs look for the device in the file system, for example UCX. The
 * node below /dev becomes /dev/null. The files below /sys become memfds. All
 * other paths stay as they are. A path that is relative to a descriptor is
 * never the device's, because no descriptor is a directory of the device.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "soft/preload/preload.h"

int faccessat(int dir, const char *given, int mode, int flags)
{
	static int (*real)(int, const char *, int, int);
	char buf[PRELOAD_PATH];
	const char *path = preload_path(given, buf);
	int type = preload_sysfs_type(path);

	if (type == PRELOAD_NOT_OURS) {
		if (!real)
			*(void **)&real = dlsym(RTLD_NEXT, "faccessat");
		return real(dir, path, mode, flags);
	}
	if (type > 0 && !(mode & W_OK))
		return 0;
	errno = type > 0 ? EACCES : ENOENT;
	return -1;
}

int access(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, 0);
}

int euidaccess(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

int eaccess(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

int preload_sysfs_open(const char *path)
{
	struct rlimit rl;
	char text[64];
	int n = path ? preload_sysfs(path, text, sizeof(text) - 1) :
		PRELOAD_NOT_OURS, fd;

	if (n == PRELOAD_NOT_OURS)
		return n;
	if (n < 0 || n >= (int)sizeof(text) - 1) {
		errno = preload_sysfs_type(path) == S_IFDIR ? EISDIR : ENOENT;
		return -1;
	}
	text[n++] = '\n';
	/* the limit on the size of files would raise SIGXFSZ */
	if (!getrlimit(RLIMIT_FSIZE, &rl) && rl.rlim_cur < (rlim_t)n) {
		errno = EFBIG;
		return -1;
	}
	fd = memfd_create("soft-sysfs", MFD_CLOEXEC);
	if (fd >= 0 && pwrite(fd, text, (size_t)n, 0) != n) {
		close(fd);
		errno = EIO;
		return -1;
	}
	return fd;
}

/* Reads the mode only if the flags require the argument. */
static mode_t mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ?
	       va_arg(ap, mode_t) : 0;
}

static int do_open(int dir, const char *given, int flags, mode_t mode)
{
	static int (*real)(int, const char *, int, ...);
	char buf[PRELOAD_PATH];
	const char *path = preload_path(given, buf);
	int fd = preload_sysfs_open(path);

	if (fd != PRELOAD_NOT_OURS)
		return fd;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "openat");
	/* a library that comes after this one may open before it has symbols */
	return real ? real(dir, path, flags, mode) :
	       (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define OPEN(name, more) \
int name(const char *path, int flags, ...) \
{ \
	mode_t mode; \
	va_list ap; \
	\
	va_start(ap, flags); \
	mode = mode_of(flags, ap); \
	va_end(ap); \
	return do_open(AT_FDCWD, path, flags | (more), mode); \
}

OPEN(open, 0)
OPEN(open64, O_LARGEFILE)

#define OPENAT(name, more) \
int name(int dir, const char *path, int flags, ...) \
{ \
	mode_t mode; \
	va_list ap; \
	\
	va_start(ap, flags); \
	mode = mode_of(flags, ap); \
	va_end(ap); \
	return do_open(dir, path, flags | (more), mode); \
}

OPENAT(openat, 0)
OPENAT(openat64, O_LARGEFILE)

/* what a compiler makes of open() if it does not know the flags */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return do_open(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return do_open(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

/* ---- stdio ------------------------------------------------------------ */

#define FOPEN(name) \
FILE *name(const char *restrict given, const char *restrict mode) \
{ \
	static FILE *(*real)(const char *restrict, const char *restrict); \
	char buf[PRELOAD_PATH]; \
	const char *path = preload_path(given, buf); \
	int fd = preload_sysfs_open(path); \
	FILE *f; \
	\
	if (fd == PRELOAD_NOT_OURS) { \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		return real(path, mode); \
	} \
	f = fd < 0 ? NULL : fdopen(fd, mode); \
	if (!f && fd >= 0) \
		close(fd); \
	return f; \
}

FOPEN(fopen)
FOPEN(fopen64)
