/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each process puts its number into a symmetric variable of the next one. For
 * tests/soft/apps.sh.
 */
#include <shmem.h>
#include <stdio.h>

static int got = -1;

int main(void)
{
	int me, n;

	shmem_init();
	me = shmem_my_pe();
	n = shmem_n_pes();
	shmem_int_put(&got, &me, 1, (me + 1) % n);
	shmem_barrier_all();
	printf("%d has %d\n", me, got);
	shmem_finalize();
	return got != (me + n - 1) % n;
}
