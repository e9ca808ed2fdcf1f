/* SPDX-License-Identifier: BSD-2-Clause */
/* Plain epoll: epoll level|edge|one-shot ADDR */
#include "echo.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void wait_level(struct echo *e, int loop, int fd)
{
	struct epoll_event ev;

	if (epoll_wait(loop, &ev, 1, -1) == 1)
		echo_process(e);
}

/* No edge follows for what is left, so nothing may be left. */
static void wait_edge(struct echo *e, int loop, int fd)
{
	struct epoll_event ev;

	if (epoll_wait(loop, &ev, 1, -1) == 1)
		do
			echo_process(e);
		while (readable(fd));
}

/* Armed anew after the work, not before. */
static void wait_one_shot(struct echo *e, int loop, int fd)
{
	struct epoll_event ev;

	if (epoll_wait(loop, &ev, 1, -1) != 1)
		return;
	echo_process(e);
	ev.events = EPOLLIN | EPOLLONESHOT;
	if (epoll_ctl(loop, EPOLL_CTL_MOD, fd, &ev))
		err(1, "epoll_ctl");
}

static const struct mode {
	const char *name;
	uint32_t flag;
	void (*wait)(struct echo *e, int loop, int fd);
} modes[] = {
	{ "level", 0, wait_level },
	{ "edge", EPOLLET, wait_edge },
	{ "one-shot", EPOLLONESHOT, wait_one_shot },
};

static const struct mode *mode_of(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(modes[i].name, name))
			return &modes[i];
	errx(2, "Usage: epoll level|edge|one-shot ADDR");
}

int main(int argc, char **argv)
{
	const struct mode *mode = mode_of(argc == 3 ? argv[1] : "");
	struct epoll_event ev = { .events = EPOLLIN | mode->flag };
	int loop = epoll_create1(EPOLL_CLOEXEC);
	struct echo e;
	int fd;

	echo_begin(&e, argv[2]);
	fd = rdmamsg_fd(e.ctx);
	if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, fd, &ev))
		err(1, "epoll");
	while (!e.done)
		mode->wait(&e, loop, fd);
	close(loop);
	return echo_end(&e, mode->name);
}
