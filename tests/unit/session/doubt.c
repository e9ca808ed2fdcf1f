/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a device reports success for a failed read and then fails its
 * queue pair. Soft-RoCE does so when packets are lost.
 */
#include "base/base.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "session/resume.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#define SIZE	100000u

/* This side's next read fails, with all later requests; NULL: no read fails. */
static struct side *victim;
static uint32_t failed;		/* number of the failed queue pair */
static bool hold;		/* the CQ reports no completion */
static unsigned int reads;	/* completions of reads */
static bool silent;		/* the victim's read is not to complete */
/* number of the client's QP once it sent CLOSE */
static uint32_t closing;
static unsigned int late_proofs;	/* proofs posted after CLOSE */
static unsigned int proofs;

static void fail_queue_pair(struct rdmamsg_ep *ep)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_int_equal(rdmamsg__verbs_soft.modify_qp(ep->lane.hot.qp, &attr,
						       IBV_QP_STATE), 0);
}

static void hide(struct ibv_wc *wc, int i, int n)
{
	memmove(&wc[i], &wc[i + 1], (size_t)(n - i - 1) * sizeof(*wc));
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = hold ? 0 : soft_ops.poll_cq(cq, room, wc);

	for (int i = 0; i < n; i++) {
		/* the soft HCA carried out the request before the QP failed */
		if (failed && wc[i].qp_num == failed)
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
		if (wc[i].status || wc[i].opcode != IBV_WC_RDMA_READ)
			continue;
		reads++;
		if (victim && wc[i].qp_num == victim->ep->lane.hot.qp->qp_num) {
			failed = wc[i].qp_num;
			fail_queue_pair(victim->ep);
			victim = NULL;
			if (silent)
				hide(wc, i--, n--);
		}
	}
	return n;
}

/* The peer may be gone once it has received CLOSE, so nothing may follow. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (struct ibv_send_wr *w = wr; w; w = w->next) {
		struct proto_hdr hdr;

		/* poll_cq() learns of the read, and the library does not */
		if (silent && w->opcode == IBV_WR_RDMA_READ) {
			assert_int_equal(w->send_flags & IBV_SEND_SIGNALED, 0);
			w->send_flags |= IBV_SEND_SIGNALED;
		}
		proofs += w->opcode == IBV_WR_RDMA_WRITE && !w->num_sge;
		if (w->opcode == IBV_WR_RDMA_WRITE && !w->num_sge &&
		    closing == qp->qp_num && client.ep->state < EP_DRAINING)
			late_proofs++;
		if (w->opcode != IBV_WR_SEND)
			continue;
		memcpy(&hdr, (const void *)(uintptr_t)w->sg_list->addr,
		       sizeof(hdr));
		if (hdr.type == PROTO_CLOSE && client.ep &&
		    qp == client.ep->lane.hot.qp)
			closing = qp->qp_num;
	}
	return soft_ops.post_send(qp, wr, bad);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	if (s == &server) {
		s->messages++;
		assert_int_equal(rdmamsg_msg_len(msg), SIZE);
		assert_memory_equal(rdmamsg_msg_data(msg), client.mem, SIZE);
	}
	rdmamsg_msg_free(msg);
}

static void connect_with(const struct rdmamsg_failover *failover)
{
	victim = NULL;
	failed = 0;
	silent = false;
	reads = 0;
	closing = late_proofs = proofs = 0;
	replace_calls(poll_cq, post_send);
	connect_anew(on_message, (struct rdmamsg_ep_options){
		.failover = failover,
		.tuning = TUNING(.pieces_max = RDMAMSG_NONE),
	});
	client.mem = malloc(SIZE);
	server.mem = malloc(SIZE);
	memset(client.mem, 0xc1, SIZE);
	memset(server.mem, 0x5e, SIZE);
	client.ep->lane.doubts_reads = server.ep->lane.doubts_reads = true;
	client.ep->onesided.ways = server.ep->onesided.ways = 0;
}

static int set_up(void **state)
{
	connect_with(NULL);
	return 0;
}

static int set_up_failover(void **state)
{
	const struct rdmamsg_failover f = {
		.size = sizeof(f), .rungs = RDMAMSG_RUNG_LANE,
	};

	connect_with(&f);
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	free(client.mem);
	free(server.mem);
	return 0;
}

static int send_large(void *cookie)
{
	struct iovec iov = { client.mem, SIZE };

	return rdmamsg_sendv(client.ep, &iov, 1, 0, cookie);
}

/* A flushed completion is no evidence of a wrong key. */
static void is_no_offence(const struct side *s)
{
	assert_int_equal(s->why.error, -ECONNRESET);
	if (s->why.cause == RDMAMSG_CAUSE_ACCESS)
		fail_msg("%s", s->why.text);
}

static void message__read_for_sure_ARRIVES(void **state)
{
	assert_int_equal(send_large(&client), 0);
	WAIT_FOR(server.messages && client.sent);
	assert_int_equal(client.status, 0);
	assert_true(reads > 0);
}

static void message__read_in_name_only_IS_NOT_GIVEN(void **state)
{
	victim = &server;
	assert_int_equal(send_large(&client), 0);
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.messages, 0);
	assert_int_equal(client.status, -ECANCELED);
	is_no_offence(&server);
}

/* Earlier sends are flushed before the read is. */
static void message__with_sends_under_way_BLAMES_NOBODY(void **state)
{
	victim = &server;
	assert_int_equal(send_large(NULL), 0);
	while (!server.closed) {
		(void)rdmamsg_send(server.ep, server.mem, 8, 0, &server);
		both();
	}
	is_no_offence(&server);
	assert_int_equal(server.messages, 0);
}

/* Only the last read of a message has a proof behind it. */
static void message__of_many_reads_first_in_name_only_BLAMES_NOBODY(
	void **state)
{
	server.ep->lane.chunk = 4096;
	victim = &server;
	assert_int_equal(send_large(&client), 0);
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.messages, 0);
	is_no_offence(&server);
}

static void message__of_many_reads_with_failover_ARRIVES(void **state)
{
	server.ep->lane.chunk = 4096;
	victim = &server;
	assert_int_equal(send_large(&client), 0);
	WAIT_FOR(server.closed || (server.messages && client.sent));
	assert_int_equal(server.closed, 0);
	assert_int_equal(client.status, 0);
	assert_int_equal(server.ep->resume->resumes, 1);
}

/* A flush that no read explains is an offence of the peer. */
static void flush__behind_the_proof_BLAMES_THE_PEER(void **state)
{
	assert_int_equal(send_large(&client), 0);
	WAIT_FOR(server.messages && client.sent);
	fail_queue_pair(server.ep);
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_ACCESS);
}

/* The client may read from the server's memory into its own. */
static void share(struct rdmamsg_region **from, struct rdmamsg_region **to,
		  struct rdmamsg_key *key)
{
	assert_int_equal(rdmamsg_region_create(server.ctx, server.mem, SIZE,
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE, from), 0);
	assert_int_equal(rdmamsg_region_register(*from, server.ep), 0);
	assert_int_equal(rdmamsg_region_get_key(*from, server.ep, key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, client.mem, SIZE,
					       RDMAMSG_ACCESS_LOCAL_WRITE, to),
			 0);
	assert_int_equal(rdmamsg_region_register(*to, client.ep), 0);
}

static void program__its_read_in_name_only_FAILS(void **state)
{
	struct rdmamsg_region *from, *to;
	struct rdmamsg_sge sge = { .len = SIZE };
	struct rdmamsg_key key;

	share(&from, &to, &key);
	sge.region = to;
	sge.data = client.mem;
	assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0, &client),
			 0);
	WAIT_FOR(client.sent);
	assert_int_equal(client.status, 0);
	victim = &client;
	assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0, &client),
			 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.sent, 2);
	assert_int_equal(client.status, -ECANCELED);
	is_no_offence(&client);
}

/* It has no proof, and no completion. */
static void read_silently(bool send_behind)
{
	struct rdmamsg_region *from, *to;
	struct rdmamsg_sge sge = { .len = 8 };
	struct rdmamsg_key key;

	share(&from, &to, &key);
	sge.region = to;
	sge.data = client.mem;
	victim = &client;
	silent = true;
	assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0, NULL), 0);
	sge.data = client.mem + 64;
	if (send_behind)
		assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
					       &client), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(reads, 1);
	is_no_offence(&client);
}

static void program__its_read_without_cookie_BLAMES_NOBODY(void **state)
{
	read_silently(false);
}

static void program__its_read_before_a_write_BLAMES_NOBODY(void **state)
{
	read_silently(true);
}

/* A proof posted later would cost a second round trip. */
static void proof__goes_with_the_read_AND_NOT_AFTER_IT(void **state)
{
	struct rdmamsg_region *from, *to;
	struct rdmamsg_sge sge = { .len = SIZE };
	struct rdmamsg_key key;

	share(&from, &to, &key);
	sge.region = to;
	sge.data = client.mem;
	proofs = 0;
	hold = true;
	assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0, &client),
			 0);
	assert_int_equal(proofs, 1);
	/* a read without a cookie needs no proof */
	assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0, NULL), 0);
	assert_int_equal(proofs, 1);
	hold = false;
	WAIT_FOR(client.sent);
	assert_int_equal(client.status, 0);
}

static void message__of_many_reads_NEEDS_ONE_PROOF(void **state)
{
	server.ep->lane.chunk = 4096;
	proofs = 0;
	assert_int_equal(send_large(&client), 0);
	WAIT_FOR(server.messages && client.sent);
	assert_true(reads > SIZE / 4096);
	assert_int_equal(proofs, 1);
}

/* The server does all it can before the client's loop turns. */
static void server_then_client(void)
{
	for (int k = 0; k < 20 || rdmamsg_process(server.ctx) > 0; k++)
		usleep(100);
	(void)rdmamsg_process(client.ctx);
}

/* The server closes as early as possible, before the client's loop turns. */
static void close__behind_a_read_WAITS_FOR_THE_PROOF(void **state)
{
	struct rdmamsg_region *from, *to;
	struct rdmamsg_sge sge = { .len = 8 };
	struct rdmamsg_key key;

	share(&from, &to, &key);
	sge.region = to;
	sge.data = client.mem;
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0,
					      &client), 0);
	rdmamsg_ep_close(client.ep);
	hold = true;
	for (int i = 0; i < 10; i++)
		(void)rdmamsg_process(client.ctx);
	hold = false;
	UNTIL_BY(server_then_client(), client.closed && server.closed);
	assert_int_equal(late_proofs, 0);
	assert_int_equal(client.sent, 3);
	assert_int_equal(client.status, 0);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
}

/*
 * If the lane fails behind CLOSE, the peer may have ended, and then nobody
 * answers the read again.
 */
static void expect_close_after_read(void *cookie)
{
	struct rdmamsg_region *from, *to;
	struct rdmamsg_sge sge = { .len = 8 };
	struct rdmamsg_key key;

	client.ep->lane.doubts_reads = false;
	share(&from, &to, &key);
	sge.region = to;
	sge.data = client.mem;
	hold = true;
	assert_int_equal(rdmamsg_read(client.ep, &sge, 1, &key, 0, 0, cookie),
			 0);
	rdmamsg_ep_close(client.ep);
	for (int i = 0; i < 10; i++)
		(void)rdmamsg_process(client.ctx);
	assert_int_equal(closing, 0);
	assert_int_equal(reads, 0);
	hold = false;
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(reads, 1);
	assert_int_equal(client.sent, cookie != NULL);
	assert_int_equal(client.status, 0);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
}

static void close__with_failover_FOLLOWS_THE_ANSWER(void **state)
{
	expect_close_after_read(&client);
}

static void close__with_failover_FOLLOWS_A_READ_WITHOUT_COOKIE(void **state)
{
	expect_close_after_read(NULL);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define CASE_FAILOVER(f) \
	cmocka_unit_test_setup_teardown(f, set_up_failover, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(message__read_for_sure_ARRIVES),
		CASE(message__read_in_name_only_IS_NOT_GIVEN),
		CASE(message__with_sends_under_way_BLAMES_NOBODY),
		CASE(message__of_many_reads_first_in_name_only_BLAMES_NOBODY),
		CASE_FAILOVER(message__of_many_reads_with_failover_ARRIVES),
		CASE(flush__behind_the_proof_BLAMES_THE_PEER),
		CASE(program__its_read_in_name_only_FAILS),
		CASE(program__its_read_without_cookie_BLAMES_NOBODY),
		CASE(program__its_read_before_a_write_BLAMES_NOBODY),
		CASE(proof__goes_with_the_read_AND_NOT_AFTER_IT),
		CASE(message__of_many_reads_NEEDS_ONE_PROOF),
		CASE(close__behind_a_read_WAITS_FOR_THE_PROOF),
		CASE_FAILOVER(close__with_failover_FOLLOWS_THE_ANSWER),
		CASE_FAILOVER(
			close__with_failover_FOLLOWS_A_READ_WITHOUT_COOKIE),
	};

	join_own_fabric("doubt");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
