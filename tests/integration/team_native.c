/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Teams that ask for native runs: which operations run in the device, without
 * calls of the program, and what runs in the loop instead.
 */
#include "harm.h"
#include "team_model.h"
#include "../chain_send.h"

#include <poll.h>

#include <rdmamsg/failover.h>

#define NONE		MESH_MAX
#define LARGE		300000u		/* bytes of a broadcast */
#define OPERATIONS	300u		/* of a list */
#define AHEAD		5u		/* operations of the root */

static const struct mesh_way native = {
	RDMAMSG_CHAIN_NATIVE, RDMAMSG_CHAIN_NATIVE, true,
};

static const struct mesh_way cannot = {
	RDMAMSG_CHAIN_NATIVE, RDMAMSG_CHAIN_LOOP,
};

static void barriers(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (rdmamsg_team_barrier(members[i].team, &members[i]))
			fail_msg("%s", rdmamsg_error());
}

static void assert_ended(unsigned int count)
{
	WAIT_FOR(mesh_all_done(count));
	for (uint32_t i = 0; i < mesh_size; i++)
		assert_int_equal(members[i].status, 0);
}

/* ---- a list of operations --------------------------------------------- */

/* The largest of the device have 4096 bytes, or 32 elements. */
static const size_t lens[] = { 8, 300000, 0, 4096, 4097, 1, 20000, 4095 };
static const size_t counts[] = { 1, 32, 500, 5, 33, 0, 31 };

static uint8_t bufs[MESH_MAX][LARGE + 7];
static uint64_t in[MESH_MAX][500], out[MESH_MAX][500];

static size_t count_of(uint32_t number)
{
	return counts[number / 3 % ARRAY_SIZE(counts)];
}

static int op_of(uint32_t number)
{
	return (int)(number / 3 % 6);
}

static int type_of(uint32_t number)
{
	return (int)(number / 18 % 3);
}

static uint64_t *out_of(const struct member *m, uint32_t number)
{
	return number & 1 ? in[m->rank] : out[m->rank];
}

/* At any address. */
static uint8_t *buf_of(const struct member *m, uint32_t number)
{
	return bufs[m->rank] + (number + m->rank) % 8;
}

static int begin_broadcast(struct member *m, uint32_t number)
{
	const uint32_t root = number * 7 % mesh_size;
	const size_t len = lens[number / 3 % ARRAY_SIZE(lens)];
	uint8_t *const buf = buf_of(m, number);

	memset(buf, 0, len);
	if (m->rank == root)
		memcpy(buf, pattern(number), len);
	return rdmamsg_team_broadcast(m->team, buf, len, root, m);
}

static int begin_allreduce(struct member *m, uint32_t number)
{
	for (uint32_t i = 0; i < count_of(number); i++)
		in[m->rank][i] = input(number, m->rank, i);
	return rdmamsg_team_allreduce(m->team, op_of(number), type_of(number),
				      in[m->rank], out_of(m, number),
				      count_of(number), m);
}

static void begin(struct member *m, uint32_t number)
{
	const int ret = number % 3 == 0 ? begin_broadcast(m, number) :
			number % 3 == 1 ? begin_allreduce(m, number) :
			rdmamsg_team_barrier(m->team, m);

	if (ret)
		note("member %u: %s", m->rank, rdmamsg_error());
}

static void check(const struct member *m, uint32_t number)
{
	const uint64_t *sum = out_of(m, number);

	if (number % 3 == 0 && memcmp(buf_of(m, number), pattern(number),
				      lens[number / 3 % ARRAY_SIZE(lens)]))
		note("member %u, broadcast %u: other bytes", m->rank, number);
	for (uint32_t i = 0; number % 3 == 1 && i < count_of(number); i++)
		if (sum[i] != model(op_of(number), type_of(number), number, i))
			note("member %u, all-reduce %u: element %u", m->rank,
			     number, i);
}

static void operations__of_both_kinds_in_turn_SAME_RESULTS(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 5, 8, 9, 16 };

	mesh_take((struct mesh_way){ native.asks, native.takes });
	for (uint32_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		mesh_open(sizes[s], NONE);
		mesh_teams();
		mesh_race(OPERATIONS, begin, check);
		mesh_close();
	}
}

/* ---- what runs in the device ------------------------------------------ */

static uint64_t messages(void)
{
	uint64_t ret = 0;

	for (uint32_t i = 0; i < mesh_size; i++) {
		struct rdmamsg_stats c = { .size = sizeof(c) };

		assert_int_equal(rdmamsg_get_stats(members[i].ctx, &c), 0);
		ret += c.msgs_sent;
	}
	return ret;
}

static bool fits(uint32_t number)
{
	switch (number % 3) {
	case 0:
		return lens[number / 3 % ARRAY_SIZE(lens)] <= 4096;
	case 1:
		return count_of(number) <= 32 &&
		       op_of(number) <= RDMAMSG_CALC_XOR &&
		       (op_of(number) != RDMAMSG_CALC_ADD ||
			type_of(number) != RDMAMSG_CALC_DOUBLE);
	default:
		return true;
	}
}

static void operations__that_fit_SEND_NO_MESSAGES(void **state)
{
	uint32_t in_device = 0;

	mesh_take(native);
	mesh_open(3, NONE);
	mesh_teams();
	for (uint32_t k = 0; k < OPERATIONS; k++) {
		const uint64_t before = messages();

		for (uint32_t i = 0; i < 3; i++)
			begin(&members[i], k);
		assert_ended(k + 1);
		for (uint32_t i = 0; i < 3; i++)
			check(&members[i], k);
		if (fits(k) != (messages() == before))
			fail_msg("operation %u: it %s, and %u messages", k,
				 fits(k) ? "fits" : "does not fit",
				 (unsigned int)(messages() - before));
		in_device += fits(k);
	}
	assert_true(in_device > OPERATIONS / 3 && in_device < OPERATIONS);
	mesh_close();
}

/* Waits for the descriptors with poll(2), then lets each context work once. */
static bool ends_alone(unsigned int count)
{
	struct pollfd fds[MESH_MAX];
	bool ret;

	for (uint32_t i = 0; i < mesh_size; i++)
		fds[i] = (struct pollfd){
			.fd = rdmamsg_fd(members[i].ctx), .events = POLLIN,
		};
	barriers(0, mesh_size);
	for (uint32_t i = 0; i < mesh_size; i++)
		assert_int_equal(poll(&fds[i], 1, WAIT_MS), 1);
	for (uint32_t i = 0; i < mesh_size; i++)
		assert_true(rdmamsg_process(members[i].ctx) >= 0);
	ret = mesh_all_done(count);
	assert_ended(count);
	return ret;
}

/*
 * In the loop, member 0 needs a message that another member sends only after it
 * has worked once. A timer of the library can end the wait for a descriptor too
 * early, so a native barrier has several attempts.
 */
static void barrier__without_calls_of_the_program_ENDS(void **state)
{
	bool alone = false;

	mesh_take(native);
	mesh_open(8, NONE);
	mesh_teams();
	for (unsigned int i = 1; i <= 100 && !alone; i++)
		alone = ends_alone(i);
	assert_true(alone);
	mesh_close();

	mesh_take((struct mesh_way){ RDMAMSG_CHAIN_LOOP, RDMAMSG_CHAIN_LOOP,
				     true });
	mesh_open(8, NONE);
	mesh_teams();
	for (unsigned int i = 1; i <= 10; i++)
		assert_false(ends_alone(i));
	mesh_close();
}

/* Each member in turn drives only its own context. */
static void barrier__one_member_waits_after_the_other_ENDS(void **state)
{
	mesh_take(native);
	mesh_open(5, NONE);
	mesh_teams();
	for (unsigned int round = 1; round <= 20; round++) {
		barriers(0, 5);
		for (uint32_t i = 0; i < 5; i++)
			assert_int_equal(rdmamsg_team_wait(
				members[(i + round) % 5].team, WAIT_MS), 0);
		assert_true(mesh_all_done(round));
	}
	mesh_close();
}

/* ---- handlers --------------------------------------------------------- */

#define BROADCASTS	40u

static uint32_t root;

static void next_broadcast(struct member *m)
{
	uint8_t *const buf = bufs[m->rank];

	if (m->rank != root && memcmp(buf, pattern(m->done - 1), 100))
		note("member %u: other bytes", m->rank);
	if (m->done == BROADCASTS || m->rank != root)
		return;
	memcpy(buf, pattern(m->done), 100);
	if (rdmamsg_team_broadcast(m->team, buf, 100, root, m))
		note("%s", rdmamsg_error());
}

static bool is_ahead(const struct member *m)
{
	return members[root].done == BROADCASTS ||
	       members[root].done >= m->done + AHEAD;
}

/* The other members begin a broadcast when the root has ended AHEAD more. */
static void race_behind_root(void)
{
	uint32_t begun[MESH_MAX] = { 0 };
	const uint64_t end = now_ms() + WAIT_MS;

	for (uint32_t i = 0; i < mesh_size; i++) {
		members[i].done = 0;
		members[i].then_done = next_broadcast;
	}
	memcpy(bufs[root], pattern(0), 100);
	assert_int_equal(rdmamsg_team_broadcast(members[root].team, bufs[root],
						100, root, &members[root]), 0);
	while (!mesh_all_done(BROADCASTS)) {
		for (uint32_t i = 0; i < mesh_size; i++) {
			struct member *m = &members[i];

			assert_true(rdmamsg_poll(m->ctx) >= 0);
			if (i == root || begun[i] > m->done ||
			    m->done == BROADCASTS || !is_ahead(m))
				continue;
			begun[i]++;
			assert_int_equal(rdmamsg_team_broadcast(m->team,
				bufs[i], 100, root, m), 0);
		}
		check_notes();
		assert_true(now_ms() < end);
	}
}

static void broadcast__root_far_ahead_ARRIVES(void **state)
{
	mesh_take(native);
	for (uint32_t size = 2; size <= 8; size += 3) {
		mesh_open(size, NONE);
		mesh_teams();
		for (root = 0; root < size; root += 2)
			race_behind_root();
		mesh_close();
	}
}

static void destroy_team(struct member *m)
{
	if (m->done != 3) {
		barriers(m->rank, m->rank + 1);
		return;
	}
	rdmamsg_team_destroy(m->team);
	m->team = NULL;
}

static void destroy__in_on_done_AND_AGAIN(void **state)
{
	mesh_take((struct mesh_way){ native.asks, native.takes });
	mesh_open(5, NONE);
	for (uint32_t i = 0; i < 5; i++)
		members[i].then_done = destroy_team;
	for (uint32_t times = 0; times < 3; times++) {
		for (uint32_t i = 0; i < 5; i++)
			members[i].done = 0;
		mesh_teams();
		barriers(0, 5);
		assert_ended(3);
	}
	mesh_close();
}

/* ---- teams ------------------------------------------------------------ */

/* Each team has the same endpoints, but members are destroyed in turn. */
static void teams__one_after_the_other_NATIVE(void **state)
{
	mesh_take(native);
	mesh_open(5, NONE);
	for (uint32_t times = 0; times < 4; times++) {
		mesh_teams();
		for (uint32_t i = 0; i < 5; i++)
			members[i].done = 0;
		mesh_race(20, begin, check);
		for (uint32_t i = 0; i < 5; i++) {
			struct member *m = &members[(i + times) % 5];

			assert_int_equal(rdmamsg_team_path(m->team),
					 RDMAMSG_CHAIN_NATIVE);
			rdmamsg_team_destroy(m->team);
			m->team = NULL;
			test_pump(0);
		}
	}
	mesh_close();
}

static unsigned int ended;

static void on_chain_done(struct rdmamsg_chain *chain,
			  const struct rdmamsg_chain_end *end)
{
	if (end->status)
		note("chain: %s", end->text);
	ended++;
}

static struct rdmamsg_chain *new_chain(uint32_t rank, uint32_t path)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_chain_done,
	};
	const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on, .path = path,
	};
	struct rdmamsg_chain *ret;

	assert_int_equal(rdmamsg_chain_create(members[rank].ctx, &opts, &ret),
			 0);
	return ret;
}

/* Member 0 sends a number to member 1, in a chain of each. */
static void run_chains(uint32_t path)
{
	struct rdmamsg_chain *a = new_chain(0, path), *b = new_chain(1, path);
	uint64_t x = 4711, got = 0;

	assert_int_equal(chain_send(a, 0, members[0].links[1].ep, &x, 8,
				    7), 0);
	assert_int_equal(rdmamsg_chain_recv(b, 0, members[1].links[0].ep, &got,
					    8, 7), 0);
	ended = 0;
	for (unsigned int times = 1; times <= 3; times++) {
		got = 0;
		assert_int_equal(rdmamsg_chain_post(a), 0);
		assert_int_equal(rdmamsg_chain_post(b), 0);
		WAIT_FOR(ended == 2 * times);
		assert_int_equal(got, 4711);
	}
	assert_int_equal(rdmamsg_chain_path(a), path);
	assert_int_equal(rdmamsg_chain_path(b), path);
	rdmamsg_chain_destroy(a);
	rdmamsg_chain_destroy(b);
}

static void run_team(struct mesh_way way)
{
	mesh_take(way);
	mesh_teams();
	for (uint32_t i = 0; i < mesh_size; i++)
		members[i].done = 0;
	mesh_race(20, begin, check);
	for (uint32_t i = 0; i < mesh_size; i++) {
		rdmamsg_team_destroy(members[i].team);
		members[i].team = NULL;
	}
}

static void teams_and_chains__over_the_same_endpoints_OK(void **state)
{
	const struct mesh_way loop = { RDMAMSG_CHAIN_LOOP, RDMAMSG_CHAIN_LOOP,
				       true };

	mesh_take(native);
	mesh_open(3, NONE);
	run_team(loop);
	run_chains(RDMAMSG_CHAIN_LOOP);
	run_team(native);
	run_chains(RDMAMSG_CHAIN_NATIVE);
	run_chains(RDMAMSG_CHAIN_LOOP);
	run_team(loop);
	run_team(native);
	run_team(native);
	run_chains(RDMAMSG_CHAIN_NATIVE);
	run_chains(RDMAMSG_CHAIN_NATIVE);
	run_team(native);
	mesh_close();
}

/* The first operation has not begun. */
static void destroy__before_the_first_operation_OK(void **state)
{
	mesh_take((struct mesh_way){ native.asks, native.takes });
	mesh_open(3, NONE);
	mesh_teams();
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rdmamsg_team_path(members[i].team),
				 RDMAMSG_CHAIN_AUTO);
		rdmamsg_team_destroy(members[i].team);
	}
	mesh_teams();
	barriers(0, 3);
	assert_ended(1);
	mesh_close();
}

static void team__of_one_member_OK(void **state)
{
	mesh_take(cannot);
	mesh_open(1, NONE);
	mesh_teams();
	mesh_race(OPERATIONS, begin, check);
	assert_int_equal(rdmamsg_team_path(members[0].team),
			 RDMAMSG_CHAIN_LOOP);
	mesh_close();
}

static void team__of_32_NATIVE_of_33_IN_THE_LOOP(void **state)
{
	for (uint32_t size = 32; size <= 33; size++) {
		mesh_take((struct mesh_way){
			RDMAMSG_CHAIN_NATIVE, size == 32 ?
			RDMAMSG_CHAIN_NATIVE : RDMAMSG_CHAIN_LOOP,
		});
		mesh_open(size, NONE);
		mesh_teams();
		mesh_race(20, begin, check);
		mesh_close();
	}
}

/* ---- the end ---------------------------------------------------------- */

static void close__of_contexts_with_native_teams_ALL_FREED(void **state)
{
	mesh_take(native);
	for (uint32_t begun = 0; begun <= 3; begun++) {
		mesh_open(3, NONE);
		mesh_teams();
		barriers(0, begun);
		for (uint32_t i = 0; i < 3; i++) {
			test_close(members[i].ctx);
			members[i].ctx = NULL;
		}
	}
}

static void abort__of_a_connection_while_idle_FAILS_ALL(void **state)
{
	mesh_take(native);
	mesh_open(5, NONE);
	mesh_teams();
	rdmamsg_ep_abort(members[1].links[2].ep);
	for (uint32_t i = 0; i < 5; i++) {
		const struct rdmamsg_team_failure *r =
			rdmamsg_team_reason(members[i].team);

		WAIT_FOR(r->error);
		assert_int_equal(r->rank, 1);
		assert_error(rdmamsg_team_barrier(members[i].team, &members[i]),
			     r->error, r->text);
	}
	mesh_close();
}

static void device__removed_in_the_operation_FAILS_ALL(void **state)
{
	mesh_take(native);
	harm_find();
	mesh_open(5, NONE);
	mesh_teams();
	barriers(0, 4);
	harm_remove();
	WAIT_FOR(members[0].done && members[1].done && members[2].done &&
		 members[3].done);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(members[i].status,
				 rdmamsg_team_reason(members[i].team)->error);
	WAIT_FOR(rdmamsg_team_reason(members[4].team)->error);
	WAIT_FOR(harm_removed());
	harm_add();
	mesh_close();
}

/* ---- members that differ ---------------------------------------------- */

static void assert_all_EPROTO(void)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		WAIT_FOR(members[i].done &&
			 rdmamsg_team_reason(members[i].team)->error);
	for (uint32_t i = 0; i < mesh_size; i++)
		assert_int_equal(rdmamsg_team_reason(members[i].team)->error,
				 -EPROTO);
}

/* Member 'odd' asks for one path, and all others ask for the other. */
static void ask(uint32_t size, uint32_t odd, uint32_t path)
{
	mesh_open(size, NONE);
	for (uint32_t i = 0; i < size; i++) {
		mesh_way.asks = (i == odd) == (path == RDMAMSG_CHAIN_NATIVE) ?
				RDMAMSG_CHAIN_NATIVE : RDMAMSG_CHAIN_LOOP;
		mesh_team(i);
	}
	barriers(0, size);
	assert_all_EPROTO();
	for (uint32_t i = 0; i < size; i++)
		assert_int_equal(members[i].status, -EPROTO);
	mesh_close();
}

static void path__not_asked_by_all_EPROTO(void **state)
{
	mesh_take((struct mesh_way){ native.asks, native.takes });
	for (uint32_t size = 2; size <= 5; size++)
		for (uint32_t odd = 0; odd < size; odd++) {
			ask(size, odd, RDMAMSG_CHAIN_NATIVE);
			ask(size, odd, RDMAMSG_CHAIN_LOOP);
		}
}

/* Member 2 is the root of a broadcast of 'its' bytes, the others of 'theirs' */
static void differ(size_t its, size_t theirs)
{
	mesh_open(3, NONE);
	mesh_teams();
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_team_broadcast(members[i].team,
			bufs[i], i == 2 ? its : theirs, 2, &members[i]), 0);
	assert_all_EPROTO();
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(members[i].status, -EPROTO);
	mesh_close();
}

static void differ_in_all_ways(void)
{
	differ(8, 4096);
	differ(4096, 8);
	differ(8, 5000);
	differ(5000, 8);
	differ(8, 100000);
	differ(100000, 8);
}

/* In the first operation nothing has run natively yet. */
static void operations__one_in_the_device_one_in_the_loop_EPROTO(void **state)
{
	mesh_take(native);
	differ_in_all_ways();
	mesh_take((struct mesh_way){ native.asks, native.takes });
	differ_in_all_ways();
}

/* ---- who cannot ------------------------------------------------------- */

/*
 * Channels do not move to another path. Devices without cross-channel queue
 * pairs need no such reason.
 */
static void native__where_it_cannot_be_IN_THE_LOOP(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};

	mesh_take(cannot);
	if (test_on_soft())
		mesh_failover = &failover;
	mesh_open(3, NONE);
	mesh_teams();
	mesh_race(60, begin, check);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_team_path(members[i].team),
				 RDMAMSG_CHAIN_LOOP);
	mesh_close();
}

static void create__no_such_path_EINVAL(void **state)
{
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts), .path = RDMAMSG_CHAIN_NATIVE + 1,
	};
	struct rdmamsg_ep *eps[2] = { NULL };
	struct rdmamsg_team *team;

	mesh_take((struct mesh_way){ RDMAMSG_CHAIN_LOOP, RDMAMSG_CHAIN_LOOP });
	mesh_open(2, NONE);
	eps[1] = members[0].links[1].ep;
	assert_error(rdmamsg_team_create(members[0].ctx, &opts, eps, 2, 0,
					 &team), -EINVAL, "path 3");
	mesh_close();
}

static const struct CMUnitTest tests[] = {
	TEST(operations__of_both_kinds_in_turn_SAME_RESULTS),
	TEST(operations__that_fit_SEND_NO_MESSAGES),
	TEST(barrier__without_calls_of_the_program_ENDS),
	TEST(barrier__one_member_waits_after_the_other_ENDS),
	TEST(broadcast__root_far_ahead_ARRIVES),
	TEST(destroy__in_on_done_AND_AGAIN),
	TEST(teams__one_after_the_other_NATIVE),
	TEST(teams_and_chains__over_the_same_endpoints_OK),
	TEST(destroy__before_the_first_operation_OK),
	TEST(team__of_one_member_OK),
	TEST(team__of_32_NATIVE_of_33_IN_THE_LOOP),
	TEST(close__of_contexts_with_native_teams_ALL_FREED),
	TEST(abort__of_a_connection_while_idle_FAILS_ALL),
	TEST(device__removed_in_the_operation_FAILS_ALL),
	TEST(path__not_asked_by_all_EPROTO),
	TEST(operations__one_in_the_device_one_in_the_loop_EPROTO),
	TEST(native__where_it_cannot_be_IN_THE_LOOP),
	TEST(create__no_such_path_EINVAL),
};

int main(int argc, char **argv)
{
	return test_main(tests, NULL, argc, argv);
}
