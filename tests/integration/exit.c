/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a process ends while its other threads use the library.
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
	static const struct rdmamsg_handlers on = {
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
	static const struct rdmamsg_handlers on = {
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
		{ "server", server_role }, { NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(exit__peers_with_a_key_connect_NO_CRASH),
	};

	return test_main(tests, roles, argc, argv);
}
