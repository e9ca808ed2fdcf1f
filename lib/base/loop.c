/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptors of a loop. */
#include "base/fd.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/timer.h"
#include "base/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int open_fds(struct loop *loop)
{
	int ret;

	loop->epfd = fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (loop->epfd < 0)
		return -errno;
	loop->eventfd = fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (loop->eventfd < 0) {
		ret = -errno;
		goto err_epfd;
	}
	ret = rdmamsg__timers_init(&loop->timers);
	if (ret)
		goto err_eventfd;
	ret = rdmamsg__watch(loop, loop->eventfd, &loop->submit);
	if (!ret)
		ret = rdmamsg__watch(loop, loop->timers.fd, &loop->timers);
	if (ret)
		goto err_timers;
	return 0;

err_timers:
	rdmamsg__timers_fini(&loop->timers);
err_eventfd:
	close(loop->eventfd);
err_epfd:
	close(loop->epfd);
	return ret;
}

int rdmamsg__loop_open(struct loop *loop, struct rdmamsg *ctx,
		       uint32_t submit_depth)
{
	int ret = rdmamsg__submit_init(&loop->submit, submit_depth);

	if (ret)
		return ret;
	ret = open_fds(loop);
	if (ret) {
		rdmamsg__submit_fini(&loop->submit);
		return ret;
	}
	loop->ctx = ctx;
	list_init(&loop->mail);
	list_init(&loop->ended);
	pthread_mutex_init(&loop->mail_lock, NULL);
	return 0;
}

void rdmamsg__loop_close(struct loop *loop)
{
	rdmamsg__watches_reap(loop);
	rdmamsg__timers_fini(&loop->timers);
	rdmamsg__submit_fini(&loop->submit);
	pthread_mutex_destroy(&loop->mail_lock);
	close(loop->eventfd);
	/* the number may be that of a file of the program by now */
	if (!loop->lost)
		close(loop->epfd);
}

const char *rdmamsg__loop_text(int err)
{
	return err == -EBADF || err == -EINVAL ?
	       "the program has closed the descriptor of rdmamsg_fd(), which "
	       "belongs to the context: only rdmamsg_close() is left" :
	       strerror(-err);
}

void rdmamsg__loop_kick(struct loop *loop)
{
	/* cannot block, because the sum never reaches 2^64 - 2 */
	(void)eventfd_write(loop->eventfd, 1);
}
