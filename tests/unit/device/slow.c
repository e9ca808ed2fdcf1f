/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: one thread waits in a call of a library below. Meanwhile another
 * thread's context opens its device, connects, talks and closes.
 */
#include "config.h"
#include "base/base.h"
#include "device/verbs_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include "../own_fabric.h"

#include <poll.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TEST_S	60	/* longer than any call takes */

/* An endpoint's queue pair takes raw requests, if the build knows any. */
#ifdef HAVE_MLX5DV
#define SLOW_QP(X)	X(mlx5_create_qp)
#else
#define SLOW_QP(X)	X(create_qp)
#endif

#define SLOW_CALLS(X) \
	X(open_device) X(close_device) X(query_device) X(alloc_pd) \
	X(dealloc_pd) X(create_comp_channel) X(destroy_comp_channel) \
	X(create_cq) X(resize_cq) X(destroy_cq) SLOW_QP(X) X(modify_qp) \
	X(destroy_qp) X(reg_mr) X(dereg_mr) X(create_event_channel) \
	X(destroy_event_channel) X(create_id) X(destroy_id) X(listen) \
	X(connect) X(accept) X(disconnect)

enum slow {
#define X(name) SLOW_##name,
	SLOW_CALLS(X)
#undef X
	SLOW_COUNT
};

static const char *const names[] = {
#define X(name) #name,
	SLOW_CALLS(X)
#undef X
};

/* The gate at which the other thread waits. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	enum slow call;
	bool inside, open, over;
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };
static __thread bool waits_there;

static void pass(enum slow call)
{
	pthread_mutex_lock(&gate.lock);
	if (waits_there && call == gate.call) {
		gate.inside = true;
		pthread_cond_broadcast(&gate.cond);
		while (!gate.open)
			pthread_cond_wait(&gate.cond, &gate.lock);
	}
	pthread_mutex_unlock(&gate.lock);
}

#define soft	rdmamsg__verbs_soft

#define SLOW(type, name, params, args) \
	static type slow_##name params \
	{ \
		pass(SLOW_##name); \
		return soft.name args; \
	}

SLOW(struct ibv_context *, open_device, (struct ibv_device *d), (d))
SLOW(int, close_device, (struct ibv_context *c), (c))
SLOW(int, query_device, (struct ibv_context *c, struct ibv_device_attr *a),
     (c, a))
SLOW(struct ibv_pd *, alloc_pd, (struct ibv_context *c), (c))
SLOW(int, dealloc_pd, (struct ibv_pd *pd), (pd))
SLOW(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *c),
     (c))
SLOW(int, destroy_comp_channel, (struct ibv_comp_channel *ch), (ch))
SLOW(struct ibv_cq *, create_cq, (struct ibv_context *c, int n, void *arg,
     struct ibv_comp_channel *ch, int vector), (c, n, arg, ch, vector))
SLOW(int, resize_cq, (struct ibv_cq *cq, int n), (cq, n))
SLOW(int, destroy_cq, (struct ibv_cq *cq), (cq))
#ifdef HAVE_MLX5DV
SLOW(struct ibv_qp *, mlx5_create_qp, (struct ibv_context *c,
     struct ibv_qp_init_attr_ex *a, struct mlx5dv_qp_init_attr *m), (c, a, m))
#else
SLOW(struct ibv_qp *, create_qp, (struct ibv_pd *pd,
     struct ibv_qp_init_attr *a), (pd, a))
#endif
SLOW(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *a, int mask),
     (qp, a, mask))
SLOW(int, destroy_qp, (struct ibv_qp *qp), (qp))
SLOW(struct ibv_mr *, reg_mr, (struct ibv_pd *pd, void *at, size_t len,
     int access), (pd, at, len, access))
SLOW(int, dereg_mr, (struct ibv_mr *mr), (mr))
SLOW(struct rdma_event_channel *, create_event_channel, (void), ())
SLOW(int, create_id, (struct rdma_event_channel *ch, struct rdma_cm_id **id,
     void *context, enum rdma_port_space ps), (ch, id, context, ps))
SLOW(int, destroy_id, (struct rdma_cm_id *id), (id))
SLOW(int, listen, (struct rdma_cm_id *id, int backlog), (id, backlog))
SLOW(int, connect, (struct rdma_cm_id *id, struct rdma_conn_param *p), (id, p))
SLOW(int, accept, (struct rdma_cm_id *id, struct rdma_conn_param *p), (id, p))
SLOW(int, disconnect, (struct rdma_cm_id *id), (id))

static void slow_destroy_event_channel(struct rdma_event_channel *ch)
{
	pass(SLOW_destroy_event_channel);
	soft.destroy_event_channel(ch);
}

/*
 * The soft HCA behind a second table, which the library takes for another
 * device.
 */
static struct verbs_api slow;

static void make_slow(void)
{
	slow = soft;
#define X(name) slow.name = slow_##name;
	SLOW_CALLS(X)
#undef X
}

/* ---- a life of a context ---------------------------------------------- */

struct life {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	unsigned int received, closed;
};

static void on_connected(struct rdmamsg_ep *ep)
{
	struct life *l = rdmamsg_ep_user(ep);

	if (!l->ep)
		(void)rdmamsg_send(ep, "x", 1, 0, NULL);
	l->ep = ep;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct life *)rdmamsg_ep_user(ep))->received++;
	rdmamsg_msg_free(msg);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	((struct life *)rdmamsg_ep_user(ep))->closed++;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_closed = on_closed,
};

static bool drive(struct life *l, const unsigned int *what, unsigned int until)
{
	struct pollfd fd = { rdmamsg_fd(l->ctx), POLLIN, 0 };
	uint64_t end = rdmamsg__now_ms() + TEST_S * 1000;

	while (*what < until && rdmamsg__now_ms() < end) {
		(void)poll(&fd, 1, 10);
		if (rdmamsg_process(l->ctx) < 0)
			return false;
	}
	return *what >= until;
}

/* Connects to itself, talks, and closes what it has connected. */
static bool talk(struct life *l)
{
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers, .user = l,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *listener;
	char port[8];
	bool good;

	l->ep = NULL;
	l->received = l->closed = 0;
	if (rdmamsg_listen(l->ctx, "127.0.0.1", "0", &lo, &listener))
		return false;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	good = !rdmamsg_connect(l->ctx, "127.0.0.1", port, &eo, NULL) &&
	       drive(l, &l->received, 1);
	if (good) {
		rdmamsg_ep_close(l->ep);
		good = drive(l, &l->closed, 2);
	}
	rdmamsg_listener_close(listener);
	return good;
}

static bool live(void)
{
	struct life l = { NULL };
	bool good;

	if (rdmamsg_open(&l.ctx, NULL))
		return false;
	good = talk(&l);
	rdmamsg_close(l.ctx);
	return good;
}

static void *other_thread(void *arg)
{
	bool *good = arg;

	waits_there = true;
	*good = live();
	pthread_mutex_lock(&gate.lock);
	gate.over = true;
	pthread_cond_broadcast(&gate.cond);
	pthread_mutex_unlock(&gate.lock);
	return NULL;
}

/*
 * Starts the other thread, which waits in 'call'. Returns true if it gets
 * there.
 */
static bool start_other(pthread_t *thread, enum slow call, bool *good)
{
	gate.call = call;
	gate.inside = gate.open = gate.over = false;
	rdmamsg__verbs = &slow;
	assert_int_equal(pthread_create(thread, NULL, other_thread, good), 0);
	pthread_mutex_lock(&gate.lock);
	while (!gate.inside && !gate.over)
		pthread_cond_wait(&gate.cond, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	return gate.inside;
}

static void let_it_go(pthread_t thread)
{
	pthread_mutex_lock(&gate.lock);
	gate.open = true;
	pthread_cond_broadcast(&gate.cond);
	pthread_mutex_unlock(&gate.lock);
	pthread_join(thread, NULL);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* If a call waits for a lock of the other thread, the alarm ends the test. */
static void begin(enum slow call)
{
	print_message("# %s\n", names[call]);
	fflush(NULL);
	alarm(TEST_S);
}

static void slow_call__another_device_GOES_ON(void **state)
{
	for (enum slow call = 0; call < SLOW_COUNT; call++) {
		bool good = false, other;
		pthread_t thread;

		begin(call);
		if (!start_other(&thread, call, &good) &&
		    call != SLOW_resize_cq)
			fail_msg("no call of %s", names[call]);
		rdmamsg__verbs = &soft;
		other = live();
		rdmamsg__verbs = &slow;
		let_it_go(thread);
		assert_true(other);
		assert_true(good);
	}
}

static void slow_call__same_device_GOES_ON(void **state)
{
	for (enum slow call = 0; call < SLOW_COUNT; call++) {
		struct life l = { NULL };
		bool good = false;
		pthread_t thread;

		/*
		 * these calls do not occur, because the device is open and
		 * stays open
		 */
		if (call == SLOW_open_device || call == SLOW_close_device)
			continue;
		begin(call);
		rdmamsg__verbs = &slow;
		assert_int_equal(rdmamsg_open(&l.ctx, NULL), 0);
		assert_true(talk(&l));
		(void)start_other(&thread, call, &good);
		assert_true(talk(&l));
		let_it_go(thread);
		assert_true(good);
		rdmamsg_close(l.ctx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_call__another_device_GOES_ON),
		cmocka_unit_test(slow_call__same_device_GOES_ON),
	};

	join_own_fabric("slow");
	make_slow();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
