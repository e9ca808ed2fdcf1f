/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's standard input, output and error are descriptors 0 to 2, open
 * or not. A program that was started without them would print into a descriptor
 * of the library with such a number. So the library has none.
 */
#ifndef RDMAMSG_BASE_FD_H
#define RDMAMSG_BASE_FD_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/util.h"

#define FD_LOWEST	3

/* Copies fd. Returns -1 with errno if that fails. */
static inline int fd_copy(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, FD_LOWEST);
}

/*
 * For the result of each call that makes a descriptor: returns the same
 * descriptor as FD_LOWEST or above, or -1 with errno.
 */
static inline int fd_high(int fd)
{
	int copy, err;

	if (likely(fd >= FD_LOWEST || fd < 0))
		return fd;
	copy = fd_copy(fd);
	err = errno;
	close(fd);
	errno = err;
	return copy;
}

/*
 * Around calls of other libraries, which choose the numbers: occupies 0 to 2
 * where they are closed. These descriptors can neither be read nor written.
 */
struct fd_fill {
	int n;
	int fd[FD_LOWEST];
};

static inline void fd_fill(struct fd_fill *f)
{
	struct pollfd std[FD_LOWEST] = { { .fd = 0 }, { .fd = 1 }, { .fd = 2 } };
	int fd;

	f->n = 0;
	if (likely(poll(std, FD_LOWEST, 0) <= 0 ||
		   !((std[0].revents | std[1].revents | std[2].revents) &
		     POLLNVAL)))
		return;
	while ((fd = epoll_create1(EPOLL_CLOEXEC)) >= 0 && fd < FD_LOWEST)
		f->fd[f->n++] = fd;
	if (fd >= 0)
		close(fd);
}

/* Keeps errno. */
static inline void fd_unfill(struct fd_fill *f)
{
	int err = errno;

	while (f->n)
		close(f->fd[--f->n]);
	errno = err;
}

#endif
