/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: senders that nobody knows get sessions by tickets, which end, and
 * leave room for others. What they keep busy is bounded.
 */
#include "config.h"

#include "../own_fabric.h"
#include "pair.h"
#include "stranger.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/dci.h"
#include "dc/port.h"
#include "dc/ticket.h"
#include "dc/visitor.h"
#include "device/cq.h"
#include "device/dc.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "wire/dc_frame.h"

#include <netinet/in.h>
#include <stdio.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

/* ---- tickets and sessions ---------------------------------------------- */

/* Each session costs a visitor, until its credits are used up. */
static void hello__many_BOUNDED_THEN_BUSY(void **state)
{
	unsigned int most;

	open_both();
	do {
		greet();
		most = target->sessions;
	} while (most < 100);
	assert_true(target->granted + 64 <= target->dc->depth);
	close_both();
	/* nobody answers the target any more */
	WAIT_PASSING(target->sessions == 1);
}

/* Each HELLO brings nothing but the look for its ticket. */
static void hello__without_a_ticket_NO_MEMORY(void **state)
{
	enum { TIMES = 1000 };
	struct dc_place place;
	uint32_t handles, receives;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	handles = target->dc->peers.size;
	receives = target->dc->receives;
	for (uint64_t i = 0; i < TIMES; i++)
		hello(i * 0x9e3779b97f4a7c15);
	send_one();
	assert_int_equal(lost, 0);
	assert_int_equal(target->sessions, 1);
	assert_int_equal(target->dc->peers.size, handles);
	assert_int_equal(target->dc->receives, receives);
	assert_true(list_empty(&target->tickets));
	assert_int_equal(frames, 0);
	close_both();
}

static void ticket__counts_once_and_for_its_sender_ONLY(void **state)
{
	const uint64_t ticket = ticket_from(INADDR_LOOPBACK);
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	assert_null(rdmamsg__ticket_take(target, ticket, 98));
	assert_null(rdmamsg__ticket_take(target, ticket ^ 1, 99));
	for (int i = 0; i < 3; i++)
		hello(ticket);
	WAIT_FOR(got.type == DCF_WELCOME);
	send_one();
	assert_int_equal(target->sessions, 2);
	close_both();
}

static uint32_t take_all(uint32_t ip)
{
	uint32_t n = 0;

	while (ticket_from(ip))
		n++;
	return n;
}

static void tickets__of_one_address_LEAVE_ROOM_FOR_OTHERS(void **state)
{
	/* the right sender has used one */
	assert_in_range(take_all(0x0a000001), 64, 86);
	assert_in_range(take_all(0x0a000002), 10, 40);
	assert_true(take_all(0x0a000003));
	/* those that nobody uses end with time */
	for (uint32_t i = 0; i <= DCF_FORGET_MS / PORT_TICK_MS; i++) {
		assert_false(list_empty(&target->tickets));
		rdmamsg__tickets_tick(target);
	}
	assert_true(list_empty(&target->tickets));
	assert_in_range(take_all(0x0a000003), 64, 86);
	send_one();
}

/* Ten senders are allowed, and one address asks for all of them. */
static void sessions__of_one_address_LEAVE_ROOM_FOR_OTHERS(void **state)
{
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = KEY, .max_senders = 10,
		.on_message = on_message, .on_destroyed = on_target_destroyed,
	};
	struct rdmamsg_dc_target *first = target;
	struct ticket *held[10];
	uint32_t n = 0;
	uint64_t ticket;

	assert_int_equal(rdmamsg_dc_target_create(far, "127.0.0.1", "0", &to,
						  &target), 0);
	while ((ticket = ticket_from(0x0a000001))) {
		assert_true(n < 10);
		held[n++] = rdmamsg__ticket_take(target, ticket, 99);
	}
	assert_in_range(n, 5, 7);
	assert_true(ticket_from(0x0a000002));
	assert_true(ticket_from(0x0a000003));
	while (n)
		rdmamsg__ticket_free(held[--n]);
	rdmamsg_dc_target_destroy(target);
	WAIT_FOR(gone == 1);
	gone = 0;
	target = first;
}

/* ---- addresses that do not answer -------------------------------------- */

static const struct verbs_api *right;
static unsigned int slow_calls;

/* Like ibv_create_ah(3) for an address of 10.0.0.0/8, where no host answers. */
static struct ibv_ah *slow_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const uint64_t begin = rdmamsg__now_ms();

	if (attr->grh.dgid.raw[12] != 10)
		return right->create_ah(pd, attr);
	slow_calls++;
	while (rdmamsg__now_ms() < begin + 2)
		;
	errno = ETIMEDOUT;
	return NULL;
}

/* A HELLO that names a host of 10.0.0.0/8. */
static void hello_naming(uint8_t last, uint64_t ticket)
{
	struct dc_hello_frame h = { .sender = 99, .key = port->key };
	uint8_t frame[DCF_HELLO_LEN];

	rdmamsg__port_place(port, &h.place);
	memcpy(h.place.gid + 12, (uint8_t[]){ 10, 0, 0, last }, 4);
	rdmamsg__dcf_hello_encode(&h, frame);
	say((struct dc_frame){ .type = DCF_HELLO, .token = ticket },
	    frame + DCF_LEN, DCF_HELLO_LEN - DCF_LEN);
}

/* A stranger names other hosts, and another one leaves its own address. */
static void address__does_not_answer_FEW_WAITS_AND_OTHERS_SERVED(void **state)
{
	struct rdmamsg_device *d = target->dc->dev->device;
	struct verbs_api slow = *d->v;
	uint64_t tickets[4];

	right = d->v;
	slow.create_ah = slow_ah;
	open_both();
	d->v = &slow;
	slow_calls = 0;
	for (uint8_t i = 1; i <= 4; i++)
		hello_naming(9, ticket_from(0x0a000000u + i));
	send_one();
	WAIT_FOR(list_empty(&target->tickets));
	assert_int_equal(slow_calls, 1);
	for (int i = 0; i < 4; i++)
		tickets[i] = ticket_from(0x0a000005);
	for (int i = 0; i < 4; i++)
		hello_naming(5, tickets[i]);
	send_one();
	WAIT_FOR(list_empty(&target->tickets));
	assert_int_equal(slow_calls, 2);
	/* others are at their own addresses, and are served */
	greet();
	assert_int_equal(target->sessions, 3);
	d->v = right;
	close_both();
}

/* ---- initiators of the target ------------------------------------------ */

#include "strangers.h"

int main(void)
{
#ifndef HAVE_MLX5DV
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
#endif
#define WITH_BOTH(fn)	\
	cmocka_unit_test_setup_teardown(fn, start, finish_passing)
	const struct CMUnitTest tests[] = {
		WITH_BOTH(hello__many_BOUNDED_THEN_BUSY),
		WITH_BOTH(hello__without_a_ticket_NO_MEMORY),
		WITH_BOTH(ticket__counts_once_and_for_its_sender_ONLY),
		WITH_BOTH(tickets__of_one_address_LEAVE_ROOM_FOR_OTHERS),
		WITH_BOTH(sessions__of_one_address_LEAVE_ROOM_FOR_OTHERS),
		WITH_BOTH(address__does_not_answer_FEW_WAITS_AND_OTHERS_SERVED),
		WITH_BOTH(initiators__answers_are_not_taken_OTHERS_HAVE_MOST),
		WITH_BOTH(initiators__of_one_address_FIRST_ANSWER_OF_OTHERS_AT_ONCE),
		WITH_BOTH(initiators__of_one_address_HALF),
		WITH_BOTH(sessions__never_answered_FORGOTTEN_TOGETHER),
		WITH_BOTH(sessions__of_one_process_IT_IS_DEAD_FOUND_OUT_TOGETHER),
	};

	join_own_fabric("hellos");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
