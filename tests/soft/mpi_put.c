/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each process puts its rank into a window of the next one. Open MPI's osc/ucx
 * makes an RDMA write of it. For tests/soft/apps.sh.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, size, got = -1;
	MPI_Win win;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Win_create(&got, sizeof(got), sizeof(got), MPI_INFO_NULL,
		       MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	printf("%d has %d\n", rank, got);
	MPI_Win_free(&win);
	MPI_Finalize();
	return got != (rank + size - 1) % size;
}
