/* SPDX-License-Identifier: BSD-2-Clause */
/* A stranger that asks a publisher of the group: a part of strangers.c. */
#ifndef HOSTILE_NACKS_H
#define HOSTILE_NACKS_H

#define NACKS		2000
#define RANGES		64u	/* of a request */
#define NACK_PARTS	3u	/* of a stranger, the innocent, the group */
/* bytes of the server: a request waits for its budget, with the way back */
#define NACK_EACH	(REQUESTS_MAX * 320u)
#define NACK_TIMES	100u	/* bytes for a byte, also if it takes 10 s */

static struct rdmamsg_group *join(void)
{
	const struct rdmamsg_group_options go = {
		.size = sizeof(go), .flags = RDMAMSG_GROUP_SUBSCRIBE,
	};
	struct rdmamsg_group *g;

	if (rdmamsg_group_join(ctx, GROUP, &go, &g))
		return NULL;
	UNTIL_DOING(!list_empty(&g->members), rdmamsg_wait(ctx, 5));
	return list_empty(&g->members) ? NULL : g;
}

/* Ranges of each kind, around the next number of a publisher. */
static struct frame_range range(uint32_t next, uint32_t n)
{
	const uint32_t oldest = next - KEPT;

	switch (n % 8) {
	case 0:		/* overlaps with those before and after it */
		return (struct frame_range){ oldest + n / 8 % KEPT, KEPT / 2,
					     0, FRAME_TO_END };
	case 1:		/* without an end */
		return (struct frame_range){ oldest, UINT32_MAX, 0,
					     FRAME_TO_END };
	case 2:		/* begins long ago, and passes the end */
		return (struct frame_range){ next - 0x7fffffff, UINT32_MAX, 0,
					     FRAME_TO_END };
	case 3:		/* not published yet */
		return (struct frame_range){ next + 0x10000, 0x10000, 0,
					     FRAME_TO_END };
	case 4:		/* backwards: refused */
		return (struct frame_range){ oldest, 1, 9, 3 };
	case 5:		/* fragments that the message has not */
		return (struct frame_range){ next - 1, 1, 500, 60000 };
	case 6:		/* around the wrap */
		return (struct frame_range){ UINT32_MAX - n, 2 * n + 1, 0,
					     FRAME_TO_END };
	default:	/* nothing: refused */
		return (struct frame_range){ oldest, 0, 0, FRAME_TO_END };
	}
}

/* A NACK of one range of everything, or of many of all kinds. */
static void fill(struct frame *f, uint8_t *payload, uint32_t next, uint32_t n)
{
	const struct frame_range all = { next - KEPT, KEPT, 0, FRAME_TO_END };
	const bool one = n % 2;

	f->length = one ? 1 : RANGES;
	f->data_len = f->length * FRAME_RANGE_LEN;
	for (uint32_t i = 0; i < f->length; i++) {
		const struct frame_range r = one ? all : range(next, n + i);

		rdmamsg__range_encode(&r, payload + i * FRAME_RANGE_LEN);
	}
}

/* Datagrams published between the two. */
static uint64_t published(const struct rdmamsg_group_stats *from,
			  const struct rdmamsg_group_stats *to)
{
	return to->sent_datagrams - to->sent_repeated -
	       (from->sent_datagrams - from->sent_repeated);
}

/*
 * Each part gets a multiple of what it has received meanwhile, and of what is
 * kept from before.
 */
static uint64_t most_repeated(const struct rdmamsg_group *g,
			      const struct rdmamsg_group_stats *from,
			      const struct rdmamsg_group_stats *to, uint64_t ms)
{
	const uint32_t kept = KEPT * rdmamsg__frame_count(MESSAGE_LEN,
			(uint16_t)(g->mtu - FRAME_HDR_LEN));

	return NACK_PARTS * (QUOTA_TIMES * (published(from, to) + kept) +
			     QUOTA_LEAST * (ms / 1000 + 2));
}

/*
 * Asks for the whole history, again and again, and for what is not there.
 * Returns the bytes of what it has sent.
 */
static uint64_t send_nacks(struct rdmamsg_group *g, const struct member *m,
			   struct carrier_to *to)
{
	static uint8_t payload[RANGES * FRAME_RANGE_LEN];
	struct frame f = {
		.type = FRAME_NACK, .sender = m->who.id, .data = payload,
	};
	const uint64_t end = now_ms() + STEP_MS;
	uint64_t len = 0;
	uint32_t n = 0;

	while (n < NACKS && now_ms() < end) {
		fill(&f, payload, m->stream.next, n);
		if (!rdmamsg__group_send_frame(g, to, &f)) {
			len += FRAME_HDR_LEN + f.data_len;
			n++;
		}
		(void)rdmamsg_wait(ctx, 0);
	}
	return n == NACKS ? len : 0;
}

static void attack_group(struct rdmamsg_group *g, const struct member *m,
			 struct carrier_to *to)
{
	const struct attack b = begin_attack();
	const struct rdmamsg_group_stats before = shared->group;
	const uint64_t begun = now_ms(), len = send_nacks(g, m, to);
	uint64_t repeated, most;
	bool kept;

	/* requests that wait for a budget get it meanwhile */
	UNTIL_DOING((ask_server(), shared->group.requests >=
				   before.requests + NACKS / 2 &&
				   published(&before, &shared->group) >= KEPT),
		    (void)rdmamsg_wait(ctx, 5));
	repeated = shared->group.sent_repeated - before.sent_repeated;
	most = most_repeated(g, &before, &shared->group, now_ms() - begun);
	kept = in_budget(&b, (struct cost){
		.strangers = 1, .each = NACK_EACH, .stays = NACK_EACH,
		.sent = len, .got = repeated * g->mtu, .times = NACK_TIMES,
	});
	verdict("group-requests", len && repeated <= most && kept,
		"%u requests, %llu datagrams for them, at most %llu; %s", NACKS,
		(unsigned long long)repeated, (unsigned long long)most,
		harm->text);
}

static void nacks(void)
{
	struct rdmamsg_group *g = join();
	const struct member *m = g ? list_first(&g->members, struct member,
						node) : NULL;
	struct carrier_to to;

	if (!m || rdmamsg__carrier_way(g->carrier, &m->from, &to)) {
		verdict("group-requests", false, "no publisher: %s",
			rdmamsg_error());
		return;
	}
	attack_group(g, m, &to);
	rdmamsg__carrier_drop_ah(g->carrier, to.ah);
	/* what is published would count as an answer to other attacks */
	rdmamsg_group_leave(g);
}

#endif
