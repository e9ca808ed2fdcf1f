/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers that send frames of DC: a part of strangers.c. */
#ifndef HOSTILE_FLOODS_H
#define HOSTILE_FLOODS_H

#define HELLOS		5000
#define GUESSES		65536	/* all that once found a session */
#define HANDLES		8u	/* others' sessions have the first numbers */
#define FORGED		"forged"

/* Its own session leads to the target. */
static struct dc_session *begin_dc(void)
{
	struct rdmamsg_dc_address *a;

	if (dc_address(ctx, shared->dc_port, on_stranger_sent, &a) ||
	    rdmamsg_dc_send(a, "x", 1, 0, &was_sent))
		return NULL;
	UNTIL_DOING(was_sent, rdmamsg_wait(ctx, 5));
	return was_sent ? a->session : NULL;
}

static bool post(struct dc_session *x, const struct dc_frame *f,
		 const struct dc_hello_frame *h)
{
	uint32_t len = DCF_LEN;
	uint8_t *slot;

	UNTIL_DOING(rdmamsg__peer_bind(&x->peer) &&
		    rdmamsg__peer_room(&x->peer), rdmamsg_wait(ctx, 1));
	if (!rdmamsg__peer_room(&x->peer))
		return false;
	slot = rdmamsg__peer_slot(&x->peer);
	rdmamsg__dcf_encode(f, slot);
	if (h) {
		rdmamsg__dcf_hello_encode(h, slot);
		len = DCF_HELLO_LEN;
	} else if (f->type == DCF_DATA) {
		memcpy(slot + DCF_LEN, FORGED, strlen(FORGED));
		len += (uint32_t)strlen(FORGED);
	}
	rdmamsg__peer_send(&x->peer, len,
			   (struct dc_tx){ .kind = FLIGHT_FRAME });
	return rdmamsg_wait(ctx, 0) >= 0;
}

static uint64_t random64(void)
{
	uint64_t x = 0;

	(void)!getrandom(&x, sizeof(x), 0);
	return x;
}

/* HELLO after HELLO, as many senders. */
static void hellos(struct dc_session *x)
{
	struct dc_frame f = { .type = DCF_HELLO };
	struct dc_hello_frame h = { .key = x->peer.port->key };
	const struct attack b = begin_attack();
	const uint32_t sessions = shared->target.sessions;
	uint32_t n = 0;

	rdmamsg__port_place(x->peer.port, &h.place);
	do {
		f.token = random64();
		h.sender = random64();
		h.token = random64();
		h.handle = n;
	} while (post(x, &f, &h) && ++n < HELLOS);
	UNTIL_DOING(!rdmamsg__peer_busy(&x->peer), rdmamsg_wait(ctx, 5));
	ask_server();
	verdict("dc-hellos", n == HELLOS &&
		in_budget(&b, (struct cost){ .strangers = n, .times = 1 }) &&
		shared->target.sessions == sessions,
		"%u HELLOs, %u sessions, then %u; %s", n, sessions,
		shared->target.sessions, harm->text);
}

/*
 * Frames of the sessions of others, whose handles are small numbers: the end, or
 * the next message. The server has the innocent's messages in turn.
 */
static void guesses(struct dc_session *x)
{
	const struct attack b = begin_attack();
	const uint32_t sessions = shared->target.sessions;
	struct dc_frame f = { .type = DCF_BYE };
	uint32_t n = 0;

	do {
		f.type = n / HANDLES % 2 ? DCF_BYE : DCF_DATA;
		f.handle = n % HANDLES;
		f.handle += f.handle >= x->far_handle;	/* not its own */
		f.number = shared->rounds - n / HANDLES % 3;
		f.token = random64();
	} while (post(x, &f, NULL) && ++n < GUESSES);
	UNTIL_DOING(!rdmamsg__peer_busy(&x->peer), rdmamsg_wait(ctx, 5));
	verdict("dc-guesses", n == GUESSES &&
		in_budget(&b, (struct cost){ .strangers = 1, .times = 1 }) &&
		shared->target.sessions == sessions,
		"%u guesses, %u sessions, then %u; %s", n, sessions,
		shared->target.sessions, harm->text);
}

#endif
