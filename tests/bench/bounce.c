/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads on two cores that bounce one cache line: the least that any
 * message between them can cost. Prints half of the mean round, in ns.
 */
#define _GNU_SOURCE	/* for the affinity of threads */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define ROUNDS	1000000u

static _Atomic uint32_t line __attribute__((aligned(128)));

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* Waits for one parity and answers with the other. */
static void play(uint32_t first)
{
	for (uint32_t n = first; n < 2 * ROUNDS; n += 2) {
		while (atomic_load_explicit(&line, memory_order_acquire) != n)
			;
		atomic_store_explicit(&line, n + 1, memory_order_release);
	}
}

static void *other(void *arg)
{
	pin(1);
	play(1);
	return NULL;
}

int main(void)
{
	struct timespec a, b;
	pthread_t t;

	pin(0);
	if (pthread_create(&t, NULL, other, NULL))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &a);
	play(0);
	pthread_join(t, NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.1f\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 +
			  (double)(b.tv_nsec - a.tv_nsec)) / (2.0 * ROUNDS));
	return 0;
}
