/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directories of the device below /sys/class/infiniband, and what stat() says
 * of its files. A directory stream of the device is a real one of the root
 * directory, so that any other call on it is harmless.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft/preload/preload.h"

/* ---- types ------------------------------------------------------------ */

/* Sets *mode, or returns -1 with errno, or PRELOAD_NOT_OURS. */
static int own_type(const char *path, mode_t *mode)
{
	int keep = errno, type = preload_sysfs_type(path);

	errno = keep;
	if (type == PRELOAD_NOT_OURS)
		return type;
	if (type < 0) {
		errno = ENOENT;
		return -1;
	}
	*mode = (mode_t)type | (type == S_IFDIR ? 0555 : 0444);
	return 0;
}

#define STAT_AT(name, type) \
int name(int dir, const char *restrict given, struct type *restrict st, \
	 int flags) \
{ \
	static int (*real)(int, const char *restrict, struct type *restrict, \
			   int); \
	char buf[PRELOAD_PATH]; \
	const char *path = preload_path(given, buf); \
	mode_t mode; \
	int ret = own_type(path, &mode); \
	\
	if (ret == PRELOAD_NOT_OURS) { \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		return real(dir, path, st, flags); \
	} \
	if (ret) \
		return ret; \
	memset(st, 0, sizeof(*st)); \
	st->st_mode = mode; \
	st->st_nlink = 1; \
	st->st_blksize = 4096; \
	st->st_ino = preload_inode(path, ""); \
	return 0; \
}

STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

#define STAT(name, type, at, flags) \
int name(const char *restrict path, struct type *restrict st) \
{ \
	return at(AT_FDCWD, path, st, flags); \
}

STAT(stat, stat, fstatat, 0)
STAT(stat64, stat64, fstatat64, 0)
STAT(lstat, stat, fstatat, AT_SYMLINK_NOFOLLOW)
STAT(lstat64, stat64, fstatat64, AT_SYMLINK_NOFOLLOW)

int statx(int dir, const char *restrict given, int flags, unsigned int mask,
	  struct statx *restrict st)
{
	static int (*real)(int, const char *restrict, int, unsigned int,
			   struct statx *restrict);
	char buf[PRELOAD_PATH];
	const char *path = preload_path(given, buf);
	mode_t mode;
	int ret = own_type(path, &mode);

	if (ret == PRELOAD_NOT_OURS) {
		if (!real)
			*(void **)&real = dlsym(RTLD_NEXT, "statx");
		return real(dir, path, flags, mask, st);
	}
	if (ret)
		return ret;
	memset(st, 0, sizeof(*st));
	st->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO;
	st->stx_mode = (uint16_t)mode;
	st->stx_nlink = 1;
	st->stx_blksize = 4096;
	st->stx_ino = preload_inode(path, "");
	return 0;
}

/* ---- streams ---------------------------------------------------------- */

struct stream {
	struct stream *next;
	DIR *dir;
	unsigned int at;		/* entries read */
	union {
		struct dirent entry;
		struct dirent64 entry64;
	};
	char path[256];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;
static _Atomic unsigned int stream_count;

static DIR *real_opendir(const char *path)
{
	static DIR *(*real)(const char *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "opendir");
	return real(path);
}

DIR *opendir(const char *given)
{
	char buf[PRELOAD_PATH];
	const char *path = preload_path(given, buf);
	struct stream *s;
	mode_t mode;
	int ret = own_type(path, &mode);

	if (ret == PRELOAD_NOT_OURS)
		return real_opendir(path);
	if (ret)
		return NULL;
	if (!S_ISDIR(mode)) {
		errno = ENOTDIR;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	snprintf(s->path, sizeof(s->path), "%s", path);
	s->dir = real_opendir("/");
	if (!s->dir) {
		free(s);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	s->next = streams;
	streams = s;
	stream_count++;
	pthread_mutex_unlock(&lock);
	return s->dir;
}

/* Returns the place of the stream in the list, or NULL. The caller locks. */
static struct stream **find(DIR *dir)
{
	struct stream **at = &streams;

	while (*at && (*at)->dir != dir)
		at = &(*at)->next;
	return *at ? at : NULL;
}

/* Only one thread at a time uses a stream, so it stays after the lock. */
static struct stream *stream_of(DIR *dir)
{
	struct stream **at;
	struct stream *s;

	if (!stream_count)
		return NULL;
	pthread_mutex_lock(&lock);
	at = find(dir);
	s = at ? *at : NULL;
	pthread_mutex_unlock(&lock);
	return s;
}

/* Returns the type of the next entry, or 0. "." and ".." come first. */
static int next_entry(struct stream *s, char name[64])
{
	unsigned int i = s->at++;
	int type, keep = errno;

	if (i < 2) {
		snprintf(name, 64, "%s", i ? ".." : ".");
		return S_IFDIR;
	}
	type = preload_sysfs_entry(s->path, i - 2, name);
	/* the end of the directory leaves errno as it was */
	errno = keep;
	return type;
}

#define READDIR(name, type, field) \
struct type *name(DIR *dir) \
{ \
	static struct type *(*real)(DIR *); \
	struct stream *s = stream_of(dir); \
	char text[64]; \
	int is; \
	\
	if (!s) { \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		return real(dir); \
	} \
	is = next_entry(s, text); \
	if (!is) \
		return NULL; \
	memset(&s->field, 0, sizeof(s->field)); \
	s->field.d_ino = preload_inode(s->path, text); \
	s->field.d_off = s->at; \
	s->field.d_reclen = sizeof(s->field); \
	s->field.d_type = IFTODT((mode_t)is); \
	memcpy(s->field.d_name, text, sizeof(text)); \
	return &s->field; \
}

READDIR(readdir, dirent, entry)
READDIR(readdir64, dirent64, entry64)

void rewinddir(DIR *dir)
{
	static void (*real)(DIR *);
	struct stream *s = stream_of(dir);

	if (s) {
		s->at = 0;
		return;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "rewinddir");
	real(dir);
}

/* The descriptor would be that of another directory; ls(1) can do without. */
int dirfd(DIR *dir)
{
	static int (*real)(DIR *);

	if (stream_of(dir)) {
		errno = ENOTSUP;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "dirfd");
	return real(dir);
}

int closedir(DIR *dir)
{
	static int (*real)(DIR *);
	struct stream **at, *s = NULL;

	if (stream_count) {
		pthread_mutex_lock(&lock);
		at = find(dir);
		s = at ? *at : NULL;
		if (s) {
			*at = s->next;
			stream_count--;
		}
		pthread_mutex_unlock(&lock);
		free(s);
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "closedir");
	return real(dir);
}
