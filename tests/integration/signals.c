/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: signals that interrupt system calls all the time, as those of a
 * profiler do, which have no SA_RESTART.
 */
#include "common.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#define PERIOD_US	200
#define ROUNDS		10u
#define MESSAGES	20u	/* of a round, of each size */

static volatile sig_atomic_t ticks;
static _Atomic bool ended;
static _Atomic unsigned int heard;
static struct rdmamsg *served;
static uint8_t large[1 << 20];

static void tick(int sig)
{
	(void)sig;
	ticks = ticks + 1;
}

static void begin_storm(void)
{
	const struct itimerval often = {
		.it_interval.tv_usec = PERIOD_US,
		.it_value.tv_usec = PERIOD_US,
	};
	const struct sigaction act = { .sa_handler = tick };

	assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void end_storm(void)
{
	const struct itimerval never = { 0 };

	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	(void)ep;
	heard++;
	rdmamsg_msg_free(msg);
}

static void *serve(void *arg)
{
	int ret = 0;

	(void)arg;
	while (!ended && (ret >= 0 || ret == -EINTR))
		ret = rdmamsg_wait(served, 10);
	if (ret < 0 && ret != -EINTR)
		note("rdmamsg_wait: %d, %s", ret, rdmamsg_error());
	return NULL;
}

static void listen_at(char port[static 8])
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &on,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_open(&served, NULL) ||
	    rdmamsg_listen(served, test_addr(), "0", &lo, &l))
		fail_msg("%s", rdmamsg_error());
	(void)snprintf(port, 8, "%u", rdmamsg_listener_port(l));
}

static void send_all(struct rdmamsg_ep *ep)
{
	for (unsigned int i = 0; i < MESSAGES; i++) {
		if (rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS) ||
		    rdmamsg_send_wait(ep, large, sizeof(large), 0, WAIT_MS))
			fail_msg("send: %s", rdmamsg_error());
	}
}

static void round_trip(const char *port)
{
	struct rdmamsg_ep *ep = NULL;
	struct rdmamsg *ctx;

	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_connect_wait(ctx, test_addr(), port, NULL, WAIT_MS, &ep))
		fail_msg("connect: %s", rdmamsg_error());
	send_all(ep);
	if (rdmamsg_ep_close_wait(ep, WAIT_MS))
		fail_msg("close: %s", rdmamsg_error());
	rdmamsg_close(ctx);
}

static void calls__that_block_GO_ON(void **state)
{
	pthread_t thread;
	char port[8];

	(void)state;
	begin_storm();
	listen_at(port);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	for (unsigned int i = 0; i < ROUNDS; i++)
		round_trip(port);
	assert_int_equal(heard, ROUNDS * 2 * MESSAGES);
	ended = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	rdmamsg_close(served);
	end_storm();
	assert_true(ticks > 0);
	check_notes();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(calls__that_block_GO_ON),
	};

	return test_main(tests, NULL, argc, argv);
}
