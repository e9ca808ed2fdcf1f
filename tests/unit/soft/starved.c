/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that polls, while the device's thread gets no processor: the polls
 * do the thread's work. Here epoll_wait() holds the thread.
 */
#include "soft/fabric/dev.h"
#include "soft/fabric/wire.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "pair.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "../own_fabric.h"

#define POLLS	100000		/* enough for everything but a timer */
#define BOUND_S	30

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool held;			/* the thread */
static pthread_t program;
static struct rdma_event_channel *ch;
static struct rdma_cm_id *listener, *client;

int __real_epoll_wait(int fd, struct epoll_event *ev, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *ev, int n, int timeout);

static void stay(void)
{
	(void)pthread_mutex_lock(&lock);
	while (held)
		(void)pthread_cond_wait(&cond, &lock);
	(void)pthread_mutex_unlock(&lock);
}

int __wrap_epoll_wait(int fd, struct epoll_event *ev, int n, int timeout)
{
	bool thread = !pthread_equal(pthread_self(), program);
	int ret;

	if (thread)
		stay();
	ret = __real_epoll_wait(fd, ev, n, timeout);
	if (thread)
		stay();
	return ret;
}

static void hold(bool yes)
{
	(void)pthread_mutex_lock(&lock);
	held = yes;
	(void)pthread_cond_broadcast(&cond);
	(void)pthread_mutex_unlock(&lock);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static time_t seconds(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
	return ts.tv_sec;
}

static void poll_once(void)
{
	struct ibv_wc wc;

	assert_int_equal(soft_poll_cq(cq, 1, &wc), 0);
}

static struct rdma_cm_id *expect_cm(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_true(is_readable(ch->fd));
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	id = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	return id;
}

static void resolve(__be16 port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	assert_int_equal(soft_cma_resolve_addr(client, NULL,
					       (struct sockaddr *)&addr, 1000),
			 0);
	(void)expect_cm(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_resolve_route(client, 1000), 0);
	(void)expect_cm(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void connect_client(void)
{
	struct rdma_conn_param param = { .qp_num = 1 };

	assert_int_equal(soft_cma_connect(client, &param), 0);
}

/* The thread is held from its first step on. */
static int set_up(void **state)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	with_channel = true;
	program = pthread_self();
	hold(true);
	ch = soft_cma_create_event_channel();
	if (!ch || open_device(NULL) ||
	    soft_cma_create_id(ch, &listener, NULL, RDMA_PS_TCP) ||
	    soft_cma_bind_addr(listener, (struct sockaddr *)&addr) ||
	    soft_cma_listen(listener, 0) ||
	    soft_cma_create_id(ch, &client, NULL, RDMA_PS_TCP))
		return -1;
	return 0;
}

static int tear_down(void **state)
{
	hold(false);
	assert_int_equal(soft_cma_destroy_id(client), 0);
	assert_int_equal(soft_cma_destroy_id(listener), 0);
	assert_int_equal(close_device(NULL), 0);
	soft_cma_destroy_event_channel(ch);
	return 0;
}

static void expect_request(void)
{
	struct rdma_cm_id *id;

	for (int i = 0; i < POLLS && !is_readable(ch->fd); i++)
		poll_once();
	id = expect_cm(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	(void)expect_cm(RDMA_CM_EVENT_REJECTED);
}

static void poll__unarmed_queue_REQUEST_ARRIVES(void **state)
{
	resolve(soft_cma_get_src_port(listener));
	connect_client();
	expect_request();
}

static void poll__armed_queue_REQUEST_ARRIVES(void **state)
{
	resolve(soft_cma_get_src_port(listener));
	assert_int_equal(soft_req_notify_cq(cq, 0), 0);
	connect_client();
	expect_request();
}

/* There is no receive, so a timer repeats the send until it fails. */
static void poll__timer_due_SEND_IS_REPEATED(void **state)
{
	time_t end = seconds() + BOUND_S;

	struct ibv_wc wc;
	int n = 0;

	make_pair(NULL);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 1, 8, 0, 0), 0);
	while (!n && seconds() < end)
		n = soft_poll_cq(cq, 1, &wc);
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
	destroy_pair();
}

/* Only the thread can act on it, so a poll must not take it away. */
static void poll__doorbell_rung_WAKES_THE_THREAD(void **state)
{
	struct soft_dev *dev = soft_dev_of(c);
	bool rung = false;
	struct epoll_event ev;

	soft_ring_bell(dev->bell);
	for (int i = 0; i < POLLS; i++)
		poll_once();
	while (!rung && epoll_wait(dev->epfd, &ev, 1, 0) == 1)
		rung = ev.data.fd == dev->bell;
	assert_true(rung);
	soft_ring_bell(dev->bell);
}

static void thread__runs_again_POLLS_LEAVE_IT_ITS_WORK(void **state)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	resolve(soft_cma_get_src_port(listener));
	for (int i = 0; i < POLLS; i++)
		poll_once();
	hold(false);
	connect_client();
	assert_int_equal(poll(&p, 1, 1000 * BOUND_S), 1);
	expect_request();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(poll__unarmed_queue_REQUEST_ARRIVES),
		TEST(poll__armed_queue_REQUEST_ARRIVES),
		TEST(poll__timer_due_SEND_IS_REPEATED),
		TEST(poll__doorbell_rung_WAKES_THE_THREAD),
		TEST(thread__runs_again_POLLS_LEAVE_IT_ITS_WORK),
	};

	join_own_fabric("starved");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
