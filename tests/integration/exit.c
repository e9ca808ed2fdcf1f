/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a process ends, or goes on as another program, while it uses the
 * library.
 */
#include "common.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>

#include <pthread.h>
#include <sys/wait.h>

#define EXITS	100u
#define PEERS	8u		/* that connect at a time */
#define SPREAD	20u		/* ms in which an exit begins */

static const char key[] = "the key of both sides";

/* ---- the process that ends --------------------------------------------- */

static struct rdmamsg *served;

static void *serve(void *arg)
{
	(void)arg;
	while (rdmamsg_wait(served, 1000) >= 0)
		;
	return NULL;
}

static void on_served_closed(struct rdmamsg_ep *ep,
			     const struct rdmamsg_reason *why)
{
	(void)ep;
	(void)why;
}

static void open_with_key(struct rdmamsg **ret)
{
	const struct rdmamsg_options o = {
		.size = sizeof(o), .key = key, .key_len = sizeof(key),
	};

	*ret = test_open(&o);
}

/* Exits when the parent says so, as by a return from main(). Closes nothing. */
static int server_role(int argc, char **argv)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_closed = on_served_closed,
	};
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &on,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *l;
	pthread_t thread;

	(void)argc;
	(void)argv;
	open_with_key(&served);
	if (rdmamsg_listen(served, test_addr(), "0", &lo, &l)) {
		fprintf(stderr, "%s\n", rdmamsg_error());
		return 2;
	}
	say("%u\n", rdmamsg_listener_port(l));
	if (pthread_create(&thread, NULL, serve, NULL))
		return 3;
	exit(getchar() == 'x' ? 0 : 4);
}

/* ---- a process that goes on as another program ------------------------- */

static void await_connection(struct rdmamsg_ep *ep)
{
	*(bool *)rdmamsg_ep_user(ep) = true;
}

/* Connects, and runs a program that knows nothing of the library. */
static int exec_role(int argc, char **argv)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = await_connection,
		.on_closed = on_served_closed,
	};
	bool done = false;
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .handlers = &on, .user = &done,
	};
	struct rdmamsg_ep *ep;

	served = test_open(NULL);
	if (argc < 1 || rdmamsg_connect(served, test_addr(), argv[0], &o, &ep))
		return 2;
	WAIT_FOR(done);
	if (getchar() != 'x')
		return 3;
	execl("/bin/sh", "sh", "-c", "read line", (char *)NULL);
	return 4;
}

/* The process is the same, but its connections have ended. */
static void exec__with_a_connection_IS_TOLD(void **state)
{
	struct child child;
	struct pair p;

	(void)state;
	pair_init(&p, NULL);
	pair_listen(&p);
	child_start(&child, "exec", p.port);
	WAIT_FOR(p.s.connected);
	child_say(&child, "x");
	WAIT_FOR(p.s.closed);
	assert_int_not_equal(p.s.why.who, RDMAMSG_WHO_LOCAL);
	child_say(&child, "\n");
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* ---- exit() in a callback ---------------------------------------------- */

static void close_served(void)
{
	rdmamsg_close(served);
	say("closed\n");
}

static void exit_at_once(struct rdmamsg_ep *ep)
{
	(void)ep;
	exit(0);
}

/* A handler of the program closes the context, whose callback has not ended. */
static int callback_role(int argc, char **argv)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = exit_at_once,
		.on_closed = on_served_closed,
	};
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .handlers = &on,
	};
	struct rdmamsg_ep *ep;

	if (argc < 1 || rdmamsg_open(&served, NULL) || atexit(close_served) ||
	    rdmamsg_connect(served, test_addr(), argv[0], &o, &ep))
		return 2;
	for (;;)
		if (rdmamsg_wait(served, 1000) < 0)
			return 3;
}

static void exit__in_a_callback_ENDS(void **state)
{
	struct child child;
	struct pair p;
	char line[16];

	(void)state;
	pair_init(&p, NULL);
	pair_listen(&p);
	child_start(&child, "callback", p.port);
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "closed");
	assert_int_equal(child_wait(&child), 0);
	WAIT_FOR(!p.s.connected || p.s.closed);
	pair_fini(&p);
}

/* ---- its peers --------------------------------------------------------- */

static struct rdmamsg *ctx;
static unsigned int connected;

struct peer {
	struct rdmamsg_ep *ep;		/* NULL: there is none */
};

static void on_connected(struct rdmamsg_ep *ep)
{
	connected++;
	rdmamsg_ep_abort(ep);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct peer *p = rdmamsg_ep_user(ep);

	(void)why;
	p->ep = NULL;
}

static void dial(struct peer *p, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .handlers = &on, .user = p,
		.timeout_ms = WAIT_MS,
	};

	if (rdmamsg_connect(ctx, test_addr(), port, &o, &p->ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
}

static void keep_dialling(struct peer *peers, const char *port)
{
	for (unsigned int i = 0; i < PEERS; i++)
		if (!peers[i].ep)
			dial(&peers[i], port);
	test_pump(1);
}

static void end_all(struct peer *peers)
{
	for (unsigned int i = 0; i < PEERS; i++) {
		if (peers[i].ep)
			rdmamsg_ep_abort(peers[i].ep);
		WAIT_FOR(!peers[i].ep);
	}
}

/* Returns the status of a server that ends while peers connect to it. */
static int end_once(unsigned int ms)
{
	struct peer peers[PEERS] = { 0 };
	const unsigned int before = connected;
	struct child child;
	uint64_t end;
	char port[16];

	child_start(&child, "server", NULL);
	child_line(&child, port, sizeof(port));
	end = now_ms() + WAIT_MS;
	while (connected < before + PEERS && now_ms() < end)
		keep_dialling(peers, port);
	end = now_ms() + ms;
	while (now_ms() < end)
		keep_dialling(peers, port);
	child_say(&child, "x");
	end_all(peers);
	return child_wait(&child);
}

static void exit__peers_with_a_key_connect_NO_CRASH(void **state)
{
	(void)state;
	open_with_key(&ctx);
	for (unsigned int i = 0; i < EXITS; i++) {
		int status = end_once(i % SPREAD);

		if (status)
			fail_msg("exit %u: status 0x%x", i, (unsigned int)status);
	}
	assert_true(connected >= EXITS * PEERS);
	test_close(ctx);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "server", server_role }, { "exec", exec_role },
		{ "callback", callback_role }, { NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(exec__with_a_connection_IS_TOLD),
		TEST(exit__in_a_callback_ENDS),
		TEST(exit__peers_with_a_key_connect_NO_CRASH),
	};

	/* for the children: what is left at exit() is what they are about */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	return test_main(tests, roles, argc, argv);
}
