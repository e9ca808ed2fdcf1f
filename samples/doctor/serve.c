/* SPDX-License-Identifier: BSD-2-Clause */
/* --serve: answers with the report of this host. */
#include "doctor.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

static struct rdmamsg *volatile to_stop;

static void on_signal(int sig)
{
	(void)sig;
	if (to_stop)
		rdmamsg_stop(to_stop);
}

/* Returns 0, or -errno of the send. */
static int send_report(struct rdmamsg_ep *ep)
{
	static char text[REPORT_MAX];
	struct facts f;
	struct used used;

	run_checks(&f);
	used_find(&f, ep, &used);
	facts_free(&f);
	return rdmamsg_send(ep, text, message_write(text, sizeof(text), &used),
			    TAG_REPORT, NULL);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	int ret = 0;

	switch (rdmamsg_msg_tag(msg)) {
	case TAG_REPORT:
		ret = send_report(ep);
		break;
	case TAG_ECHO:
		ret = rdmamsg_msg_send(ep, msg, TAG_ECHO, NULL);
		if (!ret)
			msg = NULL;
		break;
	default:
		break;
	}
	rdmamsg_msg_free(msg);
	if (ret && ret != -ESHUTDOWN)
		rdmamsg_ep_abort(ep);
}

/* The library listens again by itself. */
static void on_failed(struct rdmamsg_listener *l, int error)
{
	warnx("not listening on port %u: %s; listening again when the device "
	      "is back", rdmamsg_listener_port(l), strerror(-error));
}

static int listen_and_run(struct rdmamsg *ctx)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .send_queue = 64,
	};
	static const struct rdmamsg_listener_handlers listener_on = {
		.size = sizeof(listener_on), .on_failed = on_failed,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &listener_on, .ep = &ep,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_listen(ctx, options.address, options.port, &opts, &l)) {
		warnx("%s", rdmamsg_error());
		return WRONG;
	}
	printf("listening on port %u\n", rdmamsg_listener_port(l));
	fflush(stdout);
	(void)rdmamsg_run(ctx);
	rdmamsg_listener_close(l);
	return 0;
}

int serve(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct rdmamsg *ctx;
	int ret;

	if (rdmamsg_open(&ctx, NULL)) {
		warnx("%s", rdmamsg_error());
		return WRONG;
	}
	to_stop = ctx;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	ret = listen_and_run(ctx);
	to_stop = NULL;
	rdmamsg_close(ctx);
	return ret;
}
