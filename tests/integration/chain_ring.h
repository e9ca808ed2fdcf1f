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
			chain_send(chains[i], 0, next, &x[i], 8, 0);
		rdmamsg_chain_recv(chains[i], 0, last, &got[i], 8, 0);
		if (!i)
			continue;
		rdmamsg_chain_calc(chains[i], 0, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &got[i], &x[i], &got[i],
				   1);
		chain_send(chains[i], 0, next, &got[i], 8, 0);
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
		chain_send(chains[i], 0, members[i].links[0].ep, &x[i],
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

/* ---- held receives ----------------------------------------------------- */

static void must_be_ok(struct rdmamsg_chain *c)
{
	(void)c;
	for (int i = 0; i < 2; i++)
		if (done[i].count && done[i].end.status)
			note("a chain has ended: %s", done[i].end.text);
}

static void post_chain(struct rdmamsg_chain *c)
{
	if (rdmamsg_chain_post(c))
		fail_msg("rdmamsg_chain_post: %s", rdmamsg_error());
}

/*
 * The receive of member 0 is in a managed queue. Its message is there, and
 * nothing but the receive holds the reply. A message of member 1 enables it.
 */
static void held(uint32_t how)
{
	struct rdmamsg_chain *hold, *gate, *data, *ping, *pong;
	uint64_t x[3] = { 4, 5, 6 }, got[3], there[2];
	unsigned int ended = 0;

	if (how == RDMAMSG_CHAIN_NATIVE)
		need_native();
	memset(done, 0, sizeof(done));
	then_done = must_be_ok;
	mesh_open(3, MESH_MAX);
	hold = chain_with(members[0].ctx, how, 0);
	rdmamsg_chain_recv(hold, 0, members[0].links[1].ep, &got[0], 8, 0);
	rdmamsg_chain_enable(hold, 0, 1, 1);
	rdmamsg_chain_recv(hold, 1, members[0].links[2].ep, &got[1], 8, 0);
	rdmamsg_chain_wait(hold, 2, 1, 1);
	chain_send(hold, 2, members[0].links[2].ep, &x[0], 8, 0);
	gate = chain_with(members[1].ctx, how, 0);
	chain_send(gate, 0, members[1].links[0].ep, &x[1], 8, 0);
	data = chain_with(members[2].ctx, how, 0);
	chain_send(data, 0, members[2].links[0].ep, &x[2], 8, 0);
	other = chain_with(members[2].ctx, how, 0);
	rdmamsg_chain_recv(other, 0, members[2].links[0].ep, &got[2], 8, 0);
	/* meanwhile the others talk, so the device has time for the reply */
	ping = chain_with(members[1].ctx, how, 0);
	chain_send(ping, 0, members[1].links[2].ep, &x[0], 8, 0);
	rdmamsg_chain_recv(ping, 0, members[1].links[2].ep, &there[0], 8, 0);
	pong = chain_with(members[2].ctx, how, 0);
	rdmamsg_chain_recv(pong, 0, members[2].links[1].ep, &there[1], 8, 0);
	chain_send(pong, 0, members[2].links[1].ep, &x[0], 8, 0);
	for (unsigned int run = 0; run < 10; run++) {
		memset(got, 0, sizeof(got));
		post_chain(hold);
		if (!run)
			post_chain(gate);	/* the endpoints meet */
		post_chain(data);
		ended += run ? 1 : 3;
		WAIT_FOR(done[0].count == ended);
		post_chain(other);
		for (int i = 0; i < 5 && run; i++) {
			post_chain(ping);
			post_chain(pong);
			ended += 2;
			WAIT_FOR(done[0].count >= ended);
			assert_int_equal(done[0].count, ended);
			assert_int_equal(done[1].count, run);
		}
		if (run) {
			post_chain(gate);
			ended += 2;
		}
		WAIT_FOR(done[0].count == ended && done[1].count == run + 1);
		assert_int_equal(got[0], x[1]);
		assert_int_equal(got[1], x[2]);
		assert_int_equal(got[2], x[0]);
		assert_int_equal(rdmamsg_chain_path(hold), how);
	}
	rdmamsg_chain_destroy(hold);
	rdmamsg_chain_destroy(gate);
	rdmamsg_chain_destroy(data);
	rdmamsg_chain_destroy(other);
	rdmamsg_chain_destroy(ping);
	rdmamsg_chain_destroy(pong);
	mesh_close();
	then_done = NULL;
}

#endif
