/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers that ask for lanes of another's session: a part of strangers.c. */
#ifndef HOSTILE_THIEVES_H
#define HOSTILE_THIEVES_H

#define REPLAYS		5
#define REPLAY_MS	500		/* in which a replay may try */
#define THIEVES		2u		/* at a time */
/* bytes of the server for its own session, which waits for it to come back */
#define THIEF_EACH	(2u << 20)

/* Another session, at the listener without a key. */
struct thief {
	struct rdmamsg_ep *ep;
	bool closed, taken;
	uint32_t last;			/* epoch of the request that was seen */
};

/*
 * Knows what is in a request for a lane. It can repeat the proof there, and has
 * no pre-shared key. ahead: epochs from the owner's.
 */
static bool begin_theft(struct thief *t, const struct rdmamsg_ep *owner,
			int32_t ahead)
{
	const struct resume *seen = owner->resume;
	struct resume *r;

	t->taken = false;
	t->ep = resumable(ctx, shared->other_port, REPLAY_MS, &t->closed);
	r = t->ep ? t->ep->resume : NULL;
	if (!r || !r->agreed)
		return false;
	memcpy(r->session, seen->session, sizeof(r->session));
	memcpy(t->ep->connect.session, owner->connect.session,
	       sizeof(t->ep->connect.session));
	memcpy(r->nonce, seen->nonce, sizeof(r->nonce));
	r->secret = seen->secret;
	r->epoch = seen->epoch + (uint32_t)ahead;
	r->has_key = false;
	/* not an address that the server has announced */
	r->target = TARGET_OTHER;
	t->last = r->epoch + 1;
	return true;
}

/* The next try is no request that was seen. */
static bool is_over(struct thief *t)
{
	const struct resume *r = t->ep->resume;

	if (!t->closed)
		t->taken |= r->resumes;
	return t->closed || t->taken || r->epoch > t->last;
}

static void end_theft(struct thief *t)
{
	if (!t->ep)
		return;
	if (!t->closed)
		rdmamsg_ep_abort(t->ep);
	UNTIL_DOING(t->closed, (void)rdmamsg_wait(ctx, 5));
	rdmamsg_ep_release(t->ep);
}

/*
 * Two ask for a lane of the session at the same time. Returns true if one gets
 * it.
 */
static bool replay(const struct rdmamsg_ep *owner, int32_t ahead)
{
	struct thief t[THIEVES] = { 0 };
	const bool can = begin_theft(&t[0], owner, ahead) &&
			 begin_theft(&t[1], owner, ahead);

	if (can) {
		cut(t[0].ep);
		cut(t[1].ep);
		UNTIL_DOING(is_over(&t[0]) && is_over(&t[1]),
			    (void)rdmamsg_wait(ctx, 5));
	} else {
		verdict("replay", false, "no connection: %s", rdmamsg_error());
	}
	end_theft(&t[0]);
	end_theft(&t[1]);
	return t[0].taken || t[1].taken;
}

/* The owner is served, over the lane that it has and over the next one. */
static bool is_served(struct rdmamsg *of, struct rdmamsg_ep *owner,
		      const bool *closed)
{
	if (rdmamsg_send_wait(owner, "x", 1, 0, STEP_MS))
		return false;
	cut(owner);
	UNTIL_DOING(*closed || owner->resume->resumes,
		    (void)rdmamsg_wait(of, 5));
	return !*closed && owner->resume->resumes == 1 &&
	       !rdmamsg_send_wait(owner, "x", 1, 0, STEP_MS);
}

/* Steals from an owner with a pre-shared key, or without: NULL. */
static void replays(const char *name, uint32_t port, const char *key)
{
	const struct rdmamsg_options oo = {
		.size = sizeof(oo), .key = key, .key_len = key ? strlen(key) : 0,
	};
	struct attack b;
	struct rdmamsg_ep *owner;
	struct rdmamsg *of;
	uint32_t taken = 0;
	bool closed, served;

	if (rdmamsg_open(&of, &oo)) {
		verdict(name, false, "%s", rdmamsg_error());
		return;
	}
	owner = resumable(of, port, STEP_MS, &closed);
	if (!owner || !owner->resume->agreed) {
		verdict(name, false, "no session: %s", rdmamsg_error());
		rdmamsg_close(of);
		return;
	}
	b = begin_attack();
	for (uint32_t i = 0; i < REPLAYS; i++)
		taken += replay(owner, 0);
	served = is_served(of, owner, &closed);
	/* the owner has used this request; older ones, and one far ahead */
	taken += replay(owner, -1);
	taken += replay(owner, -1000);
	taken += replay(owner, 1000);
	served = served && !rdmamsg_send_wait(owner, "x", 1, 0, STEP_MS);
	verdict(name, !taken && served && in_budget(&b, (struct cost){
			.strangers = (REPLAYS + 3) * THIEVES,
			.each = THIEF_EACH, .times = 4,
			.stays = (REPLAYS + 3) * THIEVES * THIEF_EACH,
		}),
		"%u of %u replays got the session; the owner %s served; %s",
		taken, REPLAYS + 3, served ? "is" : "is not", harm->text);
	rdmamsg_close(of);
	rdmamsg_ep_release(owner);
}

#endif
