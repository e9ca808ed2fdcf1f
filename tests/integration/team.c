/* SPDX-License-Identifier: BSD-2-Clause */
/* Teams: barrier, broadcast, all-reduce, and members that die. */
#include "team_model.h"
#include "../chain_send.h"

#include <signal.h>
#include <sys/wait.h>

#define COUNT		5u	/* elements of most all-reduces */
/* all-reduces of each size */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS		1000u
#else
#define ROUNDS		10000u
#endif
#define ROUNDS_SLOW	100u	/* on other devices than the soft HCA */
#define VALUE		4711u	/* of broadcasts whose members die */
#define NONE		MESH_MAX

static const uint32_t sizes[] = { 3, 5, 8, 16 };

/* ---- results ---------------------------------------------------------- */

static uint64_t in[MESH_MAX][COUNT], out[MESH_MAX][COUNT];

static void begin(struct member *m, uint32_t round)
{
	for (uint32_t i = 0; i < COUNT; i++)
		in[m->rank][i] = input(round, m->rank, i);
	if (rdmamsg_team_allreduce(m->team, (int)(round % 6),
				   (int)(round / 6 % 3), in[m->rank],
				   out[m->rank], COUNT, m))
		note("member %u: %s", m->rank, rdmamsg_error());
}

static void check(const struct member *m, uint32_t round)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t want = model((int)(round % 6), (int)(round / 6 % 3),
				      round, i);

		if (out[m->rank][i] != want)
			note("member %u, round %u: %llx instead of %llx",
			     m->rank, round,
			     (unsigned long long)out[m->rank][i],
			     (unsigned long long)want);
	}
}

static void allreduce__many_with_random_delays_SAME_BITS(void **state)
{
	mesh_choose_seed();
	for (uint32_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		mesh_open(sizes[s], NONE);
		mesh_teams();
		mesh_race(test_on_soft() ? ROUNDS : ROUNDS_SLOW, begin, check);
		mesh_close();
	}
}

static void barrier__nobody_ends_before_all_have_begun(void **state)
{
	for (uint32_t size = 1; size <= 9; size++) {
		mesh_open(size, NONE);
		mesh_teams();
		for (uint32_t last = 0; last < size; last++) {
			for (uint32_t i = 0; i < size; i++)
				if (i != last)
					assert_int_equal(rdmamsg_team_barrier(
						members[i].team, &members[i]),
						0);
			for (uint32_t i = 0; i < size; i++)
				test_drive(members[i].ctx);
			for (uint32_t i = 0; i < size; i++)
				assert_int_equal(members[i].done, last);
			assert_int_equal(rdmamsg_team_barrier(
				members[last].team, &members[last]), 0);
			WAIT_FOR(mesh_all_done(last + 1));
			for (uint32_t i = 0; i < size; i++)
				assert_int_equal(members[i].status, 0);
		}
		mesh_close();
	}
}

static void broadcast__each_root_and_path_ARRIVES(void **state)
{
	static const size_t lens[] = { 0, 8, 1000, 20000, 300000 };
	static uint8_t bufs[9][300000];
	unsigned int n = 0;

	for (uint32_t size = 1; size <= 9; size += 2) {
		mesh_open(size, NONE);
		mesh_teams();
		n = 0;
		for (uint32_t k = 0; k < size * ARRAY_SIZE(lens); k++) {
			size_t len = lens[k % ARRAY_SIZE(lens)];
			uint32_t root = k % size;

			memset(bufs, 0, sizeof(bufs));
			memcpy(bufs[root], pattern(k), len);
			for (uint32_t i = 0; i < size; i++)
				assert_int_equal(rdmamsg_team_broadcast(
					members[i].team, bufs[i], len, root,
					&members[i]), 0);
			n++;
			WAIT_FOR(mesh_all_done(n));
			for (uint32_t i = 0; i < size; i++) {
				assert_int_equal(members[i].status, 0);
				assert_memory_equal(bufs[i], pattern(k), len);
			}
		}
		mesh_close();
	}
}

static void allreduce__large_and_in_place_SAME_BITS(void **state)
{
	enum { N = 50000 };
	static uint64_t x[5][N];

	mesh_open(5, NONE);
	mesh_teams();
	for (uint32_t i = 0; i < 5; i++)
		for (uint32_t k = 0; k < N; k++)
			x[i][k] = input(0, i, k);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(rdmamsg_team_allreduce(members[i].team,
			RDMAMSG_CALC_ADD, RDMAMSG_CALC_DOUBLE, x[i], x[i], N,
			&members[i]), 0);
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t k = 0; k < N; k++)
		for (uint32_t i = 0; i < 5; i++)
			assert_int_equal(x[i][k], model(RDMAMSG_CALC_ADD,
				RDMAMSG_CALC_DOUBLE, 0, k));
	mesh_close();
}

/* ---- failures --------------------------------------------------------- */

enum operation { ALLREDUCE, BARRIER, BROADCAST };

/* Member 0 broadcasts VALUE. */
static int begin_one(struct member *m, enum operation operation)
{
	uint64_t *x = out[m->rank];

	switch (operation) {
	case BARRIER:
		return rdmamsg_team_barrier(m->team, m);
	case BROADCAST:
		*x = m->rank ? 0 : VALUE;
		return rdmamsg_team_broadcast(m->team, x, sizeof(*x), 0, m);
	default:
		return rdmamsg_team_allreduce(m->team, RDMAMSG_CALC_ADD,
					      RDMAMSG_CALC_UINT, in[m->rank], x,
					      COUNT, m);
	}
}

/* Members 'from' to 'to' - 1 but the absent one begin the operation. */
static void begin_each(uint32_t from, uint32_t to, enum operation operation)
{
	for (uint32_t i = from; i < to; i++)
		if (members[i].ctx && begin_one(&members[i], operation))
			fail_msg("%s", rdmamsg_error());
}

static void begin_some(uint32_t from, uint32_t to)
{
	begin_each(from, to, ALLREDUCE);
}

/* The member's last or next operation names 'rank'. */
static void assert_failed(struct member *m, uint32_t rank, int error,
			  const char *word)
{
	const struct rdmamsg_team_failure *r = rdmamsg_team_reason(m->team);

	if (r->rank != rank || r->error != error || !strstr(r->text, word))
		fail_msg("member %u: rank %u, error %d, who %d: '%s' lacks "
			 "'%s'", m->rank, r->rank, r->error, r->who, r->text,
			 word);
	assert_error(rdmamsg_team_barrier(m->team, m), error, r->text);
}

/*
 * On the native path the device of member 1 does not know what member 2 runs,
 * and may have sent a result of it to member 0.
 */
static bool device_went_on(uint32_t rank)
{
	return mesh_way.takes == RDMAMSG_CHAIN_NATIVE && rank == 0;
}

static void operations__differ_EPROTO(void **state)
{
	uint64_t x = 0;

	for (int what = 0; what < 3; what++) {
		mesh_open(3, NONE);
		mesh_teams();
		begin_some(0, 2);
		if (!what)
			rdmamsg_team_barrier(members[2].team, &members[2]);
		else if (what == 1)
			rdmamsg_team_allreduce(members[2].team,
					       RDMAMSG_CALC_XOR,
					       RDMAMSG_CALC_UINT, in[2],
					       out[2], COUNT, &members[2]);
		else
			rdmamsg_team_broadcast(members[2].team, &x, 8, 2,
					       &members[2]);
		WAIT_FOR(mesh_all_done(1) ||
			 (what == 2 && members[0].done && members[1].done));
		for (uint32_t i = 0; i < 3; i++) {
			WAIT_FOR(rdmamsg_team_reason(members[i].team)->error ==
				 -EPROTO);
			assert_true(members[i].status == -EPROTO ||
				    (what == 2 && i == 2) ||
				    (!members[i].status && device_went_on(i)));
		}
		assert_non_null(strstr(rdmamsg_team_reason(members[1].team)
				       ->text, "another operation than "
				       "member"));
		mesh_close();
	}
}

static void abort__ends_the_operation_of_all_ECANCELED(void **state)
{
	mesh_open(5, NONE);
	mesh_teams();
	begin_some(0, 4);
	rdmamsg_team_abort(members[2].team);
	WAIT_FOR(members[0].done && members[1].done && members[2].done &&
		 members[3].done);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(members[i].status, -ECANCELED);
	WAIT_FOR(rdmamsg_team_reason(members[4].team)->error);
	for (uint32_t i = 0; i < 5; i++) {
		assert_failed(&members[i], 2, -ECANCELED,
			      "member 2: its program has aborted");
		assert_int_equal(rdmamsg_team_reason(members[i].team)->told_by,
				 2);
	}
	mesh_close();
}

static void destroy__in_the_operation_ECANCELED(void **state)
{
	mesh_open(5, NONE);
	mesh_teams();
	begin_some(0, 4);
	rdmamsg_team_destroy(members[3].team);
	members[3].team = NULL;
	WAIT_FOR(members[0].done && members[1].done && members[2].done);
	for (uint32_t i = 0; i < 3; i++)
		assert_failed(&members[i], 3, -ECANCELED, "destroyed");
	assert_int_equal(members[3].done, 0);
	mesh_close();
}

/*
 * Native runs do not send on the endpoints, and may end well. Then the next one
 * finds that the endpoint has ended.
 */
static void end_well_once(void)
{
	if (!mesh_way.warm)
		return;
	WAIT_FOR(members[1].closed && members[3].closed);
	if (rdmamsg_team_reason(members[1].team)->error ||
	    rdmamsg_team_reason(members[3].team)->error)
		return;
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(members[i].status, 0);
		members[i].done = 0;
	}
	begin_some(0, 5);
	WAIT_FOR(mesh_all_done(1));
}

/* Member 3 ends with its endpoint to member 1 closed, or aborted. */
static void one_connection_ends(bool aborts, int error)
{
	mesh_open(5, NONE);
	mesh_teams();
	begin_some(0, 4);
	if (aborts)
		rdmamsg_ep_abort(members[3].links[1].ep);
	else
		rdmamsg_ep_close(members[3].links[1].ep);
	begin_some(4, 5);
	WAIT_FOR(mesh_all_done(1));
	end_well_once();
	for (uint32_t i = 0; i < 5; i++) {
		const struct rdmamsg_team_failure *r =
			rdmamsg_team_reason(members[i].team);

		WAIT_FOR(r->error);
		/* 2 and 4 do not need this connection, and may have the sum */
		if (((i == 1 || i == 3) && !mesh_way.warm) || members[i].status)
			assert_int_equal(members[i].status, r->error);
		assert_int_equal(r->rank, 3);
		assert_true(r->error == error || r->error == -ECONNRESET);
	}
	mesh_close();
}

static void abort__of_one_connection_FAILS_ALL(void **state)
{
	one_connection_ends(true, -ECANCELED);
}

static void close__of_one_connection_that_is_needed_FAILS_ALL(void **state)
{
	one_connection_ends(false, -ESHUTDOWN);
}

/* A member that has ended its last operation may close before the others. */
static void close__after_the_last_operation_OK(void **state)
{
	mesh_open(5, NONE);
	mesh_teams();
	begin_some(0, 5);
	while (!mesh_all_done(1))
		for (uint32_t i = 0; i < 5; i++) {
			struct member *m = &members[i];

			test_drive(m->ctx);
			for (uint32_t k = 0; m->done && k < 5; k++)
				if (m->links[k].ep)
					rdmamsg_ep_close(m->links[k].ep);
		}
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(members[i].status, 0);
	mesh_close();
}

/* Member 3 leaves after an operation, and the others begin another one. */
static void close__before_an_operation_of_others_FAILS_ALL(void **state)
{
	mesh_open(5, NONE);
	mesh_teams();
	begin_some(0, 5);
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t k = 0; k < 5; k++)
		if (k != 3)
			rdmamsg_ep_close(members[3].links[k].ep);
	for (uint32_t k = 0; k < 5; k++)
		WAIT_FOR(members[k].closed == (k == 3 ? 4 : 1));
	begin_some(0, 3);
	begin_some(4, 5);
	members[3].done++;
	WAIT_FOR(mesh_all_done(2));
	for (uint32_t i = 0; i < 5; i++) {
		if (i == 3)
			continue;
		assert_int_equal(members[i].status, -ESHUTDOWN);
		assert_failed(&members[i], 3, -ESHUTDOWN, "member 3");
	}
	mesh_close();
}

static void broadcast__to_a_member_that_has_left_ESHUTDOWN(void **state)
{
	uint64_t x = 77;

	mesh_open(2, NONE);
	mesh_teams();
	begin_some(0, 2);
	WAIT_FOR(mesh_all_done(1));
	rdmamsg_ep_close(members[1].links[0].ep);
	WAIT_FOR(members[0].closed && members[1].closed);
	assert_int_equal(rdmamsg_team_broadcast(members[0].team, &x, 8, 0,
						&members[0]), 0);
	WAIT_FOR(members[0].done == 2);
	assert_int_equal(members[0].status, -ESHUTDOWN);
	assert_failed(&members[0], 1, -ESHUTDOWN, "member 1");
	mesh_close();
}

/* The message of the root waits at a member that has not begun. */
static void close__of_the_root_before_others_receive_OK(void **state)
{
	uint64_t x[5] = { 0, 0, 77 };

	mesh_open(5, NONE);
	mesh_teams();
	assert_int_equal(rdmamsg_team_broadcast(members[2].team, &x[2], 8, 2,
						&members[2]), 0);
	WAIT_FOR(members[2].done);
	for (uint32_t k = 0; k < 5; k++)
		if (k != 2)
			rdmamsg_ep_close(members[2].links[k].ep);
	for (uint32_t k = 0; k < 5; k++)
		WAIT_FOR(members[k].closed == (k == 2 ? 4 : 1));
	for (uint32_t k = 0; k < 5; k++)
		if (k != 2 && rdmamsg_team_broadcast(members[k].team, &x[k], 8,
						     2, &members[k]))
			fail_msg("%s", rdmamsg_error());
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t k = 0; k < 5; k++) {
		assert_int_equal(members[k].status, 0);
		assert_int_equal(x[k], 77);
	}
	mesh_close();
}

static void close__of_a_context_in_the_operation_FAILS_ALL(void **state)
{
	mesh_open(5, NONE);
	mesh_teams();
	begin_some(0, 4);
	test_close(members[2].ctx);
	members[2].ctx = NULL;
	WAIT_FOR(members[0].done && members[1].done && members[3].done);
	for (uint32_t i = 0; i < 5; i++) {
		const struct rdmamsg_team_failure *r =
			rdmamsg_team_reason(members[i].team);

		if (i == 2)
			continue;
		WAIT_FOR(r->error);
		assert_true(members[i].status == r->error || i == 4);
		assert_int_equal(r->rank, 2);
	}
	mesh_close();
}

static void create__arguments_and_busy(void **state)
{
	struct rdmamsg_ep *eps[3] = { NULL };
	struct rdmamsg_team *team;
	struct rdmamsg_chain *chain;
	struct member *m = &members[0];
	uint64_t x = 0;

	mesh_open(3, NONE);
	for (uint32_t k = 0; k < 3; k++)
		eps[k] = m->links[k].ep;
	assert_error(rdmamsg_team_create(NULL, NULL, eps, 3, 0, &team),
		     -EINVAL, "ctx");
	assert_error(rdmamsg_team_create(m->ctx, NULL, eps, 3, 3, &team),
		     -EINVAL, "rank 3 of 3");
	assert_error(rdmamsg_team_create(m->ctx, NULL, eps, 0, 0, &team),
		     -EINVAL, "of 0");
	eps[2] = NULL;
	assert_error(rdmamsg_team_create(m->ctx, NULL, eps, 3, 0, &team),
		     -EINVAL, "NULL");
	mesh_teams();
	eps[2] = m->links[2].ep;
	assert_error(rdmamsg_team_create(m->ctx, NULL, eps, 3, 0, &team),
		     -EBUSY, "member 1 is in a team");
	assert_int_equal(rdmamsg_chain_create(m->ctx, NULL, &chain), 0);
	assert_error(chain_send(chain, 0, eps[1], &x, 8, 0), -EBUSY,
		     "team");
	rdmamsg_chain_destroy(chain);
	assert_error(rdmamsg_team_broadcast(m->team, &x, 8, 3, m), -EINVAL,
		     "root 3");
	assert_error(rdmamsg_team_allreduce(m->team, 6, 0, &x, &x, 1, m),
		     -EINVAL, "operation 6");
	assert_error(rdmamsg_team_broadcast(m->team, &x, SIZE_MAX, 0, m),
		     -EMSGSIZE, "takes at most");
	assert_error(rdmamsg_team_allreduce(m->team, 0, 0, &x, &x, 1 << 24, m),
		     -EMSGSIZE, "takes at most");
	assert_error(rdmamsg_team_barrier(NULL, m), -EINVAL, "NULL");
	assert_error(rdmamsg_team_wait(NULL, 0), -EINVAL, "NULL");
	assert_int_equal(rdmamsg_team_wait(m->team, 0), 0);
	assert_int_equal(rdmamsg_team_barrier(m->team, m), 0);
	assert_error(rdmamsg_team_barrier(m->team, m), -EBUSY, "on_done");
	assert_error(rdmamsg_team_wait(m->team, 1), -ETIMEDOUT, "not ended");
	for (uint32_t i = 1; i < 3; i++)
		assert_int_equal(rdmamsg_team_barrier(members[i].team,
						      &members[i]), 0);
	WAIT_FOR(mesh_all_done(1));
	assert_int_equal(rdmamsg_team_wait(m->team, 0), 0);
	/* the endpoints can be in another team */
	for (uint32_t i = 0; i < 3; i++)
		rdmamsg_team_destroy(members[i].team);
	mesh_teams();
	begin_some(0, 3);
	WAIT_FOR(mesh_all_done(2));
	rdmamsg_team_destroy(NULL);
	rdmamsg_team_abort(NULL);
	mesh_close();
}

/* ---- a member that is killed ------------------------------------------ */

/* Arguments: rank, size, operation and way, then the ports of the others. */
static int role_victim(int argc, char **argv)
{
	uint32_t rank = (uint32_t)atoi(strtok(argv[0], " "));
	uint32_t size = (uint32_t)atoi(strtok(NULL, " "));
	enum operation operation = (enum operation)atoi(strtok(NULL, " "));

	mesh_way.asks = (uint32_t)atoi(strtok(NULL, " "));
	mesh_way.takes = (uint32_t)atoi(strtok(NULL, " "));
	mesh_way.warm = atoi(strtok(NULL, " ")) != 0;
	mesh_member(rank, size);
	for (uint32_t i = 0; i < size; i++)
		if (i != rank)
			mesh_dial(rank, i, strtok(NULL, " "));
	WAIT_FOR(members[rank].connected == size - 1);
	mesh_teams();
	begin_each(rank, rank + 1, operation);
	say("begun\n");
	/* until the parent kills this process, or has died itself */
	while (getppid() != 1)
		test_pump(1000);
	return 1;
}

static const struct role roles[] = { { "victim", role_victim }, { NULL } };

static unsigned int failures;		/* operations that have failed */

static void start_victim(struct child *child, uint32_t victim,
			 enum operation operation)
{
	char arg[200];
	int len = snprintf(arg, sizeof(arg), "%u %u %d %u %u %d", victim,
			   mesh_size, operation, mesh_way.asks, mesh_way.takes,
			   mesh_way.warm);

	for (uint32_t i = 0; i < mesh_size; i++)
		if (i != victim)
			len += snprintf(arg + len, sizeof(arg) - (size_t)len,
					" %s", members[i].port);
	child_start(child, "victim", arg);
}

static void make_teams(void)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		WAIT_FOR(!members[i].ctx ||
			 members[i].connected == mesh_size - 1);
	mesh_teams();
}

/* Ends when the victim has begun. It may begin before there are teams here. */
static void meet_victim(struct child *child)
{
	char line[32];

	if (mesh_way.warm)
		make_teams();
	child_line(child, line, sizeof(line));
	if (!mesh_way.warm)
		make_teams();
}

/* Those that know already cannot begin, so their operation has failed, too. */
static void begin_others(uint32_t from, enum operation operation)
{
	for (uint32_t i = from; i < mesh_size; i++)
		if (members[i].ctx && rdmamsg_team_reason(members[i].team)
				      ->error) {
			members[i].done = 1;
			failures++;
		} else {
			begin_each(i, i + 1, operation);
		}
}

/* Waits for the reason, because the victim may have done its part before. */
static void assert_killed(struct member *m, uint32_t victim)
{
	const struct rdmamsg_team_failure *r = rdmamsg_team_reason(m->team);
	char text[32];

	WAIT_FOR(r->error);
	(void)snprintf(text, sizeof(text), "member %u: ", victim);
	assert_failed(m, victim, r->error, text);
	if (m->status)
		assert_int_equal(m->status, r->error);
	failures += m->status != 0;
}

/* Called when the broadcast of a member here has ended. */
static void check_value(struct member *m)
{
	if (!m->status && *out[m->rank] != VALUE)
		note("member %u: the broadcast has not arrived", m->rank);
}

/*
 * The victim has begun, and goes on as far as the members before 'begun' let
 * it. Then it is killed, and the others begin.
 */
static void kill_member(uint32_t size, uint32_t victim, uint32_t begun,
			enum operation operation)
{
	struct child child;

	mesh_open(size, victim);
	start_victim(&child, victim, operation);
	meet_victim(&child);
	for (uint32_t i = 0; i < size && operation == BROADCAST; i++)
		members[i].then_done = check_value;
	begin_each(0, begun, operation);
	for (uint32_t i = 0; i < size; i++)
		if (members[i].ctx)
			test_drive(members[i].ctx);
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	child_wait(&child);
	begin_others(begun, operation);
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t i = 0; i < size; i++)
		if (members[i].ctx)
			assert_killed(&members[i], victim);
	mesh_close();
}

static void kill__a_member_in_each_step_NAMED(void **state)
{
	texts_are_fine = true;
	failures = 0;
	for (uint32_t begun = 0; begun <= 3; begun++)
		for (uint32_t victim = 0; victim < 3; victim++)
			kill_member(3, victim, begun, ALLREDUCE);
	/* Soft-RoCE takes seconds for each */
	for (uint32_t begun = 0; test_on_soft() && begun <= 5; begun++)
		for (uint32_t victim = 0; victim < 5; victim += 2)
			kill_member(5, victim, begun, ALLREDUCE);
	for (uint32_t begun = 0; test_on_soft() && begun <= 8; begun += 2)
		kill_member(8, begun % 8 ^ 5, begun, ALLREDUCE);
	assert_true(failures);
}

/* Each member, because each one is at another place of the tree. */
static void kill_each(enum operation operation)
{
	static const uint32_t few[] = { 5, 3 };
	/* Soft-RoCE takes seconds for each */
	const uint32_t count = test_on_soft() ? ARRAY_SIZE(few) : 1;
	const uint32_t step = test_on_soft() ? 1 : 2;

	texts_are_fine = true;
	failures = 0;
	for (uint32_t s = 0; s < count; s++)
		for (uint32_t begun = 0; begun <= few[s]; begun++)
			for (uint32_t victim = 0; victim < few[s];
			     victim += step)
				kill_member(few[s], victim, begun, operation);
	assert_true(failures);
}

static void kill__a_member_in_each_step_of_a_barrier_NAMED(void **state)
{
	kill_each(BARRIER);
}

static void kill__a_member_in_each_step_of_a_broadcast_NAMED(void **state)
{
	kill_each(BROADCAST);
}

/* ---- the list ---------------------------------------------------------- */

ON_BOTH(allreduce__many_with_random_delays_SAME_BITS)
ON_BOTH(barrier__nobody_ends_before_all_have_begun)
ON_BOTH(broadcast__each_root_and_path_ARRIVES)
ON_BOTH(allreduce__large_and_in_place_SAME_BITS)
ON_ALL(operations__differ_EPROTO)
ON_ALL(abort__ends_the_operation_of_all_ECANCELED)
ON_ALL(destroy__in_the_operation_ECANCELED)
ON_ALL(abort__of_one_connection_FAILS_ALL)
ON_ALL(close__of_one_connection_that_is_needed_FAILS_ALL)
ON_ALL(close__after_the_last_operation_OK)
ON_BOTH(close__before_an_operation_of_others_FAILS_ALL)
ON_BOTH(broadcast__to_a_member_that_has_left_ESHUTDOWN)
ON(close__of_the_root_before_others_receive_OK, loop, RDMAMSG_CHAIN_LOOP,
   RDMAMSG_CHAIN_LOOP)
ON(close__of_the_root_before_others_receive_OK, native_later,
   RDMAMSG_CHAIN_NATIVE, RDMAMSG_CHAIN_NATIVE, true)
ON_ALL(close__of_a_context_in_the_operation_FAILS_ALL)
ON_BOTH(create__arguments_and_busy)
ON_ALL(kill__a_member_in_each_step_NAMED)
ON_ALL(kill__a_member_in_each_step_of_a_barrier_NAMED)
ON_ALL(kill__a_member_in_each_step_of_a_broadcast_NAMED)

static const struct CMUnitTest tests[] = {
	TEST(loop__allreduce__many_with_random_delays_SAME_BITS),
	TEST(native__allreduce__many_with_random_delays_SAME_BITS),
	TEST(loop__barrier__nobody_ends_before_all_have_begun),
	TEST(native__barrier__nobody_ends_before_all_have_begun),
	TEST(loop__broadcast__each_root_and_path_ARRIVES),
	TEST(native__broadcast__each_root_and_path_ARRIVES),
	TEST(loop__allreduce__large_and_in_place_SAME_BITS),
	TEST(native__allreduce__large_and_in_place_SAME_BITS),
	TEST(loop__operations__differ_EPROTO),
	TEST(native__operations__differ_EPROTO),
	TEST(native_later__operations__differ_EPROTO),
	TEST(loop__abort__ends_the_operation_of_all_ECANCELED),
	TEST(native__abort__ends_the_operation_of_all_ECANCELED),
	TEST(native_later__abort__ends_the_operation_of_all_ECANCELED),
	TEST(loop__destroy__in_the_operation_ECANCELED),
	TEST(native__destroy__in_the_operation_ECANCELED),
	TEST(native_later__destroy__in_the_operation_ECANCELED),
	TEST(loop__abort__of_one_connection_FAILS_ALL),
	TEST(native__abort__of_one_connection_FAILS_ALL),
	TEST(native_later__abort__of_one_connection_FAILS_ALL),
	TEST(loop__close__of_one_connection_that_is_needed_FAILS_ALL),
	TEST(native__close__of_one_connection_that_is_needed_FAILS_ALL),
	TEST(native_later__close__of_one_connection_that_is_needed_FAILS_ALL),
	TEST(loop__close__after_the_last_operation_OK),
	TEST(native__close__after_the_last_operation_OK),
	TEST(native_later__close__after_the_last_operation_OK),
	TEST(loop__close__before_an_operation_of_others_FAILS_ALL),
	TEST(native__close__before_an_operation_of_others_FAILS_ALL),
	TEST(loop__broadcast__to_a_member_that_has_left_ESHUTDOWN),
	TEST(native__broadcast__to_a_member_that_has_left_ESHUTDOWN),
	TEST(loop__close__of_the_root_before_others_receive_OK),
	TEST(native_later__close__of_the_root_before_others_receive_OK),
	TEST(loop__close__of_a_context_in_the_operation_FAILS_ALL),
	TEST(native__close__of_a_context_in_the_operation_FAILS_ALL),
	TEST(native_later__close__of_a_context_in_the_operation_FAILS_ALL),
	TEST(loop__create__arguments_and_busy),
	TEST(native__create__arguments_and_busy),
	TEST(loop__kill__a_member_in_each_step_NAMED),
	TEST(native__kill__a_member_in_each_step_NAMED),
	TEST(native_later__kill__a_member_in_each_step_NAMED),
	TEST(loop__kill__a_member_in_each_step_of_a_barrier_NAMED),
	TEST(native__kill__a_member_in_each_step_of_a_barrier_NAMED),
	TEST(native_later__kill__a_member_in_each_step_of_a_barrier_NAMED),
	TEST(loop__kill__a_member_in_each_step_of_a_broadcast_NAMED),
	TEST(native__kill__a_member_in_each_step_of_a_broadcast_NAMED),
	TEST(native_later__kill__a_member_in_each_step_of_a_broadcast_NAMED),
};

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
