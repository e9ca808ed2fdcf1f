/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of the log at the start: replaying, and writing it anew. */
#include "log.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

/* ---- the file --------------------------------------------------------- */

static const char magic[] = "kv-log1";	/* with its null byte 8 bytes */

static size_t replay(struct log *log, const char *bytes, size_t len)
{
	struct kv_item item;
	size_t at = sizeof(magic), n;

	while ((n = record_parse(bytes + at, len - at, &item))) {
		log->on_record(log->user, &item, NULL, 0);
		at += n;
	}
	return at;
}

/* A new log, or one whose first write was cut short. */
static size_t begin_file(struct log *log)
{
	if (ftruncate(log->fd, 0) || log_write(log->fd, magic, sizeof(magic)) ||
	    fsync(log->fd))
		err(1, "%s", log->path);
	return sizeof(magic);
}

/* Returns where the whole records end. */
static size_t replay_file(struct log *log, size_t len)
{
	char *bytes;
	size_t whole;

	if (!len)
		return begin_file(log);
	bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, log->fd, 0);
	if (bytes == MAP_FAILED)
		err(1, "%s", log->path);
	if (memcmp(bytes, magic, len < sizeof(magic) ? len : sizeof(magic)))
		errx(1, "%s: not a log of kv-server; name another file",
		     log->path);
	whole = len < sizeof(magic) ? begin_file(log) : replay(log, bytes, len);
	munmap(bytes, len);
	return whole;
}

/* The file's name is on the disk as well. */
static void sync_directory(const char *path)
{
	char *name = strdup(path), *slash = name ? strrchr(name, '/') : NULL;
	int fd;

	if (slash)
		slash[slash == name] = '\0';
	fd = open(slash ? name : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		err(1, "the directory of %s", path);
	close(fd);
	free(name);
}

static void cut_off(struct log *log, size_t whole, size_t len)
{
	if (whole >= len)
		return;
	printf("%s: %zu bytes behind the last whole record were not "
	       "acknowledged, and are cut off\n", log->path, len - whole);
	if (ftruncate(log->fd, (off_t)whole) || fsync(log->fd))
		err(1, "%s", log->path);
}

/*
 * The lock is on the file, not on the name: another server may have written the
 * file anew meanwhile.
 */
static int open_locked(const char *path, int flags)
{
	struct stat mine, now;
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | flags,
		      0600);

	if (fd < 0)
		err(1, "%s: the log cannot be opened", path);
	if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &mine) ||
	    stat(path, &now) || mine.st_ino != now.st_ino)
		errx(1, "%s: another kv-server has it", path);
	return fd;
}

void log_open(struct log *log, const char *path)
{
	struct stat st;

	log->path = strdup(path);
	log->fd = open_locked(path, 0);
	if (!log->path || fstat(log->fd, &st))
		err(1, "%s", path);
	log->size = replay_file(log, (size_t)st.st_size);
	cut_off(log, log->size, (size_t)st.st_size);
	sync_directory(path);
}

/* ---- writing it anew -------------------------------------------------- */

static void new_path(const struct log *log, char to[PATH_MAX])
{
	if (snprintf(to, PATH_MAX, "%s.new", log->path) >= PATH_MAX)
		errx(1, "%s: the name is too long", log->path);
}

/* A file that an earlier try has left is empty then. */
void log_begin_anew(struct log *log)
{
	char path[PATH_MAX];

	new_path(log, path);
	log->old_fd = log->fd;
	log->fd = open_locked(path, O_TRUNC);
	begin_file(log);
}

void log_add_anew(struct log *log, const struct kv_item *item)
{
	static char bytes[RECORD_MAX];

	if (log_write(log->fd, bytes, record_build(bytes, item)))
		err(1, "%s.new", log->path);
}

/* Either file is whole, whenever the server is killed. */
void log_end_anew(struct log *log)
{
	char path[PATH_MAX];

	new_path(log, path);
	if (fsync(log->fd) || rename(path, log->path))
		err(1, "%s", path);
	sync_directory(log->path);
	close(log->old_fd);
}
