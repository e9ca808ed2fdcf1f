/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration: queue pair 0 has its paths on ports 1 and 2, queue pair 1 on
 * ports 3 and 4, so that each can lose its own.
 */
#include "soft/priv.h"
#include "soft_pair.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES	1500u
#define WINDOW		32u
#define ATOMIC_EACH	7u

static struct soft_ctl *ctl;
static const uint8_t alternate[2] = { 2, 4 };
static unsigned int moved[2], refused[2];	/* events seen */
static unsigned int places;			/* receives posted */

static uint32_t self(void)
{
	return qp[0]->qp_num >> SOFT_QPN_BITS;
}

static void set_port(uint8_t port, enum soft_port state)
{
	assert_int_equal(soft_ctl_port(ctl, self(), port, state), 0);
}

static struct ibv_qp_attr query(struct ibv_qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(soft_query_qp(q, &a, IBV_QP_PATH_MIG_STATE, &init), 0);
	return a;
}

static struct ibv_qp_attr path(uint8_t port)
{
	return (struct ibv_qp_attr){
		.alt_ah_attr = {
			.port_num = port, .is_global = 1, .sl = port,
			.grh.dgid.raw = { [15] = 1 },
		},
		.alt_port_num = port, .alt_timeout = 9,
		.path_mig_state = IBV_MIG_REARM,
	};
}

static int modify(struct ibv_qp *q, struct ibv_qp_attr a, int mask)
{
	return soft_modify_qp(q, &a, mask);
}

static int migrate_by_hand(struct ibv_qp *q)
{
	return modify(q, (struct ibv_qp_attr){
			.path_mig_state = IBV_MIG_MIGRATED },
		      IBV_QP_PATH_MIG_STATE);
}

static void load(int i)
{
	assert_int_equal(modify(qp[i], path(alternate[i]),
				IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static void expect_state(struct ibv_qp *q, enum ibv_mig_state state)
{
	for (int i = 0; i < 20000 && query(q).path_mig_state != state; i++)
		(void)poll(NULL, 0, 1);
	assert_int_equal(query(q).path_mig_state, state);
}

static void arm(void)
{
	load(0);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	expect_state(qp[1], IBV_MIG_ARMED);
}

static void rearm(void)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(modify(qp[i], path(0), IBV_QP_PATH_MIG_STATE),
				 0);
	expect_state(qp[0], IBV_MIG_ARMED);
	expect_state(qp[1], IBV_MIG_ARMED);
}

/* All events that wait; those of ports are not looked at. */
static void collect(void)
{
	struct ibv_async_event ev;

	while (event_waits()) {
		assert_int_equal(soft_get_async_event(c, &ev), 0);
		if (ev.event_type == IBV_EVENT_PATH_MIG)
			moved[ev.element.qp == qp[1]]++;
		else if (ev.event_type == IBV_EVENT_PATH_MIG_ERR)
			refused[ev.element.qp == qp[1]]++;
		soft_ack_async_event(&ev);
	}
}

static void expect_events(unsigned int m0, unsigned int m1, unsigned int r0,
			  unsigned int r1)
{
	for (int i = 0; i < 20000; i++) {
		collect();
		if (moved[0] >= m0 && moved[1] >= m1 && refused[0] >= r0 &&
		    refused[1] >= r1)
			break;
		(void)poll(NULL, 0, 1);
	}
	assert_int_equal(moved[0], m0);
	assert_int_equal(moved[1], m1);
	assert_int_equal(refused[0], r0);
	assert_int_equal(refused[1], r1);
	memset(moved, 0, sizeof(moved));
	memset(refused, 0, sizeof(refused));
}

static void expect_ports(uint8_t p0, uint8_t p1)
{
	const uint8_t want[2] = { p0, p1 };

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = query(qp[i]);

		assert_int_equal(a.path_mig_state, IBV_MIG_MIGRATED);
		assert_int_equal(a.port_num, want[i]);
	}
}

/* Again as they were at the beginning. */
static void connect_anew(void)
{
	places = 0;
	for (int i = 0; i < 2; i++)
		enter(qp[i], IBV_QPS_RESET);
	for (int i = 0; i < 2; i++)
		walk(qp[i], qp[!i]->qp_num);
}

static int setup(void **state)
{
	places = 0;
	if (setup_pair(state))
		return -1;
	memset(moved, 0, sizeof(moved));
	memset(refused, 0, sizeof(refused));
	return soft_ctl_open(NULL, &ctl);
}

static int teardown(void **state)
{
	set_port(0, SOFT_PORT_UP);
	soft_ctl_close(ctl);
	collect();
	return teardown_pair(state);
}

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

/* ---- what modify takes ------------------------------------------------ */

static void modify__bad_alternate_EINVAL(void **state)
{
	const int mask = IBV_QP_ALT_PATH;
	struct ibv_qp_attr a;

	a = path(0);
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(5);
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_ah_attr.port_num = 1;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_pkey_index = 1;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_timeout = 32;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_ah_attr.grh.sgid_index = 2;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_ah_attr.is_global = 0;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	assert_int_equal(query(qp[0]).alt_port_num, 0);
	/* the path in use may be the alternate one as well */
	assert_int_equal(modify(qp[0], path(1), mask), 0);
	assert_int_equal(query(qp[0]).alt_port_num, 1);
}

static void modify__illegal_migration_EINVAL(void **state)
{
	struct ibv_qp_attr armed = path(2);
	const int mask = IBV_QP_PATH_MIG_STATE;

	armed.path_mig_state = IBV_MIG_ARMED;
	/* nothing to migrate to */
	assert_int_equal(modify(qp[0], path(2), mask), EINVAL);
	assert_int_equal(modify(qp[0], armed, mask | IBV_QP_ALT_PATH), EINVAL);
	assert_int_equal(migrate_by_hand(qp[0]), 0);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_MIGRATED);
	load(0);
	assert_int_equal(migrate_by_hand(qp[0]), EINVAL);
	assert_int_equal(modify(qp[0], armed, mask), EINVAL);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	/* not behind the back of the other end */
	assert_int_equal(modify(qp[0], path(1), IBV_QP_ALT_PATH), EINVAL);
	assert_int_equal(query(qp[0]).alt_port_num, 2);
	enter(qp[0], IBV_QPS_SQD);
	assert_int_equal(migrate_by_hand(qp[0]), EINVAL);
	enter(qp[0], IBV_QPS_RTS);
	expect_events(0, 0, 0, 0);
}

static void modify__each_step_TAKEN(void **state)
{
	struct ibv_qp_attr a = path(2), reset = { .qp_state = IBV_QPS_RESET };
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC;

	assert_int_equal(soft_modify_qp(qp[0], &reset, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = qp[1]->qp_num;
	assert_int_equal(modify(qp[0], a, IBV_QP_STATE | IBV_QP_PORT |
				IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(modify(qp[0], a, rtr | IBV_QP_PATH_MIG_STATE), EINVAL);
	a.alt_port_num = 5;
	assert_int_equal(modify(qp[0], a, rtr | IBV_QP_ALT_PATH), EINVAL);
	a.alt_port_num = 2;
	assert_int_equal(modify(qp[0], a, rtr | IBV_QP_ALT_PATH), 0);
	assert_int_equal(query(qp[0]).alt_port_num, 2);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(modify(qp[0], a, rts | IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_REARM);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	enter(qp[0], IBV_QPS_SQD);
	assert_int_equal(modify(qp[0], path(2), IBV_QP_ALT_PATH |
				IBV_QP_PATH_MIG_STATE), 0);
	expect_state(qp[0], IBV_MIG_ARMED);
	/* reset forgets all of it */
	assert_int_equal(soft_modify_qp(qp[0], &reset, IBV_QP_STATE), 0);
	assert_int_equal(query(qp[0]).alt_port_num, 0);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_MIGRATED);
}

static void capability__TOLD(void **state)
{
	struct ibv_device_attr a;

	assert_int_equal(soft_query_device(c, &a), 0);
	assert_true(a.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
}

/* ---- arming ----------------------------------------------------------- */

static void arm__one_end_STAYS_AT_REARM(void **state)
{
	load(0);
	run(NULL, NULL);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_REARM);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	expect_state(qp[1], IBV_MIG_ARMED);
	expect_events(0, 0, 0, 0);
}

/* What one end tells is lost: it is told again when the port is up. */
static void arm__port_down_WHEN_IT_IS_UP(void **state)
{
	for (uint8_t port = 1; port < 4; port += 2) {
		set_port(port, SOFT_PORT_BLACK_HOLE);
		load(0);
		load(1);
		assert_int_not_equal(query(qp[0]).path_mig_state,
				     IBV_MIG_ARMED);
		assert_int_not_equal(query(qp[1]).path_mig_state,
				     IBV_MIG_ARMED);
		set_port(port, SOFT_PORT_UP);
		expect_state(qp[0], IBV_MIG_ARMED);
		expect_state(qp[1], IBV_MIG_ARMED);
		connect_anew();
	}
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
	arm();
	for (int i = 0; i < 4; i++) {
		int end = i & 1;

		run(by_hand, &end);
		expect_events(1, 1, 0, 0);
		expect_ports(end ? 1 : 2, end ? 3 : 4);
		rearm();
	}
}

/* Nobody has anything to say: the one whose port is well hears of it. */
static void migration__idle_BOTH_ENDS(void **state)
{
	arm();
	set_port(3, SOFT_PORT_DOWN);
	expect_events(1, 1, 0, 0);
	expect_ports(2, 4);
}

/* Nothing is acknowledged: only what the ends tell each other helps. */
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

static void migration__not_armed_RETRY_EXC(void **state)
{
	load(0);
	set_port(1, SOFT_PORT_DOWN);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 0, 0);
}

/* ---- no way ----------------------------------------------------------- */

static void alternate__down_PATH_MIG_ERR_then_RETRY_EXC(void **state)
{
	arm();
	set_port(2, SOFT_PORT_DOWN);
	expect_events(0, 0, 0, 0);
	set_port(1, SOFT_PORT_DOWN);
	expect_events(0, 0, 1, 0);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 0, 0);
	assert_int_equal(query(qp[0]).port_num, 1);
}

static void alternate__down_below_a_black_hole_PATH_MIG_ERR(void **state)
{
	arm();
	set_port(2, SOFT_PORT_DOWN);
	set_port(3, SOFT_PORT_BLACK_HOLE);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 1, 0);
}

static void alternate__up_in_time_MIGRATES(void **state)
{
	arm();
	set_port(2, SOFT_PORT_DOWN);
	set_port(1, SOFT_PORT_DOWN);
	expect_events(0, 0, 1, 0);
	set_port(2, SOFT_PORT_UP);
	expect_events(1, 1, 0, 0);
	run(NULL, NULL);
	expect_ports(2, 4);
}

/* It looks well, and is dead: one migration, and no second one. */
static void alternate__black_hole_PATH_MIG_then_RETRY_EXC(void **state)
{
	arm();
	set_port(2, SOFT_PORT_BLACK_HOLE);
	set_port(1, SOFT_PORT_DOWN);
	expect_events(1, 0, 0, 0);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 0, 0);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_ARMED);
}

static void alternate__dead_at_the_other_end_RETRY_EXC(void **state)
{
	arm();
	set_port(4, SOFT_PORT_DOWN);
	set_port(3, SOFT_PORT_BLACK_HOLE);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_events(1, 0, 0, 0);
}

/* ---- lies ------------------------------------------------------------- */

static void forge(int from, uint8_t op, uint8_t code, uint8_t flags)
{
	struct soft_dev *dev = soft_dev_of(c);
	struct soft_wire *w = soft_qp(qp[from])->wire;
	struct soft_rec *rec;

	soft_lock(dev);
	rec = soft_rec_new(dev, w, 0);
	if (rec) {
		memset(rec, 0, sizeof(*rec));
		rec->op = op;
		rec->code = code;
		rec->flags = flags;
		rec->src = qp[from]->qp_num;
		rec->dst = qp[!from]->qp_num;
		soft_rec_commit(dev, w, 0);
	}
	/* as somebody else's process would leave it to ours */
	(void)soft_progress(dev);
	soft_unlock(dev);
}

static void lies__to_one_who_has_no_alternate_IGNORED(void **state)
{
	for (unsigned int code = 0; code < 256; code++) {
		forge(0, SOFT_PATH, (uint8_t)code, 0);
		forge(0, SOFT_PATH, (uint8_t)code, SOFT_F_PATH);
		forge(0, SOFT_PATH, (uint8_t)code, 0xff);
	}
	expect_events(0, 0, 0, 0);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	run(NULL, NULL);
}

static void lies__to_one_who_waits_TWO_EVENTS(void **state)
{
	load(1);
	for (unsigned int code = 3; code < 256; code++)
		forge(0, SOFT_PATH, (uint8_t)code, SOFT_F_PATH * (code & 1));
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_REARM);
	/* that of an armed end, without having been asked */
	forge(0, SOFT_PATH, IBV_MIG_ARMED, 0);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_ARMED);
	for (int i = 0; i < 1000; i++) {
		forge(0, SOFT_PATH, (uint8_t)(i % 3), SOFT_F_PATH * (i & 1));
		forge(0, SOFT_ACK, 0, SOFT_F_PATH * (i & 1));
	}
	expect_events(0, 1, 0, 1);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(query(qp[1]).qp_state, IBV_QPS_RTS);
}

/* ---- two processes ---------------------------------------------------- */

static void child(int fd)
{
	uint32_t peer;

	alarm(60);
	if (open_device(NULL))
		_exit(1);
	qp[1] = soft_create_qp(pd, &(struct ibv_qp_init_attr){
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { 64, 64, 4, 4, 64 } });
	if (!qp[1] || write(fd, &qp[1]->qp_num, 4) != 4 ||
	    write(fd, &mem[1], sizeof(mem[1])) != sizeof(mem[1]) ||
	    write(fd, &mr[1]->rkey, 4) != 4 || read(fd, &peer, 4) != 4)
		_exit(1);
	walk(qp[1], peer);
	load(1);
	if (write(fd, &peer, 4) != 4)
		_exit(1);
	expect_state(qp[1], IBV_MIG_ARMED);
	/* until the end: the port goes, the events come, the parent says so */
	expect_event(IBV_EVENT_PATH_MIG);
	if (write(fd, &peer, 4) != 4 || read(fd, &peer, 4) != 4)
		_exit(1);
	_exit(event_waits() || query(qp[1]).port_num != 4);
}

struct other {
	uint32_t qpn, rkey;
	uint64_t addr;
	pid_t pid;
	int fd;
};

static struct other start_other(void)
{
	struct other o;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	o.pid = fork();
	assert_true(o.pid >= 0);
	if (!o.pid)
		child(fd[1]);
	close(fd[1]);
	o.fd = fd[0];
	assert_int_equal(open_device(NULL), 0);
	qp[0] = soft_create_qp(pd, &(struct ibv_qp_init_attr){
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { 64, 64, 4, 4, 64 } });
	assert_non_null(qp[0]);
	assert_int_equal(read(o.fd, &o.qpn, 4), 4);
	assert_int_equal(read(o.fd, &o.addr, 8), 8);
	assert_int_equal(read(o.fd, &o.rkey, 4), 4);
	walk(qp[0], o.qpn);
	assert_int_equal(write(o.fd, &qp[0]->qp_num, 4), 4);
	assert_int_equal(read(o.fd, &o.qpn, 4), 4);
	o.qpn = query(qp[0]).dest_qp_num;
	load(0);
	expect_state(qp[0], IBV_MIG_ARMED);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	return o;
}

static void end_other(const struct other *o, int want)
{
	int status;

	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, want);
	close(o->fd);
	soft_ctl_close(ctl);
	assert_int_equal(soft_destroy_qp(qp[0]), 0);
	assert_int_equal(close_device(NULL), 0);
}

static void processes__port_of_the_other_BOTH_ENDS(void **state)
{
	struct other o = start_other();
	uint64_t *results = (uint64_t *)mem[0];
	uint32_t told;

	for (uint64_t i = 0; i < 2000; i++) {
		struct ibv_sge sge = { (uintptr_t)mem[0], 8, mr[0]->lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { o.addr, 1, 0, o.rkey },
		};

		assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
		if (i == 1000)
			assert_int_equal(soft_ctl_port(ctl,
					 o.qpn >> SOFT_QPN_BITS, 3,
					 SOFT_PORT_BLACK_HOLE), 0);
		expect(i, IBV_WC_SUCCESS);
		assert_int_equal(*results, i);
	}
	expect_event(IBV_EVENT_PATH_MIG);
	assert_false(event_waits());
	assert_int_equal(query(qp[0]).port_num, 2);
	assert_int_equal(read(o.fd, &told, 4), 4);
	assert_int_equal(write(o.fd, &told, 4), 4);
	end_other(&o, 0);
}

/* The primary path is dead, and so is the other one. */
static void processes__other_killed_RETRY_EXC(void **state)
{
	struct other o = start_other();

	assert_int_equal(kill(o.pid, SIGKILL), 0);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8, o.addr, o.rkey),
			 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect_event(IBV_EVENT_PATH_MIG);
	assert_false(event_waits());
	end_other(&o, SIGKILL);
}

/* ---- what is seen from outside ---------------------------------------- */

static void list__ports_and_migration_TOLD(void **state)
{
	struct soft_ctl_qp q[2];
	uint32_t index = 0;

	arm();
	assert_int_equal(soft_ctl_qps(ctl, self(), &index, q, 2), 2);
	assert_int_equal(q[0].port, 1);
	assert_int_equal(q[0].alt_port, 2);
	assert_int_equal(q[0].migration, IBV_MIG_ARMED);
	assert_int_equal(q[1].alt_port, 4);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modify__bad_alternate_EINVAL),
		TEST(modify__illegal_migration_EINVAL),
		TEST(modify__each_step_TAKEN),
		TEST(capability__TOLD),
		TEST(arm__one_end_STAYS_AT_REARM),
		TEST(arm__port_down_WHEN_IT_IS_UP),
		TEST(migration__any_port_lost_NOTHING_ELSE_IS),
		TEST(migration__by_hand_BOTH_ENDS),
		TEST(migration__idle_BOTH_ENDS),
		TEST(migration__of_uc_BOTH_ENDS),
		TEST(migration__not_armed_RETRY_EXC),
		TEST(alternate__down_PATH_MIG_ERR_then_RETRY_EXC),
		TEST(alternate__down_below_a_black_hole_PATH_MIG_ERR),
		TEST(alternate__up_in_time_MIGRATES),
		TEST(alternate__black_hole_PATH_MIG_then_RETRY_EXC),
		TEST(alternate__dead_at_the_other_end_RETRY_EXC),
		TEST(lies__to_one_who_has_no_alternate_IGNORED),
		TEST(lies__to_one_who_waits_TWO_EVENTS),
		cmocka_unit_test(processes__port_of_the_other_BOTH_ENDS),
		cmocka_unit_test(processes__other_killed_RETRY_EXC),
		TEST(list__ports_and_migration_TOLD),
	};

	port_of[1] = 3;
	(void)setenv("RDMAMSG_SOFT_FABRIC", "unit-apm", 1);
	(void)setenv("RDMAMSG_SOFT_PORTS", "4", 1);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
