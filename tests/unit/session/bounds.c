/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the number of requests that one side may have outstanding, and
 * the order in which they end. The soft HCA completes reads when the test says
 * so.
 */
#include "base/ctx.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "session/tx.h"
#include "memory/pool.h"
#include "session/credit.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include "session/poll.h"
#include "soft/control/soft_ctl.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/rma.h>

#define LARGE	((size_t)100000)
#define READS	3

static unsigned int reads;		/* reads that were posted */
/* completions of reads stay in reads_kept */
static bool keep_reads;
static struct ibv_wc reads_kept[64];
static struct ibv_cq *kept_of;		/* the CQ of the reading side */
static unsigned int kept_count;
static bool no_inline, no_memory;
static void (*before_poll)(struct ibv_cq *cq);

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (struct ibv_send_wr *w = wr; w; w = w->next)
		reads += w->opcode == IBV_WR_RDMA_READ;
	return soft_ops.post_send(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n, left = 0;

	if (before_poll)
		before_poll(cq);
	n = soft_ops.poll_cq(cq, room, wc);
	for (int i = 0; i < n; i++)
		if (keep_reads && !wc[i].status &&
		    wc[i].opcode == IBV_WC_RDMA_READ) {
			kept_of = cq;
			reads_kept[kept_count++] = wc[i];
		} else {
			wc[left++] = wc[i];
		}
	while (!keep_reads && cq == kept_of && kept_count && left < room)
		wc[left++] = reads_kept[--kept_count];
	return left;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	if (no_inline)
		attr->cap.max_inline_data = 0;
	qp = rdmamsg__verbs_soft.create_qp(pd, attr);
	if (no_inline)
		attr->cap.max_inline_data = 0;
	return qp;
}

/* The device has no raw requests without inline data. */
static struct ibv_qp *mlx5_create_qp(struct ibv_context *verbs,
				     struct ibv_qp_init_attr_ex *attr,
				     struct mlx5dv_qp_init_attr *mlx5)
{
	if (!no_inline)
		return rdmamsg__verbs_soft.mlx5_create_qp(verbs, attr, mlx5);
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	if (no_memory) {
		errno = ENOMEM;
		return NULL;
	}
	return rdmamsg__verbs_soft.reg_mr(pd, addr, len, access);
}

/* ---- both ends -------------------------------------------------------- */

static uint8_t memory[32][LARGE];
static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers =
	END_HANDLERS(on_message);

static int set_up(void **state)
{
	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .fetch_timeout_ms = RDMAMSG_NONE,
		.pieces_max = RDMAMSG_NONE,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE, .tuning = &tuning,
	};
	clear_ends();
	reads = kept_count = 0;
	keep_reads = no_inline = no_memory = false;
	before_poll = NULL;
	return 0;
}

static int tear_down(void **state)
{
	keep_reads = no_memory = false;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

static int send_large(unsigned int i)
{
	struct iovec iov = { memory[i], LARGE };

	return rdmamsg_sendv(client.ep, &iov, 1, i, &memory[i]);
}

/*
 * The device raises no event for the kept completions, so poll both contexts.
 */
static void release(void)
{
	keep_reads = false;
	rdmamsg__cq_poll(client.ctx, 1 << 20);
	rdmamsg__cq_poll(server.ctx, 1 << 20);
}

/* ---- the sender ------------------------------------------------------- */

static void rendezvous__sixteen_outstanding_EAGAIN(void **state)
{
	connect_ends(&opts);
	for (unsigned int i = 0; i < RNDV_MAX; i++)
		assert_int_equal(send_large(i), 0);
	assert_int_equal(send_large(RNDV_MAX), -EAGAIN);
	assert_int_equal(client.ep->rndv.count, RNDV_MAX);
	WAIT_FOR(client.sent == RNDV_MAX);
}

/* Each completed message starts the next one in the queue. */
static void rendezvous__more_in_the_queue_SIXTEEN_GO(void **state)
{
	opts.send_queue = 8;
	connect_ends(&opts);
	for (unsigned int i = 0; i < RNDV_MAX + 8; i++)
		assert_int_equal(send_large(i), 0);
	assert_int_equal(client.ep->rndv.count, RNDV_MAX);
	assert_int_equal(client.ep->send.queued, 8);
	WAIT_FOR(client.sent == RNDV_MAX + 8);
}

static void copy__of_max_copy_bytes_GOES(void **state)
{
	tuning.max_copy = 1000;
	connect_ends(&opts);
	assert_int_equal(rdmamsg_send(client.ep, memory, 1000, 0, &opts), 0);
	assert_int_equal(rdmamsg_send(client.ep, memory, 1001, 0, &opts),
			 -EMSGSIZE);
	WAIT_FOR(client.sent == 1 && server.messages == 1);
}

/*
 * The inline call runs many times in one callback, with more credits than
 * slots.
 */
static void fast__send_depth_used_up_EAGAIN(void **state)
{
	const struct rdmamsg_hot_ep *h;
	unsigned int sent = 0;

	tuning.recv_depth = 64;
	tuning.send_depth = 8;
	connect_ends(&opts);
	while (!rdmamsg_fast_send(client.ep, "x", 1, 0))
		assert_true(++sent < 64);
	assert_true(sent <= 8);
	h = &client.ep->lane.hot;
	assert_true(h->stop - (uint32_t)h->sq_posted <= 8);
	WAIT_FOR(server.messages == sent);
}

/* The peer answers at once, so that each poll finds completions. */
static void answer_at_once(struct ibv_cq *cq)
{
	if (cq != client.ep->lane.cq->ibv)
		return;
	rdmamsg__tx_flush(client.ctx);
	for (int i = 0; i < 100; i++)
		assert_true(rdmamsg_process(server.ctx) >= 0);
}

static unsigned int started;

static void send_more(struct rdmamsg_ep *ep)
{
	while (started < 20 * RNDV_MAX && !send_large(started % RNDV_MAX))
		started++;
}

static void on_sent_send_more(struct rdmamsg_ep *ep, void *cookie, int status)
{
	on_complete(ep, cookie, status);
	send_more(ep);
}

/*
 * Each DONE starts another RNDV, which brings another DONE. Meanwhile the
 * receives of the former DONEs wait to be posted again.
 */
static void done__many_polls_in_one_call_HAVE_RECEIVES(void **state)
{
	struct rdmamsg_ep_handlers relay = handlers;
	struct soft_rnr rnr;

	relay.on_complete = on_sent_send_more;
	relay.on_writable = send_more;
	opts.handlers = &relay;
	tuning.recv_depth = 2 * RNDV_MAX;
	connect_ends(&opts);
	started = 0;
	send_more(client.ep);
	before_poll = answer_at_once;
	WAIT_FOR(client.sent == 20 * RNDV_MAX);
	before_poll = NULL;
	soft_rnr_naks(client.ep->lane.dev->device->verbs, client.ep->lane.hot.qp,
		      &rnr);
	assert_int_equal(rnr.sent, 0);
}

/* ---- the reader ------------------------------------------------------- */

static void reads__of_messages_AS_MANY_AS_AGREED(void **state)
{
	tuning.initiator_depth = 1;
	connect_ends(&opts);
	keep_reads = true;
	for (unsigned int i = 0; i < READS; i++)
		assert_int_equal(send_large(i), 0);
	WAIT_FOR(server.ep->rndv.fetch_count == READS && reads);
	both();
	assert_int_equal(reads, 1);
	release();
	WAIT_FOR(client.sent == READS && server.messages == READS);
	assert_int_equal(reads, READS);
}

static void reads__of_the_program_AS_MANY_AS_AGREED(void **state)
{
	struct rdmamsg_region *region, *own;
	struct rdmamsg_sge s = { .data = memory[1], .len = LARGE };
	struct rdmamsg_key key;

	tuning.initiator_depth = 1;
	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(server.ctx, memory[0], LARGE,
					       RDMAMSG_ACCESS_READ, &region),
			 0);
	assert_int_equal(rdmamsg_region_register(region, server.ep), 0);
	assert_int_equal(rdmamsg_region_get_key(region, server.ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, memory[1], LARGE,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &own), 0);
	assert_int_equal(rdmamsg_region_register(own, client.ep), 0);
	s.region = own;
	keep_reads = true;
	for (unsigned int i = 0; i < READS; i++)
		assert_int_equal(rdmamsg_read(client.ep, &s, 1, &key, 0, 0, &s),
				 0);
	both();
	assert_int_equal(reads, 1);
	release();
	WAIT_FOR(client.sent == READS);
	assert_int_equal(reads, READS);
	/* after an abort, a held endpoint has no resources of the device */
	rdmamsg_ep_hold(client.ep);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_null(client.ep->lane.dev);
	assert_null(client.ep->lane.sq.slots);
	rdmamsg_ep_release(client.ep);
}

/* Without inline data, the reader sends DONE from these buffers. */
static struct rdmamsg_msg *ctrl[4096];
static unsigned int ctrl_count;

static void take_ctrl(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg;

	no_memory = true;
	for (ctrl_count = 0; (msg = rdmamsg__pool_take(ep->ctrl.pool)); )
		ctrl[ctrl_count++] = msg;
}

static void give_ctrl(void)
{
	no_memory = false;
	while (ctrl_count)
		rdmamsg__pool_return(ctrl[--ctrl_count]);
}

/*
 * Without DONE the sender would wait forever, so the message is not delivered.
 */
static void message__done_cannot_be_sent_IS_NOT_DELIVERED(void **state)
{
	no_inline = true;
	connect_ends(&opts);
	keep_reads = true;
	assert_int_equal(send_large(0), 0);
	WAIT_FOR(reads && kept_count);
	take_ctrl(server.ep);
	release();
	assert_int_equal(kept_count, 0);
	both();
	assert_int_equal(server.messages, 0);
	assert_int_equal(client.sent, 0);
	give_ctrl();
	rdmamsg__ep_touch(server.ep);
	WAIT_FOR(client.sent == 1 && server.messages == 1);
}

/* ---- CREDIT ----------------------------------------------------------- */

/*
 * Only a header carries the count of messages seen. Other requests have no
 * header.
 */
static void credit__third_without_a_header_ENDS(void **state)
{
	connect_ends(&opts);
	for (unsigned int i = 1; i <= CREDIT_MAX + 1; i++) {
		assert_false(server.closed);
		client.ep->credit.messages++;
		rdmamsg__tx_message(client.ep, PROTO_CREDIT,
				    rdmamsg__tx_number(client.ep), 0, NULL,
				    NULL, NULL, 0);
		WAIT_FOR(server.ep->credit.took == i);
		rdmamsg__tx_empty(server.ep, NULL);
	}
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
}

static void credit__third_after_a_header_IS_FINE(void **state)
{
	connect_ends(&opts);
	for (unsigned int i = 1; i <= 3 * CREDIT_MAX; i++) {
		client.ep->credit.messages++;
		rdmamsg__tx_message(client.ep, PROTO_CREDIT,
				    rdmamsg__tx_number(client.ep), 0, NULL,
				    NULL, NULL, 0);
		WAIT_FOR(server.ep->credit.took == i);
		assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
		WAIT_FOR(client.messages == i);
	}
	assert_false(server.closed);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rendezvous__sixteen_outstanding_EAGAIN),
		TEST(rendezvous__more_in_the_queue_SIXTEEN_GO),
		TEST(copy__of_max_copy_bytes_GOES),
		TEST(fast__send_depth_used_up_EAGAIN),
		TEST(done__many_polls_in_one_call_HAVE_RECEIVES),
		TEST(reads__of_messages_AS_MANY_AS_AGREED),
		TEST(reads__of_the_program_AS_MANY_AS_AGREED),
		TEST(credit__third_without_a_header_ENDS),
		TEST(credit__third_after_a_header_IS_FINE),
		TEST(message__done_cannot_be_sent_IS_NOT_DELIVERED),
	};

	join_own_fabric("bounds");
	replace_calls(poll_cq, post_send);
	soft_table.create_qp = create_qp;
	soft_table.mlx5_create_qp = mlx5_create_qp;
	soft_table.reg_mr = reg_mr;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
