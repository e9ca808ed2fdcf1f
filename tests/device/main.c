/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: conform [-d DEVICE] [CASE...]
 *
 * Runs the cases on a device: the soft HCA ("soft"), or the RDMA device of that
 * name. Prints a line for each case: `ok NAME`, `not ok NAME # why` or
 * `skip NAME # why`; a gate that is skipped stands for the rest of its list. A
 * case that fails as written in differences.c counts as a known difference, and
 * one that crashes the kernel of the device is skipped. If
 * a case with an entry in differences.c passes, remove its entry, or say which
 * kernel is the last it is true for.
 */
#include "config.h"
#include "device.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE_MS	180000

static const struct device_case *const lists[] = {
	attr_cases, busy_cases, calc_cases, cm_cases, cq_cases, cross_cases,
#ifdef HAVE_MLX5DV
	dc_cases, dc_error_cases, dc_op_cases, dc_raw_cases, dc_stream_cases,
#endif
	domain_cases, error_cases, iwarp_cases, masked_cases, mcast_cases,
	mr_cases, mw_cases, op_cases, srq_cases, state_cases, ud_cases,
#ifdef HAVE_MLX5DV
	umr_cases, umr_use_cases, umr_atomic_cases,
#endif
};

static const char *device = "soft";
/* The keys into differences.c: the name of the device, then "iwarp" or NULL. */
static const char *kinds[2];
static int kernel;	/* LINUX() */

static int running_kernel(void)
{
	int major = 0, minor = 0;
	struct utsname u;

	if (uname(&u) || sscanf(u.release, "%d.%d", &major, &minor) != 2) {
		fputs("conform: which kernel is this?\n", stderr);
		exit(2);
	}
	return LINUX(major, minor);
}

/* Reads the device list, because an open device does not survive a fork. */
static bool lists_iwarp(void)
{
	bool soft = !strcmp(device, "soft"), iwarp = false;
	struct ibv_device **list;
	int n = 0;

	v = soft ? &rdmamsg__verbs_soft : &rdmamsg__verbs_system;
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
		for (const struct difference *d = differences; d->name; d++) {
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
		for (const struct difference *d = differences; d->name; d++)
			if (is_of(d, name, kinds[i]) && d->does != NONE &&
			    len < sizeof(texts))
				len += (size_t)snprintf(texts + len,
							sizeof(texts) - len,
							"%s\n", d->does);
	written_texts = texts;
}

static void child(const struct device_case *c)
{
	bool soft = !strcmp(device, "soft");
	char fabric[32];

	tell_written(c->name);
	/* a fabric of its own keeps other processes of this host out */
	(void)snprintf(fabric, sizeof(fabric), "device-%d", (int)getpid());
	(void)setenv("RDMAMSG_SOFT_FABRIC", fabric, 1);
	v = soft ? &rdmamsg__verbs_soft : &rdmamsg__verbs_system;
	device_open(soft ? "soft0" : device);
	c->run();
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
		if (poll(&p, 1, CASE_MS) != 1)
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

/* Returns true if the case passes, or fails as written in differences.c. */
static bool judge(const char *name, char *said, int status)
{
	bool ok = WIFEXITED(status) && !WEXITSTATUS(status);
	const struct difference *d = written(name, ok ? NULL : said);

	if (ok && d && !d->sometimes) {
		printf("not ok %s # a written difference has gone: %s\n", name,
		       d->does);
		return false;
	}
	if (ok) {
		/* a case may say why it checks nothing */
		printf("ok %s%s%.*s\n", name, *said ? " # " : "",
		       (int)strcspn(said, "\n"), said);
		return true;
	}
	if (d && (WIFSIGNALED(status) || WEXITSTATUS(status) == 1)) {
		printf("ok %s # differs as written: %s; %s\n", name, d->does,
		       d->why);
		return true;
	}
	printf("not ok %s # %.*s\n", name, (int)strcspn(said, "\n"), said);
	for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
		printf("# %s\n", line);
	return false;
}

static bool is_case(const char *name)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		for (const struct device_case *c = lists[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return true;
	return false;
}

/* Counts the entries of differences.c whose case does not exist. */
static int strays(void)
{
	int n = 0;

	for (const struct difference *d = differences; d->name; d++) {
		if (is_case(d->name))
			continue;
		printf("not ok %s # a difference of no case\n", d->name);
		n++;
	}
	return n;
}

static bool wanted(const char *name, char *const *names)
{
	if (!*names)
		return true;
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/* Returns the number of failed cases. Adds those that ran to 'seen'. */
static int run_list(const struct device_case *c, char *const *names, int *seen)
{
	static char said[65536];
	int failed = 0;

	for (; c->name; c++) {
		const struct difference *d = written(c->name, NULL);
		int status = 0;

		if (!c->gate && !wanted(c->name, names))
			continue;
		if (d && d->crashes) {
			printf("skip %s # %s\n", c->name, d->why);
			++*seen;
			continue;
		}
		run(c, said, sizeof(said), &status);
		if (c->gate && WIFEXITED(status) &&
		    WEXITSTATUS(status) == SKIPPED) {
			printf("skip %s # %s", c->name, said);
			++*seen;
			break;
		}
		failed += !judge(c->name, said, status);
		++*seen;
	}
	return failed;
}

int main(int argc, char **argv)
{
	int failed = strays(), seen = 0;

	if (argc > 2 && !strcmp(argv[1], "-d")) {
		device = argv[2];
		argv += 2;
	}
	kernel = running_kernel();
	kinds[0] = device;
	kinds[1] = lists_iwarp() ? "iwarp" : NULL;
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		failed += run_list(lists[i], argv + 1, &seen);
	return failed || !seen;
}
