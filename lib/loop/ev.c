/* SPDX-License-Identifier: BSD-2-Clause */
/* The libev adapter: one watcher on a copy of the context's descriptor. */
#include <rdmamsg/ev.h>

#include <stdlib.h>

#include "loop/adapter.h"

struct rdmamsg_ev {
	struct ev_io io;	/* first: the callback gets its address */
	struct ev_loop *loop;
	struct rdmamsg *ctx;
	unsigned int busy;	/* calls of readable() that have not returned */
	bool stopped;		/* by a callback; the last of them frees */
};

static void readable(struct ev_loop *loop, struct ev_io *io, int revents)
{
	struct rdmamsg_ev *ev = (struct rdmamsg_ev *)io;
	bool failed;

	ev->busy++;
	failed = adapter_process(ev->ctx);
	ev->busy--;
	if (!ev->stopped) {
		if (failed)
			ev_io_stop(loop, io);
	} else if (!ev->busy) {
		free(ev);
	}
}

int rdmamsg_ev_start(struct ev_loop *loop, struct rdmamsg *ctx,
		     struct rdmamsg_ev **ret)
{
	struct rdmamsg_ev *ev;
	int fd;

	if (!loop || !ret)
		return -EINVAL;
	fd = adapter_fd(ctx);
	if (fd < 0)
		return fd;
	ev = calloc(1, sizeof(*ev));
	if (!ev) {
		close(fd);
		return -ENOMEM;
	}
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
	close(ev->io.fd);
	ev->stopped = true;
	if (!ev->busy)
		free(ev);
}
