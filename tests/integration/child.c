/* SPDX-License-Identifier: BSD-2-Clause */
/* Child processes of a test, and counts of RDMA resources. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

void child_start(struct child *c, const char *role, const char *arg)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		fail_msg("pipe: %s", strerror(errno));
	fflush(NULL);
	c->pid = fork();
	if (c->pid < 0)
		fail_msg("fork: %s", strerror(errno));
	if (!c->pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execl("/proc/self/exe", "child", "--child", role, arg, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
}

void child_line(struct child *c, char *buf, size_t size)
{
	struct pollfd fd = { .fd = c->from, .events = POLLIN };
	size_t n = 0;

	while (n < size - 1) {
		ssize_t got;

		WAIT_FOR(poll(&fd, 1, 0) > 0);
		got = read(c->from, buf + n, 1);
		if (got != 1)
			fail_msg("the child said '%.*s' and ended", (int)n,
				 buf);
		if (buf[n] == '\n')
			break;
		n++;
	}
	buf[n] = 0;
}

void child_say(struct child *c, const char *line)
{
	if (write(c->to, line, strlen(line)) < 0)
		fail_msg("to the child: %s", strerror(errno));
}

int child_wait(struct child *c)
{
	int status = 0;

	WAIT_FOR(waitpid(c->pid, &status, WNOHANG) == c->pid);
	close(c->to);
	close(c->from);
	return status;
}

int rdma_count(const char *what)
{
	char word[16];
	int count = -1, n;
	FILE *f = popen("rdma resource show", "r");

	if (!f)
		return -1;
	while (fscanf(f, "%15s", word) == 1)
		if (!strcmp(word, what) && fscanf(f, "%d", &n) == 1)
			count = n;
	pclose(f);
	return count;
}
