/* SPDX-License-Identifier: BSD-2-Clause */
#include "clock.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS		1000000000ull
#define FDS		4096	/* timers with larger descriptors do not move */

typedef int gettime_fn(clockid_t clock, struct timespec *ret);
typedef int settime_fn(int fd, int flags, const struct itimerspec *new,
		       struct itimerspec *old);
typedef int create_fn(int clock, int flags);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t due[FDS];		/* ns, as the test sees the time */
static uint64_t ahead;			/* ns, modulo 2^64 */
static uint64_t stopped_at;		/* ns of the real clock, or 0 */
static atomic_bool changed;		/* this clock is not the real one */

/* The C library's own. */
#define REAL(type, name)	((type *)(uintptr_t)find(name))

static void *find(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	if (!fn)
		abort();
	return fn;
}

static uint64_t ns_of(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NS + (uint64_t)ts->tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / NS), (long)(ns % NS) };
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static gettime_fn *_Atomic real;
	int err;

	if (!real)
		real = REAL(gettime_fn, "clock_gettime");
	if (!changed ||
	    (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return real(clock, ret);
	pthread_mutex_lock(&lock);
	err = real(clock, ret);
	if (!err)
		*ret = timespec_of((stopped_at ? stopped_at : ns_of(ret)) +
				   ahead);
	pthread_mutex_unlock(&lock);
	return err;
}

/*
 * Sets the kernel's timer, which is behind. While the clock stands still, a
 * timer that is not due yet does not run.
 */
static int arm(int fd, int flags, uint64_t ns, struct itimerspec *old)
{
	settime_fn *real = REAL(settime_fn, "timerfd_settime");
	int64_t at = (int64_t)(ns - ahead);
	struct itimerspec its = { 0 };

	if (!stopped_at || at <= (int64_t)stopped_at)
		its.it_value = timespec_of(at > 0 ? (uint64_t)at : 1);
	return real(fd, flags, &its, old);
}

static void arm_all(void)
{
	for (int fd = 0; fd < FDS; fd++)
		if (due[fd])
			(void)arm(fd, TFD_TIMER_ABSTIME, due[fd], NULL);
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
		due[fd] = ns_of(&new->it_value);
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
	changed = true;
	ahead += (uint64_t)ms * 1000000;
	arm_all();
	pthread_mutex_unlock(&lock);
	errno = saved;
}

static uint64_t real_now(void)
{
	struct timespec now = { 0 };

	(void)REAL(gettime_fn, "clock_gettime")(CLOCK_MONOTONIC, &now);
	return ns_of(&now);
}

void clock_stop(void)
{
	pthread_mutex_lock(&lock);
	changed = true;
	stopped_at = real_now();
	arm_all();
	pthread_mutex_unlock(&lock);
}

void clock_go(void)
{
	pthread_mutex_lock(&lock);
	if (stopped_at)
		ahead -= real_now() - stopped_at;
	stopped_at = 0;
	arm_all();
	pthread_mutex_unlock(&lock);
}

/* ---- the other threads ------------------------------------------------ */

static bool timer_waits(void)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int fd = 0; fd < FDS && !found; fd++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct itimerspec its;

		/* a closed timer's descriptor may be something else now */
		if (due[fd] && timerfd_gettime(fd, &its))
			due[fd] = 0;
		found = due[fd] && poll(&p, 1, 0) == 1 && p.revents & POLLIN;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Adds how often a thread has left the processor. Returns true if it sleeps. */
static bool thread_sleeps(const char *tid, uint64_t *switches)
{
	char path[300], line[128];
	bool sleeps = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	f = fopen(path, "re");
	if (!f)
		return true;		/* it has ended */
	while (fgets(line, sizeof(line), f)) {
		const char *count = strstr(line, "voluntary_ctxt_switches:");

		if (!strncmp(line, "State:", 6))
			sleeps = line[7] == 'S';
		if (count)
			*switches += strtoull(strchr(count, ':') + 1, NULL, 10);
	}
	fclose(f);
	return sleeps;
}

static bool threads_sleep(uint64_t *ret_switches)
{
	char self[16];
	bool sleep = true;
	struct dirent *d;
	DIR *dir = opendir("/proc/self/task");

	if (!dir)
		abort();
	*ret_switches = 0;
	(void)snprintf(self, sizeof(self), "%d", (int)syscall(SYS_gettid));
	while ((d = readdir(dir)))
		if (d->d_name[0] != '.' && strcmp(d->d_name, self))
			sleep &= thread_sleeps(d->d_name, ret_switches);
	closedir(dir);
	return sleep;
}

bool clock_others_sleep(void)
{
	uint64_t before, after;

	/* a thread that another one has woken up meanwhile has run */
	return threads_sleep(&before) && !timer_waits() &&
	       threads_sleep(&after) && before == after;
}
