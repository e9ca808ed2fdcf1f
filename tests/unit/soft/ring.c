/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring between two processes, with a correct and with a hostile peer. */
#include "soft/fabric/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define ROUNDS	200000

struct pair {
	struct soft_ring maker[2], taker[2];	/* the same, mapped twice */
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	int fd = soft_rings_create();

	if (!p || fd < 0 || soft_rings_check(fd) ||
	    soft_rings_map(fd, p->maker) || soft_rings_map(fd, p->taker))
		return -1;
	close(fd);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 2; i++) {
		soft_ring_unmap(&p->maker[i]);
		soft_ring_unmap(&p->taker[i]);
	}
	free(p);
	return 0;
}

static void push(struct soft_ring *tx, const void *data, size_t len)
{
	void *at = soft_ring_reserve(tx, len);

	assert_non_null(at);
	memcpy(at, data, len);
	soft_ring_commit(tx, len);
}

static void record__over_the_end_IS_CONTIGUOUS(void **state)
{
	struct pair *p = *state;
	struct soft_ring *tx = &p->maker[0], *rx = &p->taker[0];
	static uint8_t out[30000];

	for (int i = 0; i < 1000; i++) {
		size_t len = 1 + (size_t)i * 31 % sizeof(out);

		memset(out, i, len);
		push(tx, out, len);
		assert_int_equal(soft_ring_avail(rx), soft_ring_round(len));
		assert_memory_equal(soft_ring_read(rx), out, len);
		soft_ring_consume(rx, len);
	}
	assert_false(tx->broken);
	assert_false(rx->broken);
}

static void reserve__full_NULL_until_consumed(void **state)
{
	struct pair *p = *state;
	struct soft_ring *tx = &p->maker[0], *rx = &p->taker[0];
	size_t len = SOFT_RING_SIZE / 4;

	for (int i = 0; i < 4; i++) {
		assert_non_null(soft_ring_reserve(tx, len));
		soft_ring_commit(tx, len);
	}
	assert_null(soft_ring_reserve(tx, 1));
	assert_int_equal(soft_ring_avail(rx), SOFT_RING_SIZE);
	soft_ring_consume(rx, len);
	assert_non_null(soft_ring_reserve(tx, len));
	assert_null(soft_ring_reserve(tx, len + 1));
	assert_false(tx->broken);
}

/* A peer may write any position. The ring breaks at an impossible one. */
static void avail__hostile_tail_BREAKS_THE_RING(void **state)
{
	static const uint64_t bad[] = {
		SOFT_RING_SIZE + SOFT_RING_ALIGN, 8, 1, UINT64_MAX,
		(uint64_t)1 << 63, -(uint64_t)SOFT_RING_ALIGN,
	};
	struct pair *p = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct soft_ring rx = p->taker[0];

		rx.shm->tail = bad[i];
		assert_int_equal(soft_ring_avail(&rx), 0);
		assert_true(rx.broken);
		/* and stays so */
		rx.shm->tail = SOFT_RING_ALIGN;
		assert_int_equal(soft_ring_avail(&rx), 0);
	}
}

static void reserve__hostile_head_BREAKS_THE_RING(void **state)
{
	struct pair *p = *state;
	struct soft_ring tx;

	tx = p->maker[0];
	while (soft_ring_reserve(&tx, 65536))
		soft_ring_commit(&tx, 65536);
	assert_false(tx.broken);
	/* it says that it has consumed what was never there */
	tx.shm->head = tx.pos + SOFT_RING_ALIGN;
	assert_null(soft_ring_reserve(&tx, 16));
	assert_true(tx.broken);
}

/* A process never reads its own position back: overwriting changes nothing. */
static void positions__ours_overwritten_ARE_KEPT(void **state)
{
	struct pair *p = *state;
	struct soft_ring *tx = &p->maker[0], *rx = &p->taker[0];

	push(tx, "one", 4);
	assert_int_equal(soft_ring_avail(rx), 16);
	soft_ring_consume(rx, 4);
	rx->shm->head = 1 << 30;
	tx->shm->tail = 1 << 30;
	push(tx, "two", 4);
	assert_int_equal(soft_ring_avail(rx), 16);
	assert_string_equal(soft_ring_read(rx), "two");
}

static void check__other_descriptors_EPROTO(void **state)
{
	int fd = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)soft_rings_size()), 0);
	assert_int_equal(soft_rings_check(fd), -EPROTO);	/* no seals */
	close(fd);
	fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
			       F_SEAL_SEAL), 0);
	assert_int_equal(soft_rings_check(fd), -EPROTO);
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(soft_rings_check(fd), -EPROTO);
	close(fd);
}

static void *producer(void *arg)
{
	struct soft_ring *tx = arg;

	for (uint32_t i = 0; i < ROUNDS;) {
		uint32_t *at = soft_ring_reserve(tx, 16 + i % 2000);

		if (!at)
			continue;
		at[0] = i;
		at[1] = ~i;
		soft_ring_commit(tx, 16 + i % 2000);
		i++;
	}
	return NULL;
}

static void traffic__of_two_threads_ARRIVES_IN_ORDER(void **state)
{
	struct pair *p = *state;
	struct soft_ring *rx = &p->taker[0];
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, producer, &p->maker[0]), 0);
	for (uint32_t i = 0; i < ROUNDS;) {
		size_t n = soft_ring_avail(rx);

		while (n) {
			const uint32_t *at = soft_ring_read(rx);
			size_t len = 16 + i % 2000;

			assert_int_equal(at[0], i);
			assert_int_equal(at[1], ~i);
			soft_ring_consume(rx, len);
			n -= soft_ring_round(len);
			i++;
		}
		assert_false(rx->broken);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(record__over_the_end_IS_CONTIGUOUS),
		TEST(reserve__full_NULL_until_consumed),
		TEST(avail__hostile_tail_BREAKS_THE_RING),
		TEST(reserve__hostile_head_BREAKS_THE_RING),
		TEST(positions__ours_overwritten_ARE_KEPT),
		cmocka_unit_test(check__other_descriptors_EPROTO),
		TEST(traffic__of_two_threads_ARRIVES_IN_ORDER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
