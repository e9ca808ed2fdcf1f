/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libmnl's sockets, because rdma(8) asks the kernel over netlink for devices. A
 * socket of NETLINK_RDMA is answered here (nldev.c), others by the kernel.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "soft/preload/nldev.h"

struct mnl_socket;

struct mnl_socket *mnl_socket_open(int bus);
struct mnl_socket *mnl_socket_open2(int bus, int flags);
int mnl_socket_close(struct mnl_socket *nl);
int mnl_socket_bind(struct mnl_socket *nl, unsigned int groups, pid_t pid);
int mnl_socket_setsockopt(const struct mnl_socket *nl, int type, void *buf,
			  socklen_t len);
int mnl_socket_getsockopt(const struct mnl_socket *nl, int type, void *buf,
			  socklen_t *len);
int mnl_socket_get_fd(const struct mnl_socket *nl);
unsigned int mnl_socket_get_portid(const struct mnl_socket *nl);
ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *buf,
			  size_t len);
ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf,
			    size_t size);

struct own {
	struct own *next;
	struct nl_answer answer;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct own *sockets;

/* Returns NULL if the kernel answers the socket. */
static struct own *own_of(const struct mnl_socket *nl)
{
	struct own *o;

	(void)pthread_mutex_lock(&lock);
	for (o = sockets; o && o != (const struct own *)nl; o = o->next)
		;
	(void)pthread_mutex_unlock(&lock);
	return o;
}

/* Sets real, the function of libmnl that this one stands in for. */
#define REAL(name) \
	static __typeof__(&name) real; \
	if (!real) \
		*(void **)&real = dlsym(RTLD_NEXT, #name)

static struct mnl_socket *open_own(void)
{
	struct own *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->answer.portid = (uint32_t)getpid();
	(void)pthread_mutex_lock(&lock);
	o->next = sockets;
	sockets = o;
	(void)pthread_mutex_unlock(&lock);
	return (struct mnl_socket *)o;
}

struct mnl_socket *mnl_socket_open(int bus)
{
	REAL(mnl_socket_open);
	return bus == NETLINK_RDMA ? open_own() : real(bus);
}

struct mnl_socket *mnl_socket_open2(int bus, int flags)
{
	REAL(mnl_socket_open2);
	return bus == NETLINK_RDMA ? open_own() : real(bus, flags);
}

int mnl_socket_close(struct mnl_socket *nl)
{
	REAL(mnl_socket_close);
	struct own *o = own_of(nl), **at = &sockets;

	if (!o)
		return real(nl);
	(void)pthread_mutex_lock(&lock);
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	(void)pthread_mutex_unlock(&lock);
	free(o->answer.at);
	free(o);
	return 0;
}

int mnl_socket_bind(struct mnl_socket *nl, unsigned int groups, pid_t pid)
{
	REAL(mnl_socket_bind);
	return own_of(nl) ? 0 : real(nl, groups, pid);
}

int mnl_socket_setsockopt(const struct mnl_socket *nl, int type, void *buf,
			  socklen_t len)
{
	REAL(mnl_socket_setsockopt);
	return own_of(nl) ? 0 : real(nl, type, buf, len);
}

int mnl_socket_getsockopt(const struct mnl_socket *nl, int type, void *buf,
			  socklen_t *len)
{
	REAL(mnl_socket_getsockopt);

	if (!own_of(nl))
		return real(nl, type, buf, len);
	errno = ENOPROTOOPT;
	return -1;
}

/* There is no descriptor to wait for: the answer is there after the request. */
int mnl_socket_get_fd(const struct mnl_socket *nl)
{
	REAL(mnl_socket_get_fd);
	return own_of(nl) ? -1 : real(nl);
}

unsigned int mnl_socket_get_portid(const struct mnl_socket *nl)
{
	REAL(mnl_socket_get_portid);
	const struct own *o = own_of(nl);

	return o ? o->answer.portid : real(nl);
}

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *buf,
			  size_t len)
{
	REAL(mnl_socket_sendto);
	struct own *o = own_of(nl);
	const struct nlmsghdr *request = buf;

	if (!o)
		return real(nl, buf, len);
	if (len < NLMSG_HDRLEN || request->nlmsg_len < NLMSG_HDRLEN ||
	    request->nlmsg_len > len) {
		errno = EINVAL;
		return -1;
	}
	nldev_answer(request, &o->answer);
	if (!o->answer.failed)
		return (ssize_t)len;
	o->answer.failed = false;
	o->answer.len = o->answer.read = 0;
	errno = ENOBUFS;
	return -1;
}

/* Passes as many whole messages as there is room for. */
ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf,
			    size_t size)
{
	REAL(mnl_socket_recvfrom);
	struct own *o = own_of(nl);
	size_t len = 0;

	if (!o)
		return real(nl, buf, size);
	while (o->answer.read + len < o->answer.len) {
		const struct nlmsghdr *m = (const struct nlmsghdr *)
			(o->answer.at + o->answer.read + len);

		if (len + NLMSG_ALIGN(m->nlmsg_len) > size)
			break;
		len += NLMSG_ALIGN(m->nlmsg_len);
	}
	if (!len) {
		errno = o->answer.read < o->answer.len ? ENOSPC : EAGAIN;
		return -1;
	}
	memcpy(buf, o->answer.at + o->answer.read, len);
	o->answer.read += len;
	return (ssize_t)len;
}
