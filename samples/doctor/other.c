/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: doctor-other ADDR FILE [MS]
 *
 * Answers a rdmamsg-doctor as rdmamsg-doctor --serve does, with the report in
 * FILE. So tests have a peer of another version, with other settings. Each
 * message of a measurement takes it MS milliseconds, and with MS -1 it answers
 * none.
 */
#include "doctor.h"

#include <rdmamsg/rdmamsg.h>

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

static struct rdmamsg *ctx;
static char report[2 << 20];
static size_t report_len;
static int delay_ms;

static void on_signal(int sig)
{
	(void)sig;
	rdmamsg_stop(ctx);
}

static int send_report(struct rdmamsg_ep *ep)
{
	const struct iovec iov = { report, report_len };

	return rdmamsg_sendv(ep, &iov, 1, TAG_REPORT, NULL);
}

static void dawdle(void)
{
	const struct timespec t = {
		.tv_sec = delay_ms / 1000,
		.tv_nsec = delay_ms % 1000 * 1000000L,
	};

	if (delay_ms > 0)
		nanosleep(&t, NULL);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	int ret = 0;

	if (rdmamsg_msg_tag(msg) == TAG_REPORT)
		ret = send_report(ep);
	else
		dawdle();
	if (rdmamsg_msg_tag(msg) == TAG_ECHO && delay_ms >= 0)
		ret = rdmamsg_send(ep, rdmamsg_msg_data(msg),
				   rdmamsg_msg_len(msg), TAG_ECHO, NULL);
	rdmamsg_msg_free(msg);
	if (ret) {
		warnx("%s", rdmamsg_error());
		rdmamsg_ep_abort(ep);
	}
}

static void read_report(const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f)
		err(1, "%s", path);
	report_len = fread(report, 1, sizeof(report), f);
	fclose(f);
}

int main(int argc, char **argv)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
	};
	struct sigaction sa = { .sa_handler = on_signal };
	struct rdmamsg_listener *l;

	if (argc != 3 && argc != 4)
		errx(2, "Usage: doctor-other ADDR FILE [MS]");
	read_report(argv[2]);
	if (argc == 4)
		delay_ms = atoi(argv[3]);
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, argv[1], "0", &opts, &l))
		errx(1, "%s", rdmamsg_error());
	sigaction(SIGTERM, &sa, NULL);
	printf("listening on port %u\n", rdmamsg_listener_port(l));
	fflush(stdout);
	(void)rdmamsg_run(ctx);
	rdmamsg_close(ctx);
	return 0;
}
