/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a group without multicast is like any other, and ends and begins
 * with its publisher.
 */
#include "members.h"
#include "base/util.h"
#include "group/audience.h"

#define PUBLISHER	(&all[0])
#define ONE		(&all[1])
#define LAST		(&all[SUBSCRIBERS])
#define AT		"unicast:127.0.0.1:7010"

static void join(struct end *m, struct rdmamsg_group_options opts)
{
	opts.flags = RDMAMSG_GROUP_REPAIR |
		     (m == PUBLISHER ? RDMAMSG_GROUP_PUBLISH :
				       RDMAMSG_GROUP_SUBSCRIBE);
	join_one(m, opts);
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
	/* a report makes a subscriber known */
	WAIT_FOR(PUBLISHER->group->audience->count == SUBSCRIBERS);
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
			.at.qpn = 0x100000 + a->count,
			.heard = rdmamsg__now_ms() + 600000,
		};
	join(LAST, (struct rdmamsg_group_options){ 0 });
	WAIT_FOR(LAST->closed);
	assert_int_equal(LAST->why.error, -ECONNREFUSED);
	assert_true(PUBLISHER->group->carrier->send_depth >= 2 * AUDIENCE_MAX);
	a->count = SUBSCRIBERS - 1;
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
		cmocka_unit_test(on_sent__of_copies_COMES_ONCE),
		cmocka_unit_test(address__of_no_use_EINVAL),
		cmocka_unit_test(subscribers__of_a_full_audience_ARE_REFUSED),
	};

	return run_members("unicast", tests, sizeof(tests) / sizeof(*tests));
}
