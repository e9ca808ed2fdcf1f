/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains of three members, each with an endpoint to each other one. */
#ifndef RDMAMSG_TESTS_INTEGRATION_CHAIN_RING_H
#define RDMAMSG_TESTS_INTEGRATION_CHAIN_RING_H

/* ---- several endpoints ------------------------------------------------ */

/*
 * A ring of three members: each adds its number to what comes, and sends it on.
 * The first sends what it has, and receives the sum.
 */
static void ring(uint32_t how)
{
	struct rdmamsg_chain *chains[3];
	uint64_t x[3] = { 1, 10, 100 }, got[3] = { 0 };

	if (how == RDMAMSG_CHAIN_NATIVE)
		need_native();
	memset(done, 0, sizeof(done));
	other = NULL;
	mesh_open(3, MESH_MAX);
	for (uint32_t i = 0; i < 3; i++) {
		struct rdmamsg_ep *next = members[i].links[(i + 1) % 3].ep;
		struct rdmamsg_ep *last = members[i].links[(i + 2) % 3].ep;

		chains[i] = chain_with(members[i].ctx, how, 0);
		if (!i)
			rdmamsg_chain_send(chains[i], 0, next, &x[i], 8, 0);
		rdmamsg_chain_recv(chains[i], 0, last, &got[i], 8, 0);
		if (!i)
			continue;
		rdmamsg_chain_calc(chains[i], 0, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &got[i], &x[i], &got[i],
				   1);
		rdmamsg_chain_send(chains[i], 0, next, &got[i], 8, 0);
	}
	for (unsigned int run = 1; run <= 20; run++) {
		x[0] = run;
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(rdmamsg_chain_post(chains[i]), 0);
		WAIT_FOR(done[0].count == 3 * run);
		assert_int_equal(done[0].end.status, 0);
		assert_int_equal(got[0], run + 110);
		assert_int_equal(rdmamsg_chain_path(chains[0]), how);
	}
	for (uint32_t i = 0; i < 3; i++)
		rdmamsg_chain_destroy(chains[i]);
	mesh_close();
}

/*
 * Member 0 receives from both others. Member 1 ends its run and closes while
 * member 0 still meets member 2, which calls nothing meanwhile.
 */
static void close__while_the_peer_meets_another_ARRIVES(void **state)
{
	struct rdmamsg_chain *chains[3];
	uint64_t x[3] = { 0, 1, 2 }, got[3] = { 0 };

	need_native();
	memset(done, 0, sizeof(done));
	mesh_open(3, MESH_MAX);
	for (uint32_t i = 0; i < 3; i++)
		chains[i] = chain_with(members[i].ctx, RDMAMSG_CHAIN_NATIVE, 0);
	for (uint32_t i = 1; i < 3; i++) {
		rdmamsg_chain_recv(chains[0], 0, members[0].links[i].ep,
				   &got[i], 8, 0);
		rdmamsg_chain_send(chains[i], 0, members[i].links[0].ep, &x[i],
				   8, 0);
	}
	other = chains[1];
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_chain_post(chains[i]), 0);
	for (uint64_t end = now_ms() + WAIT_MS;
	     members[0].links[1].ep && now_ms() < end; ) {
		test_drive(members[0].ctx);
		test_drive(members[1].ctx);
		if (done[1].count && members[1].links[0].ep)
			rdmamsg_ep_close(members[1].links[0].ep);
		(void)usleep(100);
	}
	assert_int_equal(done[1].end.status, 0);
	assert_null(members[0].links[1].ep);
	assert_int_equal(done[0].count, 0);
	WAIT_FOR(done[0].count == 2);
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(got[1], 1);
	assert_int_equal(got[2], 2);
	for (uint32_t i = 0; i < 3; i++)
		rdmamsg_chain_destroy(chains[i]);
	mesh_close();
}

#endif
