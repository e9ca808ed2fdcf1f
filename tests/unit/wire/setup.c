/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the SETUP on the wire, with the same kinds of cases as hello.c.
 */
#include "wire.h"

DEFINE_REFUSED(setup)

/* The largest SETUP that the library sends, and one more item. */
#define SETUP_IN_MAX	(PROTO_SETUP_MAX + 8192)

static const struct proto_setup a_setup = {
	.recv_size = 0x10203, .recv_depth = 0x102, .max_msg = 0x1020304,
	.dead_after_ms = 0x4e20,
	.session = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
	.data = (const uint8_t *)"hello", .data_len = 5,
};

static const uint8_t a_setup_wire[] = {
	1, 0, 4, 0, 3, 2, 1, 0,
	2, 0, 4, 0, 2, 1, 0, 0,
	3, 0, 4, 0, 4, 3, 2, 1,
	4, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	5, 0, 4, 0, 0x20, 0x4e, 0, 0,
	6, 0, 5, 0, 'h', 'e', 'l', 'l', 'o', 0, 0, 0,
};

/* Offsets of the items in a_setup_wire. */
enum {
	AT_RECV_SIZE = 0, AT_RECV_DEPTH = 8, AT_MAX_MSG = 16, AT_SESSION = 24,
	AT_DEAD_AFTER = 44, AT_DATA = 52, AT_END = 64,
};

static const uint8_t item_at[] = {
	AT_RECV_SIZE, AT_RECV_DEPTH, AT_MAX_MSG, AT_SESSION, AT_DEAD_AFTER,
	AT_DATA, AT_END,
};

_Static_assert(sizeof(a_setup_wire) == AT_END, "items");

struct body {
	size_t len;
	uint8_t bytes[SETUP_IN_MAX];
};

static void add(struct body *b, const void *bytes, size_t len)
{
	assert_true(b->len + len <= sizeof(b->bytes));
	memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
}

static void add_item(struct body *b, uint16_t type, size_t len, uint8_t fill)
{
	static uint8_t value[8192];
	uint8_t head[4];

	put16(head, type);
	put16(head + 2, len);
	memset(value, 0, sizeof(value));
	memset(value, fill, len);
	add(b, head, sizeof(head));
	add(b, value, (len + 3) & ~(size_t)3);
}

static void body_init(struct body *b)
{
	b->len = 0;
	add(b, a_setup_wire, sizeof(a_setup_wire));
}

/* The body without the item at from, which ends where the next one starts. */
static void body_init_without(struct body *b, size_t from, size_t to)
{
	b->len = 0;
	add(b, a_setup_wire, from);
	add(b, a_setup_wire + to, AT_END - to);
}

static void assert_setup_equal(const struct proto_setup *a,
			       const struct proto_setup *b)
{
	assert_int_equal(a->recv_size, b->recv_size);
	assert_int_equal(a->recv_depth, b->recv_depth);
	assert_int_equal(a->max_msg, b->max_msg);
	assert_int_equal(a->dead_after_ms, b->dead_after_ms);
	assert_memory_equal(a->session, b->session, sizeof(a->session));
	assert_int_equal(a->refused, b->refused);
	assert_int_equal(a->limit, b->limit);
	assert_int_equal(a->pieces, b->pieces);
	assert_memory_equal(&a->proof, &b->proof, sizeof(a->proof));
	assert_int_equal(a->data_len, b->data_len);
	if (a->data_len)
		assert_memory_equal(a->data, b->data, a->data_len);
	assert_int_equal(a->has_nonce, b->has_nonce);
	assert_memory_equal(a->nonce, b->nonce, sizeof(a->nonce));
}

static void setup_accepted(const uint8_t *bytes, size_t len,
			   const struct proto_setup *want)
{
	struct input in = input_new(bytes, len);
	struct proto_setup got;

	assert_int_equal(rdmamsg__setup_decode(&got, in.bytes, len), 0);
	assert_setup_equal(&got, want);
	free(in.mem);
}

static void setup_encode__any_LAYOUT(void **state)
{
	uint8_t out[PROTO_SETUP_MAX];
	size_t len = rdmamsg__setup_encode(&a_setup, out);

	assert_int_equal(len, sizeof(a_setup_wire));
	assert_memory_equal(out, a_setup_wire, len);
}

static void setup_encode__most_data_FITS(void **state)
{
	static uint8_t data[PROTO_SETUP_DATA_MAX];
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	memset(data, 'x', sizeof(data));
	s.data = data;
	s.data_len = sizeof(data);
	len = rdmamsg__setup_encode(&s, out);
	assert_true(len <= PROTO_SETUP_MAX);
	setup_accepted(out, len, &s);
}

static void setup_encode__optional_LEFT_OUT(void **state)
{
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];

	s.dead_after_ms = s.data_len = 0;
	assert_int_equal(rdmamsg__setup_encode(&s, out), AT_DEAD_AFTER);
	setup_accepted(out, AT_DEAD_AFTER, &s);
}

static void setup_encode__refused_LAYOUT(void **state)
{
	static const uint8_t item[] = {
		7, 0x80, 8, 0, 5, 0, 0, 0, 4, 3, 2, 1,
	};
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	s.refused = PROTO_REJECT_LIMIT;
	s.limit = 0x1020304;
	len = rdmamsg__setup_encode(&s, out);
	assert_int_equal(len, AT_END + sizeof(item));
	assert_memory_equal(out, a_setup_wire, AT_END);
	assert_memory_equal(out + AT_END, item, sizeof(item));
	setup_accepted(out, len, &s);
	/* a newer peer's longer item, which a decoder may ignore */
	out[AT_END + 1] = 0;
	out[AT_END + 2] = 12;
	memset(out + len, 0xff, 4);
	setup_accepted(out, len + 4, &s);
}

static void setup_encode__pieces_LAYOUT(void **state)
{
	static const uint8_t item[] = { 10, 0, 4, 0, 4, 3, 2, 1 };
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	s.pieces = 0x1020304;
	len = rdmamsg__setup_encode(&s, out);
	assert_int_equal(len, AT_END + sizeof(item));
	assert_memory_equal(out + AT_END, item, sizeof(item));
	setup_accepted(out, len, &s);
}

static void setup_encode__proof_LAYOUT(void **state)
{
	static const uint8_t item[] = {
		12, 0, 12, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0xc, 0xb, 0xa, 9,
	};
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	s.proof = (struct proto_proof){ 0x5060708, 0x1020304, 0x90a0b0c };
	len = rdmamsg__setup_encode(&s, out);
	assert_int_equal(len, AT_END + sizeof(item));
	assert_memory_equal(out + AT_END, item, sizeof(item));
	setup_accepted(out, len, &s);
}

static void setup_decode__proof_short_or_nowhere_EPROTO(void **state)
{
	struct body b;

	for (size_t len = 0; len < PROTO_PROOF_ITEM_LEN; len++) {
		body_init(&b);
		add_item(&b, PROTO_SETUP_PROOF, len, 1);
		setup_refused(b.bytes, b.len);
	}
	body_init(&b);
	add_item(&b, PROTO_SETUP_PROOF, PROTO_PROOF_ITEM_LEN, 0);
	setup_refused(b.bytes, b.len);
}

static void setup_decode__refused_by_nothing_EPROTO(void **state)
{
	struct body b;

	for (size_t len = 0; len < 8; len++) {
		body_init(&b);
		add_item(&b, PROTO_SETUP_REFUSED, len, 1);
		setup_refused(b.bytes, b.len);
	}
	body_init(&b);
	add_item(&b, PROTO_SETUP_REFUSED, 8, 0);
	setup_refused(b.bytes, b.len);
}

static void setup_encode__nonce_LAYOUT(void **state)
{
	static const uint8_t head[] = { 9, 0x80, 32, 0 };
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	s.has_nonce = true;
	for (uint8_t i = 0; i < sizeof(s.nonce); i++)
		s.nonce[i] = i ^ 0x5a;
	len = rdmamsg__setup_encode(&s, out);
	assert_int_equal(len, AT_END + sizeof(head) + sizeof(s.nonce));
	assert_memory_equal(out, a_setup_wire, AT_END);
	assert_memory_equal(out + AT_END, head, sizeof(head));
	assert_memory_equal(out + AT_END + sizeof(head), s.nonce,
			    sizeof(s.nonce));
	setup_accepted(out, len, &s);
	/* a newer peer's longer item */
	out[AT_END + 2] = 36;
	memset(out + len, 0xff, 4);
	setup_accepted(out, len + 4, &s);
}

static void setup_encode__everything_FITS(void **state)
{
	static uint8_t data[PROTO_SETUP_DATA_MAX];
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	s.data = data;
	s.data_len = sizeof(data);
	s.refused = PROTO_REJECT_PROOF;
	s.has_nonce = true;
	s.pieces = PROTO_PIECES_MAX;
	len = rdmamsg__setup_encode(&s, out);
	assert_true(len <= PROTO_SETUP_MAX);
	setup_accepted(out, len, &s);
}

static void setup_decode__bad_nonce_EPROTO(void **state)
{
	struct body b;

	for (size_t len = 0; len < PROTO_NONCE_LEN; len++) {
		body_init(&b);
		add_item(&b, PROTO_SETUP_NONCE, len, 1);
		setup_refused(b.bytes, b.len);
	}
	body_init(&b);
	add_item(&b, PROTO_SETUP_NONCE, PROTO_NONCE_LEN, 1);
	add_item(&b, PROTO_SETUP_NONCE, PROTO_NONCE_LEN, 1);
	setup_refused(b.bytes, b.len);
}

static void auth__of_each_side_LAYOUT(void **state)
{
	struct proto_auth a, got;
	uint8_t out[PROTO_AUTH_LEN + 1];

	memset(a.proof, 1, sizeof(a.proof));
	memset(a.nonce, 2, sizeof(a.nonce));
	memset(out, 3, sizeof(out));
	a.has_nonce = false;
	assert_int_equal(rdmamsg__auth_encode(&a, out), 32);
	assert_memory_equal(out, a.proof, 32);
	assert_int_equal(out[32], 3);
	a.has_nonce = true;
	assert_int_equal(rdmamsg__auth_encode(&a, out), 64);
	assert_memory_equal(out, a.proof, 32);
	assert_memory_equal(out + 32, a.nonce, 32);
	for (size_t len = 0; len <= sizeof(out); len++) {
		memset(&got, 4, sizeof(got));
		assert_int_equal(rdmamsg__auth_decode(&got, true, out, len),
				 len < 64 ? -EPROTO : 0);
		if (len >= 64) {
			assert_memory_equal(got.proof, a.proof, 32);
			assert_memory_equal(got.nonce, a.nonce, 32);
		}
		assert_int_equal(rdmamsg__auth_decode(&got, false, out, len),
				 len < 32 ? -EPROTO : 0);
		if (len >= 32) {
			assert_false(got.has_nonce);
			assert_memory_equal(got.proof, a.proof, 32);
		}
	}
}

static void setup_decode__every_padding_OK(void **state)
{
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	for (s.data_len = 1; s.data_len <= 5; s.data_len++) {
		len = rdmamsg__setup_encode(&s, out);
		assert_int_equal(len % 4, 0);
		setup_accepted(out, len, &s);
	}
}

static void setup_decode__any_order_OK(void **state)
{
	struct body b = { .len = 0 };
	int i;

	for (i = 5; i >= 0; i--)
		add(&b, a_setup_wire + item_at[i], item_at[i + 1] - item_at[i]);
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__empty_data_OK(void **state)
{
	struct proto_setup want = a_setup;
	struct body b;

	body_init_without(&b, AT_DATA, AT_END);
	add_item(&b, PROTO_SETUP_DATA, 0, 0);
	want.data_len = 0;
	setup_accepted(b.bytes, b.len, &want);
}

static void setup_decode__unknown_SKIPPED(void **state)
{
	struct body b = { .len = 0 };

	add_item(&b, 0, 0, 0);
	add_item(&b, 29, 0, 0);
	add_item(&b, 31, 1, 0xff);
	add_item(&b, 32, 2, 0xff);
	add_item(&b, 33, 3, 0xff);
	add_item(&b, 0x7fff, 8000, 0xff);
	add(&b, a_setup_wire, sizeof(a_setup_wire));
	add_item(&b, 0x100, 5, 0xff);
	setup_accepted(b.bytes, b.len, &a_setup);
}

/* A newer protocol may repeat these items, so the decoder skips them. */
static void setup_decode__unknown_repeated_SKIPPED(void **state)
{
	struct body b;

	body_init(&b);
	add_item(&b, 29, 4, 1);
	add_item(&b, 29, 4, 2);
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__unknown_must_know_EPROTO(void **state)
{
	static const uint16_t types[] = { 0, 29, 31, 32, 33, 38, 0x7fff };
	struct body b;
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		body_init(&b);
		add_item(&b, types[i] | PROTO_SETUP_MUST_KNOW, 4, 1);
		setup_refused(b.bytes, b.len);
	}
}

static void setup_decode__known_must_know_OK(void **state)
{
	struct body b;
	int i;

	body_init(&b);
	for (i = 0; i < 6; i++)
		b.bytes[item_at[i] + 1] = PROTO_SETUP_MUST_KNOW >> 8;
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__known_longer_TAIL_SKIPPED(void **state)
{
	struct body b = { .len = 0 };
	uint8_t item[4 + 16 + 8];
	int i;

	for (i = 0; i < 5; i++) {
		size_t len = item_at[i + 1] - item_at[i];

		memset(item, 0xff, sizeof(item));
		memcpy(item, a_setup_wire + item_at[i], len);
		put16(item + 2, len - 4 + 8);
		add(&b, item, len + 8);
	}
	add(&b, a_setup_wire + AT_DATA, AT_END - AT_DATA);
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__known_shorter_EPROTO(void **state)
{
	struct body b;
	size_t len;
	int i;

	for (i = 0; i < 5; i++) {
		for (len = 0; len < a_setup_wire[item_at[i] + 2]; len++) {
			body_init_without(&b, item_at[i], item_at[i + 1]);
			add_item(&b, i + 1, len, 1);
			setup_refused(b.bytes, b.len);
		}
	}
}

static void setup_decode__repeated_EPROTO(void **state)
{
	struct body b;
	int i;

	for (i = 0; i < 6; i++) {
		body_init(&b);
		add(&b, a_setup_wire + item_at[i], item_at[i + 1] - item_at[i]);
		setup_refused(b.bytes, b.len);
		b.bytes[AT_END + 1] = PROTO_SETUP_MUST_KNOW >> 8;
		setup_refused(b.bytes, b.len);
	}
}

static void setup_decode__repeated_empty_data_EPROTO(void **state)
{
	struct body b;

	body_init_without(&b, AT_DATA, AT_END);
	add_item(&b, PROTO_SETUP_DATA, 0, 0);
	add_item(&b, PROTO_SETUP_DATA, 0, 0);
	setup_refused(b.bytes, b.len);
}

static void setup_decode__required_missing_EPROTO(void **state)
{
	struct body b;
	int i;

	for (i = 0; i < 4; i++) {
		body_init_without(&b, item_at[i], item_at[i + 1]);
		setup_refused(b.bytes, b.len);
	}
	setup_refused(NULL, 0);
}

static void setup_decode__optional_missing_OK(void **state)
{
	struct proto_setup want = a_setup;
	struct body b;

	want.dead_after_ms = 0;
	body_init_without(&b, AT_DEAD_AFTER, AT_DATA);
	setup_accepted(b.bytes, b.len, &want);
	want = a_setup;
	want.data_len = 0;
	body_init_without(&b, AT_DATA, AT_END);
	setup_accepted(b.bytes, b.len, &want);
}

/* The input ends anywhere but between optional items. */
static void setup_decode__truncated_EPROTO(void **state)
{
	size_t len;

	for (len = 0; len < AT_END; len++)
		if (len != AT_DEAD_AFTER && len != AT_DATA)
			setup_refused(a_setup_wire, len);
}

static void setup_decode__trailing_bytes_EPROTO(void **state)
{
	struct body b;
	int i;

	body_init(&b);
	for (i = 1; i < 4; i++) {
		add(&b, "", 1);
		setup_refused(b.bytes, b.len);
	}
}

static void setup_decode__item_overruns_EPROTO(void **state)
{
	struct body b;

	body_init(&b);
	put16(b.bytes + AT_DATA + 2, 9);
	setup_refused(b.bytes, b.len);
	put16(b.bytes + AT_DATA + 2, 0xffff);
	setup_refused(b.bytes, b.len);
	put16(b.bytes + AT_RECV_SIZE + 2, 0xfffd);
	setup_refused(b.bytes, b.len);
}

static void setup_decode__padding_set_EPROTO(void **state)
{
	struct body b;
	int i;

	for (i = 1; i <= 3; i++) {
		body_init(&b);
		b.bytes[AT_END - i] = 1;
		setup_refused(b.bytes, b.len);
	}
	body_init(&b);
	add_item(&b, 29, 1, 1);
	b.bytes[b.len - 1] = 1;
	setup_refused(b.bytes, b.len);
}

static void setup_decode__too_much_data_EPROTO(void **state)
{
	struct body b;

	body_init_without(&b, AT_DATA, AT_END);
	add_item(&b, PROTO_SETUP_DATA, PROTO_SETUP_DATA_MAX + 1, 1);
	setup_refused(b.bytes, b.len);
}

static void setup_value(size_t at, uint32_t value, int ok)
{
	struct proto_setup got;
	struct body b;

	body_init(&b);
	put32(b.bytes + at + 4, value);
	if (!ok)
		setup_refused(b.bytes, b.len);
	else
		assert_int_equal(rdmamsg__setup_decode(&got, b.bytes, b.len),
				 0);
}

static void setup_decode__recv_size_RANGE(void **state)
{
	setup_value(AT_RECV_SIZE, 0, 0);
	setup_value(AT_RECV_SIZE, PROTO_RECV_MIN - 1, 0);
	setup_value(AT_RECV_SIZE, PROTO_RECV_MIN, 1);
	setup_value(AT_RECV_SIZE, PROTO_MSG_MAX, 1);
	setup_value(AT_RECV_SIZE, PROTO_MSG_MAX + 1, 0);
	setup_value(AT_RECV_SIZE, UINT32_MAX, 0);
}

static void setup_decode__recv_depth_RANGE(void **state)
{
	setup_value(AT_RECV_DEPTH, 0, 0);
	setup_value(AT_RECV_DEPTH, 1, 1);
	setup_value(AT_RECV_DEPTH, PROTO_DEPTH_MAX, 1);
	setup_value(AT_RECV_DEPTH, PROTO_DEPTH_MAX + 1, 0);
	setup_value(AT_RECV_DEPTH, UINT32_MAX, 0);
}

static void setup_decode__max_msg_RANGE(void **state)
{
	setup_value(AT_MAX_MSG, 0, 0);
	setup_value(AT_MAX_MSG, 1, 1);
	setup_value(AT_MAX_MSG, PROTO_MSG_MAX, 1);
	setup_value(AT_MAX_MSG, PROTO_MSG_MAX + 1, 0);
	setup_value(AT_MAX_MSG, UINT32_MAX, 0);
}

static void setup_decode__dead_after_ANY(void **state)
{
	setup_value(AT_DEAD_AFTER, 0, 1);
	setup_value(AT_DEAD_AFTER, UINT32_MAX, 1);
}

/* random */

static void rnd_setup(struct proto_setup *s, uint8_t *data)
{
	*s = (struct proto_setup) {
		.recv_size = rnd_edgy(PROTO_RECV_MIN, PROTO_MSG_MAX),
		.recv_depth = rnd_edgy(1, PROTO_DEPTH_MAX),
		.max_msg = rnd_edgy(1, PROTO_MSG_MAX),
		.dead_after_ms = rnd_edgy(0, UINT32_MAX), .data = data,
		.data_len = rnd_edgy(0, PROTO_SETUP_DATA_MAX),
		.refused = rnd_edgy(0, 2),
	};

	if (s->refused)
		s->limit = rnd();
	rnd_bytes(s->session, sizeof(s->session));
	rnd_bytes(data, s->data_len);
}

DEFINE_DAMAGED(setup, PROTO_SETUP_MAX)

static void setup__random_SAME(void **state)
{
	static uint8_t data[PROTO_SETUP_DATA_MAX];
	uint8_t out[PROTO_SETUP_MAX];
	struct proto_setup s;
	size_t len;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		rnd_setup(&s, data);
		len = rdmamsg__setup_encode(&s, out);
		setup_accepted(out, len, &s);
		setup_damaged(out, len);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(setup_encode__any_LAYOUT),
		cmocka_unit_test(setup_encode__most_data_FITS),
		cmocka_unit_test(setup_encode__optional_LEFT_OUT),
		cmocka_unit_test(setup_encode__refused_LAYOUT),
		cmocka_unit_test(setup_encode__nonce_LAYOUT),
		cmocka_unit_test(setup_encode__everything_FITS),
		cmocka_unit_test(setup_decode__bad_nonce_EPROTO),
		cmocka_unit_test(auth__of_each_side_LAYOUT),
		cmocka_unit_test(setup_encode__pieces_LAYOUT),
		cmocka_unit_test(setup_decode__every_padding_OK),
		cmocka_unit_test(setup_decode__any_order_OK),
		cmocka_unit_test(setup_decode__empty_data_OK),
		cmocka_unit_test(setup_decode__unknown_SKIPPED),
		cmocka_unit_test(setup_decode__unknown_repeated_SKIPPED),
		cmocka_unit_test(setup_decode__unknown_must_know_EPROTO),
		cmocka_unit_test(setup_decode__known_must_know_OK),
		cmocka_unit_test(setup_decode__known_longer_TAIL_SKIPPED),
		cmocka_unit_test(setup_decode__known_shorter_EPROTO),
		cmocka_unit_test(setup_encode__proof_LAYOUT),
		cmocka_unit_test(setup_decode__proof_short_or_nowhere_EPROTO),
		cmocka_unit_test(setup_decode__refused_by_nothing_EPROTO),
		cmocka_unit_test(setup_decode__repeated_EPROTO),
		cmocka_unit_test(setup_decode__repeated_empty_data_EPROTO),
		cmocka_unit_test(setup_decode__required_missing_EPROTO),
		cmocka_unit_test(setup_decode__optional_missing_OK),
		cmocka_unit_test(setup_decode__truncated_EPROTO),
		cmocka_unit_test(setup_decode__trailing_bytes_EPROTO),
		cmocka_unit_test(setup_decode__item_overruns_EPROTO),
		cmocka_unit_test(setup_decode__padding_set_EPROTO),
		cmocka_unit_test(setup_decode__too_much_data_EPROTO),
		cmocka_unit_test(setup_decode__recv_size_RANGE),
		cmocka_unit_test(setup_decode__recv_depth_RANGE),
		cmocka_unit_test(setup_decode__max_msg_RANGE),
		cmocka_unit_test(setup_decode__dead_after_ANY),
		cmocka_unit_test_setup(setup__random_SAME, seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
