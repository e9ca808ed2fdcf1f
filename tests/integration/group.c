/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: members join groups, and published messages reach all of them.
 */
#include "common.h"
#include "../op_fields.h"

#include <rdmamsg/group.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define GROUP	"239.7.7.7"
#define MEMBERS	4
#define MANY	64

/* ---- members ---------------------------------------------------------- */

struct member {
	struct rdmamsg_group *group;
	struct rdmamsg_group_handlers on;
	struct rdmamsg_group_options opts;
	unsigned int joined, closed, writable;
	struct rdmamsg_reason why;
	uint32_t messages, gaps, lost, next;
	size_t bytes;
	uint64_t sender;
	bool leave;			/* leave with the next message */
	uint64_t sent;			/* the last one of on_sent */
	/* of the last message in raw mode */
	int has_imm;
	uint32_t imm;
	uint8_t grh[40];
};

static void on_joined(struct rdmamsg_group *group)
{
	struct member *m = rdmamsg_group_user(group);

	m->joined++;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	struct member *m = rdmamsg_group_user(group);

	if (m->messages && m->sender && m->sender == msg->sender->id &&
	    msg->number != m->next)
		note("message %u where %u was due", msg->number, m->next);
	if (msg->len && memcmp(msg->data, pattern(msg->number), msg->len))
		note("message %u of %zu bytes differs", msg->number, msg->len);
	m->sender = msg->sender->id;
	m->next = msg->number + 1;
	m->has_imm = msg->has_imm;
	m->imm = msg->imm;
	if (msg->grh)
		memcpy(m->grh, msg->grh, sizeof(m->grh));
	m->messages++;
	m->bytes += msg->len;
	if (m->leave)
		rdmamsg_group_leave(group);
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	struct member *m = rdmamsg_group_user(group);

	m->gaps++;
	m->lost += last - first + 1;
	m->next = last + 1;
}

static void on_writable(struct rdmamsg_group *group)
{
	struct member *m = rdmamsg_group_user(group);

	m->writable++;
}

static void on_sent(struct rdmamsg_group *group, uint64_t n)
{
	struct member *m = rdmamsg_group_user(group);

	if (n != m->sent + 1)
		note("message %llu is sent after %llu", (unsigned long long)n,
		     (unsigned long long)m->sent);
	if (m->closed)
		note("message %llu is sent after on_closed",
		     (unsigned long long)n);
	m->sent = n;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct member *m = rdmamsg_group_user(group);

	m->closed++;
	m->group = NULL;
	m->why = *why;
}

static struct member member(uint32_t flags)
{
	return (struct member){
		.on = {
			.size = sizeof(struct rdmamsg_group_handlers),
			.on_joined = on_joined, .on_message = on_message,
			.on_gap = on_gap, .on_writable = on_writable,
			.on_closed = on_closed, .on_sent = on_sent,
		},
		.opts = {
			.size = sizeof(struct rdmamsg_group_options),
			.flags = flags, .device = test_device(),
		},
	};
}

static int join(struct rdmamsg *ctx, struct member *m, const char *address)
{
	m->opts.user = m;
	m->opts.handlers = &m->on;
	return rdmamsg_group_join(ctx, address, &m->opts, &m->group);
}

static void join_all(struct member *m, int n, const char *address)
{
	for (int i = 0; i < n; i++)
		if (join(test_open(NULL), &m[i], address))
			fail_msg("rdmamsg_group_join: %s", rdmamsg_error());
	for (int i = 0; i < n; i++) {
		WAIT_FOR(m[i].joined || m[i].closed);
		if (m[i].closed)
			fail_msg("not joined: %s", m[i].why.text);
	}
}

static void leave_all(struct member *m, int n)
{
	for (int i = 0; i < n; i++) {
		rdmamsg_group_leave(m[i].group);
		WAIT_FOR(m[i].closed);
		assert_int_equal(m[i].why.cause, RDMAMSG_CAUSE_CLOSED);
	}
}

static void publish(struct member *m, uint32_t number, size_t len)
{
	int ret = rdmamsg_group_publish(m->group, pattern(number), len);

	while (ret == -EAGAIN) {
		unsigned int before = m->writable;

		WAIT_FOR(m->writable > before);
		ret = rdmamsg_group_publish(m->group, pattern(number), len);
	}
	if (ret)
		fail_msg("rdmamsg_group_publish: %s", rdmamsg_error());
}

static int post(void *group, const struct rdmamsg_op *op)
{
	return rdmamsg_group_post(group, op);
}

/*
 * Publishes the pattern from pieces of the lengths, 0 to 'count', and changes
 * the memory at once. 'copy' has room for it.
 */
static void post_pieces(struct member *m, uint32_t number, const size_t *lens,
			uint32_t count, uint8_t *copy)
{
	struct rdmamsg_sge sge[RDMAMSG_SEGMENTS_MAX];
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = sge,
		.count = count,
	};
	size_t len = 0;
	int ret;

	for (uint32_t i = 0; i < count; len += lens[i++])
		sge[i] = (struct rdmamsg_sge){ copy + len, lens[i], NULL };
	memcpy(copy, pattern(number), len);
	while ((ret = post(m->group, &op)) == -EAGAIN) {
		unsigned int before = m->writable;

		WAIT_FOR(m->writable > before);
	}
	if (ret)
		fail_msg("rdmamsg_group_post: %s", rdmamsg_error());
	memset(copy, 0xee, len);
}

/* ---- tests ------------------------------------------------------------ */

static void messages__of_every_size_ARRIVE_EVERYWHERE(void **state)
{
	static const size_t sizes[] = {
		0, 1, 64, 900, 1000, 4000, 4064, 4065, 10000, 100000, 1 << 20,
	};
	struct member m[MEMBERS];
	uint32_t number = 0;

	for (int i = 0; i < MEMBERS; i++)
		m[i] = member(0);
	join_all(m, MEMBERS, GROUP);
	for (size_t k = 0; k < 3 * ARRAY_SIZE(sizes); k++) {
		publish(&m[0], number++, sizes[k % ARRAY_SIZE(sizes)]);
		for (int i = 1; i < MEMBERS; i++)
			WAIT_FOR(m[i].messages == number);
	}
	for (int i = 1; i < MEMBERS; i++) {
		assert_int_equal(m[i].gaps, 0);
		assert_true(m[i].sender != 0);
	}
	/* without RDMAMSG_GROUP_OWN a member does not get its own messages */
	assert_int_equal(m[0].messages, 0);
	leave_all(m, MEMBERS);
}

static void own__are_received_IF_ASKED_FOR(void **state)
{
	struct member m[2] = { member(RDMAMSG_GROUP_OWN), member(0) };

	join_all(m, 2, GROUP);
	publish(&m[0], 0, 100);
	WAIT_FOR(m[0].messages && m[1].messages);
	leave_all(m, 2);
}

static void publishers__several_ARE_KEPT_APART(void **state)
{
	struct member m[3] = {
		member(RDMAMSG_GROUP_PUBLISH), member(RDMAMSG_GROUP_PUBLISH),
		member(RDMAMSG_GROUP_SUBSCRIBE),
	};

	join_all(m, 3, GROUP);
	for (uint32_t i = 0; i < 10; i++) {
		publish(&m[0], i, 10);
		publish(&m[1], i, 5000);
		WAIT_FOR(m[2].messages == 2 * i + 2);
	}
	assert_int_equal(m[2].gaps, 0);
	assert_error(rdmamsg_group_publish(m[2].group, "", 1), -EPERM,
		     "PUBLISH");
	leave_all(m, 3);
}

static void groups__many_SHARE_A_CONTEXT(void **state)
{
	struct rdmamsg *a = test_open(NULL), *b = test_open(NULL);
	static struct member m[2][MANY];
	char address[32];

	for (int i = 0; i < MANY; i++) {
		m[0][i] = member(RDMAMSG_GROUP_PUBLISH);
		m[1][i] = member(RDMAMSG_GROUP_SUBSCRIBE);
		snprintf(address, sizeof(address), "239.9.0.%d", i);
		assert_int_equal(join(a, &m[0][i], address), 0);
		assert_int_equal(join(b, &m[1][i], address), 0);
	}
	for (int i = 0; i < MANY; i++)
		WAIT_FOR(m[0][i].joined && m[1][i].joined);
	for (int i = 0; i < MANY; i++) {
		publish(&m[0][i], 0, (size_t)i);
		WAIT_FOR(m[1][i].messages == 1);
		assert_int_equal(m[1][i].bytes, i);
	}
	leave_all(m[0], MANY);
	leave_all(m[1], MANY);
}

static void own__of_raw_mode_ARE_FILTERED(void **state)
{
	struct rdmamsg_group_stats s = { .size = sizeof(s) };
	struct member m[3] = {
		member(RDMAMSG_GROUP_RAW), member(RDMAMSG_GROUP_RAW),
		member(RDMAMSG_GROUP_RAW | RDMAMSG_GROUP_OWN),
	};

	join_all(m, 3, GROUP);
	publish(&m[0], 0, 100);
	WAIT_FOR(m[1].messages == 1 && m[2].messages == 1);
	publish(&m[2], 0, 100);
	WAIT_FOR(m[0].messages && m[1].messages == 2 && m[2].messages == 2);
	/* a looped-back message of m[0] arrives before that of m[2] */
	assert_int_equal(m[0].messages, 1);
	assert_int_equal(rdmamsg_group_get_stats(m[0].group, &s), 0);
	assert_in_range(s.dropped_own, 0, 1);
	leave_all(m, 3);
}

/* On Ethernet an IPv6 address and the MGID are the same. */
static void mgid__and_a_port_ARE_ADDRESSES(void **state)
{
	static const char *const address[][2] = {
		{ "239.7.7.7", "239.7.7.7:7000" },
		{ "ff15::7:7", "[ff15::7:7]:7000" },
		{ "ff15::7:7", "ff15:0:0:0:0:0:7:7" },
		{ "ff15:0:0:0:0:0:7:7", "[ff15:0:0:0:0:0:7:7]:1" },
	};
	const char *link = getenv("RDMAMSG_SOFT_LINK");
	struct rdmamsg_group_attr info = { .size = sizeof(info) };

	for (size_t k = 0; k < ARRAY_SIZE(address); k++) {
		struct member m[2] = { member(0), member(0) };

		for (int i = 0; i < 2; i++) {
			/* no route leads to an MGID, so name the source */
			if (strstr(address[k][i], ":0:0:"))
				m[i].opts.source = test_addr();
			join_all(&m[i], 1, address[k][i]);
		}
		if (k == 2 && link && !strcmp(link, "ib")) {
			leave_all(m, 2);
			continue;	/* only one is a mapped address */
		}
		publish(&m[0], 0, 100);
		WAIT_FOR(m[1].messages == 1);
		assert_int_equal(rdmamsg_group_query(m[1].group, &info), 0);
		if (k == 3) {
			assert_int_equal(info.mgid[0], 0xff);
			assert_int_equal(info.mgid[1], 0x15);
			assert_int_equal(info.mgid[15], 7);
		}
		leave_all(m, 2);
	}
}

static void group__left_in_its_callback_IS_LEFT(void **state)
{
	struct member m[2] = { member(0), member(0) };

	join_all(m, 2, "ff15::7:7");
	m[1].leave = true;
	publish(&m[0], 0, 10);
	publish(&m[0], 1, 10);
	WAIT_FOR(m[1].closed);
	assert_int_equal(m[1].messages, 1);
	leave_all(m, 1);
}

static void raw__with_and_without_immediate_data_ARRIVES(void **state)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	static const uint8_t no_grh[40];
	static uint8_t large[4097];
	const struct rdmamsg_sge halves[] = {
		{ (uint8_t *)pattern(0), 4, NULL },
		{ (uint8_t *)pattern(0) + 4, 6, NULL },
	};
	struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND,
		.flags = RDMAMSG_OP_IMM, .imm = 0x12345678,
	};
	struct member m[2] = {
		member(RDMAMSG_GROUP_RAW | RDMAMSG_GROUP_PUBLISH),
		member(RDMAMSG_GROUP_RAW | RDMAMSG_GROUP_SUBSCRIBE),
	};

	join_all(m, 2, GROUP);
	assert_int_equal(rdmamsg_group_query(m[0].group, &info), 0);
	/* raw datagrams carry no number, so use the pattern of number 0 */
	publish(&m[0], 0, info.mtu);
	WAIT_FOR(m[1].messages == 1);
	assert_int_equal(m[1].bytes, info.mtu);
	assert_int_equal(m[1].has_imm, 0);
	assert_memory_not_equal(m[1].grh, no_grh, sizeof(no_grh));
	op.sge = halves;
	op.count = 2;
	assert_int_equal(rdmamsg_group_post(m[0].group, &op), 0);
	WAIT_FOR(m[1].messages == 2);
	assert_true(m[1].has_imm);
	assert_int_equal(m[1].imm, 0x12345678);
	assert_error(rdmamsg_group_publish(m[0].group, large, info.mtu + 1),
		     -EMSGSIZE, "MTU");
	leave_all(m, 2);
}

/* More datagrams than the queue holds: the rest waits, as a copy. */
static void pieces__of_a_message_ARRIVE_AS_ONE(void **state)
{
	static const size_t lens[][RDMAMSG_SEGMENTS_MAX] = {
		{ 0 }, { 7 }, { 1, 2, 3, 0, 5 }, { 0, 4000, 0, 65, 3999, 1 },
		{ 100000, 1, 99999 },
		{ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 70000 },
	};
	static const uint32_t counts[] = { 0, 1, 5, 6, 3, 16 };
	static const uint32_t flags[] = { 0, RDMAMSG_GROUP_REPAIR };
	static uint8_t copy[200000];
	size_t bytes = 0;

	for (size_t k = 0; k < ARRAY_SIZE(flags); k++, bytes = 0) {
		struct member m[2] = {
			member(flags[k] | RDMAMSG_GROUP_PUBLISH),
			member(flags[k] | RDMAMSG_GROUP_SUBSCRIBE),
		};

		m[0].opts.send_depth = 16;
		join_all(m, 2, GROUP);
		for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
			post_pieces(&m[0], i, lens[i], counts[i], copy);
			for (uint32_t j = 0; j < counts[i]; j++)
				bytes += lens[i][j];
			WAIT_FOR(m[1].messages == i + 1);
			assert_int_equal(m[1].bytes, bytes);
		}
		assert_int_equal(m[1].gaps, 0);
		leave_all(m, 2);
	}
}

static void posted__what_is_not_used_IS_NAMED(void **state)
{
	static const char unused[] = " cookie tag width key offset layout len "
				     "operand compare mask compare_mask result ";
	struct rdmamsg_op op = { .kind = RDMAMSG_OP_SEND };
	struct member m[2] = {
		member(RDMAMSG_GROUP_PUBLISH),
		member(RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_RAW),
	};

	join_all(m, 2, GROUP);
	for (int i = 0; i < 2; i++) {
		op_fields_refused(post, m[i].group, op, unused);
		op_fields_refused(post, m[i].group, op, " imm ");
		for (uint32_t k = RDMAMSG_OP_WRITE; k <= RDMAMSG_OP_FLUSH; k++)
			op_kind_refused(post, m[i].group, k);
	}
	op.flags = RDMAMSG_OP_IMM;
	op_fields_refused(post, m[1].group, op, unused);
	leave_all(m, 2);
	assert_int_equal(m[0].sent + m[1].sent, 0);
}

static void posted__what_makes_no_sense_IS_TOLD(void **state)
{
	struct rdmamsg_sge s[] = { { NULL, 1, NULL }, { "x", 1, NULL } };
	struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND,
		.flags = RDMAMSG_OP_IMM,
	};
	struct member m = member(RDMAMSG_GROUP_PUBLISH);

	join_all(&m, 1, GROUP);
	assert_error(post(NULL, &op), -EINVAL, "group is NULL");
	assert_error(post(m.group, NULL), -EINVAL, "op is NULL");
	assert_error(post(m.group, &op), -EOPNOTSUPP, "RDMAMSG_GROUP_RAW");
	op.flags = RDMAMSG_OP_NOTIFY;
	assert_error(post(m.group, &op), -EINVAL, "flags 0x2");
	op.flags = 0;
	op.count = 1;
	assert_error(post(m.group, &op), -EINVAL, "sge is NULL");
	op.sge = s;
	assert_error(post(m.group, &op), -EINVAL, "data is NULL");
	s[0].region = (struct rdmamsg_region *)s;
	assert_error(post(m.group, &op), -EINVAL, "from a region");
	s[0] = (struct rdmamsg_sge){ s, SIZE_MAX, NULL };
	assert_error(post(m.group, &op), -EMSGSIZE, "max_message");
	op.count = 2;
	assert_error(post(m.group, &op), -EMSGSIZE, "size_t");
	op.count = RDMAMSG_SEGMENTS_MAX + 1;
	assert_error(post(m.group, &op), -EINVAL, "17 gather entries");
	leave_all(&m, 1);
}

static void memberships__two_of_a_context_BOTH_RECEIVE(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct member m[3];

	for (int i = 0; i < 3; i++) {
		m[i] = member(i ? RDMAMSG_GROUP_SUBSCRIBE :
			      RDMAMSG_GROUP_PUBLISH);
		assert_int_equal(join(ctx, &m[i], GROUP), 0);
	}
	WAIT_FOR(m[0].joined && m[1].joined && m[2].joined);
	publish(&m[0], 0, 100);
	WAIT_FOR(m[1].messages == 1 && m[2].messages == 1);
	/* the group goes on for one member after the other has left */
	leave_all(&m[1], 1);
	publish(&m[0], 1, 100);
	WAIT_FOR(m[2].messages == 2);
	leave_all(&m[2], 1);
	leave_all(&m[0], 1);
}

/* The groups have different families, so one queue pair cannot serve both. */
static void families__of_a_context_EACH_ARRIVE(void **state)
{
	struct rdmamsg_group_attr info[2] = {
		{ .size = sizeof(info[0]) }, { .size = sizeof(info[0]) },
	};
	struct rdmamsg *from = test_open(NULL), *to = test_open(NULL);
	struct member m[4];

	for (int i = 0; i < 4; i++) {
		m[i] = member(RDMAMSG_GROUP_REPAIR |
			      (i < 2 ? RDMAMSG_GROUP_SUBSCRIBE :
				       RDMAMSG_GROUP_PUBLISH));
		assert_int_equal(join(i < 2 ? to : from, &m[i],
				      i % 2 ? "ff15::7:7" : GROUP), 0);
		WAIT_FOR(m[i].joined);
	}
	for (uint32_t n = 0; n < 10; n++) {
		publish(&m[2], n, 10000);
		publish(&m[3], n, 10000);
	}
	WAIT_FOR(m[0].messages == 10 && m[1].messages == 10);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rdmamsg_group_query(m[2 + i].group, &info[i]),
				 0);
	assert_int_not_equal(info[0].qp_num, info[1].qp_num);
	leave_all(m, 4);
}

static void counters__of_both_sides_AGREE(void **state)
{
	struct rdmamsg_group_stats s = { .size = sizeof(s) }, r = s, of = s;
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	struct member m[2] = {
		member(RDMAMSG_GROUP_PUBLISH), member(RDMAMSG_GROUP_SUBSCRIBE),
	};

	/* the subscriber joins first, to hear that the publisher is there */
	join_all(&m[1], 1, GROUP);
	assert_int_equal(join(test_open(NULL), &m[0], GROUP), 0);
	assert_error(rdmamsg_group_query(m[0].group, &info), -ENOTCONN,
		     "joined");
	WAIT_FOR(m[0].joined);
	for (uint32_t i = 0; i < 3; i++)
		publish(&m[0], i, 10000);
	WAIT_FOR(m[1].messages == 3);
	assert_int_equal(rdmamsg_group_query(m[0].group, &info), 0);
	assert_true(info.joined && info.device && info.qp_num && info.port);
	assert_true(info.id == m[1].sender && info.mtu >= 256 && info.rate);
	assert_int_equal(rdmamsg_group_get_stats(m[0].group, &s), 0);
	assert_int_equal(rdmamsg_group_get_stats(m[1].group, &r), 0);
	assert_int_equal(
		rdmamsg_group_get_sender_stats(m[1].group, info.id, &of), 0);
	assert_int_equal(s.joins, 1);
	assert_int_equal(s.sent_messages, 3);
	assert_int_equal(s.sent_bytes, 30000);
	assert_int_equal(r.received_messages, 3);
	assert_int_equal(r.received_bytes, 30000);
	assert_int_equal(r.received_datagrams, s.sent_datagrams);
	assert_int_equal(r.senders, 1);
	assert_int_equal(of.received_messages, 3);
	assert_int_equal(of.received_datagrams, r.received_datagrams);
	assert_int_equal(r.gaps + r.lost_messages + r.dropped_late, 0);
	assert_error(rdmamsg_group_get_sender_stats(m[1].group, ~info.id, &of),
		     -ENOENT, "sender");
	leave_all(m, 2);
}

/* All accepted messages go out first, even those that wait for room or rate. */
static void publisher__that_leaves_at_once_HAS_SENT_ALL(void **state)
{
	static const uint32_t flags[] = {
		0, RDMAMSG_GROUP_REPAIR, RDMAMSG_GROUP_RAW,
	};

	for (size_t k = 0; k < ARRAY_SIZE(flags); k++) {
		struct member m[2] = {
			member(flags[k] | RDMAMSG_GROUP_PUBLISH),
			member(flags[k] | RDMAMSG_GROUP_SUBSCRIBE),
		};
		bool raw = flags[k] & RDMAMSG_GROUP_RAW;

		join_all(m, 2, GROUP);
		for (uint32_t n = 0; n < 30; n++)
			publish(&m[0], raw ? 0 : n, raw ? 200 : 20000);
		leave_all(m, 1);
		WAIT_FOR(m[1].messages == 30);
		assert_int_equal(m[1].gaps, 0);
		leave_all(&m[1], 1);
	}
}

/* One by one, and many in the queue, of one datagram and of several. */
static void sent__each_message_IS_TOLD_IN_ORDER(void **state)
{
	static const uint32_t flags[] = {
		0, RDMAMSG_GROUP_REPAIR, RDMAMSG_GROUP_RAW,
	};

	for (size_t k = 0; k < ARRAY_SIZE(flags); k++) {
		struct member m = member(flags[k] | RDMAMSG_GROUP_PUBLISH);
		bool raw = flags[k] & RDMAMSG_GROUP_RAW;
		uint32_t n = 0;

		join_all(&m, 1, GROUP);
		for (; n < 4; n++) {
			assert_int_equal(m.sent, n);
			publish(&m, raw ? 0 : n, 64);
			WAIT_FOR(m.sent == n + 1);
		}
		for (; n < MANY; n++)
			publish(&m, raw ? 0 : n, raw ? 64 : n * 400);
		WAIT_FOR(m.sent == MANY);
		/* told before on_closed */
		publish(&m, raw ? 0 : n, raw ? 64 : 20000);
		leave_all(&m, 1);
		assert_int_equal(m.sent, MANY + 1);
	}
}

static void address__of_no_group_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct member m = member(0);

	assert_error(join(ctx, &m, "10.1.2.3"), -EINVAL, "multicast");
	assert_error(join(ctx, &m, "fe80::1"), -EINVAL, "multicast");
	assert_error(join(ctx, &m, "topic:7"), -EINVAL, "'topic:7'");
	assert_error(join(ctx, &m, NULL), -EINVAL, "NULL");
	assert_error(join(ctx, &m, "239.7.7.7:"), -EINVAL, "'239.7.7.7:'");
	assert_error(join(ctx, &m, "239.7.7.7:x"), -EINVAL, "address");
	assert_error(join(ctx, &m, "239.7.7.7:65536"), -EINVAL, "address");
	assert_error(join(ctx, &m, "[ff15::1]"), -EINVAL, "address");
	assert_error(join(ctx, &m, "[ff15::1:7"), -EINVAL, "address");
	m.opts.device = NULL;
	assert_error(join(ctx, &m, "ff15:0:0:0:0:0:7:7"), -EINVAL, "MGID");
	m.opts.flags = 1u << 31;
	assert_error(join(ctx, &m, GROUP), -EINVAL, "flags");
	m.opts.flags = 0;
	m.opts.source = "here";
	assert_error(join(ctx, &m, GROUP), -EINVAL, "source");
	m.opts.source = "192.0.2.201";
	assert_error(join(ctx, &m, GROUP), -EADDRNOTAVAIL, "192.0.2.201");
	m.opts.source = NULL;
	m.opts.pkey = 0x8000;
	assert_error(join(ctx, &m, GROUP), -EINVAL, "pkey 0x8000");
}

/* Ports are in the default partition unless somebody has set another. */
static void partition__another_one_EHOSTUNREACH(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct member m = member(0), other = member(0);

	other.opts.pkey = 0x9234;
	assert_int_equal(join(ctx, &other, GROUP), 0);
	WAIT_FOR(other.closed);
	assert_int_equal(other.joined, 0);
	assert_int_equal(other.why.error, -EHOSTUNREACH);
	assert_non_null(strstr(other.why.text, "pkey asks for 0x9234"));
	m.opts.pkey = 0xffff;
	join_all(&m, 1, GROUP);
	leave_all(&m, 1);
}

/* A publisher whose END has come is not followed any more. */
static bool is_told(const struct member *m)
{
	struct rdmamsg_group_stats stats = { .size = sizeof(stats) };

	return m->messages == 20 &&
	       rdmamsg_group_get_sender_stats(m->group, m->sender, &stats) ==
		       -ENOENT;
}

static void shutdown__of_a_publisher_SUBSCRIBERS_ARE_TOLD(void **state)
{
	struct member m[3] = {
		member(RDMAMSG_GROUP_REPAIR), member(0),
		member(RDMAMSG_GROUP_REPAIR),
	};
	struct rdmamsg *ctx = test_open(NULL);

	join_all(&m[1], 2, GROUP);
	assert_int_equal(join(ctx, &m[0], GROUP), 0);
	WAIT_FOR(m[0].joined);
	for (uint32_t k = 0; k < 20; k++)
		publish(&m[0], k, 10000);
	assert_int_equal(rdmamsg_shutdown(ctx, -1), 0);
	WAIT_FOR(m[0].closed);
	assert_int_equal(m[0].why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(m[0].why.error, 0);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, -1), 0);
	WAIT_FOR(is_told(&m[1]) && is_told(&m[2]));
	test_close(ctx);
	leave_all(&m[1], 2);
}

/* A member that only receives leaves at once, as does one that still joins. */
static void shutdown__of_members_THEY_LEAVE(void **state)
{
	struct member m[2] = { member(RDMAMSG_GROUP_SUBSCRIBE), member(0) };
	struct rdmamsg *ctx = test_open(NULL);

	assert_int_equal(join(ctx, &m[0], GROUP), 0);
	WAIT_FOR(m[0].joined);
	assert_int_equal(join(ctx, &m[1], "239.7.7.8"), 0);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, WAIT_MS), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(m[i].closed, 1);
		assert_int_equal(m[i].why.error, 0);
	}
	test_close(ctx);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(messages__of_every_size_ARRIVE_EVERYWHERE),
		TEST(own__are_received_IF_ASKED_FOR),
		TEST(publishers__several_ARE_KEPT_APART),
		TEST(groups__many_SHARE_A_CONTEXT),
		TEST(own__of_raw_mode_ARE_FILTERED),
		TEST(mgid__and_a_port_ARE_ADDRESSES),
		TEST(group__left_in_its_callback_IS_LEFT),
		TEST(raw__with_and_without_immediate_data_ARRIVES),
		TEST(pieces__of_a_message_ARRIVE_AS_ONE),
		TEST(posted__what_is_not_used_IS_NAMED),
		TEST(posted__what_makes_no_sense_IS_TOLD),
		TEST(memberships__two_of_a_context_BOTH_RECEIVE),
		TEST(families__of_a_context_EACH_ARRIVE),
		TEST(counters__of_both_sides_AGREE),
		TEST(publisher__that_leaves_at_once_HAS_SENT_ALL),
		TEST(sent__each_message_IS_TOLD_IN_ORDER),
		TEST(address__of_no_group_EINVAL),
		TEST(partition__another_one_EHOSTUNREACH),
		TEST(shutdown__of_a_publisher_SUBSCRIBERS_ARE_TOLD),
		TEST(shutdown__of_members_THEY_LEAVE),
	};

	end_on_iwarp(NO_GROUPS);
	return test_main(tests, NULL, argc, argv);
}
