/* SPDX-License-Identifier: BSD-2-Clause */
/* A server that sends every message back, until Ctrl-C: echo [HOST] PORT */
#include "usage.h"

#include <signal.h>

#include <rdmamsg/rdmamsg.h>

static struct rdmamsg *ctx;

static void on_signal(int sig)
{
	rdmamsg_stop(ctx);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	/* on success the library owns the message */
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL))
		rdmamsg_msg_free(msg);
}

int main(int argc, char **argv)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .send_queue = 256,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
	};
	struct rdmamsg_listener *listener;
	int failed;

	usage(argc, argv, "echo [HOST] PORT", 1, 2);
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, argc > 2 ? argv[1] : NULL, argv[argc - 1],
			   &opts, &listener)) {
		fprintf(stderr, "echo: %s\n", rdmamsg_error());
		return 1;
	}
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	fflush(stdout);
	signal(SIGINT, on_signal);
	rdmamsg_run(ctx);
	/* the answers that are under way arrive */
	failed = rdmamsg_shutdown_wait(ctx, 5000);
	if (failed)
		fprintf(stderr, "echo: %d connections failed\n", failed);
	rdmamsg_close(ctx);
	return failed != 0;
}
