/* SPDX-License-Identifier: BSD-2-Clause */
/* Teams that make their endpoints from a list of addresses. */
#include "abilities.h"
#include "common.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/listener.h>

#define MOST	5u

struct member {
	struct rdmamsg *ctx;
	struct rdmamsg_team *team;
	unsigned int done;		/* operations, connecting included */
	int status;			/* of the last one */
	uint64_t in, out;
};

static struct member members[MOST];
static char addresses[MOST][64];
static const char *list[MOST];

static void on_done(struct rdmamsg_team *team, void *cookie, int status)
{
	struct member *m = rdmamsg_team_user(team);

	if (cookie != (m->done ? m : NULL))
		note("the cookie of another operation");
	m->done++;
	m->status = status;
}

/* Ports that are free now. */
static void choose_addresses(void)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *listeners[MOST];
	const bool colons = strchr(test_addr(), ':');

	for (uint32_t i = 0; i < MOST; i++) {
		if (rdmamsg_listen(ctx, test_addr(), "0", NULL, &listeners[i]))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		(void)snprintf(addresses[i], sizeof(addresses[i]), "%s%s%s:%u",
			       colons ? "[" : "", test_addr(),
			       colons ? "]" : "",
			       rdmamsg_listener_port(listeners[i]));
		list[i] = addresses[i];
	}
	test_close(ctx);
}

static int try_connect(uint32_t rank, uint32_t size,
		       struct rdmamsg_team_options *opts)
{
	static const struct rdmamsg_team_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	struct member *m = &members[rank];

	opts->size = sizeof(*opts);
	opts->user = m;
	opts->handlers = &on;
	return rdmamsg_team_connect(m->ctx, opts, list, size, rank, &m->team);
}

static void start(uint32_t rank, uint32_t size)
{
	members[rank] = (struct member){ .ctx = test_open(NULL) };
	if (try_connect(rank, size, &(struct rdmamsg_team_options){ 0 }))
		fail_msg("rdmamsg_team_connect: %s", rdmamsg_error());
}

static bool all_done(uint32_t first, uint32_t size, unsigned int count)
{
	for (uint32_t i = first; i < size; i++)
		if (members[i].done < count)
			return false;
	return true;
}

static void assert_sum(uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		assert_int_equal(members[i].status, 0);
		members[i].in = 1ull << i;
		assert_int_equal(rdmamsg_team_allreduce(members[i].team,
			RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, &members[i].in,
			&members[i].out, 1, &members[i]), 0);
	}
	WAIT_FOR(all_done(0, size, 2));
	for (uint32_t i = 0; i < size; i++) {
		assert_int_equal(members[i].status, 0);
		assert_int_equal(members[i].out, (1u << size) - 1);
	}
}

static uint64_t endpoints(uint32_t rank)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_get_stats(members[rank].ctx, &st), 0);
	return st.endpoints;
}

/* Members 0 and 1 of 3, which have found each other. */
static void start_two(void)
{
	choose_addresses();
	start(0, 3);
	start(1, 3);
	WAIT_FOR(endpoints(0) && test_idle());
}

static void stop(uint32_t first, uint32_t size)
{
	for (uint32_t i = first; i < size; i++)
		rdmamsg_team_destroy(members[i].team);
	for (uint32_t i = first; i < size; i++)
		test_close(members[i].ctx);
}

/* Checks that this member is the one that the others miss, by this text. */
static void assert_blamed(uint32_t by, uint32_t rank, int error,
			  const char *text)
{
	const struct rdmamsg_team_failure *why =
		rdmamsg_team_reason(members[by].team);

	assert_int_equal(members[by].status, error);
	assert_int_equal(why->error, error);
	assert_int_equal(why->rank, rank);
	if (!strstr(why->text, text))
		fail_msg("'%s' has no '%s'", why->text, text);
}

/* ---- well ------------------------------------------------------------- */

static void connect__in_any_order_ALL_ADD(void **state)
{
	static const uint32_t orders[][MOST] = {
		{ 0, 1, 2, 3, 4 }, { 4, 3, 2, 1, 0 }, { 2, 4, 0, 3, 1 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(orders); n++) {
		choose_addresses();
		for (uint32_t i = 0; i < MOST; i++) {
			start(orders[n][i], MOST);
			test_drive(members[orders[n][i]].ctx);
		}
		WAIT_FOR(all_done(0, MOST, 1));
		assert_sum(MOST);
		stop(0, MOST);
	}
}

static void connect__alone_AT_ONCE(void **state)
{
	choose_addresses();
	start(0, 1);
	WAIT_FOR(members[0].done);
	assert_sum(1);
	stop(0, 1);
}

static void connect__runs_EBUSY_and_waits(void **state)
{
	choose_addresses();
	start(1, 2);
	assert_int_equal(rdmamsg_team_barrier(members[1].team, NULL), -EBUSY);
	assert_int_equal(rdmamsg_team_wait(members[1].team, 0), -ETIMEDOUT);
	start(0, 2);
	WAIT_FOR(all_done(0, 2, 1));
	assert_int_equal(rdmamsg_team_wait(members[1].team, 0), 0);
	assert_sum(2);
	stop(0, 2);
}

/* The endpoints that members make with 'ep' have its options. */
static void connect__options_ARE_TAKEN(void **state)
{
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .max_msg_size = 4096,
	};
	struct rdmamsg_team_options opts = { .ep = &ep };
	static uint8_t big[8192];

	choose_addresses();
	for (uint32_t i = 0; i < 2; i++) {
		members[i] = (struct member){ .ctx = test_open(NULL) };
		assert_int_equal(try_connect(i, 2, &opts), 0);
	}
	WAIT_FOR(all_done(0, 2, 1));
	assert_error(rdmamsg_team_broadcast(members[0].team, big, sizeof(big),
					    0, &members[0]), -EMSGSIZE, "");
	assert_sum(2);
	stop(0, 2);
}

/* The members meet while they connect, so that the way is known then. */
static void connect__native_MEET_AS_WELL(void **state)
{
	struct rdmamsg_team_options opts = { .path = RDMAMSG_CHAIN_NATIVE };
	const uint32_t path = test_has(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_NATIVE) ?
			      RDMAMSG_CHAIN_NATIVE : RDMAMSG_CHAIN_LOOP;

	choose_addresses();
	for (uint32_t i = 0; i < 3; i++) {
		members[i] = (struct member){ .ctx = test_open(NULL) };
		assert_int_equal(try_connect(i, 3, &opts), 0);
	}
	WAIT_FOR(all_done(0, 3, 1));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_team_path(members[i].team), path);
	assert_sum(3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_team_path(members[i].team), path);
	stop(0, 3);
}

/* ---- badly ------------------------------------------------------------ */

static void connect__one_is_missing_NAMED_BY_ALL(void **state)
{
	struct rdmamsg_team_options opts = { .timeout_ms = 2000 };

	choose_addresses();
	for (uint32_t i = 0; i < 4; i++) {
		members[i] = (struct member){ .ctx = test_open(NULL) };
		if (i != 2)
			assert_int_equal(try_connect(i, 4, &opts), 0);
	}
	WAIT_PASSING(members[0].done && members[1].done && members[3].done);
	assert_int_not_equal(members[0].status, 0);
	assert_int_not_equal(members[1].status, 0);
	assert_int_not_equal(members[3].status, 0);
	assert_int_equal(rdmamsg_team_barrier(members[0].team, NULL),
			 members[0].status);
	stop(0, 4);
}

static void connect__first_that_gives_up_NAMES_THE_MISSING(void **state)
{
	struct rdmamsg_team_options opts = { .timeout_ms = 2000 };

	choose_addresses();
	for (uint32_t i = 0; i < 2; i++) {
		start(i, 3);
		rdmamsg_team_destroy(members[i].team);
		assert_int_equal(try_connect(i, 3, &opts), 0);
		opts.timeout_ms = 0;
	}
	WAIT_PASSING(members[0].done);
	assert_blamed(0, 2, -ETIMEDOUT, "1 in all are missing");
	stop(0, 2);
}

static void connect__lists_differ_EPROTO(void **state)
{
	choose_addresses();
	start(0, 2);
	start(1, 3);
	WAIT_FOR(members[1].done);
	assert_blamed(1, 0, -EPROTO, "member 0 of a team of 2, not of 3");
	/* member 0 still waits for one of its team */
	assert_int_equal(members[0].done, 0);
	rdmamsg_team_destroy(members[1].team);
	test_close(members[1].ctx);
	start(1, 2);
	WAIT_FOR(all_done(0, 2, 1));
	assert_sum(2);
	stop(0, 2);
}

static void connect__same_rank_twice_SECOND_IS_TOLD(void **state)
{
	struct rdmamsg_team_options opts = { 0 };

	start_two();
	members[4] = members[1];	/* another with this rank */
	members[1] = (struct member){ .ctx = test_open(NULL) };
	assert_error(try_connect(1, 3, &opts), -EADDRINUSE, "in use");
	test_close(members[1].ctx);
	members[1] = members[4];
	stop(0, 2);
}

static void connect__no_member_there_EPROTO(void **state)
{
	const struct rdmamsg_ep_options any = { .size = sizeof(any) };
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &any,
	};
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	char port[8];

	choose_addresses();
	if (rdmamsg_listen(ctx, test_addr(), "0", &opts, &l))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	(void)snprintf(strrchr(addresses[0], ':') + 1, 8, "%s",
		       listener_service(l, port));
	start(1, 2);
	WAIT_FOR(members[1].done);
	assert_blamed(1, 0, -EPROTO, "not in a team");
	stop(1, 2);
	test_close(ctx);
}

static void connect__stranger_comes_IS_REJECTED(void **state)
{
	static const char *const said[] = {
		"", "hello", "TEAM\2\0\0\0\0\0\0", "TEAM\3\0\0\0\1\0\0",
		"TEAM\2\0\0\0\2\0\0", "TEAM\2\0\0\0\0\0\0\2",
	};
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_ep *ep;

	choose_addresses();
	start(0, 2);
	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		opts.hello_data = said[i];
		opts.hello_data_len = i > 1 ? 12 : strlen(said[i]);
		assert_int_equal(rdmamsg_connect(ctx, test_addr(),
			strrchr(addresses[0], ':') + 1, &opts, &ep), 0);
		rdmamsg_ep_hold(ep);
		WAIT_FOR(rdmamsg_ep_state(ep) == RDMAMSG_CLOSED);
		assert_int_equal(rdmamsg_ep_reason(ep)->cause,
				 RDMAMSG_CAUSE_REJECTED);
		rdmamsg_ep_release(ep);
	}
	start(1, 2);
	WAIT_FOR(all_done(0, 2, 1));
	assert_sum(2);
	stop(0, 2);
	test_close(ctx);
}

/* ---- a member that is no team ------------------------------------------- */

/* Connects to member 0 of 3 as a member of this rank would. */
static struct rdmamsg_ep *pose(struct rdmamsg *ctx, uint8_t rank)
{
	const uint8_t said[12] = { 'T', 'E', 'A', 'M', 3, 0, 0, 0, rank };
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .hello_data = said,
		.hello_data_len = sizeof(said), .setup_data = said,
		.setup_data_len = sizeof(said),
	};
	struct rdmamsg_ep *ep;

	if (rdmamsg_connect(ctx, test_addr(), strrchr(addresses[0], ':') + 1,
			    &opts, &ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	return ep;
}

static void find_closing(void *arg, const char *line)
{
	*(bool *)arg |= strstr(line, "closing") != NULL;
}

static bool any_closing(struct rdmamsg *ctx)
{
	bool ret = false;

	rdmamsg_dump(ctx, find_closing, &ret);
	return ret;
}

/* Member 2 has closed, and takes no part in the end, when member 1 comes. */
static void connect__one_closes_before_the_last_FAILS(void **state)
{
	struct rdmamsg *first = test_open(NULL), *second = test_open(NULL);
	struct rdmamsg_ep *ep;

	choose_addresses();
	start(0, 3);
	ep = pose(second, 2);
	WAIT_FOR(rdmamsg_ep_state(ep) == RDMAMSG_CONNECTED && test_idle());
	rdmamsg_ep_close(ep);
	test_drive(second);
	UNTIL_BY(test_drive(members[0].ctx), any_closing(members[0].ctx));
	(void)pose(first, 1);
	UNTIL_BY((test_drive(first), test_drive(members[0].ctx)),
		 members[0].done);
	assert_int_equal(members[0].status, -ESHUTDOWN);
	stop(0, 1);
	test_close(first);
	test_close(second);
}

/* ---- ending early ------------------------------------------------------ */

static void destroy__while_connecting_NO_ON_DONE(void **state)
{
	start_two();
	rdmamsg_team_destroy(members[0].team);
	WAIT_FOR(members[1].done);
	assert_int_equal(rdmamsg_team_reason(members[1].team)->rank, 0);
	assert_int_equal(members[0].done, 0);
	members[0].team = NULL;
	stop(0, 2);
}

static void abort__while_connecting_ECANCELED(void **state)
{
	choose_addresses();
	start(0, 2);
	rdmamsg_team_abort(members[0].team);
	WAIT_FOR(members[0].done);
	assert_blamed(0, 0, -ECANCELED, "aborted");
	stop(0, 1);
}

static void close__while_connecting_NOTHING_LEFT(void **state)
{
	start_two();
	test_close(members[1].ctx);
	WAIT_FOR(members[0].done);
	assert_blamed(0, 1, members[0].status, "member 1");
	test_close(members[0].ctx);
}

static void shutdown__while_connecting_ENDS(void **state)
{
	start_two();
	assert_int_equal(rdmamsg_shutdown(members[1].ctx, WAIT_MS), 0);
	WAIT_FOR(members[0].done && members[1].done);
	assert_int_not_equal(members[1].status, 0);
	stop(0, 2);
}

/* Nobody has come yet, and so no endpoint ends. */
static void shutdown__while_alone_ENDS_FIRST(void **state)
{
	choose_addresses();
	start(0, 2);
	assert_int_equal(rdmamsg_shutdown_wait(members[0].ctx, WAIT_MS), 0);
	assert_int_equal(members[0].done, 1);
	assert_blamed(0, 0, -ECANCELED, "shut the context down");
	stop(0, 1);
}

/* The endpoints of a team that has connected close with it, gracefully. */
static void destroy__connected_PEERS_SEE_A_CLOSE(void **state)
{
	choose_addresses();
	for (uint32_t i = 0; i < 3; i++)
		start(i, 3);
	WAIT_FOR(all_done(0, 3, 1));
	assert_sum(3);
	rdmamsg_team_destroy(members[2].team);
	members[2].team = NULL;
	WAIT_FOR(!endpoints(2));
	assert_int_equal(rdmamsg_team_barrier(members[0].team, &members[0]),
			 0);
	WAIT_FOR(members[0].done == 3);
	assert_int_equal(members[0].status, -ESHUTDOWN);
	assert_int_equal(rdmamsg_team_reason(members[0].team)->rank, 2);
	stop(0, 3);
}

/* ---- wrong arguments --------------------------------------------------- */

static void connect__wrong_argument_EINVAL(void **state)
{
	static const char *const bad[] = {
		NULL, "", "localhost", ":7000", "::1:7000", "[::1]", "[]:7000",
		"localhost:",
	};
	const struct rdmamsg_ep_handlers on = { .size = sizeof(on) };
	struct rdmamsg_ep_options ep = { .size = sizeof(ep), .handlers = &on };
	struct rdmamsg_team_options opts = { .ep = &ep };

	choose_addresses();
	members[0] = (struct member){ .ctx = test_open(NULL) };
	assert_error(try_connect(0, 2, &opts), -EINVAL, "handlers");
	opts.ep = NULL;
	assert_error(try_connect(0, RDMAMSG_TEAM_MAX + 1, &opts), -EINVAL,
		     "at most");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		list[0] = bad[i];
		assert_error(try_connect(0, 2, &opts), -EINVAL, "HOST:PORT");
	}
	test_close(members[0].ctx);
}

static const struct CMUnitTest tests[] = {
	TEST(connect__in_any_order_ALL_ADD),
	TEST(connect__alone_AT_ONCE),
	TEST(connect__runs_EBUSY_and_waits),
	TEST(connect__options_ARE_TAKEN),
	TEST(connect__native_MEET_AS_WELL),
	TEST(connect__one_is_missing_NAMED_BY_ALL),
	TEST(connect__first_that_gives_up_NAMES_THE_MISSING),
	TEST(connect__lists_differ_EPROTO),
	TEST(connect__same_rank_twice_SECOND_IS_TOLD),
	TEST(connect__no_member_there_EPROTO),
	TEST(connect__stranger_comes_IS_REJECTED),
	TEST(connect__one_closes_before_the_last_FAILS),
	TEST(destroy__while_connecting_NO_ON_DONE),
	TEST(abort__while_connecting_ECANCELED),
	TEST(close__while_connecting_NOTHING_LEFT),
	TEST(shutdown__while_connecting_ENDS),
	TEST(shutdown__while_alone_ENDS_FIRST),
	TEST(destroy__connected_PEERS_SEE_A_CLOSE),
	TEST(connect__wrong_argument_EINVAL),
};

int main(int argc, char **argv)
{
	return test_main(tests, NULL, argc, argv);
}
