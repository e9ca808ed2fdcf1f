/* SPDX-License-Identifier: BSD-2-Clause */
/* 'hello' waits for a peer, 'hello HOST' connects to it. */
#include <stdio.h>
#include <rdmamsg/rdmamsg.h>

int main(int argc, char **argv)
{
	struct rdmamsg_listener *listener;
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;

	if (rdmamsg_open(&ctx, NULL) ||
	    (argc > 1 ?
	     rdmamsg_connect_wait(ctx, argv[1], "7777", NULL, 5000, &ep) :
	     rdmamsg_listen(ctx, NULL, "7777", NULL, &listener) ||
	     rdmamsg_listener_accept_wait(listener, NULL, -1, &ep)) ||
	    rdmamsg_send_wait(ep, "hello", 5, 0, 5000) ||
	    rdmamsg_recv_wait(ep, 5000, &msg)) {
		fprintf(stderr, "%s\n", rdmamsg_error());
		return 1;
	}
	printf("%.*s\n", (int)rdmamsg_msg_len(msg),
	       (const char *)rdmamsg_msg_data(msg));
	rdmamsg_msg_free(msg);
	rdmamsg_ep_close_wait(ep, 5000);
	rdmamsg_close(ctx);
	return 0;
}
