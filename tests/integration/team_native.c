/* SPDX-License-Identifier: BSD-2-Clause */
/* Teams whose operations run natively, and members that leave. */
#include "mesh.h"

#include <rdmamsg/device.h>

static uint64_t in[MESH_MAX], out[MESH_MAX];

/* Opens a team, or skips the case if the device has no native chains. */
static void start(uint32_t size, uint32_t absent)
{
	struct rdmamsg_cap cap = { .size = sizeof(cap) };

	assert_int_equal(rdmamsg_cap_query(test_device(), RDMAMSG_CAP_CHAINS,
					   &cap), 0);
	if (cap.how != RDMAMSG_CAP_NATIVE)
		skip_because("the device has no native chains");
	mesh_path = RDMAMSG_CHAIN_NATIVE;
	mesh_open(size, absent);
}

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
	start(3, MESH_MAX);
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

/* The root has no step after its sends, so it may close. */
static void close__after_the_broadcast_ARRIVES(void **state)
{
	uint64_t x[2] = { 0 };

	start(2, MESH_MAX);
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

static const struct CMUnitTest tests[] = {
	TEST(close__before_the_next_operation_ESHUTDOWN),
	TEST(close__after_the_broadcast_ARRIVES),
};

static const struct role roles[] = { { NULL } };

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
