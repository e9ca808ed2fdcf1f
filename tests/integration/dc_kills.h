/* SPDX-License-Identifier: BSD-2-Clause */
/* Senders and targets of DC in processes that are killed. */
#ifndef RDMAMSG_TESTS_INTEGRATION_DC_KILLS_H
#define RDMAMSG_TESTS_INTEGRATION_DC_KILLS_H

/* ---- senders that are killed ------------------------------------------ */

#define PROCESSES	8u
#define EACH		(SENDERS / PROCESSES)	/* senders of a process */
#define VICTIMS		(PROCESSES / 2)		/* of a round */
#define ROUNDS		2u
#define BATCH		20u	/* messages of a sender in a round */
#define VICTIM_SECONDS	300u
#define DELAY_MS	20u	/* until a kill, at most */

_Static_assert(PROCESSES == 2 * VICTIMS, "each victim has a survivor");
_Static_assert(SENDERS / 2 * (1 + ROUNDS) <= STRANGERS, "all have a place");

static struct mail mails[EACH];

/* Waits until the parent says that the next round begins. */
static void await_round(void)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t end = now_ms() + WAIT_MS;
	char c;

	while (poll(&fd, 1, 0) <= 0) {
		if (now_ms() > end)
			fail_msg("no further round");
		test_pump(1);
		check_notes();
	}
	if (read(STDIN_FILENO, &c, 1) != 1)
		fail_msg("the parent has gone");
}

/* Each sender sends a batch. Tells when 'moment' messages are posted. */
static void send_batch(struct rdmamsg_dc_address **a, uint32_t first,
		       uint32_t moment)
{
	static struct cookie cookies[ROUNDS * EACH * BATCH];
	struct cookie *c = &cookies[first * EACH];
	uint32_t n = 0;

	for (uint32_t k = 0; k < BATCH; k++) {
		for (uint32_t i = 0; i < EACH; i++) {
			post_all(a[i], first + k, c++);
			if (++n == moment)
				say("begun\n");
		}
		test_pump(0);
	}
}

/* Returns 1 if a sender has lost messages. */
static int await_batches(uint32_t count)
{
	for (uint32_t i = 0; i < EACH; i++) {
		WAIT_FOR(mails[i].completed == count);
		if (!mails[i].failed)
			continue;
		fprintf(stderr, "sender %u: %u of %u messages failed, status "
			"%d; %s\n", i, mails[i].failed, count,
			mails[i].status, mails[i].text);
		return 1;
	}
	return 0;
}

/* Sends in this many rounds, to the target at the port. */
static int sender_role(const char *port, uint32_t rounds, uint32_t moment)
{
	/* 64 of them wait for one thread, perhaps of a busy host */
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .timeout_ms = WAIT_MS,
	};
	struct rdmamsg_dc_address *a[EACH];

	near = test_open(NULL);
	for (uint32_t i = 0; i < EACH; i++) {
		open_mail(&mails[i], 1, 0, &ep);
		a[i] = name(&mails[i], port, 0x123456789abc);
	}
	say("ready\n");
	for (uint32_t r = 0; r < rounds; r++) {
		await_round();
		send_batch(a, r * BATCH, moment);
	}
	return await_batches(rounds * BATCH);
}

static int survivor_role(int argc, char **argv)
{
	int ret = argc < 1 ? 2 : sender_role(argv[0], ROUNDS, 0);

	if (!ret)
		test_close(near);
	return ret;
}

/* The argument is PORT MOMENT. The kill comes, however late it is. */
static int victim_role(int argc, char **argv)
{
	unsigned int moment;
	char port[8];
	int ret;

	if (argc < 1 || sscanf(argv[0], "%7s %u", port, &moment) != 2)
		return 2;
	ret = sender_role(port, 1, moment);
	for (unsigned int i = 0; i < VICTIM_SECONDS && !ret; i++)
		test_pump(1000);
	return ret;
}

/* Each run has another seed. TEST_SEED repeats the kills of a run. */
static void seed_kills(void)
{
	const char *text = getenv("TEST_SEED");
	unsigned int seed = 0;

	if (text)
		seed = (unsigned int)strtoul(text, NULL, 0);
	else if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		fail_msg("getrandom: %s", strerror(errno));
	say("# seed %u\n", seed);
	srandom(seed);
}

static void await_line(struct child *c, const char *expected)
{
	char line[64];

	child_line(c, line, sizeof(line));
	assert_string_equal(line, expected);
}

/* Kills the process a random time after a random message. */
static void kill_amid(struct child *c)
{
	uint64_t moment;

	await_line(c, "begun");
	moment = now_ms() + (uint64_t)random() % (DELAY_MS + 1);
	while (now_ms() < moment) {
		test_pump(1);
		check_notes();
	}
	assert_int_equal(kill(c->pid, SIGKILL), 0);
}

/* New victims take the places of those of the round before. */
static void kill_round(struct child *survivors)
{
	struct child victims[VICTIMS];
	char arg[32];

	for (uint32_t i = 0; i < VICTIMS; i++) {
		(void)snprintf(arg, sizeof(arg), "%s %u", halls[0].port,
			       1 + (uint32_t)random() % (EACH * BATCH));
		child_start(&victims[i], "victim", arg);
	}
	for (uint32_t i = 0; i < VICTIMS; i++)
		await_line(&victims[i], "ready");
	for (uint32_t i = 0; i < VICTIMS; i++) {
		child_say(&survivors[i], "r");
		child_say(&victims[i], "r");
	}
	for (uint32_t i = 0; i < VICTIMS; i++)
		kill_amid(&victims[i]);
	for (uint32_t i = 0; i < VICTIMS; i++)
		assert_true(WIFSIGNALED(child_wait(&victims[i])));
}

/* 64 senders at a time, and half of their processes are killed each round. */
static void senders__killed_at_random_OTHERS_LOSE_NOTHING(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 2048,
	};
	/* room for all, however much the first ones have been promised */
	struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .tuning = TUNING(.recv_depth = 8),
	};
	struct child survivors[PROCESSES - VICTIMS];
	unsigned int whole = 0;

	(void)state;
	seed_kills();
	start();
	if (!test_ability(RDMAMSG_CAP_SRQ, RDMAMSG_CAP_NATIVE,
			  !rdmamsg_srq_create(far, &so, &ep.srq)))
		skip_because("the device has no shared receives");
	open_hall(&halls[0], &ep);
	for (uint32_t i = 0; i < PROCESSES - VICTIMS; i++)
		child_start(&survivors[i], "survivor", halls[0].port);
	for (uint32_t i = 0; i < PROCESSES - VICTIMS; i++)
		await_line(&survivors[i], "ready");
	for (uint32_t r = 0; r < ROUNDS; r++)
		kill_round(survivors);
	for (uint32_t i = 0; i < PROCESSES - VICTIMS; i++)
		assert_int_equal(child_wait(&survivors[i]), 0);
	WAIT_FOR(!target_attr(&halls[0]).connections);
	for (uint32_t i = 0; i < halls[0].senders; i++) {
		whole += halls[0].from[i].next == ROUNDS * BATCH;
		assert_true(halls[0].from[i].next <= BATCH ||
			    halls[0].from[i].next == ROUNDS * BATCH);
	}
	assert_int_equal(whole, SENDERS / 2);
	open_mail(&mail, 0, 0, NULL);
	close_all(1);
}

/* ---- a target that is killed ------------------------------------------ */

/* Makes a target, tells its port, and waits for the kill. */
static int target_role(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	far = test_open(NULL);
	open_hall(&halls[0], NULL);
	say("%s\n", halls[0].port);
	for (unsigned int i = 0; i < VICTIM_SECONDS; i++)
		test_pump(1000);
	return 1;
}

/* Both targets share an initiator, and one of them is killed. */
static void target__killed_ITS_MESSAGES_END_OTHERS_ARRIVE(void **state)
{
	static struct cookie cookies[2 * 60];
	struct rdmamsg_dc_address *a, *b;
	struct child child;
	char port[64];

	(void)state;
	child_start(&child, "target", NULL);
	child_line(&child, port, sizeof(port));
	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 1, 0, NULL);
	a = name(&mail, port, 0x123456789abc);
	b = address_of(&mail, &halls[0]);
	for (uint32_t i = 0; i < 60; i++) {
		post_all(a, i, &cookies[2 * i]);
		post_all(b, i, &cookies[2 * i + 1]);
		if (i == 20)
			WAIT_FOR(mail.completed >= 20);
		if (i == 30)
			assert_int_equal(kill(child.pid, SIGKILL), 0);
	}
	assert_true(WIFSIGNALED(child_wait(&child)));
	WAIT_FOR(mail.completed == 2 * 60 && halls[0].messages == 60);
	assert_true(mail.failed && mail.failed <= 60);
	assert_true(mail.why < 0);
	for (uint32_t i = 0; i < 2 * 60; i++) {
		assert_int_equal(cookies[i].count, 1);
		if (i % 2)
			assert_int_equal(cookies[i].status, 0);
	}
	close_all(1);
}

#endif
