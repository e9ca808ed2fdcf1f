/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of kv-server: every change is on the disk before it is acknowledged.
 * Changes that come while the disk is busy wait, and one fdatasync() serves all
 * of them.
 */
#ifndef KV_LOG_H
#define KV_LOG_H

#include <uv.h>

#include "wire.h"

/* Records side by side, and for each whoever waits for it. */
struct group {
	char *bytes;
	size_t len, room;
	void **waiters;
	size_t count, waiters_room;
};

struct log {
	uv_loop_t *loop;
	uv_check_t check;	/* after each wake of the loop */
	uv_work_t work;
	int fd, old_fd;
	char *path;
	size_t size;		/* bytes of the file at the start */
	int error;		/* negative errno: takes no more records */
	bool busy;		/* 'writing' is on its way to the disk */
	struct group filling, writing;
	/*
	 * The record is on the disk, in the order of log_add(); or it was there
	 * at the start, with waiter NULL. error < 0: it was not written.
	 */
	void (*on_record)(void *user, const struct kv_item *item, void *waiter,
			  int error);
	void (*on_idle)(void *user);	/* nothing waits any more */
	void *user;
};

/* ---- the file, before the loop runs: log_file.c. Exits on failure ------ */

/*
 * Opens the log, calls on_record for each whole record, and cuts off what was
 * half written when the server was killed.
 */
void log_open(struct log *log, const char *path);
/* Replaces the file by one that has only the records between the two calls. */
void log_begin_anew(struct log *log);
void log_add_anew(struct log *log, const struct kv_item *item);
void log_end_anew(struct log *log);
int log_write(int fd, const char *bytes, size_t len);

/* ---- in the loop: log.c ------------------------------------------------ */

void log_start(struct log *log, uv_loop_t *loop);

/* Adds a record. -ENOMEM, or the error that has ended the log. */
int log_add(struct log *log, const struct kv_item *item, void *waiter);

bool log_is_idle(const struct log *log);

/* Closes the file, when the log is idle. */
void log_close(struct log *log);

#endif
