/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs objects under an endpoint, for what rdmamsg does not cover. They
 * are borrowed: valid from on_connected to on_closed, in the context's
 * thread, and nothing may be posted to the queue pair or changed in it.
 */
#ifndef RDMAMSG_VERBS_H
#define RDMAMSG_VERBS_H

#include <infiniband/verbs.h>
#include <rdmamsg/oob.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL before there is one. */
struct ibv_qp *rdmamsg_ep_qp(const struct rdmamsg_ep *ep);
struct ibv_pd *rdmamsg_ep_pd(const struct rdmamsg_ep *ep);

/*
 * A queue pair of the program's, for what endpoints do not do: other types,
 * and what a device can be asked for at creation. It has completion queues of
 * its own that the program polls, and is in INIT, a UD one in RTS. Posting and
 * polling are the program's, with the calls of verbs; endpoints are not
 * concerned. With on_completion the context's descriptor tells when there is
 * something to poll; without it nothing does.
 */
struct rdmamsg_qp;

/* Receive side scaling: no send side, one receive queue for each part. */
struct rdmamsg_rss {
	size_t size;
	uint32_t queues;		/* a power of two */
	uint8_t function;		/* enum ibv_rx_hash_function_flags */
	uint8_t key_len;
	const uint8_t *key;
	uint64_t fields;		/* enum ibv_rx_hash_fields */
};

enum rdmamsg_qp_flags {
	RDMAMSG_QP_SIGNAL_ALL = 1u << 0,	/* a completion for each send */
	RDMAMSG_QP_TWO_CQS = 1u << 1,		/* sends and receives apart */
	RDMAMSG_QP_SOLICITED = 1u << 2,	/* on_completion: not every receive */
};

struct rdmamsg_qp_options {
	size_t size;
	void *user;
	const char *device;		/* as for endpoints */
	const struct rdmamsg_path *path;	/* port, GID, P_Key, ... */
	enum ibv_qp_type type;		/* RC */
	uint32_t flags;			/* enum rdmamsg_qp_flags */
	uint32_t max_send;		/* requests; 128 */
	uint32_t max_recv;		/* 128 */
	uint32_t max_send_sge;		/* segments of each; 1 */
	uint32_t max_recv_sge;		/* 1 */
	uint32_t max_inline;		/* bytes; 0 */
	uint32_t access;		/* enum ibv_access_flags; 0 */
	uint32_t qkey;			/* UD; 0x11111111 */
	uint32_t create_flags;		/* enum ibv_qp_create_flags */
	uint32_t source_qpn;		/* with SOURCE_QPN */
	uint32_t max_tso_header;
	uint64_t send_ops;		/* for rdmamsg_qp_ex() */
	struct ibv_srq *srq;		/* in place of max_recv */
	struct ibv_xrcd *xrcd;		/* XRC_RECV */
	const struct rdmamsg_rss *rss;
	uint32_t ack_timeout;		/* 4.096 us * 2^n; 14 */
	uint32_t retry_count;		/* 7 */
	uint32_t rnr_retry_count;	/* 7 */
	uint32_t min_rnr_timer;		/* 12 */
	uint32_t responder_resources;	/* 16, or what the device has */
	uint32_t initiator_depth;	/* 16, likewise */
	/*
	 * In the context's thread, once for what has come since the last time:
	 * poll 'cq' until it is empty. The queue pair may be freed in it.
	 */
	void (*on_completion)(struct rdmamsg_qp *qp, struct ibv_cq *cq);
	struct rdmamsg_pd *pd;		/* NULL: the device's */
};

/*
 * -EINVAL: what makes no sense, or is beyond a limit; -EOPNOTSUPP: what this
 * device does not have; -EPERM: srq is of another protection domain.
 * rdmamsg_error() says which.
 */
int rdmamsg_qp_create(struct rdmamsg *ctx,
		      const struct rdmamsg_qp_options *opts,
		      struct rdmamsg_qp **ret);
/*
 * What is outstanding does not complete. -EBUSY while it is attached to a
 * multicast group; another error is the device's. Then it is still there.
 * rdmamsg_close() frees what is left; what cannot be freed even then stays,
 * with its device, until the process ends.
 */
int rdmamsg_qp_destroy(struct rdmamsg_qp *qp);

void *rdmamsg_qp_user(const struct rdmamsg_qp *qp);
struct ibv_qp *rdmamsg_qp_ibv(const struct rdmamsg_qp *qp);
/* The batch builder, ibv_wr_start() and so on. NULL without send_ops. */
struct ibv_qp_ex *rdmamsg_qp_ex(const struct rdmamsg_qp *qp);
struct ibv_cq *rdmamsg_qp_send_cq(const struct rdmamsg_qp *qp);
struct ibv_cq *rdmamsg_qp_recv_cq(const struct rdmamsg_qp *qp);

/*
 * Memory for its requests: what ibv_reg_mr() and ibv_dereg_mr() do, on every
 * device. It must be given back before the queue pair is freed.
 */
int rdmamsg_qp_reg(struct rdmamsg_qp *qp, void *addr, size_t len, int access,
		   struct ibv_mr **ret);
int rdmamsg_qp_dereg(struct rdmamsg_qp *qp, struct ibv_mr *mr);

/* Its record, to be brought to the peer; RDMAMSG_OOB_MAX. The length. */
int rdmamsg_qp_record(const struct rdmamsg_qp *qp, void *buf, size_t size);
/*
 * To RTS, with the peer's record. UD: makes an address handle of it, which
 * rdmamsg_qp_ah() then gives. -EPROTO, -EPROTONOSUPPORT, -EHOSTUNREACH.
 */
int rdmamsg_qp_connect(struct rdmamsg_qp *qp, const void *record, size_t len);
/* The peer of a UD queue pair; NULL before. */
struct ibv_ah *rdmamsg_qp_ah(const struct rdmamsg_qp *qp, uint32_t *ret_qpn);

/* What was granted. */
struct rdmamsg_qp_attr {
	size_t size;
	char device[64];
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	uint32_t qp_num;
	uint32_t peer_qp_num;
	uint32_t port;
	uint32_t mtu;			/* bytes; 0 before it is connected */
	uint32_t pkey;
	uint32_t max_send;
	uint32_t max_recv;		/* 0 with an SRQ */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	uint32_t create_flags;
	uint64_t send_ops;
	uint32_t queues;		/* of RSS */
};

int rdmamsg_qp_query(const struct rdmamsg_qp *qp, struct rdmamsg_qp_attr *info);

#ifdef __cplusplus
}
#endif

#endif
