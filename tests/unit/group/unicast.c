/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a group without multicast is like any other, and ends and begins
 * with its publisher.
 */
#include "members.h"
#include "base/ctx.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/audience.h"

#define PUBLISHER	(&all[0])
#define ONE		(&all[1])
#define LAST		(&all[SUBSCRIBERS])
#define FAKE		0x100000u	/* first queue pair of subscribers */
#define AT		"unicast:127.0.0.1:7010"

static void join(struct end *m, struct rdmamsg_group_options opts)
{
	opts.flags = RDMAMSG_GROUP_REPAIR |
		     (m == PUBLISHER ? RDMAMSG_GROUP_PUBLISH :
				       RDMAMSG_GROUP_SUBSCRIBE);
	join_one(m, opts);
}

static uint32_t proved(void)
{
	const struct audience *a = PUBLISHER->group->audience;
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->count; i++)
		n += a->members[i].proved;
	return n;
}

static void begin(struct rdmamsg_group_options opts)
{
	join_at = AT;
	published = 0;
	join(PUBLISHER, opts);
	while (!PUBLISHER->joined)
		assert_true(rdmamsg_wait(PUBLISHER->ctx, 10) >= 0);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		join(&all[i], opts);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined);
	/* two reports make a subscriber known, and prove its address */
	WAIT_FOR(proved() == SUBSCRIBERS);
}

static void expect_all(void)
{
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].messages, published);
		assert_int_equal(all[i].gaps, 0);
		assert_false(all[i].bad);
	}
}

static void messages__of_all_sizes_ARRIVE(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(1000);
	expect_all();
	end_all();
}

static void messages__with_losses_ARE_EXACT(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	drop(50000);
	publish(500);
	expect_all();
	drop(0);
	end_all();
}

static void key_and_parity__ARE_EXACT(void **state)
{
	begin((struct rdmamsg_group_options){
		.key = "the key of the group", .key_len = 20, .parity = 4,
	});
	publish(1);
	expect_all();
	drop(20000);
	publish(500);
	expect_all();
	drop(0);
	end_all();
}

static void flush__of_all_IS_TOLD(void **state)
{
	begin((struct rdmamsg_group_options){
		.flow = RDMAMSG_GROUP_FLOW_SLOWEST, .flow_window = 64,
	});
	publish(300);
	assert_int_equal(rdmamsg_group_flush(PUBLISHER->group, 60000), 0);
	WAIT_FOR(PUBLISHER->flushes);
	assert_int_equal(PUBLISHER->flushed.members, SUBSCRIBERS);
	assert_int_equal(PUBLISHER->flushed.behind, 0);
	expect_all();
	end_all();
}

static void late__with_backlog_COMES_FIRST(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(100);
	expect_all();
	rdmamsg_close(LAST->ctx);
	join(LAST, (struct rdmamsg_group_options){ .backlog = 30 });
	WAIT_FOR(LAST->backlogs && LAST->due == published);
	assert_int_equal(LAST->backlog, 30);
	assert_int_equal(LAST->messages, 30);
	publish(10);
	WAIT_FOR(LAST->due == published);
	assert_int_equal(LAST->messages, 40);
	assert_false(LAST->bad);
	end_all();
}

static void nobody__publishes_REFUSED(void **state)
{
	join_at = AT;
	join(ONE, (struct rdmamsg_group_options){ 0 });
	while (!ONE->closed)
		assert_true(rdmamsg_wait(ONE->ctx, 10) >= 0);
	assert_int_equal(ONE->why.error, -ECONNREFUSED);
	assert_non_null(strstr(ONE->why.text, "no publisher listens"));
	rdmamsg_close(ONE->ctx);
}

/* A subscriber looks for the next publisher until there is one. */
static void publisher__another_follows_IS_FOUND(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	rdmamsg_close(PUBLISHER->ctx);
	memset(PUBLISHER, 0, sizeof(*PUBLISHER));
	for (int i = 1; i <= SUBSCRIBERS; i++)
		while (!all[i].losses)
			for (int k = 1; k <= SUBSCRIBERS; k++)
				assert_true(rdmamsg_wait(all[k].ctx, 5) >= 0);
	assert_non_null(strstr(ONE->why.text, "unicast:127.0.0.1: the "
			       "publisher "));
	join(PUBLISHER, (struct rdmamsg_group_options){ 0 });
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].joined == 2);
		all[i].due = all[i].messages = 0;
	}
	published = 0;
	WAIT_FOR(PUBLISHER->group->audience->count == SUBSCRIBERS);
	publish(20);
	expect_all();
	end_all();
}

/* A subscriber that goes costs the publisher nothing more. */
static void subscriber__leaves_IS_FORGOTTEN(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	rdmamsg_group_leave(LAST->group);
	WAIT_FOR(LAST->closed);
	WAIT_FOR(PUBLISHER->group->audience->count == SUBSCRIBERS - 1);
	publish(20);
	WAIT_FOR(ONE->due == published);
	end_all();
}

/* Its network has failed: it asks again, and misses nothing. */
static void subscriber__joins_again_MISSES_NOTHING(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	rdmamsg__carrier_lost(LAST->group->carrier, RDMAMSG_WHO_NETWORK,
			      RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
			      "a test");
	publish(20);
	WAIT_FOR(LAST->joined == 2);
	publish(20);
	expect_all();
	end_all();
}

/* The network of the publisher has failed, not that of the others. */
static void publisher__joins_again_NOBODY_MISSES_ANYTHING(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	rdmamsg__carrier_lost(PUBLISHER->group->carrier, RDMAMSG_WHO_NETWORK,
			      RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
			      "a test");
	WAIT_FOR(PUBLISHER->joined == 2);
	publish(50);
	expect_all();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_int_equal(all[i].losses, 0);
	end_all();
}

static void on_sent(struct rdmamsg_group *group, uint64_t n)
{
	struct end *m = rdmamsg_group_user(group);

	m->bad |= n != ++m->messages;
}

/* Once for each message, not for each copy. */
static void on_sent__of_copies_COMES_ONCE(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	PUBLISHER->group->on.on_sent = on_sent;
	publish(100);
	expect_all();
	WAIT_FOR(PUBLISHER->messages == published);
	assert_false(PUBLISHER->bad);
	end_all();
}

/* A request has room for one copy, and all of them need more. */
static void queue__full_of_copies_GOES_ON(void **state)
{
	begin((struct rdmamsg_group_options){ .rate = RDMAMSG_NONE });
	PUBLISHER->group->on.on_sent = on_sent;
	for (int round = 0; round < 20; round++) {
		while (!rdmamsg_group_publish(PUBLISHER->group,
					      content + published % 256,
					      length_of(published)))
			published++;
		turn(0);
	}
	expect_all();
	WAIT_FOR(PUBLISHER->messages == published);
	assert_false(PUBLISHER->bad);
	end_all();
}

/* ---- publishers that go ------------------------------------------------- */

static struct member *publisher_at(const struct end *m)
{
	struct member *p = rdmamsg__member_find(m->group, m->group->publisher);

	assert_non_null(p);
	return p;
}

/* As if nothing had come from it for ten seconds. */
static void look_at_silence(const struct end *m)
{
	publisher_at(m)->heard = 0;
	rdmamsg__timer_set(&m->ctx->loop.timers, &m->group->sweep, 0);
}

/* The one before stays known, and silent. */
static void publisher__killed_another_follows_IS_JOINED_ONCE(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	drop(1000000);
	rdmamsg_close(PUBLISHER->ctx);
	drop(0);
	memset(PUBLISHER, 0, sizeof(*PUBLISHER));
	join(PUBLISHER, (struct rdmamsg_group_options){ 0 });
	WAIT_FOR(PUBLISHER->joined);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		look_at_silence(&all[i]);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].joined == 2);
		assert_non_null(strstr(all[i].why.text, "is silent"));
		all[i].due = all[i].messages = 0;
	}
	published = 0;
	WAIT_FOR(proved() == SUBSCRIBERS);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		rdmamsg__timer_set(&all[i].ctx->loop.timers,
				   &all[i].group->sweep, 0);
	publish(20);
	expect_all();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_int_equal(all[i].losses, 1);
	end_all();
}

static uint8_t datagram[FRAME_HDR_LEN + FRAME_REPORT_LEN];

/* A stranger gives the publisher's address as its own. */
static void forge(const struct end *to, enum frame_type type)
{
	const struct member *p = publisher_at(to);
	const struct frame f = {
		.type = type, .flags = FRAME_REPAIRS, .sender = p->who.id,
		.number = published, .length = 1,
	};
	const struct datagram d = {
		.data = datagram, .len = sizeof(datagram), .from = p->from,
	};

	memset(datagram, 0, sizeof(datagram));
	rdmamsg__frame_encode(&f, datagram);
	rdmamsg__group_unicast(to->group->carrier, &d);
}

/* It is looked for, and found where it was. */
static void end__forged_IS_JOINED_AGAIN(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	forge(ONE, FRAME_END);
	WAIT_FOR(ONE->losses == 1);
	WAIT_FOR(ONE->joined == 2);
	publish(20);
	expect_all();
	end_all();
}

/* Reports and NACKs, which publishers take, say nothing to a subscriber. */
static void report__to_a_subscriber_IS_IGNORED(void **state)
{
	begin((struct rdmamsg_group_options){ 0 });
	publish(20);
	expect_all();
	forge(ONE, FRAME_REPORT);
	forge(ONE, FRAME_NACK);
	assert_false(publisher_at(ONE)->ended);
	assert_int_equal(ONE->group->state, GROUP_JOINED);
	publish(20);
	expect_all();
	assert_int_equal(ONE->losses, 0);
	end_all();
}

/* ---- strangers ---------------------------------------------------------- */

static uint64_t datagrams(void)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_group_get_stats(PUBLISHER->group, &st), 0);
	return st.sent_datagrams;
}

/* Nothing goes to an address that a stranger has named. */
static void report__from_a_forged_address_GETS_NOTHING(void **state)
{
	uint64_t before;

	begin((struct rdmamsg_group_options){ 0 });
	PUBLISHER->group->on.on_sent = on_sent;
	report(0, 0, NULL);
	assert_int_equal(PUBLISHER->group->audience->count, SUBSCRIBERS + 1);
	assert_int_equal(proved(), SUBSCRIBERS);
	before = datagrams();
	for (int i = 0; i < 10; i++) {
		while (length_of(published) > 500)
			publish(1);
		before = datagrams();
		assert_int_equal(rdmamsg_group_publish(PUBLISHER->group,
				 content + published % 256,
				 length_of(published)), 0);
		published++;
		assert_int_equal(datagrams(), before + SUBSCRIBERS);
	}
	expect_all();
	WAIT_FOR(PUBLISHER->messages == published);
	end_all();
}

/* Messages that nobody was there for count for the budget. */
static void late__nobody_was_there_GETS_ALL(void **state)
{
	join_at = AT;
	published = 0;
	join(PUBLISHER, (struct rdmamsg_group_options){ 0 });
	while (!PUBLISHER->joined)
		assert_true(rdmamsg_wait(PUBLISHER->ctx, 10) >= 0);
	for (uint32_t n = 0; n < 2000; n++)
		while (rdmamsg_group_publish(PUBLISHER->group,
					     content + n % 256, length_of(n)))
			assert_true(rdmamsg_wait(PUBLISHER->ctx, 1) >= 0);
	published = 2000;
	for (int i = 1; i <= SUBSCRIBERS; i++)
		join(&all[i], (struct rdmamsg_group_options){
			.backlog = i == 1 ? RDMAMSG_NONE : 0,
		});
	WAIT_FOR(ONE->backlogs && ONE->due == published);
	assert_int_equal(ONE->messages, ONE->backlog);
	assert_true(ONE->backlog > 1000);
	assert_int_equal(ONE->gaps, 0);
	end_all();
}

static void refuse(const char *address, uint32_t flags, const char *why)
{
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .flags = flags,
	};
	struct rdmamsg_group *g;

	assert_int_equal(rdmamsg_group_join(ONE->ctx, address, &opts, &g),
			 -EINVAL);
	if (!strstr(rdmamsg_error(), why))
		fail_msg("%s: %s", address, rdmamsg_error());
}

static void address__of_no_use_EINVAL(void **state)
{
	const uint32_t right = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_PUBLISH;

	assert_int_equal(rdmamsg_open(&ONE->ctx, NULL), 0);
	refuse("unicast:127.0.0.1", right, "is not the address");
	refuse("unicast:127.0.0.1:0", right, "is not the address");
	refuse("unicast:239.1.2.3:7000", right, "is not the address");
	refuse("unicast:[ff15::1]:7000", right, "is not the address");
	refuse("unicast:unicast:127.0.0.1:7000", right, "is not the address");
	refuse("unicast:localhost:7000", right, "is not the address");
	refuse(AT, RDMAMSG_GROUP_PUBLISH, "needs RDMAMSG_GROUP_REPAIR");
	refuse(AT, RDMAMSG_GROUP_REPAIR, "has one publisher");
	refuse(AT, right | RDMAMSG_GROUP_IPOIB, "neither");
	rdmamsg_close(ONE->ctx);
}

/* The copies go into a queue that has room for them. */
static void subscribers__of_a_full_audience_ARE_REFUSED(void **state)
{
	struct audience *a;

	begin((struct rdmamsg_group_options){ 0 });
	a = PUBLISHER->group->audience;
	rdmamsg_close(LAST->ctx);
	while (a->count < AUDIENCE_MAX)
		a->members[a->count++] = (struct subscriber){
			.at.qpn = FAKE + a->count,
			.heard = rdmamsg__now_ms() + 600000,
		};
	join(LAST, (struct rdmamsg_group_options){ 0 });
	WAIT_FOR(LAST->closed);
	assert_int_equal(LAST->why.error, -ECONNREFUSED);
	assert_true(PUBLISHER->group->carrier->send_depth >= 2 * AUDIENCE_MAX);
	/* the others have ways, which are to be dropped */
	while (a->count && a->members[a->count - 1].at.qpn >= FAKE)
		a->count--;
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages__of_all_sizes_ARRIVE),
		cmocka_unit_test(messages__with_losses_ARE_EXACT),
		cmocka_unit_test(key_and_parity__ARE_EXACT),
		cmocka_unit_test(flush__of_all_IS_TOLD),
		cmocka_unit_test(late__with_backlog_COMES_FIRST),
		cmocka_unit_test(nobody__publishes_REFUSED),
		cmocka_unit_test(publisher__another_follows_IS_FOUND),
		cmocka_unit_test(subscriber__leaves_IS_FORGOTTEN),
		cmocka_unit_test(subscriber__joins_again_MISSES_NOTHING),
		cmocka_unit_test(publisher__joins_again_NOBODY_MISSES_ANYTHING),
		cmocka_unit_test(on_sent__of_copies_COMES_ONCE),
		cmocka_unit_test(queue__full_of_copies_GOES_ON),
		cmocka_unit_test(
		    publisher__killed_another_follows_IS_JOINED_ONCE),
		cmocka_unit_test(end__forged_IS_JOINED_AGAIN),
		cmocka_unit_test(report__to_a_subscriber_IS_IGNORED),
		cmocka_unit_test(report__from_a_forged_address_GETS_NOTHING),
		cmocka_unit_test(late__nobody_was_there_GETS_ALL),
		cmocka_unit_test(address__of_no_use_EINVAL),
		cmocka_unit_test(subscribers__of_a_full_audience_ARE_REFUSED),
	};

	return run_members("unicast", tests, sizeof(tests) / sizeof(*tests));
}
