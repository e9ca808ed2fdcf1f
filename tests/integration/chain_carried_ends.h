/* SPDX-License-Identifier: BSD-2-Clause */
/* Carried runs that end early, and their endpoints. */
#ifndef RDMAMSG_TESTS_INTEGRATION_CHAIN_CARRIED_ENDS_H
#define RDMAMSG_TESTS_INTEGRATION_CHAIN_CARRIED_ENDS_H

/* ---- other messages ---------------------------------------------------- */

/* The run of the receiver ends, and so does the endpoint. */
static const struct {
	size_t sent, wanted;
	uint32_t sent_tag;
	bool lacks;			/* the receiver's chain */
	const char *text;
} others[] = {
	{ 8, 16, 1, true, "sent 8 bytes with tag 1 instead of 16 bytes" },
	{ 8, 8, 2, true, "with tag 2 instead of 8 bytes with tag 1" },
	{ 5000, 4096, 1, true, "sent 5000 bytes with tag 1" },
	{ 4096, 5000, 1, true, "sent 4096 bytes with tag 1" },
	{ 5000, 8200, 1, true, "sent 5000 bytes with tag 1" },
	{ 5000, 8, 1, false, "sent 5000 bytes with tag 1 instead of 8 bytes" },
	{ 8, 9, 1, false, "sent 8 bytes with tag 1 instead of 9 bytes" },
};

static void recv__other_tag_or_length_EPROTO(void **state)
{
	static uint8_t out[8200], in[8200];

	for (uint32_t i = 0; i < ARRAY_SIZE(others); i++) {
		start(RDMAMSG_CHAIN_NATIVE);
		add_lack(chain);
		if (others[i].lacks)
			add_lack(other);
		chain_send(chain, 0, p.c.ep, out, others[i].sent,
			   others[i].sent_tag);
		rdmamsg_chain_recv(other, 0, p.s.ep, in, others[i].wanted, 1);
		begin_both();
		WAIT_FOR(done[1].count);
		assert_int_equal(done[1].end.status, -EPROTO);
		assert_int_equal(done[1].end.step, others[i].lacks);
		if (!strstr(done[1].end.text, others[i].text))
			fail_msg("'%s' lacks '%s'", done[1].end.text,
				 others[i].text);
		finish_closed();
		assert_non_null(strstr(p.s.why.text, "ended early"));
	}
}

/* ---- ends in the run --------------------------------------------------- */

/* Which chains have steps that devices lack: 1 client, 2 server, 3 both. */
#define EACH_KIND(kind)	for (int kind = 1; kind < 4; kind++)

/* Both runs wait for messages that do not come. */
static void start_waiting(int kind, uint32_t timeout_ms)
{
	start(RDMAMSG_CHAIN_NATIVE);
	if (timeout_ms) {
		rdmamsg_chain_destroy(chain);
		chain = chain_with(p.c.ctx, path, timeout_ms);
	}
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_chain *c = i ? other : chain;
		struct rdmamsg_ep *ep = i ? p.s.ep : p.c.ep;

		chain_send(c, 0, ep, &x[0], 8, 0);
		rdmamsg_chain_recv(c, 0, ep, &got[i], 8, 0);
		rdmamsg_chain_recv(c, 0, ep, &got[i], 8, 0);
		if (kind >> i & 1)
			add_lack(c);
	}
	x[0] = 4711;
	got[0] = got[1] = 0;
	begin_both();
	if (timeout_ms)
		return;
	/* a native run has its results in the end */
	WAIT_FOR((got[0] || !(kind & 1)) && (got[1] || !(kind & 2)));
	assert_int_equal(done[0].count, 0);
	assert_int_equal(done[1].count, 0);
}

static void assert_both_ended(int client, int server)
{
	WAIT_FOR(done[0].count && done[1].count);
	assert_int_equal(done[0].end.status, client);
	assert_int_equal(done[1].end.status, server);
	finish_closed();
}

static void cancel__in_the_run_BOTH_END(void **state)
{
	EACH_KIND(kind) {
		start_waiting(kind, 0);
		rdmamsg_chain_cancel(chain);
		assert_both_ended(-ECANCELED, -ECONNRESET);
	}
}

static void timeout__of_the_run_BOTH_END(void **state)
{
	EACH_KIND(kind) {
		start_waiting(kind, 100);
		assert_both_ended(-ETIMEDOUT, -ECONNRESET);
	}
}

static void abort__in_the_run_BOTH_END(void **state)
{
	EACH_KIND(kind) {
		start_waiting(kind, 0);
		rdmamsg_ep_abort(p.c.ep);
		assert_both_ended(-ECANCELED, -ECONNRESET);
	}
}

static void close__in_the_run_ESHUTDOWN(void **state)
{
	EACH_KIND(kind) {
		start_waiting(kind, 0);
		rdmamsg_ep_close(p.c.ep);
		assert_both_ended(-ESHUTDOWN, -ESHUTDOWN);
	}
}

static void destroy__in_the_run_PEER_ENDS(void **state)
{
	EACH_KIND(kind) {
		start_waiting(kind, 0);
		rdmamsg_chain_destroy(chain);
		chain = NULL;
		WAIT_FOR(done[1].count);
		assert_int_equal(done[1].end.status, -ECONNRESET);
		finish_closed();
	}
}

static void context_close__in_the_run_PEER_ENDS(void **state)
{
	EACH_KIND(kind) {
		start_waiting(kind, 0);
		test_close(p.c.ctx);
		p.c.ctx = NULL;
		assert_int_equal(done[0].end.status, -ECANCELED);
		WAIT_FOR(done[1].count && p.s.closed);
		assert_true(done[1].end.status < 0);
		rdmamsg_chain_destroy(other);
		pair_fini(&p);
	}
}

/* The peer has no more steps, so it may close before this side receives. */
static void close__peer_has_sent_all_OK(void **state)
{
	EACH_KIND(kind) {
		start(RDMAMSG_CHAIN_NATIVE);
		for (uint32_t i = 0; i < 5; i++) {
			x[i] = 10 + i;
			chain_send(other, 0, p.s.ep, &x[i], 8, i);
			rdmamsg_chain_recv(chain, 0, p.c.ep, &got[i], 8, i);
		}
		if (kind & 1)
			add_lack(chain);
		if (kind & 2)
			add_lack(other);
		run_both();
		memset(got, 0, sizeof(got));
		assert_int_equal(rdmamsg_chain_post(other), 0);
		WAIT_FOR(done[1].count == 2);
		rdmamsg_ep_close(p.s.ep);
		test_drive(p.s.ctx);
		assert_int_equal(rdmamsg_chain_post(chain), 0);
		WAIT_FOR(done[0].count == 2);
		assert_string_equal(done[0].end.text, "");
		assert_int_equal(done[1].end.status, 0);
		assert_memory_equal(got, x, 5 * 8);
		finish_closed();
	}
}

/* The peer closes, and does not take what this side has sent. */
static void close__sends_are_on_the_way_ESHUTDOWN(void **state)
{
	static uint64_t in[MANY];

	start(RDMAMSG_CHAIN_NATIVE);
	x[0] = 1;
	add_echo();
	run_echo();
	fresh_pair();
	for (uint32_t i = 0; i < MANY; i++)
		chain_send(chain, 0, p.c.ep, &x[0], 8, i);
	rdmamsg_chain_recv(other, 0, p.s.ep, in, 8, 0);
	begin_both();
	WAIT_FOR(done[1].count == 2);
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(done[0].count == 2);
	assert_int_equal(done[0].end.status, -ESHUTDOWN);
	finish_closed();
}

/* ---- another process --------------------------------------------------- */

static struct rdmamsg_chain *chain_of_member(uint32_t rank, bool lacks)
{
	struct rdmamsg_ep *ep = members[rank].links[!rank].ep;
	struct rdmamsg_chain *c = chain_with(members[rank].ctx,
					     RDMAMSG_CHAIN_NATIVE, 0);

	x[0] = 4711;
	for (uint32_t i = 0; i < 2; i++) {
		chain_send(c, 0, ep, &x[0], 8, i);
		rdmamsg_chain_recv(c, 0, ep, &got[rank], 8, i);
	}
	rdmamsg_chain_recv(c, 0, ep, &got[rank], 8, 3);
	if (lacks)
		add_lack(c);
	return c;
}

/* arg: the port of the parent, and whether the chain lacks */
static int role_victim(int argc, char **argv)
{
	const bool lacks = argv[0][0] == 'y';

	mesh_member(1, 2);
	mesh_dial(1, 0, argv[0] + 1);
	WAIT_FOR(members[1].connected);
	other = chain_of_member(1, lacks);
	assert_int_equal(rdmamsg_chain_post(other), 0);
	say("posted\n");
	/* until the parent kills this process, or has died itself */
	while (getppid() != 1)
		test_pump(1000);
	return 1;
}

static void kill__the_peer_RUN_ENDS(void **state)
{
	EACH_KIND(kind) {
		struct child child;
		char arg[16], line[16];

		need_native();
		memset(done, 0, sizeof(done));
		memset(got, 0, sizeof(got));
		mesh_ack_timeout = 14;
		mesh_open(2, 1);
		(void)snprintf(arg, sizeof(arg), "%c%s", kind & 2 ? 'y' : 'n',
			       members[0].port);
		child_start(&child, "victim", arg);
		child_line(&child, line, sizeof(line));
		WAIT_FOR(members[0].connected);
		other = NULL;
		chain = chain_of_member(0, kind & 1);
		assert_int_equal(rdmamsg_chain_post(chain), 0);
		WAIT_FOR(got[0] || !(kind & 1));
		assert_int_equal(kill(child.pid, SIGKILL), 0);
		assert_true(WIFSIGNALED(child_wait(&child)));
		WAIT_FOR(done[0].count && members[0].closed);
		assert_true(done[0].end.status < 0);
		/* over packets the channel may be the first to tell */
		if (!test_over_packets())
			assert_int_not_equal(done[0].end.status, -EIO);
		rdmamsg_chain_destroy(chain);
		mesh_close();
		mesh_ack_timeout = 0;
	}
}

/* ---- devices and endpoints --------------------------------------------- */

/* Chains that do not run keep no device: the same as without chains. */
static void remove__the_device_of_idle_chains_LETS_GO(void **state)
{
	int fds = 0;

	harm_find();
	for (int round = 0; round < 2; round++) {
		start(RDMAMSG_CHAIN_NATIVE);
		x[0] = 3;
		add_echo();
		add_lack(chain);
		add_lack(other);
		if (round)
			run_echo();
		rdmamsg_listener_close(p.listener);
		harm_remove();
		WAIT_FOR(p.s.closed && p.c.closed);
		WAIT_FOR(harm_removed());
		test_drive(p.c.ctx);
		test_drive(p.s.ctx);
		if (!round)
			fds = open_fds();
		WAIT_FOR(open_fds() <= fds);
		harm_add();
		finish_closed();
	}
}

/* Each of 'count' members sends member 0 a number, and gets the sum. */
static void run_star(uint32_t count)
{
	static uint64_t in[MESH_MAX], out[MESH_MAX], sum, one = 1;
	struct rdmamsg_chain *all[MESH_MAX];

	memset(done, 0, sizeof(done));
	other = NULL;
	for (uint32_t i = 0; i < count; i++)
		all[i] = chain_with(members[i].ctx, RDMAMSG_CHAIN_NATIVE, 0);
	rdmamsg_chain_calc(all[0], 0, RDMAMSG_CALC_XOR, RDMAMSG_CALC_UINT,
			   &sum, &sum, &sum, 1);
	for (uint32_t i = 1; i < count; i++) {
		struct rdmamsg_ep *ep = members[i].links[0].ep;

		chain_send(all[i], 0, ep, &in[i], 8, i);
		rdmamsg_chain_recv(all[i], 0, ep, &out[i], 8, i);
		rdmamsg_chain_calc(all[i], 0, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &out[i], &out[i], &one,
				   1);
		ep = members[0].links[i].ep;
		rdmamsg_chain_recv(all[0], 0, ep, &in[0], 8, i);
		rdmamsg_chain_calc(all[0], 0, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &sum, &sum, &in[0], 1);
	}
	for (uint32_t i = 1; i < count; i++)
		chain_send(all[0], 0, members[0].links[i].ep, &sum, 8,
			   i);
	for (unsigned int run = 1; run <= 3; run++) {
		for (uint32_t i = 1; i < count; i++)
			in[i] = i * run;
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(rdmamsg_chain_post(all[i]), 0);
		WAIT_FOR(done[0].count == count * run);
		assert_string_equal(done[0].end.text, "");
		for (uint32_t i = 1; i < count; i++)
			assert_int_equal(out[i], (uint64_t)count * (count - 1) /
						 2 * run + 1);
	}
	assert_int_equal(rdmamsg_chain_path(all[0]), RDMAMSG_CHAIN_LOOP);
	assert_int_equal(rdmamsg_chain_path(all[1]), RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < count; i++)
		rdmamsg_chain_destroy(all[i]);
}

/* The endpoint of member 2 can move to another device, so it has no channel. */
static void endpoints__of_both_kinds_OK(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = 1000,
	};

	need_native();
	for (uint32_t i = 0; i < 3; i++)
		mesh_member(i, 3);
	mesh_dial(1, 0, members[0].port);
	WAIT_FOR(members[0].connected == 1 && members[1].connected == 1);
	mesh_failover = &failover;
	mesh_dial(2, 0, members[0].port);
	WAIT_FOR(members[0].connected == 2 && members[2].connected == 1);
	mesh_failover = NULL;
	run_star(3);
	mesh_close();
}

/* Requests of a native run name memory of one protection domain. */
static void endpoints__of_two_domains_OK(void **state)
{
	const struct rdmamsg_pd_options opts = {
		.size = sizeof(opts),
	};

	need_native();
	for (uint32_t i = 0; i < 3; i++)
		mesh_member(i, 3);
	mesh_dial(0, 1, members[1].port);
	assert_int_equal(rdmamsg_pd_create(members[0].ctx, &opts, &mesh_pd), 0);
	mesh_dial(0, 2, members[2].port);
	mesh_pd = NULL;
	WAIT_FOR(members[0].connected == 2 && members[1].connected &&
		 members[2].connected);
	run_star(3);
	mesh_close();
}

static void endpoints__more_than_devices_take_OK(void **state)
{
	need_native();
	for (uint32_t i = 0; i <= ENDS; i++)
		mesh_member(i, ENDS + 1);
	for (uint32_t i = 1; i <= ENDS; i++)
		mesh_dial(i, 0, members[0].port);
	WAIT_FOR(members[0].connected == ENDS);
	for (uint32_t i = 1; i <= ENDS; i++)
		WAIT_FOR(members[i].connected);
	run_star(ENDS + 1);
	mesh_close();
}

#endif
