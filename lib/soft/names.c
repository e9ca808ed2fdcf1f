/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names: abstract sockets, of a user and a fabric. The kernel frees them with
 * the process that has them.
 */
#include "priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t vname(const struct soft_dev *dev, struct sockaddr_un *un,
		       const char *fmt, va_list ap)
{
	char *at = un->sun_path + 1;
	size_t room = sizeof(un->sun_path) - 1;
	int n, m;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(at, room, "rdmamsg-soft/%u/%s/", geteuid(),
		     dev->fabric_name);
	m = vsnprintf(at + n, room - (size_t)n, fmt, ap);
	n = min(n + m, (int)room - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

static int make_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	return fd < 0 ? -errno : fd;
}

int soft_name_listen(const struct soft_dev *dev, int backlog, const char *fmt,
		     ...)
{
	struct sockaddr_un un;
	socklen_t len;
	va_list ap;
	int fd = make_socket(), ret;

	if (fd < 0)
		return fd;
	va_start(ap, fmt);
	len = vname(dev, &un, fmt, ap);
	va_end(ap);
	if (bind(fd, (struct sockaddr *)&un, len) ||
	    (backlog && listen(fd, backlog))) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

int soft_name_connect(const struct soft_dev *dev, const char *fmt, ...)
{
	struct sockaddr_un un;
	socklen_t len;
	va_list ap;
	int fd = make_socket(), ret;

	if (fd < 0)
		return fd;
	va_start(ap, fmt);
	len = vname(dev, &un, fmt, ap);
	va_end(ap);
	if (connect(fd, (struct sockaddr *)&un, len))
		ret = -errno;
	else
		ret = soft_same_user(fd) ? 0 : -ECONNREFUSED;
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

/* Anybody can take and connect to an abstract name. */
bool soft_same_user(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	       cred.uid == geteuid();
}
