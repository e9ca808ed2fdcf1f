/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers that ask for lanes of another's session: a part of strangers.c. */
#ifndef HOSTILE_THIEVES_H
#define HOSTILE_THIEVES_H

/* The owner's session, at the listener without a key. */
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
	t->ep = resumable(ctx, shared->port, REPLAY_MS, &t->closed);
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
	struct thief t[2] = { 0 };
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

#endif
