/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/meet.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/native.h"
#include "chain/team.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct meeting {
	struct rdmamsg_chain *chain;
	struct native *native;		/* NULL: this member cannot */
	bool begun;			/* the members belong to the chain */
	bool second;			/* round */
	/* by rank */
	uint8_t (*out)[PROTO_TEAM_MEET_LEN], (*in)[PROTO_TEAM_MEET_LEN];
};

int rdmamsg__meet_new(struct rdmamsg_team *t)
{
	struct meeting *m = calloc(1, sizeof(*m));

	t->meeting = m;
	if (m) {
		m->chain = rdmamsg__chain_new(t->ctx);
		m->out = calloc(t->size, sizeof(*m->out));
		m->in = calloc(t->size, sizeof(*m->in));
	}
	if (!m || !m->chain || !m->out || !m->in)
		return rdmamsg__fail(-ENOMEM, "no memory for a team");
	m->chain->team = t;
	return rdmamsg__chain_room(m->chain, 2 * t->size);
}

/* The chain that runs has the messages of the members. */
static void give_members(struct rdmamsg_team *t, struct rdmamsg_chain *to)
{
	for (uint32_t i = 0; i < t->size; i++)
		if (i != t->rank)
			t->members[i]->busy = to;
}

void rdmamsg__meet_free(struct rdmamsg_team *t)
{
	struct meeting *m = t->meeting;

	if (!m)
		return;
	t->meeting = NULL;
	if (m->begun)
		give_members(t, t->chain);
	rdmamsg__native_free(m->native);
	if (m->chain)
		rdmamsg__chain_delete(m->chain);
	free(m->out);
	free(m->in);
	free(m);
}

/* Sends 'out' to all, and receives 'in' from all. */
static void run_round(struct rdmamsg_team *t, uint32_t tag)
{
	struct meeting *m = t->meeting;
	struct step s = { .tag = tag, .len = PROTO_TEAM_MEET_LEN };

	rdmamsg__chain_clear(m->chain);
	for (uint32_t i = 0; i < 2 * t->size; i++) {
		const uint32_t rank = i % t->size;

		if (rank == t->rank)
			continue;
		s.kind = i < t->size ? STEP_SEND : STEP_RECV;
		s.end = t->members[rank];
		s.a = m->out[rank];
		s.dst = m->in[rank];
		(void)rdmamsg__chain_add(m->chain, 0, &s);
	}
	m->begun = true;
	give_members(t, m->chain);
	rdmamsg__chain_start(m->chain);
}

void rdmamsg__meet_start(struct rdmamsg_team *t)
{
	struct meeting *m = t->meeting;

	if (rdmamsg__try(rdmamsg__native_open(t, &m->native)))
		log_info("team: member %u runs in the loop: %s", t->rank,
			 rdmamsg__text());
	for (uint32_t i = 0; i < t->size; i++) {
		struct proto_team_meet offer = { .can = false };

		if (m->native && i != t->rank)
			rdmamsg__native_offer(m->native, i, &offer);
		rdmamsg__team_meet_encode(&offer, m->out[i]);
	}
	run_round(t, PROTO_TEAM_MEET_TAG);
}

/* Returns the rank of a member that has said no, or the size of the team. */
static uint32_t who_cannot(const struct rdmamsg_team *t)
{
	struct proto_team_meet said;

	for (uint32_t i = 0; i < t->size; i++)
		if (i != t->rank &&
		    (rdmamsg__team_meet_decode(&said, t->meeting->in[i],
					       PROTO_TEAM_MEET_LEN) ||
		     !said.can))
			return i;
	return t->size;
}

static int connect_all(struct rdmamsg_team *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t->size && !err; i++) {
		struct proto_team_meet said;

		if (i == t->rank)
			continue;
		err = rdmamsg__team_meet_decode(&said, t->meeting->in[i],
						PROTO_TEAM_MEET_LEN);
		if (!err)
			err = rdmamsg__native_connect(t->meeting->native, i,
						      &said);
	}
	return err;
}

static void end_meeting(struct rdmamsg_team *t)
{
	struct meeting *m = t->meeting;

	t->native = m->native;
	m->native = NULL;
	rdmamsg__meet_free(t);
	rdmamsg__team_go(t);
}

/* All members have the same answers, so all decide the same. */
void rdmamsg__meet_round(struct rdmamsg_team *t)
{
	struct meeting *m = t->meeting;
	struct proto_team_meet said = { .can = false };
	const uint32_t who = who_cannot(t);

	if (who != t->size)
		log_info("team: member %u cannot run natively", who);
	if (who != t->size || !m->native) {
		rdmamsg__native_free(m->native);
		m->native = NULL;
	}
	if (m->second || who != t->size || !m->native) {
		end_meeting(t);
		return;
	}
	m->second = true;
	said.can = !rdmamsg__try(connect_all(t));
	if (!said.can) {
		log_info("team: member %u runs in the loop: %s", t->rank,
			 rdmamsg__text());
		rdmamsg__native_free(m->native);
		m->native = NULL;
	}
	for (uint32_t i = 0; i < t->size; i++)
		rdmamsg__team_meet_encode(&said, m->out[i]);
	run_round(t, PROTO_TEAM_MET_TAG);
}
