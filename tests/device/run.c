/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a case in a process of its own, and compares it with differences.c. */
#include "run.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *device = "soft";
static bool soft;
/* The keys into 'known': the kind of the device, then "iwarp" or NULL. */
static const char *kinds[2];
static const struct difference *known = differences;
static int kernel;	/* LINUX() */
static int case_ms = 180000;
static int64_t end_ms = INT64_MAX;	/* of all cases */

static void running_kernel(void)
{
	int major = 0, minor = 0;
	struct utsname u;

	if (!uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2)
		kernel = LINUX(major, minor);
}

/* Reads the device list, because an open device does not survive a fork. */
static bool lists_iwarp(void)
{
	bool iwarp = false;
	struct ibv_device **list;
	int n = 0;

	list = v->get_device_list(&n);
	for (int i = 0; list && i < n; i++)
		if (soft || !strcmp(v->get_device_name(list[i]), device))
			iwarp = list[i]->transport_type ==
				IBV_TRANSPORT_IWARP;
	if (list)
		v->free_device_list(list);
	return iwarp;
}

static bool is_of(const struct difference *d, const char *name,
		  const char *kind)
{
	return !strcmp(d->name, name) &&
	       !strncmp(d->device, kind, strlen(d->device)) &&
	       kernel >= d->first && (!d->last || kernel <= d->last);
}

/*
 * Returns the case's first difference whose text is in 'said', or its first one
 * if 'said' is NULL. Entries for the device count instead of those for "iwarp".
 */
static const struct difference *written(const char *name, const char *said)
{
	bool any = false;

	for (int i = 0; i < 2 && kinds[i] && !any; i++)
		for (const struct difference *d = known; d->name; d++) {
			if (!is_of(d, name, kinds[i]))
				continue;
			any = true;
			if (d->does != NONE && (!said || strstr(said, d->does)))
				return d;
		}
	return NULL;
}

/* Tells the case which of its waits may be in vain. */
static void tell_written(const char *name)
{
	static char texts[512];
	size_t len = 0;

	for (int i = 0; i < 2 && kinds[i] && !len; i++)
		for (const struct difference *d = known; d->name; d++)
			if (is_of(d, name, kinds[i]) && d->does != NONE &&
			    len < sizeof(texts))
				len += (size_t)snprintf(texts + len,
							sizeof(texts) - len,
							"%s\n", d->does);
	written_texts = texts;
}

static void (*at_end)(void);	/* of run_otherwise(), or NULL */

void run_otherwise(const struct difference *list, void (*fn)(void))
{
	known = list;
	at_end = fn;
}

static bool shared;	/* cases are in the fabric of other processes */

void run_shared(void)
{
	shared = true;
}

void run_limit(int ms)
{
	end_ms = now_ms() + ms;
}

/* Returns how long a case may be silent: not longer than all cases may take. */
static int silence_ms(void)
{
	int64_t left = end_ms - now_ms();

	return left < 0 ? 0 : left < case_ms ? (int)left : case_ms;
}

bool run_over(void)
{
	return now_ms() >= end_ms;
}

/* Lets a case end with the program that runs it. */
static void end_with(pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(2);
}

static void child(const struct device_case *c)
{
	char fabric[32];

	tell_written(c->name);
	/* a fabric of its own keeps other processes of this host out */
	(void)snprintf(fabric, sizeof(fabric), "device-%d", (int)getpid());
	if (!shared)
		(void)setenv("RDMAMSG_SOFT_FABRIC", fabric, 1);
	device_open(soft ? "soft0" : device);
	c->run();
	if (at_end)
		at_end();
	device_close();
}

/*
 * Runs a case. Stores its output in 'said', with the signal that ended it, and
 * its wait status in 'status'.
 */
static void run(const struct device_case *c, char *said, size_t size,
		int *status)
{
	struct pollfd p = { .events = POLLIN };
	pid_t parent = getpid();
	size_t len = 0;
	ssize_t n = 1;
	int fds[2];
	pid_t pid;

	if (pipe(fds) || fflush(stdout))
		exit(2);
	pid = fork();
	if (pid < 0)
		exit(2);
	if (!pid) {
		/* a pipe as the output shows that this is done */
		end_with(parent);
		(void)dup2(fds[1], 1);
		(void)dup2(fds[1], 2);
		close(fds[0]);
		close(fds[1]);
		child(c);
		exit(0);
	}
	close(fds[1]);
	p.fd = fds[0];
	while (n > 0 && len < size - 1) {
		if (poll(&p, 1, silence_ms()) != 1)
			break;
		n = read(fds[0], said + len, size - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	said[len] = '\0';
	if (n)
		(void)kill(pid, SIGKILL);
	close(fds[0]);
	(void)waitpid(pid, status, 0);
	if (WIFSIGNALED(*status))
		(void)snprintf(said + len, size - len, "signal %d",
			       WTERMSIG(*status));
}

/* ---- for main.c -------------------------------------------------------- */

bool run_on(const char *name, const char *kind, const struct verbs_api *table,
	    bool is_soft, int limit_ms)
{
	device = name;
	v = table;
	soft = is_soft;
	if (limit_ms)
		case_ms = limit_ms;
	running_kernel();
	kinds[0] = kind;
	kinds[1] = lists_iwarp() ? "iwarp" : NULL;
	return kernel;
}

static enum result result_of(const struct device_case *c, int status,
			     const struct difference *d)
{
	bool ok = WIFEXITED(status) && !WEXITSTATUS(status);

	if (c->gate && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		return LIST_SKIPPED;
	if (ok)
		return d && !d->sometimes ? DIFFERENCE_GONE : PASSED;
	return d && (WIFSIGNALED(status) || WEXITSTATUS(status) == 1) ?
	       DIFFERS_AS_WRITTEN : DIFFERS;
}

struct verdict run_case(const struct device_case *c)
{
	static char said[65536];
	struct verdict r = { .said = said, .as = written(c->name, NULL) };
	int status = 0;

	*said = '\0';
	if (r.as && r.as->crashes) {
		r.result = NOT_RUN;
		return r;
	}
	run(c, said, sizeof(said), &status);
	r.as = written(c->name, WIFEXITED(status) && !WEXITSTATUS(status) ?
		       NULL : said);
	r.result = result_of(c, status, r.as);
	return r;
}
