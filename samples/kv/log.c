/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Appends groups of records. A thread of libuv's pool writes and waits for the
 * disk, while the loop serves clients and fills the next group.
 */
#include "log.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

/* ---- groups ----------------------------------------------------------- */

static bool grow(void **array, size_t *room, size_t wanted, size_t width)
{
	size_t more = *room ? *room : 64;
	void *new;

	if (wanted <= *room)
		return true;
	while (more < wanted)
		more *= 2;
	new = realloc(*array, more * width);
	if (!new)
		return false;
	*array = new;
	*room = more;
	return true;
}

static bool group_has_room(struct group *g)
{
	return grow((void **)&g->bytes, &g->room, g->len + RECORD_MAX, 1) &&
	       grow((void **)&g->waiters, &g->waiters_room, g->count + 1,
		    sizeof(*g->waiters));
}

static void group_free(struct group *g)
{
	free(g->bytes);
	free(g->waiters);
}

/* ---- writing ---------------------------------------------------------- */

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		bytes += n;
		len -= (size_t)n;
	}
	return fdatasync(fd) ? -errno : 0;
}

/* In a thread of the pool, which alone uses 'writing' and 'error' meanwhile. */
static void write_group(uv_work_t *work)
{
	struct log *log = work->data;

	log->error = write_all(log->fd, log->writing.bytes, log->writing.len);
}

static void tell_waiters(struct log *log)
{
	struct group *g = &log->writing;
	struct kv_item item;
	size_t at = 0;

	for (size_t i = 0; i < g->count; i++) {
		at += record_parse(g->bytes + at, g->len - at, &item);
		log->on_record(log->user, &item, g->waiters[i], log->error);
	}
	g->len = g->count = 0;
}

static void begin_group(struct log *log);

/*
 * After an error the file's end is not known, so nothing more is written: what
 * was acknowledged stays readable.
 */
static void group_written(uv_work_t *work, int status)
{
	struct log *log = work->data;

	log->busy = false;
	if (log->error)
		warnx("%s: %s; no change is accepted until the server is "
		      "started again with room on the disk", log->path,
		      strerror(-log->error));
	tell_waiters(log);
	if (log->filling.count)
		begin_group(log);
	else
		log->on_idle(log->user);
}

static void begin_group(struct log *log)
{
	struct group full = log->filling;

	log->filling = log->writing;
	log->writing = full;
	log->busy = true;
	if (log->error)		/* of the group before */
		group_written(&log->work, 0);
	else
		uv_queue_work(log->loop, &log->work, write_group,
			      group_written);
}

/* All that has come with this wake goes together. */
static void on_check(uv_check_t *check)
{
	struct log *log = check->data;

	if (!log->busy && log->filling.count)
		begin_group(log);
}

int log_add(struct log *log, const struct kv_item *item, void *waiter)
{
	struct group *g = &log->filling;

	if (!log->busy && log->error)
		return log->error;
	if (!group_has_room(g))
		return -ENOMEM;
	g->len += record_build(g->bytes + g->len, item);
	g->waiters[g->count++] = waiter;
	return 0;
}

bool log_is_idle(const struct log *log)
{
	return !log->busy && !log->filling.count;
}

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
	if (ftruncate(log->fd, 0) ||
	    write_all(log->fd, magic, sizeof(magic)))
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

void log_open(struct log *log, uv_loop_t *loop, const char *path)
{
	struct stat st;
	size_t whole;

	log->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log->fd < 0 || fstat(log->fd, &st))
		err(1, "%s: the log cannot be opened", path);
	if (flock(log->fd, LOCK_EX | LOCK_NB))
		errx(1, "%s: another kv-server has it", path);
	log->loop = loop;
	log->path = strdup(path);
	log->work.data = log->check.data = log;
	whole = replay_file(log, (size_t)st.st_size);
	cut_off(log, whole, (size_t)st.st_size);
	sync_directory(path);
	uv_check_init(loop, &log->check);
	uv_check_start(&log->check, on_check);
}

void log_close(struct log *log)
{
	uv_close((uv_handle_t *)&log->check, NULL);
	close(log->fd);
	group_free(&log->filling);
	group_free(&log->writing);
	free(log->path);
}
