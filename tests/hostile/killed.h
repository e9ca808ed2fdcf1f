/* SPDX-License-Identifier: BSD-2-Clause */
/* Senders of DC that are killed, one after the other: a part of strangers.c. */
#ifndef HOSTILE_KILLED_H
#define HOSTILE_KILLED_H

#define KILLS		50u
#define ROUNDS		5u	/* at most */
/* bytes of the server: an initiator, its receives, and a session */
#define KILLED_EACH	(2 * PORT_SLOTS * PORT_STRIDE + 8192)
#define LATER_MS	20u	/* until a kill, at most */

/* Sends all the time, until it is killed. */
static int victim(void)
{
	struct rdmamsg_dc_address *a;
	struct rdmamsg *own;

	if (rdmamsg_open(&own, NULL) ||
	    dc_address(own, shared->kill_at, on_stranger_sent, &a)) {
		harmed("victim: %s", rdmamsg_error());
		return 1;
	}
	for (;;) {
		/* without room, the next turn sends */
		(void)rdmamsg_dc_send(a, "x", 1, 0, &was_sent);
		(void)rdmamsg_wait(own, 1);
		shared->is_sending |= was_sent;
	}
}

static void kill_one(void)
{
	pid_t pid;

	shared->is_sending = false;
	pid = start(victim);
	UNTIL(shared->is_sending || shared->quit || harm->done);
	usleep((useconds_t)(random() % (LATER_MS + 1)) * 1000);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	if (!shared->is_sending)
		harmed("victim: not served in %u ms", STEP_MS);
	shared->killed++;
}

/* A process without a context, so that its children may have one. */
static int killer(void)
{
	while (!shared->quit)
		if (shared->killed < shared->to_kill)
			kill_one();
		else
			usleep(1000);
	/* a sanitizer would tell of what start() has left to children */
	return 0;
}

/* kill_one() bounds the time of each. */
static void kill_some(uint32_t port, uint32_t n)
{
	shared->kill_at = port;
	shared->to_kill = shared->killed + n;
	while (shared->killed != shared->to_kill && !harm->done)
		(void)rdmamsg_wait(ctx, 5);
}

/* Returns the ms until a new sender is served, or UINT64_MAX. */
static uint64_t serve_next(uint32_t port)
{
	struct rdmamsg_dc_address *a;
	uint64_t begun = now_ms();

	was_sent = false;
	if (dc_address(ctx, port, on_stranger_sent, &a) ||
	    rdmamsg_dc_send(a, "x", 1, 0, &was_sent))
		return UINT64_MAX;
	UNTIL_DOING(was_sent, (void)rdmamsg_wait(ctx, 5));
	rdmamsg_dc_sender_destroy(a->sender);
	return was_sent ? now_ms() - begun : UINT64_MAX;
}

/* Waits until the target knows no sender any more. */
static void await_none(void)
{
	UNTIL_DOING((ask_server(), !shared->wide.sessions && !shared->bound),
		    (void)rdmamsg_wait(ctx, 5));
}

/* Returns true if the round leaves no memory at the server. */
static bool kill_round(struct attack *b, uint64_t *served)
{
	*b = begin_attack();
	kill_some(shared->wide_port, KILLS);
	*served = serve_next(shared->wide_port);
	await_none();
	return shared->heap <= b->heap + SMALL;
}

/*
 * The target keeps what the most senders at a time have needed. So a round may
 * leave something, but not each.
 */
static void killed(void)
{
	uint32_t rounds = 1;
	struct attack b;
	uint64_t served;

	while (!kill_round(&b, &served) && rounds < ROUNDS && !harm->done)
		rounds++;
	verdict("dc-killed", shared->killed == rounds * KILLS &&
		served <= SERVED_MS && !shared->wide.sessions &&
		!shared->bound && in_budget(&b, (struct cost){
			.strangers = KILLS, .each = KILLED_EACH, .times = 4,
		}), "%u killed, the next served after %llu ms; %u sessions and "
		"%u initiators; %s", shared->killed,
		(unsigned long long)served, shared->wide.sessions, shared->bound,
		harm->text);
}

#endif
