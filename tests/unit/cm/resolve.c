/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listener waits a bounded time for a resolver that does not answer. Errors
 * that are not the resolver's are told, and each address of a name is tried.
 */
#include "../own_fabric.h"
#include "cm/connect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool may_answer;
static int asked, answered;
static sigset_t masked;			/* in the resolver's thread */

int __real_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **ret);

static struct rlimit files;

/* No descriptor is left from now on, of which the resolver does not tell. */
static int use_up_descriptors(void)
{
	const struct rlimit none = { 0, files.rlim_max };

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return EAI_NONAME;
}

/* Nobody listens at the first address. */
static int give_two(const char *service, const struct addrinfo *hints,
		    struct addrinfo **ret)
{
	int gai = __real_getaddrinfo("127.0.0.2", service, hints, ret);

	return gai ? gai : __real_getaddrinfo("127.0.0.1", service, hints,
					      &(*ret)->ai_next);
}

/* The resolver does not answer for slow.invalid until the test releases it. */
int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **ret)
{
	int gai;

	if (!strcmp(host, "broken.invalid")) {
		errno = ENETDOWN;
		return EAI_SYSTEM;
	}
	if (!strcmp(host, "starved.invalid"))
		return use_up_descriptors();
	if (!strcmp(host, "two.invalid") &&
	    !(hints->ai_flags & AI_NUMERICHOST))
		return give_two(service, hints, ret);
	if (strcmp(host, "slow.invalid"))
		return __real_getaddrinfo(host, service, hints, ret);
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	pthread_mutex_lock(&lock);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &masked);
	asked++;
	while (!may_answer)
		pthread_cond_wait(&changed, &lock);
	gai = __real_getaddrinfo("127.0.0.1", service, hints, ret);
	answered++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return gai;
}

static void answer(bool may)
{
	pthread_mutex_lock(&lock);
	may_answer = may;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };

static void wait__no_answer_ETIMEDOUT(void **state)
{
	struct addrinfo *addrs = NULL;
	int gai = 0;

	answer(false);
	assert_int_equal(rdmamsg__resolve_wait("slow.invalid", "1", &hints, 50,
					       &gai, &addrs), -ETIMEDOUT);
	assert_non_null(strstr(rdmamsg_error(), "slow.invalid"));
	assert_non_null(strstr(rdmamsg_error(), "50 ms"));
	assert_null(addrs);
	/* no caller waits for the late answer; the resolver thread frees it */
	answer(true);
	pthread_mutex_lock(&lock);
	while (answered < asked)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void wait__answer_IS_RETURNED(void **state)
{
	struct addrinfo *addrs = NULL;
	int gai = EAI_FAIL;

	answer(true);
	assert_int_equal(rdmamsg__resolve_wait("slow.invalid", "1", &hints,
					       60000, &gai, &addrs), 0);
	assert_int_equal(gai, 0);
	assert_int_equal(addrs->ai_family, AF_INET);
	freeaddrinfo(addrs);
	assert_int_equal(rdmamsg__resolve_wait("no.such.name.invalid", "1",
					       &hints, 60000, &gai, &addrs),
			 0);
	assert_int_not_equal(gai, 0);
}

static int gai_of(const char *host)
{
	struct addrinfo *addrs = NULL;
	int gai = 0;

	assert_int_equal(rdmamsg__resolve_wait(host, "1", &hints, 60000, &gai,
					       &addrs), 0);
	assert_null(addrs);
	return gai;
}

static void wait__error_of_the_system_IS_TOLD(void **state)
{
	assert_int_equal(gai_of("broken.invalid"), ENETDOWN);
	/* the error of one name is not that of the next */
	assert_true(gai_of("no.such.name.invalid") < 0);
}

static void wait__no_descriptor_EMFILE(void **state)
{
	int gai;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	gai = gai_of("starved.invalid");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(gai, EMFILE);
}

/* A signal that the program blocks later must not reach the thread. */
static void thread__EVERY_SIGNAL_IS_BLOCKED(void **state)
{
	struct addrinfo *addrs = NULL;
	int gai = EAI_FAIL;

	(void)sigemptyset(&masked);
	answer(true);
	assert_int_equal(rdmamsg__resolve_wait("slow.invalid", "1", &hints,
					       60000, &gai, &addrs), 0);
	freeaddrinfo(addrs);
	assert_int_equal(sigismember(&masked, SIGTERM), 1);
	assert_int_equal(sigismember(&masked, SIGCHLD), 1);
	assert_int_equal(sigismember(&masked, SIGUSR1), 1);
}

static void listen__numeric_host_DOES_NOT_ASK(void **state)
{
	struct rdmamsg *ctx;
	int before = asked;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_oob_listen(ctx, "127.0.0.1", "0", NULL, NULL),
			 0);
	assert_int_equal(rdmamsg_oob_listen(ctx, NULL, "0", NULL, NULL), 0);
	assert_int_equal(asked, before);
	answer(true);
	assert_int_equal(rdmamsg_oob_listen(ctx, "slow.invalid", "0", NULL,
					    NULL), 0);
	assert_int_equal(asked, before + 1);
	rdmamsg_close(ctx);
}

static bool connected, closed;

static void on_connected(struct rdmamsg_ep *ep)
{
	connected = true;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	closed = true;
}

static void connect__first_address_refuses_TRIES_THE_NEXT(void **state)
{
	const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.device = "soft0",
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts, .device = "soft0",
	};
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	char port[8];

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_oob_listen(ctx, "127.0.0.1", "0", &lopts, &l),
			 0);
	(void)snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	assert_int_equal(rdmamsg_oob_connect(ctx, "two.invalid", port, &opts,
					     NULL), 0);
	while (!connected && !closed)
		assert_true(rdmamsg_wait(ctx, 100) >= 0);
	assert_true(connected);
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__no_answer_ETIMEDOUT),
		cmocka_unit_test(wait__answer_IS_RETURNED),
		cmocka_unit_test(wait__error_of_the_system_IS_TOLD),
		cmocka_unit_test(wait__no_descriptor_EMFILE),
		cmocka_unit_test(thread__EVERY_SIGNAL_IS_BLOCKED),
		cmocka_unit_test(listen__numeric_host_DOES_NOT_ASK),
		cmocka_unit_test(connect__first_address_refuses_TRIES_THE_NEXT),
	};

	join_own_fabric("resolve");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
