/* SPDX-License-Identifier: BSD-2-Clause */
/* Teams: barrier, broadcast, all-reduce, and members that die. */
#include "mesh.h"

#include <signal.h>
#include <sys/wait.h>

#define COUNT		5u	/* elements of most all-reduces */
#define ROUNDS		2500u	/* all-reduces of each size */
#define NONE		MESH_MAX

static const uint32_t sizes[] = { 3, 5, 8, 16 };

/* ---- results ---------------------------------------------------------- */

/* Any bits, and as doubles any but NaN. */
static uint64_t random_bits(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed ^ *seed >> 33) & ~(1ull << 62);
}

static uint64_t input(uint32_t round, uint32_t rank, uint32_t i)
{
	uint64_t seed = (uint64_t)round << 40 | (uint64_t)rank << 20 | i;

	(void)random_bits(&seed);
	return random_bits(&seed);
}

static double as_double(uint64_t x)
{
	double d;

	memcpy(&d, &x, 8);
	return d;
}

/* The model: no element is a NaN, nor are there zeros of two signs. */
static uint64_t model_op(int op, int type, uint64_t a, uint64_t b)
{
	double x = as_double(a), y = as_double(b);
	bool less;

	if (type == RDMAMSG_CALC_DOUBLE && op == RDMAMSG_CALC_ADD) {
		x += y;
		memcpy(&a, &x, 8);
		return a;
	}
	less = type == RDMAMSG_CALC_DOUBLE ? y < x :
	       type == RDMAMSG_CALC_INT ? (int64_t)b < (int64_t)a : b < a;
	switch (op) {
	case RDMAMSG_CALC_ADD:
		return a + b;
	case RDMAMSG_CALC_AND:
		return a & b;
	case RDMAMSG_CALC_OR:
		return a | b;
	case RDMAMSG_CALC_XOR:
		return a ^ b;
	case RDMAMSG_CALC_MIN:
		return less ? b : a;
	default:
		return less ? a : b;
	}
}

/* The order of the all-reduce: pairs of neighbours, then of pairs, ... */
static uint64_t model(int op, int type, uint32_t round, uint32_t i)
{
	uint64_t x[MESH_MAX];
	uint32_t power = 1, extra, n = 0;

	while (power * 2 <= mesh_size)
		power *= 2;
	extra = mesh_size - power;
	for (uint32_t rank = 0; rank < mesh_size; rank++) {
		uint64_t in = input(round, rank, i);

		if (rank < 2 * extra && rank % 2)
			x[n - 1] = model_op(op, type, x[n - 1], in);
		else
			x[n++] = in;
	}
	for (; power > 1; power /= 2)
		for (uint32_t k = 0; k < power / 2; k++)
			x[k] = model_op(op, type, x[2 * k], x[2 * k + 1]);
	return x[0];
}

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

/*
 * Polls all members in turn. A member begins its next operation after a random
 * number of turns, so some are several operations behind.
 */
static void allreduce__many_with_random_delays_SAME_BITS(void **state)
{
	for (uint32_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		uint32_t begun[MESH_MAX] = { 0 }, wait[MESH_MAX] = { 0 };
		uint64_t seed = sizes[s], end = now_ms() + WAIT_MS;

		mesh_open(sizes[s], NONE);
		mesh_teams();
		while (!mesh_all_done(ROUNDS)) {
			for (uint32_t i = 0; i < mesh_size; i++) {
				struct member *m = &members[i];
				unsigned int done = m->done;

				assert_true(rdmamsg_poll(m->ctx) >= 0);
				if (m->done != done) {
					assert_int_equal(m->status, 0);
					check(m, done);
					wait[i] = (uint32_t)(random_bits(&seed)
							     % 8);
				}
				if (begun[i] == m->done && begun[i] < ROUNDS &&
				    !wait[i]--)
					begin(m, begun[i]++);
			}
			check_notes();
			assert_true(now_ms() < end);
		}
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

/* Members 'from' to size - 1 but the absent one begin an all-reduce. */
static void begin_some(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (members[i].ctx &&
		    rdmamsg_team_allreduce(members[i].team, RDMAMSG_CALC_ADD,
					   RDMAMSG_CALC_UINT, in[i], out[i],
					   COUNT, &members[i]))
			fail_msg("%s", rdmamsg_error());
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
		for (uint32_t i = 0; i < 3; i++)
			assert_true(members[i].status == -EPROTO ||
				    (what == 2 && i == 2));
		assert_non_null(strstr(rdmamsg_team_reason(members[1].team)
				       ->text, "another operation than member"));
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
	for (uint32_t i = 0; i < 5; i++) {
		const struct rdmamsg_team_failure *r =
			rdmamsg_team_reason(members[i].team);

		WAIT_FOR(r->error);
		/* 2 and 4 do not need this connection, and may have the sum */
		if (i == 1 || i == 3 || members[i].status)
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
	assert_error(rdmamsg_chain_send(chain, 0, eps[1], &x, 8, 0), -EBUSY,
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

/* Arguments: rank and size, then the ports of the others. */
static int role_victim(int argc, char **argv)
{
	uint32_t rank = (uint32_t)atoi(strtok(argv[0], " "));
	uint32_t size = (uint32_t)atoi(strtok(NULL, " "));

	mesh_member(rank, size);
	for (uint32_t i = 0; i < size; i++)
		if (i != rank)
			mesh_dial(rank, i, strtok(NULL, " "));
	WAIT_FOR(members[rank].connected == size - 1);
	mesh_teams();
	begin_some(rank, rank + 1);
	say("begun\n");
	/* until the parent kills this process, or has died itself */
	while (getppid() != 1)
		test_pump(1000);
	return 1;
}

static const struct role roles[] = { { "victim", role_victim }, { NULL } };

static unsigned int failures;		/* operations that have failed */

/*
 * The victim has begun, and goes on as far as the members before 'begun' let
 * it. Then it is killed, and the others begin.
 */
static void kill_member(uint32_t size, uint32_t victim, uint32_t begun)
{
	struct child child;
	char arg[200], line[32];
	int len;

	mesh_open(size, victim);
	len = snprintf(arg, sizeof(arg), "%u %u", victim, size);
	for (uint32_t i = 0; i < size; i++)
		if (i != victim)
			len += snprintf(arg + len, sizeof(arg) - (size_t)len,
					" %s", members[i].port);
	child_start(&child, "victim", arg);
	child_line(&child, line, sizeof(line));
	for (uint32_t i = 0; i < size; i++)
		WAIT_FOR(!members[i].ctx || members[i].connected == size - 1);
	mesh_teams();
	begin_some(0, begun);
	for (uint32_t i = 0; i < size; i++)
		if (members[i].ctx)
			test_drive(members[i].ctx);
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	child_wait(&child);
	/* some may know already */
	for (uint32_t i = begun; i < size; i++)
		if (members[i].ctx && rdmamsg_team_reason(members[i].team)
				      ->error)
			members[i].done = 1;
		else if (members[i].ctx)
			begin_some(i, i + 1);
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t i = 0; i < size; i++) {
		char text[32];

		if (!members[i].ctx)
			continue;
		/* the victim may have done its part before */
		WAIT_FOR(rdmamsg_team_reason(members[i].team)->error);
		(void)snprintf(text, sizeof(text), "member %u: ", victim);
		assert_failed(&members[i], victim,
			      rdmamsg_team_reason(members[i].team)->error,
			      text);
		if (members[i].status)
			assert_int_equal(members[i].status,
					 rdmamsg_team_reason(members[i].team)
					 ->error);
		failures += members[i].status != 0;
	}
	mesh_close();
}

static void kill__a_member_in_each_step_NAMED(void **state)
{
	texts_are_fine = true;
	for (uint32_t begun = 0; begun <= 3; begun++)
		for (uint32_t victim = 0; victim < 3; victim++)
			kill_member(3, victim, begun);
	for (uint32_t begun = 0; begun <= 5; begun++)
		for (uint32_t victim = 0; victim < 5; victim += 2)
			kill_member(5, victim, begun);
	for (uint32_t begun = 0; begun <= 8; begun += 2)
		kill_member(8, begun % 8 ^ 5, begun);
	assert_true(failures);
}

static const struct CMUnitTest tests[] = {
	TEST(allreduce__many_with_random_delays_SAME_BITS),
	TEST(barrier__nobody_ends_before_all_have_begun),
	TEST(broadcast__each_root_and_path_ARRIVES),
	TEST(allreduce__large_and_in_place_SAME_BITS),
	TEST(operations__differ_EPROTO),
	TEST(abort__ends_the_operation_of_all_ECANCELED),
	TEST(destroy__in_the_operation_ECANCELED),
	TEST(abort__of_one_connection_FAILS_ALL),
	TEST(close__of_one_connection_that_is_needed_FAILS_ALL),
	TEST(close__after_the_last_operation_OK),
	TEST(create__arguments_and_busy),
	TEST(kill__a_member_in_each_step_NAMED),
};

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
