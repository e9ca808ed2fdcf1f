/* SPDX-License-Identifier: BSD-2-Clause */
/* Values that both sides exchange: private data, options, depths. */
#include "common.h"
#include "request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>

static struct pair p;

/* ---- data ------------------------------------------------------------- */

static uint8_t hello_seen[RDMAMSG_HELLO_DATA_MAX];
static size_t hello_seen_len;
static struct sockaddr_storage peer_seen, local_seen;

static void look_and_accept(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	const void *data = rdmamsg_request_data(req, &hello_seen_len);

	memcpy(hello_seen, data, hello_seen_len);
	if (rdmamsg_request_addrs(req, &local_seen, &peer_seen))
		note("rdmamsg_request_addrs: %s", rdmamsg_error());
	if (rdmamsg_request_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void check_peer_data(const struct end *e, size_t len, uint32_t tag)
{
	size_t got = 1;
	const void *data = rdmamsg_ep_peer_data(e->ep, &got);

	assert_int_equal(got, len);
	if (len)
		assert_memory_equal(data, pattern(tag), len);
}

static void data__both_ways_ARRIVES(void **state)
{
	static const size_t lens[][3] = {
		/* lengths: hello, setup of the client, setup of the server */
		{ 0, 0, 0 }, { 1, 1, 0 }, { 5, 0, 1 }, { 32, 4096, 4096 },
		{ 31, 4095, 17 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(lens); n++) {
		static const struct rdmamsg_listener_handlers on = {
			.size = sizeof(on), .on_request = look_and_accept,
		};
		struct rdmamsg_listen_options opts = {
			.size = sizeof(opts), .handlers = &on,
		};
		struct sockaddr_in *peer = (struct sockaddr_in *)&peer_seen;
		struct sockaddr_in *local = (struct sockaddr_in *)&local_seen;

		pair_init(&p, NULL);
		p.c.opts.hello_data = pattern(1);
		p.c.opts.hello_data_len = lens[n][0];
		p.c.opts.setup_data = pattern(2);
		p.c.opts.setup_data_len = lens[n][1];
		p.s.opts.setup_data = pattern(3);
		p.s.opts.setup_data_len = lens[n][2];
		if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts,
				   &p.listener))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		listener_service(p.listener, p.port);
		pair_connect(&p);
		assert_int_equal(hello_seen_len, lens[n][0]);
		if (hello_seen_len)
			assert_memory_equal(hello_seen, pattern(1),
					    hello_seen_len);
		assert_int_equal(peer->sin_family, AF_INET);
		assert_string_equal(inet_ntoa(peer->sin_addr), test_addr());
		assert_int_equal(local->sin_family, AF_INET);
		assert_string_equal(inet_ntoa(local->sin_addr), test_addr());
		assert_int_equal(ntohs(local->sin_port),
				 rdmamsg_listener_port(p.listener));
		check_peer_data(&p.s, lens[n][1], 2);
		check_peer_data(&p.c, lens[n][2], 3);
		pair_close(&p);
		pair_fini(&p);
	}
}

static void data__too_long_or_missing_EINVAL(void **state)
{
	static const struct {
		size_t hello, setup;
		const char *word;
	} cases[] = {
		{ 33, 0, "hello_data_len" }, { 0, 4097, "setup_data_len" },
	};
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	opts.ep = &p.c.opts;
	for (int missing = 0; missing < 2; missing++)
		for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
			p.c.opts.hello_data = p.c.opts.setup_data =
				missing ? NULL : pattern(0);
			p.c.opts.hello_data_len = cases[n].hello - 2 * missing *
						  !!cases[n].hello;
			p.c.opts.setup_data_len = cases[n].setup - 2 * missing *
						  !!cases[n].setup;
			assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1",
						     &p.c.opts, &ep),
				     -EINVAL, cases[n].word);
			assert_error(rdmamsg_listen(p.s.ctx, NULL, "0", &opts,
						    &l), -EINVAL,
				     cases[n].word);
		}
	pair_fini(&p);
}

/* ---- options ---------------------------------------------------------- */

static void options__out_of_range_NAME_THE_FIELD(void **state)
{
	static const struct {
		size_t offset;
		uint32_t value;
		bool tuned;
		const char *name;
	} cases[] = {
#define CASE(field, value) \
	{ offsetof(struct rdmamsg_ep_options, field), (value), false, #field }
#define TUNED(field, value) \
	{ offsetof(struct rdmamsg_ep_tuning, field), (value), true, #field }
		CASE(flags, 0x80), CASE(max_msg_size, 0x80000000u),
		CASE(send_queue, 65537), CASE(dead_after_ms, 1),
		CASE(timeout_ms, 86400001), CASE(close_timeout_ms, 86400001),
		TUNED(max_copy, 0x80000000u), TUNED(inline_max, 513),
		TUNED(eager_max, (1 << 20) + 1), TUNED(recv_depth, 65537),
		TUNED(send_depth, 65537), TUNED(stall_after_ms, 1),
		TUNED(peer_timeout_ms, 1), TUNED(ack_timeout, 32),
		TUNED(retry_count, 8), TUNED(rnr_retry_count, 8),
		TUNED(min_rnr_timer, 32), TUNED(responder_resources, 256),
		TUNED(initiator_depth, 256), TUNED(tos, 256),
#undef CASE
#undef TUNED
	};
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		struct rdmamsg_ep_options o = p.c.opts;
		struct rdmamsg_ep_tuning t = p.c.tuning;
		void *in = cases[n].tuned ? (void *)&t : (void *)&o;

		*(uint32_t *)((char *)in + cases[n].offset) = cases[n].value;
		o.tuning = &t;
		opts.ep = &o;
		assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &o,
					     &ep), -EINVAL, cases[n].name);
		assert_error(rdmamsg_listen(p.s.ctx, NULL, "0", &opts, &l),
			     -EINVAL, cases[n].name);
	}
	p.c.opts.size = 3;
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -EINVAL, "size");
	assert_error(rdmamsg_connect(p.c.ctx, NULL, "1", NULL, &ep), -EINVAL,
		     "host");
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), NULL, NULL, &ep),
		     -EINVAL, "service");
	assert_error(rdmamsg_connect(NULL, test_addr(), "1", NULL, &ep),
		     -EINVAL, "context");
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "nosuch", NULL, &ep),
		     -EINVAL, "nosuch");
	pair_fini(&p);
}

static void options__beyond_the_device_SAY_ITS_LIMIT(void **state)
{
	struct rdmamsg_device_attr d = { .size = sizeof(d) };
	char limit[16];

	assert_true(rdmamsg_devices(&d, sizeof(d), 1) >= 1);
	if (d.max_qp_wr >= 65536 && d.max_cqe >= 65536)
		skip_because("the device takes any depth");
	snprintf(limit, sizeof(limit), "%u", d.max_qp_wr < 65536 ?
		 d.max_qp_wr : d.max_cqe);
	pair_init(&p, NULL);
	pair_listen(&p);
	p.c.tuning.recv_depth = 65536;
	p.c.opts.max_msg_size = 100;
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_non_null(strstr(p.c.why.text, limit));
	assert_int_equal(p.c.why.error, -EINVAL);
	pair_fini(&p);
}

static void info__depths_ARE_CLAMPED_AND_AGREED(void **state)
{
	struct rdmamsg_device_attr d = { .size = sizeof(d) };
	struct rdmamsg_ep_attr c, s;
	struct sockaddr_in *a;

	assert_true(rdmamsg_devices(&d, sizeof(d), 1) >= 1);
	pair_init(&p, NULL);
	p.c.tuning.initiator_depth = 255;
	p.c.tuning.responder_resources = 255;
	p.s.tuning.initiator_depth = 255;
	p.s.tuning.responder_resources = 4;
	p.s.opts.max_msg_size = 12345;
	p.c.tuning.recv_depth = 7;
	p.c.tuning.tos = 32;
	pair_listen(&p);
	pair_connect(&p);
	c = end_info(&p.c);
	s = end_info(&p.s);
	/* siw answers as many as the peer asks for (siw_accept()) */
	assert_in_range(c.initiator_depth, 1, test_on_siw() ?
			d.max_read_initiator : 4);
	assert_in_range(s.initiator_depth, 1, d.max_read_initiator);
	assert_in_range(c.responder_resources, 1, d.max_read_responder);
	assert_int_equal(s.responder_resources, 4);
	assert_int_equal(c.max_send, 12345);
	assert_int_equal(c.recv_depth, 7);
	assert_int_equal(s.send_credits, 7);
	assert_int_equal(c.send_credits, 64);
	/* MPA does not carry the number */
	assert_int_equal(s.peer_qp_num, test_iwarp() ? 0 : c.qp_num);
	assert_int_equal(c.peer_qp_num, test_iwarp() ? 0 : s.qp_num);
	assert_memory_equal(c.session, s.session, sizeof(c.session));
	assert_int_equal(c.version, 2);
	assert_int_equal(c.mtu, 4096);
	assert_int_equal(c.port, 1);
	assert_string_equal(c.device, test_device());
	assert_true(c.max_inline_data >= c.inline_max);
	a = (struct sockaddr_in *)&c.peer;
	assert_int_equal(ntohs(a->sin_port), atoi(p.port));
	assert_string_equal(inet_ntoa(a->sin_addr), test_addr());
	a = (struct sockaddr_in *)&s.local;
	assert_int_equal(ntohs(a->sin_port), atoi(p.port));
	a = (struct sockaddr_in *)&c.local;
	assert_memory_equal(&a->sin_port,
			    &((struct sockaddr_in *)&s.peer)->sin_port, 2);
	pair_close(&p);
	pair_fini(&p);
}

static void info__before_connected_IS_ZERO(void **state)
{
	struct rdmamsg_ep_attr i;

	pair_init(&p, NULL);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_name(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	i = end_info(&p.c);
	assert_int_equal(i.qp_num, 0);
	assert_int_equal(i.max_send, 0);
	assert_string_equal(i.device, "");
	assert_string_equal(rdmamsg_ep_device_name(p.c.ep), "");
	assert_null(rdmamsg_ep_peer_data(p.c.ep, NULL));
	assert_int_equal(rdmamsg_ep_reason(p.c.ep)->cause, RDMAMSG_CAUSE_NONE);
	assert_int_equal(rdmamsg_ep_reason(p.c.ep)->who, RDMAMSG_WHO_NONE);
	assert_int_equal(rdmamsg_ep_reason(p.c.ep)->error, 0);
	assert_true(rdmamsg_ep_reason(p.c.ep)->text[0]);
	assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTING);
	assert_ptr_equal(rdmamsg_ep_ctx(p.c.ep), p.c.ctx);
	pair_exchange(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(data__both_ways_ARRIVES),
		TEST(data__too_long_or_missing_EINVAL),
		TEST(options__out_of_range_NAME_THE_FIELD),
		TEST(options__beyond_the_device_SAY_ITS_LIMIT),
		TEST(info__depths_ARE_CLAMPED_AND_AGREED),
		TEST(info__before_connected_IS_ZERO),
	};

	return test_main(tests, NULL, argc, argv);
}
