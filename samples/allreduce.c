/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sum over all members of a team. Each member is a process, and the one of
 * rank n is at PORT + n. Start them in any order. Each adds the squares of its
 * share of 1 to 1000. With -n as the first argument of each member the devices
 * do it without the processes in between, if all can.
 */
#include "usage.h"

#include <stdint.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/rdmamsg.h>

#define TIMEOUT_MS	30000
#define MEMBERS		64u
#define TERMS		1000u

static uint32_t rank, size;
static uint32_t path = RDMAMSG_CHAIN_AUTO;

static int fail(const char *what)
{
	fprintf(stderr, "allreduce: %s: %s\n", what, rdmamsg_error());
	return 1;
}

/* The sum is of integers, because devices may not add doubles as hosts do. */
static int work(struct rdmamsg_team *team)
{
	uint64_t mine = 0, sum;

	for (uint32_t i = 1 + rank; i <= TERMS; i += size)
		mine += (uint64_t)i * i;
	if (rdmamsg_team_allreduce(team, RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT,
				   &mine, &sum, 1, NULL) ||
	    rdmamsg_team_wait(team, TIMEOUT_MS))
		return fail("all-reduce");
	printf("member %u of %u, %s: %llu, all: %llu\n", rank, size,
	       rdmamsg_team_path(team) == RDMAMSG_CHAIN_NATIVE ? "native" :
	       "in the loop", (unsigned long long)mine,
	       (unsigned long long)sum);
	/* nobody leaves before all have the sum */
	if (rdmamsg_team_barrier(team, NULL) ||
	    rdmamsg_team_wait(team, TIMEOUT_MS))
		return fail("barrier");
	return 0;
}

static int run_team(struct rdmamsg *ctx, const char *addr, uint32_t port)
{
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts), .path = path, .timeout_ms = TIMEOUT_MS,
	};
	char text[MEMBERS][64];
	const char *addresses[MEMBERS];
	struct rdmamsg_team *team;
	int ret;

	for (uint32_t i = 0; i < size; i++) {
		(void)snprintf(text[i], sizeof(text[i]),
			       strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr,
			       port + i);
		addresses[i] = text[i];
	}
	if (rdmamsg_team_connect(ctx, &opts, addresses, size, rank, &team))
		return fail("team");
	ret = rdmamsg_team_wait(team, -1) ? fail("connect") : work(team);
	rdmamsg_team_destroy(team);
	return ret;
}

int main(int argc, char **argv)
{
	struct rdmamsg *ctx;
	int ret;

	if (argc > 1 && !strcmp(argv[1], "-n")) {
		path = RDMAMSG_CHAIN_NATIVE;
		argc--;
		argv++;
	}
	usage(argc, argv, "allreduce [-n] ADDR PORT RANK SIZE", 4, 4);
	rank = (uint32_t)strtoul(argv[3], NULL, 10);
	size = (uint32_t)strtoul(argv[4], NULL, 10);
	if (!size || size > MEMBERS || rank >= size)
		errx(2, "RANK %s of SIZE %s: at most %u members", argv[3],
		     argv[4], MEMBERS);
	if (rdmamsg_open(&ctx, NULL))
		return fail("open");
	ret = run_team(ctx, argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
	/* the endpoints of the team close */
	(void)rdmamsg_shutdown_wait(ctx, TIMEOUT_MS);
	rdmamsg_close(ctx);
	return ret;
}
