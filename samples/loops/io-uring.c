/* SPDX-License-Identifier: BSD-2-Clause */
/* The poll request of io_uring, with liburing: io-uring ADDR */
#include "echo.h"

#include <liburing.h>
#include <poll.h>

/*
 * A request completes once, at once if the descriptor is readable. A multishot
 * poll is edge-triggered, see epoll.c.
 */
static void arm(struct io_uring *ring, struct echo *e)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		errx(1, "the ring is full");
	io_uring_prep_poll_add(sqe, rdmamsg_fd(e->ctx), POLLIN);
	io_uring_sqe_set_data(sqe, e);
}

int main(int argc, char **argv)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	struct echo e;

	if (argc != 2)
		errx(2, "Usage: io-uring ADDR");
	if (io_uring_queue_init(8, &ring, 0)) {
		warnx("this kernel has no io_uring, or does not permit it");
		return 77;
	}
	echo_begin(&e, argv[1]);
	arm(&ring, &e);
	while (!e.done) {
		io_uring_submit(&ring);
		if (io_uring_wait_cqe(&ring, &cqe))
			errx(1, "io_uring_wait_cqe");
		if (cqe->res < 0)
			errx(1, "poll: %s", strerror(-cqe->res));
		io_uring_cqe_seen(&ring, cqe);
		echo_process(&e);
		arm(&ring, &e);
	}
	io_uring_queue_exit(&ring);
	return echo_end(&e, "io-uring");
}
