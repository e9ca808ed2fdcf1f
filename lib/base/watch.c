/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors in a loop. */
#include "base/forked.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/watch.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

int rdmamsg__watch(struct loop *loop, int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };

	return epoll_ctl(loop->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int rdmamsg__watch_again(struct loop *loop, int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };

	return epoll_ctl(loop->epfd, EPOLL_CTL_MOD, fd, &ev) ? -errno : 0;
}

void rdmamsg__unwatch(struct loop *loop, int fd)
{
	(void)epoll_ctl(loop->epfd, EPOLL_CTL_DEL, fd, NULL);
}

int rdmamsg__watch_set(struct loop *loop, struct watch *w, uint32_t events)
{
	struct epoll_event ev = {
		.events = events, .data.ptr = (char *)w + WATCH_TAG,
	};

	if (!events && !w->on)
		return 0;
	if (!events)
		rdmamsg__unwatch(loop, w->fd);
	else if (epoll_ctl(loop->epfd, w->on ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
			   w->fd, &ev))
		return -errno;
	w->on = events;
	return 0;
}

void rdmamsg__watch_end(struct loop *loop, struct watch *w, void *mem)
{
	(void)rdmamsg__watch_set(loop, w, 0);
	rdmamsg__fd_disown(w->fd);
	close(w->fd);
	rdmamsg__watch_retire(loop, w, mem);
}

void rdmamsg__watch_retire(struct loop *loop, struct watch *w, void *mem)
{
	w->fd = -1;
	w->mem = mem;
	list_add_tail(&loop->ended, &w->node);
	loop->work = true;
}

void rdmamsg__watches_reap(struct loop *loop)
{
	while (!list_empty(&loop->ended)) {
		struct watch *w = list_first(&loop->ended, struct watch, node);

		list_del(&w->node);
		free(w->mem);
	}
}
