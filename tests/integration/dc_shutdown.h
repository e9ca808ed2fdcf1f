/* SPDX-License-Identifier: BSD-2-Clause */
/* Senders and targets of DC in a context that is shut down. */
#ifndef RDMAMSG_TESTS_INTEGRATION_DC_SHUTDOWN_H
#define RDMAMSG_TESTS_INTEGRATION_DC_SHUTDOWN_H

#define LAST		10u		/* messages to each target */

static unsigned int shutdowns;
static uint32_t ungraceful;

static void on_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	(void)ctx;
	shutdowns++;
	ungraceful = failed;
}

/* Both contexts tell when they are shut down. */
static void start_to_shut_down(void)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_shutdown = on_shutdown,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	start();
	test_close(near);
	test_close(far);
	near = test_open(&opts);
	far = test_open(&opts);
	shutdowns = 0;
}

static void sender__shut_down_WAITING_MESSAGES_ARE_SENT(void **state)
{
	static struct cookie c[TARGETS * LAST];
	struct rdmamsg_dc_address *a[TARGETS];

	start_to_shut_down();
	open_mail(&mail, 2, TARGETS * LAST, NULL);
	for (uint32_t i = 0; i < TARGETS; i++) {
		open_hall(&halls[i], NULL);
		a[i] = address_of(&mail, &halls[i]);
	}
	for (uint32_t k = 0; k < LAST; k++)
		for (uint32_t i = 0; i < TARGETS; i++)
			assert_int_equal(post(a[i], k, &c[i * LAST + k]), 0);
	/* two of them connect, and the others wait */
	test_drive(near);
	assert_int_equal(sender_attr(&mail).connects, 2);
	assert_int_equal(rdmamsg_shutdown(near, -1), 0);
	assert_error(rdmamsg_dc_send(a[0], "x", 1, 0, NULL), -ESHUTDOWN,
		     "shut down");
	WAIT_FOR(shutdowns);
	assert_int_equal(ungraceful, 0);
	assert_int_equal(mail.completed, TARGETS * LAST);
	assert_int_equal(mail.failed, 0);
	for (uint32_t i = 0; i < TARGETS; i++)
		WAIT_FOR(halls[i].messages == LAST);
	/* the program still has the sender */
	assert_int_equal(mail.destroyed, 0);
	close_all(TARGETS);
}

static void sender__shut_down_before_it_connects_ONE_CONNECTION(void **state)
{
	static struct cookie c[MANY];
	struct rdmamsg_dc_address *a;

	start_to_shut_down();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 1, 0, NULL);
	a = address_of(&mail, &halls[0]);
	for (uint32_t k = 0; k < MANY; k++)
		assert_int_equal(post(a, k, &c[k]), 0);
	assert_int_equal(rdmamsg_shutdown(near, -1), 0);
	WAIT_FOR(shutdowns && halls[0].messages == MANY);
	assert_int_equal(ungraceful, 0);
	assert_int_equal(mail.completed, MANY);
	assert_int_equal(mail.failed, 0);
	assert_int_equal(sender_attr(&mail).connects, 1);
	close_all(1);
}

static void sender__shut_down_without_an_answer_IS_COUNTED(void **state)
{
	struct rdmamsg_dc_address *a[2];
	struct cookie c[4];

	start_to_shut_down();
	open_mail(&mail, 1, 0, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		open_hall(&halls[i], NULL);
		a[i] = address_of(&mail, &halls[i]);
	}
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(post(a[i & 1], i / 2, &c[i]), 0);
	/* the target's program does not run */
	texts_are_fine = true;
	assert_int_equal(rdmamsg_shutdown_wait(near, 100), 2);
	assert_int_equal(shutdowns, 1);
	assert_int_equal(mail.completed, 4);
	assert_int_equal(mail.failed, 4);
	close_all(2);
}

/* The program ends the address when its first message has failed. */
static struct rdmamsg_dc_address *doomed;

static void on_cut(struct rdmamsg_dc_sender *s, struct rdmamsg_dc_address *a,
		   void *cookie, int status)
{
	on_complete(s, a, cookie, status);
	if (!status || a != doomed)
		return;
	doomed = NULL;
	rdmamsg_dc_address_destroy(a);
}

static void open_cut_mail(void)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .user = &mail, .on_complete = on_cut,
		.on_failed = on_failed, .on_destroyed = on_sender_destroyed,
		.path = DC_PATH,
	};

	memset(&mail, 0, sizeof(mail));
	assert_int_equal(rdmamsg_dc_sender_create(near, &opts, &mail.sender),
			 0);
}

/* The targets' program does not run, so that not all messages leave. */
static void sender__cut_while_an_address_ends_COUNTED_ONCE(void **state)
{
	static struct cookie c[2 * MANY];
	struct rdmamsg_dc_address *a[2];

	start_to_shut_down();
	open_cut_mail();
	for (uint32_t i = 0; i < 2; i++) {
		open_hall(&halls[i], NULL);
		a[i] = address_of(&mail, &halls[i]);
		assert_int_equal(post(a[i], 0, &c[i]), 0);
		WAIT_FOR(halls[i].messages);
	}
	WAIT_FOR(mail.completed == 2);
	for (uint32_t i = 2; i < 2 * MANY; i++)
		assert_int_equal(post(a[i & 1], i / 2, &c[i]), 0);
	doomed = a[0];
	texts_are_fine = true;
	assert_int_equal(rdmamsg_shutdown_wait(near, 100), 2);
	assert_int_equal(shutdowns, 1);
	assert_int_equal(mail.completed, 2 * MANY);
	assert_true(mail.failed);
	close_all(2);
}

static void target__shut_down_NO_FALSE_SUCCESS(void **state)
{
	static struct cookie c[3 * LAST];
	struct rdmamsg_dc_address *a;

	start_to_shut_down();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 0, 0, NULL);
	a = address_of(&mail, &halls[0]);
	for (uint32_t k = 0; k < LAST; k++)
		post_all(a, k, &c[k]);
	WAIT_FOR(halls[0].messages);
	assert_int_equal(rdmamsg_shutdown(far, WAIT_MS), 0);
	for (uint32_t k = LAST; k < 2 * LAST; k++)
		post_all(a, k, &c[k]);
	WAIT_FOR(shutdowns && mail.completed == 2 * LAST);
	assert_int_equal(ungraceful, 0);
	assert_true(halls[0].messages >= mail.completed - mail.failed);
	/* later messages meet a refusal */
	post_all(a, 2 * LAST, &c[2 * LAST]);
	WAIT_FOR(mail.completed == 2 * LAST + 1);
	assert_true(c[2 * LAST].status);
	assert_int_equal(halls[0].destroyed, 0);
	close_all(1);
}

#endif
