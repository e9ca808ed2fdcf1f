/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the text of the statistics, against the calls for numbers. */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "loop/prometheus.h"
#include "soft/control/soft_ctl.h"
#include "../own_fabric.h"
#include "../two_ends.h"
#include "exposition.h"

#include <errno.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>

/* in the order of struct rdmamsg_stats */
static const char *const counters[] = {
	"messages_sent_total", "messages_received_total", "sent_bytes_total",
	"received_bytes_total", "copied_bytes_total",
	"messages_sent_inline_total", "messages_sent_eager_total",
	"messages_sent_rendezvous_total", "messages_received_rendezvous_total",
	"sends_refused_total", "credit_stalls_total", "credit_messages_total",
	"keepalives_total", "pings_total", "rnr_errors_total", "stalls_total",
	"completions_total", "wakeups_total", "endpoints", "messages_lent",
	"registered_bytes", "rma_writes_total", "rma_reads_total",
	"rma_atomics_total", "rma_bytes_total", "messages_sent_pieces_total",
	"messages_received_pieces_total", "lanes_lost_total",
	"lanes_resumed_total", "messages_repeated_total",
};

/* the same, behind the arrays */
static const char *const more_counters[] = {
	"connects_failed_total", "accepts_failed_total",
	"connects_repeated_total", "requests_rejected_total",
	"requests_limited_total", "requests_unusable_total",
};

static const char *const causes[] = {
	"closed", "aborted", "timeout", "address", "refused", "rejected",
	"unreachable", "protocol", "version", "transport", "access", "silent",
	"removed", "resources", "auth", "crc",
};
static const char *const whos[] = { "local", "peer", "network", "device" };

#define NUMBER(array)	(sizeof(array) / sizeof((array)[0]))

/* A new cause needs a name here, and cause_samples() its number. */
_Static_assert(NUMBER(causes) == RDMAMSG_CAUSE_CRC &&
	       NUMBER(whos) == RDMAMSG_WHO_DEVICE, "each has a name");
_Static_assert(NUMBER(counters) ==
	       offsetof(struct rdmamsg_stats, ended) / sizeof(uint64_t) - 1,
	       "each counter is in the text");
_Static_assert(NUMBER(more_counters) ==
		       (sizeof(struct rdmamsg_stats) -
			offsetof(struct rdmamsg_stats, connects_failed)) /
			       sizeof(uint64_t),
	       "and those behind the arrays");

static uint8_t large[100000];
static struct rdmamsg_msg *kept;
static char text[1 << 18];

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	if (s->messages++)
		rdmamsg_msg_free(msg);
	else
		kept = msg;
}

static const struct rdmamsg_ep_handlers handlers =
	END_HANDLERS(on_message);

static void read_text(const struct rdmamsg *ctx)
{
	int len = rdmamsg_stats_text(ctx, text, sizeof(text));

	assert_in_range(len, 1, sizeof(text) - 1);
	assert_int_equal(strlen(text), len);
	parse(text);
}

static void check_each(const struct rdmamsg *ctx, const uint64_t *values,
		       const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sample("rdmamsg_%s{context=\"%u\"}", names[i],
			   ctx->number) != values[i])
			fail_msg("%s is not %llu", names[i],
				 (unsigned long long)values[i]);
}

/* Compares values[1...] with the samples that have these names as a label. */
static void check_labels(const struct rdmamsg *ctx, const char *metric,
			 const char *label, const uint64_t *values,
			 const char *const *names, size_t n)
{
	char begin[64];

	(void)snprintf(begin, sizeof(begin), "rdmamsg_%s{", metric);
	assert_int_equal(samples_of(begin), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sample("rdmamsg_%s{context=\"%u\",%s=\"%s\"}",
					metric, ctx->number, label, names[i]),
				 values[1 + i]);
}

/* Compares each field of rdmamsg_get_stats() with its sample. */
static void check_counters(const struct rdmamsg *ctx)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };

	read_text(ctx);
	assert_int_equal(rdmamsg_get_stats(ctx, &s), 0);
	check_each(ctx, &s.msgs_sent, counters, NUMBER(counters));
	check_each(ctx, &s.connects_failed, more_counters,
		   NUMBER(more_counters));
	check_labels(ctx, "ends_total", "cause", s.ended, causes,
		     NUMBER(causes));
	check_labels(ctx, "ends_by_total", "who", s.ended_by, whos,
		     NUMBER(whos));
}

static void exchange(void)
{
	const struct iovec iov = { large, sizeof(large) };
	unsigned int sent = client.sent;

	assert_int_equal(rdmamsg_send(client.ep, "a", 1, 0, large), 0);
	assert_int_equal(rdmamsg_send(client.ep, large, 5000, 0, large), 0);
	assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 0, large), 0);
	WAIT_FOR(client.sent == sent + 3);
}

static void close_both(void)
{
	rdmamsg_msg_free(kept);
	kept = NULL;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	clear_ends();
}

static void counters__of_an_exchange_ARE_THOSE_OF_stats(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_ends(&opts);
	exchange();
	check_counters(client.ctx);
	assert_int_equal(sample("rdmamsg_messages_sent_total{context=\"0\"}"),
			 3);
	check_counters(server.ctx);
	assert_int_equal(sample("rdmamsg_received_bytes_total{context=\"1\"}"),
			 105001);
	assert_int_equal(sample("rdmamsg_messages_lent{context=\"1\"}"), 1);
	assert_int_equal(sample("rdmamsg_device_messages_lent{context=\"1\","
				"device=\"soft0\"}"), 1);
	assert_int_equal(sample("rdmamsg_device_endpoints{context=\"1\","
				"device=\"soft0\"}"), 1);
	assert_int_equal(sample("rdmamsg_device_info{context=\"1\","
				"device=\"soft0\",kind=\"soft\"}"), 1);
	assert_int_equal(sample("rdmamsg_device_removed{context=\"1\","
				"device=\"soft0\"}"), 0);
	assert_true(samples_of("rdmamsg_buffers_used{") > 1);
	assert_true(sample("rdmamsg_memory_used_bytes{context=\"1\","
			   "direction=\"receive\"}") > 0);
	assert_int_equal(sample("rdmamsg_build_info{context=\"1\","
				"version=\"%s\"}", rdmamsg_version()), 1);
	assert_int_equal(sample("rdmamsg_listener_accepted_total{context=\"1\","
				"listener=\"1\",port=\"%s\"}", service), 1);
	close_both();
}

static void ends__of_an_abort_ARE_LABELLED(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	connect_ends(&opts);
	check_counters(client.ctx);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && server.closed);
	check_counters(client.ctx);
	assert_int_equal(sample("rdmamsg_ends_total{context=\"0\","
				"cause=\"aborted\"}"), 1);
	assert_int_equal(sample("rdmamsg_ends_by_total{context=\"0\","
				"who=\"local\"}"), 1);
	check_counters(server.ctx);
	assert_int_equal(sample("rdmamsg_ends_by_total{context=\"1\","
				"who=\"peer\"}"), 1);
	close_both();
}

static void memory__without_a_limit_HAS_NO_SAMPLE_OF_ONE(void **state)
{
	struct rdmamsg_options o = { .size = sizeof(o) };
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, &o), 0);
	read_text(ctx);
	assert_int_equal(samples_of("rdmamsg_memory_limit_bytes{"), 2);
	rdmamsg_close(ctx);
	o.max_registered = SIZE_MAX / 2;
	assert_int_equal(rdmamsg_open(&ctx, &o), 0);
	read_text(ctx);
	assert_int_equal(samples_of("rdmamsg_memory_limit_bytes{"), 0);
	assert_int_equal(samples_of("rdmamsg_memory_used_bytes{"), 2);
	rdmamsg_close(ctx);
}

/* Sums of the endpoints' protection domains, not a sample for each. */
static void devices__of_guarded_endpoints_ARE_ADDED_UP(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.flags = RDMAMSG_EP_GUARD,
	};

	connect_ends(&opts);
	connect_client(&opts);
	WAIT_FOR(server.ctx->sessions && client.ep);
	exchange();
	check_counters(client.ctx);
	assert_int_equal(samples_of("rdmamsg_device_endpoints{"), 1);
	close_both();
}

static uint64_t retries(void)
{
	read_text(client.ctx);
	return sample("rdmamsg_device_retries_total{context=\"0\","
		      "device=\"soft0\"}");
}

static void lost__requests_ARE_SEEN_AS_RETRIES(void **state)
{
	const struct soft_ctl_faults f = { .drop = 100000, .seed = 3 };
	const struct soft_ctl_faults none = { 0 };
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = 60000, .tuning = TUNING(.ack_timeout = 8),
	};
	struct soft_ctl *ctl;
	uint64_t before;

	connect_ends(&opts);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	before = retries();
	exchange();
	assert_int_equal(retries(), before);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	for (int i = 0; i < 1000 && retries() == before; i++)
		exchange();
	assert_true(retries() > before);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &none), 0);
	soft_ctl_close(ctl);
	close_both();
}

/* ---- the manual -------------------------------------------------------- */

static char listed[METRICS][64];	/* metrics of the page */
static uint32_t listed_count;

static void read_page(void)
{
	FILE *page = fopen(PAGE, "r");
	char line[256];

	assert_non_null(page);
	listed_count = 0;
	while (fgets(line, sizeof(line), page)) {
		size_t len = strspn(line, NAME_CHARS);

		if (strncmp(line, "rdmamsg_", 8) || line[len] != '\t')
			continue;
		assert_true(listed_count < METRICS && len < 64);
		(void)snprintf(listed[listed_count++], 64, "%.*s", (int)len,
			       line);
	}
	(void)fclose(page);
}

static bool is_listed(const char *name)
{
	for (uint32_t i = 0; i < listed_count; i++)
		if (!strcmp(listed[i], name))
			return true;
	return false;
}

static bool is_printed(const char *name)
{
	for (uint32_t i = 0; i < parsed.name_count; i++)
		if (!strcmp(parsed.names[i], name))
			return true;
	return false;
}

/* The text has objects of all kinds. */
static void check_page(void)
{
	read_page();
	for (uint32_t i = 0; i < parsed.name_count; i++)
		if (!is_listed(parsed.names[i]))
			fail_msg("rdmamsg_stats_text(3) does not list %s",
				 parsed.names[i]);
	for (uint32_t i = 0; i < listed_count; i++)
		if (!is_printed(listed[i]))
			fail_msg("rdmamsg_stats_text(3) lists %s, and the text "
				 "does not have it", listed[i]);
	assert_int_equal(listed_count, parsed.name_count);
}

static void on_violation(struct rdmamsg_dc_target *target,
			 const struct sockaddr_storage *from)
{
	fail_msg("nobody sends with a wrong key");
}

static void objects__of_a_context_ARE_THOSE_OF_THEIR_CALLS(void **state)
{
	struct rdmamsg_pool_stats p = { .size = sizeof(p) };
	struct rdmamsg_srq_stats q = { .size = sizeof(q) };
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .comp_vector = 2,
	};
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = 7,
		.on_violation = on_violation,
	};
	struct rdmamsg_dc_target *target;
	struct rdmamsg_dc_sender *sender;
	struct rdmamsg_dc_address *address;
	struct rdmamsg_pool *pool, *other;
	struct rdmamsg_group *group;
	struct rdmamsg_msg *msg;
	struct rdmamsg_srq *srq;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_pool_create(client.ctx, NULL, &pool), 0);
	assert_int_equal(rdmamsg_pool_create(client.ctx, NULL, &other), 0);
	assert_int_equal(rdmamsg_srq_create(client.ctx, &so, &srq), 0);
	assert_int_equal(rdmamsg_group_join(client.ctx, "239.1.2.3", NULL,
					    &group), 0);
	assert_int_equal(rdmamsg_pool_alloc(other, client.ep, 3000, &msg), 0);
	check_counters(client.ctx);
	assert_int_equal(samples_of("rdmamsg_pool_buffers_used{"), 2);
	assert_int_equal(sample("rdmamsg_pool_buffers_used{context=\"0\","
				"pool=\"1\"}"), 0);
	assert_int_equal(rdmamsg_pool_get_stats(other, &p), 0);
	assert_true(p.bytes > 0);
	assert_int_equal(sample("rdmamsg_pool_registered_bytes{context=\"0\","
				"pool=\"2\"}"), p.bytes);
	assert_int_equal(sample("rdmamsg_pool_buffers_used{context=\"0\","
				"pool=\"2\"}"), 1);
	assert_int_equal(rdmamsg_srq_get_stats(srq, &q), 0);
	assert_int_equal(sample("rdmamsg_srq_private_bytes{context=\"0\","
				"srq=\"3\"}"), q.bytes_private);
	assert_int_equal(sample("rdmamsg_srq_comp_vector{context=\"0\","
				"srq=\"3\"}"), 2);
	assert_int_equal(sample("rdmamsg_srq_cq_entries{context=\"0\","
				"srq=\"3\"}"), q.cq_entries);
	assert_int_equal(sample("rdmamsg_group_joins_total{context=\"0\","
				"group=\"4\",address=\"239.1.2.3\"}"), 0);
	assert_int_equal(rdmamsg_dc_target_create(client.ctx, "127.0.0.1", "0",
						  &to, &target), 0);
	assert_int_equal(rdmamsg_dc_sender_create(client.ctx, NULL, &sender),
			 0);
	assert_int_equal(rdmamsg_dc_address_create(sender, "127.0.0.1", "1", 1,
						   NULL, &address), 0);
	assert_int_equal(rdmamsg_dc_send(address, "twelve bytes", 12, 0, NULL),
			 0);
	assert_int_equal(rdmamsg_dc_target_arm(target), 0);
	check_counters(client.ctx);
	assert_int_equal(sample("rdmamsg_dc_target_armed{context=\"0\","
				"target=\"5\",port=\"%u\"}",
				rdmamsg_dc_target_port(target)), 1);
	/* the target's listener is number 6 */
	assert_int_equal(sample("rdmamsg_dc_sender_addresses{context=\"0\","
				"sender=\"7\"}"), 1);
	assert_int_equal(sample("rdmamsg_dc_sender_connections{context=\"0\","
				"sender=\"7\"}"), 0);
	assert_int_equal(sample("rdmamsg_dc_sender_queued{context=\"0\","
				"sender=\"7\"}"), 1);
	assert_int_equal(sample("rdmamsg_dc_sender_queued_bytes{context=\"0\","
				"sender=\"7\"}"), 12);
	check_page();
	/* a number is not given again */
	rdmamsg_msg_free(msg);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	read_text(client.ctx);
	assert_int_equal(samples_of("rdmamsg_pool_buffers_used{"), 1);
	assert_int_equal(sample("rdmamsg_pool_buffers_used{context=\"0\","
				"pool=\"2\"}"), 0);
	close_both();
}

static void text__longer_than_the_buffer_IS_CUT_OFF(void **state)
{
	struct rdmamsg *ctx;
	char *cut;
	int len;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	read_text(ctx);
	len = rdmamsg_stats_text(ctx, NULL, 0);
	assert_int_equal(len, strlen(text));
	cut = malloc((size_t)len + 2);
	assert_non_null(cut);
	for (int size = 1; size <= len + 1; size++) {
		memset(cut, 'x', (size_t)len + 2);
		assert_int_equal(rdmamsg_stats_text(ctx, cut, (size_t)size),
				 len);
		assert_memory_equal(cut, text, size - 1);
		assert_int_equal(cut[size - 1], 0);
		assert_int_equal(cut[size], 'x');
	}
	free(cut);
	assert_int_equal(rdmamsg_stats_text(ctx, NULL, 1), -EINVAL);
	assert_int_equal(rdmamsg_stats_text(NULL, text, 1), -EINVAL);
	rdmamsg_close(ctx);
}

static void label__with_special_characters_IS_ESCAPED(void **state)
{
	static const struct metric m = { "some_total", "Some." };
	const uint64_t value = 7;
	char buf[256];
	struct prometheus p = { .buf = buf, .size = sizeof(buf) };

	rdmamsg__prometheus_metric(&p, "rdmamsg_", &m);
	rdmamsg__prometheus_sample(&p);
	rdmamsg__prometheus_label(&p, "name", "a\"b\\c\nd");
	rdmamsg__prometheus_value(&p, &value);
	parse(buf);
	assert_int_equal(sample("rdmamsg_some_total{context=\"0\","
				"name=\"a\\\"b\\\\c\\nd\"}"), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters__of_an_exchange_ARE_THOSE_OF_stats),
		cmocka_unit_test(ends__of_an_abort_ARE_LABELLED),
		cmocka_unit_test(
			memory__without_a_limit_HAS_NO_SAMPLE_OF_ONE),
		cmocka_unit_test(devices__of_guarded_endpoints_ARE_ADDED_UP),
		cmocka_unit_test(lost__requests_ARE_SEEN_AS_RETRIES),
		cmocka_unit_test(
			objects__of_a_context_ARE_THOSE_OF_THEIR_CALLS),
		cmocka_unit_test(text__longer_than_the_buffer_IS_CUT_OFF),
		cmocka_unit_test(label__with_special_characters_IS_ESCAPED),
	};

	join_own_fabric("stats-text");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
