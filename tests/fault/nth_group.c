/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios of groups: join, publish, leave. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <rdmamsg/group.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#include "nth.h"

#define MESSAGES	4u
#define MESSAGE		10000u		/* several fragments */

static struct member {
	struct rdmamsg_group *group;	/* NULL: none, or closed */
	bool joined;
	uint32_t messages, lost;
} members[2];

static void on_joined(struct rdmamsg_group *group)
{
	((struct member *)rdmamsg_group_user(group))->joined = true;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	if (msg->len != MESSAGE || memcmp(msg->data, pattern, MESSAGE))
		fail("message %u of the group is another one", msg->number);
	((struct member *)rdmamsg_group_user(group))->messages++;
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	((struct member *)rdmamsg_group_user(group))->lost += last - first + 1;
	reported++;
}

static void on_lost(struct rdmamsg_group *group,
		    const struct rdmamsg_reason *why)
{
	((struct member *)rdmamsg_group_user(group))->joined = false;
	reported++;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct member *m = rdmamsg_group_user(group);

	m->group = NULL;
	m->joined = false;
	reported += why->error != 0;
}

static bool are_joined(void)
{
	for (int i = 0; i < 2; i++)
		if (members[i].group && !members[i].joined)
			return false;
	return true;
}

/* Without memory for its sender, the first message is dropped. */
static bool is_unknown(void)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	return members[SERVER].group &&
	       !rdmamsg_group_get_stats(members[SERVER].group, &st) &&
	       st.dropped_senders;
}

static bool have_come(void)
{
	const struct member *m = &members[SERVER];

	return reported || is_unknown() || m->messages + m->lost == MESSAGES;
}

static bool are_closed(void)
{
	return !members[0].group && !members[1].group;
}

static void join(int i, uint32_t flags)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_gap = on_gap,
		.on_lost = on_lost, .on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = &members[i], .handlers = &on,
		.flags = flags | RDMAMSG_GROUP_REPAIR, .linger_ms = 20,
		.source = address, .timeout_ms = 3000, .recv_depth = 64,
	};

	if (told(rdmamsg_group_join(ctxs[i], "239.6.6.6", &opts,
				    &members[i].group)))
		members[i].group = NULL;
}

/* Every other message by the call that takes an operation. */
static int publish(uint32_t n)
{
	const struct rdmamsg_sge sge = { .data = pattern, .len = MESSAGE };
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = &sge,
		.count = 1,
	};

	return n % 2 ? rdmamsg_group_post(members[CLIENT].group, &op) :
		       rdmamsg_group_publish(members[CLIENT].group, pattern,
					     MESSAGE);
}

static void do_group(void)
{
	memset(members, 0, sizeof(members));
	join(SERVER, RDMAMSG_GROUP_SUBSCRIBE);
	join(CLIENT, RDMAMSG_GROUP_PUBLISH);
	if (!drive(are_joined, BODY_MS))
		fail("neither joined nor told why not");
	for (uint32_t n = 0; n < MESSAGES && members[CLIENT].joined; n++) {
		int ret = publish(n);

		/*
		 * the group has room for these, so -EAGAIN means a lost
		 * membership
		 */
		if (ret != -EAGAIN)
			told(ret);
		else
			reported++;
	}
	if (!drive(have_come, BODY_MS))
		fail("%u of %u messages have come, and nothing is told",
		     members[SERVER].messages, MESSAGES);
	for (int i = 0; i < 2; i++)
		rdmamsg_group_leave(members[i].group);
	if (!drive(are_closed, BODY_MS))
		fail("a group is not left");
}

const struct scenario group_scenarios[] = {
	{ "group", OPEN, do_group },
	{ NULL },
};
