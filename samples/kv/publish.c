/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes go to a group, each with its sequence number. Nothing is queued for a
 * group that has no room: the next number tells the followers that they have
 * missed something, and they read the table again.
 */
#include "server.h"

#include <err.h>
#include <string.h>

void publish_sequence(struct server *s)
{
	const struct kv_head head = {
		.magic = KV_MAGIC, .kind = KV_SEQUENCE,
		.number = s->store->table.seq,
	};

	if (s->group)
		rdmamsg_group_publish(s->group, &head, sizeof(head));
}

/* The sequence number follows when there is room. */
void publish_change(struct server *s, const struct kv_item *item, uint64_t seq)
{
	static char bytes[KV_ITEM_MAX];
	struct kv_item change = *item;

	change.head.id = 0;
	change.head.number = seq;
	if (s->group)
		rdmamsg_group_publish(s->group, bytes,
				      kv_build(bytes, &change));
}

/* The group is joined, or has room again. */
static void on_ready(struct rdmamsg_group *group)
{
	publish_sequence(rdmamsg_group_user(group));
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct server *s = rdmamsg_group_user(group);

	s->group = NULL;
	if (why->error)
		warnx("changes are not published: %s", why->text);
}

void publish_open(struct server *s, const char *group, const char *addr)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_ready,
		.on_writable = on_ready, .on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = s, .handlers = &on,
		.source = addr,
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	};

	if (strlen(group) >= sizeof(((struct kv_hello *)0)->group))
		errx(1, "'%s' is too long for the address of a group", group);
	s->group_address = group;
	if (rdmamsg_group_join(s->ctx, group, &opts, &s->group))
		errx(1, "%s", rdmamsg_error());
}
