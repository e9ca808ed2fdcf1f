/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer in a child process, this side, and the cases of death_device.c. */
#ifndef DEATH_H
#define DEATH_H

#include "common.h"

#include <signal.h>
#include <sys/wait.h>

#define BOUND_MS	30000	/* to detect a death, on a busy machine */
#define LARGE		((size_t)1 << 20)

static struct pair p;

/* ---- the peer: a child ------------------------------------------------ */

/* Activity of the child: 'i' none, 'e' echo, 's', 'l' send without end. */
static char activity;

static inline void pour_small_or_large(struct end *e, char what)
{
	static uint8_t memory[LARGE];
	uint32_t n = 0;
	int ret = 0;

	while (!ret) {
		struct iovec iov = { memory, what == 'l' ? LARGE : n++ % 2000 };

		ret = rdmamsg_sendv(e->ep, &iov, 1, 0, NULL);
	}
	if (ret != -EAGAIN && ret != -ESHUTDOWN)
		note("%s: %s", e->name, rdmamsg_error());
}

static inline void child_pours(struct end *e)
{
	if (activity == 's' || activity == 'l')
		pour_small_or_large(e, activity);
}

static inline void child_answers(struct end *e, struct rdmamsg_msg *msg)
{
	if (activity != 'e' || rdmamsg_msg_send(e->ep, msg, 7, NULL))
		rdmamsg_msg_free(msg);
}

static inline void child_closed(struct end *e)
{
	say("%d %d %d\n", e->why.who, e->why.cause, e->why.error);
}

static inline void on_request(struct rdmamsg_listener *l,
			      struct rdmamsg_request *req)
{
	struct end *e = rdmamsg_listener_user(l);

	if (rdmamsg_request_accept(req, &e->opts, &e->ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

/* Arguments: the activity, and the port to connect to, if any. */
static inline int role_peer(int argc, char **argv)
{
	struct end e;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &e, .handlers = &on,
	};
	struct rdmamsg_listener *l;

	activity = argv[0][0];
	end_init(&e, "child", test_open(NULL));
	e.expect_nothing = true;
	e.then_connected = e.then_writable = child_pours;
	e.then_message = child_answers;
	e.then_closed = child_closed;
	if (argv[0][1]) {
		if (rdmamsg_connect(e.ctx, test_addr(), argv[0] + 1, &e.opts,
				    &e.ep))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	} else {
		if (rdmamsg_listen(e.ctx, test_addr(), "0", &opts, &l))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		say("%u\n", rdmamsg_listener_port(l));
	}
	while (!e.closed)
		test_pump(1000);
	return 0;
}

/* ---- this side -------------------------------------------------------- */

static char our_activity;

static inline void we_pour(struct end *e)
{
	int ret = 0;

	while (!ret && (our_activity == 's' || our_activity == 'l')) {
		size_t len = our_activity == 'l' ? LARGE : e->sent % 2000;
		struct iovec iov = { (void *)(uintptr_t)pattern(0), len };
		struct cookie *c = end_cookie(e);

		ret = rdmamsg_sendv(e->ep, &iov, 1, 0, c);
		if (ret) {
			texts_are_fine = true;
			e->cookies = c->next;
			free(c);
		}
		e->sent += !ret;
	}
	/* EIO: the device is removed, and its event is still to come */
	if (ret && ret != -EAGAIN && ret != -ESHUTDOWN && ret != -EIO)
		note("%s: %s", e->name, rdmamsg_error());
}

static inline void we_init(char what)
{
	our_activity = what;
	pair_init(&p, NULL);
	p.s.name = "survivor";
	p.s.expect_nothing = true;
	p.s.then_connected = p.s.then_writable = we_pour;
}

/* Connects p.s to a child that is the server, or the client. */
static inline void we_meet(struct child *child, char what, bool child_serves)
{
	char arg[16] = { what }, port[16];

	if (child_serves) {
		child_start(child, "peer", arg);
		child_line(child, port, sizeof(port));
		if (rdmamsg_connect(p.s.ctx, test_addr(), port, &p.s.opts,
				    &p.s.ep))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	} else {
		if (!p.listener)
			pair_listen(&p);
		snprintf(arg + 1, sizeof(arg) - 1, "%s", p.port);
		child_start(child, "peer", arg);
	}
	WAIT_FOR(p.s.connected || p.s.closed);
	assert_false(p.s.closed);
}

static inline void send_and_hear(void)
{
	size_t had = p.s.received;
	int ret;

	while ((ret = rdmamsg_send(p.s.ep, "hello", 5, 3, NULL)) == -EAGAIN)
		WAIT_FOR(p.s.writable);
	assert_int_equal(ret, 0);
	WAIT_FOR(p.s.received > had);
}

/*
 * The kernel may free the memory of a killed process before its connection.
 * Reads of that memory and sends to it fail then, with a text that says so.
 * siw may complete a request that it cannot send before it tells of the end.
 */
static inline void check_killed(uint64_t when, bool it_sent_large)
{
	bool failed, aborted, unsent;

	WAIT_FOR(p.s.closed);
	aborted = p.s.why.cause == RDMAMSG_CAUSE_ABORTED &&
		  p.s.why.error == -ECONNRESET;
	failed = ((p.s.why.cause == RDMAMSG_CAUSE_ACCESS && it_sent_large) ||
		  p.s.why.cause == RDMAMSG_CAUSE_TRANSPORT) &&
		 strstr(p.s.why.text, "killed");
	unsent = test_on_siw() && p.s.why.who == RDMAMSG_WHO_NETWORK &&
		 p.s.why.cause == RDMAMSG_CAUSE_TRANSPORT &&
		 p.s.why.error == -ECONNRESET &&
		 strstr(p.s.why.text, "the connection has ended");
	if (!unsent && (p.s.why.who != RDMAMSG_WHO_PEER || !(aborted || failed)))
		fail_msg("by %d, cause %d, error %d: %s", p.s.why.who,
			 p.s.why.cause, p.s.why.error, p.s.why.text);
	if (now_ms() - when > BOUND_MS)
		fail_msg("told after %u ms", (unsigned int)(now_ms() - when));
	end_check_cookies(&p.s);
}

static inline void child_kill(struct child *child)
{
	int status;

	kill(child->pid, SIGKILL);
	status = child_wait(child);
	assert_true(WIFSIGNALED(status));
}

/* ---- death_device.c --------------------------------------------------- */

void removed__ALL_END_AND_CAN_BEGIN_AGAIN(void **state);
void removed__in_the_middle_of_traffic_GIVES_BACK_COOKIES(void **state);
void removed__listener_at_an_address_LISTENS_AGAIN(void **state);
void removed__for_long_A_LISTENER_COSTS_LITTLE(void **state);
void removed__port_taken_meanwhile_IS_SAID_AND_TRIED(void **state);
void removed__closed_listener_STAYS_CLOSED(void **state);
void removed__of_two_processes_BOTH_ARE_TOLD(void **state);
void removed__out_of_band_IS_TOLD(void **state);
void removed__no_longer_in_use_LETS_GO(void **state);
void removed__only_listening_LETS_GO(void **state);
void removed__all_contexts_closed_LETS_GO(void **state);
void removed__not_yet_noticed_SENDV_FAILS_EIO(void **state);
void removed__not_yet_noticed_WHAT_HAS_COME_IS_DELIVERED(void **state);
void removed__IS_AN_EVENT_OF_EACH_CONTEXT(void **state);
void link__down_and_up_IS_TOLD_AND_CLOSES_NOTHING(void **state);

#endif
