/* SPDX-License-Identifier: BSD-2-Clause */
/* Files below the root that is looked at. */
#include "doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLURP_MAX	((size_t)1 << 24)

/* Returns the length of the path, or -ENAMETOOLONG. */
static int path_of(char path[PATH_MAX], const char *fmt, va_list ap)
{
	int root = snprintf(path, PATH_MAX, "%s", options.root), n;

	if (root >= PATH_MAX)
		return -ENAMETOOLONG;
	n = vsnprintf(path + root, (size_t)(PATH_MAX - root), fmt, ap);
	return n >= PATH_MAX - root ? -ENAMETOOLONG : root + n;
}

/* Returns the number of bytes, or -errno. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size) {
		n = read(fd, buf + len, size - len);
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int read_file(char *buf, size_t size, const char *path)
{
	/* a FIFO in an image must not block */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read_all(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return (int)n;
	buf[n] = 0;
	return (int)n;
}

static int read_at(char *buf, size_t size, const char *fmt, va_list ap)
{
	char path[PATH_MAX];
	int n = path_of(path, fmt, ap);

	return n < 0 ? n : read_file(buf, size, path);
}

int root_read(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = read_at(buf, size, fmt, ap);
	va_end(ap);
	return n;
}

void root_line(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = read_at(buf, size, fmt, ap);
	va_end(ap);
	buf[n > 0 ? n : 0] = 0;
	buf[strcspn(buf, "\n")] = 0;
}

char *root_slurp(const char *path, size_t *ret_len)
{
	size_t size = 4096;
	char *buf = NULL;
	int n;

	do {
		char *more = realloc(buf, size *= 2);

		if (!more)
			break;
		buf = more;
		n = root_read(buf, size, "%s", path);
		if (n >= 0 && (size_t)n < size - 1) {
			*ret_len = (size_t)n;
			return buf;
		}
	} while (n > 0 && size < SLURP_MAX);
	free(buf);
	return NULL;
}

bool root_has(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = path_of(path, fmt, ap);
	va_end(ap);
	return n > 0 && !access(path, F_OK);
}

int root_open(const char *at)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s%s", options.root, at);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

void root_link(char *buf, size_t size, const char *at)
{
	char path[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "%s%s", options.root, at);
	n = readlink(path, buf, size - 1);
	buf[n > 0 ? n : 0] = 0;
}

static int visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int root_each(const char *dir, void (*fn)(void *arg, const char *name),
	      void *arg)
{
	char path[PATH_MAX];
	struct dirent **list;
	int n;

	snprintf(path, sizeof(path), "%s%s", options.root, dir);
	n = scandir(path, &list, visible, alphasort);
	if (n < 0)
		return 0;
	for (int i = 0; i < n; i++) {
		if (fn)
			fn(arg, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return n;
}
