/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A publisher and its subscribers, each in a context of its own. The subscribers
 * note the order of what they are given.
 */
#ifndef MEMBERS_H
#define MEMBERS_H

#include "../own_fabric.h"
#include "../until.h"
#include "base/base.h"
#include "device/verbs_api.h"
#include "group/carrier.h"
#include "group/group.h"
#include "soft/control/soft_ctl.h"
#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/group.h>

#define GROUP		"239.1.2.3"
#define SUBSCRIBERS	3
#define LARGEST		20000u
#define TURNS		20000		/* enough for all that is on its way */

struct end {
	struct rdmamsg *ctx;
	struct rdmamsg_group *group;
	bool bad;
	uint32_t joined, losses, closed;
	struct rdmamsg_reason why;
	uint32_t due, messages, gaps, lost;
	uint32_t flushes;
	struct rdmamsg_group_flushed flushed;	/* the last one */
	uint32_t backlogs, backlog, less;	/* calls; the last one's */
	uint32_t marked;			/* messages */
	uint32_t early, late;			/* likewise, if unordered */
	uint32_t laggards, writable;		/* calls */
	struct rdmamsg_group_member laggard;	/* the last one */
};

static struct end all[1 + SUBSCRIBERS];
static uint8_t content[LARGEST + 256];
static uint32_t published;
static const char *join_at = GROUP;
static const char *join_from;	/* of all members, or NULL */
static uint32_t recv_depth;	/* likewise, or 0 */
static uint32_t history;	/* of the publisher, or 0 */
static bool unordered;		/* the members have no order */

static inline uint32_t length_of(uint32_t number)
{
	uint32_t n = number * 2654435761u >> 16;

	return n % 8 ? n % 500 : n % LARGEST;
}

static inline void on_joined(struct rdmamsg_group *group)
{
	((struct end *)rdmamsg_group_user(group))->joined++;
}

static inline void on_lost(struct rdmamsg_group *group,
		    const struct rdmamsg_reason *why)
{
	struct end *m = rdmamsg_group_user(group);

	m->losses++;
	m->why = *why;
}

static inline void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct end *m = rdmamsg_group_user(group);

	m->closed++;
	m->why = *why;
}

static inline void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	struct end *m = rdmamsg_group_user(group);

	m->bad |= (msg->number != m->due && !unordered) ||
		  msg->len != length_of(msg->number) ||
		  memcmp(msg->data, content + msg->number % 256, msg->len);
	m->early += msg->number > m->due;
	m->late += msg->number < m->due;
	m->due = msg->number < m->due ? m->due : msg->number + 1;
	m->messages++;
	m->bad |= msg->is_backlog && m->marked == m->backlog;
	m->marked += msg->is_backlog != 0;
}

static inline void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	struct end *m = rdmamsg_group_user(group);

	m->bad |= first != m->due;
	m->due = last + 1;
	m->gaps++;
	m->lost += last - first + 1;
}

static inline void on_flushed(struct rdmamsg_group *group,
			      const struct rdmamsg_group_flushed *flushed)
{
	struct end *m = rdmamsg_group_user(group);

	m->bad |= m->closed > 0;
	m->flushes++;
	m->flushed = *flushed;
}

static inline void on_backlog(struct rdmamsg_group *group,
			      const struct rdmamsg_group_sender *sender,
			      uint32_t first, uint32_t count, int less)
{
	struct end *m = rdmamsg_group_user(group);

	m->bad |= m->messages > 0;
	m->due = first;
	m->backlogs++;
	m->backlog = count;
	m->less = less != 0;
}

static inline void on_laggard(struct rdmamsg_group *group,
			      const struct rdmamsg_group_member *m)
{
	struct end *e = rdmamsg_group_user(group);

	e->bad |= !m->is_laggard;
	e->laggards++;
	e->laggard = *m;
}

static inline void on_writable(struct rdmamsg_group *group)
{
	((struct end *)rdmamsg_group_user(group))->writable++;
}

static inline void turn(int ms)
{
	struct pollfd fds[1 + SUBSCRIBERS];

	for (int i = 0; i <= SUBSCRIBERS; i++)
		fds[i] = (struct pollfd){ rdmamsg_fd(all[i].ctx), POLLIN, 0 };
	(void)poll(fds, 1 + SUBSCRIBERS, ms);
	for (int i = 0; i <= SUBSCRIBERS; i++)
		assert_true(rdmamsg_process(all[i].ctx) >= 0);
}

#define WAIT_FOR(condition)	UNTIL_BY(turn(10), condition)

/* All work but those from here on. */
static inline void turn_below(int end)
{
	for (int i = 0; i < end; i++)
		assert_true(rdmamsg_wait(all[i].ctx, i ? 0 : 1) >= 0);
}

/* All datagrams are lost with this probability, in millionths. */
static inline void drop(uint32_t share)
{
	struct soft_ctl_faults f = { .drop = share, .seed = 53 };
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	soft_ctl_close(ctl);
}

static inline bool all_due(uint32_t number)
{
	for (int i = 1; i <= SUBSCRIBERS; i++)
		if (all[i].due != number)
			return false;
	return true;
}

/* Lets all work, under a test's clock while no time passes. */
static inline bool comes_at_once(uint32_t number)
{
	for (int i = 0; i < TURNS && !all_due(number); i++)
		turn(i % 64 == 63);
	return all_due(number);
}

#define STRANGER	53u		/* the id in its reports */

static inline struct carrier_peer stranger_at(void)
{
	return (struct carrier_peer){
		.gid = all[1].group->carrier->sgid, .qpn = 0x54321,
	};
}

/* A stranger reports to the publisher that it is due this message. */
static inline void report(uint32_t number, uint8_t flags,
			  const struct frame_wish *wish)
{
	const struct frame_report r = { .id = STRANGER };
	uint8_t payload[FRAME_REPORT_LEN + FRAME_WISH_LEN];
	const struct frame f = {
		.type = FRAME_REPORT, .number = number,
		.flags = (uint8_t)(flags | (wish ? FRAME_WISH : 0)),
		.sender = all[0].group->id, .data = payload,
		.data_len = wish ? sizeof(payload) : FRAME_REPORT_LEN,
	};
	const struct datagram d = { .from = stranger_at() };

	rdmamsg__report_encode(&r, payload);
	if (wish)
		rdmamsg__wish_encode(wish, payload + FRAME_REPORT_LEN);
	rdmamsg__subscriber_report(all[0].group, &f, &d);
}

static inline void publish(uint32_t count)
{
	for (uint32_t n = published; n < published + count; n++) {
		int ret;

		while ((ret = rdmamsg_group_publish(all[0].group,
						    content + n % 256,
						    length_of(n))) == -EAGAIN)
			turn(10);
		assert_int_equal(ret, 0);
		if (n % 16 == 0)
			turn(0);
	}
	published += count;
}

/* Opens the context of a member, and joins. */
static inline void join_one(struct end *m, struct rdmamsg_group_options opts)
{
	static const struct rdmamsg_group_handlers handlers = {
		.size = sizeof(handlers), .on_joined = on_joined, .on_lost = on_lost,
		.on_message = on_message, .on_gap = on_gap,
		.on_closed = on_closed, .on_flushed = on_flushed,
		.on_backlog = on_backlog, .on_laggard = on_laggard,
		.on_writable = on_writable,
	};

	opts.size = sizeof(opts);
	opts.handlers = &handlers;
	opts.linger_ms = 300;
	opts.source = join_from;
	opts.recv_depth = recv_depth;
	opts.history = history;
	opts.user = m;
	memset(m, 0, sizeof(*m));
	assert_int_equal(rdmamsg_open(&m->ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(m->ctx, join_at, &opts,
					    &m->group), 0);
}

static inline void join_all(uint32_t flags)
{
	published = 0;
	for (int i = 0; i <= SUBSCRIBERS; i++)
		join_one(&all[i], (struct rdmamsg_group_options){
			.flags = flags | (i ? RDMAMSG_GROUP_SUBSCRIBE :
					  RDMAMSG_GROUP_PUBLISH),
		});
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined);
	/* they know the publisher, and are no late joiners any more */
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == 1);
}

static inline void end_all(void)
{
	for (int i = 0; i <= SUBSCRIBERS; i++)
		rdmamsg_close(all[i].ctx);
}

static inline int run_members(const char *fabric,
			      const struct CMUnitTest *tests, size_t count)
{
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i % 256 + i / 256);
	join_own_fabric(fabric);
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return _cmocka_run_group_tests("group", tests, count, NULL, NULL);
}

#endif
