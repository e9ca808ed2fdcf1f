/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Alternate paths. Only the soft HCA in InfiniBand mode has them here. Both
 * ends of a pair are on one node, so they lose the same port. The child is on a
 * node of its own.
 */
#include "common.h"
#include "echo_back.h"
#include "harm.h"
#include "oob_pair.h"

#include <sys/wait.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>

#define PORTS	"3"
#define WINDOW	8u	/* messages in flight in each direction */
#define TIMES	200u	/* migrations back and forth */

static const struct rdmamsg_failover on = {
	.size = sizeof(on), .rungs = RDMAMSG_RUNG_PATH,
};
static const struct rdmamsg_failover ladder = {
	.size = sizeof(ladder), .rungs = RDMAMSG_RUNG_PATH | RDMAMSG_RUNG_LANE,
	.timeout_ms = 60000,
};
static struct pair p;

/* Path events of an end, and the last of them. */
struct seen {
	unsigned int armed, migrated, lost, resumed;
	uint32_t port, alternate;
	char text[192];
};

static struct seen of_server, of_client;

static struct seen *seen_by(const struct end *e)
{
	return strcmp(e->name, "server") ? &of_client : &of_server;
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	struct end *e = rdmamsg_ep_user(ep);
	struct seen *s = seen_by(e);

	if (e->connected != 1 || e->closed)
		note("%s: on_path when connected %u, closed %u", e->name,
		     e->connected, e->closed);
	if (ev->size != sizeof(*ev) || !ev->text[0])
		note("%s: on_path without a text", e->name);
	s->armed += ev->change == RDMAMSG_PATH_CHANGE_ARMED;
	s->migrated += ev->change == RDMAMSG_PATH_CHANGE_MIGRATED;
	s->lost += ev->change == RDMAMSG_PATH_CHANGE_LOST;
	s->resumed += ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
	s->port = ev->port;
	s->alternate = ev->alternate;
	snprintf(s->text, sizeof(s->text), "%s", ev->text);
}

static struct rdmamsg_ep_path_attr path_of(const struct end *e)
{
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };

	if (rdmamsg_ep_path_query(e->ep, &path))
		fail_msg("rdmamsg_ep_path_query: %s", rdmamsg_error());
	return path;
}

static bool is_in(const struct end *e, enum rdmamsg_path_state state)
{
	return path_of(e).state == state;
}

static bool are_armed(void)
{
	return is_in(&p.s, RDMAMSG_PATH_ARMED) &&
	       is_in(&p.c, RDMAMSG_PATH_ARMED);
}

static void expect_text(const struct end *e, const char *word)
{
	struct rdmamsg_ep_path_attr path = path_of(e);

	if (!strstr(path.text, word))
		fail_msg("%s: no '%s' in '%s'", e->name, word, path.text);
}

static bool is_ib(void)
{
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	return test_on_soft() && link && !strcmp(link, "ib");
}

static void need_ib(void)
{
	if (!is_ib())
		skip_because("only InfiniBand has alternate paths");
}

static void ask(struct end *e, const struct rdmamsg_failover *failover)
{
	e->on.on_path = on_path;
	e->opts.failover = failover;
}

/* dead_ms 0: the default */
static void open_mortal(const struct rdmamsg_failover *s,
			const struct rdmamsg_failover *c, uint32_t dead_ms)
{
	memset(&of_server, 0, sizeof(of_server));
	memset(&of_client, 0, sizeof(of_client));
	pair_init(&p, NULL);
	ask(&p.s, s);
	ask(&p.c, c);
	p.s.opts.dead_after_ms = p.c.opts.dead_after_ms = dead_ms;
	pair_listen(&p);
	pair_connect(&p);
}

static void open_with(const struct rdmamsg_failover *s,
		      const struct rdmamsg_failover *c)
{
	open_mortal(s, c, 0);
}

static void harm_all_ports(bool up)
{
	for (unsigned int port = 1; port <= 3; port++)
		harm_port(port, up);
}

static void end_pair(void)
{
	pair_close(&p);
	pair_fini(&p);
}

/* ---- traffic ---------------------------------------------------------- */

static bool pouring;

static void send_one(struct end *e)
{
	uint32_t tag = (uint32_t)e->sent;
	int ret = pouring ? end_send(e, tag % HOW_COUNT, mixed_size(tag), tag) :
		  0;

	/* rdmamsg_send() takes no message of this size */
	if (ret == -EMSGSIZE) {
		texts_are_fine = true;
		ret = end_send(e, HOW_SENDV, mixed_size(tag), tag);
	}
	if (ret && ret != -EAGAIN && ret != -ESHUTDOWN)
		note("%s: %s", e->name, rdmamsg_error());
}

static void fill(struct end *e)
{
	for (unsigned int i = 0; i < WINDOW; i++)
		send_one(e);
}

static void pour(void)
{
	p.s.then_sent = p.c.then_sent = send_one;
	p.s.then_writable = p.c.then_writable = fill;
	pouring = true;
	fill(&p.s);
	fill(&p.c);
}

/* ---- both ends in one process ----------------------------------------- */

static void alternate__of_two_ends_ARMED(void **state)
{
	need_ib();
	open_with(&on, &on);
	WAIT_FOR(of_server.armed && of_client.armed);
	assert_true(are_armed());
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_ep_path_attr path = path_of(i ? &p.s : &p.c);

		assert_int_equal(path.size, sizeof(path));
		assert_int_equal(path.port, 1);
		assert_int_equal(path.alternate, 2);
		assert_int_equal(path.peer_alternate, 2);
		assert_int_equal(path.migrations, 0);
	}
	end_pair();
	assert_int_equal(of_client.armed, 1);
	assert_int_equal(of_client.lost + of_client.migrated, 0);
}

static void alternate__wanted_port_ARMED(void **state)
{
	const struct rdmamsg_failover third = {
		.size = sizeof(third), .rungs = RDMAMSG_RUNG_PATH, .port = 3,
	};

	need_ib();
	open_with(&on, &third);
	WAIT_FOR(are_armed());
	assert_int_equal(path_of(&p.c).alternate, 3);
	assert_int_equal(path_of(&p.s).alternate, 2);
	assert_int_equal(path_of(&p.s).peer_alternate, 3);
	assert_int_equal(rdmamsg_ep_migrate(p.s.ep, NULL), 0);
	WAIT_FOR(of_client.armed == 2 && of_server.armed == 2);
	assert_int_equal(path_of(&p.c).port, 3);
	assert_int_equal(path_of(&p.c).alternate, 1);
	assert_int_equal(path_of(&p.s).port, 2);
	/* back to the wanted port, after a migration away from it */
	assert_int_equal(rdmamsg_ep_migrate(p.s.ep, NULL), 0);
	WAIT_FOR(of_client.armed == 3 && of_server.armed == 3);
	assert_int_equal(path_of(&p.c).port, 1);
	assert_int_equal(path_of(&p.c).alternate, 3);
	end_pair();
}

static void migrate__back_and_forth_EACH_MESSAGE_ONCE(void **state)
{
	need_ib();
	open_with(&on, &on);
	pour();
	for (unsigned int i = 0; i < TIMES; i++) {
		const struct end *by = i % 3 ? &p.c : &p.s;
		uint32_t port = i % 2 ? 1 : 2;

		WAIT_FOR(of_client.armed == i + 1 && of_server.armed == i + 1);
		if (rdmamsg_ep_migrate(by->ep, NULL))
			fail_msg("migration %u: %s", i, rdmamsg_error());
		WAIT_FOR(of_client.migrated == i + 1 &&
			 of_server.migrated == i + 1);
		assert_int_equal(path_of(&p.s).port, port);
		assert_int_equal(end_info(&p.c).port, port);
	}
	pouring = false;
	end_pair();
	assert_true(p.c.sent > TIMES && p.s.sent > TIMES);
	assert_int_equal(of_client.lost + of_server.lost, 0);
}

static void migrate__both_ends_at_once_ONE_MIGRATION(void **state)
{
	const unsigned int times = 50;

	need_ib();
	open_with(&on, &on);
	pour();
	for (unsigned int i = 0; i < times; i++) {
		WAIT_FOR(of_client.armed == i + 1 && of_server.armed == i + 1);
		assert_int_equal(rdmamsg_ep_migrate(p.c.ep, NULL), 0);
		assert_int_equal(rdmamsg_ep_migrate(p.s.ep, NULL), 0);
	}
	WAIT_FOR(of_client.armed == times + 1 && of_server.armed == times + 1);
	assert_int_equal(of_client.migrated, times);
	assert_int_equal(path_of(&p.s).migrations, times);
	pouring = false;
	end_pair();
}

/* Both ends lose port 1 at once, and no packet passes between them before. */
static void port__down_at_both_ends_MIGRATED(void **state)
{
	need_ib();
	open_with(&on, &on);
	WAIT_FOR(are_armed());
	pour();
	harm_port(1, false);
	WAIT_FOR(of_client.migrated && of_server.migrated);
	/* the former port is down, so the third port is the next */
	WAIT_FOR(of_client.armed == 2 && of_server.armed == 2);
	assert_int_equal(path_of(&p.c).port, 2);
	assert_int_equal(path_of(&p.c).alternate, 3);
	harm_port(1, true);
	assert_int_equal(rdmamsg_ep_migrate(p.c.ep, NULL), 0);
	WAIT_FOR(of_client.armed == 3 && of_server.armed == 3);
	assert_int_equal(path_of(&p.c).port, 3);
	assert_int_equal(path_of(&p.c).alternate, 2);
	pouring = false;
	end_pair();
}

static void alternate__down_NEXT_PORT_then_NONE(void **state)
{
	need_ib();
	open_with(&on, &on);
	WAIT_FOR(are_armed());
	pour();
	harm_port(2, false);
	WAIT_FOR(of_client.lost == 1 && of_server.lost == 1);
	WAIT_FOR(of_client.armed == 2 && of_server.armed == 2);
	assert_int_equal(path_of(&p.s).alternate, 3);
	harm_port(3, false);
	WAIT_FOR(is_in(&p.c, RDMAMSG_PATH_NONE) &&
		 is_in(&p.s, RDMAMSG_PATH_NONE));
	WAIT_FOR(of_client.lost == 2 && of_server.lost == 2);
	WAIT_FOR(strstr(path_of(&p.c).text, "neither side"));
	assert_error(rdmamsg_ep_migrate(p.c.ep, NULL), -EHOSTUNREACH,
		     "neither side");
	harm_port(2, true);
	WAIT_FOR(of_client.armed == 3 && of_server.armed == 3);
	assert_int_equal(path_of(&p.s).alternate, 2);
	harm_port(3, true);
	assert_int_equal(rdmamsg_ep_migrate(p.c.ep, NULL), 0);
	WAIT_FOR(of_client.armed == 4 && of_server.armed == 4);
	pouring = false;
	end_pair();
	assert_int_equal(of_client.migrated, 1);
}

static void alternate__and_port_down_CLOSED(void **state)
{
	need_ib();
	open_mortal(&on, &on, 4000);
	WAIT_FOR(are_armed());
	harm_all_ports(false);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	harm_all_ports(true);
	pair_fini(&p);
}

static void alternate__without_the_cm_ARMED(void **state)
{
	need_ib();
	memset(&of_server, 0, sizeof(of_server));
	memset(&of_client, 0, sizeof(of_client));
	oob_init(&p);
	ask(&p.s, &on);
	ask(&p.c, &on);
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	for (unsigned int i = 1; i <= 10; i++) {
		WAIT_FOR(of_client.armed == i && of_server.armed == i);
		oob_talk(&p);
		assert_int_equal(rdmamsg_ep_migrate(p.c.ep, NULL), 0);
	}
	WAIT_FOR(of_client.migrated == 10 && of_server.migrated == 10);
	oob_talk(&p);
	end_pair();
}

/* ---- arguments and lack ----------------------------------------------- */

/* ---- another lane ----------------------------------------------------- */

static void check_lanes(unsigned int moves)
{
	assert_int_equal(path_of(&p.c).migrations, moves);
	assert_int_equal(path_of(&p.s).migrations, moves);
	assert_int_equal(path_of(&p.c).resumes, moves);
	assert_int_equal(of_client.lost + of_server.lost, 0);
}

/* Each lane migrates, and leaves for the next. */
static void lane__after_lane_ARMED_AGAIN(void **state)
{
	const struct rdmamsg_migrate_options lane = {
		.size = sizeof(lane), .lane = true,
	};
	const unsigned int moves = 10;

	need_ib();
	open_with(&ladder, &ladder);
	pour();
	for (unsigned int i = 0; i < moves; i++) {
		WAIT_FOR(of_client.armed == 2 * i + 1 &&
			 of_server.armed == 2 * i + 1);
		assert_int_equal(rdmamsg_ep_migrate(p.s.ep, NULL), 0);
		WAIT_FOR(of_client.armed == 2 * i + 2 &&
			 of_server.armed == 2 * i + 2);
		assert_int_equal(rdmamsg_ep_migrate(p.c.ep, &lane), 0);
		WAIT_FOR(of_client.resumed == i + 1 &&
			 of_server.resumed == i + 1);
	}
	WAIT_FOR(are_armed());
	check_lanes(moves);
	pouring = false;
	end_pair();
}

/* The lane and its alternate path are lost, and so is the wanted port. */
static void lane__lost_with_its_alternate_ARMED_AGAIN(void **state)
{
	const struct rdmamsg_failover wants = {
		.size = sizeof(wants), .rungs = ladder.rungs, .port = 3,
		.timeout_ms = 60000,
	};

	need_ib();
	open_mortal(&ladder, &wants, 2000);
	WAIT_FOR(are_armed());
	assert_int_equal(path_of(&p.c).alternate, 3);
	pour();
	harm_all_ports(false);
	WAIT_FOR(path_of(&p.c).down && path_of(&p.s).down);
	assert_true(is_in(&p.c, RDMAMSG_PATH_NONE));
	expect_text(&p.c, "lost");
	harm_port(1, true);
	harm_port(2, true);
	WAIT_FOR(of_client.resumed == 1 && of_server.resumed == 1);
	WAIT_FOR(are_armed());
	assert_int_equal(path_of(&p.c).alternate, 2);
	assert_int_equal(rdmamsg_ep_migrate(p.c.ep, NULL), 0);
	WAIT_FOR(path_of(&p.c).port == 2 && path_of(&p.s).port == 2);
	harm_port(3, true);
	WAIT_FOR(are_armed());
	pouring = false;
	end_pair();
}

/* The messages wait for another lane, and the close for them. */
static void shutdown__while_the_lane_is_lost_ALL_ARRIVES(void **state)
{
	need_ib();
	open_mortal(&ladder, &ladder, 2000);
	pour();
	WAIT_FOR(p.s.sent_ok && p.c.sent_ok);
	harm_all_ports(false);
	WAIT_FOR(path_of(&p.c).down && path_of(&p.s).down);
	pouring = false;
	assert_true(p.s.sent > p.s.sent_ok || p.c.sent > p.c.sent_ok);
	assert_int_equal(rdmamsg_shutdown(p.s.ctx, -1), 0);
	while (!test_idle())
		test_pump(1);
	assert_int_equal(p.s.closed + p.c.closed, 0);
	harm_all_ports(true);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_check_graceful(&p);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(rdmamsg_shutdown_wait(p.s.ctx, -1), 0);
	pair_fini(&p);
}

static void migrate__not_armed_ERROR(void **state)
{
	struct rdmamsg_migrate_options to = { .size = sizeof(to), .port = 1 };

	need_ib();
	open_with(NULL, &on);
	assert_error(rdmamsg_ep_migrate(NULL, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_ep_migrate(p.s.ep, NULL), -EOPNOTSUPP, "off");
	assert_error(rdmamsg_ep_migrate(p.c.ep, NULL), -EOPNOTSUPP,
		     "has not asked");
	expect_text(&p.s, "off");
	expect_text(&p.c, "has not asked");
	end_pair();
	open_with(&on, &on);
	WAIT_FOR(are_armed());
	assert_error(rdmamsg_ep_migrate(p.c.ep, &to), -EINVAL, "port 1");
	to.port = 2;
	to.size = 1;
	assert_error(rdmamsg_ep_migrate(p.c.ep, &to), -EINVAL, "size");
	to.size = sizeof(to);
	assert_int_equal(rdmamsg_ep_migrate(p.c.ep, &to), 0);
	assert_error(rdmamsg_ep_migrate(p.c.ep, &to), -EBUSY, "not armed");
	WAIT_FOR(of_client.armed == 2 && of_server.armed == 2);
	assert_int_equal(of_client.migrated, 1);
	rdmamsg_ep_close(p.c.ep);
	assert_error(rdmamsg_ep_migrate(p.c.ep, NULL), -ESHUTDOWN, "clos");
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_check_graceful(&p);
	pair_fini(&p);
}

static void refuse_connect(uint32_t port, int error, const char *word)
{
	const struct rdmamsg_failover bad = {
		.size = sizeof(bad), .port = port,
	};

	ask(&p.c, &bad);
	p.c.closed = 0;
	assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), p.port,
					 &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.error, error);
	if (!strstr(p.c.why.text, word))
		fail_msg("no '%s' in '%s'", word, p.c.why.text);
	assert_int_equal(p.s.connected, 0);
}

static void port__of_no_use_REFUSED(void **state)
{
	struct rdmamsg_failover bad = { .size = sizeof(bad), .port = 255 };

	need_ib();
	pair_init(&p, NULL);
	pair_listen(&p);
	ask(&p.c, &bad);
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts,
				     NULL), -EINVAL, "port");
	bad.size = 1;
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts,
				     NULL), -EINVAL, "size");
	refuse_connect(1, -EINVAL, "itself uses");
	refuse_connect(4, -EINVAL, "has 3");
	harm_port(3, false);
	refuse_connect(3, -ENETDOWN, "not active");
	harm_port(3, true);
	pair_fini(&p);
}

static int accept_error;
static char accept_text[192];

static void accept_badly(struct rdmamsg_listener *l, struct rdmamsg_request *r)
{
	static const struct rdmamsg_failover first = {
		.size = sizeof(first), .port = 1,
	};

	ask(&p.s, &first);
	texts_are_fine = true;
	accept_error = rdmamsg_request_accept(r, &p.s.opts, &p.s.ep);
	snprintf(accept_text, sizeof(accept_text), "%s", rdmamsg_error());
}

static void port__of_no_use_ACCEPT_REFUSED(void **state)
{
	const struct rdmamsg_failover bad = {
		.size = sizeof(bad), .port = 255,
	};
	static const struct rdmamsg_listener_handlers listener_on = {
		.size = sizeof(listener_on), .on_request = accept_badly,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &listener_on,
	};

	need_ib();
	pair_init(&p, NULL);
	ask(&p.s, &bad);
	opts.ep = &p.s.opts;
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, NULL),
		     -EINVAL, "port");
	opts.ep = NULL;
	assert_int_equal(rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts,
					&p.listener), 0);
	listener_service(p.listener, p.port);
	assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), p.port,
					 &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(p.c.closed);
	assert_int_equal(accept_error, -EINVAL);
	assert_non_null(strstr(accept_text, "itself uses"));
	pair_fini(&p);
}

static void link__without_alternates_SAYS_WHY(void **state)
{
	if (is_ib())
		skip_because("InfiniBand has alternate paths");
	open_with(&on, &on);
	assert_true(is_in(&p.c, RDMAMSG_PATH_NONE));
	expect_text(&p.c, test_iwarp() ? "iWARP" : "Ethernet");
	expect_text(&p.s, test_iwarp() ? "iWARP" : "Linux refuses");
	assert_error(rdmamsg_ep_migrate(p.c.ep, NULL), -EOPNOTSUPP,
		     "no alternate");
	for (uint32_t n = 0; n < 100; n++) {
		end_send_all(&p.c, HOW_SENDV, mixed_size(n), n);
		end_send_all(&p.s, HOW_SENDV, mixed_size(n), n);
	}
	end_pair();
	assert_int_equal(of_client.armed + of_server.armed, 0);
}

/* ---- two nodes -------------------------------------------------------- */

static void child_path(struct rdmamsg_ep *ep,
		       const struct rdmamsg_path_event *ev)
{
	say("%s %u\n", rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, ev->change),
	    ev->port);
}

/* Echoes messages. The argument is the port to connect to, or "0". */
static int role_peer(int argc, char **argv)
{
	struct end e;
	static const struct rdmamsg_listener_handlers listener_on = {
		.size = sizeof(listener_on), .on_request = accept_end,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &e, .handlers = &listener_on,
	};
	struct rdmamsg_listener *l;

	texts_are_fine = true;
	end_init(&e, "child", test_open(NULL));
	e.expect_nothing = true;
	e.then_message = echo;
	e.then_writable = send_back;
	e.on.on_path = child_path;
	e.opts.failover = &on;
	if (strcmp(argv[0], "0")) {
		if (rdmamsg_connect(e.ctx, test_addr(), argv[0], &e.opts,
				    &e.ep))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	} else {
		if (rdmamsg_listen(e.ctx, test_addr(), "0", &opts, &l))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		say("%u\n", rdmamsg_listener_port(l));
	}
	while (!e.closed)
		test_pump(1000);
	check_notes();
	return e.why.cause != RDMAMSG_CAUSE_CLOSED;
}

static const struct role roles[] = { { "peer", role_peer }, { NULL } };

static struct child child;
static struct end *we;

/* Our end gets back what it sends. */
static void start(bool as_server)
{
	memset(&of_server, 0, sizeof(of_server));
	memset(&of_client, 0, sizeof(of_client));
	pair_init(&p, NULL);
	we = as_server ? &p.s : &p.c;
	we->peer = we;
	ask(we, &on);
	if (as_server) {
		pair_listen(&p);
		child_start(&child, "peer", p.port);
	} else {
		child_start(&child, "peer", "0");
		child_line(&child, p.port, sizeof(p.port));
		assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), p.port,
						 &p.c.opts, &p.c.ep), 0);
	}
	WAIT_FOR(we->connected || we->closed);
	assert_false(we->closed);
	we->then_sent = send_one;
	we->then_writable = fill;
	pouring = true;
	fill(we);
}

static void stop_all(void)
{
	pouring = false;
	WAIT_FOR(we->received == we->sent);
	rdmamsg_ep_close(we->ep);
	WAIT_FOR(we->closed);
	assert_int_equal(we->why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(we->received, we->expected_count);
	end_check_cookies(we);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

static void child_says(const char *want)
{
	char line[64];

	child_line(&child, line, sizeof(line));
	if (strcmp(line, want))
		fail_msg("the child said '%s', not '%s'", line, want);
}

/* Messages pass after the last fault. */
static void expect_more(void)
{
	size_t before = we->received;

	WAIT_FOR(we->received > before + 2 * WINDOW);
}

/* The port in use of one side fails, and comes back. */
static void lose_port(bool as_server, bool ours, const char *how)
{
	struct seen *s;
	pid_t pid;

	start(as_server);
	s = seen_by(we);
	pid = ours ? getpid() : child.pid;
	WAIT_FOR(s->armed == 1);
	child_says("armed 1");
	harm_port_of(pid, 1, how);
	WAIT_FOR(s->migrated == 1);
	child_says("migrated 2");
	assert_int_equal(s->port, 2);
	expect_more();
	/* the other side offers its former port, this one its third */
	harm_port_of(pid, 1, "up");
	WAIT_FOR(s->armed >= 2 && is_in(we, RDMAMSG_PATH_ARMED));
	stop_all();
}

static void port__down_of_either_side_EACH_MESSAGE_ONCE(void **state)
{
	need_ib();
	for (int i = 0; i < 4; i++)
		lose_port(i & 1, i & 2, i & 1 ? "armed" : "down");
}

static void port__black_hole_EACH_MESSAGE_ONCE(void **state)
{
	need_ib();
	lose_port(false, false, "blackhole");
}

/* The child has one port, so only our port changes. */
static void alternate__of_one_side_MIGRATED(void **state)
{
	struct rdmamsg_ep_path_attr path;

	need_ib();
	start(false);
	WAIT_FOR(of_client.armed == 1);
	child_says("armed 1");
	harm_port_of(child.pid, 2, "down");
	child_says("lost 1");
	child_says("armed 1");
	harm_port_of(child.pid, 3, "down");
	child_says("lost 1");
	child_says("armed 1");
	WAIT_FOR(of_client.armed == 3);
	path = path_of(&p.c);
	assert_int_equal(path.alternate, 2);
	assert_int_equal(path.peer_alternate, 1);
	harm_port_of(getpid(), 1, "down");
	WAIT_FOR(of_client.migrated == 1);
	child_says("migrated 1");
	assert_int_equal(path_of(&p.c).port, 2);
	WAIT_FOR(is_in(&p.c, RDMAMSG_PATH_ARMED));
	assert_int_equal(path_of(&p.c).alternate, 3);
	expect_more();
	/* the connection manager stays on port 1 */
	harm_port_of(getpid(), 1, "up");
	stop_all();
}

static int stop_pouring(void **state)
{
	pouring = false;
	return test_teardown(state);
}

int main(int argc, char **argv)
{
#define PATH_TEST(fn) { #fn, fn, test_setup, stop_pouring, NULL }
	const struct CMUnitTest tests[] = {
		PATH_TEST(link__without_alternates_SAYS_WHY),
		PATH_TEST(alternate__of_two_ends_ARMED),
		PATH_TEST(alternate__wanted_port_ARMED),
		PATH_TEST(migrate__back_and_forth_EACH_MESSAGE_ONCE),
		PATH_TEST(migrate__both_ends_at_once_ONE_MIGRATION),
		PATH_TEST(shutdown__while_the_lane_is_lost_ALL_ARRIVES),
		PATH_TEST(migrate__not_armed_ERROR),
		PATH_TEST(alternate__without_the_cm_ARMED),
		PATH_TEST(lane__after_lane_ARMED_AGAIN),
		PATH_TEST(lane__lost_with_its_alternate_ARMED_AGAIN),
		PATH_TEST(port__down_at_both_ends_MIGRATED),
		PATH_TEST(port__down_of_either_side_EACH_MESSAGE_ONCE),
		PATH_TEST(port__black_hole_EACH_MESSAGE_ONCE),
		PATH_TEST(port__of_no_use_REFUSED),
		PATH_TEST(port__of_no_use_ACCEPT_REFUSED),
		PATH_TEST(alternate__down_NEXT_PORT_then_NONE),
		PATH_TEST(alternate__of_one_side_MIGRATED),
		PATH_TEST(alternate__and_port_down_CLOSED),
	};

	(void)setenv("RDMAMSG_SOFT_PORTS", PORTS, 1);
	return test_main(tests, roles, argc, argv);
}
