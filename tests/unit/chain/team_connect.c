/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: a team that makes its endpoints: arguments, and two members. */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"

#include <errno.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/listener.h>

static struct rdmamsg_team_options opts;
static int done[2], status[2];

static void on_done(struct rdmamsg_team *team, void *cookie, int result)
{
	int *rank = rdmamsg_team_user(team);

	assert_null(cookie);
	done[*rank]++;
	status[*rank] = result;
}

static int set_up(void **state)
{
	static const struct rdmamsg_team_handlers handlers = {
		.size = sizeof(handlers), .on_done = on_done,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	clear_ends();
	memset(done, 0, sizeof(done));
	opts = (struct rdmamsg_team_options){
		.size = sizeof(opts), .handlers = &handlers,
		.timeout_ms = 60000,
	};
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	return rdmamsg_open(&server.ctx, NULL);
}

static int connect_member(struct rdmamsg *ctx, const char *first,
			  const char *second, uint32_t size, uint32_t rank,
			  struct rdmamsg_team **ret)
{
	static int ranks[2] = { 0, 1 };
	const char *const addresses[] = { first, second };

	opts.user = &ranks[rank % 2];
	return rdmamsg_team_connect(ctx, &opts, addresses, size, rank, ret);
}

static void connect__wrong_arguments_EINVAL(void **state)
{
	static const char *const wrong[] = {
		NULL, "", "127.0.0.1", "127.0.0.1:", ":1", "[::1]", "[::1:1",
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .hello_data = "x", .hello_data_len = 1,
	};
	struct rdmamsg_team *t;
	const char *const good = "127.0.0.1:0";

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(connect_member(server.ctx, wrong[i], good, 2,
						0, &t), -EINVAL);
	assert_int_equal(connect_member(server.ctx, good, good, 2, 2, &t),
			 -EINVAL);
	assert_int_equal(connect_member(server.ctx, good, good, 0, 0, &t),
			 -EINVAL);
	assert_int_equal(connect_member(server.ctx, good, good, 2, 0, NULL),
			 -EINVAL);
	assert_int_equal(rdmamsg_team_connect(server.ctx, &opts, NULL, 2, 0,
					      &t), -EINVAL);
	opts.ep = &ep;
	assert_int_equal(connect_member(server.ctx, good, good, 2, 0, &t),
			 -EINVAL);
	assert_int_equal(done[0], 0);
}

/* Writes an address that nobody listens at. */
static void free_address(char *buf, size_t size)
{
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", NULL, &l),
			 0);
	(void)snprintf(buf, size, "127.0.0.1:%u", rdmamsg_listener_port(l));
	rdmamsg_listener_close(l);
}

static void connect__two_members_DONE(void **state)
{
	struct rdmamsg_team *teams[2];
	char first[32], second[32];

	free_address(first, sizeof(first));
	free_address(second, sizeof(second));
	/* the later member is first: it tries until the other listens */
	assert_int_equal(connect_member(client.ctx, first, second, 2, 1,
					&teams[1]), 0);
	for (int i = 0; i < 5; i++)
		both();
	assert_int_equal(connect_member(server.ctx, first, second, 2, 0,
					&teams[0]), 0);
	WAIT_FOR(done[0] && done[1]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(status[i], 0);
		assert_int_equal(rdmamsg_team_barrier(teams[i], NULL), 0);
	}
	WAIT_FOR(done[0] == 2 && done[1] == 2);
	for (int i = 0; i < 2; i++)
		rdmamsg_team_destroy(teams[i]);
}

static void connect__member_is_missing_NAMES_IT(void **state)
{
	struct rdmamsg_team *team;
	char first[32], second[32];

	free_address(first, sizeof(first));
	free_address(second, sizeof(second));
	opts.timeout_ms = 200;
	assert_int_equal(connect_member(server.ctx, first, second, 2, 0,
					&team), 0);
	WAIT_FOR(done[0]);
	assert_true(status[0] < 0);
	assert_int_equal(rdmamsg_team_reason(team)->rank, 1);
	assert_int_equal(rdmamsg_team_reason(team)->error, status[0]);
	rdmamsg_team_destroy(team);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(connect__wrong_arguments_EINVAL),
		T(connect__two_members_DONE),
		T(connect__member_is_missing_NAMES_IT),
	};

	join_own_fabric("team-connect");
	return cmocka_run_group_tests_name("team_connect", tests, NULL, NULL);
}
