/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Appends groups of records. A thread of libuv's pool writes and waits for the
 * disk, while the loop serves clients and fills the next group.
 */
#include "log.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

int log_write(int fd, const char *bytes, size_t len)
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
	return 0;
}

/* In a thread of the pool, which alone uses 'writing' and 'error' meanwhile. */
static void write_group(uv_work_t *work)
{
	struct log *log = work->data;

	log->error = log_write(log->fd, log->writing.bytes, log->writing.len);
	if (!log->error && fdatasync(log->fd))
		log->error = -errno;
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

void log_start(struct log *log, uv_loop_t *loop)
{
	log->loop = loop;
	log->work.data = log->check.data = log;
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
