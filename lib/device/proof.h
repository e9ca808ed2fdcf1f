/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for the reads that prove something, on devices where a completion tells
 * nothing of other requests: 8 bytes that peers read, and 8 bytes that take the
 * answers. A read of no bytes would need neither, but siw can answer it with as
 * many bytes as it has sent last, and the connection ends (Linux 6.1, siw_qp.c,
 * siw_activate_tx() leaves sge[0].length of an answer without entries as it was,
 * and siw_qp_tx.c, siw_qp_sq_proc_tx() sets num_sge to 1).
 */
#ifndef RDMAMSG_LIB_PROOF_H
#define RDMAMSG_LIB_PROOF_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct dev;

struct proof {
	struct ibv_mr *served, *sink;
	uint64_t bytes[2];		/* of each; the peers read 0 */
};

/* Does nothing if the memory is there. Returns 0 or -errno. */
int rdmamsg__dev_proof_open(struct dev *dev);
void rdmamsg__dev_proof_close(struct dev *dev);

#endif
