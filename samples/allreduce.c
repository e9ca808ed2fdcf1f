/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sum over all members of a team. Each member is a process: it listens on
 * PORT + its rank, connects to the members of lower ranks and accepts those of
 * higher ranks. Start the members in the order of their ranks. Each adds the
 * squares of its share of 1 to 1000. With -n as the first argument of each
 * member the devices do it without the processes in between, if all can.
 */
#include "usage.h"

#include <stdint.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define TIMEOUT_MS	30000
#define MEMBERS		64u
#define TERMS		1000u

static uint32_t rank, size;
static uint32_t path = RDMAMSG_CHAIN_AUTO;
static struct rdmamsg_ep *eps[MEMBERS];

static int fail(const char *what)
{
	fprintf(stderr, "allreduce: %s: %s\n", what, rdmamsg_error());
	return 1;
}

/* An endpoint has no handlers: its messages are for the team. */
static int meet(struct rdmamsg *ctx, const char *addr, uint32_t first_port)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .setup_data = &rank,
		.setup_data_len = sizeof(rank),
	};
	struct rdmamsg_listener *listener;
	struct rdmamsg_ep *ep;
	const uint32_t *other;
	char port[16];
	size_t len;

	(void)snprintf(port, sizeof(port), "%u", first_port + rank);
	if (rdmamsg_listen(ctx, addr, port, NULL, &listener))
		return fail("listen");
	printf("listening on port %s\n", port);
	fflush(stdout);
	for (uint32_t i = 0; i < rank; i++) {
		(void)snprintf(port, sizeof(port), "%u", first_port + i);
		if (rdmamsg_connect_wait(ctx, addr, port, &opts, TIMEOUT_MS,
					 &eps[i]))
			return fail("connect");
	}
	for (uint32_t i = rank + 1; i < size; i++) {
		if (rdmamsg_accept_wait(listener, &opts, TIMEOUT_MS, &ep))
			return fail("accept");
		other = rdmamsg_ep_peer_data(ep, &len);
		if (!other || len != sizeof(*other) || *other <= rank ||
		    *other >= size || eps[*other])
			errx(1, "not a member of this team");
		eps[*other] = ep;
	}
	rdmamsg_listener_close(listener);
	return 0;
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

static int run_team(struct rdmamsg *ctx)
{
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts), .path = path,
	};
	struct rdmamsg_team *team;
	int ret;

	if (rdmamsg_team_create(ctx, &opts, eps, size, rank, &team))
		return fail("team");
	ret = work(team);
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
	ret = meet(ctx, argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
	if (!ret)
		ret = run_team(ctx);
	for (uint32_t i = 0; i < size; i++)
		if (eps[i])
			(void)rdmamsg_ep_close_wait(eps[i], TIMEOUT_MS);
	rdmamsg_close(ctx);
	return ret;
}
