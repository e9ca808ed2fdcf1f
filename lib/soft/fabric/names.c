/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel frees a name when its process ends. */
#include "soft/fabric/names.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "soft/fabric/denied.h"
#include "soft/fabric/dev.h"

/* Returns the length of the address, -ENAMETOOLONG or -EACCES. */
static int vname(const struct soft_dev *dev, struct sockaddr_un *un,
		 const char *fmt, va_list ap)
{
	char *at = un->sun_path + 1;
	int room = (int)sizeof(un->sun_path) - 1, n, m;

	/* after seteuid() all peers refuse this process */
	if (geteuid() != dev->uid)
		return -EACCES;
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(at, (size_t)room, "rdmamsg-soft/%u/%s/", dev->uid,
		     dev->fabric_name);
	/* a truncated name would be the name of another socket */
	if (n < 0 || n >= room)
		return -ENAMETOOLONG;
	m = vsnprintf(at + n, (size_t)(room - n), fmt, ap);
	if (m < 0 || m >= room - n)
		return -ENAMETOOLONG;
	return (int)offsetof(struct sockaddr_un, sun_path) + 1 + n + m;
}

/*
 * Returns a socket and the address for it, or -errno. It is no rsocket below
 * librspreload: rsocket() refuses AF_UNIX, and types with a flag such as
 * SOCK_CLOEXEC. See addr_local().
 */
static int named_socket(const struct soft_dev *dev, struct sockaddr_un *un,
			socklen_t *len, const char *fmt, va_list ap)
{
	int n = vname(dev, un, fmt, ap), fd;

	if (n < 0)
		return n;
	*len = (socklen_t)n;
	fd = fd_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
			    SOCK_NONBLOCK, 0));
	return fd < 0 ? soft_denied(-errno) : fd;
}

int soft_name_listen(const struct soft_dev *dev, int backlog, const char *fmt,
		     ...)
{
	struct sockaddr_un un;
	socklen_t len;
	va_list ap;
	int fd, ret;

	va_start(ap, fmt);
	fd = named_socket(dev, &un, &len, fmt, ap);
	va_end(ap);
	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&un, len) ||
	    (backlog && listen(fd, backlog))) {
		ret = soft_denied(-errno);
		close(fd);
		return ret;
	}
	return fd;
}

/*
 * Returns -EPERM if a process of another user has the name. The kernel itself
 * says so only of a policy, as of Landlock or AppArmor: -EACCES.
 */
static int name_connect(const struct soft_dev *dev, const char *fmt, va_list ap)
{
	struct sockaddr_un un;
	socklen_t len;
	int fd = named_socket(dev, &un, &len, fmt, ap), ret;

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&un, len))
		ret = soft_denied(-errno);
	else
		ret = soft_same_user(fd) ? 0 : -EPERM;
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

int soft_name_connect(const struct soft_dev *dev, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = name_connect(dev, fmt, ap);
	va_end(ap);
	/* for this user, the name does not exist */
	return ret == -EPERM ? -ECONNREFUSED : ret;
}

bool soft_name_foreign(const struct soft_dev *dev, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = name_connect(dev, fmt, ap);
	va_end(ap);
	if (ret >= 0)
		close(ret);
	return ret == -EPERM;
}

/* Needed because every user can bind and connect to an abstract name. */
bool soft_same_user(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	       cred.uid == geteuid();
}
