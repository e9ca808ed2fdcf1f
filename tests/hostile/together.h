/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of several processes that share memory: a server, an innocent, and who
 * attacks. A process that finds harm says so in 'harm', and verdict() prints a
 * result.
 */
#ifndef TESTS_HOSTILE_TOGETHER_H
#define TESTS_HOSTILE_TOGETHER_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The first member of the shared memory of a test. */
struct harm {
	_Atomic bool done;
	char text[256];
};

static struct harm *harm;
static int failures;

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Keeps the first text. */
static void __attribute__((format(printf, 1, 2))) harmed(const char *fmt, ...)
{
	va_list ap;

	if (harm->done)
		return;
	va_start(ap, fmt);
	vsnprintf(harm->text, sizeof(harm->text), fmt, ap);
	va_end(ap);
	harm->done = true;
}

static void __attribute__((format(printf, 3, 4)))
verdict(const char *name, bool good, const char *fmt, ...)
{
	va_list ap;

	failures += !good;
	printf("%s %s\n#   ", good ? "ok" : "not ok", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

static inline pid_t start(int (*fn)(void))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	exit(fn());
}

static inline void ended_well(pid_t pid, const char *name)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		verdict(name, false, "ended with status 0x%x", status);
}

#endif
