/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: timeout_ms of rdmamsg_post() to a process that is stopped, or
 * killed, or that gives no credits. It answers each message with its tag.
 */
#include "common.h"

#include <signal.h>
#include <sys/wait.h>

#include <rdmamsg/failover.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define TIMEOUT		500u
#define LARGE		((size_t)1 << 20)
#define MANY		100u	/* more messages than the peer has receives */
#define WORDS		512u
#define OPS		8u

static const uint32_t all_flags[] = {
	0, RDMAMSG_EP_SIGNAL_ALL, RDMAMSG_EP_OWN_CQ, RDMAMSG_EP_GUARD,
	RDMAMSG_EP_FULL_HEADERS, RDMAMSG_EP_CRC,
};

/* ---- the peer: a child ------------------------------------------------- */

static uint64_t far[WORDS];

static void give_key(struct end *e)
{
	struct rdmamsg_region *region;
	struct rdmamsg_key key;
	int ret = rdmamsg_region_create(e->ctx, far, sizeof(far),
					RDMAMSG_ACCESS_READ |
					RDMAMSG_ACCESS_WRITE |
					RDMAMSG_ACCESS_ATOMIC, &region);

	if (!ret)
		ret = rdmamsg_region_get_key(region, e->ep, &key);
	if (!ret)
		ret = rdmamsg_send(e->ep, &key, sizeof(key), 0, NULL);
	if (ret)
		note("the key: %s", rdmamsg_error());
}

static void answer(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_send(e->ep, "", 0, rdmamsg_msg_tag(msg), NULL))
		note("an answer: %s", rdmamsg_error());
	rdmamsg_msg_free(msg);
}

/* Arguments: the flags of the endpoint, and the port. */
static int role_peer(int argc, char **argv)
{
	char *port;
	struct end e;

	end_init(&e, "child", test_open(NULL));
	e.expect_nothing = true;
	e.then_connected = give_key;
	e.then_message = answer;
	e.opts.flags = (uint32_t)strtoul(argv[0], &port, 10);
	e.tuning.recv_depth = 4;
	e.opts.send_queue = 2 * MANY;
	far[0] = 40;
	if (rdmamsg_connect(e.ctx, test_addr(), port + 1, &e.opts, &e.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	while (!e.closed)
		test_pump(1000);
	return 0;
}

/* ---- this side --------------------------------------------------------- */

static struct pair p;
static struct child child;
static struct rdmamsg_key key;
static struct rdmamsg_region *region;
static uint64_t near[WORDS];
static bool answered[MANY + OPS + 1];

static struct op {
	struct cookie *cookie;
	unsigned int late;
	int late_status;
} ops[OPS];
static unsigned int posted;

static void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);

	for (unsigned int i = 0; i < posted; i++)
		if (ops[i].cookie == cookie) {
			if (ops[i].cookie->status != RDMAMSG_OVERDUE)
				note("on_late after %d", ops[i].cookie->status);
			ops[i].late++;
			ops[i].late_status = status;
		}
	if (e->closed)
		note("on_late after on_closed");
}

static void on_answer(struct end *e, struct rdmamsg_msg *msg)
{
	if (!e->arg) {
		memcpy(&key, rdmamsg_msg_data(msg), sizeof(key));
		e->arg = &key;
	} else if (rdmamsg_msg_tag(msg) < ARRAY_SIZE(answered)) {
		answered[rdmamsg_msg_tag(msg)] = true;
	}
	rdmamsg_msg_free(msg);
}

static void meet(uint32_t flags)
{
	char arg[24];

	memset(ops, 0, sizeof(ops));
	memset(answered, 0, sizeof(answered));
	posted = 0;
	pair_init(&p, NULL);
	p.s.expect_nothing = true;
	p.s.then_message = on_answer;
	p.s.opts.flags = flags;
	p.s.opts.send_queue = 2 * MANY;
	/* the time that the test lets pass is not the child's silence */
	p.s.opts.dead_after_ms = RDMAMSG_NONE;
	pair_listen(&p);
	snprintf(arg, sizeof(arg), "%u:%s", flags, p.port);
	child_start(&child, "peer", arg);
	WAIT_FOR(p.s.arg || p.s.closed);
	assert_false(p.s.closed);
	memset(near, 0, sizeof(near));
	assert_int_equal(rdmamsg_region_create(p.s.ctx, near, sizeof(near),
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &region), 0);
	assert_int_equal(rdmamsg_region_register(region, p.s.ep), 0);
}

static void part(void)
{
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	end_check_cookies(&p.s);
	pair_fini(&p);
}

static void post(struct rdmamsg_op op)
{
	struct op *o = &ops[posted++];

	o->cookie = end_cookie(&p.s);
	p.s.sent++;
	op.size = sizeof(op);
	op.cookie = o->cookie;
	op.timeout_ms = TIMEOUT;
	op.on_late = on_late;
	if (rdmamsg_post(p.s.ep, &op))
		fail_msg("rdmamsg_post: %s", rdmamsg_error());
}

static void post_send(size_t len, uint32_t tag)
{
	const struct rdmamsg_sge s = {
		(void *)(uintptr_t)pattern(tag), len, NULL,
	};

	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_SEND, .sge = &s, .count = 1, .tag = tag,
	});
}

/* Reads word 0 into near[0], writes 42 to word 1, adds 2 to word 2. */
static void post_onesided(void)
{
	static const uint64_t two = 2;
	const struct rdmamsg_sge to = { &near[0], 8, region };
	const struct rdmamsg_sge from = { &near[1], 8, region };

	near[1] = 42;
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_READ, .sge = &to, .count = 1, .key = &key,
	});
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_WRITE, .sge = &from, .count = 1,
		.key = &key, .offset = 8,
	});
	if (!test_iwarp())
		post((struct rdmamsg_op){
			.kind = RDMAMSG_OP_FETCH_ADD, .key = &key,
			.offset = 16, .operand = &two, .result = &near[2],
		});
	post((struct rdmamsg_op){ .kind = RDMAMSG_OP_FLUSH });
}

/* The peer's memory, as it is now. */
static void look(uint64_t ret[static 3])
{
	const struct rdmamsg_sge s = { &near[8], 24, region };
	struct cookie *c = end_cookie(&p.s);

	p.s.sent++;
	assert_int_equal(rdmamsg_read(p.s.ep, &s, 1, &key, 0, 0, c), 0);
	WAIT_FOR(c->count);
	assert_int_equal(c->status, 0);
	memcpy(ret, &near[8], 24);
}

static bool all_told(void)
{
	for (unsigned int i = 0; i < posted; i++)
		if (!ops[i].cookie->count)
			return false;
	return true;
}

static bool all_ended(void)
{
	for (unsigned int i = 0; i < posted; i++)
		if (ops[i].cookie->status == RDMAMSG_OVERDUE && !ops[i].late)
			return false;
	return all_told();
}

static void fill_queue(void)
{
	for (uint32_t tag = 0; tag < MANY; tag++)
		assert_int_equal(rdmamsg_send(p.s.ep, "x", 1, tag, NULL), 0);
}

static void queue_to_stopped(uint32_t flags)
{
	uint64_t seen[3];

	meet(flags);
	kill(child.pid, SIGSTOP);
	fill_queue();
	post_send(100, MANY);
	post_send(LARGE, MANY + 1);
	post_onesided();
	assert_int_equal(rdmamsg_send(p.s.ep, "x", 1, MANY + 2, NULL), 0);
	WAIT_PASSING(all_told());
	for (unsigned int i = 0; i < posted; i++)
		assert_int_equal(ops[i].cookie->status, RDMAMSG_TIMED_OUT);
	kill(child.pid, SIGCONT);
	WAIT_FOR(answered[MANY + 2]);
	assert_true(answered[MANY - 1]);
	assert_false(answered[MANY] || answered[MANY + 1]);
	look(seen);
	assert_int_equal(seen[1], 0);
	assert_int_equal(seen[2], 0);
	assert_int_equal(near[0], 0);
	for (unsigned int i = 0; i < posted; i++)
		assert_int_equal(ops[i].late, 0);
	part();
}

/* Some devices answer for a program that is stopped: then the rest is in time. */
static void post_to_stopped(uint32_t flags)
{
	uint64_t seen[3];

	meet(flags);
	kill(child.pid, SIGSTOP);
	post_send(LARGE, MANY);
	post_onesided();
	WAIT_PASSING(all_told());
	assert_int_equal(ops[0].cookie->status, RDMAMSG_OVERDUE);
	for (unsigned int i = 1; i < posted; i++)
		assert_true(!ops[i].cookie->status ||
			    ops[i].cookie->status == RDMAMSG_OVERDUE);
	assert_int_equal(ops[0].late, 0);
	kill(child.pid, SIGCONT);
	WAIT_FOR(all_ended() && answered[MANY]);
	test_pass(2 * TIMEOUT);
	for (unsigned int i = 0; i < posted; i++) {
		assert_int_equal(ops[i].cookie->count, 1);
		assert_int_equal(ops[i].late, ops[i].cookie->status != 0);
		assert_int_equal(ops[i].late_status, 0);
	}
	look(seen);
	assert_int_equal(near[0], 40);
	assert_int_equal(seen[1], 42);
	assert_int_equal(seen[2], test_iwarp() ? 0 : 2);
	part();
}

static void stopped__queued_ARE_TAKEN_BACK(void **state)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(all_flags); i++)
		queue_to_stopped(all_flags[i]);
}

static void stopped__posted_ARE_OVERDUE_AND_END(void **state)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(all_flags); i++)
		post_to_stopped(all_flags[i]);
}

static void killed__overdue_and_queued_ARE_CANCELED(void **state)
{
	int status;

	meet(0);
	errors_are_fine = true;
	kill(child.pid, SIGSTOP);
	post_send(LARGE, MANY);
	WAIT_PASSING(all_told());
	assert_int_equal(ops[0].cookie->status, RDMAMSG_OVERDUE);
	fill_queue();
	post_send(100, MANY + 1);
	kill(child.pid, SIGKILL);
	status = child_wait(&child);
	assert_true(WIFSIGNALED(status));
	WAIT_FOR(p.s.closed);
	assert_int_equal(ops[0].late, 1);
	assert_int_equal(ops[0].late_status, -ECANCELED);
	assert_true(ops[1].cookie->status == -ECANCELED ||
		    ops[1].cookie->status == RDMAMSG_TIMED_OUT);
	assert_int_equal(ops[1].late, 0);
	end_check_cookies(&p.s);
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	pair_fini(&p);
}

/* The child of a fork() is told nothing, and the parent all. */
static void fork__deadlines_STAY_WITH_THE_PARENT(void **state)
{
	struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .timeout_ms = 1,
		.cookie = &op,
	};
	int status = 0;
	pid_t pid;

	meet(0);
	kill(child.pid, SIGSTOP);
	post_send(LARGE, MANY);
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(rdmamsg_post(p.s.ep, &op) != -ECHILD ||
		      rdmamsg_process(p.s.ctx) != -ECHILD ||
		      ops[0].cookie->count);
	assert_true(pid > 0);
	WAIT_PASSING(all_told());
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	assert_int_equal(status, 0);
	assert_int_equal(ops[0].cookie->status, RDMAMSG_OVERDUE);
	kill(child.pid, SIGCONT);
	WAIT_FOR(all_ended());
	assert_int_equal(ops[0].late_status, 0);
	part();
}

int main(int argc, char **argv)
{
	static const struct role roles[] = { { "peer", role_peer }, { NULL } };
	const struct CMUnitTest tests[] = {
		TEST(stopped__queued_ARE_TAKEN_BACK),
		TEST(stopped__posted_ARE_OVERDUE_AND_END),
		TEST(killed__overdue_and_queued_ARE_CANCELED),
		TEST(fork__deadlines_STAY_WITH_THE_PARENT),
	};

	return test_main(tests, roles, argc, argv);
}
