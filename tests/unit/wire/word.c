/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the word of a program that ends a connection. */
#include "wire.h"
#include "wire/word.h"

DEFINE_REFUSED(word)

#define AT_LEN	4

static const uint8_t a_data[PROTO_WORD_DATA_MAX] = "thirty-two bytes at most";

static const struct proto_word a_word = {
	.code = 0x1020304, .data = a_data, .data_len = 3,
};

static const uint8_t a_word_wire[] = {
	4, 3, 2, 1, 3, 0, 0, 0, 't', 'h', 'i',
};

static void assert_word_equal(const struct proto_word *a,
			      const struct proto_word *b)
{
	assert_int_equal(a->code, b->code);
	assert_int_equal(a->data_len, b->data_len);
	assert_memory_equal(a->data, b->data, a->data_len);
}

static void word_accepted(const uint8_t *bytes, size_t len,
			  const struct proto_word *want)
{
	struct input in = input_new(bytes, len);
	struct proto_word got;

	assert_int_equal(rdmamsg__word_decode(&got, in.bytes, len), 0);
	assert_word_equal(&got, want);
	assert_ptr_equal(got.data, in.bytes + PROTO_WORD_LEN);
	free(in.mem);
}

static void word_encode__any_LAYOUT(void **state)
{
	uint8_t out[PROTO_WORD_MAX];

	assert_int_equal(rdmamsg__word_encode(&a_word, out),
			 sizeof(a_word_wire));
	assert_memory_equal(out, a_word_wire, sizeof(a_word_wire));
	word_accepted(out, sizeof(a_word_wire), &a_word);
}

static void word__each_length_SAME(void **state)
{
	uint8_t out[PROTO_WORD_MAX];

	for (uint8_t n = 0; n <= PROTO_WORD_DATA_MAX; n++) {
		const struct proto_word w = { .data = a_data, .data_len = n };

		assert_int_equal(rdmamsg__word_encode(&w, out),
				 PROTO_WORD_LEN + n);
		word_accepted(out, PROTO_WORD_LEN + n, &w);
	}
}

static void word_decode__shorter_EPROTO(void **state)
{
	for (size_t len = 0; len < sizeof(a_word_wire); len++)
		word_refused(a_word_wire, len);
}

static void word_decode__longer_data_EPROTO(void **state)
{
	uint8_t b[PROTO_WORD_LEN + UINT8_MAX] = { 0 };

	for (unsigned int n = PROTO_WORD_DATA_MAX + 1; n <= UINT8_MAX; n++) {
		b[AT_LEN] = (uint8_t)n;
		word_refused(b, sizeof(b));
	}
}

static void word_decode__unknown_parts_SKIPPED(void **state)
{
	uint8_t b[sizeof(a_word_wire) + 5];

	memset(b, 0xff, sizeof(b));
	memcpy(b, a_word_wire, sizeof(a_word_wire));
	memset(b + AT_LEN + 1, 0xff, 3);
	word_accepted(b, sizeof(b), &a_word);
}

/* ---- random ----------------------------------------------------------- */

DEFINE_DAMAGED(word, PROTO_WORD_MAX)

static void word__random_SAME(void **state)
{
	uint8_t bytes[PROTO_WORD_DATA_MAX], out[PROTO_WORD_MAX];

	for (int i = 0; i < ROUNDS; i++) {
		const struct proto_word w = {
			.code = (uint32_t)rnd_edgy(0, UINT32_MAX),
			.data = bytes,
			.data_len = (uint8_t)rnd_edgy(0, PROTO_WORD_DATA_MAX),
		};
		size_t len;

		rnd_bytes(bytes, sizeof(bytes));
		len = rdmamsg__word_encode(&w, out);
		word_accepted(out, len, &w);
		word_damaged(out, len);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(word_encode__any_LAYOUT),
		cmocka_unit_test(word__each_length_SAME),
		cmocka_unit_test(word_decode__shorter_EPROTO),
		cmocka_unit_test(word_decode__longer_data_EPROTO),
		cmocka_unit_test(word_decode__unknown_parts_SKIPPED),
		cmocka_unit_test_setup(word__random_SAME, seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
