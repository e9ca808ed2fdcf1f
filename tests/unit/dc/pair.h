/* SPDX-License-Identifier: BSD-2-Clause */
/* A target, and a sender with a session to it, in two contexts. */
#ifndef TESTS_UNIT_DC_PAIR_H
#define TESTS_UNIT_DC_PAIR_H

#include "two.h"
#include "dc/dc.h"
#include "../../tuning.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define KEY	0x1234u
#define CREDITS	8u

static struct rdmamsg_dc_target *target;
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *address;
static unsigned int messages, violations, completed, failed, gone;
static int status;
static char service[8];

static inline void on_message(struct rdmamsg_dc_target *t,
			      struct rdmamsg_msg *msg, uint64_t from)
{
	(void)t;
	(void)from;
	messages++;
	rdmamsg_msg_free(msg);
}

static inline void on_violation(struct rdmamsg_dc_target *t,
				const struct sockaddr_storage *from)
{
	(void)t;
	assert_int_equal(from->ss_family, AF_UNSPEC);
	violations++;
}

static inline void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	(void)t;
	gone++;
}

static inline void on_complete(struct rdmamsg_dc_sender *s,
			       struct rdmamsg_dc_address *a, void *cookie,
			       int st)
{
	(void)s;
	(void)a;
	(void)cookie;
	status = st;
	completed++;
}

static inline void on_failed(struct rdmamsg_dc_sender *s,
			     struct rdmamsg_dc_address *a,
			     const struct rdmamsg_reason *why)
{
	(void)s;
	(void)a;
	assert_true(why->text[0]);
	failed++;
}

static inline void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	(void)s;
	gone++;
}

static inline void send_one(void)
{
	const unsigned int before = completed, there = messages;

	assert_int_equal(rdmamsg_dc_send(address, "x", 1, 0, &status), 0);
	WAIT_FOR(completed == before + 1 && messages == there + 1);
	assert_int_equal(status, 0);
}

static inline int start(void **state)
{
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .tuning = TUNING(.recv_depth = CREDITS),
	};
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = KEY, .on_message = on_message,
		.on_violation = on_violation, .path = RDMAMSG_DC_NATIVE,
		.on_destroyed = on_target_destroyed, .ep = &ep,
	};
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_complete = on_complete,
		.on_failed = on_failed, .path = RDMAMSG_DC_NATIVE,
		.on_destroyed = on_sender_destroyed,
	};

	messages = violations = completed = failed = gone = 0;
	assert_int_equal(rdmamsg_open(&near, NULL), 0);
	assert_int_equal(rdmamsg_open(&far, NULL), 0);
	assert_int_equal(rdmamsg_dc_target_create(far, "127.0.0.1", "0", &to,
						  &target), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_dc_target_port(target));
	assert_int_equal(rdmamsg_dc_sender_create(near, &so, &sender), 0);
	assert_int_equal(rdmamsg_dc_address_create(sender, "127.0.0.1", service,
						   KEY, NULL, &address), 0);
	send_one();
	assert_int_equal(target->sessions, 1);
	return 0;
}

static inline void destroy_both(void)
{
	rdmamsg_dc_sender_destroy(sender);
	rdmamsg_dc_target_destroy(target);
}

/* Both are gone. */
static inline int close_contexts(void)
{
	assert_int_equal(gone, 2);
	rdmamsg_close(near);
	rdmamsg_close(far);
	return 0;
}

static inline int finish(void **state)
{
	destroy_both();
	WAIT_FOR(gone == 2);
	return close_contexts();
}

#endif
