/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of large messages are random, and valid on every device. */
#include "device/device.h"
#include "memory/hide.h"

#include <stdint.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define DRAWS	4096

static struct rdmamsg_device device = { .kind = KIND_ROCE };
static struct dev dev = { .device = &device };

static uint64_t hidden(uint64_t mem)
{
	uint64_t ret;

	assert_int_equal(rdmamsg__hidden_address(&dev, (void *)(uintptr_t)mem,
						 &ret),
			 0);
	return ret;
}

/* A bit with the same value in 4,096 addresses is not random. */
static void hidden_address__all_bits_but_the_offset_CHANGE(void **state)
{
	const uint64_t mem = 0x7f1234567890, first = hidden(mem);
	uint64_t changed = 0;

	for (int i = 0; i < DRAWS; i++)
		changed |= first ^ hidden(mem);
	assert_int_equal(changed, (HIDE_TOP - 1) & ~HIDE_KEEP);
	assert_int_equal(first & HIDE_KEEP, mem & HIDE_KEEP);
}

/* Also not in numbers that one system call has brought. */
static void hidden_address__each_ANOTHER(void **state)
{
	static uint64_t all[DRAWS];

	for (int i = 0; i < DRAWS; i++) {
		all[i] = hidden(0);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(all[i], all[j]);
	}
}

static void hidden_address__of_the_largest_message_DOES_NOT_WRAP(void **state)
{
	for (int i = 0; i < DRAWS; i++) {
		uint64_t addr = hidden(UINTPTR_MAX);

		assert_true(addr + RDMAMSG_MSG_MAX < (uint64_t)1 << 63);
	}
}

/* The siw driver would access the message at the random address. */
static void hidden_address__on_iwarp_IS_PLAIN(void **state)
{
	const uint64_t mem = 0x7f1234567890;

	device.kind = KIND_IWARP;
	assert_int_equal(hidden(mem), mem);
	device.kind = KIND_ROCE;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			hidden_address__all_bits_but_the_offset_CHANGE),
		cmocka_unit_test(hidden_address__each_ANOTHER),
		cmocka_unit_test(
			hidden_address__of_the_largest_message_DOES_NOT_WRAP),
		cmocka_unit_test(hidden_address__on_iwarp_IS_PLAIN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
