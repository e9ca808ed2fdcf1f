/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: RDMAMSG_EP_CRC over the device: messages of all sizes in both
 * directions, over both connectors, with failover, and with memory that the
 * sender changes too early.
 */
#include "oob_pair.h"

#include <errno.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>

#define LARGE	((size_t)4 << 20)

static void ask(struct pair *p, uint32_t flags)
{
	p->c.opts.flags |= RDMAMSG_EP_CRC | flags;
	p->s.opts.flags |= RDMAMSG_EP_CRC | flags;
	p->c.tuning.max_copy = p->s.tuning.max_copy = LARGE;
}

static void send_sizes(struct pair *p, struct end *from)
{
	struct rdmamsg_ep_attr i = end_info(from);
	struct end *to = from->peer;
	const size_t sizes[] = {
		0, 1, 3, 4, 5, 64, i.inline_max, i.inline_max + 1, 4096,
		i.eager_max - 1, i.eager_max, i.eager_max + 1, 2 * i.eager_max,
		65535, 65536, i.pieces_max, i.pieces_max + 1, 1 << 20,
		LARGE - 1, LARGE,
	};

	assert_int_equal(i.crc, 1);
	for (size_t n = 0; n < ARRAY_SIZE(sizes); n++)
		for (enum how how = 0; how < HOW_COUNT; how++) {
			end_send_all(from, how, sizes[n], (uint32_t)n);
			end_send_all(from, how, sizes[n], 0x10000);
		}
	for (int k = 2; k <= RDMAMSG_SEGMENTS_MAX; k += 7)
		for (size_t n = 0; n < ARRAY_SIZE(sizes); n++) {
			int ret = end_sendv(from, k, sizes[n], 5);

			if (ret == -EAGAIN) {
				WAIT_FOR(from->writable);
				from->writable = 0;
				n--;
				continue;
			}
			assert_int_equal(ret, 0);
		}
	WAIT_FOR(to->received == to->expected_count);
}

static void both_ways(struct pair *p)
{
	send_sizes(p, &p->c);
	send_sizes(p, &p->s);
	pair_close(p);
	pair_fini(p);
}

static void messages__all_sizes_ARRIVE(void **state)
{
	struct pair p;

	pair_init(&p, NULL);
	ask(&p, 0);
	pair_listen(&p);
	pair_connect(&p);
	both_ways(&p);
}

static void messages__full_headers_ARRIVE(void **state)
{
	struct pair p;

	pair_init(&p, NULL);
	ask(&p, RDMAMSG_EP_FULL_HEADERS);
	pair_listen(&p);
	pair_connect(&p);
	both_ways(&p);
}

static void messages__shared_receives_ARRIVE(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 128,
	};
	const struct rdmamsg_options o = { .size = sizeof(o), .srq = &so };
	struct pair p;

	pair_init(&p, &o);
	ask(&p, 0);
	pair_listen(&p);
	pair_connect(&p);
	both_ways(&p);
}

static void messages__without_the_CM_ARRIVE(void **state)
{
	struct pair p;

	skip_on_iwarp(NO_OOB);
	oob_init(&p);
	ask(&p, 0);
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	both_ways(&p);
}

static void messages__failover_ARRIVE(void **state)
{
	static const struct rdmamsg_failover lanes = {
		.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
	};
	struct pair p;

	pair_init(&p, NULL);
	ask(&p, 0);
	p.c.opts.failover = p.s.opts.failover = &lanes;
	pair_listen(&p);
	pair_connect(&p);
	both_ways(&p);
}

/*
 * The sender announces a message and changes it before the peer has read it:
 * the receiver is in the same thread, so it has not.
 */
static void message__changed_too_early_ENDS(void **state)
{
	static uint8_t memory[1 << 20];
	const struct iovec iov = { memory, sizeof(memory) };
	struct pair p;

	pair_init(&p, NULL);
	ask(&p, 0);
	p.c.tuning.pieces_max = p.s.tuning.pieces_max = RDMAMSG_NONE;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(rdmamsg_sendv(p.c.ep, &iov, 1, 1, NULL), 0);
	memory[12345]++;
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.s.received, 0);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CRC);
	assert_int_equal(p.s.why.error, -EBADMSG);
	pair_fini(&p);
}

static void crc__only_the_client_asks_REFUSED(void **state)
{
	struct pair p;

	pair_init(&p, NULL);
	p.c.opts.flags = RDMAMSG_EP_CRC;
	pair_listen(&p);
	p.c.opts.user = &p.c;
	assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), p.port,
					 &p.c.opts, NULL), 0);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_VERSION);
	assert_int_equal(p.c.why.error, -EPROTONOSUPPORT);
	assert_non_null(strstr(p.c.why.text, "RDMAMSG_EP_CRC"));
	pair_fini(&p);
}

static struct rdmamsg_request *request;

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	request = req;
}

/* The program of the server learns it, and the client as well. */
static void crc__only_the_server_asks_REFUSED(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on,
	};
	struct rdmamsg_listener *l;
	struct pair p;

	pair_init(&p, NULL);
	p.s.opts.flags = RDMAMSG_EP_CRC;
	request = NULL;
	assert_int_equal(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, &l), 0);
	assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(),
					 listener_service(l, p.port),
					 &p.c.opts, NULL), 0);
	WAIT_FOR(request);
	assert_error(rdmamsg_request_accept(request, &p.s.opts, NULL),
		     -EPROTONOSUPPORT, "RDMAMSG_EP_CRC");
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_VERSION);
	assert_non_null(strstr(p.c.why.text, "the peer asks for a CRC"));
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(messages__all_sizes_ARRIVE),
		TEST(messages__full_headers_ARRIVE),
		TEST(messages__shared_receives_ARRIVE),
		TEST(messages__without_the_CM_ARRIVE),
		TEST(messages__failover_ARRIVE),
		TEST(message__changed_too_early_ENDS),
		TEST(crc__only_the_client_asks_REFUSED),
		TEST(crc__only_the_server_asks_REFUSED),
	};

	return test_main(tests, NULL, argc, argv);
}
