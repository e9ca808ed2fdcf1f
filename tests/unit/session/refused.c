/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the peer's device refuses requests. It does so for a wrong key,
 * and also if the peer dies: the kernel frees the regions of a process before
 * its queue pairs.
 */
#include "base/base.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "session/resume.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#define SIZE	100000u

static unsigned int wrong;	/* requests that get a wrong key */
static unsigned int dying;	/* reads that fail as if the peer dies */
static unsigned int queued;	/* posts that fail, but are queued */
static unsigned int unknown;	/* completions of requests not posted */

static void fail_queue_pair(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_int_equal(rdmamsg__verbs_soft.modify_qp(qp, &attr, IBV_QP_STATE),
			 0);
}

/* Returns false for a completion of a request that the client did not post. */
static bool is_known(const struct ibv_wc *wc)
{
	const struct lane *l =
		client.ep && !client.closed ? &client.ep->lane : NULL;

	if (!l || !l->hot.qp || wc->qp_num != l->hot.qp->qp_num ||
	    wc->wr_id & 0x80000000u)
		return true;
	return (((uint32_t)wc->wr_id - l->sq.done) & 0x7fffffffu) <
	       rdmamsg__sq_used(l);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = soft_ops.poll_cq(cq, room, wc);
	uint32_t failed = 0;

	for (int i = 0; i < n; i++) {
		unknown += !is_known(&wc[i]);
		if (dying && !wc[i].status &&
		    wc[i].opcode == IBV_WC_RDMA_READ) {
			dying--;
			wc[i].status = IBV_WC_REM_ACCESS_ERR;
			failed = wc[i].qp_num;
			fail_queue_pair(client.ep->lane.hot.qp->qp_num ==
					failed ? client.ep->lane.hot.qp :
					server.ep->lane.hot.qp);
		} else if (failed && wc[i].qp_num == failed) {
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
		}
	}
	return n;
}

/* Returns the rkey of a one-sided request with data, or NULL. */
static uint32_t *rkey_of(struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_RDMA_WRITE:
		return wr->num_sge ? &wr->wr.rdma.rkey : NULL;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return &wr->wr.atomic.rkey;
	default:
		return NULL;
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (struct ibv_send_wr *w = wr; w && wrong; w = w->next) {
		uint32_t *rkey = rkey_of(w);

		if (!rkey)
			continue;
		*rkey ^= 0xff00;
		wrong--;
	}
	if (!queued)
		return soft_ops.post_send(qp, wr, bad);
	queued--;
	assert_int_equal(soft_ops.post_send(qp, wr, bad), 0);
	*bad = NULL;
	return ENOTCONN;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	const struct side *from = s == &server ? &client : &server;

	s->messages++;
	if (rdmamsg_msg_len(msg) != 1) {
		assert_int_equal(rdmamsg_msg_len(msg), SIZE);
		assert_memory_equal(rdmamsg_msg_data(msg), from->mem, SIZE);
	}
	rdmamsg_msg_free(msg);
}

static void connect_with(const struct rdmamsg_failover *failover)
{
	wrong = dying = queued = unknown = 0;
	replace_calls(poll_cq, post_send);
	connect_anew(on_message, (struct rdmamsg_ep_options){
		.failover = failover,
		.tuning = TUNING(.pieces_max = RDMAMSG_NONE),
	});
	client.mem = calloc(1, SIZE);
	server.mem = calloc(1, SIZE);
	memset(client.mem + 8, 0xc1, SIZE - 8);
	memset(server.mem + 8, 0x5e, SIZE - 8);
}

static int set_up(void **state)
{
	connect_with(NULL);
	return 0;
}

static int set_up_failover(void **state)
{
	static const struct rdmamsg_failover f = {
		.size = sizeof(f), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = WAIT_MS,
	};

	connect_with(&f);
	return 0;
}

static int tear_down(void **state)
{
	(void)leave_soft(state);
	free(client.mem);
	free(server.mem);
	return 0;
}

static void goes_on_after(unsigned int resumes)
{
	assert_false(client.closed);
	assert_false(server.closed);
	assert_int_equal(client.ep->resume->resumes, resumes);
	assert_int_equal(server.ep->resume->resumes, resumes);
}

static void is_refused(const struct side *s)
{
	assert_int_equal(s->why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(s->why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(s->why.error, -EACCES);
}

/* ---- an error after the requests were queued ------------------------------ */

static void post__error_without_bad_wr_HAS_THEM_COMPLETE(void **state)
{
	queued = 1;
	assert_int_equal(rdmamsg_send(client.ep, "a", 1, 0, &client), 0);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(queued, 0);
	assert_int_equal(unknown, 0);
	assert_int_equal(client.sent, 1);
	assert_int_equal(client.why.who, RDMAMSG_WHO_DEVICE);
}

/* ---- large messages ----------------------------------------------------- */

static void send_large(struct side *s)
{
	struct iovec iov = { s->mem, SIZE };

	assert_int_equal(rdmamsg_sendv(s->ep, &iov, 1, 0, s), 0);
}

static void message__refused_ENDS_WITH_ACCESS(void **state)
{
	wrong = 1;
	send_large(&client);
	WAIT_FOR(server.closed && client.closed);
	is_refused(&server);
	assert_int_equal(server.messages, 0);
}

static void message__refused_once_ARRIVES(void **state)
{
	wrong = 1;
	send_large(&client);
	WAIT_FOR(server.closed || client.closed ||
		 (server.messages && client.sent));
	goes_on_after(1);
	assert_int_equal(client.status, 0);
}

static void message__to_the_initiator_refused_once_ARRIVES(void **state)
{
	wrong = 1;
	send_large(&server);
	WAIT_FOR(server.closed || client.closed ||
		 (client.messages && server.sent));
	goes_on_after(1);
	assert_int_equal(server.status, 0);
}

static void message__refused_again_ENDS_WITH_ACCESS(void **state)
{
	wrong = UINT32_MAX;
	send_large(&client);
	WAIT_FOR(server.closed && client.closed);
	is_refused(&server);
	is_refused(&client);
	assert_int_equal(server.messages, 0);
	assert_int_equal(client.status, -ECANCELED);
}

/* The device of the peer may be removed often. */
static void message__each_refused_once_ALL_ARRIVE(void **state)
{
	for (unsigned int i = 1; i < 5; i++) {
		dying = 1;
		send_large(i % 2 ? &client : &server);
		WAIT_FOR(server.closed || client.closed ||
			 client.sent + server.sent == i);
		goes_on_after(i);
	}
	assert_int_equal(client.messages + server.messages, 4);
}

static void message__of_a_killed_peer_ENDS_AS_ANY_OTHER(void **state)
{
	dying = 1;
	send_large(&client);
	WAIT_FOR(!dying);
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
	server.ep->resume->opts.timeout_ms = 300;
	rdmamsg__resume_wake(server.ep);
	UNTIL_BY(assert_true(rdmamsg_process(server.ctx) >= 0), server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	assert_non_null(strstr(server.why.text, "has not come back"));
}

/* ---- operations of the program ------------------------------------------ */

struct shared {
	struct side *by;
	struct rdmamsg_region *from, *to;
	struct rdmamsg_key key;
	struct rdmamsg_sge sge;
};

/* One side may reach the memory of the other. */
static void share(struct shared *s, struct side *by, struct side *of)
{
	const uint32_t all = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
			     RDMAMSG_ACCESS_ATOMIC;

	s->by = by;
	assert_int_equal(rdmamsg_region_create(of->ctx, of->mem, SIZE, all,
					       &s->from), 0);
	assert_int_equal(rdmamsg_region_register(s->from, of->ep), 0);
	assert_int_equal(rdmamsg_region_get_key(s->from, of->ep, &s->key), 0);
	assert_int_equal(rdmamsg_region_create(by->ctx, by->mem, SIZE,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &s->to), 0);
	assert_int_equal(rdmamsg_region_register(s->to, by->ep), 0);
	s->sge = (struct rdmamsg_sge){ by->mem, SIZE, s->to };
}

static void read_it(const struct shared *s)
{
	assert_int_equal(rdmamsg_read(s->by->ep, &s->sge, 1, &s->key, 0, 0,
				      s->by), 0);
}

static void write_it(const struct shared *s)
{
	assert_int_equal(rdmamsg_write(s->by->ep, &s->sge, 1, &s->key, 0, 0,
				       s->by), 0);
}

static uint64_t was;

static void add_one(const struct shared *s)
{
	assert_int_equal(rdmamsg_fetch_add(s->by->ep, &s->key, 0, 1, &was, 0,
					   s->by), 0);
}

static void (*const operations[])(const struct shared *s) = {
	read_it, write_it, add_one,
};
static const char *const names[] = { "read", "write", "fetch-and-add" };

static void is_refused_once(unsigned int i, struct side *by, struct side *of)
{
	struct shared s;
	uint64_t sum;

	share(&s, by, of);
	wrong = 1;
	operations[i](&s);
	WAIT_FOR(server.closed || client.closed || by->sent);
	goes_on_after(1);
	assert_int_equal(by->status, 0);
	memcpy(&sum, of->mem, sizeof(sum));
	assert_int_equal(sum, i == 2);
	if (i != 2)
		assert_memory_equal(by->mem + 8, of->mem + 8, SIZE - 8);
}

static void read__refused_once_IS_REPEATED(void **state)
{
	is_refused_once(0, &client, &server);
}

static void write__refused_once_IS_REPEATED(void **state)
{
	is_refused_once(1, &server, &client);
}

/* It was not executed for sure, so there is no doubt. */
static void add__refused_once_IS_REPEATED(void **state)
{
	is_refused_once(2, &client, &server);
}

static void is_refused_again(unsigned int i, struct side *by, struct side *of)
{
	struct shared s;

	share(&s, by, of);
	wrong = UINT32_MAX;
	operations[i](&s);
	WAIT_FOR(server.closed && client.closed);
	is_refused(by);
	is_refused(of);
	assert_non_null(strstr(by->why.text, "access to region"));
	assert_string_equal(by->why.operation, names[i]);
	assert_int_equal(by->sent, 1);
	assert_int_equal(by->status, -EACCES);
}

static void read__refused_again_ENDS_WITH_ACCESS(void **state)
{
	is_refused_again(0, &client, &server);
}

static void write__refused_again_ENDS_WITH_ACCESS(void **state)
{
	is_refused_again(1, &server, &client);
}

static void add__refused_again_ENDS_WITH_ACCESS(void **state)
{
	is_refused_again(2, &client, &server);
}

static void revoked_key(struct side *by, struct side *of)
{
	struct shared s;

	share(&s, by, of);
	assert_int_equal(rdmamsg_region_revoke(s.from), 0);
	read_it(&s);
	WAIT_FOR(by->closed && of->closed);
	is_refused(by);
	assert_non_null(strstr(by->why.text, "access to region"));
	assert_int_equal(by->sent, 1);
	assert_int_equal(by->status, -EACCES);
}

static void revoked_key__used_ENDS_WITH_ACCESS(void **state)
{
	revoked_key(&client, &server);
}

static void revoked_key__used_by_the_listener_ENDS_WITH_ACCESS(void **state)
{
	revoked_key(&server, &client);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define CASE_FAILOVER(f) \
	cmocka_unit_test_setup_teardown(f, set_up_failover, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(post__error_without_bad_wr_HAS_THEM_COMPLETE),
		CASE(message__refused_ENDS_WITH_ACCESS),
		CASE_FAILOVER(message__refused_once_ARRIVES),
		CASE_FAILOVER(message__to_the_initiator_refused_once_ARRIVES),
		CASE_FAILOVER(message__refused_again_ENDS_WITH_ACCESS),
		CASE_FAILOVER(message__each_refused_once_ALL_ARRIVE),
		CASE_FAILOVER(message__of_a_killed_peer_ENDS_AS_ANY_OTHER),
		CASE_FAILOVER(read__refused_once_IS_REPEATED),
		CASE_FAILOVER(write__refused_once_IS_REPEATED),
		CASE_FAILOVER(add__refused_once_IS_REPEATED),
		CASE_FAILOVER(read__refused_again_ENDS_WITH_ACCESS),
		CASE_FAILOVER(write__refused_again_ENDS_WITH_ACCESS),
		CASE_FAILOVER(add__refused_again_ENDS_WITH_ACCESS),
		CASE(revoked_key__used_ENDS_WITH_ACCESS),
		CASE_FAILOVER(revoked_key__used_ENDS_WITH_ACCESS),
		CASE_FAILOVER(
			revoked_key__used_by_the_listener_ENDS_WITH_ACCESS),
	};

	join_own_fabric("refused");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
