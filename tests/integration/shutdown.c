/* SPDX-License-Identifier: BSD-2-Clause */
/* The graceful end of a context: what is delivered, refused and counted. */
#include "clock.h"
#include "common.h"
#include "request.h"
#include "thread.h"

#include <signal.h>
#include <sys/wait.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#define PEERS	3
#define MESSAGES 40
#define BACKLOG	200		/* more than the credits of a peer */

static struct rdmamsg *ctx;	/* that is shut down */
static struct rdmamsg_listener *listener;
static char port[8];
static struct end s[PEERS], c[PEERS];	/* endpoints of ctx, and their peers */
static int accepted;
static unsigned int told;
static uint32_t failed;

static void on_shutdown(struct rdmamsg *of, uint32_t count)
{
	if (of != ctx)
		note("on_shutdown of another context");
	told++;
	failed = count;
}

static const struct rdmamsg_srq_options *ctx_srq;	/* of open_ctx() */

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct end *e = &s[accepted++];

	if (rdmamsg_request_accept(req, &e->opts, &e->ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void open_ctx(void)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_shutdown = on_shutdown,
	};
	const struct rdmamsg_options options = {
		.size = sizeof(options), .handlers = &on, .srq = ctx_srq,
	};

	accepted = 0;
	told = failed = 0;
	ctx = test_open(&options);
}

static void listen_with(void (*fn)(struct rdmamsg_listener *l,
				   struct rdmamsg_request *req))
{
	const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = fn,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	if (rdmamsg_listen(ctx, test_addr(), "0", &opts, &listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(listener, port);
}

/* Connects so many peers, each in a context of its own. */
static void open_peers(int n)
{
	open_ctx();
	listen_with(on_request);
	for (int i = 0; i < n; i++) {
		end_init(&s[i], "server", ctx);
		end_init(&c[i], "client", test_open(NULL));
		s[i].opts.send_queue = BACKLOG;
		s[i].opts.close_timeout_ms = WAIT_MS;
		s[i].peer = &c[i];
		c[i].peer = &s[i];
		dial(&c[i], test_addr(), port, WAIT_MS);
		WAIT_FOR((s[i].connected && c[i].connected) || c[i].closed);
		if (c[i].closed)
			fail_msg("not connected: %s", c[i].why.text);
	}
}

static void close_peers(int n)
{
	if (ctx)
		test_close(ctx);
	ctx = NULL;
	for (int i = 0; i < n; i++)
		test_close(c[i].ctx);
	check_notes();
	for (int i = 0; i < n; i++) {
		end_fini(&c[i]);
		end_fini(&s[i]);
	}
}

/* All of them has arrived at the other side, and the cause is a close. */
static void check_end(const struct end *e, enum rdmamsg_who who)
{
	assert_int_equal(e->closed, 1);
	if (e->why.cause != RDMAMSG_CAUSE_CLOSED || e->why.who != who)
		fail_msg("%s: by %d, cause %d: %s", e->name, e->why.who,
			 e->why.cause, e->why.text);
	assert_int_equal(e->received, e->expected_count);
	assert_int_equal(e->sent_failed, 0);
	end_check_cookies(e);
}

static void send_both_ways(int n)
{
	for (uint32_t k = 0; k < MESSAGES; k++)
		for (int i = 0; i < n; i++) {
			end_send_all(&s[i], HOW_MSG, mixed_size(k), 2 * k);
			end_send_all(&c[i], HOW_SENDV, mixed_size(k + 1),
				     2 * k + 1);
		}
}

/* Accepted messages that the paused peer does not take. */
static void send_to_paused(int i)
{
	assert_int_equal(rdmamsg_ep_pause(c[i].ep), 0);
	s[i].expect_nothing = c[i].expect_nothing = true;
	for (uint32_t k = 0; k < BACKLOG; k++)
		assert_int_equal(end_send(&s[i], HOW_SEND, 100, k), 0);
}

static void begin(int timeout_ms)
{
	if (rdmamsg_shutdown(ctx, timeout_ms))
		fail_msg("rdmamsg_shutdown: %s", rdmamsg_error());
	assert_int_equal(told, 0);
}

/* ---- all ends well ----------------------------------------------------- */

static void shutdown__of_nothing_IS_TOLD_BY_THE_LOOP(void **state)
{
	open_ctx();
	begin(WAIT_MS);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	test_close(ctx);
	assert_int_equal(told, 1);
}

static void shutdown__messages_both_ways_ARE_DELIVERED(void **state)
{
	open_peers(PEERS);
	send_both_ways(PEERS);
	begin(-1);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	for (int i = 0; i < PEERS; i++) {
		WAIT_FOR(c[i].closed);
		check_end(&s[i], RDMAMSG_WHO_LOCAL);
		check_end(&c[i], RDMAMSG_WHO_PEER);
	}
	close_peers(PEERS);
	assert_int_equal(told, 1);
}

static void shutdown__twice_IS_HARMLESS(void **state)
{
	open_peers(1);
	send_both_ways(1);
	begin(WAIT_MS);
	begin(WAIT_MS);
	WAIT_FOR(told && c[0].closed);
	check_end(&s[0], RDMAMSG_WHO_LOCAL);
	/* after the end, too */
	assert_int_equal(rdmamsg_shutdown(ctx, 0), 0);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, 0), 0);
	for (int i = 0; i < 10; i++)
		test_drive(ctx);
	assert_int_equal(told, 1);
	close_peers(1);
}

/* ---- what does not end well -------------------------------------------- */

static void shutdown__a_peer_that_takes_nothing_IS_COUNTED(void **state)
{
	open_peers(PEERS);
	send_to_paused(1);
	begin(5000);
	WAIT_FOR(s[0].closed && s[2].closed);
	assert_int_equal(told, 0);
	WAIT_PASSING(told);
	assert_int_equal(failed, 1);
	check_end(&s[0], RDMAMSG_WHO_LOCAL);
	check_end(&s[2], RDMAMSG_WHO_LOCAL);
	assert_int_equal(s[1].why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(s[1].why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_non_null(strstr(s[1].why.text, "rdmamsg_shutdown"));
	end_check_cookies(&s[1]);
	close_peers(PEERS);
}

static void shutdown__again_with_0_ENDS_IT_NOW(void **state)
{
	open_peers(1);
	send_to_paused(0);
	begin(-1);
	test_drive(ctx);
	assert_int_equal(told, 0);
	begin(0);
	WAIT_FOR(told);
	assert_int_equal(failed, 1);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, 0), 1);
	close_peers(1);
}

static void shutdown__and_close_before_the_end_ABORTS(void **state)
{
	open_peers(1);
	send_to_paused(0);
	begin(-1);
	test_close(ctx);
	ctx = NULL;
	assert_int_equal(told, 0);
	assert_int_equal(s[0].why.cause, RDMAMSG_CAUSE_ABORTED);
	close_peers(1);
}

/* ---- what does not begin any more -------------------------------------- */

static void shutdown__peer_that_connects_IS_REFUSED(void **state)
{
	struct rdmamsg_listener_stats stats = { .size = sizeof(stats) };
	struct end late;

	open_peers(1);
	send_to_paused(0);
	begin(-1);
	end_init(&late, "late", test_open(NULL));
	dial(&late, test_addr(), port, WAIT_MS);
	expect_end(&late, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
	assert_non_null(strstr(late.why.text, "draining"));
	assert_int_equal(told, 0);
	assert_int_equal(rdmamsg_listener_get_stats(listener, &stats), 0);
	assert_int_equal(stats.rejected_draining, 1);
	end_fini(&late);
	close_peers(1);
}

static void shutdown__unanswered_requests_ARE_REFUSED(void **state)
{
	open_ctx();
	listen_with(put_off);
	waiting_count = 0;
	for (int i = 0; i < 2; i++) {
		end_init(&c[i], "client", test_open(NULL));
		dial(&c[i], test_addr(), port, WAIT_MS);
		WAIT_FOR(waiting_count == i + 1);
	}
	begin(-1);
	for (int i = 0; i < 2; i++)
		expect_end(&c[i], RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES,
			   -ENOBUFS);
	/* the program still has them */
	assert_error(rdmamsg_request_accept(waiting[0], NULL, NULL), -ESHUTDOWN,
		     "shut down");
	assert_int_equal(rdmamsg_request_reject(waiting[1], NULL, 0), 0);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	test_close(ctx);
	for (int i = 0; i < 2; i++)
		end_fini(&c[i]);
}

/* Another program, which follows the one that ends, on the same port. */
static void successor(struct end *e)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	int ret;

	end_init(e, "successor", test_open(NULL));
	/* a device of the kernel may keep the port for a moment */
	UNTIL_BY(test_pump(10), (ret = rdmamsg_listen(e->ctx, test_addr(), port,
						      &opts, NULL)) !=
				-EADDRINUSE);
	assert_int_equal(ret, 0);
}

/* A peer that retries dials a context which shuts down for a paused one. */
static void dial_late(struct end *late, int timeout_ms)
{
	open_peers(1);
	send_to_paused(0);
	begin(-1);
	end_init(late, "late", test_open(NULL));
	late->opts.flags = RDMAMSG_EP_RETRY;
	dial(late, test_addr(), port, timeout_ms);
}

/* The context ends after so many tries were rejected. */
static void end_after(const struct end *late, uint64_t tries)
{
	struct rdmamsg_listener_stats stats = { .size = sizeof(stats) };

	WAIT_FOR(late->closed ||
		 (!rdmamsg_listener_get_stats(listener, &stats) &&
		  stats.rejected_draining >= tries));
	assert_int_equal(late->closed, 0);
	test_close(ctx);
	ctx = NULL;
}

static void shutdown__a_peer_that_retries_FINDS_THE_SUCCESSOR(void **state)
{
	struct end late;

	dial_late(&late, WAIT_MS);
	end_after(&late, 2);
	successor(&s[1]);
	WAIT_FOR(late.connected && s[1].connected);
	rdmamsg_ep_close(late.ep);
	WAIT_FOR(late.closed && s[1].closed);
	check_end(&late, RDMAMSG_WHO_LOCAL);
	end_fini(&late);
	end_fini(&s[1]);
	close_peers(1);
}

static void shutdown__a_peer_that_retries_in_vain_TELLS_WHY(void **state)
{
	struct end late;

	dial_late(&late, 3000);
	WAIT_PASSING(late.closed);
	expect_end(&late, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
	assert_non_null(strstr(late.why.text, "tries"));
	assert_non_null(strstr(late.why.text, "draining"));
	end_fini(&late);
	close_peers(1);
}

static void shutdown__a_peer_that_meets_two_causes_TELLS_BOTH(void **state)
{
	struct end late;

	dial_late(&late, 4000);
	end_after(&late, 1);
	WAIT_PASSING(late.closed);
	expect_end(&late, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
		   -ECONNREFUSED);
	assert_non_null(strstr(late.why.text, " refused, "));
	assert_non_null(strstr(late.why.text, " resources; the last: "));
	end_fini(&late);
	close_peers(1);
}

/* ---- calls that wait ---------------------------------------------------- */

static void worker_takes(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct worker *w = rdmamsg_ep_user(ep);

	w->echoed++;
	rdmamsg_msg_free(msg);
}

/* The peers of ctx are in threads, because the call does not drive them. */
static void connect_to(struct worker *w, struct end *e, struct end *unused)
{
	worker_open(w, NULL);
	w->on.on_message = worker_takes;
	worker_listen(w);
	end_init(e, "ours", ctx);
	end_init(unused, "worker", NULL);
	e->peer = unused;
	e->opts.send_queue = BACKLOG;
	worker_start(w);
	client_connect(e, w->port);
}

static void shutdown_wait__messages_under_way_ARE_DELIVERED(void **state)
{
	struct worker w[2];

	open_ctx();
	for (int i = 0; i < 2; i++) {
		connect_to(&w[i], &s[i], &c[i]);
		for (uint32_t k = 0; k < MESSAGES; k++)
			assert_int_equal(end_send(&s[i], HOW_SENDV,
						  mixed_size(k), k), 0);
	}
	texts_are_fine = true;
	assert_int_equal(rdmamsg_shutdown_wait(ctx, WAIT_MS), 0);
	assert_int_equal(told, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s[i].sent_ok, MESSAGES);
		assert_int_equal(s[i].why.cause, RDMAMSG_CAUSE_CLOSED);
		worker_wait_closed(&w[i], 1);
	}
	test_close(ctx);
	for (int i = 0; i < 2; i++) {
		worker_end(&w[i]);
		assert_int_equal(w[i].echoed, MESSAGES);
		end_fini(&s[i]);
		end_fini(&c[i]);
	}
}

static void shutdown_wait__a_paused_peer_IS_COUNTED(void **state)
{
	open_peers(1);
	send_to_paused(0);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, 100), 1);
	assert_int_equal(told, 1);
	assert_int_equal(failed, 1);
	assert_int_equal(s[0].why.cause, RDMAMSG_CAUSE_TIMEOUT);
	close_peers(1);
}

static void shut(struct rdmamsg *of, void *arg)
{
	if (rdmamsg_shutdown(of, WAIT_MS))
		note("rdmamsg_shutdown: %s", rdmamsg_error());
}

static void shutdown__while_calls_wait_THEY_END(void **state)
{
	struct rdmamsg_ep *ep;

	open_ctx();
	assert_int_equal(rdmamsg_listen(ctx, test_addr(), "0", NULL,
					&listener), 0);
	assert_int_equal(rdmamsg_submit(ctx, shut, NULL), 0);
	assert_error(rdmamsg_listener_accept_wait(listener, NULL, -1, &ep),
		     -ESHUTDOWN,
		     "shut down");
	assert_int_equal(rdmamsg_shutdown_wait(ctx, -1), 0);
	assert_int_equal(told, 1);
	test_close(ctx);
}

/* ---- in callbacks ------------------------------------------------------- */

static void shut_down_here(struct end *e)
{
	int ret;

	texts_are_fine = true;
	ret = rdmamsg_shutdown_wait(ctx, 0);
	if (ret != -EDEADLK)
		note("rdmamsg_shutdown_wait in a callback: %d", ret);
	shut(ctx, NULL);
	shut(ctx, NULL);
	if (told)
		note("on_shutdown in rdmamsg_shutdown()");
}

static void shut_down_at_message(struct end *e, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	if (e->received == 1)
		shut_down_here(e);
}

static void shut_down_once(struct end *e)
{
	if (e->sent_ok + e->sent_failed == 1)
		shut_down_here(e);
}

static void check_from_callback(void)
{
	WAIT_FOR(told && c[0].closed);
	assert_int_equal(failed, 0);
	check_end(&s[0], s[0].why.who);
	check_end(&c[0], c[0].why.who);
	close_peers(1);
	assert_int_equal(told, 1);
}

static void shutdown__in_every_callback_ENDS(void **state)
{
	open_peers(1);
	s[0].then_message = shut_down_at_message;
	for (uint32_t k = 0; k < 10; k++)
		assert_int_equal(end_send(&c[0], HOW_SENDV, mixed_size(k), k),
				 0);
	check_from_callback();

	open_peers(1);
	s[0].then_sent = shut_down_once;
	for (uint32_t k = 0; k < 10; k++)
		assert_int_equal(end_send(&s[0], HOW_SENDV, mixed_size(k), k),
				 0);
	check_from_callback();

	open_peers(1);
	s[0].then_closed = shut_down_here;
	rdmamsg_ep_close(c[0].ep);
	check_from_callback();
}

/* ---- endpoints that are not connected ----------------------------------- */

static void shutdown__while_connecting_IS_NOT_COUNTED(void **state)
{
	struct pair p;

	listen_put_off(&p);
	open_ctx();
	for (int i = 0; i < 2; i++)
		end_init(&s[i], "ours", ctx);
	dial(&s[0], test_addr(), p.port, WAIT_MS);
	dial(&s[1], test_name(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	begin(WAIT_MS);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s[i].why.who, RDMAMSG_WHO_LOCAL);
		assert_int_equal(s[i].why.cause, RDMAMSG_CAUSE_ABORTED);
		assert_int_equal(s[i].why.error, -ECANCELED);
	}
	for (int i = 0; i < waiting_count; i++)
		(void)rdmamsg_request_reject(waiting[i], NULL, 0);
	test_close(ctx);
	for (int i = 0; i < 2; i++)
		end_fini(&s[i]);
	pair_fini(&p);
}

/* Accepts the client. After some rounds it is connected. */
static void shut_down_in_setup(int rounds)
{
	open_ctx();
	listen_with(put_off);
	waiting_count = 0;
	end_init(&s[0], "server", ctx);
	end_init(&c[0], "client", test_open(NULL));
	dial(&c[0], test_addr(), port, WAIT_MS);
	WAIT_FOR(waiting_count);
	assert_int_equal(rdmamsg_request_accept(waiting[0], &s[0].opts,
						&s[0].ep), 0);
	for (int i = 0; i < rounds; i++)
		rdmamsg_process(i & 1 ? ctx : c[0].ctx);
	begin(WAIT_MS);
	WAIT_FOR(told && c[0].closed);
	assert_int_equal(failed, 0);
	assert_true(rounds || !c[0].connected);
	if (c[0].connected) {
		check_end(&c[0], RDMAMSG_WHO_PEER);
		check_end(&s[0], RDMAMSG_WHO_LOCAL);
	} else {
		expect_end(&c[0], RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES,
			   -ENOBUFS);
		assert_int_equal(s[0].why.error, -ECANCELED);
	}
	close_peers(1);
}

static void shutdown__while_accepting_REFUSES_OR_CLOSES(void **state)
{
	for (int rounds = 0; rounds < 12; rounds++)
		shut_down_in_setup(rounds);
}

static void moved(struct rdmamsg *to, struct rdmamsg_request *req, void *arg)
{
	texts_are_fine = true;
	if (to != ctx)
		note("a request moved to another context");
	*(int *)arg = rdmamsg_request_accept(req, NULL, NULL);
}

static void shutdown__of_the_context_that_gets_a_request_REFUSED(void **state)
{
	struct pair p;
	int ret = 0;

	open_peers(1);
	send_to_paused(0);
	begin(-1);
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	assert_int_equal(rdmamsg_request_move(waiting[0], ctx, moved, &ret), 0);
	WAIT_FOR(ret);
	assert_int_equal(ret, -ESHUTDOWN);
	expect_end(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
	pair_fini(&p);
	close_peers(1);
}

/* ---- calls that begin something ----------------------------------------- */

static void shutdown__calls_that_begin_something_ESHUTDOWN(void **state)
{
	struct rdmamsg_ep *ep;
	struct rdmamsg_group *group;

	open_peers(1);
	send_to_paused(0);
	for (int over = 0; over < 2; over++) {
		begin(over ? 0 : -1);
		if (over)
			WAIT_FOR(told);
		assert_error(rdmamsg_connect(ctx, test_addr(), port, NULL,
					     &ep), -ESHUTDOWN, "shut down");
		assert_error(rdmamsg_listen(ctx, test_addr(), "0", NULL, NULL),
			     -ESHUTDOWN, "shut down");
		assert_error(rdmamsg_oob_offer(ctx, NULL, &ep), -ESHUTDOWN,
			     "shut down");
		assert_error(rdmamsg_group_join(ctx, "239.1.2.3", NULL,
						&group), -ESHUTDOWN,
			     "shut down");
		told = 0;
	}
	close_peers(1);
}

/* ---- other objects ------------------------------------------------------ */

static void shutdown__on_a_shared_receive_queue_ALL_IS_DELIVERED(void **state)
{
	const struct rdmamsg_srq_options srq = { .size = sizeof(srq) };

	ctx_srq = &srq;
	open_peers(PEERS);
	ctx_srq = NULL;
	send_both_ways(PEERS);
	begin(-1);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	for (int i = 0; i < PEERS; i++) {
		WAIT_FOR(c[i].closed);
		check_end(&s[i], RDMAMSG_WHO_LOCAL);
		check_end(&c[i], RDMAMSG_WHO_PEER);
	}
	close_peers(PEERS);
}

static void dial_oob(struct end *e)
{
	if (rdmamsg_oob_connect(e->ctx, test_addr(), port, &e->opts, &e->ep))
		fail_msg("rdmamsg_oob_connect: %s", rdmamsg_error());
}

/* The first late peer gives up. The second waits for a successor. */
static void shutdown__out_of_band_IS_REFUSED(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg_listener_stats stats = { .size = sizeof(stats) };
	struct rdmamsg_listener *l;
	struct end late[2];

	if (test_iwarp())
		skip_because(NO_OOB);
	open_peers(1);
	if (rdmamsg_oob_listen(ctx, test_addr(), "0", &opts, &l))
		fail_msg("rdmamsg_oob_listen: %s", rdmamsg_error());
	listener_service(l, port);
	send_to_paused(0);
	begin(-1);
	for (int i = 0; i < 2; i++) {
		end_init(&late[i], "late", test_open(NULL));
		late[i].opts.flags = i ? RDMAMSG_EP_RETRY : 0;
		dial_oob(&late[i]);
	}
	expect_end(&late[0], RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES,
		   -ENOBUFS);
	WAIT_FOR(late[1].closed || (!rdmamsg_listener_get_stats(l, &stats) &&
				    stats.rejected_draining >= 3));
	assert_int_equal(late[1].closed, 0);
	test_close(ctx);
	ctx = test_open(NULL);
	end_init(&s[1], "successor", ctx);
	assert_int_equal(rdmamsg_oob_listen(ctx, test_addr(), port, &opts, &l),
			 0);
	WAIT_FOR(late[1].connected && s[1].connected);
	rdmamsg_ep_close(late[1].ep);
	WAIT_FOR(late[1].closed && s[1].closed);
	check_end(&late[1], RDMAMSG_WHO_LOCAL);
	for (int i = 0; i < 2; i++)
		end_fini(&late[i]);
	end_fini(&s[1]);
	close_peers(1);
}

/* ---- a killed peer ------------------------------------------------------ */

static int role_idle(int argc, char **argv)
{
	struct end e;

	end_init(&e, "child", test_open(NULL));
	e.expect_nothing = true;
	dial(&e, test_addr(), argv[0], WAIT_MS);
	while (!e.closed)
		test_pump(1000);
	return 0;
}

static const struct role roles[] = { { "idle", role_idle }, { NULL } };

static void shutdown__a_peer_is_killed_IS_COUNTED(void **state)
{
	struct child child;

	open_peers(1);
	end_init(&s[1], "survivor", ctx);
	s[1].peer = &c[1];
	end_init(&c[1], "killed", NULL);
	child_start(&child, "idle", port);
	WAIT_FOR(s[1].connected);
	send_both_ways(1);
	kill(child.pid, SIGKILL);
	/* accepted, because nothing tells this side of the death yet */
	for (uint32_t k = 0; k < 10; k++)
		assert_int_equal(end_send(&s[1], HOW_SENDV, mixed_size(k), k),
				 0);
	begin(-1);
	WAIT_PASSING(told);
	assert_int_equal(failed, 1);
	assert_true(s[1].why.error);
	end_check_cookies(&s[1]);
	WAIT_FOR(c[0].closed);
	check_end(&s[0], RDMAMSG_WHO_LOCAL);
	check_end(&c[0], RDMAMSG_WHO_PEER);
	assert_true(WIFSIGNALED(child_wait(&child)));
	close_peers(1);
	end_fini(&s[1]);
	end_fini(&c[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(shutdown__of_nothing_IS_TOLD_BY_THE_LOOP),
		TEST(shutdown__messages_both_ways_ARE_DELIVERED),
		TEST(shutdown__twice_IS_HARMLESS),
		TEST(shutdown__a_peer_that_takes_nothing_IS_COUNTED),
		TEST(shutdown__again_with_0_ENDS_IT_NOW),
		TEST(shutdown__and_close_before_the_end_ABORTS),
		TEST(shutdown__peer_that_connects_IS_REFUSED),
		TEST(shutdown__unanswered_requests_ARE_REFUSED),
		TEST(shutdown__a_peer_that_retries_FINDS_THE_SUCCESSOR),
		TEST(shutdown__a_peer_that_retries_in_vain_TELLS_WHY),
		TEST(shutdown__a_peer_that_meets_two_causes_TELLS_BOTH),
		TEST(shutdown_wait__messages_under_way_ARE_DELIVERED),
		TEST(shutdown_wait__a_paused_peer_IS_COUNTED),
		TEST(shutdown__while_calls_wait_THEY_END),
		TEST(shutdown__in_every_callback_ENDS),
		TEST(shutdown__while_connecting_IS_NOT_COUNTED),
		TEST(shutdown__while_accepting_REFUSES_OR_CLOSES),
		TEST(shutdown__of_the_context_that_gets_a_request_REFUSED),
		TEST(shutdown__calls_that_begin_something_ESHUTDOWN),
		TEST(shutdown__on_a_shared_receive_queue_ALL_IS_DELIVERED),
		TEST(shutdown__out_of_band_IS_REFUSED),
		TEST(shutdown__a_peer_is_killed_IS_COUNTED),
	};

	return test_main(tests, roles, argc, argv);
}
