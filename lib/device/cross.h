/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel queue pairs of type RC, through libmlx5: their requests can
 * wait for completions of any queue, and write what is calculated from values
 * in memory. Errors have a text, unless told otherwise.
 */
#ifndef RDMAMSG_LIB_DEVICE_CROSS_H
#define RDMAMSG_LIB_DEVICE_CROSS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct mlx5dv_qp_ex;
struct rdmamsg_device;

/* The queue pair and the builders of its requests. */
struct cross {
	struct ibv_qp *qp;		/* NULL: none */
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
};

struct cross_attr {
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp_cap cap;
};

enum cross_op { CROSS_ADD, CROSS_AND, CROSS_OR, CROSS_XOR };

/* Combines the two values of 8 bytes in network order, and writes the result */
struct cross_calc {
	enum cross_op op;
	uint64_t a, b;			/* addresses of the values */
	uint32_t a_lkey, b_lkey;
	uint64_t to;			/* address at the peer, with this key */
	uint32_t rkey;
};

/* -EOPNOTSUPP: libmlx5 is absent, or the device has no such queue pairs. */
int rdmamsg__cross_open(const struct rdmamsg_device *d,
			const struct cross_attr *attr, struct cross *ret);
/* Has no effect if there is no queue pair. */
void rdmamsg__cross_close(const struct rdmamsg_device *d, struct cross *c);
/* Writes the number by which requests name the queue to *ret. */
int rdmamsg__cross_number(const struct rdmamsg_device *d, struct ibv_cq *cq,
			  uint32_t *ret);

/*
 * Requests, between the first and the last of these calls. Only a signaled one
 * has a completion, unless it fails. rdmamsg__cross_end() posts them all, or
 * none of them, and returns 0 or -errno without a text.
 */
void rdmamsg__cross_begin(const struct cross *c, uint64_t wr_id);
/* Waits until the queue has had 'index' completions since it was created. */
void rdmamsg__cross_wait(const struct cross *c, bool signaled, uint32_t number,
			 uint32_t index);
/* sge: NULL: no data */
void rdmamsg__cross_send(const struct cross *c, bool signaled, uint32_t imm,
			 const struct ibv_sge *sge);
void rdmamsg__cross_calc(const struct cross *c, bool signaled,
			 const struct cross_calc *calc);
int rdmamsg__cross_end(const struct cross *c);

#endif
