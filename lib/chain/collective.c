/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations of a team, each a chain with one queue.
 *
 * Barrier (dissemination): in round k a member sends to the member 2^k after
 * it, and receives from the member 2^k before it. After ceil(log2 size) rounds
 * each has heard from all.
 *
 * Broadcast: a binomial tree.
 *
 * All-reduce (recursive doubling): in round k pairs at distance 2^k exchange
 * what they have. If the size is no power of two, each of the first 'extra'
 * pairs of neighbours first becomes one:
 *
 *	size 5	0 1 2 3 4		extra 1: member 0 gives to member 1
 *		  1 2 3 4	pairs	 1-2 3-4, then 1-3 2-4
 *		0 1 2 3 4		member 1 returns the result to member 0
 *
 * The operand of the lower ranks is always the left one, so that the result has
 * the same bits at all members.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/meet.h"
#include "chain/native.h"
#include "chain/team.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/chain.h>

#define STEPS_MAX	(3 * 12 + 6)	/* all-reduce of RDMAMSG_TEAM_MAX */

_Static_assert(RDMAMSG_TEAM_MAX == 1u << 12, "rounds");

/* An operation that is being built. */
struct building {
	struct rdmamsg_team *t;
	uint32_t tag;
	size_t len;			/* bytes of each message */
};

static void send_to(struct building *b, uint32_t rank, const void *buf)
{
	const struct step s = {
		.kind = STEP_SEND, .tag = b->tag, .len = b->len, .a = buf,
		.end = b->t->members[rank],
	};

	(void)rdmamsg__chain_add(b->t->chain, 0, &s);
}

static void receive_from(struct building *b, uint32_t rank, void *buf)
{
	const struct step s = {
		.kind = STEP_RECV, .tag = b->tag, .len = b->len, .dst = buf,
		.end = b->t->members[rank],
	};

	(void)rdmamsg__chain_add(b->t->chain, 0, &s);
}

static int check_team(const struct rdmamsg_team *t, const char *call)
{
	int ret = t ? rdmamsg__ctx_check(t->ctx) :
		  rdmamsg__fail(-EINVAL, "%s: team is NULL", call);

	if (ret)
		return ret;
	if (t->reason.error)
		return rdmamsg__fail(t->reason.error, "the team has failed: %s",
				     t->reason.text);
	ret = rdmamsg__ctx_takes(t->ctx);
	if (ret)
		return ret;
	if (t->chain->state != CHAIN_IDLE)
		return rdmamsg__fail(-EBUSY, "%s: an operation runs until "
				     "on_done", call);
	return 0;
}

/* Checks the team, and removes the steps of the last operation. */
static int begin(struct rdmamsg_team *t, const char *call)
{
	int ret = check_team(t, call);

	if (ret)
		return ret;
	t->has_barrier = false;
	rdmamsg__chain_clear(t->chain);
	return rdmamsg__chain_room(t->chain, STEPS_MAX);
}

static void run(struct rdmamsg_team *t, void *cookie)
{
	t->number++;
	t->cookie = cookie;
	rdmamsg__chain_hold(t->chain);
	if (t->chain->meets)
		rdmamsg__meeting_start(t->chain);
	else
		rdmamsg__team_go(t);
}

static int start(struct rdmamsg_team *t, void *cookie)
{
	int ret = rdmamsg__chain_sizes(t->chain);

	if (!ret)
		run(t, cookie);
	return ret;
}

static int build_barrier(struct rdmamsg_team *t)
{
	struct building b = { .t = t };
	int ret = begin(t, "rdmamsg_team_barrier");

	if (ret)
		return ret;
	for (uint32_t far = 1; far < t->size; far *= 2) {
		send_to(&b, (t->rank + far) % t->size, NULL);
		receive_from(&b, (t->rank + t->size - far) % t->size, NULL);
	}
	t->has_barrier = true;
	return 0;
}

/* A barrier after a barrier has the same steps, with another tag. */
int rdmamsg_team_barrier(struct rdmamsg_team *t, void *cookie)
{
	int ret = check_team(t, "rdmamsg_team_barrier");
	uint32_t tag;

	if (!ret && !t->has_barrier)
		ret = build_barrier(t);
	if (ret)
		return ret;
	tag = rdmamsg__team_tag(PROTO_TEAM_BARRIER, 0, t->number);
	for (uint32_t i = 0; i < t->chain->count; i++)
		t->chain->steps[i].tag = tag;
	t->fits = true;
	run(t, cookie);
	return 0;
}

/* Ranks relative to the root: the root is 0. */
static void build_broadcast(struct building *b, void *buf, uint32_t root)
{
	const uint32_t size = b->t->size;
	const uint32_t me = (b->t->rank + size - root) % size;
	uint32_t far = 1;

	/* the parent has this rank without its lowest bit */
	while (far < size && !(me & far))
		far *= 2;
	if (me)
		receive_from(b, (me - far + root) % size, buf);
	for (far /= 2; far; far /= 2)
		if (me + far < size)
			send_to(b, (me + far + root) % size, buf);
}

int rdmamsg_team_broadcast(struct rdmamsg_team *t, void *buf, size_t len,
			   uint32_t root, void *cookie)
{
	struct building b = { .t = t, .len = len };
	int ret = begin(t, "rdmamsg_team_broadcast");

	if (ret)
		return ret;
	if (root >= t->size || (!buf && len))
		return rdmamsg__fail(-EINVAL, "rdmamsg_team_broadcast: root %u "
				     "of %u members, or buf is NULL", root,
				     t->size);
	b.tag = rdmamsg__team_tag(PROTO_TEAM_BROADCAST, root, t->number);
	build_broadcast(&b, buf, root);
	t->fits = len <= CHANNEL_BYTES;
	return start(t, cookie);
}

struct reduction {
	struct building b;
	enum rdmamsg_calc_op op;
	enum rdmamsg_calc_type type;
	void *out;
};

/* Combines what the member has sent with what this one has. */
static void combine(struct reduction *r, uint32_t rank)
{
	struct rdmamsg_team *t = r->b.t;
	const bool left = rank < t->rank;
	const struct step s = {
		.kind = STEP_CALC, .op = (uint8_t)r->op,
		.type = (uint8_t)r->type, .len = r->b.len / 8, .dst = r->out,
		.a = left ? t->temp : r->out, .b = left ? r->out : t->temp,
	};

	receive_from(&r->b, rank, t->temp);
	(void)rdmamsg__chain_add(t->chain, 0, &s);
}

static void build_allreduce(struct reduction *r)
{
	const struct rdmamsg_team *t = r->b.t;
	uint32_t power = 1, extra, me;

	while (power * 2 <= t->size)
		power *= 2;
	extra = t->size - power;
	if (t->rank < 2 * extra && t->rank % 2 == 0) {
		send_to(&r->b, t->rank + 1, r->out);
		receive_from(&r->b, t->rank + 1, r->out);
		return;
	}
	if (t->rank < 2 * extra)
		combine(r, t->rank - 1);
	/* rank among those that go on */
	me = t->rank < 2 * extra ? t->rank / 2 : t->rank - extra;
	for (uint32_t far = 1; far < power; far *= 2) {
		uint32_t other = me ^ far;

		other = other < extra ? 2 * other + 1 : other + extra;
		send_to(&r->b, other, r->out);
		combine(r, other);
	}
	if (t->rank < 2 * extra)
		send_to(&r->b, t->rank - 1, r->out);
}

static int check_reduction(enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
			   const void *in, const void *out, size_t count)
{
	if ((uint32_t)op <= RDMAMSG_CALC_MAX &&
	    (uint32_t)type <= RDMAMSG_CALC_DOUBLE && count <= SIZE_MAX / 8 &&
	    ((in && out) || !count))
		return 0;
	return rdmamsg__fail(-EINVAL, "rdmamsg_team_allreduce: operation %u, "
			     "type %u or count %zu: there is none, or a buffer "
			     "is NULL", op, type, count);
}

/* Devices have no MIN and MAX, and may differ in which NaN they make. */
static bool fits(enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
		 size_t count)
{
	return count <= NATIVE_COUNT &&
	       (op == RDMAMSG_CALC_ADD ? type != RDMAMSG_CALC_DOUBLE :
		op <= RDMAMSG_CALC_XOR);
}

static int temp_room(struct rdmamsg_team *t, size_t size)
{
	uint8_t *temp;

	if (size <= t->temp_size)
		return 0;
	temp = realloc(t->temp, size);
	if (!temp)
		return rdmamsg__fail(-ENOMEM, "rdmamsg_team_allreduce: no "
				     "memory for %zu bytes", size);
	t->temp = temp;
	t->temp_size = size;
	return 0;
}

int rdmamsg_team_allreduce(struct rdmamsg_team *t, enum rdmamsg_calc_op op,
			   enum rdmamsg_calc_type type, const void *in,
			   void *out, size_t count, void *cookie)
{
	struct reduction r = {
		.b = { .t = t, .len = count * 8 }, .op = op, .type = type,
		.out = out,
	};
	int ret = begin(t, "rdmamsg_team_allreduce");

	if (!ret)
		ret = check_reduction(op, type, in, out, count);
	if (!ret)
		ret = temp_room(t, count * 8);
	if (ret)
		return ret;
	r.b.tag = rdmamsg__team_tag(PROTO_TEAM_ALLREDUCE,
				    (uint32_t)op << 2 | (uint32_t)type,
				    t->number);
	build_allreduce(&r);
	/* the first step sends 'out' */
	ret = rdmamsg__chain_sizes(t->chain);
	if (ret)
		return ret;
	if (count)
		memmove(out, in, count * 8);
	t->fits = fits(op, type, count);
	return start(t, cookie);
}
