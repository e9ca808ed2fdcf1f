/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are stopped or idle; links that go down, and devices that go. */
#include "death.h"

#include <rdmamsg/endpoint.h>

static const struct role roles[] = { { "peer", role_peer }, { NULL } };

/* ---- stopped ---------------------------------------------------------- */

static void on_stalled(struct rdmamsg_ep *ep, uint32_t silent_ms)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->stalled != e->resumed || silent_ms < e->tuning.stall_after_ms)
		note("%s: stalled %u, resumed %u, %u ms", e->name, e->stalled,
		     e->resumed, silent_ms);
	e->stalled++;
}

static void on_resumed(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	e->resumed++;
	if (e->stalled != e->resumed)
		note("%s: stalled %u, resumed %u", e->name, e->stalled,
		     e->resumed);
}

static void stopped__STALLS_AND_RESUMES(void **state)
{
	struct child child;

	we_init('i');
	p.s.on.on_stalled = on_stalled;
	p.s.on.on_resumed = on_resumed;
	/* only a stopped peer answers later than this */
	p.s.tuning.stall_after_ms = 3000;
	we_meet(&child, 'e', false);
	send_and_hear();
	for (unsigned int round = 1; round <= 2; round++) {
		size_t had = p.s.received;

		kill(child.pid, SIGSTOP);
		WAIT_PASSING(p.s.stalled >= round);
		assert_int_equal(rdmamsg_ep_state(p.s.ep), RDMAMSG_CONNECTED);
		/* the peer's device takes the message, its program does not */
		assert_int_equal(rdmamsg_send(p.s.ep, "a", 1, 0, NULL), 0);
		test_pass(2000);
		assert_int_equal(p.s.received, had);
		assert_int_equal(p.s.resumed, round - 1);
		kill(child.pid, SIGCONT);
		WAIT_FOR(p.s.resumed >= round && p.s.received == had + 1);
		send_and_hear();
		assert_int_equal(p.s.stalled, round);
		assert_int_equal(p.s.resumed, round);
	}
	assert_int_equal(end_stats(&p.s).stalls, 2);
	assert_true(end_stats(&p.s).pings > 0);
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

static void stopped__peer_timeout_CLOSES_SILENT(void **state)
{
	struct child child;
	char line[64];

	we_init('i');
	p.s.tuning.peer_timeout_ms = 3000;
	we_meet(&child, 'e', true);
	send_and_hear();
	kill(child.pid, SIGSTOP);
	WAIT_PASSING(p.s.closed);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_SILENT);
	assert_int_equal(p.s.why.error, -ETIMEDOUT);
	kill(child.pid, SIGCONT);
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "2 2 -104");	/* PEER, ABORTED */
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* A talking peer needs no keepalive, and an answering peer is not silent. */
static void idle__peer_timeout_DOES_NOT_CLOSE(void **state)
{
	pair_init(&p, NULL);
	p.s.tuning.peer_timeout_ms = p.c.tuning.peer_timeout_ms = 3000;
	pair_listen(&p);
	pair_connect(&p);
	WAIT_PASSING(end_stats(&p.s).pings >= 4 && end_stats(&p.c).pings >= 1);
	assert_false(p.s.closed || p.c.closed);
	end_send_all(&p.c, HOW_SEND, 10, 10);
	pair_close(&p);
	pair_fini(&p);
}

static void idle__keepalives_ARE_SENT(void **state)
{
	pair_init(&p, NULL);
	p.s.opts.dead_after_ms = p.c.opts.dead_after_ms = 4000;
	pair_listen(&p);
	pair_connect(&p);
	WAIT_PASSING(pair_keeps_alive(&p, 5));
	assert_false(p.s.closed || p.c.closed);
	end_send_all(&p.c, HOW_SEND, 10, 10);
	end_send_all(&p.s, HOW_SENDV, LARGE, 10);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(stopped__STALLS_AND_RESUMES),
		TEST(stopped__peer_timeout_CLOSES_SILENT),
		TEST(idle__peer_timeout_DOES_NOT_CLOSE),
		TEST(idle__keepalives_ARE_SENT),
		TEST(link__down_and_up_IS_TOLD_AND_CLOSES_NOTHING),
		TEST(removed__ALL_END_AND_CAN_BEGIN_AGAIN),
		TEST(removed__in_the_middle_of_traffic_GIVES_BACK_COOKIES),
		TEST(removed__not_yet_noticed_SENDV_FAILS_EIO),
		TEST(removed__not_yet_noticed_WHAT_HAS_COME_IS_DELIVERED),
		TEST(removed__IS_AN_EVENT_OF_EACH_CONTEXT),
		TEST(removed__listener_at_an_address_LISTENS_AGAIN),
		TEST(removed__for_long_A_LISTENER_COSTS_LITTLE),
		TEST(removed__port_taken_meanwhile_IS_SAID_AND_TRIED),
		TEST(removed__closed_listener_STAYS_CLOSED),
		TEST(removed__of_two_processes_BOTH_ARE_TOLD),
		TEST(removed__out_of_band_IS_TOLD),
		TEST(removed__no_longer_in_use_LETS_GO),
		TEST(removed__only_listening_LETS_GO),
		TEST(removed__all_contexts_closed_LETS_GO),
	};

	return test_main(tests, roles, argc, argv);
}
