/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a device connects in the call, and hosts do not answer. Calls to
 * 192.0.2.1 block until the test lets them go. The context works meanwhile, and
 * so does the end of an endpoint and of a context.
 */
#include "../two_ends.h"
#include "base/ctx.h"
#include "cm/rdma/cm.h"
#include "device/verbs_api.h"
#include "session/ep.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#include "../../fake/nulldev.h"

#define SILENT		"192.0.2.1"
#define THREADS_MAX	16

static struct verbs_api device;		/* the null device */
static struct side silent, sides[THREADS_MAX + 2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* under the lock */
static unsigned int entered, left, passes;
static int error, interruptions;	/* of calls that pass */
static bool deaf;			/* the kernel does not end a call */
static bool hears_signals;		/* a thread does */

static void leave(void *arg)
{
	left++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static bool is_silent(const struct rdma_cm_id *id)
{
	return id->route.addr.dst_sin.sin_addr.s_addr == inet_addr(SILENT);
}

static bool masks_all_signals(void)
{
	sigset_t set;

	return !pthread_sigmask(SIG_SETMASK, NULL, &set) &&
	       sigismember(&set, SIGTERM) == 1 &&
	       sigismember(&set, SIGUSR1) == 1 && sigismember(&set, SIGCHLD);
}

static int slow_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int err, state;

	if (!is_silent(id))
		return nulldev_verbs.connect(id, param);
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(leave, NULL);
	if (deaf)
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	hears_signals |= !masks_all_signals();
	entered++;
	pthread_cond_broadcast(&changed);
	while (!passes)
		pthread_cond_wait(&changed, &lock);
	err = error;
	if (interruptions) {
		interruptions--;
		err = EINTR;
	} else {
		passes--;
	}
	pthread_cleanup_pop(true);
	if (!err)
		return nulldev_verbs.connect(id, param);
	errno = err;
	return -1;
}

/* Lets n calls go, with this error. */
static void let_go(unsigned int n, int err)
{
	pthread_mutex_lock(&lock);
	error = err;
	passes += n;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static unsigned int inside(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = entered - left;
	pthread_mutex_unlock(&lock);
	return n;
}

/* ---- threads of the library ------------------------------------------- */

static unsigned int threads_refused;
static unsigned int running;		/* under the lock */

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);

struct thread {
	void *(*fn)(void *arg);
	void *arg;
};

static void count_running(int more)
{
	pthread_mutex_lock(&lock);
	running += (unsigned int)more;
	pthread_mutex_unlock(&lock);
}

static void end_thread(void *arg)
{
	count_running(-1);
}

/* The library may cancel it. */
static void *run_thread(void *arg)
{
	struct thread t = *(struct thread *)arg;
	void *ret;

	free(arg);
	pthread_cleanup_push(end_thread, NULL);
	ret = t.fn(t.arg);
	pthread_cleanup_pop(true);
	return ret;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	struct thread *thread;
	int err;

	if (threads_refused) {
		threads_refused--;
		return EAGAIN;
	}
	thread = malloc(sizeof(*thread));
	assert_non_null(thread);
	*thread = (struct thread){ fn, arg };
	count_running(1);
	err = __real_pthread_create(t, attr, run_thread, thread);
	if (!err)
		return 0;
	count_running(-1);
	free(thread);
	return err;
}

/* No thread reads the null device any more, which the next test replaces. */
static bool none_runs(void)
{
	bool none;

	pthread_mutex_lock(&lock);
	none = !running;
	pthread_mutex_unlock(&lock);
	return none;
}

/* ---- events that move -------------------------------------------------- */

static bool wakes;			/* when they have moved */

/* As in Linux, events that move wake nobody who waits on the new channel. */
static int migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch)
{
	int ret = nulldev_verbs.migrate_id(id, ch);
	struct epoll_event none = { .events = 0 };

	if (!ret && !wakes && client.ctx)
		(void)epoll_ctl(client.ctx->loop.epfd, EPOLL_CTL_MOD, ch->fd,
				&none);
	return ret;
}

/* ---- contexts --------------------------------------------------------- */

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed,
};

static int set_up(void **state)
{
	static struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &server, .handlers = &handlers,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;

	device = nulldev_verbs;
	device.connect = slow_connect;
	device.migrate_id = migrate_id;
	rdmamsg__verbs = &device;
	nulldev_device.transport_type = IBV_TRANSPORT_IWARP;
	clear_ends();
	memset(&silent, 0, sizeof(silent));
	memset(sides, 0, sizeof(sides));
	entered = left = passes = threads_refused = 0;
	error = interruptions = 0;
	deaf = hears_signals = false;
	wakes = true;
	if (rdmamsg_open(&client.ctx, NULL) ||
	    rdmamsg_open(&server.ctx, NULL) ||
	    rdmamsg_listen(server.ctx, "0.0.0.0", "0", &lopts, &l))
		return -1;
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	return 0;
}

static void pause_a_little(void)
{
	(void)poll(NULL, 0, 5);
}

/* Closes the contexts. Then nothing is left, once the threads have ended. */
static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	let_go(100, 0);
	UNTIL_BY(pause_a_little(), none_runs() && !nulldev_counts.ids &&
		 !nulldev_counts.channels && !nulldev_counts.contexts);
	rdmamsg__verbs = &rdmamsg__verbs_system;
	nulldev_device.transport_type = IBV_TRANSPORT_IB;
	return nulldev_counts.qps || nulldev_counts.cqs || hears_signals ?
	       -1 : 0;
}

static void dial(struct side *s, const char *host, uint32_t timeout_ms)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = s, .handlers = &handlers,
		.timeout_ms = timeout_ms,
	};

	s->closed = false;
	assert_int_equal(rdmamsg_connect(client.ctx, host, service, &opts,
					 &s->ep), 0);
}

static bool is_open(const struct side *s)
{
	return !s->closed && s->ep->state == EP_OPEN;
}

/* ---- tests ------------------------------------------------------------ */

static void connect__beside_a_silent_host_IS_NOT_DELAYED(void **state)
{
	dial(&silent, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	dial(&client, "127.0.0.1", WAIT_MS);
	WAIT_FOR(is_open(&client));
	assert_int_equal(inside(), 1);
	assert_int_equal(silent.ep->state, EP_REQUESTED);
	let_go(1, 0);
	WAIT_FOR(is_open(&silent));
}

static void connect__answer_before_the_return_IS_SEEN(void **state)
{
	wakes = false;
	dial(&client, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	let_go(1, 0);
	WAIT_FOR(is_open(&client));
}

static void close__while_it_connects_ENDS_THE_CALL(void **state)
{
	dial(&client, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && !inside());
	/* the listener's id is left */
	WAIT_FOR(nulldev_counts.ids == 1);
}

static void close__and_the_call_goes_on_IS_DESTROYED_LATER(void **state)
{
	deaf = true;
	dial(&client, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(inside(), 1);
	assert_int_equal(nulldev_counts.ids, 2);
	let_go(1, 0);
	WAIT_FOR(nulldev_counts.ids == 1);
}

static void timeout__while_it_connects_IS_TOLD(void **state)
{
	dial(&client, SILENT, 50);
	WAIT_FOR(client.closed && !inside());
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	WAIT_FOR(nulldev_counts.ids == 1);
}

static void context__closed_while_it_connects_DOES_NOT_WAIT(void **state)
{
	deaf = true;
	dial(&client, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
	assert_int_equal(inside(), 1);
}

static void context__closed_after_the_call_FREES_THE_ID(void **state)
{
	dial(&client, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	let_go(1, 0);
	UNTIL_BY(pause_a_little(), !inside());
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
	/* its listener is left, when it has noticed */
	UNTIL(server.ctx, nulldev_counts.ids == 1);
}

static void connect__one_more_than_threads_WAITS_ITS_TURN(void **state)
{
	struct side *last = &sides[THREADS_MAX];
	struct side *late = &sides[THREADS_MAX + 1];

	for (int i = 0; i < THREADS_MAX; i++)
		dial(&sides[i], SILENT, WAIT_MS);
	WAIT_FOR(inside() == THREADS_MAX);
	dial(last, "127.0.0.1", WAIT_MS);
	dial(late, "127.0.0.1", 50);
	WAIT_FOR(late->closed);
	assert_int_equal(late->why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(last->ep->state, EP_REQUESTED);
	assert_int_equal(entered, THREADS_MAX);
	let_go(1, 0);
	WAIT_FOR(is_open(last));
	assert_int_equal(inside(), THREADS_MAX - 1);
	/* an endpoint that gives up makes room, too */
	dial(late, SILENT, WAIT_MS);
	WAIT_FOR(inside() == THREADS_MAX);
	dial(last, "127.0.0.1", WAIT_MS);
	rdmamsg_ep_abort(late->ep);
	WAIT_FOR(is_open(last));
	let_go(THREADS_MAX, 0);
	for (int i = 0; i < THREADS_MAX; i++)
		WAIT_FOR(is_open(&sides[i]));
}

static void thread__cannot_be_made_RESOURCES(void **state)
{
	threads_refused = 1;
	dial(&client, SILENT, WAIT_MS);
	WAIT_FOR(client.closed);
	assert_int_equal(threads_refused, 0);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_int_equal(client.why.error, -EAGAIN);
	/* the next one works */
	dial(&client, "127.0.0.1", WAIT_MS);
	WAIT_FOR(is_open(&client));
}

static void thread__no_second_one_WAITS_FOR_THE_FIRST(void **state)
{
	dial(&silent, SILENT, WAIT_MS);
	WAIT_FOR(inside() == 1);
	threads_refused = 1;
	dial(&client, "127.0.0.1", WAIT_MS);
	WAIT_FOR(!threads_refused);
	assert_int_equal(client.ep->state, EP_REQUESTED);
	let_go(1, 0);
	WAIT_FOR(is_open(&client) && is_open(&silent));
}

static void expect_error(int err, enum rdmamsg_who who,
			 enum rdmamsg_cause cause, int status)
{
	dial(&client, SILENT, WAIT_MS);
	let_go(1, err);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.who, who);
	assert_int_equal(client.why.cause, cause);
	assert_int_equal(client.why.error, status);
}

static void error__of_the_call_IS_THE_CAUSE(void **state)
{
	expect_error(ECONNREFUSED, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
		     -ECONNREFUSED);
	assert_non_null(strstr(client.why.text, "nobody listens"));
	assert_non_null(strstr(client.why.text, service));
	expect_error(ECONNRESET, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
		     -ECONNABORTED);
	expect_error(ETIMEDOUT, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_UNREACHABLE,
		     -EHOSTUNREACH);
	assert_non_null(strstr(client.why.text, SILENT));
	expect_error(EHOSTUNREACH, RDMAMSG_WHO_NETWORK,
		     RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH);
	expect_error(ENETUNREACH, RDMAMSG_WHO_NETWORK,
		     RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH);
	expect_error(ENOMEM, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_RESOURCES,
		     -ENOMEM);
}

static void error__interrupted_IS_TRIED_AGAIN(void **state)
{
	interruptions = 3;
	dial(&client, SILENT, WAIT_MS);
	let_go(1, 0);
	WAIT_FOR(is_open(&client));
	assert_int_equal(interruptions, 0);
	assert_int_equal(entered, 4);
}

/* The connection is reset before the peer's program has answered. */
static void reject__by_a_reset_IS_OF_THE_PEER(void **state)
{
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_REJECTED, .status = -ECONNRESET,
	};

	dial(&client, "127.0.0.1", WAIT_MS);
	UNTIL(client.ctx, client.ep->state == EP_REQUESTED &&
	      !client.ep->connect.call);
	rdmamsg__ep_cm_event(client.ctx, &client.ep->connect.owner, &ev);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_REJECTED);
	assert_int_equal(client.why.error, -ECONNABORTED);
	assert_null(strstr(client.why.text, "104"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__beside_a_silent_host_IS_NOT_DELAYED),
		TEST(connect__answer_before_the_return_IS_SEEN),
		TEST(close__while_it_connects_ENDS_THE_CALL),
		TEST(close__and_the_call_goes_on_IS_DESTROYED_LATER),
		TEST(timeout__while_it_connects_IS_TOLD),
		TEST(context__closed_while_it_connects_DOES_NOT_WAIT),
		TEST(context__closed_after_the_call_FREES_THE_ID),
		TEST(connect__one_more_than_threads_WAITS_ITS_TURN),
		TEST(thread__cannot_be_made_RESOURCES),
		TEST(thread__no_second_one_WAITS_FOR_THE_FIRST),
		TEST(error__of_the_call_IS_THE_CAUSE),
		TEST(error__interrupted_IS_TRIED_AGAIN),
		TEST(reject__by_a_reset_IS_OF_THE_PEER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
