/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the end of a conversation when acknowledgements are lost. The
 * soft HCA carries out all requests of one side. After some time it holds back
 * the completions, which end as failures.
 */
#include "base/ctx.h"
#include "device/cq.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "session/poll.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/oob.h>

#define MESSAGES	3
#define VENDOR_ERR	0x81

static struct side *victim;		/* NULL: no completion is lost */
static unsigned int passing;		/* completions before the first loss */
static bool over;			/* the transport has given up */
static bool blind;			/* the victim sees no completions */
static struct ibv_wc lost[64];
static int lost_count;

static bool is_victims(const struct ibv_cq *cq)
{
	return victim && victim->ep && victim->ep->lane.cq &&
	       victim->ep->lane.cq->ibv == cq;
}

static bool keep_back(const struct ibv_wc *wc)
{
	if (wc->status || wc->wr_id & 0x80000000u)
		return false;
	if (passing) {
		passing--;
		return false;
	}
	lost[lost_count++] = *wc;
	return true;
}

/* The device says more than the status in the first failed completion. */
static int give_up(struct ibv_wc *wc)
{
	int n = min(lost_count, 16);

	for (int i = 0; i < n; i++) {
		wc[i] = lost[i];
		wc[i].status = i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
		wc[i].vendor_err = i ? 0xf5 : VENDOR_ERR;
	}
	lost_count = 0;
	return n;
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n, left = 0;

	if (blind && is_victims(cq))
		return 0;
	n = soft_ops.poll_cq(cq, room, wc);
	if (!is_victims(cq))
		return n;
	for (int i = 0; i < n; i++)
		if (!keep_back(&wc[i]))
			wc[left++] = wc[i];
	return !left && over && lost_count ? give_up(wc) : left;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

/* Turns the loop of this side alone. */
#define ALONE_UNTIL(side, condition) \
	UNTIL_BY(assert_true(rdmamsg_process((side)->ctx) >= 0), condition)

static unsigned int failed;

static void on_end_of_send(struct rdmamsg_ep *ep, void *cookie, int status)
{
	on_complete(ep, cookie, status);
	failed += status != 0;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = on_end_of_send,
	.on_closed = on_closed,
};

/* Connects both ends in this process by records, without the CM. */
static void connect_oob(struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_ep *offering, *answering;
	uint8_t record[256];
	int len;

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	opts->user = &client;
	assert_int_equal(rdmamsg_oob_offer(client.ctx, opts, &offering), 0);
	len = rdmamsg_oob_record(offering, record, sizeof(record));
	assert_true(len > 0);
	opts->user = &server;
	assert_int_equal(rdmamsg_oob_answer(server.ctx, record, (size_t)len,
					    opts, &answering), 0);
	len = rdmamsg_oob_record(answering, record, sizeof(record));
	assert_int_equal(rdmamsg_oob_finish(offering, record, (size_t)len), 0);
	WAIT_FOR(client.ep && server.ep);
}

static void send_some(struct side *s)
{
	static char byte;

	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(rdmamsg_send(s->ep, &byte, 1, 0, s), 0);
}

static void check_closed(const struct side *s)
{
	if (s->why.cause != RDMAMSG_CAUSE_CLOSED || s->why.error)
		fail_msg("cause %d, error %d: %s", s->why.cause, s->why.error,
			 s->why.text);
	assert_int_equal(s->sent, MESSAGES);
	assert_int_equal(s->messages, MESSAGES);
}

/* Returns true if the peer has closed or disconnected. */
static bool is_left(const struct side *peer)
{
	return peer->closed || victim->closed || victim->ep->close.disconnected;
}

static void start(bool oob)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.flags = RDMAMSG_EP_OWN_CQ,
	};

	clear_ends();
	victim = NULL;
	over = blind = false;
	failed = 0;
	lost_count = 0;
	if (oob)
		connect_oob(&opts);
	else
		connect_ends(&opts);
}

static void lose(bool oob, struct side *of, bool of_closes, unsigned int from)
{
	struct side *peer = of == &client ? &server : &client;

	start(oob);
	victim = of;
	passing = from;
	send_some(&client);
	send_some(&server);
	rdmamsg_ep_hold(of->ep);
	rdmamsg_ep_close(of_closes ? of->ep : peer->ep);
	WAIT_FOR(is_left(peer));
	over = true;
	WAIT_FOR(client.closed && server.closed);
	check_closed(&client);
	check_closed(&server);
	assert_int_equal(failed, 0);
	rdmamsg_ep_release(of->ep);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

static void lose_all(bool oob)
{
	for (unsigned int from = 0; from < 2 * MESSAGES; from++)
		for (int closes = 0; closes < 2; closes++) {
			lose(oob, &client, closes, from);
			lose(oob, &server, closes, from);
		}
}

static void close__last_acknowledgements_lost_IS_GRACEFUL(void **state)
{
	lose_all(false);
}

static void close__last_lost_without_the_cm_IS_GRACEFUL(void **state)
{
	lose_all(true);
}

/*
 * Both sides send CLOSE before they receive the peer's, so each sends a second
 * CLOSE. Both CLOSEs of the client are acknowledged. The client stays until the
 * server's second CLOSE arrives.
 */
static void close__crossing_without_the_cm_WAITS_FOR_THE_PEER(void **state)
{
	struct rdmamsg_ep *a, *b;

	start(true);
	a = client.ep;
	b = server.ep;
	rdmamsg_ep_hold(a);
	rdmamsg_ep_hold(b);
	victim = &server;
	passing = UINT32_MAX;
	blind = true;
	rdmamsg_ep_close(a);
	rdmamsg_ep_close(b);
	ALONE_UNTIL(&server, b->close.sent);
	ALONE_UNTIL(&client, a->close.asserted_done);
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_false(client.closed);
	blind = false;
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_true(b->close.asserted_done);
	victim = NULL;
	rdmamsg_ep_release(a);
	rdmamsg_ep_release(b);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* The first CLOSE of the client is acknowledged, the second is not. */
static void close__second_not_acknowledged_WAITS(void **state)
{
	struct rdmamsg_ep *a, *b;

	start(true);
	a = client.ep;
	b = server.ep;
	rdmamsg_ep_hold(a);
	rdmamsg_ep_hold(b);
	victim = &client;
	passing = 1;
	rdmamsg_ep_close(a);
	rdmamsg_ep_close(b);
	ALONE_UNTIL(&client, a->close.done);
	ALONE_UNTIL(&server, b->close.asserted);
	ALONE_UNTIL(&client, a->close.confirmed && lost_count);
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_false(client.closed);
	assert_false(a->close.disconnected);
	over = true;
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	victim = NULL;
	rdmamsg_ep_release(a);
	rdmamsg_ep_release(b);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* The server finds both in one batch of completions. */
static void data__after_close_PROTOCOL(void **state)
{
	struct rdmamsg_ep *a;

	start(false);
	a = client.ep;
	rdmamsg_ep_hold(a);
	victim = &server;
	passing = UINT32_MAX;
	blind = true;
	rdmamsg_ep_close(a);
	ALONE_UNTIL(&client, a->close.sent);
	a->state = EP_OPEN;	/* the client forgets that it has closed */
	assert_int_equal(rdmamsg_send(a, "text", 4, 0, NULL), 0);
	a->state = EP_CLOSING;
	victim = NULL;
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_non_null(strstr(server.why.text, "after CLOSE"));
	rdmamsg_ep_release(a);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/*
 * The device flushes no request, so the library itself ends the accepted ones.
 */
static void abort__nothing_is_flushed_ALL_IS_TOLD(void **state)
{
	for (int oob = 0; oob < 2; oob++) {
		start(oob);
		victim = &client;
		passing = UINT32_MAX;
		blind = true;
		rdmamsg_ep_hold(client.ep);
		send_some(&client);
		rdmamsg_ep_abort(client.ep);
		WAIT_FOR(client.closed);
		assert_int_equal(client.sent, MESSAGES);
		assert_int_equal(client.status, -ECANCELED);
		assert_int_equal(failed, MESSAGES);
		rdmamsg_ep_release(client.ep);
		victim = NULL;
		rdmamsg_close(client.ctx);
		rdmamsg_close(server.ctx);
	}
}

/* The transport fails before the peer has sent CLOSE. */
static void close__fails_in_the_middle_TELLS_THE_FAILURE(void **state)
{
	start(true);
	victim = &client;
	passing = 0;
	rdmamsg_ep_hold(client.ep);
	send_some(&client);
	rdmamsg_ep_close(client.ep);
	ALONE_UNTIL(&client, lost_count);
	over = true;
	rdmamsg__cq_poll(client.ctx, 1 << 20);
	ALONE_UNTIL(&client, client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(client.why.wc_status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(client.why.vendor_err, VENDOR_ERR);
	assert_non_null(strstr(client.why.text, "vendor 0x81"));
	assert_string_equal(client.why.operation, "send");
	assert_int_equal(strncmp(client.why.text, "send: ", 6), 0);
	rdmamsg_ep_release(client.ep);
	victim = NULL;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* Both sides have sent CLOSE, and then the program aborts. */
static void abort__both_have_said_close_IS_AN_ABORT(void **state)
{
	start(true);
	victim = &server;
	passing = UINT32_MAX;
	blind = true;
	rdmamsg_ep_close(client.ep);
	rdmamsg_ep_close(server.ep);
	ALONE_UNTIL(&server, server.ep->close.sent);
	ALONE_UNTIL(&client, client.ep->close.asserted_done);
	assert_true(client.ep->close.seen);
	rdmamsg_ep_abort(client.ep);
	ALONE_UNTIL(&client, client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
	victim = NULL;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__last_acknowledgements_lost_IS_GRACEFUL),
		cmocka_unit_test(close__last_lost_without_the_cm_IS_GRACEFUL),
		cmocka_unit_test(
			close__crossing_without_the_cm_WAITS_FOR_THE_PEER),
		cmocka_unit_test(close__second_not_acknowledged_WAITS),
		cmocka_unit_test(close__fails_in_the_middle_TELLS_THE_FAILURE),
		cmocka_unit_test(data__after_close_PROTOCOL),
		cmocka_unit_test(abort__nothing_is_flushed_ALL_IS_TOLD),
		cmocka_unit_test(abort__both_have_said_close_IS_AN_ABORT),
	};

	join_own_fabric("close");
	replace_calls(poll_cq, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
