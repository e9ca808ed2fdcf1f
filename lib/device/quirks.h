/* SPDX-License-Identifier: BSD-2-Clause */
/* How a kind of device differs. Only quirks.c tests the kind. */
#ifndef RDMAMSG_LIB_QUIRKS_H
#define RDMAMSG_LIB_QUIRKS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include "device/device.h"

/*
 * The meaning of the completion of a request, on a reliable queue pair:
 *
 *               sent  arrived  all requests before it, too
 * InfiniBand    yes   yes      yes
 * RoCE          yes   yes      yes
 * Soft-RoCE     yes   yes      yes
 * soft HCA      yes   yes      yes
 * iWARP         yes   READ     no
 * any other     yes   no       no
 *
 * "Arrived": the peer's device has the request, so that it has its effect even
 * if this program ends now.
 *
 * InfiniBand, RoCE: the responder acknowledges requests in order, and an
 * acknowledgement is one of all earlier requests. So one completion frees the
 * places of all requests up to its own (rdma-core v44.0, providers/mlx5/cq.c,
 * mlx5_parse_cqe(), wq->tail). Soft-RoCE: Linux 6.1,
 * rxe_comp.c: check_psn() and complete_wqe() take the send queue in order. Soft
 * HCA: lib/soft/engine/req.c, soft_req_complete(). iWARP: a SEND or WRITE
 * completes when TCP has taken it (Linux 6.1, siw_qp_tx.c, siw_qp_sq_process()),
 * a READ when its last byte is there (siw_qp_rx.c, siw_rdmap_complete()), and
 * nothing orders the two. There a later SEND completes while most bytes of an
 * earlier READ are missing.
 *
 * Datagrams and DC: a queue pair of UD completes what it has sent in order, and
 * tells nothing of arrival (Linux 6.1, rxe_req.c, rxe_requester(), its state is
 * done at once; rdma-core as above). iWARP has none, and groups refuse a device
 * of no known kind. DC exists on mlx5 and the soft HCA only, where it is as the
 * table says.
 */
struct quirks {
	/*
	 * A request completes when the peer's device has acknowledged it, and
	 * requests complete in the order in which they were posted. Otherwise a
	 * completion tells nothing of any other request, and that of a message
	 * or a write nothing of the peer: the keepalive is a PING then
	 * (session/dead.c).
	 */
	bool acks_in_order;
	/*
	 * The device accepts receives for a failed queue pair, and never
	 * flushes them: nobody tells the kernel (rdma-core v44.0,
	 * rxe_post_recv(), siw_post_recv()).
	 */
	bool keeps_receives;
	/*
	 * The same of sends: those that are posted behind the failure, before
	 * this program learns of it, never complete (Linux 6.1 and 6.12,
	 * siw_post_send() flushes nothing of a program's queue).
	 */
	bool keeps_sends;
	/*
	 * The device raises no IBV_EVENT_QP_LAST_WQE_REACHED (Linux 6.1: rxe,
	 * siw).
	 */
	bool no_last_wqe;
	/*
	 * The device retries endlessly if retry_cnt is 7 (rxe_comp.c,
	 * COMPST_ERROR_RETRY).
	 */
	bool seven_is_endless;
	/*
	 * A packet without a route fails the queue pair with
	 * IBV_WC_LOC_QP_OP_ERR. If the interface is down, no packet has a
	 * route.
	 */
	bool fails_without_route;
	/*
	 * Only the connection manager reports the device's removal: rxe and siw
	 * have no disassociate_ucontext() (Linux 6.1, ib_uverbs_remove_one()).
	 */
	bool removal_by_cm;
	/* Requests carry no immediate data. */
	bool no_immediates;
	/*
	 * The device is iWARP. Only the connection manager brings queue pairs
	 * to RTS (Linux, iwcm.c), and the active side gets ESTABLISHED in place
	 * of CONNECT_RESPONSE. The end of the connection flushes the queue
	 * pairs of both sides. A message without a receive ends the connection.
	 */
	bool cm_only;
	/*
	 * rdma_connect() connects before it returns. siw waits for TCP, as long
	 * as the kernel repeats the SYN (Linux 6.1, siw_cm.c, siw_connect()).
	 * With any driver the call waits for the port mapper, for up to 10 s,
	 * if a daemon has registered (iwcm.c, iw_cm_map();
	 * iwpm_wait_complete_req()). irdma and cxgb4 connect in the background
	 * then.
	 */
	bool connects_in_call;
	/*
	 * A thread that is cancelled in rdma_connect() leaves the kernel soon,
	 * if it does not wait for the port mapper. The soft HCA is no kernel:
	 * there the thread could end with a lock.
	 */
	bool cancels_connect;
	/*
	 * IBV_EVENT_QP_REQ_ERR tells that the device could not answer a read of
	 * the peer: the connection has ended, or the peer has no access (Linux
	 * 6.1, siw_qp_tx.c, siw_qp_sq_process()). On other devices the peer's
	 * request is wrong.
	 */
	bool request_errors_are_own;
	/*
	 * A request that TCP does not take, mostly because the connection has
	 * ended, completes with IBV_WC_LOC_QP_OP_ERR, and raises
	 * IBV_EVENT_QP_FATAL (Linux 6.1, siw_qp_tx.c, siw_qp_sq_process()). Or
	 * posting it fails with ENOTCONN (siw_verbs.c, siw_post_send()). On
	 * other devices the device has failed.
	 */
	bool ends_as_local_error;
	/*
	 * libsiw takes the valid key 0x90000 of a queue for none: the creation
	 * of a queue pair or completion queue fails with a stale errno, mostly
	 * ENOMEM (rdma-core v44.0 to v64.0, siw-abi.h, SIW_INVAL_UOBJ_KEY). The
	 * key is the offset of the queue in the memory that the kernel maps for
	 * the context, so it depends on the sizes of all queues before it.
	 */
	bool refuses_a_key;
	/*
	 * The first message of the initiator may lie unread in the socket of
	 * the peer until more arrives: the accepting side sends its answer, and
	 * then sets the callback that reads the socket (Linux 6.1, siw_cm.c,
	 * siw_accept(), siw_qp_socket_assoc()). The peer's device may be siw if
	 * ours is another iWARP.
	 */
	bool misses_first;
	/*
	 * The initiator's ESTABLISHED has its own depths of reads in place of
	 * the peer's: initiator_depth and responder_resources are exchanged
	 * (Linux 6.1 and 6.12, siw_cm.c, siw_cm_upcall()).
	 */
	bool swaps_depths;
	/*
	 * IBV_ACCESS_* that memory needs for reads into it, beside local write
	 * access. On iWARP the peer's device writes the answer there.
	 */
	int read_sink_access;
	/*
	 * The device serves a region at the address of its memory only (Linux
	 * 6.1, siw_verbs.c, siw_reg_user_mr() does not use rnic_va).
	 */
	bool plain_addresses;
	/*
	 * siw sends wrong bytes if a request or the answer to a read has one
	 * gather entry of at most so many bytes, not inline, whose memory
	 * crosses a page boundary (Linux 6.1 and 6.12, siw_qp_tx.c,
	 * siw_try_1seg(): 'part', MAX_HDR_INLINE). The peer's device may be siw
	 * if ours is another iWARP.
	 */
	uint8_t torn_max;
	/*
	 * A window gives access to its whole region: check_rkey() checks the
	 * bounds of the region only. do_complete() does not tell programs which
	 * rkey was invalidated (Linux 6.1, rxe_resp.c).
	 */
	bool loose_windows;
	/*
	 * Atomics are atomic with the processor's atomics, too. But atomic_cap
	 * is IBV_ATOMIC_HCA, because programs test for that value
	 * (lib/soft/verbs/ctx.c).
	 */
	bool host_atomics;
	/*
	 * After a lost packet, a read that fails can complete with success:
	 * check_psn() completes the read on a repeated response, check_ack()
	 * fails it without a status. Then the queue pair goes to error
	 * (rxe_comp.c, COMPST_ERROR).
	 * And an atomic can complete without its result. If it was executed
	 * last, a repeated message or write before it is answered by an
	 * acknowledgement with the atomic's number (Linux 6.1, rxe_resp.c,
	 * duplicate_request(), prev_psn), and check_ack() takes that for the
	 * answer (COMPST_WRITE_SEND).
	 */
	bool doubtful_reads;
	/*
	 * From Linux 6.4 on, a request that fails on this side is reported as
	 * flushed: rxe_requester() takes the queue pair to the error state, and
	 * flush_send_queue() completes the request.
	 */
	bool flushes_failures;
	/*
	 * Datagrams a second that a subscriber on the same host can receive
	 * without loss, as measured. 0: not measured.
	 */
	uint32_t datagram_rate;
	/*
	 * Largest message for which copying costs less than registering its
	 * memory and reading it, as measured. 0: not measured.
	 */
	uint32_t pieces_max;
	/* The same if both sides poll, so that no answer waits; 0: no other. */
	uint32_t pieces_polling;
};

const struct quirks *rdmamsg__quirks(const struct rdmamsg_device *d);

const char *rdmamsg__kind_name(enum device_kind kind);
/* The default of pieces_max of endpoints; 0: none. */
uint32_t rdmamsg__kind_pieces_max(enum device_kind kind);
/*
 * Returns the name of the board, or NULL if the device's folder in /sys has it.
 */
const char *rdmamsg__kind_board(enum device_kind kind);
enum device_kind rdmamsg__kind_of(const struct verbs_api *v,
				  struct ibv_context *verbs,
				  const struct ibv_device_attr *attr);

/* Returns true if a flushed request may be one that failed on this side. */
bool rdmamsg__flushes_failures(const struct rdmamsg_device *d);
/* Returns true for iWARP, on a device of any kind. */
bool rdmamsg__is_iwarp(const struct rdmamsg_device *d);
/* Returns the access flags of memory that reads may write into. */
int rdmamsg__sink_access(const struct rdmamsg_device *d);

/* Returns NULL, or the reason why windows of the device cannot be used. */
const char *rdmamsg__window_lack(const struct rdmamsg_device *d);
enum rdmamsg_atomic rdmamsg__atomic_scope(const struct rdmamsg_device *d);

#endif
