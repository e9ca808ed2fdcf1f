/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: one-sided operations of a session that goes on over another
 * lane: writes come once and in order, and an atomic whose lane is lost ends in
 * doubt or has been executed once.
 */
#include "base/masked.h"
#include "device/verbs_api.h"
#include "wire/proto.h"
#include "../../post.h"
#include "../raw_calls.h"
#include "lanes.h"

#include <rdmamsg/flow.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
};

#define WORDS	512

static struct rdmamsg_region *target, *source;
static struct rdmamsg_key key;
static uint64_t there[WORDS], back[WORDS];
static unsigned int rma_done, rma_doubt;
static int rma_bad;
static uint32_t values;

static void rma_completed(struct rdmamsg_ep *ep, void *cookie, int status)
{
	rma_done++;
	rma_doubt += status == RDMAMSG_IN_DOUBT;
	if (status && status != RDMAMSG_IN_DOUBT)
		rma_bad = status;
}

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	if (value != values++)
		rma_bad = -EPROTO;
	/* the write before the value is in memory */
	if (there[value % WORDS] != value + 1)
		rma_bad = -EIO;
}

static const struct rdmamsg_ep_handlers rma_handlers = {
	.size = sizeof(rma_handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = rma_completed,
	.on_closed = on_closed, .on_path = on_path, .on_written = on_written,
};

static void connect_rma_deep(uint32_t flags, uint32_t send_depth)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &rma_handlers,
		.failover = &failover, .flags = flags,
		.tuning = TUNING(.send_depth = send_depth),
	};

	rma_done = rma_doubt = values = 0;
	rma_bad = 0;
	memset(there, 0, sizeof(there));
	connect_ends(&opts);
	share_memory(there, back, sizeof(there), RDMAMSG_ACCESS_READ |
		     RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_ATOMIC, &key,
		     &target, &source);
}

static void connect_rma(uint32_t flags)
{
	connect_rma_deep(flags, 0);
}

static void writes(uint32_t flags)
{
	uint32_t posted = 0, rounds = 0;

	connect_rma(flags);
	while (values < 1000 && !client.closed && !server.closed) {
		uint64_t word = posted + 1;
		const struct rdmamsg_sge sge = {
			.data = &word, .len = sizeof(word),
		};
		/* at most as many as there are words are under way */
		if (posted < 1000 && posted - values < 64 &&
		    !post_notify(client.ep, &sge, 1, &key,
				 posted % WORDS * sizeof(word), posted, 0,
				 NULL))
			posted++;
		if (++rounds % 97 == 0)
			lose(rounds & 1 ? &client : &server);
		assert_true(rdmamsg_process(rounds & 1 ? client.ctx :
					    server.ctx) >= 0);
		if (rounds % 16 == 0)
			both();
		assert_int_equal(rma_bad, 0);
	}
	if (client.closed || server.closed)
		fail_msg("closed: %s / %s", client.why.text, server.why.text);
	assert_true(resumed[0] > 0);
	close_both();
}

static void write_imm__lanes_lost_ONCE_AND_IN_ORDER(void **state)
{
	writes(0);
}

/* Each lane has a protection domain of its own, and so other keys. */
static void guarded_write_imm__lanes_lost_KEYS_LIVE_ON(void **state)
{
	writes(RDMAMSG_EP_GUARD);
}

static void revoked_key__lane_lost_STAYS_REVOKED(void **state)
{
	uint64_t word = 1;
	const struct rdmamsg_sge sge = { .data = &word, .len = sizeof(word) };
	struct rdmamsg_key other;

	connect_rma(RDMAMSG_EP_GUARD);
	assert_int_equal(rdmamsg_region_revoke(target), 0);
	assert_int_equal(rdmamsg_region_get_key(target, server.ep, &other), 0);
	lose(&client);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0, NULL),
			 -EACCES);
	assert_non_null(strstr(rdmamsg_error(), "revoked"));
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &other, 0, 0,
				       &client), 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(there[0], 1);
	close_both();
}

static struct rdmamsg_ep_options *answer;

/* Gives the peer a key before its endpoint exists. */
static void accept_with_key(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	assert_int_equal(rdmamsg_region_create(server.ctx, there, sizeof(there),
					       RDMAMSG_ACCESS_WRITE, &target),
			 0);
	assert_int_equal(rdmamsg_request_get_key(req, target, &key), 0);
	answer->user = &server;
	assert_int_equal(rdmamsg_request_accept(req, answer, NULL), 0);
}

/* The session knows that the peer has the key, as if it had given it. */
static void key_of_a_request__revoked_and_lane_lost_STAYS_REVOKED(void **state)
{
	struct rdmamsg_ep_options server_opts = {
		.size = sizeof(server_opts), .handlers = &rma_handlers,
		.failover = &failover,
	}, client_opts = server_opts;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = accept_with_key,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .handlers = &on,
	};
	uint64_t word = 1;
	const struct rdmamsg_sge sge = { .data = &word, .len = sizeof(word) };
	struct rdmamsg_listener *l;

	rma_done = rma_bad = 0;
	memset(there, 0, sizeof(there));
	answer = &server_opts;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(&client_opts);
	WAIT_FOR(server.ep);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
				       &client), 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(there[0], 1);
	assert_int_equal(rdmamsg_region_revoke(target), 0);
	lose(&client);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0, NULL),
			 -EACCES);
	assert_non_null(strstr(rdmamsg_error(), "revoked"));
	close_both();
}

static void reads_and_atomics(uint32_t flags)
{
	unsigned int asked = 0, adds = 0, rounds = 0;
	uint64_t was;

	connect_rma(flags);
	for (unsigned int i = 0; i < WORDS; i++)
		there[i] = i;
	there[0] = 0;
	while (rma_done < 600 && !client.closed && !server.closed) {
		const struct rdmamsg_sge sge = {
			.data = back, .len = sizeof(back), .region = source,
		};
		int ret = -EAGAIN;

		if (asked < 600 && asked % 3)
			ret = rdmamsg_read(client.ep, &sge, 1, &key, 0, 0,
					   &client);
		else if (asked < 600)
			ret = rdmamsg_fetch_add(client.ep, &key, 0, 1, &was, 0,
						&client);
		adds += !ret && asked % 3 == 0;
		asked += !ret;
		if (++rounds % 151 == 0)
			lose(rounds & 1 ? &client : &server);
		assert_true(rdmamsg_process(client.ctx) >= 0);
		if (rounds % 8 == 0)
			both();
		assert_int_equal(rma_bad, 0);
	}
	if (client.closed || server.closed)
		fail_msg("closed: %s / %s", client.why.text, server.why.text);
	/* each has added, except perhaps those in doubt */
	assert_true(there[0] <= adds && there[0] + rma_doubt >= adds);
	assert_memory_equal(back + 1, there + 1, sizeof(there) - 8);
	close_both();
}

static void reads_and_atomics__lanes_lost_END_ONCE(void **state)
{
	reads_and_atomics(0);
}

static void guarded_reads_and_atomics__lanes_lost_END_ONCE(void **state)
{
	reads_and_atomics(RDMAMSG_EP_GUARD);
}

/* ---- a device that takes no one-sided requests -------------------------- */

static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad);
static bool refuses;
static unsigned int refuse_again;	/* so many later lanes of the client */

static int post_or_refuse(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct ibv_send_wr *last = NULL, *w = wr;
	int ret = 0;

	if (!refuses)
		return post_send(qp, wr, bad);
	while (w && w->opcode == IBV_WR_SEND) {
		last = w;
		w = w->next;
	}
	if (last) {
		last->next = NULL;
		ret = post_send(qp, wr, bad);
		last->next = w;
	}
	if (ret || !w)
		return ret;
	*bad = w;
	return EIO;
}

static void refuse(void)
{
	struct ibv_context_ops *ops = &client.ep->lane.hot.qp->context->ops;

	if (ops->post_send != post_or_refuse)
		post_send = ops->post_send;
	ops->post_send = post_or_refuse;
	refuses = true;
}

static void on_refused_path(struct rdmamsg_ep *ep,
			    const struct rdmamsg_path_event *ev)
{
	on_path(ep, ev);
	if (rdmamsg_ep_user(ep) != &client)
		return;
	if (ev->change == RDMAMSG_PATH_CHANGE_DOWN)
		refuses = false;
	if (ev->change == RDMAMSG_PATH_CHANGE_RESUMED && refuse_again) {
		refuse_again--;
		refuse();
	}
}

/* Before each message the peer must have the write that came before it. */
static void on_message_after_write(struct rdmamsg_ep *ep,
				   struct rdmamsg_msg *msg)
{
	if (there[0] != 1 || rdmamsg_msg_tag(msg) != server.messages)
		rma_bad = -EIO;
	server.messages++;
	rdmamsg_msg_free(msg);
}

static void connect_refused(void)
{
	connect_rma(0);
	client.ep->on.on_path = on_refused_path;
	server.ep->on.on_message = on_message_after_write;
}

/* It has not been executed for sure, so there is no doubt. */
static void atomic__taken_by_no_device_DONE_ONCE(void **state)
{
	uint64_t was = 77;

	connect_refused();
	refuse();
	assert_int_equal(rdmamsg_fetch_add(client.ep, &key, 0, 1, &was, 0,
					   &client), 0);
	/* there are no callbacks within a call */
	assert_int_equal(rma_done, 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(rma_doubt, 0);
	assert_int_equal(was, 0);
	assert_int_equal(there[0], 1);
	close_both();
}

static int refuse_masked(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 const struct masked *m)
{
	return EIO;
}

static bool refuse_raw(void *wqe, bool fenced)
{
	return false;
}

static void masked_atomic__taken_by_no_device_DONE_ONCE(void **state)
{
	const uint64_t add = 5;
	struct verbs_api table;
	uint64_t was = 77;

	connect_rma(0);
	table = *client.ep->lane.v;
	table.post_masked = refuse_masked;
	replace_raw(&table, refuse_raw);
	client.ep->lane.v = &table;
	assert_int_equal(post_add_fields(client.ep, &key, 8, 8, &add, NULL,
					 &was, 0, &client),
			 0);
	client.ep->lane.v = &rdmamsg__verbs_soft;
	assert_int_equal(rma_done, 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(rma_doubt, 0);
	assert_int_equal(was, 0);
	assert_int_equal(there[1], 5);
	assert_int_equal(resumed[0], 1);
	close_both();
}

static void write__repeated_twice_STAYS_BEFORE_MESSAGES(void **state)
{
	const uint64_t word = 1;
	const struct rdmamsg_sge sge = {
		.data = (void *)(uintptr_t)&word, .len = sizeof(word),
	};

	connect_refused();
	refuse_again = 2;
	refuse();
	rdmamsg_cork(client.ctx);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
				       &client), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_send(client.ep, "text", 4, i, NULL),
				 0);
	rdmamsg_uncork(client.ctx);
	WAIT_FOR(server.messages == 3 && rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(resumed[0], 3);
	close_both();
}

/* ---- acknowledgements that the lane has lost ----------------------------- */

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static uint32_t deaf;			/* number of a queue pair */

/* Requests that were executed look as if they were not. */
static int poll_unacknowledged(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++)
		if (wc[i].qp_num == deaf && !wc[i].status &&
		    !(wc[i].opcode & IBV_WC_RECV))
			wc[i].status = IBV_WC_RETRY_EXC_ERR;
	return got;
}

static void write__not_acknowledged_NOT_REPEATED(void **state)
{
	const uint64_t word = 1;
	const struct rdmamsg_sge sge = {
		.data = (void *)(uintptr_t)&word, .len = sizeof(word),
	};
	struct ibv_context_ops *ops;

	connect_rma(0);
	server.ep->on.on_message = on_message_after_write;
	ops = &client.ep->lane.hot.qp->context->ops;
	poll_cq = ops->poll_cq;
	deaf = client.ep->lane.hot.qp->qp_num;
	ops->poll_cq = poll_unacknowledged;
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
				       &client), 0);
	assert_int_equal(rdmamsg_send(client.ep, "text", 4, 0, NULL), 0);
	while (!server.messages)
		assert_true(rdmamsg_process(server.ctx) >= 0);
	assert_int_equal(there[0], 1);
	/* the message has told the program that the memory is its own */
	there[0] = 77;
	WAIT_FOR(resumed[0] && rma_done);
	ops->poll_cq = poll_cq;
	assert_int_equal(rma_done, 1);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(there[0], 77);
	close_both();
}

/* ---- operations that begin while the next lane takes over ---------------- */

static unsigned int writes_posted;	/* of data */

static int post_and_count(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *w = wr; w; w = w->next)
		writes_posted += w->opcode == IBV_WR_RDMA_WRITE && w->num_sge;
	return post_send(qp, wr, bad);
}

/* The message ends when RESUME confirms it. */
static void write_when_confirmed(struct rdmamsg_ep *ep, void *cookie,
				 int status)
{
	static const uint64_t word = 1;
	const struct rdmamsg_sge sge = {
		.data = (void *)(uintptr_t)&word, .len = sizeof(word),
	};

	rma_completed(ep, cookie, status);
	if (cookie != &client)
		return;
	assert_int_equal(resumed[0], 0);
	assert_int_equal(post_notify(client.ep, &sge, 1, &key, 0, 0, 0, &key),
			 0);
}

/* The peer has the message, but the lane is lost with its acknowledgement. */
static void confirm_by_resume(void)
{
	struct ibv_context_ops *ops = &client.ep->lane.hot.qp->context->ops;

	client.ep->on.on_complete = write_when_confirmed;
	server.ep->on.on_message = on_message_after_write;
	there[0] = 1;
	post_send = ops->post_send;
	poll_cq = ops->poll_cq;
	ops->post_send = post_and_count;
	ops->poll_cq = poll_unacknowledged;
	deaf = client.ep->lane.hot.qp->qp_num;
	assert_int_equal(rdmamsg_send(client.ep, "text", 4, 0, &client), 0);
	while (!server.messages)
		assert_true(rdmamsg_process(server.ctx) >= 0);
	writes_posted = 0;
	WAIT_FOR(client.closed || (rma_done == 2 && values));
	ops->post_send = post_send;
	ops->poll_cq = poll_cq;
	assert_false(client.closed);
	assert_int_equal(rma_bad, 0);
}

/* The key of the former lane is refused. */
static void write__begun_in_take_over_HAS_THE_RENEWED_KEY(void **state)
{
	connect_rma(RDMAMSG_EP_GUARD);
	confirm_by_resume();
	assert_int_equal(resumed[0], 1);
	close_both();
}

/* There is room for the write and its value, but not for the proof. */
static void write__begun_in_take_over_IS_POSTED_ONCE(void **state)
{
	connect_rma_deep(0, 2);
	confirm_by_resume();
	assert_int_equal(writes_posted, 1);
	close_both();
}

/* ---- iWARP: a write completes before the peer has it ---------------------- */

static uint32_t cut;			/* number of a queue pair */
static struct ibv_wc taken;		/* a write that TCP has taken */
static bool written, early_value;	/* over a later lane */
static unsigned int lost;		/* requests on the lane that is cut */

static void note_order(const struct ibv_send_wr *wr)
{
	for (; wr; wr = wr->next) {
		const uint8_t *type = wr->num_sge ?
			(void *)(uintptr_t)wr->sg_list->addr : NULL;

		written |= wr->opcode == IBV_WR_RDMA_WRITE && type;
		early_value |= wr->opcode == IBV_WR_SEND && type && !written &&
			       *type == PROTO_WRITTEN;
	}
}

/* Nothing arrives any more, but writes complete. */
static int post_or_lose(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad)
{
	if (qp->qp_num != cut) {
		note_order(wr);
		return post_send(qp, wr, bad);
	}
	for (; wr; wr = wr->next) {
		lost++;
		if (wr->opcode == IBV_WR_RDMA_WRITE)
			taken = (struct ibv_wc){
				.wr_id = wr->wr_id, .qp_num = cut,
				.opcode = IBV_WC_RDMA_WRITE,
			};
	}
	return 0;
}

static int poll_taken(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = poll_cq(cq, n, wc);

	if (got < n && taken.qp_num && cq == client.ep->lane.hot.qp->send_cq) {
		wc[got++] = taken;
		taken.qp_num = 0;
	}
	return got;
}

static void cut_lane(void)
{
	struct ibv_context_ops *ops = &client.ep->lane.hot.qp->context->ops;

	post_send = ops->post_send;
	poll_cq = ops->poll_cq;
	ops->post_send = post_or_lose;
	ops->poll_cq = poll_taken;
	cut = client.ep->lane.hot.qp->qp_num;
}

static void mend(void)
{
	struct ibv_context_ops *ops = &client.ep->lane.hot.qp->context->ops;

	ops->post_send = post_send;
	ops->poll_cq = poll_cq;
}

static void write__complete_and_lost_with_the_lane_IS_REPEATED(void **state)
{
	const uint64_t word = 1;
	const struct rdmamsg_sge sge = {
		.data = (void *)(uintptr_t)&word, .len = sizeof(word),
	};

	connect_rma(0);
	cut_lane();
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
				       &client), 0);
	assert_int_equal(taken.qp_num, cut);
	while (taken.qp_num)
		assert_true(rdmamsg_poll(client.ctx) >= 0);
	assert_int_equal(rma_done, 0);
	assert_int_equal(there[0], 0);
	lose(&client);
	WAIT_FOR(resumed[0] && rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(there[0], 1);
	mend();
	close_both();
}

/* There is room for the write and its value, but not for the proof. */
static void write_imm__lost_before_its_proof_STAYS_BEFORE_VALUE(void **state)
{
	const uint64_t word = 1;
	const struct rdmamsg_sge sge = {
		.data = (void *)(uintptr_t)&word, .len = sizeof(word),
	};

	connect_rma_deep(0, 2);
	cut_lane();
	assert_int_equal(
		post_notify(client.ep, &sge, 1, &key, 0, 0, 0, &client), 0);
	taken.qp_num = 0;		/* no completion, which makes room */
	early_value = written = false;
	assert_int_equal(client.ep->send.queued, 1);
	lose(&client);
	WAIT_FOR(resumed[0] && rma_done && values);
	assert_true(written);
	assert_false(early_value);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(there[0], 1);
	mend();
	close_both();
}

/*
 * All requests have completions, so that none more is needed to confirm them.
 * Linux's siw does not flush what a program posts to a failed queue pair.
 */
static void lane__lost_POSTS_NOTHING(void **state)
{
	connect_rma(0);
	cut_lane();
	assert_int_equal(rdmamsg_send(client.ep, "", 0, 0, NULL), 0);
	lost = 0;
	lose(&client);
	WAIT_FOR(resumed[0]);
	assert_int_equal(lost, 0);
	mend();
	close_both();
}

static int set_up_iwarp(void **state)
{
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", "iwarp", 1), 0);
	return set_up(state);
}

static int tear_down_iwarp(void **state)
{
	int ret = tear_down(state);

	(void)unsetenv("RDMAMSG_SOFT_LINK");
	return ret;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			write__not_acknowledged_NOT_REPEATED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			write__begun_in_take_over_HAS_THE_RENEWED_KEY, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			write__begun_in_take_over_IS_POSTED_ONCE,
			set_up_iwarp, tear_down_iwarp),
		cmocka_unit_test_setup_teardown(
			write__complete_and_lost_with_the_lane_IS_REPEATED,
			set_up_iwarp, tear_down_iwarp),
		cmocka_unit_test_setup_teardown(
			write_imm__lost_before_its_proof_STAYS_BEFORE_VALUE,
			set_up_iwarp, tear_down_iwarp),
		cmocka_unit_test_setup_teardown(
			lane__lost_POSTS_NOTHING, set_up_iwarp,
			tear_down_iwarp),
		cmocka_unit_test_setup_teardown(
			write_imm__lanes_lost_ONCE_AND_IN_ORDER, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			reads_and_atomics__lanes_lost_END_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			guarded_write_imm__lanes_lost_KEYS_LIVE_ON, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			revoked_key__lane_lost_STAYS_REVOKED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			key_of_a_request__revoked_and_lane_lost_STAYS_REVOKED,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			guarded_reads_and_atomics__lanes_lost_END_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			atomic__taken_by_no_device_DONE_ONCE, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			masked_atomic__taken_by_no_device_DONE_ONCE, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			write__repeated_twice_STAYS_BEFORE_MESSAGES, set_up,
			tear_down),
	};

	join_own_fabric("resume");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
