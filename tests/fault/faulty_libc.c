/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the C library, replaced by -Wl,--wrap. */
#include "faulty_call.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
void __real_free(void *p);
void __wrap_free(void *p);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);
int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
struct epoll_event;
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int __real_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __real_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **ret);
void __real_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __real_getrandom(void *buf, size_t len, unsigned int flags);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);

void *__wrap_malloc(size_t size)
{
	void *p;

	FAIL_N(malloc);
	p = __real_malloc(size);
	faulty_living[FAULTY_MEMORY] += !!p;
	return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *p;

	FAIL_N(calloc);
	p = __real_calloc(n, size);
	faulty_living[FAULTY_MEMORY] += !!p;
	return p;
}

void *__wrap_realloc(void *old, size_t size)
{
	void *p;

	FAIL_N(realloc);
	p = __real_realloc(old, size);
	faulty_living[FAULTY_MEMORY] += p && !old;
	return p;
}

char *__wrap_strdup(const char *s)
{
	char *p;

	FAIL_N(strdup);
	p = __real_strdup(s);
	faulty_living[FAULTY_MEMORY] += !!p;
	return p;
}

void __wrap_free(void *p)
{
	faulty_living[FAULTY_MEMORY] -= !!p;
	__real_free(p);
}

static long pages(size_t len)
{
	return (long)((len + 4095) / 4096);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset)
{
	void *p;

	if (faulty_fails(FAULTY_mmap))
		return MAP_FAILED;
	p = __real_mmap(addr, len, prot, flags, fd, offset);
	/* count pages, because one mapping may be unmapped in several parts */
	faulty_living[FAULTY_MAPPINGS] += p != MAP_FAILED ? pages(len) : 0;
	return p;
}

int __wrap_munmap(void *addr, size_t len)
{
	int ret = __real_munmap(addr, len);

	faulty_living[FAULTY_MAPPINGS] -= ret ? 0 : pages(len);
	return ret;
}

int __wrap_madvise(void *addr, size_t len, int advice)
{
	FAIL_M(madvise);
	return __real_madvise(addr, len, advice);
}

int __wrap_epoll_create1(int flags)
{
	FAIL_M(epoll_create1);
	return __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	/* a removal does not fail */
	if (ev)
		FAIL_M(epoll_ctl);
	return __real_epoll_ctl(epfd, op, fd, ev);
}

int __wrap_eventfd(unsigned int value, int flags)
{
	FAIL_M(eventfd);
	return __real_eventfd(value, flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
	FAIL_M(timerfd_create);
	return __real_timerfd_create(clock, flags);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	FAIL_P(pthread_create);
	return __real_pthread_create(thread, attr, fn, arg);
}

int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **ret)
{
	int gai;

	FAIL_P(getaddrinfo);
	gai = __real_getaddrinfo(host, service, hints, ret);
	faulty_living[FAULTY_ADDRS] += !gai;
	return gai;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
	faulty_living[FAULTY_ADDRS]--;
	__real_freeaddrinfo(list);
}

int __wrap_socket(int domain, int type, int protocol)
{
	FAIL_M(socket);
	return __real_socket(domain, type, protocol);
}

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	FAIL_M(accept4);
	return __real_accept4(fd, addr, len, flags);
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	FAIL_M(send);
	return __real_send(fd, buf, len, flags);
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	FAIL_M(recv);
	return __real_recv(fd, buf, len, flags);
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	FAIL_M(getrandom);
	return __real_getrandom(buf, len, flags);
}
