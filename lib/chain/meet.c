/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/meet.h"

#include "base/base.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/team.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct party {
	struct chain_ep *end;
	bool yes;			/* both sides, as far as is known */
	bool absent;			/* of the second round */
	uint8_t out[PROTO_TEAM_MEET_LEN], in[PROTO_TEAM_MEET_LEN];
};

struct meeting {
	struct rdmamsg_chain *chain;	/* of the meeting itself */
	struct rdmamsg_chain *of;	/* that waits */
	bool begun;
	bool second;			/* round */
	uint32_t count;
	struct party parties[];
};

int rdmamsg__meeting_new(struct rdmamsg_chain *c, uint32_t most)
{
	struct meeting *m = calloc(1, sizeof(*m) +
				   most * sizeof(m->parties[0]));
	int err = -ENOMEM;

	if (m)
		m->chain = rdmamsg__chain_new(c->ctx);
	if (m && m->chain)
		err = rdmamsg__chain_room(m->chain, 2 * most);
	if (err) {
		if (m && m->chain)
			rdmamsg__chain_delete(m->chain);
		free(m);
		return rdmamsg__fail(err, "no memory to meet the peers");
	}
	m->of = c;
	m->chain->meeting = m;
	c->meets = m;
	return 0;
}

void rdmamsg__meeting_add(struct rdmamsg_chain *c, struct chain_ep *end)
{
	c->meets->parties[c->meets->count++].end = end;
}

/* Gives messages to the chain of the meeting, or back. */
static void occupy(const struct meeting *m, struct rdmamsg_chain *c)
{
	for (uint32_t i = 0; i < m->count; i++)
		m->parties[i].end->busy = c;
}

bool rdmamsg__meeting_free(struct rdmamsg_chain *c)
{
	struct meeting *m = c->meets;
	bool begun;

	if (!m)
		return false;
	c->meets = NULL;
	begun = m->begun;
	m->chain->meeting = NULL;
	rdmamsg__chain_delete(m->chain);
	if (begun)
		occupy(m, c);
	free(m);
	return begun;
}

/* ---- rounds ------------------------------------------------------------ */

static bool all_yes(const struct meeting *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (!m->parties[i].yes)
			return false;
	return true;
}

static bool any_yes(const struct meeting *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (m->parties[i].yes)
			return true;
	return false;
}

static void decide(struct party *p, bool yes)
{
	p->end->met = yes ? MET_YES : MET_NO;
	if (!yes)
		rdmamsg__channel_close(p->end);
}

/* A member that can't with one can't at all. */
static void agree(struct meeting *m)
{
	const bool all = all_yes(m);

	for (uint32_t i = 0; m->of->team && i < m->count; i++)
		m->parties[i].yes = all;
}

/* Sends 'out' to all who take part in the round, and receives 'in' from them */
static void run_round(struct meeting *m, uint32_t tag)
{
	struct step s = { .tag = tag, .len = PROTO_TEAM_MEET_LEN };

	rdmamsg__chain_clear(m->chain);
	for (uint32_t i = 0; i < 2 * m->count; i++) {
		struct party *p = &m->parties[i % m->count];

		if (p->absent)
			continue;
		s.kind = i < m->count ? STEP_SEND : STEP_RECV;
		s.end = p->end;
		s.a = p->out;
		s.dst = p->in;
		(void)rdmamsg__chain_add(m->chain, 0, &s);
	}
	rdmamsg__chain_start(m->chain);
}

static void try_open(struct party *p)
{
	rdmamsg__channel_close(p->end);
	p->yes = !rdmamsg__try(rdmamsg__channel_open(p->end));
	if (!p->yes)
		log_info("chain: an endpoint has no channel: %s",
			 rdmamsg__text());
}

void rdmamsg__meeting_start(struct rdmamsg_chain *c)
{
	struct meeting *m = c->meets;

	for (uint32_t i = 0; i < m->count; i++)
		try_open(&m->parties[i]);
	agree(m);
	for (uint32_t i = 0; i < m->count; i++) {
		struct party *p = &m->parties[i];
		struct proto_team_meet offer = { .can = false };

		if (p->yes)
			rdmamsg__channel_offer(p->end->channel, &offer);
		rdmamsg__team_meet_encode(&offer, p->out);
	}
	m->begun = true;
	occupy(m, m->chain);
	run_round(m, PROTO_TEAM_MEET_TAG);
}

static bool said_yes(const struct party *p, struct proto_team_meet *ret)
{
	return !rdmamsg__team_meet_decode(ret, p->in, PROTO_TEAM_MEET_LEN) &&
	       ret->can;
}

static void try_connect(struct party *p)
{
	struct proto_team_meet peer;

	if (!p->yes || !said_yes(p, &peer))
		return;
	p->yes = !rdmamsg__try(rdmamsg__channel_connect(p->end, &peer));
	if (!p->yes)
		log_info("chain: %s", rdmamsg__text());
}

static void end_meeting(struct meeting *m)
{
	struct rdmamsg_chain *of = m->of;

	for (uint32_t i = 0; i < m->count; i++)
		decide(&m->parties[i], m->parties[i].yes);
	(void)rdmamsg__meeting_free(of);
	rdmamsg__chain_met(of);
}

static void prepare_second(struct meeting *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		struct party *p = &m->parties[i];

		/* the peer knows it, too */
		p->absent = !p->yes;
		try_connect(p);
	}
	agree(m);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct proto_team_meet said = {
			.can = m->parties[i].yes,
		};

		rdmamsg__team_meet_encode(&said, m->parties[i].out);
	}
}

static void end_round(struct meeting *m)
{
	struct proto_team_meet said;

	for (uint32_t i = 0; i < m->count; i++)
		if (!said_yes(&m->parties[i], &said))
			m->parties[i].yes = false;
	agree(m);
	if (m->second || !any_yes(m)) {
		end_meeting(m);
		return;
	}
	m->second = true;
	prepare_second(m);
	run_round(m, PROTO_TEAM_MET_TAG);
}

void rdmamsg__meeting_told(struct rdmamsg_chain *of_meeting)
{
	struct meeting *m = of_meeting->meeting;
	const struct rdmamsg_chain_end *end = &of_meeting->end;

	if (!end->status)
		end_round(m);
	else if (m->of->team)
		rdmamsg__team_step_failed(m->of->team, of_meeting);
	else
		rdmamsg__chain_fail(m->of, NO_STEP, end->status, "%s",
				    end->text);
}
