/* SPDX-License-Identifier: BSD-2-Clause */
/* The libev adapter: one watcher on the context's descriptor. */
#include <rdmamsg/ev.h>

#include <errno.h>
#include <stdlib.h>

struct rdmamsg_ev {
	struct ev_io io;	/* first: the callback gets its address */
	struct ev_loop *loop;
	struct rdmamsg *ctx;
};

static void readable(struct ev_loop *loop, struct ev_io *io, int revents)
{
	(void)rdmamsg_process(((struct rdmamsg_ev *)io)->ctx);
}

int rdmamsg_ev_start(struct ev_loop *loop, struct rdmamsg *ctx,
		     struct rdmamsg_ev **ret)
{
	struct rdmamsg_ev *ev;
	int fd = ctx ? rdmamsg_fd(ctx) : -EINVAL;

	if (!loop || !ret)
		return -EINVAL;
	if (fd < 0)
		return fd;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return -ENOMEM;
	ev->loop = loop;
	ev->ctx = ctx;
	ev_io_init(&ev->io, readable, fd, EV_READ);
	ev_io_start(loop, &ev->io);
	*ret = ev;
	return 0;
}

void rdmamsg_ev_stop(struct rdmamsg_ev *ev)
{
	if (!ev)
		return;
	ev_io_stop(ev->loop, &ev->io);
	free(ev);
}
