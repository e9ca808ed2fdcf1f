/* SPDX-License-Identifier: BSD-2-Clause */
/* The dump and the statistics of a context. */
#include "common.h"

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>

static struct pair p;

static char dumped[8192];

static void add_line(void *arg, const char *text)
{
	size_t at = strlen(dumped);

	if (arg != dumped || strchr(text, '\n'))
		note("a line of the dump: '%s'", text);
	snprintf(dumped + at, sizeof(dumped) - at, "%s\n", text);
}

static void check_dump(const struct rdmamsg *ctx, const char *const *words)
{
	dumped[0] = 0;
	rdmamsg_dump(ctx, add_line, dumped);
	for (; *words; words++)
		if (!strstr(dumped, *words))
			fail_msg("no '%s' in\n%s", *words, dumped);
}

static void dump__of_a_server_SHOWS_WHAT_THERE_IS(void **state)
{
	char port[24];
	const char *const empty[] = { "0 endpoints", NULL };
	const char *const words[] = {
		rdmamsg_version(), "1 endpoints", test_device(), test_kind(),
		port, "connected (open)",
		test_addr(),
		"received 1 messages 100 bytes", NULL,
	};

	pair_init(&p, NULL);
	check_dump(p.s.ctx, empty);
	pair_listen(&p);
	pair_connect(&p);
	snprintf(port, sizeof(port), "port %s", p.port);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	WAIT_FOR(p.s.received == 1);
	check_dump(p.s.ctx, words);
	pair_close(&p);
	check_dump(p.s.ctx, empty);
	pair_fini(&p);
}

static void memory__of_an_endpoint_IS_WHAT_THE_MANUAL_SAYS(void **state)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	pair_open(&p);
	assert_int_equal(rdmamsg_ep_query(p.c.ep, &info), 0);
	/* the figures of rdmamsg(7), LOCKED MEMORY, for pages of 4 KB */
	assert_int_equal(info.bytes_pinned, 786432);
	assert_in_range(info.bytes_private, 26000 + page, 36000 + page);
	pair_close(&p);
}

static void stats__of_an_exchange_ADD_UP(void **state)
{
	struct rdmamsg_stats c = { .size = sizeof(c) };
	struct rdmamsg_stats s = { .size = sizeof(s) };

	pair_open(&p);
	p.s.keep = true;
	/* siw has 80 bytes of inline data at most, and a header is in them */
	end_send_all(&p.c, HOW_SEND, 32, 1);
	end_send_all(&p.c, HOW_SEND, 5000, 2);
	end_send_all(&p.c, HOW_SENDV, 1000000, 3);
	WAIT_FOR(p.s.received == 3 && p.c.sent_ok == 3);
	assert_int_equal(rdmamsg_ep_get_stats(p.c.ep, &c), 0);
	assert_int_equal(rdmamsg_ep_get_stats(p.s.ep, &s), 0);
	assert_int_equal(c.msgs_sent, 3);
	assert_int_equal(c.bytes_sent, 1005032);
	assert_int_equal(c.sent_inline, 1);
	assert_int_equal(c.sent_eager, 1);
	assert_int_equal(c.sent_rendezvous, 1);
	assert_int_equal(c.msgs_received, 0);
	assert_true(c.completions > 0);
	assert_int_equal(s.msgs_received, 3);
	assert_int_equal(s.bytes_received, 1005032);
	assert_int_equal(s.received_rendezvous, 1);
	assert_int_equal(s.msgs_sent, 0);
	s = end_stats(&p.s);
	assert_int_equal(s.msgs_received, 3);
	assert_int_equal(s.msgs_lent, 3);
	assert_int_equal(s.endpoints, 1);
	assert_true(s.wakeups > 0);
	assert_true(s.bytes_registered > 1000000);
	end_release(&p.s);
	assert_int_equal(end_stats(&p.s).msgs_lent, 0);
	pair_close(&p);
	s = end_stats(&p.s);
	/* totals stay, current values go to zero */
	assert_int_equal(s.msgs_received, 3);
	assert_int_equal(s.endpoints, 0);
	pair_fini(&p);
}

/* Below libibverbs the soft HCA has a file of sysfs for it, like a card. */
static void stats_text__of_a_device_HAS_ITS_RETRIES(void **state)
{
	static char text[65536];
	char sample[96];
	int len;

	if (!test_on_soft())
		skip_because("not each device of the kernel counts retries");
	pair_open(&p);
	len = rdmamsg_stats_text(p.s.ctx, text, sizeof(text));
	assert_in_range(len, 1, sizeof(text) - 1);
	(void)snprintf(sample, sizeof(sample), "rdmamsg_device_retries_total{"
		       "context=\"0\",device=\"%s\"} 0\n", test_device());
	if (!strstr(text, sample))
		fail_msg("no %s in\n%s", sample, text);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(dump__of_a_server_SHOWS_WHAT_THERE_IS),
		TEST(memory__of_an_endpoint_IS_WHAT_THE_MANUAL_SAYS),
		TEST(stats__of_an_exchange_ADD_UP),
		TEST(stats_text__of_a_device_HAS_ITS_RETRIES),
	};

	return test_main(tests, NULL, argc, argv);
}
