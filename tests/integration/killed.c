/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are killed, in either role and under any load. */
#include "death.h"
#include "request.h"

#include <rdmamsg/endpoint.h>

static const struct role roles[] = { { "peer", role_peer }, { NULL } };

static void meet_and_kill(bool child_serves, char ours, char theirs)
{
	struct child child;
	uint64_t when;

	we_init(ours);
	we_meet(&child, theirs, child_serves);
	/* let the activity begin before the kill */
	if (theirs != 'i')
		WAIT_FOR(p.s.received >= 10);
	if (ours != 'i')
		WAIT_FOR(p.s.sent_ok >= 10);
	assert_int_equal(p.s.closed, 0);
	when = now_ms();
	child_kill(&child);
	check_killed(when, theirs == 'l');

	/* the listener accepts another peer */
	our_activity = 'i';
	end_fini(&p.s);
	p.s.connected = p.s.closed = 0;
	p.s.received = p.s.sent = p.s.sent_ok = p.s.sent_failed = 0;
	we_meet(&child, 'e', child_serves);
	send_and_hear();
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* The child is killed after its request has arrived, before this side polls. */
static void killed__while_its_request_waits_ECONNRESET_OR_TOLD(void **state)
{
	struct child child;
	char arg[16];
	int ret;

	pair_init(&p, NULL);
	listen_put_off(&p);
	snprintf(arg, sizeof(arg), "i%s", p.port);
	child_start(&child, "peer", arg);
	WAIT_FOR(waiting_count);
	child_kill(&child);
	ret = rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep);
	if (ret)
		assert_int_equal(ret, -ECONNRESET);
	else
		WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

static void killed__idle_IS_TOLD(void **state)
{
	meet_and_kill(false, 'i', 'i');
	meet_and_kill(true, 'i', 'i');
}

static void killed__sending_to_us_IS_TOLD(void **state)
{
	meet_and_kill(false, 'i', 's');
	meet_and_kill(true, 'i', 's');
	meet_and_kill(false, 'i', 'l');
	meet_and_kill(true, 'i', 'l');
}

static void killed__receiving_from_us_GIVES_BACK_COOKIES(void **state)
{
	meet_and_kill(false, 's', 'i');
	meet_and_kill(true, 's', 'i');
	meet_and_kill(false, 'l', 'i');
	meet_and_kill(true, 'l', 'i');
}

static void killed__both_sending_IS_TOLD(void **state)
{
	meet_and_kill(false, 's', 's');
	meet_and_kill(true, 's', 'l');
	meet_and_kill(false, 'l', 's');
	meet_and_kill(true, 'l', 'l');
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(killed__while_its_request_waits_ECONNRESET_OR_TOLD),
		TEST(killed__idle_IS_TOLD),
		TEST(killed__sending_to_us_IS_TOLD),
		TEST(killed__receiving_from_us_GIVES_BACK_COOKIES),
		TEST(killed__both_sending_IS_TOLD),
	};

	return test_main(tests, roles, argc, argv);
}
