/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the counters of ends, of failed connects and of refused
 * requests, of one end at a time.
 */
#include "clock.h"
#include "death.h"
#include "harm.h"
#include "request.h"

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>

static const struct role roles[] = { { "peer", role_peer }, { NULL } };

/* ---- the counters ------------------------------------------------------ */

static uint64_t sum(const uint64_t *counters, size_t n)
{
	uint64_t all = 0;

	while (n--)
		all += counters[n];
	return all;
}

static uint64_t ends_of(const struct rdmamsg_stats *s)
{
	const uint64_t ends = sum(s->ended, ARRAY_SIZE(s->ended));

	assert_int_equal(sum(s->ended_by, ARRAY_SIZE(s->ended_by)), ends);
	return ends;
}

/* One endpoint of the context has ended, for the reason that it was told. */
static struct rdmamsg_stats check_one_end(const struct end *e)
{
	const struct rdmamsg_stats s = end_stats(e);

	assert_int_equal(e->closed, 1);
	assert_int_equal(ends_of(&s), 1);
	assert_int_equal(s.ended[e->why.cause], 1);
	assert_int_equal(s.ended_by[e->why.who], 1);
	return s;
}

static void check_end(const struct end *e, enum rdmamsg_who who,
		      enum rdmamsg_cause cause)
{
	const struct rdmamsg_stats s = check_one_end(e);

	assert_int_equal(e->why.who, who);
	assert_int_equal(e->why.cause, cause);
	assert_int_equal(s.connects_failed, 0);
	assert_int_equal(s.accepts_failed, 0);
}

static void check_connect_failed(const struct end *e, enum rdmamsg_who who,
				 enum rdmamsg_cause cause)
{
	const struct rdmamsg_stats s = check_one_end(e);

	assert_int_equal(e->why.who, who);
	assert_int_equal(e->why.cause, cause);
	assert_int_equal(s.connects_failed, 1);
	assert_int_equal(s.accepts_failed, 0);
}

static void check_nothing_refused(const struct rdmamsg_stats *s)
{
	assert_int_equal(s->requests_rejected, 0);
	assert_int_equal(s->requests_limited, 0);
	assert_int_equal(s->requests_unusable, 0);
}

static void check_no_end(const struct end *e)
{
	const struct rdmamsg_stats s = end_stats(e);

	assert_int_equal(ends_of(&s), 0);
}

/* ---- ends of connections ----------------------------------------------- */

static void open__of_a_connection_COUNTS_NO_END(void **state)
{
	struct rdmamsg_stats s;

	pair_open(&p);
	check_no_end(&p.c);
	check_no_end(&p.s);
	s = end_stats(&p.s);
	check_nothing_refused(&s);
	pair_close(&p);
	pair_fini(&p);
}

static void closed__IS_COUNTED_BY_SIDE(void **state)
{
	pair_open(&p);
	pair_close(&p);
	check_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED);
	check_end(&p.s, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_CLOSED);
	pair_fini(&p);
}

static void aborted__IS_COUNTED_BY_SIDE(void **state)
{
	pair_open(&p);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	check_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED);
	check_end(&p.s, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED);
	pair_fini(&p);
}

/* An abort while the close is under way ends the endpoint once. */
static void aborted__while_closing_COUNTS_ONE_END(void **state)
{
	pair_open(&p);
	rdmamsg_ep_close(p.c.ep);
	rdmamsg_ep_abort(p.c.ep);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	check_one_end(&p.c);
	check_one_end(&p.s);
	pair_fini(&p);
}

static void killed__IS_COUNTED(void **state)
{
	struct child child;

	we_init('i');
	we_meet(&child, 'e', true);
	send_and_hear();
	child_kill(&child);
	WAIT_FOR(p.s.closed);
	check_one_end(&p.s);
	pair_fini(&p);
}

static void silent__IS_COUNTED(void **state)
{
	struct child child;

	we_init('i');
	p.s.tuning.peer_timeout_ms = 3000;
	we_meet(&child, 'i', false);
	kill(child.pid, SIGSTOP);
	WAIT_PASSING(p.s.closed);
	check_end(&p.s, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_SILENT);
	kill(child.pid, SIGCONT);
	(void)child_wait(&child);
	pair_fini(&p);
}

/* The soft HCA alone can lose everything without an event. */
static void dead__IS_COUNTED(void **state)
{
	if (!test_on_soft())
		skip_because("no network that can be silenced");
	harm_find();
	pair_init(&p, NULL);
	p.c.opts.dead_after_ms = p.s.opts.dead_after_ms = 4000;
	pair_listen(&p);
	pair_connect(&p);
	harm_silence(true);
	WAIT_PASSING(p.c.closed && p.s.closed);
	harm_silence(false);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_NETWORK);
	check_one_end(&p.c);
	check_one_end(&p.s);
	pair_fini(&p);
}

static void failover__with_another_lane_COUNTS_ONE_END(void **state)
{
	const struct rdmamsg_failover failover = { .size = sizeof(failover) };
	struct rdmamsg_stats s;

	pair_init(&p, NULL);
	p.c.opts.failover = p.s.opts.failover = &failover;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(rdmamsg_ep_migrate(p.c.ep, &(
				 struct rdmamsg_migrate_options){
				 .size = sizeof(struct rdmamsg_migrate_options),
				 .lane = 1 }), 0);
	WAIT_FOR(end_stats(&p.c).lanes_resumed && end_stats(&p.s).lanes_resumed);
	check_no_end(&p.c);
	check_no_end(&p.s);
	pair_close(&p);
	check_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED);
	check_end(&p.s, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_CLOSED);
	s = end_stats(&p.c);
	assert_int_equal(s.connects_repeated, 0);
	pair_fini(&p);
}

/* ---- connects that fail ------------------------------------------------ */

static void refused__IS_COUNTED(void **state)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	rdmamsg_listener_close(p.listener);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(p.c.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED);
	assert_int_equal(end_stats(&p.c).connects_repeated, 0);
	pair_fini(&p);
}

static void name__of_nobody_IS_COUNTED(void **state)
{
	pair_init(&p, NULL);
	dial(&p.c, "no-such-host.invalid", "4711", WAIT_MS);
	WAIT_FOR(p.c.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS);
	pair_fini(&p);
}

/* TCP does not connect to groups: the system reports an unreachable network. */
static void unreachable__IS_COUNTED(void **state)
{
	skip_on_iwarp(NO_OOB);
	pair_init(&p, NULL);
	if (rdmamsg_oob_connect(p.c.ctx, "255.255.255.255", "4711", &p.c.opts,
				&p.c.ep))
		fail_msg("connecting: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_NETWORK,
			     RDMAMSG_CAUSE_UNREACHABLE);
	pair_fini(&p);
}

static void unanswered__IS_COUNTED_AS_TIMEOUT(void **state)
{
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, 30000);
	WAIT_FOR(waiting_count);
	WAIT_PASSING(p.c.closed);
	/* siw itself waits 10 s (Linux 6.1, siw_cm.h, MPAREQ_TIMEOUT) */
	check_connect_failed(&p.c, RDMAMSG_WHO_NETWORK, test_on_siw() ?
			     RDMAMSG_CAUSE_UNREACHABLE : RDMAMSG_CAUSE_TIMEOUT);
	check_no_end(&p.s);
	pair_fini(&p);
}

/* The program has changed its mind, so nothing has failed. */
static void closed__before_connected_IS_NO_FAILED_CONNECT(void **state)
{
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	check_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED);
	pair_fini(&p);
}

static unsigned int tries;

static void count_tries(void *arg, enum rdmamsg_log_level level,
			const char *line)
{
	tries += !!strstr(line, "; again in ");
}

static void retry__COUNTS_EACH_TRY_AND_ONE_END(void **state)
{
	tries = 0;
	rdmamsg_set_log(count_tries, NULL, RDMAMSG_LOG_INFO);
	pair_init(&p, NULL);
	pair_listen(&p);
	rdmamsg_listener_close(p.listener);
	p.c.opts.flags |= RDMAMSG_EP_RETRY;
	dial(&p.c, test_addr(), p.port, 500);
	WAIT_PASSING(p.c.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED);
	assert_true(tries > 0);
	assert_int_equal(end_stats(&p.c).connects_repeated, tries);
	pair_fini(&p);
}

/* ---- requests that are refused ----------------------------------------- */

static void say_no(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_reject(req, NULL, 0))
		note("rdmamsg_request_reject: %s", rdmamsg_error());
}

static void listen_with(struct rdmamsg_listen_options *o)
{
	pair_init(&p, NULL);
	o->size = sizeof(*o);
	o->user = &p;
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", o, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
}

static void rejected__by_the_program_IS_COUNTED(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = say_no,
	};
	struct rdmamsg_listen_options o = { .handlers = &on };
	struct rdmamsg_stats s;

	listen_with(&o);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(p.c.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED);
	s = end_stats(&p.s);
	assert_int_equal(s.requests_rejected, 1);
	assert_int_equal(s.requests_limited + s.requests_unusable, 0);
	assert_int_equal(ends_of(&s), 0);
	pair_fini(&p);
}

static void rejected__by_a_limit_IS_COUNTED(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options o = {
		.handlers = &on, .max_endpoints = 1,
		.max_per_source = RDMAMSG_NONE,
	};
	struct rdmamsg_stats s;
	struct end second;

	listen_with(&o);
	pair_connect(&p);
	end_init(&second, "second", test_open(NULL));
	dial(&second, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(second.closed);
	check_connect_failed(&second, RDMAMSG_WHO_PEER,
			     RDMAMSG_CAUSE_RESOURCES);
	s = end_stats(&p.s);
	assert_int_equal(s.requests_limited, 1);
	assert_int_equal(s.requests_rejected + s.requests_unusable, 0);
	pair_close(&p);
	test_close(second.ctx);
	end_fini(&second);
	pair_fini(&p);
}

/* The server asks for a CRC and the client does not. */
static void rejected__by_the_library_IS_COUNTED(void **state)
{
	struct rdmamsg_stats s;

	errors_are_fine = true;
	listen_put_off(&p);
	p.s.opts.flags |= RDMAMSG_EP_CRC;
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	assert_error(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
		     -EPROTONOSUPPORT, "CRC");
	WAIT_FOR(p.c.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION);
	s = end_stats(&p.s);
	assert_int_equal(s.requests_unusable, 1);
	assert_int_equal(s.requests_rejected + s.requests_limited, 0);
	assert_int_equal(ends_of(&s), 0);
	pair_fini(&p);
}

/* The listener accepts the peer, which has another key. */
static void unproven__IS_A_FAILED_ACCEPT(void **state)
{
	const struct rdmamsg_options with = {
		.size = sizeof(with), .key = "0123456789abcdef", .key_len = 16,
	};
	struct rdmamsg_stats s;

	pair_init(&p, &with);
	test_close(p.c.ctx);
	p.c.ctx = test_open(NULL);
	pair_listen(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(p.c.closed && p.s.closed);
	check_connect_failed(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_AUTH);
	s = check_one_end(&p.s);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_AUTH);
	assert_int_equal(s.accepts_failed, 1);
	assert_int_equal(s.connects_failed, 0);
	pair_fini(&p);
}

/* ---- the device -------------------------------------------------------- */

static void removed__COUNTS_EACH_ENDPOINT(void **state)
{
	harm_find();
	pair_open(&p);
	harm_remove();
	WAIT_FOR(p.s.closed && p.c.closed);
	WAIT_FOR(harm_removed());
	check_one_end(&p.c);
	check_one_end(&p.s);
	if (test_on_soft())
		check_end(&p.c, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_REMOVED);
	harm_add();
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(open__of_a_connection_COUNTS_NO_END),
		TEST(closed__IS_COUNTED_BY_SIDE),
		TEST(aborted__IS_COUNTED_BY_SIDE),
		TEST(aborted__while_closing_COUNTS_ONE_END),
		TEST(killed__IS_COUNTED),
		TEST(silent__IS_COUNTED),
		TEST(dead__IS_COUNTED),
		TEST(failover__with_another_lane_COUNTS_ONE_END),
		TEST(refused__IS_COUNTED),
		TEST(name__of_nobody_IS_COUNTED),
		TEST(unreachable__IS_COUNTED),
		TEST(unanswered__IS_COUNTED_AS_TIMEOUT),
		TEST(closed__before_connected_IS_NO_FAILED_CONNECT),
		TEST(retry__COUNTS_EACH_TRY_AND_ONE_END),
		TEST(rejected__by_the_program_IS_COUNTED),
		TEST(rejected__by_a_limit_IS_COUNTED),
		TEST(rejected__by_the_library_IS_COUNTED),
		TEST(unproven__IS_A_FAILED_ACCEPT),
		TEST(removed__COUNTS_EACH_ENDPOINT),
	};

	return test_main(tests, roles, argc, argv);
}
