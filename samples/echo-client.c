/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client of echo, without a loop: echo-client HOST PORT [TEXT...] sends
 * each TEXT and prints the answer.
 */
#include "usage.h"

#include <rdmamsg/rdmamsg.h>
#include <limits.h>

#define TIMEOUT_MS	10000

static int exchange(struct rdmamsg_ep *ep, const char *text)
{
	struct rdmamsg_msg *msg;
	size_t len = strlen(text);
	int ret;

	ret = rdmamsg_send_wait(ep, text, len, 0, TIMEOUT_MS);
	if (!ret)
		ret = rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg);
	if (ret)
		return ret;
	printf("%.*s\n", (int)rdmamsg_msg_len(msg),
	       (const char *)rdmamsg_msg_data(msg));
	ret = rdmamsg_msg_len(msg) == len &&
	      !memcmp(rdmamsg_msg_data(msg), text, len) ? 0 : -1;
	rdmamsg_msg_free(msg);
	return ret;
}

int main(int argc, char **argv)
{
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx = NULL;
	int ret;

	usage(argc, argv, "echo-client HOST PORT [TEXT...]", 2, INT_MAX);
	ret = rdmamsg_open(&ctx, NULL);
	if (!ret)
		ret = rdmamsg_connect_wait(ctx, argv[1], argv[2], NULL,
					   TIMEOUT_MS, &ep);
	for (int i = 3; i < argc && !ret; i++)
		ret = exchange(ep, argv[i]);
	if (!ret)
		ret = rdmamsg_ep_close_wait(ep, TIMEOUT_MS);
	if (ret)
		fprintf(stderr, "echo-client: %s\n", rdmamsg_error());
	rdmamsg_close(ctx);
	return ret ? 1 : 0;
}
