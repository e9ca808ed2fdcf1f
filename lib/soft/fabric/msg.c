/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define FDS_MAX	4

int soft_msg_send(int fd, const void *msg, size_t len, const int *fds, int n)
{
	union {
		char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} u;
	struct iovec iov = { (void *)msg, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t done;

	memset(&u, 0, sizeof(u));
	if (n) {
		struct cmsghdr *c;

		m.msg_control = u.buf;
		m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
	}
	done = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (done < 0)
		return -errno;
	return (size_t)done == len ? 0 : -EIO;
}

int soft_msg_recv(int fd, void *buf, size_t size, int *fds, int n)
{
	union {
		char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} u;
	struct iovec iov = { buf, size };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	struct cmsghdr *c;
	ssize_t got = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int have = 0;

	for (int i = 0; i < n; i++)
		fds[i] = -1;
	if (got < 0)
		return -errno;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(one));
			one = fd_high(one);
			if (have < n)
				fds[have++] = one;
			else if (one >= 0)
				close(one);
		}
	}
	return (int)got;
}
