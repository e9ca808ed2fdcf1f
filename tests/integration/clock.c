/* SPDX-License-Identifier: BSD-2-Clause */
#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>

#define NS		1000000000ull
#define FDS		4096	/* timers with larger descriptors do not move */

typedef int gettime_fn(clockid_t clock, struct timespec *ret);
typedef int settime_fn(int fd, int flags, const struct itimerspec *new,
		       struct itimerspec *old);
typedef int create_fn(int clock, int flags);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t due[FDS];		/* ns, as the test sees the time */
static _Atomic uint64_t ahead;		/* ns */

/* The C library's own. */
#define REAL(type, name)	((type *)(uintptr_t)find(name))

static void *find(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	if (!fn)
		abort();
	return fn;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static gettime_fn *_Atomic real;
	uint64_t ns;
	int err;

	if (!real)
		real = REAL(gettime_fn, "clock_gettime");
	err = real(clock, ret);
	if (err || !ahead || (clock != CLOCK_MONOTONIC &&
			      clock != CLOCK_MONOTONIC_COARSE))
		return err;
	ns = (uint64_t)ret->tv_nsec + ahead;
	ret->tv_sec += (time_t)(ns / NS);
	ret->tv_nsec = (long)(ns % NS);
	return 0;
}

/* Sets the kernel's timer, which is behind. */
static int arm(int fd, int flags, uint64_t ns, struct itimerspec *old)
{
	settime_fn *real = REAL(settime_fn, "timerfd_settime");
	struct itimerspec its = { 0 };

	ns = ns > ahead ? ns - ahead : 1;
	its.it_value.tv_sec = (time_t)(ns / NS);
	its.it_value.tv_nsec = (long)(ns % NS);
	return real(fd, flags, &its, old);
}

static bool moves(int fd, int flags, const struct itimerspec *its)
{
	return fd >= 0 && fd < FDS && flags & TFD_TIMER_ABSTIME &&
	       !its->it_interval.tv_sec && !its->it_interval.tv_nsec &&
	       (its->it_value.tv_sec || its->it_value.tv_nsec);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new,
		    struct itimerspec *old)
{
	settime_fn *real = REAL(settime_fn, "timerfd_settime");
	int ret;

	pthread_mutex_lock(&lock);
	if (moves(fd, flags, new)) {
		due[fd] = (uint64_t)new->it_value.tv_sec * NS +
			  (uint64_t)new->it_value.tv_nsec;
		ret = arm(fd, flags, due[fd], old);
	} else {
		if (fd >= 0 && fd < FDS)
			due[fd] = 0;
		ret = real(fd, flags, new, old);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* A descriptor is used again. */
int timerfd_create(int clock, int flags)
{
	create_fn *real = REAL(create_fn, "timerfd_create");
	int fd = real(clock, flags);

	pthread_mutex_lock(&lock);
	if (fd >= 0 && fd < FDS)
		due[fd] = 0;
	pthread_mutex_unlock(&lock);
	return fd;
}

void clock_pass(uint32_t ms)
{
	int saved = errno;

	pthread_mutex_lock(&lock);
	ahead += (uint64_t)ms * 1000000;
	for (int fd = 0; fd < FDS; fd++)
		if (due[fd])
			(void)arm(fd, TFD_TIMER_ABSTIME, due[fd], NULL);
	pthread_mutex_unlock(&lock);
	errno = saved;
}
