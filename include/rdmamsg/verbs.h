/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs objects of an endpoint, for uses that rdmamsg does not cover. They
 * are borrowed: valid from on_connected to on_closed, in the context's thread.
 * The program must not post to the queue pair, modify it or destroy it.
 */
#ifndef RDMAMSG_VERBS_H
#define RDMAMSG_VERBS_H

#include <infiniband/verbs.h>
#include <rdmamsg/oob.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL while there is no such object. */
struct rdmamsg_ep_objects {
	size_t size;
	struct ibv_qp *qp;
	struct ibv_pd *pd;
};

int rdmamsg_ep_verbs(const struct rdmamsg_ep *ep,
		     struct rdmamsg_ep_objects *ret);

struct rdmamsg_region;

/*
 * Returns the region's registration with the endpoint's device: lkey, rkey,
 * address and length. NULL: the region is not registered there. The
 * registration is valid until the region is revoked or destroyed, or the
 * context closes the device. The program must not deregister the region.
 */
struct ibv_mr *rdmamsg_region_mr(const struct rdmamsg_region *region,
				 const struct rdmamsg_ep *ep);

/*
 * A queue pair without an endpoint, for other types than RC and for device
 * features that are chosen at creation. The queue pair has completion queues of
 * its own. The program posts and polls with the calls of verbs. A new queue
 * pair is in state INIT; UD and RAW_PACKET are in RTS. With on_completion the
 * context's descriptor becomes readable when completions arrive. Without it the
 * library reports no completions.
 */
struct rdmamsg_qp;

/*
 * Receive side scaling: no send queue, and several receive queues, which are in
 * 'wqs' of struct rdmamsg_qp_objects.
 */
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
	RDMAMSG_QP_TWO_CQS = 1u << 1,		/* separate for receives */
	/* receives: on_completion for errors and solicited messages only */
	RDMAMSG_QP_SOLICITED = 1u << 2,
	/* completion queues that nobody polls do not fail when they are full */
	RDMAMSG_QP_IGNORE_OVERRUN = 1u << 3,
	/* requests of other queue pairs can wait for the completion queues */
	RDMAMSG_QP_CROSS_CHANNEL = 1u << 4,
};

struct rdmamsg_qp_handlers {
	size_t size;

	/*
	 * Called in the context's thread when completions have arrived. Poll
	 * 'cq' until it is empty, because there is no second call for
	 * completions that are left. The handler may destroy the queue pair.
	 */
	void (*on_completion)(struct rdmamsg_qp *qp, struct ibv_cq *cq);
};

struct rdmamsg_qp_options {
	size_t size;
	void *user;			/* and cq_context of the queues */
	const struct rdmamsg_qp_handlers *handlers;
	const char *device;		/* as for rdmamsg_oob_offer() */
	const struct rdmamsg_path *path;	/* port, GID, P_Key, ... */
	enum ibv_qp_type type;		/* RC */
	uint32_t flags;			/* enum rdmamsg_qp_flags */
	uint32_t max_send;		/* send requests; 128 */
	uint32_t max_recv;		/* receive requests; 128 */
	uint32_t max_send_sge;		/* gather entries of a request; 1 */
	uint32_t max_recv_sge;		/* scatter entries of a request; 1 */
	uint32_t max_inline;		/* bytes of inline data; 0 */
	uint32_t access;		/* enum ibv_access_flags; 0 */
	uint32_t qkey;			/* UD; 0x11111111 */
	uint32_t create_flags;		/* enum ibv_qp_create_flags */
	uint32_t source_qpn;		/* for create flag SOURCE_QPN */
	uint32_t max_tso_header;
	uint64_t send_ops;		/* for 'qp_ex' of rdmamsg_qp_verbs */
	struct ibv_srq *srq;		/* replaces max_recv; NULL */
	struct ibv_xrcd *xrcd;		/* for XRC_RECV; NULL: a new domain */
	const struct rdmamsg_rss *rss;
	uint32_t ack_timeout;		/* 4.096 us * 2^n; 14 */
	uint32_t retry_count;		/* 7 */
	uint32_t rnr_retry_count;	/* 7 */
	uint32_t min_rnr_timer;		/* 12 */
	uint32_t responder_resources;	/* 16, at most the device's limit */
	uint32_t initiator_depth;	/* 16, at most the device's limit */
	struct rdmamsg_pd *pd;		/* NULL: the device's */
	uint32_t comp_vector;	/* of the completion queues, as of endpoints */
};

/*
 * -EINVAL: options contradict each other, or a value is beyond a limit;
 * -EOPNOTSUPP: this device does not support an option; -EPERM: srq is in
 * another protection domain, or RAW_PACKET lacks CAP_NET_RAW. rdmamsg_error()
 * names the option.
 */
int rdmamsg_qp_create(struct rdmamsg *ctx,
		      const struct rdmamsg_qp_options *opts,
		      struct rdmamsg_qp **ret);
/*
 * Destroys the queue pair. Outstanding requests do not complete. qp may be
 * NULL. -EBUSY: the queue pair has rules of ibv_create_flow(), or is in a
 * multicast group by ibv_attach_mcast(). Another error is the
 * device's. On failure the queue pair still exists.
 *
 * rdmamsg_close() destroys queue pairs that are left. A queue pair that cannot
 * be destroyed even then stays, with its device, until the process ends.
 */
int rdmamsg_qp_destroy(struct rdmamsg_qp *qp);

void *rdmamsg_qp_user(const struct rdmamsg_qp *qp);

struct rdmamsg_qp_objects {
	size_t size;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex;	/* for ibv_wr_start(); with send_ops */
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;		/* the same without TWO_CQS */
	/* of rss: for ibv_post_wq_recv(); their completions are in recv_cq */
	struct ibv_wq *const *wqs;
	uint32_t queues;		/* number of wqs */
	/* UD, connected: of the peer's queue pair */
	uint32_t peer_qp_num;
	struct ibv_ah *ah;
};

/*
 * The objects of the queue pair; NULL if it has none of a kind. They are valid
 * until rdmamsg_qp_destroy(), and 'ah' until the next rdmamsg_qp_connect().
 */
int rdmamsg_qp_verbs(const struct rdmamsg_qp *qp,
		     struct rdmamsg_qp_objects *ret);

/*
 * Resizes one of the completion queues, like ibv_resize_cq(), on every device.
 * 'cq->cqe' is the granted number of entries. -EINVAL: the requests of the
 * queue pair need more entries, or the device has fewer; -EOPNOTSUPP: the
 * device cannot resize.
 */
int rdmamsg_qp_resize_cq(struct rdmamsg_qp *qp, struct ibv_cq *cq,
			 uint32_t entries);

/*
 * Register and deregister memory for requests, like ibv_reg_mr() and
 * ibv_dereg_mr(), on every device. 'access' is enum ibv_access_flags. The
 * program deregisters its memory before it destroys the last queue pair.
 */
int rdmamsg_qp_register(struct rdmamsg_qp *qp, void *addr, size_t len,
			int access, struct ibv_mr **ret);
int rdmamsg_qp_deregister(struct rdmamsg_qp *qp, struct ibv_mr *mr);

/*
 * Writes the record of the queue pair, at most RDMAMSG_OOB_MAX bytes, and
 * returns its length. The program brings the record to the peer.
 */
int rdmamsg_qp_record(const struct rdmamsg_qp *qp, void *buf, size_t size);
/*
 * Moves the queue pair to RTS with the peer's record. For UD the call creates
 * an address handle, see rdmamsg_qp_verbs(). -EPROTO, -EPROTONOSUPPORT,
 * -EHOSTUNREACH; -EALREADY: the queue pair is connected.
 */
int rdmamsg_qp_connect(struct rdmamsg_qp *qp, const void *record, size_t len);
/*
 * XRC: a message of an XRC_SEND queue pair names the shared receive queue that
 * takes it, and arrives through any XRC_RECV queue pair of the queue's domain.
 * So one connection serves all queues of a domain.
 */
struct rdmamsg_xrcd;
struct rdmamsg_xrc_srq;

struct rdmamsg_xrcd_options {
	size_t size;
	const char *device;		/* as for rdmamsg_oob_offer() */
	struct rdmamsg_pd *pd;		/* of the queues; NULL: the device's */
	/* processes that open one file share its domain; NULL: a new domain */
	const char *file;
};

struct rdmamsg_xrc_srq_options {
	size_t size;
	void *context;		/* srq_context and cq_context of verbs */
	uint32_t max_recv;		/* receive requests; 128 */
	uint32_t max_recv_sge;		/* scatter entries of a request; 1 */
	uint32_t comp_vector;	/* of the completion queue, as of endpoints */
};

/*
 * Opens an XRC domain. -EOPNOTSUPP: the device has no XRC; -EINVAL; -ENODEV,
 * -ENXIO, -ENOMEM; of the file: the errors of open(2).
 */
int rdmamsg_xrcd_open(struct rdmamsg *ctx,
		      const struct rdmamsg_xrcd_options *opts,
		      struct rdmamsg_xrcd **ret);
/*
 * Closes the domain. -EBUSY: the domain has queue pairs or shared receive
 * queues. xrcd may be NULL. rdmamsg_close() closes domains that are left.
 */
int rdmamsg_xrcd_close(struct rdmamsg_xrcd *xrcd);

/*
 * Creates a shared receive queue in the domain, with a completion queue of its
 * own. The program posts with ibv_post_srq_recv() and polls that completion
 * queue. -EINVAL: a value is beyond the device's limit; -ENOMEM.
 */
int rdmamsg_xrc_srq_create(struct rdmamsg_xrcd *xrcd,
			   const struct rdmamsg_xrc_srq_options *opts,
			   struct rdmamsg_xrc_srq **ret);
/* Outstanding receives do not complete. srq may be NULL. */
int rdmamsg_xrc_srq_destroy(struct rdmamsg_xrc_srq *srq);

struct rdmamsg_xrc_srq_objects {
	size_t size;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	uint32_t number;	/* for qp_type.xrc.remote_srqn of a request */
	struct ibv_xrcd *xrcd;	/* for xrcd of rdmamsg_qp_options */
};

/* The objects of the queue, valid as long as the queue. */
int rdmamsg_xrc_srq_verbs(const struct rdmamsg_xrc_srq *srq,
			  struct rdmamsg_xrc_srq_objects *ret);

/*
 * Attach the queue pair to a multicast group and detach it, like
 * ibv_attach_mcast(). rdmamsg_qp_destroy() detaches it from the groups that are
 * left. -EINVAL: the type has no groups; -EALREADY, -ENOENT; another error is
 * the device's.
 */
int rdmamsg_qp_attach(struct rdmamsg_qp *qp, const union ibv_gid *gid,
		      uint16_t lid);
int rdmamsg_qp_detach(struct rdmamsg_qp *qp, const union ibv_gid *gid,
		      uint16_t lid);

/* Granted values. */
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
	uint32_t max_recv;		/* 0 with srq */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	uint32_t create_flags;
	uint64_t send_ops;
	uint32_t queues;		/* of receive side scaling */
	uint32_t send_cq_entries;
	uint32_t recv_cq_entries;
	uint32_t comp_vector;
	/* by which requests wait for them; 0 without CROSS_CHANNEL */
	uint32_t send_cq_number;
	uint32_t recv_cq_number;
};

int rdmamsg_qp_query(const struct rdmamsg_qp *qp, struct rdmamsg_qp_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
