/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sum over all members of a team. Each member is a process: it listens on
 * PORT + its rank, connects to the members of lower ranks and accepts those of
 * higher ranks. Start the members in the order of their ranks. Each adds the
 * squares of its share of 1 to 1000.
 */
#include "usage.h"

#include <stdint.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define TIMEOUT_MS	30000
#define MEMBERS		64u
#define TERMS		1000u

static uint32_t rank, size;
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

/* Whether the device has requests for teams. This team runs in the loop. */
static void say_path(void)
{
	struct rdmamsg_cap cap = { .size = sizeof(cap) };
	const char *device = size > 1 ?
		rdmamsg_ep_device_name(eps[rank ? 0 : 1]) : NULL;

	if (!rdmamsg_cap_query(device, RDMAMSG_CAP_CHAINS, &cap))
		printf("chains: %s\n", rdmamsg_cap_how_name(cap.how));
}

static int work(struct rdmamsg_team *team)
{
	double mine = 0, sum;

	for (uint32_t i = 1 + rank; i <= TERMS; i += size)
		mine += (double)i * i;
	if (rdmamsg_team_allreduce(team, RDMAMSG_CALC_ADD, RDMAMSG_CALC_DOUBLE,
				   &mine, &sum, 1, NULL) ||
	    rdmamsg_team_wait(team, TIMEOUT_MS))
		return fail("all-reduce");
	printf("member %u of %u: %.0f, all: %.0f\n", rank, size, mine, sum);
	/* nobody leaves before all have the sum */
	if (rdmamsg_team_barrier(team, NULL) ||
	    rdmamsg_team_wait(team, TIMEOUT_MS))
		return fail("barrier");
	return 0;
}

int main(int argc, char **argv)
{
	struct rdmamsg_team *team;
	struct rdmamsg *ctx;
	int ret;

	usage(argc, argv, "allreduce ADDR PORT RANK SIZE", 4, 4);
	rank = (uint32_t)strtoul(argv[3], NULL, 10);
	size = (uint32_t)strtoul(argv[4], NULL, 10);
	if (!size || size > MEMBERS || rank >= size)
		errx(2, "RANK %s of SIZE %s: at most %u members", argv[3],
		     argv[4], MEMBERS);
	if (rdmamsg_open(&ctx, NULL))
		return fail("open");
	ret = meet(ctx, argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
	if (!ret && rdmamsg_team_create(ctx, NULL, eps, size, rank, &team))
		ret = fail("team");
	if (!ret) {
		say_path();
		ret = work(team);
		rdmamsg_team_destroy(team);
	}
	for (uint32_t i = 0; i < size; i++)
		if (eps[i])
			(void)rdmamsg_close_wait(eps[i], TIMEOUT_MS);
	rdmamsg_close(ctx);
	return ret;
}
