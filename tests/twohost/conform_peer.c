/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: conform-peer VERSION [SIGNAL ANSWERS]
 *
 * The server of rdmamsg-conform, of another version, or one that sends itself a
 * signal instead of an answer: after so many. Prints `signal N` before.
 */
#include "../../samples/conform/peer.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static uint32_t version;
static int sig, answers;

static int send_or_signal(struct peer_end *e, unsigned int i, uint64_t wr_id)
{
	if (sig && !answers--) {
		printf("signal %d\n", sig);
		(void)fflush(stdout);
		(void)raise(sig);
		sig = 0;
	}
	return peer_send(e, i, wr_id);
}

#undef PEER_VERSION
#define PEER_VERSION version
#define peer_send send_or_signal
#include "../../samples/conform/serve.c"

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 4)
		errx(WRONG_USE, "usage: conform-peer VERSION [SIGNAL ANSWERS]");
	version = (uint32_t)strtoul(argv[1], NULL, 10);
	sig = argc == 4 ? atoi(argv[2]) : 0;
	answers = argc == 4 ? atoi(argv[3]) : 0;
	printf("pid %d\n", (int)getpid());
	return peer_serve(NULL, PEER_PORT);
}
