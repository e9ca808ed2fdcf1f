/* SPDX-License-Identifier: BSD-2-Clause */
/* Error texts: addresses, services and options that fail. */
#include "common.h"

#include <pthread.h>
#include <rdmamsg/oob.h>

#define NOT_LOCAL	"192.0.2.1"	/* RFC 5737 */

static struct pair p;

/* ---- addresses -------------------------------------------------------- */

static void connect__no_such_name_SAYS_SO(void **state)
{
	pair_init(&p, NULL);
	if (rdmamsg_connect(p.c.ctx, "no.such.name.invalid", "1", &p.c.opts,
			    &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ADDRESS);
	assert_int_equal(p.c.why.error, -EADDRNOTAVAIL);
	assert_non_null(strstr(p.c.why.text, "no.such.name.invalid"));
	pair_fini(&p);
}

static void connect__source_that_is_not_ours_SAYS_SO(void **state)
{
	struct rdmamsg_ep *ep;
	int ret;

	pair_init(&p, NULL);
	p.c.opts.source = "rxe-host";
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -EINVAL, "source 'rxe-host'");
	p.c.opts.source = NOT_LOCAL;
	ret = rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep);
	assert_error(ret, -EADDRNOTAVAIL, "source");
	p.c.opts.source = test_addr6();
	ret = rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep);
	assert_error(ret, -EINVAL, "source");
	pair_fini(&p);
}

static void connect__source_that_is_ours_WORKS(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.source = test_addr();
	pair_listen(&p);
	pair_connect(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void host__empty_EINVAL(void **state)
{
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	assert_error(rdmamsg_connect(p.c.ctx, "", "1", &p.c.opts, &ep),
		     -EINVAL, "host");
	assert_error(rdmamsg_connect_wait(p.c.ctx, "", "1", &p.c.opts, WAIT_MS,
					  &ep), -EINVAL, "host");
	assert_error(rdmamsg_oob_connect(p.c.ctx, "", "1", &p.c.opts, &ep),
		     -EINVAL, "host");
	assert_error(rdmamsg_listen(p.s.ctx, "", "0", NULL, &l), -EINVAL,
		     "host");
	assert_error(rdmamsg_oob_listen(p.s.ctx, "", "0", NULL, &l), -EINVAL,
		     "host");
	assert_int_equal(p.c.closed, 0);
	pair_fini(&p);
}

static const char *const bad_services[] = {
	"no-such-service", "65536", "70000", "-1", "12x", "",
};

static void service__not_a_port_EINVAL(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_services); i++) {
		const char *service = bad_services[i];

		assert_error(rdmamsg_connect(p.c.ctx, test_addr(), service,
					     &p.c.opts, &ep), -EINVAL, service);
		assert_error(rdmamsg_connect(p.c.ctx, "rxe-host", service,
					     &p.c.opts, &ep), -EINVAL, service);
		assert_error(rdmamsg_listen(p.s.ctx, test_addr(), service, NULL,
					    NULL), -EINVAL, service);
		assert_error(rdmamsg_listen(p.s.ctx, NULL, service, NULL, NULL),
			     -EINVAL, service);
	}
	pair_fini(&p);
}

static void listen__port_in_use_EADDRINUSE(void **state)
{
	struct rdmamsg_listener *other;

	pair_init(&p, NULL);
	pair_listen(&p);
	for (int i = 0; i < 2; i++)
		assert_error(rdmamsg_listen(i ? p.c.ctx : p.s.ctx, test_addr(),
					    p.port, NULL, NULL),
			     -EADDRINUSE, "in use");
	rdmamsg_listener_close(p.listener);
	assert_int_equal(rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL,
					&other), 0);
	pair_fini(&p);
}

static void listen__address_of_another_host_EADDRNOTAVAIL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	assert_error(rdmamsg_listen(ctx, NOT_LOCAL, "0", NULL, NULL),
		     -EADDRNOTAVAIL, "not an address of this host");
	assert_error(rdmamsg_listen(ctx, "2001:db8::1", "0", NULL, NULL),
		     -EADDRNOTAVAIL, "not an address of this host");
	assert_error(rdmamsg_listen(ctx, "no.such.name.invalid", "0", NULL,
				    NULL), -EADDRNOTAVAIL,
		     "no.such.name.invalid");
}

static void *another_thread(void *arg)
{
	snprintf(arg, 256, "%s", rdmamsg_error());
	return NULL;
}

static void error__text_BELONGS_TO_THE_THREAD(void **state)
{
	char text[256] = "";
	pthread_t thread;

	assert_error(rdmamsg_open(NULL, NULL), -EINVAL, "ret");
	assert_false(pthread_create(&thread, NULL, another_thread, text));
	pthread_join(thread, NULL);
	assert_string_equal(text, "no error");
	assert_non_null(strstr(rdmamsg_error(), "ret"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__no_such_name_SAYS_SO),
		TEST(connect__source_that_is_not_ours_SAYS_SO),
		TEST(connect__source_that_is_ours_WORKS),
		TEST(host__empty_EINVAL),
		TEST(service__not_a_port_EINVAL),
		TEST(listen__port_in_use_EADDRINUSE),
		TEST(listen__address_of_another_host_EADDRNOTAVAIL),
		TEST(error__text_BELONGS_TO_THE_THREAD),
	};

	return test_main(tests, NULL, argc, argv);
}
