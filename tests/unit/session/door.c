/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the limits of a listener for visitors from any number of
 * addresses.
 */
#include "base/base.h"
#include "base/util.h"
#include "session/door.h"
#include "wire/proto.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MANY	4096
#define WAIT_MS	60000

static struct visitor visitors[MANY];
static unsigned int count;
static struct door *door;

static struct rdmamsg_listen_options limits(void)
{
	return (struct rdmamsg_listen_options){
		.backlog = 16, .max_requests = 32, .max_half_open = 64,
		.max_endpoints = RDMAMSG_NONE, .setup_timeout_ms = 1000,
		.slow_ms = DOOR_SLOW_MS,
	};
}

static void open_door(const struct rdmamsg_listen_options *o)
{
	door = rdmamsg__door_new(o);
	assert_non_null(door);
	count = 0;
}

static struct sockaddr_storage addr(uint32_t n)
{
	struct sockaddr_storage ss = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;

	in->sin_addr.s_addr = htonl(0x0a000000 + n);
	in->sin_port = htons((uint16_t)(1024 + count));
	return ss;
}

static int come(uint32_t from, enum door_stage stage)
{
	const struct sockaddr_storage ss = addr(from);
	int ret;

	assert_true(count < MANY);
	visitors[count].door = NULL;
	ret = rdmamsg__door_admit(door, &ss, stage, &visitors[count]);
	count += !ret;
	return ret;
}

static void move_all(enum door_stage stage)
{
	for (unsigned int i = 0; i < count; i++)
		rdmamsg__visitor_move(&visitors[i], stage);
}

/* Admits visitors until a limit refuses one. Returns the number admitted. */
static unsigned int crowd(uint32_t from, enum door_stage then, int *ret_limit)
{
	unsigned int n = 0, first = count;

	while (!(*ret_limit = come(from, DOOR_REQUEST))) {
		rdmamsg__visitor_move(&visitors[count - 1], then);
		n++;
	}
	assert_int_equal(count, first + n);
	return n;
}

static struct rdmamsg_listener_stats stats(void)
{
	struct rdmamsg_listener_stats s;

	rdmamsg__door_stats(door, &s);
	return s;
}

static void leave_all(void)
{
	while (count)
		rdmamsg__visitor_leave(&visitors[--count]);
}

static void close_door(void)
{
	struct rdmamsg_listener_stats s;

	leave_all();
	s = stats();
	assert_int_equal(s.requests + s.half_open + s.endpoints, 0);
	rdmamsg__door_close(door);
}

/* ---- each limit ------------------------------------------------------- */

static void admit__one_address_LEAVES_A_THIRD(void **state)
{
	static const struct {
		enum door_stage then;
		int limit;
		unsigned int max;
	} each[] = {
		{ DOOR_REQUEST, PROTO_LIMIT_REQUESTS, 32 },
		{ DOOR_HALF_OPEN, PROTO_LIMIT_HALF_OPEN, 64 },
		{ DOOR_OPEN, PROTO_LIMIT_SOURCE, 100 },
	};
	struct rdmamsg_listen_options o = limits();

	o.max_endpoints = 100;
	for (int i = 0; i < 3; i++) {
		int limit;

		open_door(&o);
		assert_int_equal(crowd(1, each[i].then, &limit),
				 2 * each[i].max / 3);
		assert_int_equal(limit, each[i].limit);
		/* each new address still gets in */
		for (uint32_t from = 2; from < 8; from++)
			assert_int_equal(come(from, DOOR_REQUEST), 0);
		close_door();
	}
}

static void admit__as_many_addresses_as_there_is_room_FOR_EACH_ONE(void **state)
{
	struct rdmamsg_listen_options o = limits();

	open_door(&o);
	for (uint32_t from = 0; from < o.max_requests; from++)
		assert_int_equal(come(from, DOOR_REQUEST), 0);
	assert_int_equal(come(1000, DOOR_REQUEST), PROTO_LIMIT_REQUESTS);
	assert_int_equal(stats().rejected_requests, 1);
	assert_int_equal(stats().requests, o.max_requests);
	move_all(DOOR_HALF_OPEN);
	assert_int_equal(stats().half_open, o.max_requests);
	assert_int_equal(stats().accepted, o.max_requests);
	for (uint32_t from = 100; from < 132; from++)
		assert_int_equal(come(from, DOOR_REQUEST), 0);
	assert_int_equal(come(1000, DOOR_REQUEST), PROTO_LIMIT_HALF_OPEN);
	assert_int_equal(stats().rejected_half_open, 1);
	move_all(DOOR_OPEN);
	assert_int_equal(come(1000, DOOR_REQUEST), 0);
	assert_int_equal(stats().endpoints, 64);
	close_door();
}

static void admit__max_endpoints_IS_THE_LAST(void **state)
{
	struct rdmamsg_listen_options o = limits();

	o.max_endpoints = 5;
	open_door(&o);
	for (uint32_t from = 0; from < 5; from++)
		assert_int_equal(come(from, DOOR_REQUEST), 0);
	move_all(DOOR_OPEN);
	assert_int_equal(come(9, DOOR_REQUEST), PROTO_LIMIT_ENDPOINTS);
	assert_int_equal(stats().rejected_endpoints, 1);
	rdmamsg__visitor_leave(&visitors[--count]);
	assert_int_equal(come(9, DOOR_REQUEST), 0);
	close_door();
}

static void admit__max_per_source_IN_PLACE_OF_THE_SHARE(void **state)
{
	struct rdmamsg_listen_options o = limits();
	int limit;

	o.max_per_source = 30;
	open_door(&o);
	assert_int_equal(crowd(1, DOOR_REQUEST, &limit), 30);
	assert_int_equal(limit, PROTO_LIMIT_SOURCE);
	assert_int_equal(stats().rejected_source, 1);
	/* the limit per source counts the visitors of all stages */
	move_all(DOOR_OPEN);
	assert_int_equal(come(1, DOOR_REQUEST), PROTO_LIMIT_SOURCE);
	close_door();
	o.max_per_source = RDMAMSG_NONE;
	open_door(&o);
	assert_int_equal(crowd(1, DOOR_REQUEST, &limit), 32);
	assert_int_equal(limit, PROTO_LIMIT_REQUESTS);
	close_door();
}

static void admit__no_limits_ADMITS_ALL(void **state)
{
	struct rdmamsg_listen_options o = {
		.backlog = 1, .max_requests = RDMAMSG_NONE,
		.max_half_open = RDMAMSG_NONE, .max_endpoints = RDMAMSG_NONE,
		.slow_ms = RDMAMSG_NONE,
	};

	open_door(&o);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(come(1, DOOR_REQUEST), 0);
	rdmamsg__visitor_offends(&visitors[0]);
	assert_int_equal(stats().offences, 0);
	close_door();
}

static void admit__TCP_connections_A_PART_FOR_EACH(void **state)
{
	struct rdmamsg_listen_options o = limits();
	unsigned int n = 0;

	open_door(&o);
	while (!come(1, DOOR_RECORD))
		n++;
	assert_int_equal(n, 2 * o.backlog / 3);
	assert_int_equal(come(2, DOOR_RECORD), 0);
	/* TCP connections do not count for the other limits */
	assert_int_equal(stats().requests, 0);
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	/* the visitor's record arrives, and the visitor becomes a request */
	{
		const struct sockaddr_storage ss = addr(1);

		assert_int_equal(rdmamsg__door_admit(door, &ss, DOOR_REQUEST,
						     &visitors[0]), 0);
	}
	assert_int_equal(stats().requests, 2);
	assert_int_equal(come(1, DOOR_RECORD), 0);
	close_door();
}

/* ---- addresses -------------------------------------------------------- */

static void admit__v4_in_v6_IS_THE_SAME_ADDRESS(void **state)
{
	struct sockaddr_storage ss = { .ss_family = AF_INET6 };
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;
	struct rdmamsg_listen_options o = limits();

	o.max_per_source = 1;
	open_door(&o);
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.0.0.1",
				   &in6->sin6_addr), 1);
	assert_int_equal(rdmamsg__door_admit(door, &ss, DOOR_REQUEST,
					     &visitors[count]),
			 PROTO_LIMIT_SOURCE);
	/* a scope matters for link-local addresses only */
	assert_int_equal(inet_pton(AF_INET6, "fe80::1", &in6->sin6_addr), 1);
	for (uint32_t scope = 1; scope < 3; scope++) {
		in6->sin6_scope_id = scope;
		assert_int_equal(rdmamsg__door_admit(door, &ss, DOOR_REQUEST,
						     &visitors[count++]), 0);
	}
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &in6->sin6_addr),
			 1);
	assert_int_equal(rdmamsg__door_admit(door, &ss, DOOR_REQUEST,
					     &visitors[count++]), 0);
	in6->sin6_scope_id = 7;
	assert_int_equal(rdmamsg__door_admit(door, &ss, DOOR_REQUEST,
					     &visitors[count]),
			 PROTO_LIMIT_SOURCE);
	close_door();
}

/* ---- offences --------------------------------------------------------- */

static void offend__address_IS_REJECTED_OTHERS_ARE_NOT(void **state)
{
	struct rdmamsg_listen_options o = limits();

	open_door(&o);
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	rdmamsg__visitor_offends(&visitors[0]);
	leave_all();
	assert_int_equal(come(1, DOOR_REQUEST), PROTO_LIMIT_SLOWED);
	assert_int_equal(come(2, DOOR_REQUEST), 0);
	assert_int_equal(stats().offences, 1);
	assert_int_equal(stats().slowed, 1);
	close_door();
}

/* Returns the ms until the address gets in again. */
static uint64_t pause_of(uint32_t from)
{
	uint64_t begin = rdmamsg__now_ms();

	while (come(from, DOOR_REQUEST)) {
		assert_true(rdmamsg__now_ms() < begin + WAIT_MS);
		usleep(500);
	}
	return rdmamsg__now_ms() - begin;
}

static void offend__again_DOUBLES_THE_PAUSE(void **state)
{
	struct rdmamsg_listen_options o = limits();

	o.slow_ms = 10;
	open_door(&o);
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	for (uint32_t i = 0; i < 5; i++) {
		rdmamsg__visitor_offends(&visitors[0]);
		leave_all();
		/* both clocks count whole ms, which may cost 2 ms */
		assert_true(pause_of(1) + 2 >= 10u << i);
	}
	close_door();
}

static void offend__many_addresses_KEEPS_THE_LAST_ONES(void **state)
{
	struct rdmamsg_listen_options o = limits();

	open_door(&o);
	for (uint32_t from = 0; from < DOOR_OFFENDERS + 10; from++) {
		assert_int_equal(come(from, DOOR_REQUEST), 0);
		rdmamsg__visitor_offends(&visitors[0]);
		leave_all();
	}
	for (uint32_t from = 0; from < DOOR_OFFENDERS + 10; from++) {
		assert_int_equal(come(from, DOOR_REQUEST), from < 10 ? 0 :
				 PROTO_LIMIT_SLOWED);
		leave_all();
	}
	close_door();
}

/* ---- a host with many addresses ---------------------------------------- */

static int come_from_v6(const char *net, uint32_t host)
{
	struct sockaddr_storage ss = { .ss_family = AF_INET6 };
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;
	int ret;

	assert_int_equal(inet_pton(AF_INET6, net, &in6->sin6_addr), 1);
	in6->sin6_scope_id = 1;
	host = htonl(host);
	memcpy(&in6->sin6_addr.s6_addr[12], &host, sizeof(host));
	assert_true(count < MANY);
	visitors[count].door = NULL;
	ret = rdmamsg__door_admit(door, &ss, DOOR_REQUEST, &visitors[count]);
	count += !ret;
	return ret;
}

static void net__of_many_addresses_LEAVES_A_PART(void **state)
{
	struct rdmamsg_listen_options o = limits();
	uint32_t n = 0;

	o.max_requests = 660;
	o.max_half_open = RDMAMSG_NONE;
	open_door(&o);
	/* an address counts by itself */
	while (!come_from_v6("2001:db8::", 1))
		n++;
	assert_int_equal(n, 440);
	leave_all();
	/* a share of at least 16 times that of an address, and a part is left */
	for (n = 0; !come_from_v6("2001:db8::", n); n++)
		;
	assert_int_equal(n, 640);
	assert_int_equal(come_from_v6("2001:db8::", 77777),
			 PROTO_LIMIT_REQUESTS);
	for (n = 1; n <= 8; n++) {
		assert_int_equal(come_from_v6("2001:db8:0:1::", n), 0);
		assert_int_equal(come(n, DOOR_REQUEST), 0);
	}
	leave_all();
	/* a link has one network, whose hosts need not be one */
	for (n = 0; !come_from_v6("fe80::", n); n++)
		;
	assert_int_equal(n, 660);
	leave_all();
	/* an offence is that of an address */
	assert_int_equal(come_from_v6("2001:db8::", 1), 0);
	rdmamsg__visitor_offends(&visitors[0]);
	assert_int_equal(come_from_v6("2001:db8::", 1), PROTO_LIMIT_SLOWED);
	assert_int_equal(come_from_v6("2001:db8::", 2), 0);
	close_door();
}

/* ---- sessions that nobody has ------------------------------------------ */

/* Returns how often the address may ask until it may not. */
static uint32_t asks_of(uint32_t from)
{
	uint32_t n = 0;
	bool may;

	do {
		assert_int_equal(come(from, DOOR_REQUEST), 0);
		may = rdmamsg__visitor_may_ask(&visitors[count - 1]);
		rdmamsg__visitor_leave(&visitors[--count]);
		n += may;
	} while (may && n < 1000 * DOOR_ASKS);
	return n;
}

static void sessions__that_nobody_has_A_BUDGET_FOR_EACH_ADDRESS(void **state)
{
	struct rdmamsg_listen_options o = limits();
	uint64_t begun = rdmamsg__now_ms();
	uint32_t n;

	open_door(&o);
	n = asks_of(1);
	/* DOOR_ASKS, and again for each second that the test stood still */
	assert_in_range(n, DOOR_ASKS, DOOR_ASKS *
			((rdmamsg__now_ms() - begun) / 1000 + 1));
	assert_true(asks_of(2) >= DOOR_ASKS);
	/* it is no offence: new connections are admitted */
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	assert_int_equal(stats().offences, 0);
	/* the budget comes again */
	for (begun = rdmamsg__now_ms();
	     !rdmamsg__visitor_may_ask(&visitors[0]);) {
		assert_true(rdmamsg__now_ms() < begun + WAIT_MS);
		(void)usleep(1000);
	}
	leave_all();
	/* many other addresses are not remembered */
	for (uint32_t from = 3; from < MANY; from++) {
		assert_int_equal(come(from, DOOR_REQUEST), 0);
		assert_true(rdmamsg__visitor_may_ask(&visitors[0]));
		leave_all();
	}
	close_door();
}

/* Returns how many of so many asks, each from its own address, are answered. */
static uint32_t asks_of_net(const char *net, uint32_t asks)
{
	uint32_t n = 0;

	for (uint32_t host = 0; host < asks; host++) {
		assert_int_equal(come_from_v6(net, host), 0);
		n += rdmamsg__visitor_may_ask(&visitors[0]);
		leave_all();
	}
	return n;
}

static void sessions__asked_for_by_many_A_BUDGET_FOR_THE_NET(void **state)
{
	const uint32_t budget = DOOR_NET * DOOR_ASKS, asks = 8 * budget;
	struct rdmamsg_listen_options o = limits();
	uint64_t begun = rdmamsg__now_ms();
	uint32_t n, seconds;

	open_door(&o);
	n = asks_of_net("2001:db8::", asks);
	/* and again for each second that the test stood still */
	seconds = (uint32_t)((rdmamsg__now_ms() - begun) / 1000);
	assert_in_range(n, budget, budget * (seconds + 1));
	/* of other nets, and of a link, whose hosts need not be one */
	assert_int_equal(asks_of_net("2001:db8:0:1::", 1), 1);
	assert_int_equal(asks_of_net("fe80::", asks), asks);
	/* it is no offence: new connections are admitted */
	assert_int_equal(come_from_v6("2001:db8::", 1), 0);
	assert_int_equal(stats().offences, 0);
	leave_all();
	close_door();
}

/* ---- the listener closes first ---------------------------------------- */

static void close__before_the_visitors_LEAVES_THEM(void **state)
{
	struct rdmamsg_listen_options o = limits();

	open_door(&o);
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	assert_int_equal(come(1, DOOR_REQUEST), 0);
	assert_int_equal(come(2, DOOR_REQUEST), 0);
	rdmamsg__visitor_offends(&visitors[2]);
	rdmamsg__door_close(door);
	rdmamsg__visitor_move(&visitors[0], DOOR_HALF_OPEN);
	rdmamsg__visitor_offends(&visitors[0]);
	leave_all();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(admit__one_address_LEAVES_A_THIRD),
		cmocka_unit_test(
			admit__as_many_addresses_as_there_is_room_FOR_EACH_ONE),
		cmocka_unit_test(admit__max_endpoints_IS_THE_LAST),
		cmocka_unit_test(admit__max_per_source_IN_PLACE_OF_THE_SHARE),
		cmocka_unit_test(admit__no_limits_ADMITS_ALL),
		cmocka_unit_test(admit__TCP_connections_A_PART_FOR_EACH),
		cmocka_unit_test(admit__v4_in_v6_IS_THE_SAME_ADDRESS),
		cmocka_unit_test(offend__address_IS_REJECTED_OTHERS_ARE_NOT),
		cmocka_unit_test(offend__again_DOUBLES_THE_PAUSE),
		cmocka_unit_test(offend__many_addresses_KEEPS_THE_LAST_ONES),
		cmocka_unit_test(net__of_many_addresses_LEAVES_A_PART),
		cmocka_unit_test(
			sessions__that_nobody_has_A_BUDGET_FOR_EACH_ADDRESS),
		cmocka_unit_test(
			sessions__asked_for_by_many_A_BUDGET_FOR_THE_NET),
		cmocka_unit_test(close__before_the_visitors_LEAVES_THEM),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
