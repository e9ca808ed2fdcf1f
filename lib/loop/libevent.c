/* SPDX-License-Identifier: BSD-2-Clause */
/* The libevent adapter: one event on a copy of the context's descriptor. */
#include <rdmamsg/event.h>

#include <stdlib.h>

#include "loop/adapter.h"

struct rdmamsg_libevent {
	struct event *event;
	struct rdmamsg *ctx;
	bool busy;		/* in readable(), which frees then */
	bool stopped;
};

static void readable(evutil_socket_t fd, short what, void *arg)
{
	struct rdmamsg_libevent *ev = arg;
	bool failed;

	ev->busy = true;
	failed = adapter_process(ev->ctx);
	ev->busy = false;
	if (ev->stopped)
		free(ev);
	else if (failed)
		event_del(ev->event);
}

int rdmamsg_libevent_start(struct event_base *base, struct rdmamsg *ctx,
			   struct rdmamsg_libevent **ret)
{
	struct rdmamsg_libevent *ev;
	int fd;

	if (!base || !ret)
		return -EINVAL;
	fd = adapter_fd(ctx);
	if (fd < 0)
		return fd;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		goto err_fd;
	ev->ctx = ctx;
	ev->event = event_new(base, fd, EV_READ | EV_PERSIST, readable, ev);
	if (!ev->event)
		goto err_ev;
	if (event_add(ev->event, NULL))
		goto err_event;
	*ret = ev;
	return 0;

err_event:
	event_free(ev->event);
err_ev:
	free(ev);
err_fd:
	close(fd);
	return -ENOMEM;
}

void rdmamsg_libevent_stop(struct rdmamsg_libevent *ev)
{
	int fd;

	if (!ev)
		return;
	fd = event_get_fd(ev->event);
	event_free(ev->event);
	close(fd);
	ev->stopped = true;
	if (!ev->busy)
		free(ev);
}
