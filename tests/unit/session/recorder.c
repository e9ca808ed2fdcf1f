/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the last events of an endpoint with failover: their order after
 * a lost lane, the ring, and their text in the dump, in the log, and in a
 * buffer of any size.
 */
#include "session/ep.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

static char last[8192];			/* text in on_closed */
static char logged[16384];
static unsigned int resumed;

static void keep_text(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	if (rdmamsg_ep_user(ep) == &client)
		assert_true(rdmamsg_ep_history(ep, last, sizeof(last)) >= 0);
	on_closed(ep, why);
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	resumed += ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
}

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	size_t len = strlen(logged);

	if (level <= RDMAMSG_LOG_WARN)
		(void)snprintf(logged + len, sizeof(logged) - len, "%s\n",
			       line);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = keep_text, .on_path = on_path,
};

static void connect_with(const struct rdmamsg_failover *failover)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = failover,
	};

	connect_ends(&opts);
}

static const struct rdmamsg_failover lanes = {
	.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
};

static void cut(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TRANSPORT,
			   -ETIMEDOUT, "the test has cut the lane");
	rdmamsg__ep_kill(ep);
}

static void be_brief(struct rdmamsg_ep *ep)
{
	ep->resume->opts.timeout_ms = 300;
	rdmamsg__resume_wake(ep);
}

static int set_up(void **state)
{
	clear_ends();
	last[0] = logged[0] = 0;
	resumed = 0;
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

/* The text has these parts, in this order. */
static void expect(const char *text, const char *const *parts)
{
	const char *at = text;

	for (; *parts; parts++) {
		at = strstr(at, *parts);
		if (!at)
			fail_msg("no \"%s\", or not in order, in\n%s", *parts,
				 text);
	}
}

/* ---- tests ------------------------------------------------------------- */

static void lane_lost__resumed_EVENTS_IN_ORDER(void **state)
{
	static const char *const order[] = {
		"state requested", "state setup", "state open",
		"connected on soft", "connection on soft",
		" lost: network, transport, Connection timed out",
		"is freed", "try 1 for another connection",
		"another connection is ready on soft", "RESUME",
		"RESUME", "resumed on soft", "state closing", "CLOSE sent",
		"CLOSE of the peer", "state closed", NULL,
	};

	connect_with(&lanes);
	cut(client.ep);
	WAIT_FOR(resumed == 2);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	expect(last, order);
	/* a graceful close is no news */
	assert_null(strstr(logged, "last events"));
}

static void ladder_over__no_way_TOLD_IN_LOG_AND_ON_CLOSED(void **state)
{
	/* the first try fails within this time, however slow the machine is */
	static const struct rdmamsg_failover patient = {
		.size = sizeof(patient), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = WAIT_MS,
	};
	static const char *const order[] = {
		" lost: ", "try 1", "the try has failed: ", "state draining",
		"ends: ", "state closed", NULL,
	};

	connect_with(&patient);
	client.ep->resume->secret.key[5] ^= 1;
	cut(client.ep);
	WAIT_FOR(client.closed || client.ep->resume->tries == 2);
	assert_false(client.closed || server.closed);
	be_brief(client.ep);
	be_brief(server.ep);
	WAIT_FOR(client.closed && server.closed);
	expect(last, order);
	assert_null(strstr(client.why.text, "\n"));
	assert_non_null(strstr(logged, "last events"));
	expect(logged, order);
}

struct lines {
	char text[16384];
	size_t len;
};

static void add_line(void *arg, const char *text)
{
	struct lines *l = arg;

	l->len += (size_t)snprintf(l->text + l->len, sizeof(l->text) - l->len,
				   "%s\n", text);
}

static void connected__dumped_HAS_THE_EVENTS(void **state)
{
	static const char *const order[] = {
		"endpoint ", "history", "state requested", "state open", NULL,
	};
	static struct lines l;

	connect_with(&lanes);
	rdmamsg_dump(client.ctx, add_line, &l);
	expect(l.text, order);
}

static void buffer__of_any_size_CUT_OFF(void **state)
{
	char whole[4096], part[4096];
	int len;

	connect_with(&lanes);
	len = rdmamsg_ep_history(client.ep, NULL, 0);
	assert_true(len > 0 && len < (int)sizeof(whole));
	assert_int_equal(rdmamsg_ep_history(client.ep, whole, sizeof(whole)),
			 len);
	assert_int_equal(strlen(whole), len);
	assert_int_equal(whole[len - 1], '\n');
	for (int size = 1; size <= len + 1; size++) {
		memset(part, 0x5a, sizeof(part));
		assert_int_equal(rdmamsg_ep_history(client.ep, part,
						    (size_t)size), len);
		assert_int_equal(strlen(part), size - 1);
		assert_memory_equal(part, whole, (size_t)size - 1);
		assert_int_equal(part[size], 0x5a);
	}
	assert_int_equal(rdmamsg_ep_history(client.ep, NULL, 1), -EINVAL);
	assert_int_equal(rdmamsg_ep_history(NULL, whole, 1), -EINVAL);
}

static void off__no_failover_EMPTY(void **state)
{
	char text[64] = "x";

	connect_with(NULL);
	assert_null(client.ep->recorder);
	assert_int_equal(rdmamsg_ep_history(client.ep, text, sizeof(text)), 0);
	assert_int_equal(text[0], 0);
}

/* ---- the ring ---------------------------------------------------------- */

static struct lines lines;

static void print(const struct recorder *r)
{
	memset(&lines, 0, sizeof(lines));
	rdmamsg__recorder_print(r, add_line, &lines);
}

static unsigned int count_lines(void)
{
	unsigned int n = 0;

	for (const char *p = lines.text; *p; p++)
		n += *p == '\n';
	return n;
}

static void ring__more_than_it_has_LAST_64(void **state)
{
	struct recorder *r = rdmamsg__recorder_new();

	assert_non_null(r);
	print(r);
	assert_int_equal(count_lines(), 0);
	for (uint32_t i = 0; i < 1000; i++)
		rdmamsg__record(r, EVENT_REPLAYED, i, 0);
	print(r);
	assert_int_equal(count_lines(), EVENTS_MAX);
	assert_null(strstr(lines.text, "before 935 "));
	assert_non_null(strstr(lines.text, "before 936 "));
	assert_non_null(strstr(lines.text, "before 999 "));
	rdmamsg__recorder_free(r);
	rdmamsg__recorder_free(NULL);
	rdmamsg__record(NULL, EVENT_HEARD, 0, 0);
}

/* Each kind has a text of its own, and so have values out of range. */
static void text__of_each_kind_AND_OF_STRANGE_VALUES(void **state)
{
	struct recorder *r = rdmamsg__recorder_new();

	assert_non_null(r);
	for (uint32_t kind = EVENT_LANE; kind <= EVENT_ENDS; kind++)
		rdmamsg__record(r, kind, UINT32_MAX, UINT32_MAX);
	rdmamsg__record(r, EVENT_ENDS + 1, 0, 0);
	print(r);
	assert_int_equal(count_lines(), EVENT_ENDS);
	assert_non_null(strstr(lines.text, "another device"));
	rdmamsg__recorder_free(r);
}

static void devices__more_than_names_ANOTHER_DEVICE(void **state)
{
	static const char *const names[] = {
		"a0", "b1", "a0", "c2", "d3", "e4",
	};
	struct recorder *r = rdmamsg__recorder_new();

	assert_non_null(r);
	for (int i = 0; i < 6; i++)
		rdmamsg__record_device(r, EVENT_LANE, names[i], 1);
	print(r);
	expect(lines.text, (const char *const[]){ "on a0,", "on b1,", "on a0,",
			"on c2,", "on d3,", "on another device,", NULL });
	rdmamsg__recorder_free(r);
}

static void credit__lacks_for_two_ticks_TOLD_ONCE(void **state)
{
	struct recorder *r = rdmamsg__recorder_new();

	assert_non_null(r);
	rdmamsg__record_credit(r, true, 7, 7);	/* for less than a tick */
	rdmamsg__record_credit(r, true, 9, 8);
	assert_int_equal(r->count, 0);
	rdmamsg__record_credit(r, true, 9, 9);
	rdmamsg__record_credit(r, true, 9, 9);
	rdmamsg__record_credit(r, true, 9, 9);
	rdmamsg__record_credit(r, true, 12, 9);
	rdmamsg__record_credit(r, false, 12, 12);
	rdmamsg__record_credit(r, false, 12, 12);
	print(r);
	assert_int_equal(count_lines(), 2);
	expect(lines.text, (const char *const[]){ "message 9 waits",
			"up to message 12", NULL });
	rdmamsg__recorder_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			lane_lost__resumed_EVENTS_IN_ORDER, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			ladder_over__no_way_TOLD_IN_LOG_AND_ON_CLOSED, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			connected__dumped_HAS_THE_EVENTS, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			buffer__of_any_size_CUT_OFF, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			off__no_failover_EMPTY, set_up, tear_down),
		cmocka_unit_test(ring__more_than_it_has_LAST_64),
		cmocka_unit_test(text__of_each_kind_AND_OF_STRANGE_VALUES),
		cmocka_unit_test(devices__more_than_names_ANOTHER_DEVICE),
		cmocka_unit_test(credit__lacks_for_two_ticks_TOLD_ONCE),
	};

	join_own_fabric("recorder");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_WARN);
	return cmocka_run_group_tests_name("recorder", tests, NULL, NULL);
}
