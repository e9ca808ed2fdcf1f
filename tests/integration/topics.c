/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: groups are joined by the names of topics, a subscriber joins all
 * that a pattern matches, and learns the topic of a message from its user.
 */
#include "common.h"

#include <rdmamsg/group.h>

#define TOPICS	3

static char path[64];			/* of the file of topics */

struct topic {
	char name[64];
	struct rdmamsg_group *group;
	unsigned int joined, closed, messages, writable;
	char last[32];
	uint32_t number;		/* of the last message */
};

static void on_joined(struct rdmamsg_group *group)
{
	((struct topic *)rdmamsg_group_user(group))->joined++;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	struct topic *t = rdmamsg_group_user(group);

	snprintf(t->last, sizeof(t->last), "%.*s", (int)msg->len,
		 (const char *)msg->data);
	t->number = msg->number;
	t->messages++;
}

static void on_writable(struct rdmamsg_group *group)
{
	((struct topic *)rdmamsg_group_user(group))->writable++;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct topic *t = rdmamsg_group_user(group);

	t->group = NULL;
	t->closed++;
}

static int join(struct rdmamsg *ctx, struct topic *t, const char *address,
		uint32_t flags)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_writable = on_writable,
		.on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = t, .handlers = &on,
		.flags = flags, .device = test_device(),
	};

	return rdmamsg_group_join(ctx, address, &opts, &t->group);
}

static void publish(struct topic *t, const char *text)
{
	int ret = rdmamsg_group_publish(t->group, text, strlen(text));

	while (ret == -EAGAIN) {
		unsigned int before = t->writable;

		WAIT_FOR(t->writable > before);
		ret = rdmamsg_group_publish(t->group, text, strlen(text));
	}
	assert_int_equal(ret, 0);
}

/* ---- a subscriber by a pattern ----------------------------------------- */

struct subscriber {
	struct rdmamsg *ctx;
	struct topic topics[TOPICS];
	unsigned int count;
};

/* The recipe of rdmamsg_topics_each(3). */
static int join_match(const char *name, const char *address, void *user)
{
	struct subscriber *s = user;
	struct topic *t = &s->topics[s->count++];

	snprintf(t->name, sizeof(t->name), "%s", name);
	return join(s->ctx, t, address, RDMAMSG_GROUP_SUBSCRIBE);
}

static void write_topics(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void pattern__joins_all_MESSAGES_HAVE_THEIR_TOPIC(void **state)
{
	struct subscriber s = { .ctx = test_open(NULL) };
	struct rdmamsg *ctx = test_open(NULL);
	struct topic eur = { 0 }, usd = { 0 };

	write_topics("ticks.eur 239.7.8.1\nnews 239.7.8.2\n"
		     "ticks.usd.jpy 239.7.8.3 7000\n");
	assert_int_equal(rdmamsg_topics_each("ticks.*", join_match, &s), 2);
	assert_string_equal(s.topics[0].name, "ticks.eur");
	assert_string_equal(s.topics[1].name, "ticks.usd.jpy");
	WAIT_FOR(s.topics[0].joined && s.topics[1].joined);
	assert_int_equal(join(ctx, &eur, "ticks.eur", RDMAMSG_GROUP_PUBLISH),
			 0);
	assert_int_equal(join(ctx, &usd, "ticks.usd.jpy",
			      RDMAMSG_GROUP_PUBLISH), 0);
	WAIT_FOR(eur.joined && usd.joined);
	publish(&eur, "1.08");
	WAIT_FOR(s.topics[0].messages);
	assert_string_equal(s.topics[0].last, "1.08");
	assert_int_equal(s.topics[0].number, 0);
	assert_int_equal(s.topics[1].messages, 0);
	publish(&usd, "150.2");
	WAIT_FOR(s.topics[1].messages);
	assert_string_equal(s.topics[1].last, "150.2");
	assert_int_equal(s.topics[0].messages, 1);
	publish(&eur, "1.09");
	WAIT_FOR(s.topics[0].messages == 2);
	assert_int_equal(s.topics[0].number, 1);
	test_close(s.ctx);
	test_close(ctx);
}

static void name__that_cannot_be_resolved_IS_TOLD(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct topic t = { 0 };

	write_topics("ticks.eur 239.7.8.1\n");
	assert_error(join(ctx, &t, "ticks.gbp", 0), -ENOENT, "'ticks.gbp'");
	assert_error(join(ctx, &t, "ticks.gbp", 0), -ENOENT, path);
	assert_error(join(ctx, &t, "ticks.*", 0), -EINVAL, "'ticks.*'");
	assert_error(join(ctx, &t, "ticks..eur", 0), -EINVAL, "'ticks..eur'");
	write_topics("ticks.eur 239.7.8.1\n\nb 10.0.0.1\n");
	assert_error(join(ctx, &t, "ticks.eur", 0), -EINVAL, path);
	assert_error(join(ctx, &t, "ticks.eur", 0), -EINVAL,
		     ":3: not the address");
	unlink(path);
	assert_error(join(ctx, &t, "ticks.eur", 0), -ENOENT, path);
	/* an address needs no file */
	assert_int_equal(join(ctx, &t, "239.7.8.1", 0), 0);
	WAIT_FOR(t.joined);
	write_topics("");
	rdmamsg_group_leave(t.group);
	WAIT_FOR(t.closed);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(pattern__joins_all_MESSAGES_HAVE_THEIR_TOPIC),
		TEST(name__that_cannot_be_resolved_IS_TOLD),
	};
	int ret;

	/* before the library reads the environment */
	snprintf(path, sizeof(path), "/tmp/rdmamsg-topics.%d", (int)getpid());
	(void)setenv("RDMAMSG_TOPICS", path, 1);
	end_on_iwarp(NO_GROUPS);
	ret = test_main(tests, NULL, argc, argv);
	unlink(path);
	return ret;
}
