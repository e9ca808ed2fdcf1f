/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an endpoint ends before the peer has accepted. On iWARP the
 * kernel waits for the peer's answer before it destroys the id and the queue
 * pair (Linux 6.1, iwcm.c, destroy_cm_id(); siw_verbs.c, siw_destroy_qp()). The
 * context works meanwhile, and nothing is left when the answer has come.
 */
#include "../../integration/clock.h"
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "session/ep.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define ENDS_MAX	4u
/*
 * Expires only when a test lets the time pass. Less than the 60 s after which the
 * device itself gives up the request.
 */
#define TIMEOUT_MS	30000
#define NEVER_MS	3600000	/* of an endpoint that must not time out */

static struct verbs_api table;
static pthread_t loop;			/* runs the contexts */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* under the lock */
static bool answered;			/* the kernel waits no longer */
static bool loop_waited;
static unsigned int waiting;		/* threads in the kernel */
static const struct rdma_cm_id *slow_ids[ENDS_MAX];
static uint32_t slow_qps[ENDS_MAX];
static unsigned int slow_count;		/* requests without an answer */
static bool connects_slowly;		/* the call waits, too */

static _Atomic int contexts, pds, cqs, qps, srqs, ids, channels;
static _Atomic int busy;		/* objects that were in use */
static unsigned int threads_refused, channels_refused;

static struct side second;
static struct rdmamsg_request *kept[ENDS_MAX];
static unsigned int kept_count;
static bool accepts;			/* the server, from now on */

/* ---- the kernel -------------------------------------------------------- */

static void wait_for_the_answer(void)
{
	pthread_mutex_lock(&lock);
	if (!answered && pthread_equal(pthread_self(), loop)) {
		loop_waited = true;
		pthread_mutex_unlock(&lock);
		return;
	}
	waiting++;
	pthread_cond_broadcast(&changed);
	while (!answered)
		pthread_cond_wait(&changed, &lock);
	waiting--;
	pthread_mutex_unlock(&lock);
}

static void answer(void)
{
	pthread_mutex_lock(&lock);
	answered = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static unsigned int inside(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = waiting;
	pthread_mutex_unlock(&lock);
	return n;
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	bool waits;

	pthread_mutex_lock(&lock);
	waits = connects_slowly;
	if (!answered && !accepts && slow_count < ENDS_MAX) {
		slow_ids[slow_count] = id;
		slow_qps[slow_count++] = param->qp_num;
	}
	pthread_mutex_unlock(&lock);
	if (waits)
		wait_for_the_answer();
	return rdmamsg__verbs_soft.connect(id, param);
}

static bool is_slow(const struct rdma_cm_id *id, uint32_t qp_num)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < slow_count; i++)
		found |= id ? slow_ids[i] == id : slow_qps[i] == qp_num;
	pthread_mutex_unlock(&lock);
	return found;
}

static int destroy_id(struct rdma_cm_id *id)
{
	if (is_slow(id, 0))
		wait_for_the_answer();
	ids--;
	return rdmamsg__verbs_soft.destroy_id(id);
}

static int destroy_qp(struct ibv_qp *qp)
{
	if (is_slow(NULL, qp->qp_num))
		wait_for_the_answer();
	qps--;
	return rdmamsg__verbs_soft.destroy_qp(qp);
}

/* ---- counts ------------------------------------------------------------ */

static int create_id(struct rdma_event_channel *ch, struct rdma_cm_id **ret,
		     void *context, enum rdma_port_space ps)
{
	int err = rdmamsg__verbs_soft.create_id(ch, ret, context, ps);

	ids += !err;
	return err;
}

static struct rdma_event_channel *create_event_channel(void)
{
	struct rdma_event_channel *ch;

	if (channels_refused) {
		channels_refused--;
		errno = EMFILE;
		return NULL;
	}
	ch = rdmamsg__verbs_soft.create_event_channel();
	channels += ch != NULL;
	return ch;
}

static void destroy_event_channel(struct rdma_event_channel *ch)
{
	channels--;
	rdmamsg__verbs_soft.destroy_event_channel(ch);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *verbs = rdmamsg__verbs_soft.open_device(device);

	contexts += verbs != NULL;
	return verbs;
}

static int close_device(struct ibv_context *verbs)
{
	contexts--;
	return rdmamsg__verbs_soft.close_device(verbs);
}

static struct ibv_pd *alloc_pd(struct ibv_context *verbs)
{
	struct ibv_pd *pd = rdmamsg__verbs_soft.alloc_pd(verbs);

	pds += pd != NULL;
	return pd;
}

static int done(int err, _Atomic int *count)
{
	if (err)
		busy++;
	else
		(*count)--;
	return err;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	return done(rdmamsg__verbs_soft.dealloc_pd(pd), &pds);
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *verbs)
{
	struct ibv_comp_channel *ch =
		rdmamsg__verbs_soft.create_comp_channel(verbs);

	channels += ch != NULL;
	return ch;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	return done(rdmamsg__verbs_soft.destroy_comp_channel(ch), &channels);
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe,
				void *context, struct ibv_comp_channel *ch,
				int vector)
{
	struct ibv_cq *cq = rdmamsg__verbs_soft.create_cq(verbs, cqe, context,
							  ch, vector);

	cqs += cq != NULL;
	return cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
	return done(rdmamsg__verbs_soft.destroy_cq(cq), &cqs);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = rdmamsg__verbs_soft.create_qp(pd, attr);

	qps += qp != NULL;
	return qp;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd,
				  struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = rdmamsg__verbs_soft.create_srq(pd, attr);

	srqs += srq != NULL;
	return srq;
}

static int destroy_srq(struct ibv_srq *srq)
{
	return done(rdmamsg__verbs_soft.destroy_srq(srq), &srqs);
}

static bool nothing_left(void)
{
	return !contexts && !pds && !cqs && !qps && !srqs && !ids && !channels;
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	if (!threads_refused)
		return __real_pthread_create(t, attr, fn, arg);
	threads_refused--;
	return EAGAIN;
}

/* ---- contexts --------------------------------------------------------- */

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &server,
		.handlers =
			&(const struct rdmamsg_ep_handlers)END_HANDLERS(NULL),
	};

	if (accepts)
		assert_int_equal(rdmamsg_request_accept(req, &opts, NULL), 0);
	else
		kept[kept_count++] = req;
}

static int set_up(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .handlers = &on,
	};
	struct rdmamsg_listener *l;

	table = rdmamsg__verbs_soft;
	table.connect = connect_id;
	table.create_id = create_id;
	table.destroy_id = destroy_id;
	table.create_event_channel = create_event_channel;
	table.destroy_event_channel = destroy_event_channel;
	table.open_device = open_device;
	table.close_device = close_device;
	table.alloc_pd = alloc_pd;
	table.dealloc_pd = dealloc_pd;
	table.create_comp_channel = create_comp_channel;
	table.destroy_comp_channel = destroy_comp_channel;
	table.create_cq = create_cq;
	table.destroy_cq = destroy_cq;
	table.create_qp = create_qp;
	table.destroy_qp = destroy_qp;
	table.create_srq = create_srq;
	table.destroy_srq = destroy_srq;
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	loop = pthread_self();
	clear_ends();
	memset(&second, 0, sizeof(second));
	answered = loop_waited = accepts = connects_slowly = false;
	slow_count = kept_count = threads_refused = 0;
	busy = 0;
	if (rdmamsg_open(&server.ctx, NULL) ||
	    rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts, &l))
		return -1;
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	rdmamsg__verbs = &table;
	return rdmamsg_open(&client.ctx, NULL);
}

static void pause_a_little(void)
{
	(void)poll(NULL, 0, 5);
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	answer();
	UNTIL_BY(pause_a_little(), !inside() && nothing_left());
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
	return loop_waited || busy ? -1 : 0;
}

static const struct rdmamsg_ep_handlers handlers = END_HANDLERS(NULL);

/* Dials, and waits until the server has the request, which it keeps. */
static void dial_with(struct rdmamsg_ep_options *opts)
{
	const unsigned int before = kept_count;

	opts->user = &client;
	opts->handlers = &handlers;
	if (!opts->timeout_ms)
		opts->timeout_ms = NEVER_MS;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 opts, &client.ep), 0);
	WAIT_FOR(kept_count == before + 1);
	/* an endpoint that has closed is freed */
	WAIT_FOR(client.closed || !client.ep->connect.call);
	assert_false(client.closed);
}

static void dial(void)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	dial_with(&opts);
}

static void connect_second(struct rdmamsg_ep_options *opts)
{
	accepts = true;
	opts->user = &second;
	opts->handlers = &handlers;
	if (!opts->timeout_ms)
		opts->timeout_ms = NEVER_MS;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 opts, &second.ep), 0);
	WAIT_FOR(second.closed || second.ep->state == EP_OPEN);
	assert_false(second.closed);
}

/* Ends the endpoint, and shows that another one connects meanwhile. */
static void end_and_go_on(struct rdmamsg_ep_options *opts)
{
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && inside() == 1);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
	connect_second(opts);
	assert_int_equal(inside(), 1);
	assert_false(loop_waited);
}

static void close_client(void)
{
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
}

/* ---- tests ------------------------------------------------------------ */

static void close__before_the_answer_LOOP_GOES_ON(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	dial();
	end_and_go_on(&opts);
	assert_int_equal(qps, 2);
	answer();
	WAIT_FOR(qps == 1 && ids == 1 && !inside());
	assert_int_equal(second.ep->state, EP_OPEN);
}

static void timeout__before_the_answer_LOOP_GOES_ON(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .timeout_ms = TIMEOUT_MS,
	};

	dial_with(&opts);
	clock_pass(TIMEOUT_MS);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	WAIT_FOR(inside() == 1);
	assert_false(loop_waited);
}

static void several__before_the_answer_ALL_END(void **state)
{
	for (unsigned int i = 0; i < ENDS_MAX; i++) {
		client.closed = false;
		dial();
		rdmamsg_ep_abort(client.ep);
		WAIT_FOR(client.closed);
	}
	assert_int_equal(qps, ENDS_MAX);
	answer();
	WAIT_FOR(!qps && !ids);
}

static void context__closed_before_the_answer_DOES_NOT_WAIT(void **state)
{
	dial();
	close_client();
	assert_false(loop_waited);
	UNTIL_BY(pause_a_little(), inside() == 1);
	assert_int_equal(qps, 1);
	assert_int_equal(contexts, 1);
	/* the device serves other contexts, and closes after the last */
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	client.closed = false;
	dial();
	assert_int_equal(contexts, 1);
	answer();
	UNTIL_BY(pause_a_little(), qps == 1);
	assert_int_equal(contexts, 1);
}

static void context__closed_after_the_end_DOES_NOT_WAIT(void **state)
{
	dial();
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && inside() == 1);
	close_client();
	assert_int_equal(qps, 1);
	assert_int_equal(contexts, 1);
}

static void queue__of_its_own_OUTLIVES_THE_QUEUE_PAIR(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .flags = RDMAMSG_EP_OWN_CQ,
	};

	dial_with(&opts);
	end_and_go_on(&opts);
	assert_int_equal(cqs, 2);
	answer();
	WAIT_FOR(cqs == 1);
	assert_int_equal(second.ep->state, EP_OPEN);
}

static void domain__of_a_guarded_endpoint_OUTLIVES_IT(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .flags = RDMAMSG_EP_GUARD,
	};

	dial_with(&opts);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && inside() == 1);
	close_client();
}

static void domain__destroyed_before_the_answer_IS_GIVEN_BACK(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	assert_int_equal(rdmamsg_pd_create(client.ctx, NULL, &opts.pd), 0);
	dial_with(&opts);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && inside() == 1);
	assert_int_equal(rdmamsg_pd_destroy(opts.pd), 0);
	assert_int_equal(pds, 2);
	answer();
	WAIT_FOR(!qps);
}

static void shared_queue__destroyed_before_the_answer_IS_FREED(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	assert_int_equal(rdmamsg_srq_create(client.ctx, NULL, &opts.srq), 0);
	dial_with(&opts);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && inside() == 1);
	rdmamsg_srq_destroy(opts.srq);
	assert_int_equal(srqs, 1);
	answer();
	WAIT_FOR(!srqs);
}

static void call__that_has_not_returned_TAKES_THE_QUEUE_PAIR(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &client, .handlers = &handlers,
		.timeout_ms = NEVER_MS,
	};

	connects_slowly = true;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, &client.ep), 0);
	WAIT_FOR(inside() == 1);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_false(loop_waited);
	assert_int_equal(qps, 1);
	answer();
	WAIT_FOR(!qps);
}

static void thread__cannot_be_made_LOOP_WAITS(void **state)
{
	dial();
	threads_refused = 1;
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(threads_refused, 0);
	assert_true(loop_waited);
	assert_int_equal(qps, 0);
	loop_waited = false;
}

/* The id is given up when the endpoint drains, and when it is freed. */
static void channel__cannot_be_made_LOOP_WAITS(void **state)
{
	dial();
	channels_refused = 2;
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(channels_refused, 0);
	assert_true(loop_waited);
	assert_int_equal(qps, 0);
	loop_waited = false;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first, because there is no such thread of another test yet */
		TEST(thread__cannot_be_made_LOOP_WAITS),
		TEST(channel__cannot_be_made_LOOP_WAITS),
		TEST(close__before_the_answer_LOOP_GOES_ON),
		TEST(timeout__before_the_answer_LOOP_GOES_ON),
		TEST(several__before_the_answer_ALL_END),
		TEST(context__closed_before_the_answer_DOES_NOT_WAIT),
		TEST(context__closed_after_the_end_DOES_NOT_WAIT),
		TEST(queue__of_its_own_OUTLIVES_THE_QUEUE_PAIR),
		TEST(domain__of_a_guarded_endpoint_OUTLIVES_IT),
		TEST(domain__destroyed_before_the_answer_IS_GIVEN_BACK),
		TEST(shared_queue__destroyed_before_the_answer_IS_FREED),
		TEST(call__that_has_not_returned_TAKES_THE_QUEUE_PAIR),
	};

	join_own_fabric("undecided");
	(void)setenv("RDMAMSG_SOFT_LINK", "iwarp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
