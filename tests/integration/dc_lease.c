/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target over queue pairs of DC that has forgotten a sender: no message of
 * that sender completes with status 0, unless it has arrived.
 */
#include "clock.h"
#include "common.h"
#include "harm.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#define BATCH		3u
#define KEY		5u
#define STEP_MS		500u	/* as often as the library looks */
#define PASS_MS		120000u	/* the most that passes; then the test waits */
#define SECONDS		300u	/* of a child, at most */

static struct rdmamsg *ctx;
static struct rdmamsg_dc_target *target;
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *address;
static unsigned int messages, completed, succeeded, gone;

static void on_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		       uint64_t from)
{
	(void)t;
	(void)from;
	messages++;
	rdmamsg_msg_free(msg);
}

static void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	(void)t;
	gone++;
}

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int status)
{
	struct cookie *c = cookie;

	(void)s;
	(void)a;
	if (c->count++)
		note("a message has completed twice");
	completed++;
	succeeded += !status;
}

static void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	(void)s;
	gone++;
}

static void open_target(char port[static 8])
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .access_key = KEY,
		.on_message = on_message, .on_destroyed = on_target_destroyed,
		.path = RDMAMSG_DC_NATIVE,
	};

	messages = gone = 0;
	ctx = test_open(NULL);
	assert_int_equal(rdmamsg_dc_target_create(ctx, test_addr(), "0", &opts,
						  &target), 0);
	(void)snprintf(port, 8, "%u", rdmamsg_dc_target_port(target));
}

static bool is_forgotten(void)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_dc_target_query(target, &a), 0);
	return !a.connections;
}

/*
 * Lets the target's time pass until it has forgotten the sender. Returns how
 * much has passed. As much must pass for the sender before it goes on.
 */
static uint32_t pass_until_forgotten(void)
{
	uint32_t passed = 0;

	while (!is_forgotten() && passed < PASS_MS) {
		clock_pass(STEP_MS);
		passed += STEP_MS;
		test_pump(1);
		check_notes();
	}
	WAIT_FOR(is_forgotten());
	return passed;
}

static void close_target(void)
{
	rdmamsg_dc_target_destroy(target);
	WAIT_FOR(gone == 1);
	test_close(ctx);
}

static void open_sender(const char *port)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .on_complete = on_complete,
		.on_destroyed = on_sender_destroyed, .path = RDMAMSG_DC_NATIVE,
	};

	completed = succeeded = gone = 0;
	ctx = test_open(NULL);
	assert_int_equal(rdmamsg_dc_sender_create(ctx, &opts, &sender), 0);
	assert_int_equal(rdmamsg_dc_address_create(sender, test_addr(), port,
						   KEY, NULL, &address), 0);
}

/*
 * Returns how many of a batch have completed with status 0. Of each loop's turn
 * so much time passes beside the real one.
 */
static unsigned int send_batch(uint32_t passing_ms)
{
	const unsigned int before = completed, good = succeeded;
	static struct cookie cookies[BATCH];

	memset(cookies, 0, sizeof(cookies));
	for (uint32_t i = 0; i < BATCH; i++)
		assert_int_equal(rdmamsg_dc_send(address, "x", 1, i,
						 &cookies[i]), 0);
	/* the device has time to acknowledge them */
	WAIT_FOR(!passing_ms || clock_others_sleep());
	for (uint32_t passed = 0; completed < before + BATCH && passing_ms &&
	     passed < PASS_MS; passed += passing_ms) {
		clock_pass(passing_ms);
		test_pump(20);
		check_notes();
	}
	WAIT_FOR(completed == before + BATCH);
	return succeeded - good;
}

static void close_sender(void)
{
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	test_close(ctx);
}

/* ---- children ---------------------------------------------------------- */

/*
 * Waits until the parent has said for how long this process has waited, and
 * lets that time pass. Returns false at the end.
 */
static bool await_word(void)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	uint32_t passed;

	for (unsigned int i = 0; i < 10 * SECONDS; i++) {
		if (poll(&fd, 1, 0) > 0) {
			if (read(STDIN_FILENO, &passed, sizeof(passed)) !=
			    sizeof(passed))
				return false;
			clock_pass(passed);
			return true;
		}
		test_pump(100);
		check_notes();
	}
	return false;
}

/* Tells its port, when it has forgotten the sender, and what has arrived. */
static int target_role(int argc, char **argv)
{
	char port[8];

	(void)argc;
	(void)argv;
	open_target(port);
	say("%s\n", port);
	WAIT_FOR(messages == BATCH);
	/* the parent cuts this process off */
	if (!await_word())
		return 1;
	say("%u\n", pass_until_forgotten());
	if (!await_word())
		return 1;
	/* the parent knows what the device has */
	WAIT_FOR(messages >= 2 * BATCH);
	say("%u\n", messages);
	close_target();
	return 0;
}

/* For each word sends a batch, and tells how many messages were successful. */
static int sender_role(int argc, char **argv)
{
	if (argc < 1)
		return 2;
	open_sender(argv[0]);
	for (int i = 0; i < 3; i++) {
		if (i && !await_word())
			return 1;
		/* the second has no answer to wait for */
		say("%u\n", send_batch(i == 1 ? STEP_MS : 0));
	}
	close_sender();
	return 0;
}

static unsigned int number_of(struct child *c)
{
	unsigned int n = 0;
	char line[64];

	child_line(c, line, sizeof(line));
	if (sscanf(line, "%u", &n) != 1)
		fail_msg("a child said '%s'", line);
	return n;
}

/* Tells the child that so much time has passed for it. */
static void go_on(const struct child *c, uint32_t passed)
{
	assert_int_equal(write(c->to, &passed, sizeof(passed)),
			 sizeof(passed));
}

/* ---- tests ------------------------------------------------------------- */

/* No loop runs meanwhile, so the target hears nothing. */
static void await_forgotten(struct child *c)
{
	struct pollfd fd = { .fd = c->from, .events = POLLIN };

	go_on(c, 0);
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	clock_pass(number_of(c));
}

/* Nothing comes from the target. Its device still takes what is sent. */
static void answers__lost_for_long_NO_FALSE_SUCCESS(void **state)
{
	struct child child;
	char line[64];

	(void)state;
	child_start(&child, "target", NULL);
	child_line(&child, line, sizeof(line));
	open_sender(line);
	assert_int_equal(send_batch(0), BATCH);
	harm_drop_of(child.pid, true);
	await_forgotten(&child);
	assert_int_equal(send_batch(STEP_MS), 0);
	harm_drop_of(child.pid, false);
	assert_int_equal(send_batch(0), BATCH);
	go_on(&child, 0);
	assert_int_equal(number_of(&child), 2 * BATCH);
	close_sender();
	assert_int_equal(child_wait(&child), 0);
}

/* The soft HCA of a stopped process is stopped, too. */
static void sender__stopped_for_long_NO_FALSE_SUCCESS(void **state)
{
	struct child child;
	unsigned int good;
	char port[8];

	(void)state;
	open_target(port);
	child_start(&child, "sender", port);
	assert_int_equal(number_of(&child), BATCH);
	/* this device has them; the loop may not have come to them */
	WAIT_FOR(messages == BATCH);
	assert_int_equal(kill(child.pid, SIGSTOP), 0);
	/* it sends as soon as it goes on */
	go_on(&child, pass_until_forgotten());
	assert_int_equal(kill(child.pid, SIGCONT), 0);
	good = number_of(&child);
	WAIT_FOR(messages >= BATCH + good);
	assert_int_equal(messages, BATCH + good);
	messages = 0;
	go_on(&child, 0);
	assert_int_equal(number_of(&child), BATCH);
	WAIT_FOR(messages == BATCH);
	assert_int_equal(child_wait(&child), 0);
	close_target();
}

static const struct CMUnitTest tests[] = {
	TEST(answers__lost_for_long_NO_FALSE_SUCCESS),
	TEST(sender__stopped_for_long_NO_FALSE_SUCCESS),
};

static const struct role roles[] = {
	{ "target", target_role }, { "sender", sender_role }, { NULL },
};

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
