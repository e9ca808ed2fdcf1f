/* SPDX-License-Identifier: BSD-2-Clause */
/* Error texts: a failure sets one, and a success leaves it alone. */
#include "base/ctx.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "memory/memory.h"
#include "memory/stretch.h"
#include "session/ep.h"
#include "../two_ends.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#include "../own_fabric.h"

#define OLD	"the failure before"

static void assert_old(const char *what)
{
	if (strcmp(rdmamsg_error(), OLD))
		fail_msg("%s left '%s'", what, rdmamsg_error());
}

static int fail_old(void)
{
	return rdmamsg__fail(-EINVAL, OLD);
}

/* ---- tries ------------------------------------------------------------ */

static void try__failure_KEEPS_ITS_TEXT_APART(void **state)
{
	fail_old();
	assert_int_equal(rdmamsg__try(rdmamsg__fail(-EIO, "inner")), -EIO);
	assert_old("a try");
	assert_string_equal(rdmamsg__text(), "inner");
}

static void try__nested_KEEPS_ITS_TEXT_APART(void **state)
{
	fail_old();
	rdmamsg__try_begin();
	assert_int_equal(rdmamsg__try(rdmamsg__fail(-EIO, "inner")), -EIO);
	assert_int_equal(rdmamsg__fail_again(-EIO), -EIO);
	assert_old("a try in a try");
	rdmamsg__fail(-ENOENT, "outer: %s", rdmamsg__text());
	rdmamsg__try_end();
	assert_old("a try");
	assert_string_equal(rdmamsg__text(), "outer: inner");
}

static void fail_again__after_a_try_SETS_ITS_TEXT(void **state)
{
	fail_old();
	assert_int_equal(rdmamsg__try(rdmamsg__fail(-EIO, "inner")), -EIO);
	assert_int_equal(rdmamsg__fail_again(-EIO), -EIO);
	assert_string_equal(rdmamsg_error(), "inner");
	assert_string_equal(rdmamsg__text(), "inner");
}

static void fail__with_the_text_of_before_QUOTES_IT(void **state)
{
	fail_old();
	rdmamsg__fail(-EIO, "now: %s", rdmamsg__text());
	assert_string_equal(rdmamsg_error(), "now: " OLD);
}

/* ---- calls that go on after a failure --------------------------------- */

static const struct rdmamsg_ep_handlers on = {
	.size = sizeof(on), .on_connected = on_connected, .on_closed = on_closed,
};

static void devices__only_the_soft_HCA_LEAVES_THE_TEXT(void **state)
{
	fail_old();
	assert_true(rdmamsg_devices(NULL, 0, 0) > 0);
	assert_old("rdmamsg_devices");
}

static void listen__on_what_there_is_LEAVES_THE_TEXT(void **state)
{
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	fail_old();
	assert_int_equal(rdmamsg_listen(ctx, NULL, "0", NULL, NULL), 0);
	assert_old("rdmamsg_listen at every address");
	assert_int_equal(rdmamsg_listen(ctx, "127.0.0.1", "0", NULL, NULL), 0);
	assert_old("rdmamsg_listen at a loopback address");
	rdmamsg_close(ctx);
}

static void close_ends(void)
{
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	clear_ends();
}

static void connect__to_the_soft_HCA_LEAVES_THE_TEXT(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts),
		.handlers = &on };

	fail_old();
	connect_ends(&opts);
	assert_old("rdmamsg_connect");
	close_ends();
	assert_old("rdmamsg_ep_close");
}

static void connect__out_of_band_LEAVES_THE_TEXT(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts),
		.handlers = &on, .user = &server };
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	fail_old();
	assert_int_equal(rdmamsg_oob_listen(server.ctx, "127.0.0.1", "0",
					    &lopts, &l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	opts.user = &client;
	assert_int_equal(rdmamsg_oob_connect(client.ctx, "127.0.0.1", service,
					     &opts, NULL), 0);
	WAIT_FOR(client.ep && server.ep);
	assert_old("rdmamsg_oob_connect");
	close_ends();
}

static void oob_offer__of_the_soft_HCA_LEAVES_THE_TEXT(void **state)
{
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;

	if (rdmamsg__device_any(rdmamsg__verbs) != -ENODEV)
		skip();
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	fail_old();
	assert_int_equal(rdmamsg_oob_offer(ctx, NULL, &ep), 0);
	assert_old("rdmamsg_oob_offer");
	rdmamsg_close(ctx);
}

static void alloc__limit_reached_EAGAIN_LEAVES_THE_TEXT(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts),
		.handlers = &on };
	static const size_t lens[] = { 100, 1 << 20 };
	struct rdmamsg_msg *msgs[200];
	int ret = 0, n;

	for (size_t i = 0; i < 2; i++) {
		connect_ends(&opts);
		client.ctx->memory->budget[DIR_OUT].cap =
			client.ctx->memory->budget[DIR_OUT].used +
			(lens[i] > 1000 ? 2 << 20 : 0);
		fail_old();
		for (n = 0; n < 200; n++) {
			ret = rdmamsg_msg_alloc(client.ep, lens[i], &msgs[n]);
			if (ret)
				break;
		}
		assert_int_equal(ret, -EAGAIN);
		assert_old("rdmamsg_msg_alloc");
		while (n--)
			rdmamsg_msg_free(msgs[n]);
		close_ends();
	}
}

static void expect_not_connected(int ret)
{
	assert_int_equal(ret, -ENOTCONN);
	assert_non_null(strstr(rdmamsg_error(), "not connected yet"));
}

static void send__while_connecting_ENOTCONN(void **state)
{
	static const enum ep_state states[] = { EP_RESOLVING, EP_BACKOFF };
	struct rdmamsg_pool *pool;
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;
	struct iovec iov = { (char[]){ "x" }, 1 };

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
		assert_int_equal(rdmamsg_pool_create(ctx, NULL, &pool), 0);
		assert_int_equal(rdmamsg_connect(ctx, "127.0.0.1", "1", NULL,
						 &ep), 0);
		ep->state = states[i];
		expect_not_connected(rdmamsg_send(ep, "x", 1, 0, NULL));
		expect_not_connected(rdmamsg_sendv(ep, &iov, 1, 0, NULL));
		expect_not_connected(rdmamsg_send_wait(ep, "x", 1, 0, 0));
		expect_not_connected(rdmamsg_msg_alloc(ep, 1, &msg));
		expect_not_connected(rdmamsg_pool_alloc(pool, ep, 1, &msg));
		rdmamsg_close(ctx);
	}
}

static volatile sig_atomic_t alarms;
static struct rdmamsg *interrupted;

static void on_alarm(int sig)
{
	if (++alarms == 3)
		rdmamsg_stop(interrupted);
}

static void run__interrupted_LEAVES_THE_TEXT(void **state)
{
	struct itimerval often = { { 0, 10000 }, { 0, 10000 } }, never = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };

	assert_int_equal(rdmamsg_open(&interrupted, NULL), 0);
	fail_old();
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(rdmamsg_run(interrupted), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true(alarms >= 3);
	assert_old("rdmamsg_run");
	rdmamsg_close(interrupted);
}

/* ---- values of variables --------------------------------------------- */

static void soft__wrong_value_NAMES_THE_VALUES(void **state)
{
	static const struct {
		const char *name, *value, *values, *right;
	} wrong[] = {
		{ "RDMAMSG_SOFT_ATOMICS", "big", "big-endian or plain",
		  "plain" },
		{ "RDMAMSG_SOFT_FABRIC", "a/b", "without a slash", NULL },
		{ "RDMAMSG_SOFT_LACKS", "windows,doors", "with a comma",
		  "resizing,windows" },
		{ "RDMAMSG_SOFT_LAYOUTS", "no", "native or none", "none" },
		{ "RDMAMSG_SOFT_LINK", "i", "ethernet, ib or iwarp", "ib" },
		{ "RDMAMSG_SOFT_NO_VM", "2", "0 or 1", "1" },
		{ "RDMAMSG_SOFT_ORDER", "4294967296", "0 to 4294967295", "0" },
		{ "RDMAMSG_SOFT_PART", "0", "1 to 65535", "65535" },
		{ "RDMAMSG_SOFT_PATIENCE", "1s", "0 to 600000", "600000" },
		{ "RDMAMSG_SOFT_PORTS", "99", "1 to 8", "8" },
	};
	struct rdmamsg_device_attr attr = { .size = sizeof(attr) };

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const char *had = getenv(wrong[i].name);
		char *keep = had ? strdup(had) : NULL;

		(void)setenv(wrong[i].name, wrong[i].value, 1);
		assert_int_equal(rdmamsg_device_query("soft0", &attr), -EINVAL);
		if (!strstr(rdmamsg_error(), wrong[i].name) ||
		    !strstr(rdmamsg_error(), wrong[i].values))
			fail_msg("%s: '%s'", wrong[i].name, rdmamsg_error());
		if (keep)
			(void)setenv(wrong[i].name, keep, 1);
		else if (wrong[i].right)
			(void)setenv(wrong[i].name, wrong[i].right, 1);
		assert_int_equal(rdmamsg_device_query("soft0", &attr), 0);
		if (!keep)
			(void)unsetenv(wrong[i].name);
		free(keep);
	}
}

/* Another process holds the fabric's lock: tests/unit/soft/limits.c. */
static void soft__lock_not_released_NAMES_WHO_JOINS(void **state)
{
	assert_int_equal(rdmamsg__fail_soft(-EBUSY), -EBUSY);
	assert_non_null(strstr(rdmamsg_error(), "a process that joins the "
			       "fabric does not go on"));
	assert_non_null(strstr(rdmamsg_error(), "RDMAMSG_SOFT_FABRIC"));
}

/* Others fill the backlog of its name: tests/unit/soft/crowded.c. */
static void soft__node_that_cannot_be_asked_NAMES_THE_CAUSE(void **state)
{
	assert_int_equal(rdmamsg__fail_soft(-ETIMEDOUT), -ETIMEDOUT);
	assert_non_null(strstr(rdmamsg_error(), "others connect to its name"));
	assert_non_null(strstr(rdmamsg_error(), "RDMAMSG_SOFT_FABRIC"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(try__failure_KEEPS_ITS_TEXT_APART),
		cmocka_unit_test(try__nested_KEEPS_ITS_TEXT_APART),
		cmocka_unit_test(fail_again__after_a_try_SETS_ITS_TEXT),
		cmocka_unit_test(fail__with_the_text_of_before_QUOTES_IT),
		cmocka_unit_test(devices__only_the_soft_HCA_LEAVES_THE_TEXT),
		cmocka_unit_test(listen__on_what_there_is_LEAVES_THE_TEXT),
		cmocka_unit_test(connect__to_the_soft_HCA_LEAVES_THE_TEXT),
		cmocka_unit_test(connect__out_of_band_LEAVES_THE_TEXT),
		cmocka_unit_test(oob_offer__of_the_soft_HCA_LEAVES_THE_TEXT),
		cmocka_unit_test(alloc__limit_reached_EAGAIN_LEAVES_THE_TEXT),
		cmocka_unit_test(send__while_connecting_ENOTCONN),
		cmocka_unit_test(run__interrupted_LEAVES_THE_TEXT),
		cmocka_unit_test(soft__wrong_value_NAMES_THE_VALUES),
		cmocka_unit_test(soft__lock_not_released_NAMES_WHO_JOINS),
		cmocka_unit_test(
			soft__node_that_cannot_be_asked_NAMES_THE_CAUSE),
	};

	unsetenv("RDMAMSG_DEVICE");
	join_own_fabric("error");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
