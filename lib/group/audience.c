/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "group/audience.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PAUSE_MS	1000u	/* between the reports of a subscriber */
#define PAUSE_MANY_MS	30000u
#define PAUSES		4u	/* without a report: it is gone */

uint32_t rdmamsg__audience_pause(uint8_t announced)
{
	return announced == FRAME_AUDIENCE_MANY ? PAUSE_MANY_MS :
	       PAUSE_MS + PAUSE_MS * (announced / 64u);
}

uint8_t rdmamsg__audience_announced(const struct audience *a)
{
	return a->more ? FRAME_AUDIENCE_MANY : (uint8_t)a->count;
}

struct subscriber *rdmamsg__audience_find(const struct audience *a,
					  const struct carrier_peer *at)
{
	for (uint32_t i = 0; i < a->count; i++) {
		struct subscriber *s = &a->members[i];

		if (s->at.qpn == at->qpn &&
		    !memcmp(&s->at.gid, &at->gid, sizeof(at->gid)))
			return s;
	}
	return NULL;
}

struct subscriber *rdmamsg__audience_place(struct audience *a,
					   const struct carrier_peer *at)
{
	struct subscriber *s = rdmamsg__audience_find(a, at);

	if (s)
		return s;
	if (a->count == AUDIENCE_MAX) {
		a->more = a->refused = true;
		return NULL;
	}
	s = &a->members[a->count++];
	*s = (struct subscriber){ .at = *at };
	return s;
}

struct subscriber *rdmamsg__audience_gone(struct audience *a, uint64_t now)
{
	const uint64_t many = (uint64_t)PAUSES * PAUSE_MANY_MS;
	uint64_t patience;

	/* those of many report as seldom as they were told, for a while */
	if (a->refused)
		a->many_until = now + many;
	a->refused = false;
	a->more &= now < a->many_until;
	patience = now < a->many_until ? many :
		   (uint64_t)PAUSES *
		   rdmamsg__audience_pause(rdmamsg__audience_announced(a));
	for (uint32_t i = 0; i < a->count; i++)
		if (now - min(now, a->members[i].heard) > patience)
			return &a->members[i];
	return NULL;
}

void rdmamsg__audience_forget(struct audience *a, struct subscriber *s)
{
	*s = a->members[--a->count];
}

uint32_t rdmamsg__audience_rtt(const struct audience *a)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < a->count; i++)
		longest = max(longest, a->members[i].last.rtt);
	return longest;
}
