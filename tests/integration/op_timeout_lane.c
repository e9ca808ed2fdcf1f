/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: timeout_ms of rdmamsg_post() with failover, while nothing passes
 * between both ends. An operation that has begun ends once, on the next lane or
 * with the session. One that has not begun is taken back, and never arrives.
 */
#include "common.h"
#include "harm.h"

#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define DEAD_MS		2000u
#define SOON		500u		/* before the lane is lost */
#define LATER		(5 * DEAD_MS)	/* after that */
#define LARGE		((size_t)1 << 20)
#define TAGS		256u
#define WORDS		512u
#define OPS		32u
#define CREDITS		4u

static const uint32_t all_flags[] = {
	0, RDMAMSG_EP_SIGNAL_ALL, RDMAMSG_EP_OWN_CQ, RDMAMSG_EP_GUARD,
	RDMAMSG_EP_FULL_HEADERS, RDMAMSG_EP_CRC,
};

static struct pair p;
static struct end *we, *they;		/* we post, they receive */
static struct rdmamsg_region *region, *theirs;
static struct rdmamsg_key key;
static uint64_t far[WORDS], near[WORDS];
static unsigned int arrived[TAGS];
static uint32_t last_tag;		/* that has arrived */
static uint32_t tags;			/* of messages so far */
static bool silent;			/* the network */

static struct op {
	struct cookie *cookie;
	uint32_t kind, tag;
	size_t len;
	unsigned int late;
	int late_status;
} ops[OPS];
static unsigned int posted;

/* ---- callbacks --------------------------------------------------------- */

static void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	for (unsigned int i = 0; i < posted; i++)
		if (ops[i].cookie == cookie) {
			if (ops[i].cookie->status != RDMAMSG_OVERDUE)
				note("on_late after %d", ops[i].cookie->status);
			ops[i].late++;
			ops[i].late_status = status;
		}
	if (we->closed)
		note("on_late after on_closed");
}

static void on_arrival(struct end *e, struct rdmamsg_msg *msg)
{
	const uint32_t tag = rdmamsg_msg_tag(msg);

	if (e != they || tag >= TAGS || arrived[tag]++ || tag < last_tag)
		note("message %u after %u", tag, last_tag);
	else if (memcmp(rdmamsg_msg_data(msg), pattern(tag),
			rdmamsg_msg_len(msg)))
		note("message %u has other bytes", tag);
	last_tag = tag;
	rdmamsg_msg_free(msg);
}

/* ---- both ends --------------------------------------------------------- */

static void prepare(struct end *e, const struct rdmamsg_failover *f,
		    uint32_t flags)
{
	e->opts.failover = f;
	e->opts.flags = flags;
	e->opts.dead_after_ms = DEAD_MS;
	e->opts.send_queue = TAGS;
	e->tuning.recv_depth = CREDITS;
	e->expect_nothing = true;
	e->then_message = on_arrival;
}

static void share(void)
{
	memset(far, 0, sizeof(far));
	memset(near, 0, sizeof(near));
	far[0] = 40;
	near[1] = 42;
	assert_int_equal(rdmamsg_region_create(they->ctx, far, sizeof(far),
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE |
					       RDMAMSG_ACCESS_ATOMIC,
					       &theirs), 0);
	assert_int_equal(rdmamsg_region_get_key(theirs, they->ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(we->ctx, near, sizeof(near),
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &region), 0);
	assert_int_equal(rdmamsg_region_register(region, we->ep), 0);
}

/* The session waits so long for another lane. */
static void meet(bool passive, uint32_t patience_ms, uint32_t flags)
{
	const struct rdmamsg_failover lanes = {
		.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = patience_ms,
	};

	if (!test_on_soft())
		skip_because("no network that can be silenced");
	harm_find();
	memset(ops, 0, sizeof(ops));
	memset(arrived, 0, sizeof(arrived));
	posted = last_tag = tags = 0;
	errors_are_fine = texts_are_fine = true;
	we = passive ? &p.s : &p.c;
	they = passive ? &p.c : &p.s;
	pair_init(&p, NULL);
	prepare(&p.s, &lanes, flags);
	prepare(&p.c, &lanes, flags);
	pair_listen(&p);
	pair_connect(&p);
	share();
}

static void part(void)
{
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	assert_int_equal(rdmamsg_region_destroy(theirs), 0);
	if (!we->closed)
		rdmamsg_ep_close(we->ep);
	WAIT_PASSING(we->closed && they->closed);
	end_check_cookies(we);
	pair_fini(&p);
}

static void silence(bool on)
{
	silent = on;
	harm_silence(on);
}

static bool is_down(void)
{
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };

	assert_int_equal(rdmamsg_ep_path_query(we->ep, &path), 0);
	return path.down;
}

/* ---- operations -------------------------------------------------------- */

static void post(struct rdmamsg_op op, uint32_t timeout_ms)
{
	struct op *o = &ops[posted++];
	int ret;

	o->cookie = end_cookie(we);
	o->kind = op.kind;
	o->tag = op.tag;
	o->len = op.count ? op.sge->len : 0;
	we->sent++;
	op.size = sizeof(op);
	op.cookie = o->cookie;
	op.timeout_ms = timeout_ms;
	op.on_late = on_late;
	ret = rdmamsg_post(we->ep, &op);
	if (ret)
		fail_msg("rdmamsg_post: %d, %s", ret, rdmamsg_error());
}

static void post_send(size_t len, uint32_t ms)
{
	const uint32_t tag = tags++;
	const struct rdmamsg_sge s = {
		(void *)(uintptr_t)pattern(tag), len, NULL,
	};

	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_SEND, .sge = &s, .count = 1, .tag = tag,
	}, ms);
}

/* Reads word 0, writes 42 to word 1, adds 2 to word 2. */
static void post_onesided(uint32_t ms)
{
	static const uint64_t two = 2;
	const struct rdmamsg_sge to = { &near[0], 8, region };
	const struct rdmamsg_sge from = { &near[1], 8, region };

	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_READ, .sge = &to, .count = 1, .key = &key,
	}, ms);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_WRITE, .sge = &from, .count = 1,
		.key = &key, .offset = 8,
	}, ms);
	if (!test_iwarp())
		post((struct rdmamsg_op){
			.kind = RDMAMSG_OP_FETCH_ADD, .key = &key,
			.offset = 16, .operand = &two, .result = &near[2],
		}, ms);
}

static void send_plain(void)
{
	const uint32_t tag = tags++;

	if (rdmamsg_send(we->ep, pattern(tag), 1, tag, NULL))
		fail_msg("rdmamsg_send: %s", rdmamsg_error());
}

/* These use all credits. */
static void fill_queue(void)
{
	for (unsigned int i = 0; i < 2 * CREDITS; i++)
		send_plain();
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

/* Checks the operations from..end-1, and that each was told once. */
static void check(unsigned int from, unsigned int end, int status)
{
	for (unsigned int i = from; i < end; i++) {
		assert_int_equal(ops[i].cookie->count, 1);
		assert_int_equal(ops[i].cookie->status, status);
		assert_int_equal(ops[i].late, 0);
	}
}

/* An atomic operation ends in doubt when its lane is lost, not later. */
static void check_doubt(const struct op *o)
{
	assert_int_equal(o->cookie->count, 1);
	assert_int_equal(o->late ? o->late_status : o->cookie->status,
			 RDMAMSG_IN_DOUBT);
	assert_int_equal(o->late, o->cookie->status == RDMAMSG_OVERDUE);
}

/* On iWARP a message that is copied has status 0 once it is sent. */
static bool is_copied(const struct op *o)
{
	return test_iwarp() && o->kind == RDMAMSG_OP_SEND && o->len < LARGE;
}

static void check_begun(unsigned int end, unsigned int late, int status)
{
	for (unsigned int i = 0; i < end; i++) {
		if (is_copied(&ops[i]))
			check(i, i + 1, 0);
		if (is_copied(&ops[i]) || ops[i].kind == RDMAMSG_OP_FETCH_ADD)
			continue;
		assert_int_equal(ops[i].cookie->count, 1);
		assert_int_equal(ops[i].cookie->status, RDMAMSG_OVERDUE);
		assert_int_equal(ops[i].late, late);
		assert_int_equal(ops[i].late_status, status);
	}
}

static void check_late(unsigned int end, int status)
{
	check_begun(end, 1, status);
	for (unsigned int i = 0; i < end; i++)
		if (ops[i].kind == RDMAMSG_OP_FETCH_ADD)
			check_doubt(&ops[i]);
}

static void check_overdue(unsigned int end)
{
	check_begun(end, 0, 0);
}

/* Nothing of those that were taken back has arrived, of the others all. */
static void check_arrivals(void)
{
	unsigned int want[TAGS];

	for (uint32_t tag = 0; tag < TAGS; tag++)
		want[tag] = tag < tags;
	for (unsigned int i = 0; i < posted; i++)
		if (ops[i].kind == RDMAMSG_OP_SEND &&
		    ops[i].cookie->status == RDMAMSG_TIMED_OUT)
			want[ops[i].tag] = 0;
	assert_memory_equal(arrived, want, sizeof(want));
}

/*
 * Nothing has arrived of a session that ended without a lane; on iWARP nothing
 * of those that were taken back: TCP goes on with what was sent before.
 */
static void check_no_arrivals(void)
{
	const bool iwarp = test_iwarp();

	for (uint32_t tag = 0; tag < TAGS; tag++)
		assert_true(arrived[tag] <= iwarp);
	for (unsigned int i = 0; i < posted; i++)
		if (ops[i].kind == RDMAMSG_OP_SEND &&
		    ops[i].cookie->status == RDMAMSG_TIMED_OUT)
			assert_int_equal(arrived[ops[i].tag], 0);
}

/* ---- tests ------------------------------------------------------------- */

static void post_sends(uint32_t ms)
{
	post_send(100, ms);
	post_send(LARGE, ms);
}

/* Posts operations, and returns how many of them begin. */
static unsigned int post_all(uint32_t ms)
{
	unsigned int begun;

	post_sends(ms);
	post_onesided(ms);
	begun = posted;
	fill_queue();
	post_sends(ms);
	post_onesided(ms);
	return begun;
}

/* The memory of an operation is lent until its end. */
static void check_lent(void)
{
	assert_int_equal(rdmamsg_region_destroy(region), -EBUSY);
}

static void resume(void)
{
	silence(false);
	WAIT_PASSING(all_ended() && arrived[tags - 1]);
	test_pass(2 * LATER);
	assert_false(we->closed || they->closed);
}

static void check_memory(void)
{
	assert_int_equal(near[0], 40);
	assert_int_equal(far[1], 42);
	assert_true(far[2] <= 4 && far[2] % 2 == 0);
}

/* The time of the operations is over before or after the lane is lost. */
static void cut(bool passive, uint32_t ms, uint32_t flags)
{
	unsigned int begun, end;

	meet(passive, 100 * LATER, flags);
	silence(true);
	begun = post_all(ms);
	send_plain();
	if (ms == LATER)
		WAIT_PASSING(is_down());
	WAIT_PASSING(all_told());
	end = posted;
	check_overdue(begun);
	check(begun, end, RDMAMSG_TIMED_OUT);
	check_lent();
	WAIT_PASSING(is_down());
	check_overdue(begun);
	check_lent();
	resume();
	check_late(begun, 0);
	check(begun, end, RDMAMSG_TIMED_OUT);
	check_arrivals();
	check_memory();
	part();
}

static void cut__ops_END_ONCE(void **state)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(all_flags); i++) {
		cut(i & 1, SOON, all_flags[i]);
		cut(!(i & 1), LATER, all_flags[i]);
	}
}

/* With time enough, each operation is done, if need be on the next lane. */
static void cut__in_time_COMPLETES(void **state)
{
	for (int passive = 0; passive < 2; passive++) {
		unsigned int begun;

		meet(passive, 100 * LATER, 0);
		silence(true);
		begun = post_all(1000 * LATER);
		WAIT_PASSING(is_down());
		resume();
		for (unsigned int i = 0; i < posted; i++)
			if (i < begun && ops[i].kind == RDMAMSG_OP_FETCH_ADD)
				check_doubt(&ops[i]);
			else
				check(i, i + 1, 0);
		check_arrivals();
		check_memory();
		part();
	}
}

static void end_without_lane(bool passive, bool aborts)
{
	unsigned int begun;

	meet(passive, 4 * LATER, 0);
	silence(true);
	begun = post_all(SOON);
	WAIT_PASSING(all_told());
	WAIT_PASSING(is_down());
	if (aborts)
		rdmamsg_ep_abort(we->ep);
	WAIT_PASSING(we->closed);
	check_late(begun, -ECANCELED);
	check(begun, posted, RDMAMSG_TIMED_OUT);
	silence(false);
	WAIT_PASSING(they->closed);
	check_no_arrivals();
	part();
}

static void never_resumed__on_late_BEFORE_ON_CLOSED(void **state)
{
	end_without_lane(false, false);
	end_without_lane(true, false);
}

static void aborted__on_late_BEFORE_ON_CLOSED(void **state)
{
	end_without_lane(false, true);
	end_without_lane(true, true);
}

/* A test that fails leaves the network as it was. */
static int tear_down(void **state)
{
	if (silent)
		silence(false);
	return test_teardown(state);
}

int main(int argc, char **argv)
{
#define CUT_TEST(fn) { #fn, fn, test_setup, tear_down, NULL }
	const struct CMUnitTest tests[] = {
		CUT_TEST(cut__ops_END_ONCE),
		CUT_TEST(cut__in_time_COMPLETES),
		CUT_TEST(never_resumed__on_late_BEFORE_ON_CLOSED),
		CUT_TEST(aborted__on_late_BEFORE_ON_CLOSED),
	};

	return test_main(tests, NULL, argc, argv);
}
