/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios of chains: a team of two with its operations, and a chain. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <rdmamsg/chain.h>

#include "faulty.h"
#include "nth.h"
#include "../chain_send.h"

#define COUNT	20000u		/* elements: the messages are large */
#define FEW		8u	/* elements that devices can add */
#define AHEAD	20u		/* messages that come before the chain */
#define WAITING	9		/* messages, more than half of a channel's */
#define LARGE	9000u		/* bytes of a message in three pieces */

static struct member {
	struct rdmamsg_team *team;	/* NULL: could not be made */
	unsigned int begun, done;
	uint64_t in[COUNT], out[COUNT];
} members[2];

static uint32_t path;			/* enum rdmamsg_chain_path */
static uint32_t count = COUNT;		/* elements in use */
static struct rdmamsg_chain *chain;
static bool chain_done;
static int chain_status;

static void on_team_done(struct rdmamsg_team *team, void *cookie, int status)
{
	struct member *m = rdmamsg_team_user(team);

	m->done++;
	reported += status != 0;
	if (cookie != m)
		fail("an operation ends with the cookie of another");
	for (uint32_t i = 0; i < count && !status && m->done == 1; i++)
		if (m->out[i] != 3 * i)
			fail("the sum of elements %u is wrong", i);
}

static bool operations_done(void)
{
	return members[0].done == members[0].begun &&
	       members[1].done == members[1].begun;
}

/* If only one member has begun, its operation ends with the team. */
static void begin(int first, int second)
{
	members[0].begun += !first;
	members[1].begun += !second;
	if (first || second)
		for (int i = 0; i < 2; i++)
			rdmamsg_team_abort(members[i].team);
	if (drive(operations_done, SHORTAGE_MS) || failure[0])
		return;
	/* a receiver without memory for a large message waits for some */
	if (faulty_disarm())
		reported++;
	if (!drive(operations_done, BODY_MS) && !failure[0])
		fail("an operation of the team has not ended");
}

static void do_team(void)
{
	int ret[2] = { -ENOTCONN, -ENOTCONN };

	memset(members, 0, sizeof(members));
	for (int i = 0; i < 2; i++) {
		struct member *m = &members[i];
		static const struct rdmamsg_team_handlers on = {
			.size = sizeof(on), .on_done = on_team_done,
		};
		const struct rdmamsg_team_options opts = {
			.size = sizeof(opts), .user = m, .handlers = &on,
			.path = path,
		};
		struct rdmamsg_ep *eps[2] = { ends[i].ep, ends[i].ep };

		for (uint32_t k = 0; k < count; k++)
			m->in[k] = (uint64_t)(i + 1) * k;
		if (!ends[i].ep ||
		    told(rdmamsg_team_create(ctxs[i], &opts, eps, 2,
					     (uint32_t)i, &m->team)))
			m->team = NULL;
	}
	if (members[0].team && members[1].team) {
		for (int i = 0; i < 2; i++)
			ret[i] = told(rdmamsg_team_allreduce(members[i].team,
				RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT,
				members[i].in, members[i].out, count,
				&members[i]));
		begin(ret[0], ret[1]);
		for (int i = 0; i < 2; i++)
			ret[i] = told(rdmamsg_team_barrier(members[i].team,
							   &members[i]));
		begin(ret[0], ret[1]);
	}
	for (int i = 0; i < 2; i++)
		rdmamsg_team_destroy(members[i].team);
}

/* ---- a team that makes its endpoints ------------------------------------- */

#define TEAM_PORT	18519	/* of the first member; nobody else is here */

static bool connecting_failed;

static void on_connect_done(struct rdmamsg_team *team, void *cookie, int status)
{
	struct member *m = rdmamsg_team_user(team);

	m->done++;
	reported += status != 0;
	connecting_failed |= status != 0;
	if (cookie)
		fail("connecting ends with a cookie");
}

static void connect_member(int i, const char *const *addresses)
{
	static const struct rdmamsg_team_handlers on = {
		.size = sizeof(on), .on_done = on_connect_done,
	};
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts), .user = &members[i], .handlers = &on,
		.timeout_ms = SHORTAGE_MS,
	};

	if (told(rdmamsg_team_connect(ctxs[i], &opts, addresses, 2,
				      (uint32_t)i, &members[i].team)))
		members[i].team = NULL;
	else
		members[i].begun = 1;
	connecting_failed |= !members[i].team;
}

static bool connected_or_not(void)
{
	return connecting_failed || operations_done();
}

/* The other member of one that has failed would wait for it. */
static void do_team_connect(void)
{
	char first[64];
	const char *const addresses[] = { first, "nowhere:1" };

	(void)snprintf(first, sizeof(first), "%s:%d", address, TEAM_PORT);
	memset(members, 0, sizeof(members));
	connecting_failed = false;
	for (int i = 0; i < 2; i++)
		connect_member(i, addresses);
	(void)drive(connected_or_not, BODY_MS);
	for (int i = 0; i < 2 && connecting_failed; i++)
		rdmamsg_team_abort(members[i].team);
	if (!drive(operations_done, BODY_MS) && !failure[0])
		fail("connecting of a team has not ended");
	for (int i = 0; i < 2; i++)
		rdmamsg_team_destroy(members[i].team);
}

static void on_chain_done(struct rdmamsg_chain *c,
			  const struct rdmamsg_chain_end *end)
{
	chain_done = true;
	chain_status = end->status;
	reported += end->status != 0;
}

static bool is_done(void)
{
	return chain_done;
}

/* Appends the steps. The first receive makes the endpoint the chain's. */
static int build(uint32_t got[static AHEAD])
{
	for (uint32_t i = 0; i < AHEAD; i++) {
		int ret = !ends[SERVER].ep ? -ENOTCONN :
			  rdmamsg_chain_recv(chain, 0,
					     ends[SERVER].ep, &got[i], 4, i);

		if (ret < 0)
			return told(ret);
	}
	return 0;
}

static void do_chain(void)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_chain_done,
	};
	static const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on, .timeout_ms = 2000,
	};
	uint32_t got[AHEAD] = { 0 };
	int ret;

	chain_done = false;
	if (told(rdmamsg_chain_create(ctxs[SERVER], &opts, &chain)))
		return;
	ret = build(got);
	for (uint32_t i = 0; i < AHEAD && !ret && ends[CLIENT].ep; i++)
		ret = told(rdmamsg_send(ends[CLIENT].ep, &i, 4, i, NULL));
	/* let them come */
	for (int i = 0; i < 5; i++)
		turn(1);
	if (!ret && !told(rdmamsg_chain_post(chain))) {
		if (!drive(is_done, BODY_MS) && !failure[0])
			fail("the chain has not ended");
		for (uint32_t i = 0; i < AHEAD && !chain_status; i++)
			if (got[i] != i)
				fail("step %u has received %u", i, got[i]);
	}
	rdmamsg_chain_destroy(chain);
}

static struct {
	struct rdmamsg_chain *chain;
	unsigned int begun, done;
	int status;
	uint64_t x, y;
	uint8_t large[LARGE];
} sides[2];

static bool carried;			/* the chains do not run natively */

static void on_side_done(struct rdmamsg_chain *c,
			 const struct rdmamsg_chain_end *end)
{
	int i = c == sides[SERVER].chain ? SERVER : CLIENT;

	sides[i].done++;
	sides[i].status = end->status;
	reported += end->status != 0;
	/* the other waits for what does not come */
	if (end->status)
		rdmamsg_chain_cancel(sides[!i].chain);
}

static bool sides_done(void)
{
	return sides[0].done == sides[0].begun &&
	       sides[1].done == sides[1].begun;
}

/* More small messages than slots may wait in, and one of several pieces. */
static int build_carried(void)
{
	int ret = !ends[CLIENT].ep || !ends[SERVER].ep ? -ENOTCONN : 0;

	for (int i = 0; i <= WAITING && ret >= 0; i++) {
		const size_t len = i < WAITING ? 8 : LARGE;

		ret = chain_send(sides[CLIENT].chain, 0,
				 ends[CLIENT].ep, pattern, len, 0);
		if (ret >= 0)
			ret = rdmamsg_chain_recv(sides[SERVER].chain, 0,
						 ends[SERVER].ep,
						 sides[SERVER].large, len, 0);
	}
	return ret < 0 ? told(ret) : 0;
}

/* The client sends a number, and the server adds one and sends it back. */
static int build_sides(void)
{
	struct rdmamsg_chain *c = sides[CLIENT].chain;
	struct rdmamsg_chain *s = sides[SERVER].chain;
	uint64_t *x = &sides[SERVER].x;
	int ret = !ends[CLIENT].ep || !ends[SERVER].ep ? -ENOTCONN :
		  chain_send(c, 0, ends[CLIENT].ep, &sides[CLIENT].x, 8,
			     1);

	if (ret >= 0)
		ret = rdmamsg_chain_recv(c, 0, ends[CLIENT].ep,
					 &sides[CLIENT].y, 8, 2);
	if (ret >= 0)
		ret = rdmamsg_chain_recv(s, 0, ends[SERVER].ep, x, 8, 1);
	if (ret >= 0)
		ret = rdmamsg_chain_calc(s, 0, RDMAMSG_CALC_ADD,
					 RDMAMSG_CALC_UINT, x, x,
					 &sides[SERVER].y, 1);
	if (ret >= 0)
		ret = chain_send(s, 0, ends[SERVER].ep, x, 8, 2);
	return ret < 0 ? told(ret) : 0;
}

static void run_sides(uint64_t number)
{
	int ret = 0;

	sides[CLIENT].x = number;
	for (int i = CLIENT; i >= SERVER; i--) {
		int err = told(rdmamsg_chain_post(sides[i].chain));

		sides[i].begun += !err;
		ret = err ? err : ret;
		/* the server finds messages that wait */
		for (int k = 0; k < 5 && carried; k++)
			turn(1);
	}
	if (!drive(sides_done, BODY_MS) && !failure[0])
		fail("a native chain has not ended");
	if (!ret && !sides[0].status && !sides[1].status &&
	    sides[CLIENT].y != number + 1)
		fail("%lu plus one is %lu", (unsigned long)number,
		     (unsigned long)sides[CLIENT].y);
	if (!ret && !sides[SERVER].status && carried &&
	    memcmp(sides[SERVER].large, pattern, LARGE))
		fail("a message of several pieces has other bytes");
}

static void do_chain_native(void)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_side_done,
	};
	static const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on, .timeout_ms = 2000,
		.path = RDMAMSG_CHAIN_NATIVE,
	};
	int ret = 0;

	memset(sides, 0, sizeof(sides));
	sides[SERVER].y = 1;
	for (int i = 0; i < 2; i++)
		if (told(rdmamsg_chain_create(ctxs[i], &opts,
					      &sides[i].chain))) {
			sides[i].chain = NULL;
			ret = -ENOMEM;
		}
	if (!ret && (!carried || !build_carried()) && !build_sides())
		for (uint64_t i = 0; i < 3; i++)
			run_sides(10 * i);
	for (int i = 0; i < 2; i++)
		rdmamsg_chain_destroy(sides[i].chain);
}

static void do_chain_carried(void)
{
	carried = true;
	do_chain_native();
	carried = false;
}

static void do_team_native(void)
{
	path = RDMAMSG_CHAIN_NATIVE;
	count = FEW;
	do_team();
	path = RDMAMSG_CHAIN_AUTO;
	count = COUNT;
}

const struct scenario chain_scenarios[] = {
	{ "team", CONNECTED, do_team },
	{ "team-connect", OPEN, do_team_connect },
	{ "chain", CONNECTED, do_chain },
	{ "team-native", CONNECTED, do_team_native, .native = true },
	{ "chain-native", CONNECTED, do_chain_native, .native = true },
	{ "chain-carried", CONNECTED, do_chain_carried, .native = true },
	{ NULL },
};
