/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the C library that read directories and links themselves, so that
 * the definitions in sysdir.c do not reach them.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft/preload/preload.h"

/* ---- scandir ---------------------------------------------------------- */

typedef int (*select_fn)(const struct dirent *);
typedef int (*compare_fn)(const struct dirent **, const struct dirent **);

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64),
	       "one implementation serves both");

static int by(const void *a, const void *b, void *compare)
{
	return (*(compare_fn *)compare)((const struct dirent **)a,
					(const struct dirent **)b);
}

/* Appends a copy of the entry. Returns false without memory. */
static bool append(struct dirent ***list, size_t n, const struct dirent *e)
{
	struct dirent **more = realloc(*list, (n + 1) * sizeof(*more));

	if (!more)
		return false;
	*list = more;
	more[n] = malloc(sizeof(*e));
	if (!more[n])
		return false;
	memcpy(more[n], e, sizeof(*e));
	return true;
}

static int scan(const char *path, struct dirent ***ret, select_fn wanted,
		compare_fn compare)
{
	struct dirent **list = malloc(sizeof(*list));
	DIR *dir = list ? opendir(path) : NULL;
	const struct dirent *e;
	bool ok = dir;
	size_t n = 0;

	while (ok && (e = readdir(dir)))
		if (!wanted || wanted(e)) {
			ok = append(&list, n, e);
			n += ok;
		}
	if (dir)
		(void)closedir(dir);
	if (!ok) {
		while (n)
			free(list[--n]);
		free(list);
		return -1;
	}
	if (compare)
		qsort_r(list, n, sizeof(*list), by, &compare);
	*ret = list;
	return (int)n;
}

int scandir(const char *restrict path, struct dirent ***restrict list,
	    select_fn wanted, compare_fn compare)
{
	static int (*real)(const char *, struct dirent ***, select_fn,
			   compare_fn);

	if (preload_sysfs_type(path) != PRELOAD_NOT_OURS)
		return scan(path, list, wanted, compare);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "scandir");
	return real(path, list, wanted, compare);
}

int scandir64(const char *restrict path, struct dirent64 ***restrict list,
	      int (*wanted)(const struct dirent64 *),
	      int (*compare)(const struct dirent64 **,
			     const struct dirent64 **))
{
	return scandir(path, (struct dirent ***)list, (select_fn)wanted,
		       (compare_fn)compare);
}

/* ---- links ------------------------------------------------------------ */

/* The real path of what is the device's, with malloc() if 'to' is NULL. */
static char *own_path(const char *path, char *to)
{
	char tidied[PRELOAD_PATH];

	if (preload_sysfs_type(path) < 0) {
		errno = ENOENT;
		return NULL;
	}
	(void)preload_sysfs_name(path, tidied);
	return to ? strcpy(to, tidied) : strdup(tidied);
}

char *realpath(const char *restrict given, char *restrict to)
{
	static char *(*real)(const char *restrict, char *restrict);
	char buf[PRELOAD_PATH];
	const char *path = preload_path(given, buf);

	if (preload_sysfs_type(path) != PRELOAD_NOT_OURS)
		return own_path(path, to);
	/* the version that takes no buffer, too: dlsym() may find the older */
	if (!real)
		*(void **)&real = dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "realpath");
	return real(path, to);
}

char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

/* what a compiler makes of realpath() if it knows the size of the buffer */
char *__realpath_chk(const char *path, char *to, size_t size);

char *__realpath_chk(const char *path, char *to, size_t size)
{
	static char *(*real)(const char *, char *, size_t);

	if (preload_sysfs_type(path) != PRELOAD_NOT_OURS)
		return realpath(path, to);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "__realpath_chk");
	return real(path, to, size);
}

ssize_t readlink(const char *restrict given, char *restrict to, size_t size)
{
	static ssize_t (*real)(const char *restrict, char *restrict, size_t);
	char buf[PRELOAD_PATH];
	const char *path = preload_path(given, buf);
	int type = preload_sysfs_type(path);

	if (type != PRELOAD_NOT_OURS) {
		errno = type < 0 ? ENOENT : EINVAL;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "readlink");
	return real(path, to, size);
}

ssize_t __readlink_chk(const char *restrict path, char *restrict to,
		       size_t size, size_t room);

ssize_t __readlink_chk(const char *restrict path, char *restrict to,
		       size_t size, size_t room)
{
	return readlink(path, to, size < room ? size : room);
}
