/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: CRC-32C: the vectors of RFC 3720, appendix B.4, and the
 * instruction of the processor against the table, for lengths and alignments
 * around the sizes of its parts.
 */
#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void expect(const void *buf, size_t len, uint32_t crc)
{
	assert_int_equal(rdmamsg__crc32c(0, buf, len), crc);
	assert_int_equal(rdmamsg__crc32c_table(0, buf, len), crc);
}

/* The RFC prints the bytes as they are sent, the least significant first. */
static void crc__vectors_of_RFC_3720_RIGHT(void **state)
{
	static const uint8_t read_pdu[48] = {
		0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
		0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18,
		0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	};
	uint8_t b[32];

	memset(b, 0, sizeof(b));
	expect(b, sizeof(b), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	expect(b, sizeof(b), 0x62a8ab43);
	for (unsigned int i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)i;
	expect(b, sizeof(b), 0x46dd794e);
	for (unsigned int i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(31 - i);
	expect(b, sizeof(b), 0x113fdb5c);
	expect(read_pdu, sizeof(read_pdu), 0xd9963a56);
	expect("123456789", 9, 0xe3069283);
	expect("", 0, 0);
	expect(NULL, 0, 0);
}

#define MOST	(2 * 3 * 4096 + 100)

static uint8_t data[MOST + 16];

static void fill(void)
{
	unsigned int seed = 1;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(rand_r(&seed) >> 8);
}

static void crc__all_lengths_AS_THE_TABLE(void **state)
{
	static const size_t around[] = { 3072, 6144, 12288, 24576 };

	fill();
	for (size_t len = 0; len < 300; len++)
		for (size_t at = 0; at < 9; at++)
			assert_int_equal(
				rdmamsg__crc32c(7, data + at, len),
				rdmamsg__crc32c_table(7, data + at, len));
	for (int i = 0; i < 4; i++)
		for (size_t len = around[i] - 20; len < around[i] + 20; len++)
			assert_int_equal(
				rdmamsg__crc32c(0, data + 3, len),
				rdmamsg__crc32c_table(0, data + 3, len));
}

static void crc__in_parts_AS_A_WHOLE(void **state)
{
	uint32_t whole;

	fill();
	whole = rdmamsg__crc32c(0, data, MOST);
	for (size_t cut = 0; cut <= MOST; cut += 977) {
		uint32_t crc = rdmamsg__crc32c(0, data, cut);

		assert_int_equal(rdmamsg__crc32c(crc, data + cut, MOST - cut),
				 whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc__vectors_of_RFC_3720_RIGHT),
		cmocka_unit_test(crc__all_lengths_AS_THE_TABLE),
		cmocka_unit_test(crc__in_parts_AS_A_WHOLE),
	};

	return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
