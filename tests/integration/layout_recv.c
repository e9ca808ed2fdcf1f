/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that the server receives in a layout. */
#include "layout_board.h"
#include "../post.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/memory.h>

#include <signal.h>

#define EAGER_LEAST	8176u	/* longer messages are announced */
#define GAP		0xee	/* bytes that the layout does not have */

/* on_incoming does this, and tells what it has seen. */
static struct {
	struct rdmamsg_layout *layout;
	uint64_t offset;
	void (*then)(struct rdmamsg_ep *ep);
	bool elsewhere;		/* after an error, in the library's memory */
	unsigned int asked;
	int ret;
	char text[256];
} in;

/* The last message that has come. */
static struct {
	const uint8_t *data;
	size_t len;
	uint32_t tag, operations;
} came;

static uint32_t operations(const struct rdmamsg_layout *l)
{
	struct rdmamsg_layout_attr info = { .size = sizeof(info) };

	if (rdmamsg_layout_query(l, &info))
		note("rdmamsg_layout_query: %s", rdmamsg_error());
	return info.operations;
}

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	in.asked++;
	in.ret = rdmamsg_layout_recv(ep, in.layout, in.offset);
	if (in.ret)
		snprintf(in.text, sizeof(in.text), "%s", rdmamsg_error());
	if (in.then)
		in.then(ep);
	return in.elsewhere ? 0 : in.ret;
}

static void on_arrived(struct end *e, struct rdmamsg_msg *msg)
{
	came.data = rdmamsg_msg_data(msg);
	came.len = rdmamsg_msg_len(msg);
	came.tag = rdmamsg_msg_tag(msg);
	if (in.layout)
		came.operations = operations(in.layout);
	if (came.data && !in.elsewhere &&
	    rdmamsg_layout_copy_in(in.layout, in.offset, came.data, came.len))
		note("rdmamsg_layout_copy_in: %s", rdmamsg_error());
	if (came.data && memcmp(came.data, near, came.len))
		note("message %u has other bytes", came.tag);
	rdmamsg_msg_free(msg);
}

static struct rdmamsg_region *whole;	/* all of far */

static void recv_open(uint32_t flags)
{
	memset(&in, 0, sizeof(in));
	memset(&came, 0, sizeof(came));
	rma_open(NULL);
	p.s.on.on_incoming = on_incoming;
	p.s.then_message = on_arrived;
	p.s.expect_nothing = true;
	p.c.tuning.eager_max = EAGER_LEAST;
	p.c.opts.flags |= flags;
	p.s.opts.flags |= flags;
	rma_start();
	board_init(&mine, &p.c, near);
	board_init(&theirs, &p.s, far);
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, ANY, &whole),
			 0);
	fill(near, ROOM, 1);
	memset(far, GAP, ROOM);
}

static void recv_fini(void)
{
	board_clear(&theirs);
	assert_int_equal(rdmamsg_region_destroy(whole), 0);
	boards_fini();
}

static void recv_close(void)
{
	/* the cases check all that has come, and all that has failed */
	p.c.sent -= p.c.sent_failed;
	p.s.received = p.c.sent_failed = 0;
	texts_are_fine = false;
	pair_close(&p);
	recv_fini();
}

/* Sends the first bytes of near, in one piece. */
static struct cookie *send_near(size_t len, uint32_t tag)
{
	const struct iovec v = { near, len };
	struct cookie *c = cookie();

	UNTIL_POSTED(rdmamsg_sendv(p.c.ep, &v, 1, tag, c));
	return c;
}

/* Sends a message, and waits until the server has it. */
static void send_one(size_t len, uint32_t tag)
{
	const size_t received = p.s.received;
	struct cookie *c = send_near(len, tag);

	WAIT_FOR(p.s.received > received && c->count);
	assert_int_equal(c->status, 0);
	assert_int_equal(came.len, len);
	assert_int_equal(came.tag, tag);
	assert_int_equal(came.operations, 0);
}

/* A layout of one column of 'far'. */
static struct rdmamsg_layout *add_column(uint64_t offset, uint64_t len,
					 uint64_t count, uint64_t row)
{
	struct rdmamsg_layout_part part;

	column(&part, whole, offset, len, count, row);
	return board_add(&theirs, &part, 1, 1);
}

/* ---- all kinds and sizes ----------------------------------------------- */

#define OFFSET	5u	/* of the message in the layout */

static void make_list(void)
{
	struct rdmamsg_layout_part parts[1200];

	for (uint32_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i] = (struct rdmamsg_layout_part){
			.region = whole, .len = 1000,
			.offset = 1010ull * (ARRAY_SIZE(parts) - i),
		};
	(void)board_add(&theirs, parts, ARRAY_SIZE(parts), 1);
}

static size_t in_list(size_t i)
{
	return 1010 * (1200 - i / 1000) + i % 1000;
}

static void make_grid(void)
{
	const struct rdmamsg_layout_part part = {
		.region = whole, .offset = 3, .len = 7, .dims = 2,
		.count = { 2000, 100 }, .stride = { 1305, 13 },
	};

	(void)board_add(&theirs, &part, 1, 1);
}

static size_t in_grid(size_t i)
{
	return 3 + i / 700 * 1305 + i % 700 / 7 * 13 + i % 7;
}

static void make_interleaved(void)
{
	const struct rdmamsg_layout_part parts[2] = {
		{ .region = whole, .len = 30, .step = 64, },
		{ .region = whole, .offset = 40, .len = 15, .step = 64, },
	};

	(void)board_add(&theirs, parts, 2, 30000);
}

static size_t in_interleaved(size_t i)
{
	return i / 45 * 64 + i % 45 + (i % 45 < 30 ? 0 : 10);
}

static void make_nested(void)
{
	struct rdmamsg_layout_part part = {
		.region = rdmamsg_layout_region(add_column(1, 40, 60000, 80)),
		.offset = 2, .len = 60, .dims = 1, .count = { 20000 },
		.stride = { 100 },
	};

	(void)board_add(&theirs, &part, 1, 1);
}

static size_t in_nested(size_t i)
{
	const size_t inner = 2 + i / 60 * 100 + i % 60;

	return 1 + inner / 40 * 80 + inner % 40;
}

static void make_bytes(void)
{
	(void)add_column(9, 1, 100000, 2);
}

static size_t in_bytes(size_t i)
{
	return 9 + 2 * i;
}

static const struct kind {
	const char *name;
	void (*make)(void);
	size_t (*place)(size_t i);	/* of a byte of the layout, in far */
	size_t most;
	size_t most_siw;	/* each block is a read, and a round trip */
} kinds[] = {
	{ "list", make_list, in_list, ROOM, ROOM },
	{ "grid", make_grid, in_grid, ROOM, 65536 },
	{ "interleaved", make_interleaved, in_interleaved, ROOM, 65536 },
	{ "nested", make_nested, in_nested, ROOM, 65536 },
	{ "single bytes", make_bytes, in_bytes, 65536, 8193 },
};

static const size_t sizes[] = {
	0, 1, 4096, EAGER_LEAST, EAGER_LEAST + 1, 8193, 65536, (1 << 20) + 3,
};

static void receive_kind(const struct kind *k, size_t len)
{
	struct rdmamsg_stats was = end_stats(&p.s), is;
	const bool announced = len > end_info(&p.c).eager_max;
	const unsigned int asked = in.asked;
	uint8_t *want = malloc(ROOM);

	memset(far, GAP, ROOM);
	memset(want, GAP, ROOM);
	for (size_t i = 0; i < len; i++)
		want[k->place(OFFSET + i)] = near[i];
	send_one(len, (uint32_t)len);
	is = end_stats(&p.s);
	if (memcmp(far, want, ROOM))
		fail_msg("%zu bytes into a layout: %s", len, k->name);
	assert_int_equal(in.asked - asked, announced);
	assert_int_equal(!came.data, announced);
	assert_int_equal(is.received_rendezvous - was.received_rendezvous,
			 announced);
	assert_int_equal(is.bytes_copied, was.bytes_copied);
	free(want);
}

void recv__each_kind_and_size_IN_THE_BLOCKS(void **state)
{
	for (uint32_t flags = 0; flags <= RDMAMSG_EP_CRC;
	     flags += RDMAMSG_EP_CRC) {
		recv_open(flags);
		in.offset = OFFSET;
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			const size_t most = test_on_siw() ? kinds[i].most_siw :
					    kinds[i].most;

			kinds[i].make();
			in.layout = last(&theirs);
			for (size_t k = 0; k < ARRAY_SIZE(sizes); k++)
				if (sizes[k] <= most)
					receive_kind(&kinds[i], sizes[k]);
			board_clear(&theirs);
		}
		recv_close();
	}
}

/* ---- random layouts ---------------------------------------------------- */

/* Each byte of the model stands for 'scale' bytes. */
static void add_scaled(const struct model *m, uint64_t scale)
{
	for (uint32_t i = 0; i < m->layouts; i++) {
		const struct model_layout *from = &m->layout[i];
		struct rdmamsg_layout_part part[MODEL_PARTS] = { 0 };

		for (uint32_t k = 0; k < from->parts; k++) {
			const struct model_part *q = &from->part[k];

			part[k].region = whole;
			part[k].offset = q->offset * scale;
			part[k].len = q->len * scale;
			part[k].step = q->step * scale;
			part[k].dims = q->dims;
			if (q->nested)
				part[k].region = rdmamsg_layout_region(
					theirs.layout[q->index]);
			else
				part[k].offset += q->index * MODEL_REGION *
						  scale;
			for (uint32_t d = 0; d < q->dims; d++) {
				part[k].count[d] = q->count[d];
				part[k].stride[d] = q->stride[d] * scale;
			}
		}
		(void)board_add(&theirs, part, from->parts, from->rounds);
	}
}

/* Messages into the layout have up to all of its bytes. */
static void receive_random(struct model *m, uint32_t number, uint8_t *want)
{
	const struct model_layout *l = model_last(m);
	const uint32_t scale = EAGER_LEAST / l->len + 1 + model_random(m, 40);
	const uint32_t most = l->len * scale;
	const uint32_t len = EAGER_LEAST + 1 +
			     model_random(m, most - EAGER_LEAST);
	const size_t used = (size_t)MODEL_REGIONS * MODEL_REGION * scale;

	if (used > ROOM)
		return;
	add_scaled(m, scale);
	in.layout = last(&theirs);
	in.offset = model_random(m, most - len + 1);
	fill(near, len, number);
	memset(far, GAP, used);
	memset(want, GAP, used);
	for (uint32_t i = 0; i < len; i++) {
		const uint32_t at = (uint32_t)in.offset + i;
		const struct model_place *to = &l->at[at / scale];

		want[((size_t)to->region * MODEL_REGION + to->offset) * scale +
		     at % scale] = near[i];
	}
	send_one(len, number);
	if (memcmp(far, want, used))
		fail_msg("layout %u: %u bytes from %u on", number, len,
			 (uint32_t)in.offset);
	board_clear(&theirs);
}

void recv__into_random_layouts_AS_COPIED_BYTE_BY_BYTE(void **state)
{
	uint8_t *want = malloc(ROOM);
	static struct model m;

	recv_open(0);
	for (uint32_t i = 0; i < 500; i++) {
		model_make(&m, i);
		receive_random(&m, i, want);
	}
	assert_true(in.asked > 250);
	free(want);
	recv_close();
}

/* A message out of one layout into another. */
void recv__what_a_layout_has_sent_IN_THE_BLOCKS(void **state)
{
	struct rdmamsg_layout_part part;
	const uint64_t len = 60000;
	struct rdmamsg_layout *from_layout;

	recv_open(0);
	column(&part, near_region, 3, 6000, 10, 7001);
	from_layout = layout_new(p.c.ctx, 0);
	assert_int_equal(rdmamsg_layout_define(from_layout, &part, 1, 1), 0);
	in.layout = add_column(11, 100, 700, 333);
	for (uint32_t way = 0; way < 2; way++) {
		const uint64_t from = way;	/* in the first block */

		assert_int_equal(post_layout(p.c.ep, from_layout, from,
					     len - from, way, cookie()),
				 0);
		WAIT_FOR(p.s.received == way + 1);
		for (uint64_t i = 0; i < len - from; i++)
			assert_int_equal(far[11 + i / 100 * 333 + i % 100],
					 near[3 + (from + i) / 6000 * 7001 +
					      (from + i) % 6000]);
	}
	assert_int_equal(in.asked, 2);
	assert_int_equal(end_stats(&p.s).bytes_copied, 0);
	WAIT_FOR(p.c.sent_ok == 2);
	assert_int_equal(rdmamsg_layout_destroy(from_layout), 0);
	recv_close();
}

/* ---- what is refused --------------------------------------------------- */

#define LEN	20000u

/* on_incoming returns the error, so the message is refused. */
static void expect_not_received(struct rdmamsg_layout *l, uint64_t offset,
				int error, const char *word)
{
	const size_t received = p.s.received;
	struct cookie *c;

	in.layout = l;
	in.offset = offset;
	in.elsewhere = false;
	c = send_near(LEN, 0);
	wait_cookie(c, -ECANCELED);
	assert_int_equal(in.ret, error);
	if (!strstr(in.text, word))
		fail_msg("no '%s' in '%s'", word, in.text);
	assert_int_equal(p.s.received, received);
}

/* The program ignores the error, so the message is in other memory. */
static void expect_elsewhere(struct rdmamsg_layout *l)
{
	in.elsewhere = true;
	in.layout = l;
	in.offset = 11;
	send_one(LEN, 4);
	assert_int_equal(in.ret, -ERANGE);
	assert_non_null(came.data);
	in.elsewhere = false;
}

void recv__into_what_cannot_be_REFUSED(void **state)
{
	struct rdmamsg_layout_part part;
	struct rdmamsg_layout *good, *l;
	size_t failed;

	recv_open(0);
	texts_are_fine = true;
	good = add_column(0, 10, LEN / 10 + 1, 30);
	expect_not_received(NULL, 0, -EINVAL, "NULL");
	l = layout_new(p.s.ctx, ANY);
	expect_not_received(l, 0, -EINVAL, "not defined");
	assert_int_equal(rdmamsg_layout_destroy(l), 0);

	l = layout_new(p.s.ctx, RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE);
	column(&part, whole, 0, LEN, 2, LEN);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	expect_not_received(l, 0, -EACCES, "RDMAMSG_ACCESS_LOCAL_WRITE");
	assert_int_equal(operations(l), 0);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);

	expect_not_received(good, 11, -ERANGE, "bytes");
	expect_not_received(good, UINT64_MAX, -ERANGE, "bytes");
	assert_int_equal(operations(good), 0);

	column(&part, mine.region[0], 0, 10, 1, 0);
	expect_not_received(board_add(&mine, &part, 1, 1), 0, -EINVAL,
			    "another context");
	failed = p.c.sent_failed;
	expect_elsewhere(good);
	assert_int_equal(p.c.sent_failed, failed);

	/* the connection goes on */
	in.offset = 10;
	send_one(LEN, 6);
	assert_null(came.data);
	for (uint32_t i = 0; i < LEN; i++)
		assert_int_equal(far[(i + 10) / 10 * 30 + i % 10], near[i]);
	assert_error(rdmamsg_layout_recv(p.s.ep, good, 0), -EINVAL,
		     "on_incoming");
	assert_error(rdmamsg_layout_recv(NULL, good, 0), -EINVAL, "NULL");
	recv_close();
}

/* A message in a layout cannot be forwarded as it is. */
static void forward(struct end *e, struct rdmamsg_msg *msg)
{
	came.data = rdmamsg_msg_data(msg);
	came.len = rdmamsg_msg_len(msg);
	if (rdmamsg_msg_send(e->ep, msg, 0, NULL) != -EINVAL ||
	    !strstr(rdmamsg_error(), "rdmamsg_post()"))
		note("forwarding a message of a layout: %s", rdmamsg_error());
	if (rdmamsg_msg_set_len(msg, came.len + 1) != -EINVAL ||
	    rdmamsg_msg_set_len(msg, 1) || rdmamsg_msg_len(msg) != 1)
		note("the length of a message of a layout");
	rdmamsg_msg_free(msg);
}

void recv__and_forward_EINVAL(void **state)
{
	recv_open(0);
	texts_are_fine = true;
	p.s.then_message = forward;
	in.layout = add_column(0, 10, LEN, 30);
	(void)send_near(LEN, 0);
	WAIT_FOR(p.s.received);
	assert_null(came.data);
	assert_int_equal(came.len, LEN);
	recv_close();
}

static struct rdmamsg_chain *chain;
static struct rdmamsg_chain_end chain_end;
static uint8_t chained[LEN];

static void on_done(struct rdmamsg_chain *c,
		    const struct rdmamsg_chain_end *end)
{
	chain_end = *end;
}

/* In on_incoming, after the layout: a chain takes the endpoint's messages. */
static void make_chain(struct rdmamsg_ep *ep)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	static const struct rdmamsg_chain_options o = {
		.size = sizeof(o), .handlers = &on,
	};

	in.then = NULL;
	if (rdmamsg_chain_create(p.s.ctx, &o, &chain) ||
	    rdmamsg_chain_recv(chain, 0, ep, chained, LEN, 0))
		note("%s", rdmamsg_error());
}

void recv__for_a_chain_EINVAL(void **state)
{
	struct rdmamsg_layout *l;
	struct cookie *c;

	recv_open(0);
	texts_are_fine = true;
	memset(&chain_end, 0, sizeof(chain_end));
	l = add_column(0, 10, LEN, 30);
	in.layout = l;
	in.then = make_chain;
	c = send_near(LEN, 0);
	wait_cookie(c, 0);
	assert_int_equal(in.ret, 0);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	WAIT_FOR(chain_end.size);
	assert_int_equal(chain_end.status, -EINVAL);
	assert_non_null(strstr(chain_end.text, "rdmamsg_layout_recv()"));
	assert_int_equal(operations(l), 0);
	expect_not_received(l, 0, -EINVAL, "chains");
	rdmamsg_chain_destroy(chain);
	recv_close();
}

/* ---- a layout in use --------------------------------------------------- */

static struct rdmamsg_layout *inner, *other;

static void note_busy(int ret, const char *what)
{
	if (ret != -EBUSY)
		note("%s: %d, %s", what, ret, rdmamsg_error());
}

/* In on_incoming: the layout cannot change any more. */
static void check_busy(struct rdmamsg_ep *ep)
{
	struct rdmamsg_layout_part part;

	column(&part, whole, 0, 1, LEN, 3);
	note_busy(rdmamsg_layout_define(in.layout, &part, 1, 1), "define");
	note_busy(rdmamsg_layout_invalidate(in.layout), "invalidate");
	note_busy(rdmamsg_layout_destroy(in.layout), "destroy");
	note_busy(rdmamsg_layout_invalidate(inner), "invalidate the inner one");
	note_busy(rdmamsg_region_revoke(whole), "revoke");
	if (operations(in.layout) != 1)
		note("%u operations in on_incoming", operations(in.layout));
}

static void check_idle(struct end *e, struct rdmamsg_msg *msg)
{
	on_arrived(e, msg);
	if (rdmamsg_layout_invalidate(in.layout) ||
	    rdmamsg_layout_invalidate(inner))
		note("invalidate in on_message: %s", rdmamsg_error());
}

void recv__until_on_message_BUSY(void **state)
{
	struct rdmamsg_layout_part part;

	recv_open(0);
	texts_are_fine = true;
	inner = add_column(0, 10, LEN, 30);
	part = (struct rdmamsg_layout_part){
		.region = rdmamsg_layout_region(inner), .len = LEN,
	};
	in.layout = board_add(&theirs, &part, 1, 1);
	in.then = check_busy;
	p.s.then_message = check_idle;
	send_one(LEN, 0);
	assert_null(came.data);
	recv_close();
}

/* The last of several calls counts. */
static void change_mind(struct rdmamsg_ep *ep)
{
	if (rdmamsg_layout_recv(ep, in.layout, 0) ||
	    operations(in.layout) != 1 ||
	    rdmamsg_layout_recv(ep, other, 7) ||
	    operations(in.layout) || operations(other) != 1)
		note("a second layout: %s", rdmamsg_error());
	if (rdmamsg_layout_recv(ep, in.layout, UINT64_MAX) != -ERANGE ||
	    operations(other) != 1)
		note("a third layout: %s", rdmamsg_error());
}

void recv__into_a_second_layout_IN_THE_LAST(void **state)
{
	recv_open(0);
	texts_are_fine = true;
	in.layout = add_column(0, 1, 2 * LEN, 2);
	other = add_column(1, 1, 2 * LEN, 2);
	in.then = change_mind;
	send_one(LEN, 0);
	for (uint32_t i = 0; i < LEN; i++) {
		assert_int_equal(far[2 * i], GAP);
		assert_int_equal(far[1 + 2 * (i + 7)], near[i]);
	}
	assert_int_equal(operations(other), 0);
	recv_close();
}

/* on_incoming names a layout, and then refuses the message all the same. */
static void refuse(struct rdmamsg_ep *ep)
{
	if (in.ret || operations(in.layout) != 1)
		note("%s", in.text);
	in.ret = -EPERM;
}

void recv__and_refuse_NOT_IN_USE(void **state)
{
	struct cookie *c;

	recv_open(0);
	in.layout = add_column(0, 10, LEN, 30);
	in.then = refuse;
	c = send_near(LEN, 0);
	wait_cookie(c, -ECANCELED);
	assert_int_equal(operations(in.layout), 0);
	for (uint32_t i = 0; i < LEN; i++)
		assert_int_equal(far[i], GAP);
	in.then = NULL;
	send_one(LEN, 1);
	assert_null(came.data);
	recv_close();
}

/* Many messages at once, into the same layout at different offsets. */
#define TIMES	50u

static void next_place(struct rdmamsg_ep *ep)
{
	in.offset += LEN;
}

void recv__many_at_once_EACH_IN_ITS_PLACE(void **state)
{
	recv_open(0);
	in.layout = add_column(0, 100, LEN / 100 * TIMES, 150);
	in.then = next_place;
	for (uint32_t i = 0; i < TIMES; i++) {
		const struct iovec v = { near + i, LEN };
		struct cookie *c = cookie();

		UNTIL_POSTED(rdmamsg_sendv(p.c.ep, &v, 1, i, c));
	}
	WAIT_FOR(p.s.received == TIMES && p.c.sent_ok == TIMES);
	for (uint32_t i = 0; i < LEN * TIMES; i++)
		if (far[i / 100 * 150 + i % 100] != near[i / LEN + i % LEN])
			fail_msg("byte %u", i);
	assert_int_equal(operations(in.layout), 0);
	recv_close();
}

/* The sender changes its memory after it has computed the CRC. */
static void change_near(struct rdmamsg_ep *ep)
{
	near[LEN / 2]++;
}

void recv__with_a_CRC_that_differs_ENDS(void **state)
{
	recv_open(RDMAMSG_EP_CRC);
	in.layout = add_column(0, 10, LEN, 30);
	in.then = change_near;
	(void)send_near(LEN, 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CRC);
	assert_int_equal(p.s.received, 0);
	assert_int_equal(operations(in.layout), 0);
	recv_fini();
}

/* ---- ends of connections ----------------------------------------------- */

#define LONG	((size_t)2 << 20)

static void abort_server(struct rdmamsg_ep *ep)
{
	rdmamsg_ep_abort(p.s.ep);
}

static void abort_client(struct rdmamsg_ep *ep)
{
	rdmamsg_ep_abort(p.c.ep);
}

void recv__when_a_side_aborts_NOT_IN_USE(void **state)
{
	for (int side = 0; side < 2; side++) {
		recv_open(0);
		in.layout = add_column(0, 50, LONG / 50 + 1, 100);
		in.then = side ? abort_client : abort_server;
		(void)send_near(LONG, 0);
		WAIT_FOR(p.c.closed && p.s.closed);
		assert_int_equal(in.ret, 0);
		end_check_cookies(&p.c);
		assert_int_equal(operations(in.layout), 0);
		assert_int_equal(p.s.received, 0);
		recv_fini();
	}
}

/* rdmamsg_close() in the middle of a message frees the layout. */
void recv__when_the_context_closes_ALL_FREED(void **state)
{
	recv_open(0);
	in.layout = add_column(0, 50, LONG / 50 + 1, 100);
	(void)send_near(LONG, 0);
	WAIT_FOR(in.asked);
	pair_fini(&p);
	free(far);
	free(near);
}

/* Sends messages of LONG bytes until the process is killed. */
int child_sends(int argc, char **argv)
{
	uint8_t *mem = calloc(1, LONG);
	const struct iovec v = { mem, LONG };
	struct end e;

	end_init(&e, "sender", test_open(NULL));
	assert_int_equal(rdmamsg_connect(e.ctx, test_addr(), argv[0], &e.opts,
					 &e.ep), 0);
	WAIT_FOR(e.connected || e.closed);
	while (!e.closed) {
		(void)rdmamsg_sendv(e.ep, &v, 1, 0, NULL);
		test_pump(10);
	}
	return 0;
}

void recv__when_the_sender_is_killed_NOT_IN_USE(void **state)
{
	/* each block is a read, and on siw a round trip */
	const uint64_t block = test_on_siw() ? 5000 : 50;
	struct rdmamsg_layout_part part;
	struct rdmamsg_region *region;
	uint8_t *mem = calloc(3, LONG);
	struct child child;

	memset(&in, 0, sizeof(in));
	pair_init(&p, NULL);
	p.s.on.on_incoming = on_incoming;
	p.s.expect_nothing = true;
	pair_listen(&p);
	assert_int_equal(rdmamsg_region_create(p.s.ctx, mem, 3 * LONG, ANY,
					       &region), 0);
	in.layout = layout_new(p.s.ctx, ANY);
	column(&part, region, 0, block, LONG / block + 1, 2 * block);
	assert_int_equal(rdmamsg_layout_define(in.layout, &part, 1, 1), 0);
	child_start(&child, "sends", p.port);
	WAIT_FOR(p.s.received >= 3);
	kill(child.pid, SIGKILL);
	(void)child_wait(&child);
	WAIT_FOR(p.s.closed);
	assert_int_equal(in.ret, 0);
	assert_int_equal(operations(in.layout), 0);
	assert_int_equal(rdmamsg_layout_destroy(in.layout), 0);
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	free(mem);
	pair_fini(&p);
}
