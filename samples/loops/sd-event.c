/* SPDX-License-Identifier: BSD-2-Clause */
/* sd-event of systemd: sd-event ADDR */
#include "echo.h"

#include <sys/epoll.h>
#include <systemd/sd-event.h>

/* An I/O source is level-triggered, unless EPOLLET is set. */
static int readable(sd_event_source *source, int fd, uint32_t events, void *arg)
{
	struct echo *e = arg;

	echo_process(e);
	return e->done ? sd_event_exit(sd_event_source_get_event(source), 0) : 0;
}

int main(int argc, char **argv)
{
	sd_event_source *source;
	sd_event *loop;
	struct echo e;

	if (argc != 2)
		errx(2, "Usage: sd-event ADDR");
	echo_begin(&e, argv[1]);
	if (sd_event_default(&loop) < 0 ||
	    sd_event_add_io(loop, &source, rdmamsg_fd(e.ctx), EPOLLIN, readable,
			    &e) < 0 ||
	    sd_event_loop(loop) < 0)
		errx(1, "sd-event");
	/* before the context closes the descriptor */
	sd_event_source_unref(source);
	sd_event_unref(loop);
	return echo_end(&e, "sd-event");
}
