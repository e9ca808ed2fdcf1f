/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of dynamically connected transport (DC), through libmlx5. A
 * target (DCT) receives from any initiator that knows its number and its key.
 * An initiator (DCI) sends each request to a target of its own. Errors have a
 * text.
 */
#ifndef RDMAMSG_LIB_DEVICE_DC_H
#define RDMAMSG_LIB_DEVICE_DC_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct mlx5dv_qp_ex;
struct oob;
struct rdmamsg_device;

struct dct_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint64_t key;
	uint32_t min_rnr_timer;		/* as in options of endpoints */
};

/* Of the requests of an initiator, as in options of endpoints. */
struct dci_attr {
	uint32_t ack_timeout, retry_count, rnr_retry_count;
	uint32_t depth;			/* reads and atomics under way */
};

/* The queue pair and the builders of its requests. */
struct dci {
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	uint32_t max_inline, max_sge;
};

/* The target of a request. */
struct dc_to {
	struct ibv_ah *ah;
	uint32_t dctn;
	uint64_t key;
};

/* Returns 0, or -EOPNOTSUPP if libmlx5 is absent or not for this device. */
int rdmamsg__dc_supported(const struct rdmamsg_device *d);
/* The target receives at once. Its number is that of the queue pair. */
int rdmamsg__dct_open(const struct rdmamsg_device *d,
		      const struct dct_attr *attr, const struct oob *path,
		      struct ibv_qp **ret);
/* Writes how many packets had another key to *ret. */
int rdmamsg__dct_violations(const struct rdmamsg_device *d, struct ibv_qp *dct,
			    uint32_t *ret);
int rdmamsg__dci_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct ibv_cq *cq, uint32_t depth, struct dci *ret);
/* From any state to RTS. All requests of before have completed. */
int rdmamsg__dci_start(const struct rdmamsg_device *d, const struct dci *dci,
		       const struct dci_attr *attr, const struct oob *path);
/* All requests flush. */
void rdmamsg__dci_fail(const struct rdmamsg_device *d, const struct dci *dci);
/*
 * Posts one request: a Send, Write, Read or atomic operation. Returns 0 or
 * -errno, without a text.
 */
int rdmamsg__dci_post(const struct dci *dci, const struct ibv_send_wr *wr,
		      const struct dc_to *to);
/* Posts a Send of parts that together have at most max_inline bytes. */
int rdmamsg__dci_send(const struct dci *dci, const struct dc_to *to,
		      uint64_t wr_id, unsigned int flags, size_t count,
		      const struct ibv_data_buf *parts);

#endif
