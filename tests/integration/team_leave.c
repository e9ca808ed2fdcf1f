/* SPDX-License-Identifier: BSD-2-Clause */
/* Native teams whose members leave, die or sleep. */
#include "mesh.h"

#include <signal.h>
#include <sys/wait.h>

static uint64_t in[MESH_MAX], out[MESH_MAX];

static const struct mesh_way native = {
	RDMAMSG_CHAIN_NATIVE, RDMAMSG_CHAIN_NATIVE, false,
};

/* Each member adds 10 to the power of its rank. */
static void begin(uint32_t rank)
{
	in[rank] = 1;
	for (uint32_t i = 0; i < rank; i++)
		in[rank] *= 10;
	out[rank] = 0;
	if (rdmamsg_team_allreduce(members[rank].team, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &in[rank], &out[rank], 1,
				   &members[rank]))
		fail_msg("%s", rdmamsg_error());
}

static void begin_all(void)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		if (members[i].ctx)
			begin(i);
}

/* ---- leaving ----------------------------------------------------------- */

/* Member 1 ends its operation, and closes before the others begin theirs. */
static void close__before_the_next_operation_ESHUTDOWN(void **state)
{
	mesh_take(native);
	mesh_open(3, MESH_MAX);
	mesh_teams();
	begin_all();
	WAIT_FOR(mesh_all_done(1));
	assert_int_equal(rdmamsg_team_path(members[0].team),
			 RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(out[i], 111);
	rdmamsg_ep_close(members[1].links[0].ep);
	WAIT_FOR(!members[1].links[0].ep && !members[0].links[1].ep);
	begin_all();
	WAIT_FOR(mesh_all_done(2));
	assert_int_equal(members[0].status, -ESHUTDOWN);
	assert_int_equal(rdmamsg_team_reason(members[0].team)->rank, 1);
	mesh_close();
}

/* A member shuts down in the operation, which the last member begins later. */
static void shutdown__in_the_operation_ENDS_IT_FIRST(void)
{
	mesh_open(4, MESH_MAX);
	mesh_teams();
	begin_all();
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t i = 0; i < 3; i++)
		begin(i);
	assert_int_equal(rdmamsg_shutdown(members[1].ctx, -1), 0);
	while (!test_idle())
		test_pump(1);
	assert_int_equal(members[1].done, 1);
	begin(3);
	WAIT_FOR(mesh_all_done(2));
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(members[i].status, 0);
		assert_int_equal(out[i], 1111);
	}
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			WAIT_FOR(!members[i].links[1].ep);
	assert_error(rdmamsg_team_barrier(members[1].team, NULL), -ESHUTDOWN,
		     "");
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			assert_int_equal(members[i].links[1].why.cause,
					 RDMAMSG_CAUSE_CLOSED);
	mesh_close();
}

static void shutdown__in_native_operation_ENDS_IT_FIRST(void **state)
{
	mesh_take(native);
	shutdown__in_the_operation_ENDS_IT_FIRST();
}

static void shutdown__in_loop_operation_ENDS_IT_FIRST(void **state)
{
	mesh_take((struct mesh_way){ RDMAMSG_CHAIN_LOOP, RDMAMSG_CHAIN_LOOP,
				     false });
	shutdown__in_the_operation_ENDS_IT_FIRST();
}

/* The root has no step after its sends, so it may close. */
static void close__after_the_broadcast_ARRIVES(void **state)
{
	uint64_t x[2] = { 0 };

	mesh_take(native);
	mesh_open(2, MESH_MAX);
	mesh_teams();
	begin_all();
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t n = 1; n <= 2; n++) {
		x[0] = 4711 * n;
		assert_int_equal(rdmamsg_team_broadcast(members[0].team, &x[0],
							8, 0, &members[0]), 0);
		WAIT_FOR(members[0].done == 1 + n);
	}
	rdmamsg_ep_close(members[0].links[1].ep);
	WAIT_FOR(!members[1].links[0].ep && !members[0].links[1].ep);
	for (uint32_t n = 1; n <= 2; n++) {
		assert_int_equal(rdmamsg_team_broadcast(members[1].team, &x[1],
							8, 0, &members[1]), 0);
		WAIT_FOR(members[1].done == 1 + n);
		assert_int_equal(members[1].status, 0);
		assert_int_equal(x[1], 4711 * n);
	}
	mesh_close();
}

/* ---- other processes --------------------------------------------------- */

/* arg: its rank, the team's size and the ports of the others */
static void join_as_child(char *arg)
{
	uint32_t rank = (uint32_t)atoi(strtok(arg, " "));
	uint32_t size = (uint32_t)atoi(strtok(NULL, " "));

	mesh_way = native;
	mesh_member(rank, size);
	for (uint32_t i = 0; i < size; i++)
		if (i != rank)
			mesh_dial(rank, i, strtok(NULL, " "));
	WAIT_FOR(members[rank].connected == size - 1);
	mesh_teams();
	begin(rank);
	WAIT_FOR(members[rank].done);
}

static int role_victim(int argc, char **argv)
{
	join_as_child(argv[0]);
	say("done\n");
	/* until the parent kills this process, or has died itself */
	while (getppid() != 1)
		test_pump(1000);
	return 1;
}

/* Begins an operation, and calls nothing until the others have ended it. */
static int role_sleeper(int argc, char **argv)
{
	uint32_t rank = (uint32_t)atoi(argv[0]);
	char line[8];

	join_as_child(argv[0]);
	/* without a wait, the device leaves its work to a program that polls */
	for (int i = 0; i < 1000; i++)
		(void)rdmamsg_poll(members[rank].ctx);
	begin(rank);
	say("begun\n");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	WAIT_FOR(members[rank].done == 2);
	if (members[rank].status)
		return 2;
	mesh_close();
	return 0;
}

static const struct role roles[] = {
	{ "victim", role_victim }, { "sleeper", role_sleeper }, { NULL },
};

static void all_connected(uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		WAIT_FOR(!members[i].ctx || members[i].connected == size - 1);
}

/* Runs an operation with a member in another process, until its first line. */
static void start_with(struct child *child, const char *role, uint32_t size,
		       uint32_t rank)
{
	char arg[200], line[32];
	int len;

	mesh_open(size, rank);
	len = snprintf(arg, sizeof(arg), "%u %u", rank, size);
	for (uint32_t i = 0; i < size; i++)
		if (i != rank)
			len += snprintf(arg + len, sizeof(arg) - (size_t)len,
					" %s", members[i].port);
	child_start(child, role, arg);
	all_connected(size);
	mesh_teams();
	begin_all();
	child_line(child, line, sizeof(line));
	WAIT_FOR(mesh_all_done(1));
}

/*
 * The victim dies after an operation. The others begin the next one before they
 * know. An operation that ends without an error has the numbers of all members.
 */
static void kill_between(uint32_t size, uint32_t victim)
{
	uint64_t sum = 0;
	struct child child;

	mesh_take(native);
	mesh_ack_timeout = 14;
	for (uint32_t i = 0; i < size; i++)
		sum = 10 * sum + 1;
	start_with(&child, "victim", size, victim);
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	/* the devices see it, and the programs do not yet */
	assert_int_equal(waitid(P_PID, (id_t)child.pid, &(siginfo_t){ 0 },
				WEXITED | WNOWAIT), 0);
	begin_all();
	/* requests that need the victim fail in 0.6 s, while nobody looks */
	(void)usleep(900000);
	child_wait(&child);
	WAIT_FOR(mesh_all_done(2));
	for (uint32_t i = 0; i < size; i++)
		if (members[i].ctx && !members[i].status)
			assert_int_equal(out[i], sum);
	mesh_close();
}

static void kill__between_operations_NO_WRONG_SUM(void **state)
{
	texts_are_fine = true;
	for (uint32_t victim = 0; victim < 3; victim++)
		kill_between(3, victim);
	kill_between(4, 0);
	mesh_ack_timeout = 0;
}

/* Its device receives, adds and sends. */
static void allreduce__a_program_sleeps_ENDS(void **state)
{
	for (uint32_t rank = 0; rank < 3; rank++) {
		struct child child;

		mesh_take(native);
		start_with(&child, "sleeper", 3, rank);
		begin_all();
		WAIT_FOR(mesh_all_done(2));
		for (uint32_t i = 0; i < 3; i++)
			if (members[i].ctx)
				assert_int_equal(out[i], 111);
		child_say(&child, "go\n");
		mesh_close();
		assert_int_equal(child_wait(&child), 0);
	}
}

static const struct CMUnitTest tests[] = {
	TEST(close__before_the_next_operation_ESHUTDOWN),
	TEST(shutdown__in_native_operation_ENDS_IT_FIRST),
	TEST(shutdown__in_loop_operation_ENDS_IT_FIRST),
	TEST(close__after_the_broadcast_ARRIVES),
	TEST(allreduce__a_program_sleeps_ENDS),
	TEST(kill__between_operations_NO_WRONG_SUM),
};

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
