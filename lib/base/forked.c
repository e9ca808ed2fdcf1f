/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three signs tell a forked child. The handler of pthread_atfork(3) is missing
 * after a bare clone(2). A page that the kernel wipes is not wiped by all
 * emulators. The process id is the same if parent and child are each the first
 * of a PID namespace, so it is not asked alone: see rdmamsg__fork_check().
 */
#include "base/forked.h"
#include "base/page.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_MAX	65536u		/* the largest of any machine */

struct memory {
	void *at;
	size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct memory *memory;
static size_t count, room;
static bool *owned;			/* by descriptor */
static int owned_room, owned_count;
/* A page of its own, which stays as long as the library. */
static uint8_t around_mark[2 * PAGE_MAX];
static volatile bool *mark;		/* false in a child, if wiped */
static volatile bool forked;

static void before_fork(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	(void)pthread_mutex_unlock(&lock);
}

/* Clears what the kernel has not. */
static void clear(void)
{
	if (mark && !*mark)
		return;
	for (size_t i = 0; i < count; i++)
		memset(memory[i].at, 0, memory[i].size);
}

static void in_child(void)
{
	forked = true;
	clear();
	count = 0;
	for (int fd = 0; fd < owned_room; fd++)
		if (owned[fd]) {
			owned[fd] = false;
			close(fd);
		}
	owned_count = 0;
	(void)pthread_mutex_unlock(&lock);
}

/* Without the page, the handler clears the memory. */
static void start(void)
{
	void *at = (void *)whole_pages((uintptr_t)around_mark);

	(void)pthread_atfork(before_fork, in_parent, in_child);
	if (page_size() > PAGE_MAX ||
	    madvise(at, page_size(), MADV_WIPEONFORK))
		return;
	mark = at;
	*mark = true;
}

bool rdmamsg__is_forked(void)
{
	return forked || (mark && !*mark);
}

void rdmamsg__fork_forget(void)
{
	(void)pthread_once(&once, start);
	forked = false;
	if (mark)
		*mark = true;
}

/* ---- memory ------------------------------------------------------------ */

static bool remember(void *at, size_t size)
{
	struct memory *more;

	if (count == room) {
		more = realloc(memory, (2 * room + 16) * sizeof(*more));
		if (!more)
			return false;
		memory = more;
		room = 2 * room + 16;
	}
	memory[count++] = (struct memory){ at, size };
	return true;
}

bool rdmamsg__wipe_on_fork(void *at, size_t size)
{
	bool ok;

	(void)pthread_once(&once, start);
	(void)madvise(at, size, MADV_WIPEONFORK);
	(void)pthread_mutex_lock(&lock);
	ok = remember(at, size);
	(void)pthread_mutex_unlock(&lock);
	return ok;
}

void rdmamsg__wipe_forget(const void *at)
{
	size_t i;

	(void)pthread_mutex_lock(&lock);
	/* the last are mostly the first to go */
	for (i = count; i && memory[i - 1].at != at; i--)
		;
	if (i)
		memory[i - 1] = memory[--count];
	if (!count) {
		free(memory);
		memory = NULL;
		room = 0;
	}
	(void)pthread_mutex_unlock(&lock);
}

/* ---- descriptors ------------------------------------------------------- */

static bool make_room(int fd)
{
	bool *more;
	int size = 2 * fd + 16;

	if (fd < owned_room)
		return true;
	more = realloc(owned, (size_t)size * sizeof(*more));
	if (!more)
		return false;
	memset(more + owned_room, 0,
	       (size_t)(size - owned_room) * sizeof(*more));
	owned = more;
	owned_room = size;
	return true;
}

void rdmamsg__fd_own(int fd)
{
	(void)pthread_once(&once, start);
	(void)pthread_mutex_lock(&lock);
	if (make_room(fd) && !owned[fd]) {
		owned[fd] = true;
		owned_count++;
	}
	(void)pthread_mutex_unlock(&lock);
}

void rdmamsg__fd_disown(int fd)
{
	(void)pthread_mutex_lock(&lock);
	if (fd >= 0 && fd < owned_room && owned[fd]) {
		owned[fd] = false;
		owned_count--;
	}
	if (!owned_count) {
		free(owned);
		owned = NULL;
		owned_room = 0;
	}
	(void)pthread_mutex_unlock(&lock);
}
