/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member of a team whose endpoints the program makes itself, as it had to in
 * earlier releases: it listens at PORT + RANK, connects to the members of lower
 * ranks and accepts those of higher ranks. Start them in the order of their
 * ranks. Each adds the squares of its share of 1 to 1000.
 */
#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define TIMEOUT_MS	30000
#define MEMBERS		64u
#define TERMS		1000u

static uint32_t rank, size;
static struct rdmamsg_ep *eps[MEMBERS];

#define MUST(call) do { \
	if (call) \
		errx(1, "%s: %s", #call, rdmamsg_error()); \
} while (0)

/* A member says its rank when its endpoint is made. */
static void accept_one(struct rdmamsg_listener *listener,
		       const struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_ep *ep;
	const uint32_t *other;
	size_t len;

	MUST(rdmamsg_listener_accept_wait(listener, opts, TIMEOUT_MS, &ep));
	other = rdmamsg_ep_peer_data(ep, &len);
	if (!other || len != sizeof(*other) || *other <= rank ||
	    *other >= size || eps[*other])
		errx(1, "not a member of this team");
	eps[*other] = ep;
}

static void meet(struct rdmamsg *ctx, const char *addr, uint32_t first_port)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .setup_data = &rank,
		.setup_data_len = sizeof(rank),
	};
	struct rdmamsg_listener *listener;
	char port[16];

	(void)snprintf(port, sizeof(port), "%u", first_port + rank);
	MUST(rdmamsg_listen(ctx, addr, port, NULL, &listener));
	printf("listening on port %s\n", port);
	fflush(stdout);
	for (uint32_t i = 0; i < rank; i++) {
		(void)snprintf(port, sizeof(port), "%u", first_port + i);
		MUST(rdmamsg_connect_wait(ctx, addr, port, &opts, TIMEOUT_MS,
					  &eps[i]));
	}
	for (uint32_t i = rank + 1; i < size; i++)
		accept_one(listener, &opts);
	rdmamsg_listener_close(listener);
}

static void work(struct rdmamsg_team *team)
{
	uint64_t mine = 0, sum;

	for (uint32_t i = 1 + rank; i <= TERMS; i += size)
		mine += (uint64_t)i * i;
	MUST(rdmamsg_team_allreduce(team, RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT,
				    &mine, &sum, 1, NULL) ||
	     rdmamsg_team_wait(team, TIMEOUT_MS));
	printf("member %u of %u, %s: %ju, all: %ju\n", rank, size,
	       rdmamsg_team_path(team) == RDMAMSG_CHAIN_NATIVE ? "native" :
	       "in the loop", (uintmax_t)mine, (uintmax_t)sum);
	/* nobody leaves before all have the sum */
	MUST(rdmamsg_team_barrier(team, NULL) ||
	     rdmamsg_team_wait(team, TIMEOUT_MS));
}

int main(int argc, char **argv)
{
	const bool native = argc > 1 && !strcmp(argv[1], "-n");
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts),
		.path = native ? RDMAMSG_CHAIN_NATIVE : RDMAMSG_CHAIN_AUTO,
	};
	struct rdmamsg_team *team;
	struct rdmamsg *ctx;

	argv += native;
	if (argc - native != 5)
		errx(2, "usage: member [-n] ADDR PORT RANK SIZE");
	rank = (uint32_t)strtoul(argv[3], NULL, 10);
	size = (uint32_t)strtoul(argv[4], NULL, 10);
	if (!size || size > MEMBERS || rank >= size)
		errx(2, "RANK %s of SIZE %s", argv[3], argv[4]);
	MUST(rdmamsg_open(&ctx, NULL));
	meet(ctx, argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
	MUST(rdmamsg_team_create(ctx, &opts, eps, size, rank, &team));
	work(team);
	rdmamsg_team_destroy(team);
	for (uint32_t i = 0; i < size; i++)
		if (eps[i])
			(void)rdmamsg_ep_close_wait(eps[i], TIMEOUT_MS);
	rdmamsg_close(ctx);
	return 0;
}
