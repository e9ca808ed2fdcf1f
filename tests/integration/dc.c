/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets and senders: order, access keys, more addresses than connections,
 * targets that are not there, and ends at any time.
 */
#include "abilities.h"
#include "common.h"
#include "../dc_post.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>

#ifndef DC_PATH
#define DC_PATH		RDMAMSG_DC_CONNECTIONS
#endif
#define TARGETS		12u
#define SENDERS		64u	/* at a time */
#define STRANGERS	128u	/* senders that a target can tell apart */

/* A target, and what each sender may deliver there next. */
struct hall {
	struct rdmamsg_dc_target *target;
	char port[8];
	struct {
		uint64_t sender;
		uint32_t next;
	} from[STRANGERS];
	uint32_t senders;
	unsigned int messages, violations, destroyed;
	bool empty;			/* the messages have no bytes */
	struct hall *next;		/* destroyed by on_destroyed of this */
};

struct mail {
	struct rdmamsg_dc_sender *sender;
	unsigned int completed, failed, writable, destroyed;
	int status;			/* of the last that failed */
	int why;			/* error of the last on_failed */
	char text[192];
};

static struct rdmamsg *near, *far;
static struct hall halls[TARGETS];
static struct mail mail;

/* ---- targets ---------------------------------------------------------- */

/* The tag is the number of the message from its sender to the target. */
static void on_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		       uint64_t sender)
{
	struct hall *h = rdmamsg_dc_target_user(t);
	uint32_t i = 0, tag = rdmamsg_msg_tag(msg);
	size_t len = rdmamsg_msg_len(msg);

	if (h->destroyed)
		note("a message after on_destroyed");
	while (i < h->senders && h->from[i].sender != sender)
		i++;
	if (i == STRANGERS) {
		note("more senders than there are");
	} else {
		if (i == h->senders)
			h->from[h->senders++].sender = sender;
		if (h->from[i].next++ != tag)
			note("message %u of a sender, where %u was due", tag,
			     h->from[i].next - 1);
	}
	if (len != (h->empty ? 0 : mixed_size(tag)) ||
	    (len && memcmp(rdmamsg_msg_data(msg), pattern(tag), len)))
		note("message %u has other bytes", tag);
	h->messages++;
	rdmamsg_msg_free(msg);
}

static void on_violation(struct rdmamsg_dc_target *t,
			 const struct sockaddr_storage *from)
{
	struct hall *h = rdmamsg_dc_target_user(t);

	if (from->ss_family != AF_INET && from->ss_family != AF_INET6)
		note("a violation from nowhere");
	h->violations++;
}

static void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	struct hall *h = rdmamsg_dc_target_user(t);

	h->destroyed++;
	h->target = NULL;
	if (h->next)
		rdmamsg_dc_target_destroy(h->next->target);
}

static void open_hall(struct hall *h, const struct rdmamsg_ep_options *ep)
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .user = h, .access_key = 0x123456789abc,
		.on_message = on_message, .on_violation = on_violation,
		.on_destroyed = on_target_destroyed, .ep = ep,
		.path = DC_PATH,
	};

	memset(h, 0, sizeof(*h));
	assert_int_equal(rdmamsg_dc_target_create(far, test_addr(), "0", &opts,
						  &h->target), 0);
	(void)snprintf(h->port, sizeof(h->port), "%u",
		       rdmamsg_dc_target_port(h->target));
}

static struct rdmamsg_dc_target_attr target_attr(const struct hall *h)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_dc_target_query(h->target, &a), 0);
	return a;
}

/* ---- senders ---------------------------------------------------------- */

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int status)
{
	struct mail *m = rdmamsg_dc_sender_user(s);
	struct cookie *c = cookie;

	(void)a;
	if (c->count++)
		note("a message has completed twice");
	c->status = status;
	m->completed++;
	if (status) {
		m->failed++;
		m->status = status;
	}
}

static void on_writable(struct rdmamsg_dc_sender *s)
{
	struct mail *m = rdmamsg_dc_sender_user(s);

	m->writable++;
}

static void on_failed(struct rdmamsg_dc_sender *s,
		      struct rdmamsg_dc_address *a,
		      const struct rdmamsg_reason *why)
{
	struct mail *m = rdmamsg_dc_sender_user(s);

	(void)a;
	m->why = why->error;
	(void)snprintf(m->text, sizeof(m->text), "%s", why->text);
	if (!why->text[0])
		note("a failure without a text");
}

static void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	struct mail *m = rdmamsg_dc_sender_user(s);

	m->destroyed++;
	m->sender = NULL;
}

static void open_mail(struct mail *m, uint32_t initiators, uint32_t queue,
		      const struct rdmamsg_ep_options *ep)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .user = m, .on_complete = on_complete,
		.on_writable = on_writable, .on_failed = on_failed,
		.on_destroyed = on_sender_destroyed, .initiators = initiators,
		.queue = queue, .ep = ep, .path = DC_PATH,
	};

	memset(m, 0, sizeof(*m));
	assert_int_equal(rdmamsg_dc_sender_create(near, &opts, &m->sender), 0);
}

static struct rdmamsg_dc_address *name(struct mail *m, const char *port,
				       uint64_t key)
{
	struct rdmamsg_dc_address *a;

	assert_int_equal(rdmamsg_dc_address_create(m->sender, test_addr(), port,
						   key, m, &a), 0);
	assert_ptr_equal(rdmamsg_dc_address_user(a), m);
	return a;
}

static struct rdmamsg_dc_address *address_of(struct mail *m, struct hall *h)
{
	return name(m, h->port, 0x123456789abc);
}

static struct rdmamsg_dc_sender_attr sender_attr(const struct mail *m)
{
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_dc_sender_query(m->sender, &a), 0);
	return a;
}

/* Sends message 'tag', by copy if it is small. */
static int post(struct rdmamsg_dc_address *a, uint32_t tag, struct cookie *c)
{
	size_t len = mixed_size(tag);
	struct iovec iov = { (void *)(uintptr_t)pattern(tag), len };

	memset(c, 0, sizeof(*c));
	if (len <= 4096)
		return rdmamsg_dc_send(a, pattern(tag), len, tag, c);
	return dc_sendv(a, &iov, 1, tag, c);
}

static void post_all(struct rdmamsg_dc_address *a, uint32_t tag,
		     struct cookie *c)
{
	uint64_t end = now_ms() + WAIT_MS;
	int ret;

	while ((ret = post(a, tag, c)) == -EAGAIN) {
		assert_true(now_ms() < end);
		test_pump(100);
		check_notes();
	}
	assert_int_equal(ret, 0);
}

/* ---- tests ------------------------------------------------------------ */

static void start(void)
{
	if (DC_PATH == RDMAMSG_DC_NATIVE)
		(void)test_has(RDMAMSG_CAP_DC, RDMAMSG_CAP_NATIVE);
	near = test_open(NULL);
	far = test_open(NULL);
}

static void close_all(uint32_t targets)
{
	rdmamsg_dc_sender_destroy(mail.sender);
	WAIT_PASSING(mail.destroyed == 1);
	for (uint32_t i = 0; i < targets; i++)
		rdmamsg_dc_target_destroy(halls[i].target);
	for (uint32_t i = 0; i < targets; i++)
		WAIT_PASSING(halls[i].destroyed == 1);
	test_close(near);
	test_close(far);
}

#define MANY	300u

static void one_target__messages_of_all_sizes_IN_ORDER(void **state)
{
	static struct cookie cookies[MANY];
	struct rdmamsg_dc_address *a;

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 0, 0, NULL);
	a = address_of(&mail, &halls[0]);
	assert_int_equal(sender_attr(&mail).connections, 0);
	for (uint32_t i = 0; i < MANY; i++)
		post_all(a, i, &cookies[i]);
	WAIT_FOR(mail.completed == MANY && halls[0].messages == MANY);
	assert_int_equal(mail.failed, 0);
	assert_int_equal(sender_attr(&mail).connects, 1);
	assert_int_equal(sender_attr(&mail).queued, 0);
	assert_int_equal(target_attr(&halls[0]).messages, MANY);
	assert_int_equal(target_attr(&halls[0]).connections, 1);
	assert_true(halls[0].from[0].sender == sender_attr(&mail).id);
	close_all(1);
}

/* Each message goes to another target than the one before. */
static void more_targets_than_initiators__ONCE_AND_IN_ORDER(void **state)
{
	static struct cookie cookies[TARGETS * 40];
	struct rdmamsg_dc_address *a[TARGETS];
	struct rdmamsg_dc_sender_attr attr;

	start();
	open_mail(&mail, 3, 0, NULL);
	for (uint32_t i = 0; i < TARGETS; i++) {
		open_hall(&halls[i], NULL);
		a[i] = address_of(&mail, &halls[i]);
	}
	for (uint32_t i = 0; i < TARGETS * 40; i++) {
		post_all(a[i % TARGETS], i / TARGETS, &cookies[i]);
		/* so that some are sent before others are posted */
		if (i % 50 == 0)
			test_pump(0);
		attr = sender_attr(&mail);
		assert_true(attr.connections <= 3);
	}
	WAIT_FOR(mail.completed == TARGETS * 40);
	assert_int_equal(mail.failed, 0);
	for (uint32_t i = 0; i < TARGETS; i++) {
		WAIT_FOR(halls[i].messages == 40);
		assert_int_equal(halls[i].senders, 1);
	}
	attr = sender_attr(&mail);
	assert_true(attr.evictions >= TARGETS - 3);
	assert_int_equal(attr.addresses, TARGETS);
	close_all(TARGETS);
}

/* Sends an empty message to the hall, and waits until it is there. */
static void send_next(struct rdmamsg_dc_address *a, struct hall *h)
{
	const unsigned int completed = mail.completed, before = h->messages;
	struct cookie c = { .status = 0 };

	assert_int_equal(rdmamsg_dc_send(a, NULL, 0, before, &c), 0);
	WAIT_FOR(mail.completed == completed + 1 && h->messages == before + 1);
	assert_int_equal(c.status, 0);
}

/*
 * The first and third messages go to A. So C takes the initiator of B, and B
 * takes that of C.
 */
static void initiators__all_in_use_LEAST_RECENTLY_USED_CLOSES(void **state)
{
	struct rdmamsg_dc_address *a[3];
	const uint32_t order[] = { 0, 1, 0, 2, 0, 1, 0 };
	const uint32_t evictions[] = { 0, 0, 0, 1, 1, 2, 2 };
	struct rdmamsg_dc_sender_attr attr;

	start();
	open_mail(&mail, 2, 0, NULL);
	for (uint32_t i = 0; i < 3; i++) {
		open_hall(&halls[i], NULL);
		halls[i].empty = true;
		a[i] = address_of(&mail, &halls[i]);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(order); i++) {
		send_next(a[order[i]], &halls[order[i]]);
		attr = sender_attr(&mail);
		assert_int_equal(attr.evictions, evictions[i]);
		/* a session outlives the loss of its initiator */
		if (attr.sessions)
			continue;
		assert_int_equal(attr.connects, 2 + evictions[i] - !i);
		assert_int_equal(target_attr(&halls[0]).connections, 1);
	}
	close_all(3);
}

static void many_senders__one_target_WITH_SHARED_RECEIVES(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 1024,
	};
	static struct mail mails[SENDERS];
	static struct cookie cookies[SENDERS * 20];
	struct rdmamsg_dc_address *a[SENDERS];
	/* room for all, however much the first ones have been promised */
	struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .tuning = TUNING(.recv_depth = 8),
	};
	struct rdmamsg_srq *srq;
	uint32_t n = 0;

	start();
	if (!test_ability(RDMAMSG_CAP_SRQ, RDMAMSG_CAP_NATIVE,
			  !rdmamsg_srq_create(far, &so, &srq)))
		skip_because("the device has no shared receives");
	ep.srq = srq;
	open_hall(&halls[0], &ep);
	for (uint32_t i = 0; i < SENDERS; i++) {
		open_mail(&mails[i], 1, 0, NULL);
		a[i] = address_of(&mails[i], &halls[0]);
	}
	for (uint32_t k = 0; k < 20; k++)
		for (uint32_t i = 0; i < SENDERS; i++)
			post_all(a[i], k, &cookies[n++]);
	WAIT_FOR(halls[0].messages == SENDERS * 20);
	assert_int_equal(halls[0].senders, SENDERS);
	for (uint32_t i = 0; i < SENDERS; i++) {
		WAIT_FOR(mails[i].completed == 20);
		assert_int_equal(mails[i].failed, 0);
		rdmamsg_dc_sender_destroy(mails[i].sender);
	}
	for (uint32_t i = 0; i < SENDERS; i++)
		WAIT_PASSING(mails[i].destroyed == 1);
	open_mail(&mail, 0, 0, NULL);
	close_all(1);
}

static void access_key__is_another_TOLD_ONCE_WHEN_ARMED(void **state)
{
	struct rdmamsg_dc_address *right, *wrong;
	struct cookie c[4];

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 0, 0, NULL);
	right = address_of(&mail, &halls[0]);
	wrong = name(&mail, halls[0].port, 5);
	post_all(wrong, 0, &c[0]);
	WAIT_FOR(mail.completed == 1);
	assert_int_equal(mail.status, -EACCES);
	assert_int_equal(mail.why, -EACCES);
	assert_non_null(strstr(mail.text, "access key"));
	assert_int_equal(halls[0].violations, 0);
	assert_int_equal(target_attr(&halls[0]).key_violations, 1);
	assert_int_equal(rdmamsg_dc_target_arm(halls[0].target), 0);
	assert_int_equal(target_attr(&halls[0]).armed, 1);
	post_all(wrong, 0, &c[1]);
	WAIT_FOR(mail.completed == 2 && halls[0].violations == 1);
	assert_int_equal(target_attr(&halls[0]).armed, 0);
	post_all(wrong, 0, &c[2]);
	WAIT_FOR(mail.completed == 3);
	assert_int_equal(halls[0].violations, 1);
	assert_int_equal(target_attr(&halls[0]).key_violations, 3);
	post_all(right, 0, &c[3]);
	WAIT_FOR(mail.completed == 4 && halls[0].messages == 1);
	assert_int_equal(c[3].status, 0);
	assert_int_equal(target_attr(&halls[0]).access_key, 0x123456789abc);
	close_all(1);
}

static void no_target__FAILS_AND_OTHERS_GO_ON(void **state)
{
	struct rdmamsg_dc_address *nobody, *nowhere, *a;
	struct cookie c[5];

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 1, 0, NULL);
	nobody = name(&mail, "9", 0);
	assert_int_equal(rdmamsg_dc_address_create(mail.sender, test_addr(),
						   "no-such-service", 0, &mail,
						   &nowhere), 0);
	a = address_of(&mail, &halls[0]);
	post_all(nobody, 0, &c[0]);
	post_all(nobody, 1, &c[1]);
	post_all(nowhere, 0, &c[2]);
	post_all(a, 0, &c[3]);
	WAIT_FOR(mail.completed == 4 && halls[0].messages == 1);
	assert_int_equal(c[0].status, -ECONNREFUSED);
	assert_int_equal(c[1].status, -ECONNREFUSED);
	assert_true(c[2].status < 0);
	assert_int_equal(c[3].status, 0);
	assert_true(mail.why < 0);
	close_all(1);
}

/* The target is gone, and comes back at the same port. */
static void target__destroyed_and_made_again_NEXT_MESSAGES_ARRIVE(void **state)
{
	struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .user = &halls[0],
		.access_key = 0x123456789abc, .on_message = on_message,
		.on_destroyed = on_target_destroyed, .path = DC_PATH,
	};
	struct rdmamsg_dc_address *a;
	struct cookie c[3];

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 0, 0, NULL);
	a = address_of(&mail, &halls[0]);
	post_all(a, 0, &c[0]);
	WAIT_FOR(mail.completed == 1 && halls[0].messages == 1);
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_PASSING(halls[0].destroyed == 1 && !sender_attr(&mail).connections);
	post_all(a, 1, &c[1]);
	WAIT_FOR(mail.completed == 2);
	assert_int_equal(c[1].status, -ECONNREFUSED);
	assert_int_equal(rdmamsg_dc_target_create(far, test_addr(),
						  halls[0].port, &opts,
						  &halls[0].target), 0);
	halls[0].destroyed = 0;
	post_all(a, 1, &c[2]);
	WAIT_FOR(mail.completed == 3 && halls[0].messages == 2);
	assert_int_equal(c[2].status, 0);
	close_all(1);
}

/* Appends a line of a dump, if it is of a target or sender. */
static void keep(void *arg, const char *text)
{
	static bool of_sender;
	size_t len = strlen(arg);
	const bool more = of_sender && text[0] == ' ';

	of_sender = !strncmp(text, "sender ", 7) || more;
	if (of_sender || !strncmp(text, "target ", 7))
		(void)snprintf((char *)arg + len, 2000 - len, "%s\n", text);
}

static void dump__tells_of_TARGETS_AND_SENDERS(void **state)
{
	static char text[2000];
	struct rdmamsg_dc_address *a;
	struct cookie c[2];

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 3, 7, NULL);
	a = address_of(&mail, &halls[0]);
	assert_int_equal(rdmamsg_dc_target_arm(halls[0].target), 0);
	assert_int_equal(post(a, 0, &c[0]), 0);
	rdmamsg_dump(near, keep, text);
	assert_non_null(strstr(text, ": id 0x"));
	assert_non_null(strstr(text, " 1 addresses, 0 of 3 connections"));
	assert_non_null(strstr(text, "  1 of 7 messages wait"));
	assert_non_null(strstr(text, " 1 addresses wait for a connection"));
	WAIT_FOR(mail.completed == 1 && halls[0].messages == 1);
	text[0] = 0;
	rdmamsg_dump(near, keep, text);
	rdmamsg_dump(far, keep, text);
	assert_non_null(strstr(text, " 1 of 3 connections, begun 1, evicted 0"));
	assert_non_null(strstr(text, "  0 of 7 messages wait, 0 bytes copied"));
	assert_non_null(strstr(text, halls[0].port));
	assert_non_null(strstr(text, ": 1 connections, 1 messages, 0 access "
			       "key violations, armed"));
	if (sender_attr(&mail).sessions)
		assert_non_null(strstr(text, "  1 addresses have a session"));
	close_all(1);
}

static void queue__is_full_AGAIN_THEN_WRITABLE(void **state)
{
	struct rdmamsg_dc_address *a;
	struct cookie c[4];

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 0, 2, NULL);
	a = address_of(&mail, &halls[0]);
	assert_int_equal(post(a, 0, &c[0]), 0);
	assert_int_equal(post(a, 1, &c[1]), 0);
	assert_int_equal(post(a, 2, &c[2]), -EAGAIN);
	assert_int_equal(mail.writable, 0);
	WAIT_FOR(mail.writable == 1);
	assert_int_equal(post(a, 2, &c[2]), 0);
	WAIT_FOR(mail.completed == 3 && halls[0].messages == 3);
	assert_int_equal(mail.failed, 0);
	close_all(1);
}

static void address__destroyed_at_once_SENDS_FIRST(void **state)
{
	struct rdmamsg_dc_address *a, *idle;
	struct cookie c[20];

	start();
	open_hall(&halls[0], NULL);
	open_mail(&mail, 0, 0, NULL);
	a = address_of(&mail, &halls[0]);
	idle = address_of(&mail, &halls[0]);
	for (uint32_t i = 0; i < 20; i++)
		post_all(a, i, &c[i]);
	rdmamsg_dc_address_destroy(a);
	rdmamsg_dc_address_destroy(idle);
	rdmamsg_dc_address_destroy(NULL);
	WAIT_FOR(mail.completed == 20 && halls[0].messages == 20);
	assert_int_equal(mail.failed, 0);
	WAIT_FOR(!sender_attr(&mail).addresses);
	assert_int_equal(sender_attr(&mail).connections, 0);
	close_all(1);
}

/* Whatever waits is cancelled, and what is under way completes. */
static void sender__destroyed_at_any_time_EACH_COMPLETES(void **state)
{
	for (unsigned int turns = 0; turns < 12; turns++) {
		struct rdmamsg_dc_address *a, *b;
		struct cookie c[30];

		start();
		open_hall(&halls[0], NULL);
		open_hall(&halls[1], NULL);
		open_mail(&mail, 1, 0, NULL);
		a = address_of(&mail, &halls[0]);
		b = address_of(&mail, &halls[1]);
		for (uint32_t i = 0; i < 30; i++)
			assert_int_equal(post(i & 1 ? a : b, i / 2, &c[i]), 0);
		for (unsigned int i = 0; i < turns; i++)
			test_pump(i & 3 ? 0 : 20);
		rdmamsg_dc_sender_destroy(mail.sender);
		WAIT_PASSING(mail.destroyed == 1);
		assert_int_equal(mail.completed, 30);
		for (uint32_t i = 0; i < 30; i++)
			assert_int_equal(c[i].count, 1);
		memset(&mail, 0, sizeof(mail));
		mail.destroyed = 1;
		close_all(2);
	}
}

#define CROWD		4u	/* senders */
#define UNDER_WAY	100u	/* messages of each */

/* Returns the number of messages that the hall has had from the sender. */
static uint32_t had(const struct hall *h, const struct mail *m)
{
	const uint64_t id = sender_attr(m).id;

	for (uint32_t i = 0; i < h->senders; i++)
		if (h->from[i].sender == id)
			return h->from[i].next;
	return 0;
}

/* A message has a status of 0 only if it arrived before on_destroyed. */
static void check_crowd(const struct mail *m,
			struct cookie (*cookies)[UNDER_WAY])
{
	for (uint32_t i = 0; i < CROWD; i++) {
		const uint32_t there = had(&halls[0], &m[i]);

		for (uint32_t k = 0; k < UNDER_WAY; k++) {
			assert_int_equal(cookies[i][k].count, 1);
			assert_true(cookies[i][k].status < 0 || k < there);
		}
	}
}

static void target__destroyed_at_any_time_NO_FALSE_SUCCESS(void **state)
{
	static struct cookie cookies[CROWD][UNDER_WAY];
	static struct mail crowd[CROWD];

	for (unsigned int turns = 0; turns < 12; turns++) {
		struct rdmamsg_dc_address *a[CROWD];

		start();
		open_hall(&halls[0], NULL);
		for (uint32_t i = 0; i < CROWD; i++) {
			open_mail(&crowd[i], 1, 0, NULL);
			a[i] = address_of(&crowd[i], &halls[0]);
		}
		for (uint32_t k = 0; k < UNDER_WAY; k++)
			for (uint32_t i = 0; i < CROWD; i++)
				post_all(a[i], k, &cookies[i][k]);
		for (unsigned int i = 0; i < turns; i++)
			test_pump(i & 3 ? 0 : 20);
		rdmamsg_dc_target_destroy(halls[0].target);
		WAIT_PASSING(halls[0].destroyed == 1);
		for (uint32_t i = 0; i < CROWD; i++)
			WAIT_FOR(crowd[i].completed == UNDER_WAY);
		check_crowd(crowd, cookies);
		for (uint32_t i = 0; i < CROWD; i++)
			rdmamsg_dc_sender_destroy(crowd[i].sender);
		for (uint32_t i = 0; i < CROWD; i++)
			WAIT_PASSING(crowd[i].destroyed == 1);
		test_close(near);
		test_close(far);
	}
}

static void context__closed_with_all_of_it_ALL_END(void **state)
{
	struct rdmamsg_dc_address *a, *b;
	struct cookie c[10];

	start();
	open_hall(&halls[0], NULL);
	open_hall(&halls[1], NULL);
	open_mail(&mail, 1, 0, NULL);
	a = address_of(&mail, &halls[0]);
	b = address_of(&mail, &halls[1]);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(post(i & 1 ? a : b, i / 2, &c[i]), 0);
	test_pump(20);
	halls[0].next = &halls[1];
	halls[1].next = &halls[0];
	test_close(near);
	assert_int_equal(mail.destroyed, 1);
	assert_int_equal(mail.completed, 10);
	test_close(far);
	assert_int_equal(halls[0].destroyed, 1);
	assert_int_equal(halls[1].destroyed, 1);
}

#include "dc_kills.h"
#include "dc_shutdown.h"

/* ---- bad arguments ---------------------------------------------------- */

static void arguments__of_no_use_REFUSED(void **state)
{
	struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .initiators = 65537,
	};
	const struct rdmamsg_dc_target_options to = { .size = sizeof(to) };
	struct rdmamsg_dc_target *t;
	struct rdmamsg_dc_address *a;
	struct rdmamsg_dc_sender *s;
	const char *addr = test_addr();
	static uint8_t large[70000];
	struct iovec iov = { large, sizeof(large) };

	start();
	assert_error(rdmamsg_dc_sender_create(near, &so, &s), -EINVAL,
		     "initiators");
	assert_error(rdmamsg_dc_sender_create(near, NULL, NULL), -EINVAL,
		     "ret");
	assert_error(rdmamsg_dc_target_create(far, addr, "0", NULL, NULL),
		     -EINVAL, "ret");
	assert_int_equal(rdmamsg_dc_target_create(far, addr, "0", &to, &t), 0);
	assert_error(rdmamsg_dc_target_arm(t), -EINVAL, "on_violation");
	assert_error(rdmamsg_dc_target_query(t, NULL), -EINVAL, "struct");
	rdmamsg_dc_target_destroy(t);
	rdmamsg_dc_target_destroy(NULL);
	open_mail(&mail, 0, 0, NULL);
	assert_error(rdmamsg_dc_address_create(mail.sender, NULL, "1", 0, NULL,
					       &a), -EINVAL, "host");
	a = name(&mail, "1", 0);
	assert_error(rdmamsg_dc_send(a, large, sizeof(large), 0, NULL),
		     -EMSGSIZE, "max_copy");
	assert_error(rdmamsg_dc_send(a, NULL, 1, 0, NULL), -EINVAL, "buf");
	assert_error(rdmamsg_dc_send(NULL, NULL, 0, 0, NULL), -EINVAL,
		     "address");
	assert_error(dc_sendv(a, &iov, 1, 0, NULL), -EINVAL, "cookie");
	assert_error(dc_sendv(a, &iov, 17, 0, &iov), -EINVAL, "17");
	rdmamsg_dc_sender_destroy(mail.sender);
	assert_error(rdmamsg_dc_send(a, large, 1, 0, NULL), -ESHUTDOWN,
		     "destroyed");
	rdmamsg_dc_sender_destroy(NULL);
	close_all(0);
}

static const struct CMUnitTest tests[] = {
	TEST(one_target__messages_of_all_sizes_IN_ORDER),
	TEST(more_targets_than_initiators__ONCE_AND_IN_ORDER),
	TEST(initiators__all_in_use_LEAST_RECENTLY_USED_CLOSES),
	TEST(many_senders__one_target_WITH_SHARED_RECEIVES),
	TEST(access_key__is_another_TOLD_ONCE_WHEN_ARMED),
	TEST(no_target__FAILS_AND_OTHERS_GO_ON),
	TEST(target__destroyed_and_made_again_NEXT_MESSAGES_ARRIVE),
	TEST(dump__tells_of_TARGETS_AND_SENDERS),
	TEST(queue__is_full_AGAIN_THEN_WRITABLE),
	TEST(address__destroyed_at_once_SENDS_FIRST),
	TEST(sender__destroyed_at_any_time_EACH_COMPLETES),
	TEST(target__destroyed_at_any_time_NO_FALSE_SUCCESS),
	TEST(context__closed_with_all_of_it_ALL_END),
	TEST(sender__shut_down_WAITING_MESSAGES_ARE_SENT),
	TEST(sender__shut_down_before_it_connects_ONE_CONNECTION),
	TEST(sender__shut_down_without_an_answer_IS_COUNTED),
	TEST(sender__cut_while_an_address_ends_COUNTED_ONCE),
	TEST(target__shut_down_NO_FALSE_SUCCESS),
	TEST(senders__killed_at_random_OTHERS_LOSE_NOTHING),
	TEST(target__killed_ITS_MESSAGES_END_OTHERS_ARRIVE),
	TEST(arguments__of_no_use_REFUSED),
};

static const struct role roles[] = {
	{ "survivor", survivor_role }, { "victim", victim_role },
	{ "target", target_role }, { NULL },
};

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
