/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the C library, replaced by -Wl,--wrap: descriptors that need no
 * kernel, a clock that only the scheduler advances, and mappings that are used
 * again.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FD_FIRST	100000
#define FDS		64
#define WATCHES		16
#define MAPS		256

enum kind { FD_FREE, FD_EPOLL, FD_EVENT, FD_TIMER, FD_OBJECT };

struct fd {
	enum kind kind;
	uint64_t count;			/* FD_EVENT, FD_OBJECT */
	uint64_t when;			/* FD_TIMER; 0: not armed */
	int watches;
	struct {
		int fd;
		struct epoll_event ev;
	} watch[WATCHES];
};

static struct fd fds[FDS];
static unsigned int open_fds;
uint64_t sim_now;

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_wait(int epfd, struct epoll_event *ev, int max, int ms);
int __wrap_eventfd(unsigned int value, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *its,
			   struct itimerspec *old);
ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);
int __wrap_madvise(void *addr, size_t len, int advice);

/* ---- descriptors ------------------------------------------------------- */

static struct fd *fd_of(int fd)
{
	return fd >= FD_FIRST && fd < FD_FIRST + FDS ? &fds[fd - FD_FIRST] :
	       NULL;
}

static int new_fd(enum kind kind)
{
	for (int i = 0; i < FDS; i++) {
		if (fds[i].kind)
			continue;
		fds[i].kind = kind;
		fds[i].count = fds[i].when = 0;
		fds[i].watches = 0;
		open_fds++;
		return FD_FIRST + i;
	}
	sim_fail("more than %d descriptors", FDS);
}

int sim_fd_new(void)
{
	return new_fd(FD_OBJECT);
}

void sim_fd_free(int fd)
{
	struct fd *f = fd_of(fd);

	if (!f->kind)
		sim_fail("descriptor %d is not open", fd);
	f->kind = FD_FREE;
	open_fds--;
	/* as the kernel does, at the last close */
	for (int i = 0; i < FDS; i++)
		if (fds[i].kind == FD_EPOLL)
			(void)__wrap_epoll_ctl(FD_FIRST + i, EPOLL_CTL_DEL, fd,
					       NULL);
}

void sim_fd_add(int fd, int n)
{
	fd_of(fd)->count += (uint64_t)(int64_t)n;
}

unsigned int sim_fds(void)
{
	return open_fds;
}

static bool is_ready(const struct fd *f)
{
	return f->kind == FD_TIMER ? f->when && f->when <= sim_now :
	       f->count != 0;
}

bool sim_fd_ready(int epfd)
{
	const struct fd *f = fd_of(epfd);

	for (int i = 0; i < f->watches; i++)
		if (is_ready(fd_of(f->watch[i].fd)))
			return true;
	return false;
}

uint64_t sim_timer_next(void)
{
	uint64_t when = 0;

	for (int i = 0; i < FDS; i++)
		if (fds[i].kind == FD_TIMER && fds[i].when &&
		    (!when || fds[i].when < when))
			when = fds[i].when;
	return when;
}

int __wrap_epoll_create1(int flags)
{
	return new_fd(FD_EPOLL);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct fd *f = fd_of(epfd);

	/* descriptors of the kernel are never readable */
	if (!fd_of(fd))
		return 0;
	for (int i = 0; i < f->watches; i++) {
		if (f->watch[i].fd != fd)
			continue;
		if (op == EPOLL_CTL_DEL)
			f->watch[i] = f->watch[--f->watches];
		else
			f->watch[i].ev = *ev;
		return 0;
	}
	if (op != EPOLL_CTL_ADD) {
		errno = ENOENT;
		return -1;
	}
	if (f->watches == WATCHES)
		sim_fail("more than %d watches", WATCHES);
	f->watch[f->watches].fd = fd;
	f->watch[f->watches++].ev = *ev;
	return 0;
}

/*
 * The descriptors that are ready come in any order. Only rdmamsg_close() waits
 * for one.
 */
int __wrap_epoll_wait(int epfd, struct epoll_event *ev, int max, int ms)
{
	const struct fd *f = fd_of(epfd);
	uint32_t from = f->watches ? sim_below((uint32_t)f->watches) : 0;
	int n = 0;

	for (int i = 0; i < f->watches && n < max; i++) {
		int at = (i + (int)from) % f->watches;

		if (!is_ready(fd_of(f->watch[at].fd)))
			continue;
		ev[n].events = EPOLLIN;
		ev[n++].data = f->watch[at].ev.data;
	}
	if (!n && ms > 0)
		sim_sleep((uint32_t)ms);
	return n;
}

int __wrap_eventfd(unsigned int value, int flags)
{
	return new_fd(FD_EVENT);
}

int __wrap_timerfd_create(int clock, int flags)
{
	return new_fd(FD_TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *its,
			   struct itimerspec *old)
{
	fd_of(fd)->when = (uint64_t)its->it_value.tv_sec * 1000000000u +
			  (uint64_t)its->it_value.tv_nsec;
	return 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	struct fd *f = fd_of(fd);

	if (!f)
		return __real_read(fd, buf, len);
	if (!is_ready(f)) {
		errno = EAGAIN;
		return -1;
	}
	*(uint64_t *)buf = f->kind == FD_TIMER ? 1 : f->count;
	f->count = f->when = 0;
	return sizeof(uint64_t);
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	struct fd *f = fd_of(fd);

	if (!f)
		return __real_write(fd, buf, len);
	f->count += *(const uint64_t *)buf;
	return sizeof(uint64_t);
}

int __wrap_close(int fd)
{
	if (!fd_of(fd))
		return __real_close(fd);
	sim_fd_free(fd);
	return 0;
}

int __wrap_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	if (fd_of(fd))
		return 0;
	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	return __real_fcntl(fd, cmd, arg);
}

/* ---- time and numbers -------------------------------------------------- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	ts->tv_sec = (time_t)(sim_now / 1000000000u);
	ts->tv_nsec = (long)(sim_now % 1000000000u);
	return 0;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	sim_bytes(buf, len);
	return (ssize_t)len;
}

/* ---- memory ------------------------------------------------------------ */

/* Mappings that were given back. */
static struct {
	void *mem;
	size_t len;
} maps[MAPS];
static unsigned int map_count;

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset)
{
	if (addr || fd >= 0 || !(flags & MAP_ANONYMOUS))
		return __real_mmap(addr, len, prot, flags, fd, offset);
	for (unsigned int i = 0; i < map_count; i++) {
		void *mem = maps[i].mem;

		if (maps[i].len != len)
			continue;
		maps[i] = maps[--map_count];
		/* objects rely on zeros; buffers do not */
		if (len <= 65536)
			memset(mem, 0, len);
		return mem;
	}
	return __real_mmap(NULL, len, prot, flags, fd, offset);
}

int __wrap_munmap(void *addr, size_t len)
{
	if (map_count == MAPS)
		return __real_munmap(addr, len);
	maps[map_count].mem = addr;
	maps[map_count++].len = len;
	return 0;
}

int __wrap_madvise(void *addr, size_t len, int advice)
{
	return 0;
}
