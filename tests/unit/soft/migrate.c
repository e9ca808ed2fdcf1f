/* SPDX-License-Identifier: BSD-2-Clause */
/* Migration under traffic: each request executes exactly once. */
#include "paths.h"
#include "other.h"

#define MESSAGES	1500u
#define WINDOW		32u
#define ATOMIC_EACH	7u
#define ROUNDS		100

static unsigned int places;			/* receives posted */

/* ---- traffic ---------------------------------------------------------- */

static void post_numbered(uint32_t n)
{
	bool atomic = n % ATOMIC_EACH == 0;
	struct ibv_sge sge = {
		(uintptr_t)mem[0] + 8 * (n % WINDOW), 8, mr[0]->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = n, .sg_list = &sge, .num_sge = 1,
		.opcode = atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD :
			  IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(n),
	};

	if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)mem[1];
		wr.wr.atomic.rkey = mr[1]->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
}

static void post_place(void)
{
	struct ibv_sge sge = { (uintptr_t)mem[1] + 64, 8, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(ibv_post_recv(qp[1], &wr, &bad), 0);
}

/*
 * All messages are posted, arrive and complete, each once and in order, while
 * fn() is called in the middle of them.
 */
static void run(void (*fn)(const void *arg), const void *arg)
{
	uint64_t *results = (uint64_t *)mem[0], *counter = (uint64_t *)mem[1];
	uint32_t posted = 0, done = 0, came = 0, added = 0;

	*counter = 0;
	for (; places < WINDOW; places++)
		post_place();
	while (done < MESSAGES) {
		struct ibv_wc wc;

		for (; posted < MESSAGES && posted - done < WINDOW; posted++) {
			if (posted == MESSAGES / 2 && fn)
				fn(arg);
			post_numbered(posted);
		}
		wc = next(cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV) {
			came += came % ATOMIC_EACH == 0;
			assert_int_equal(be32toh(wc.imm_data), came++);
			post_place();
			continue;
		}
		assert_int_equal(wc.wr_id, done);
		if (done % ATOMIC_EACH == 0)
			assert_int_equal(results[done % WINDOW], added++);
		done++;
	}
	while (came < MESSAGES - (MESSAGES % ATOMIC_EACH == 1)) {
		struct ibv_wc wc = next(cq);

		assert_int_equal(wc.opcode, IBV_WC_RECV);
		came += came % ATOMIC_EACH == 0;
		assert_int_equal(be32toh(wc.imm_data), came++);
		places--;
	}
	assert_int_equal(*counter, added);
}

/* ---- migration -------------------------------------------------------- */

struct fault {
	uint8_t port;
	enum soft_port state;
};

static void strike(const void *arg)
{
	const struct fault *f = arg;

	set_port(f->port, f->state);
}

static void migration__any_port_lost_NOTHING_ELSE_IS(void **state)
{
	static const struct fault faults[] = {
		{ 1, SOFT_PORT_DOWN }, { 3, SOFT_PORT_DOWN },
		{ 1, SOFT_PORT_ARMED }, { 3, SOFT_PORT_ARMED },
		{ 1, SOFT_PORT_BLACK_HOLE }, { 3, SOFT_PORT_BLACK_HOLE },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		struct ibv_qp_attr a;

		places = 0;
		arm();
		run(strike, &faults[i]);
		expect_events(1, 1, 0, 0);
		expect_ports(2, 4);
		a = query(qp[0]);
		assert_int_equal(a.timeout, 9);
		assert_int_equal(a.ah_attr.sl, 2);
		assert_int_equal(a.alt_port_num, 1);
		assert_int_equal(a.alt_timeout, 8);
		assert_int_equal(a.alt_ah_attr.sl, 0);
		/* and back, by the loss of the other one */
		set_port(faults[i].port, SOFT_PORT_UP);
		rearm();
		run(strike, &(struct fault){ (uint8_t)(faults[i].port + 1),
					     faults[i].state });
		expect_events(1, 1, 0, 0);
		expect_ports(1, 3);
		set_port(0, SOFT_PORT_UP);
		connect_anew();
	}
}

static void by_hand(const void *end)
{
	assert_int_equal(migrate_by_hand(qp[*(const int *)end]), 0);
}

static void migration__by_hand_BOTH_ENDS(void **state)
{
	places = 0;
	arm();
	for (int i = 0; i < 4; i++) {
		int end = i & 1;

		run(by_hand, &end);
		expect_events(1, 1, 0, 0);
		expect_ports(end ? 1 : 2, end ? 3 : 4);
		rearm();
	}
}

/* No traffic: the other end, whose port is up, migrates too. */
static void migration__idle_BOTH_ENDS(void **state)
{
	arm();
	set_port(3, SOFT_PORT_DOWN);
	expect_events(1, 1, 0, 0);
	expect_ports(2, 4);
}

/* UC has no acknowledgements, so the ends must notify each other. */
static void migration__of_uc_BOTH_ENDS(void **state)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC,
		.cap = { 64, 64, 4, 4, 64 },
	};

	destroy_pair();
	for (int i = 0; i < 2; i++)
		qp[i] = soft_create_qp(pd, &a);
	for (int i = 0; i < 2; i++)
		walk(qp[i], qp[!i]->qp_num);
	arm();
	for (uint64_t i = 0; i < 200; i++) {
		if (i == 100) {
			set_port(3, SOFT_PORT_DOWN);
			expect_events(1, 1, 0, 0);
		}
		assert_int_equal(post_recv(qp[1], 1000 + i, 8), 0);
		assert_int_equal(post(qp[0], IBV_WR_SEND, i, 8, 0, 0), 0);
		expect(i, IBV_WC_SUCCESS);
		expect(1000 + i, IBV_WC_SUCCESS);
	}
	expect_ports(2, 4);
}

/* ---- two processes ---------------------------------------------------- */

static int follows(int fd)
{
	load(1);
	expect_state(qp[1], IBV_MIG_ARMED);
	if (!say(fd))
		return 1;
	expect_event(IBV_EVENT_PATH_MIG);
	if (!say(fd) || !hear(fd))
		return 1;
	return event_waits() || query(qp[1]).port_num != 4;
}

static struct other start_armed(void)
{
	struct other o = start_other(follows);

	load(0);
	expect_state(qp[0], IBV_MIG_ARMED);
	assert_true(hear(o.fd));
	return o;
}

static void add_one(const struct other *o, uint64_t id)
{
	struct ibv_sge sge = {
		(uintptr_t)mem[0] + 8 * (id % WINDOW), 8, mr[0]->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { o->addr, 1, 0, o->rkey },
	};

	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
}

static void processes__port_of_the_other_BOTH_ENDS(void **state)
{
	struct other o = start_armed();
	uint64_t *results = (uint64_t *)mem[0];
	uint32_t node = query(qp[0]).dest_qp_num >> SOFT_QPN_BITS;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	for (uint64_t i = 0; i < 2000; i++) {
		add_one(&o, i);
		if (i == 1000)
			assert_int_equal(soft_ctl_port(ctl, node, 3,
					 SOFT_PORT_BLACK_HOLE), 0);
		expect(i, IBV_WC_SUCCESS);
		assert_int_equal(results[i % WINDOW], i);
	}
	expect_event(IBV_EVENT_PATH_MIG);
	assert_false(event_waits());
	assert_int_equal(query(qp[0]).port_num, 2);
	assert_true(hear(o.fd) && say(o.fd));
	soft_ctl_close(ctl);
	end_other(&o, 0);
}

/* Arms again after each migration, until the parent asks for the end. */
static int rearms(int fd)
{
	struct pollfd p[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = c->async_fd, .events = POLLIN },
	};

	load(1);
	while (poll(p, 2, -1) > 0 && !p[0].revents) {
		if (!p[1].revents)
			continue;
		collect();
		if (moved[1] && modify(qp[1], path(0), IBV_QP_PATH_MIG_STATE))
			return 1;
		moved[1] = 0;
	}
	return refused[1] != 0;
}

/* Waits until both ends are armed, as rdmamsg-soft-ctl(1) shows them. */
static void expect_armed(uint32_t node)
{
	struct soft_ctl_qp q;
	int n = 0;

	expect_state(qp[0], IBV_MIG_ARMED);
	for (int i = 0; i < 20000 && !n; i++) {
		uint32_t index = 0;

		assert_int_equal(soft_ctl_qps(ctl, node, &index, &q, 1), 1);
		n = q.migration == IBV_MIG_ARMED;
	}
	assert_true(n);
}

/*
 * Ports of both ends go down and come up at random moments. Each time both
 * ends migrate to the other path, and every request completes once.
 */
static void processes__many_times_NOTHING_TWICE(void **state)
{
	struct other o = start_other(rearms);
	uint64_t *results = (uint64_t *)mem[0], posted = 0, done = 0;
	uint32_t node = query(qp[0]).dest_qp_num >> SOFT_QPN_BITS;
	uint32_t dice = 1;

	memset(moved, 0, sizeof(moved));
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	load(0);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t most = done + 100000;
		uint8_t port;
		bool theirs;

		expect_armed(node);
		dice = dice * 1103515245 + 12345;
		theirs = dice >> 16 & 1;
		port = query(qp[0]).port_num + (theirs ? 2 : 0);
		for (; posted - done < (dice >> 20) % WINDOW; posted++)
			add_one(&o, posted);
		assert_int_equal(soft_ctl_port(ctl, theirs ? node : self(),
				 port, dice >> 17 & 1 ? SOFT_PORT_DOWN :
				 SOFT_PORT_BLACK_HOLE), 0);
		while (!moved[0]) {
			if (posted == done)
				add_one(&o, posted++);
			for (; done != posted; done++) {
				expect(done, IBV_WC_SUCCESS);
				assert_int_equal(results[done % WINDOW], done);
			}
			assert_true(done < most);
			collect();
		}
		assert_int_equal(moved[0], 1);
		moved[0] = 0;
		assert_int_equal(soft_ctl_port(ctl, theirs ? node : self(),
				 port, SOFT_PORT_UP), 0);
		assert_int_equal(modify(qp[0], path(0), IBV_QP_PATH_MIG_STATE),
				 0);
	}
	assert_int_equal(refused[0], 0);
	assert_true(say(o.fd));
	soft_ctl_close(ctl);
	end_other(&o, 0);
}

/* Both paths lead to a dead process. */
static void processes__other_killed_RETRY_EXC(void **state)
{
	struct other o = start_armed();

	assert_int_equal(kill(o.pid, SIGKILL), 0);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8, o.addr, o.rkey),
			 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_event(IBV_EVENT_PATH_MIG);
	assert_false(event_waits());
	end_other(&o, SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(migration__any_port_lost_NOTHING_ELSE_IS),
		TEST(migration__by_hand_BOTH_ENDS),
		TEST(migration__idle_BOTH_ENDS),
		TEST(migration__of_uc_BOTH_ENDS),
		cmocka_unit_test(processes__port_of_the_other_BOTH_ENDS),
		cmocka_unit_test(processes__many_times_NOTHING_TWICE),
		cmocka_unit_test(processes__other_killed_RETRY_EXC),
	};

	use_ports("migrate");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
