/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg: whole messages over RDMA connections. This header is all that most
 * programs need. A program that uses more includes
 *
 *	<rdmamsg/endpoint.h>	state, reason and attributes of an endpoint
 *	<rdmamsg/listener.h>	requests moved or examined, counters
 *	<rdmamsg/device.h>	devices and their events
 *	<rdmamsg/diag.h>	log, dump, version
 *	<rdmamsg/memory.h>	shared receive queues, pools, protection domains
 *	<rdmamsg/rma.h>		one-sided operations
 *	<rdmamsg/oob.h>		connections without the connection manager
 *	<rdmamsg/verbs.h>	verbs objects, queue pairs of the program's own
 *	<rdmamsg/fast.h>	the fast path, inlined
 *	<rdmamsg/ev.h>		libev
 *
 * Conventions of every call, unless its comment says otherwise:
 *
 * - Returns 0 (or a count) on success and a negative errno on failure;
 *   rdmamsg_error() then has a sentence that says what to do. Outputs are
 *   written on success only. Arguments out of range give -EINVAL.
 * - A context and everything made from it belong to one thread. Only
 *   rdmamsg_submit(), rdmamsg_stop() and rdmamsg_request_move() cross threads.
 * - Callbacks run in that thread, inside rdmamsg_process(), rdmamsg_poll(),
 *   rdmamsg_wait(), rdmamsg_run() or a *_wait() helper (and rdmamsg_close()),
 *   never inside another call. Every call may be made from a callback except
 *   those: they return -EDEADLK.
 * - Options and handlers are structs whose first member is their size. A zero
 *   field means the default, RDMAMSG_NONE means none, off or zero where that
 *   has a meaning, and a NULL pointer to the struct means all defaults. They
 *   are copied by the call. Structs that are filled have their size set by
 *   the caller too.
 * - A child of fork() cannot use what its parent opened: it gets -ECHILD.
 */
#ifndef RDMAMSG_RDMAMSG_H
#define RDMAMSG_RDMAMSG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <rdmamsg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg;			/* context: one thread, one descriptor */
struct rdmamsg_listener;	/* accepts connections */
struct rdmamsg_request;		/* a connection asked for, not yet accepted */
struct rdmamsg_ep;		/* endpoint: a session with a peer */
struct rdmamsg_msg;		/* a message in registered memory */
struct rdmamsg_srq;		/* receives shared by endpoints */
struct rdmamsg_pool;		/* registered buffers of the program's choice */
struct rdmamsg_pd;		/* protection domain: what is used together */
struct rdmamsg_window;		/* access to a part of memory, for a while */
struct rdmamsg_event;		/* <rdmamsg/device.h> */
struct rdmamsg_srq_options;	/* <rdmamsg/memory.h> */
struct rdmamsg_path;		/* <rdmamsg/oob.h> */

#define RDMAMSG_NONE		UINT32_MAX	/* none, off, or zero */
#define RDMAMSG_MSG_MAX		0x7fffffffu	/* bytes in a message */
#define RDMAMSG_SEGMENTS_MAX	16		/* of rdmamsg_sendv() */
#define RDMAMSG_HELLO_DATA_MAX	32		/* bytes, before accepting */
#define RDMAMSG_SETUP_DATA_MAX	4096		/* bytes, before connected */

/* ---- context ---------------------------------------------------------- */

struct rdmamsg_options {
	size_t size;
	void *user;
	/*
	 * events of devices, ports and endpoints; those of a failure end them
	 */
	void (*on_event)(struct rdmamsg *ctx, const struct rdmamsg_event *ev);
	uint32_t spin_us;	/* rdmamsg_wait(): poll before sleeping; 0 */
	uint32_t submit_depth;	/* rdmamsg_submit() queue; 1024 */
	size_t max_registered;	/* bytes of pool memory; 2 GB */
	size_t max_send_registered;	/* of these, to send; a quarter */
	/* of endpoints without an srq of their own; NULL: not shared */
	const struct rdmamsg_srq_options *srq;
};

/*
 * Opens a context in *ret. No device is touched before it is needed.
 * -EMFILE, -ENFILE, -ENOMEM; -ECHILD: forked from a process that uses RDMA.
 */
int rdmamsg_open(struct rdmamsg **ret, const struct rdmamsg_options *opts);

/*
 * Aborts what is still open, calls on_closed for each endpoint, releases
 * everything, bounded in time. Messages still held become invalid. NULL is
 * fine. Inside a callback it does nothing but log an error.
 */
void rdmamsg_close(struct rdmamsg *ctx);

void *rdmamsg_user(const struct rdmamsg *ctx);

/*
 * The descriptor to wait on for reading, in any event loop, level-triggered,
 * until rdmamsg_close(). When it is readable call rdmamsg_process(). Nothing
 * has to be armed. It belongs to the context.
 */
int rdmamsg_fd(const struct rdmamsg *ctx);

/* Handles what is there, without waiting. Returns the number of events. */
int rdmamsg_process(struct rdmamsg *ctx);

/*
 * Polls the completion queues once, without a system call when nothing is
 * there; connection events and timers are looked at now and then. Returns
 * the number of completions.
 */
int rdmamsg_poll(struct rdmamsg *ctx);

/*
 * Handles what is there; if nothing is, polls for spin_us and then sleeps.
 * timeout_ms < 0 waits without bound. Returns the number of events, 0 on
 * timeout, -EINTR on a signal. -EDEADLK in a callback.
 */
int rdmamsg_wait(struct rdmamsg *ctx, int timeout_ms);

/* rdmamsg_wait() until rdmamsg_stop(). Returns 0. -EDEADLK in a callback. */
int rdmamsg_run(struct rdmamsg *ctx);

/* Makes rdmamsg_run() return, now or when it is next called. Any thread. */
void rdmamsg_stop(struct rdmamsg *ctx);

/*
 * Runs fn(ctx, arg) in the context's thread, once, in order of submission.
 * Any thread; the context must stay open until the call returns. Functions
 * that are queued at rdmamsg_close() run there. -EAGAIN: the queue is full.
 */
int rdmamsg_submit(struct rdmamsg *ctx,
		   void (*fn)(struct rdmamsg *ctx, void *arg), void *arg);

/* ---- why a connection ended ------------------------------------------- */

enum rdmamsg_who {
	RDMAMSG_WHO_NONE,	/* the connection has not ended */
	RDMAMSG_WHO_LOCAL,	/* this program asked for it, or its limits */
	RDMAMSG_WHO_PEER,	/* the peer closed, rejected or misbehaved */
	RDMAMSG_WHO_NETWORK,	/* nothing arrives any more */
	RDMAMSG_WHO_DEVICE,	/* the local device failed or was removed */
};

enum rdmamsg_cause {
	RDMAMSG_CAUSE_NONE,		/* the connection has not ended */
	RDMAMSG_CAUSE_CLOSED,		/* graceful, nothing was lost */
	RDMAMSG_CAUSE_ABORTED,		/* rdmamsg_ep_abort(), crash, kill */
	RDMAMSG_CAUSE_TIMEOUT,		/* a deadline of this endpoint passed */
	RDMAMSG_CAUSE_ADDRESS,		/* no such name, address, or device */
	RDMAMSG_CAUSE_REFUSED,		/* -ECONNREFUSED: nobody listens */
	RDMAMSG_CAUSE_REJECTED,		/* -ECONNABORTED: the peer says no */
	RDMAMSG_CAUSE_UNREACHABLE,	/* -EHOSTUNREACH: nobody answers */
	RDMAMSG_CAUSE_PROTOCOL,		/* the peer broke the protocol */
	RDMAMSG_CAUSE_VERSION,		/* no common protocol version */
	RDMAMSG_CAUSE_TRANSPORT,	/* retries exhausted, remote error */
	RDMAMSG_CAUSE_ACCESS,		/* a key was refused, here or there */
	RDMAMSG_CAUSE_SILENT,		/* peer_timeout_ms without an answer */
	RDMAMSG_CAUSE_REMOVED,		/* device removed or fatal */
	RDMAMSG_CAUSE_RESOURCES,	/* memory, limits, permission */
};

struct rdmamsg_reason {
	size_t size;
	enum rdmamsg_who who;
	enum rdmamsg_cause cause;
	int error;		/* negative errno that fits best, 0 if CLOSED */
	int cm_event;		/* enum rdma_cm_event_type, -1 if none */
	int cm_status;		/* of that event: reject reason or -errno */
	int wc_status;		/* enum ibv_wc_status, 0 if none */
	uint32_t vendor_err;	/* of that completion */
	const void *data;	/* what came with a reject */
	size_t data_len;
	char text[192];		/* what happened, and the likely cause */
};

/* ---- endpoints -------------------------------------------------------- */

/* Memory for an incoming message, see on_incoming. */
struct rdmamsg_buffer {
	void *data;		/* NULL: take the library's memory */
};

struct rdmamsg_handlers {
	size_t size;

	/* Both sides are ready. Sending is possible from here on. */
	void (*on_connected)(struct rdmamsg_ep *ep);

	/*
	 * The next message, in the order of sending. It is yours until
	 * rdmamsg_msg_free(). Without this handler messages wait for
	 * rdmamsg_recv_wait().
	 */
	void (*on_message)(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);

	/*
	 * A large message is announced. Return 0 and set dst->data to memory
	 * of at least len bytes to receive into it (it is yours again when
	 * that message is freed, or at on_closed), return 0 to take the
	 * library's memory, or return a negative errno to refuse this one
	 * message: the sender's operation completes with -ECANCELED.
	 */
	int (*on_incoming)(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
			   struct rdmamsg_buffer *dst);

	/*
	 * An accepted send, or one-sided operation, is over, exactly once
	 * for each that was given a non-NULL cookie; a large one may end
	 * after smaller ones behind it. status 0: it is in the peer's memory
	 * (rendezvous: the peer has read it; one-sided: it is done).
	 * -ECANCELED: the connection ended, the peer may or may not have it;
	 * or on_incoming refused it. -EACCES: the peer's device refused the
	 * key, which is wrong, or of a process that was killed; that ends the
	 * connection.
	 */
	void (*on_complete)(struct rdmamsg_ep *ep, void *cookie, int status);

	/* A send that gave -EAGAIN may now be tried again. */
	void (*on_writable)(struct rdmamsg_ep *ep);

	/* The peer's program has not answered for silent_ms, or does again. */
	void (*on_stalled)(struct rdmamsg_ep *ep, uint32_t silent_ms);
	void (*on_resumed)(struct rdmamsg_ep *ep);

	/*
	 * The connection is over, or was never made: then this comes without
	 * on_connected. Nothing comes after it. The endpoint is freed when it
	 * returns, unless held.
	 */
	void (*on_closed)(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why);

	/*
	 * The peer's rdmamsg_write_imm(), with its value: what it and the
	 * calls before it have written can be read. In turn with messages.
	 */
	void (*on_written)(struct rdmamsg_ep *ep, uint32_t value);

	/*
	 * The peer's rdmamsg_send_invalidate() has taken back this window,
	 * which may be bound again, or destroyed once its binding has ended.
	 * Its message comes in turn with the others, after this.
	 */
	void (*on_invalidated)(struct rdmamsg_ep *ep,
			       struct rdmamsg_window *window);
};

enum rdmamsg_ep_flags {
	RDMAMSG_EP_SIGNAL_ALL = 1u << 0,	/* a completion for each send */
	RDMAMSG_EP_OWN_CQ = 1u << 1,		/* shared with no other */
	/* a protection domain of its own: no other peer reaches its memory */
	RDMAMSG_EP_GUARD = 1u << 2,
};

struct rdmamsg_ep_options {
	size_t size;
	void *user;
	const struct rdmamsg_handlers *handlers;
	uint32_t flags;			/* enum rdmamsg_ep_flags */

	const char *source;		/* connect: local address to use */
	const char *device;		/* connect: RDMA device, by name */
	uint32_t timeout_ms;		/* until connected; 10000 */
	const void *hello_data;		/* for the peer, before it accepts */
	size_t hello_data_len;		/* RDMAMSG_HELLO_DATA_MAX */
	const void *setup_data;		/* for the peer, before connected */
	size_t setup_data_len;		/* RDMAMSG_SETUP_DATA_MAX */

	uint32_t max_msg_size;		/* largest to receive; 64 MB */
	uint32_t max_copy;		/* largest rdmamsg_send(); 65536 */
	uint32_t inline_max;		/* in the request; 240, at most 512 */
	uint32_t eager_max;		/* largest copied; 8176, at most 1 MB */
	uint32_t recv_depth;		/* in flight to us; 64, 1..65536 */
	uint32_t send_depth;		/* requests in flight; 128, 1..65536 */
	uint32_t send_queue;		/* kept, not -EAGAIN; 0, ..65536 */

	uint32_t dead_after_ms;		/* peer host gone; 20000 */
	uint32_t stall_after_ms;	/* on_stalled; 5000 */
	uint32_t peer_timeout_ms;	/* silence that closes; NONE */
	uint32_t close_timeout_ms;	/* of rdmamsg_ep_close(); 10000 */
	uint32_t fetch_timeout_ms;	/* rendezvous, + 1 s for a MB; 60000 */

	uint32_t ack_timeout;		/* 4.096 us * 2^n; from dead_after_ms */
	uint32_t retry_count;		/* 0..7; 7 */
	uint32_t rnr_retry_count;	/* 0..7, 7 without end; by the peer */
	uint32_t min_rnr_timer;		/* code 0..31; 12: 0.64 ms */
	uint32_t responder_resources;	/* reads served at once; 16 */
	uint32_t initiator_depth;	/* reads issued at once; 16 */
	uint32_t tos;			/* connect: IP TOS; system default */
	const struct rdmamsg_path *path;	/* rdmamsg_oob_*() only */
	uint32_t comp_vector;		/* of its completion queue; 0 */
	struct rdmamsg_srq *srq;	/* receives; the context's, or none */
	/* where buffers come from; NULL: the library's own */
	struct rdmamsg_pool *recv_pool;	/* not beside srq */
	struct rdmamsg_pool *send_pool;	/* of copies, rdmamsg_msg_alloc() */
	struct rdmamsg_pool *ctrl_pool;	/* control messages; send_pool */
	struct rdmamsg_pd *pd;		/* NULL: the device's */
	uint32_t create_flags;		/* of its queue pair, as in verbs */
	uint32_t max_lent;		/* bytes of received messages; 64 MB */
};

/*
 * Connects to service (name or port number) on host (name or address) and
 * tells on_connected or on_closed, within timeout_ms. *ret is an endpoint
 * that is freed after on_closed. Rejects that pass by themselves, stale ones
 * and those by a limit of the peer, are retried. Fails at once for bad
 * arguments and for what this host lacks: -EINVAL, -ENODEV, -EADDRNOTAVAIL,
 * -EACCES, -EPERM, -ENOMEM, -EMFILE, -EOPNOTSUPP for an iWARP device. What
 * the network or the peer decides, on_closed tells.
 */
int rdmamsg_connect(struct rdmamsg *ctx, const char *host, const char *service,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret);

/*
 * Ends the conversation: what was accepted is delivered, both ways, then
 * on_closed. No send is accepted any more, here or, once it has heard of it,
 * at the peer (-ESHUTDOWN). Past close_timeout_ms it becomes an abort.
 * Harmless when already closing.
 */
void rdmamsg_ep_close(struct rdmamsg_ep *ep);

/* Ends it now: what is outstanding completes with -ECANCELED. */
void rdmamsg_ep_abort(struct rdmamsg_ep *ep);

void *rdmamsg_ep_user(const struct rdmamsg_ep *ep);
void rdmamsg_ep_set_user(struct rdmamsg_ep *ep, void *user);
/* ---- sending ---------------------------------------------------------- */

/*
 * All three take messages of 0 bytes up to what the peer takes
 * (rdmamsg_ep_query), with a tag that the library does not look at, and a
 * cookie for on_complete, NULL if nobody needs to know. Messages of one
 * endpoint arrive whole and in the order of the calls. -EAGAIN: nothing was
 * accepted, on_writable will tell (this one leaves rdmamsg_error() alone);
 * -EMSGSIZE: too large; -ENOTCONN, -ESHUTDOWN. Of large messages also
 * -ENOBUFS: a copy never fits into max_send_registered; -ENOMEM, -EACCES,
 * -EFAULT, -EIO: the device did not register it.
 */

/* Copied: the caller's memory is free on return. Up to max_copy bytes. */
int rdmamsg_send(struct rdmamsg_ep *ep, const void *buf, size_t len,
		 uint32_t tag, void *cookie);

/*
 * Up to RDMAMSG_SEGMENTS_MAX segments, sent as one message of any size. The
 * memory is borrowed until on_complete, or on_closed if there is no cookie.
 */
int rdmamsg_sendv(struct rdmamsg_ep *ep, const struct iovec *iov, int iovcnt,
		  uint32_t tag, void *cookie);

/*
 * An allocated or received message, without copying it if it is of this
 * endpoint's device and protection domain. On success it is no longer yours.
 */
int rdmamsg_msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     uint32_t tag, void *cookie);

/* ---- messages --------------------------------------------------------- */

/*
 * A message of len bytes in memory registered for the endpoint's device.
 * Connected endpoints only. -EAGAIN: max_send_registered is reached,
 * on_writable will tell; -ENOBUFS: it can never fit. -EMSGSIZE, -ENOTCONN,
 * -ESHUTDOWN, -ENOMEM.
 */
int rdmamsg_msg_alloc(struct rdmamsg_ep *ep, size_t len,
		      struct rdmamsg_msg **ret);

/* Gives back a received message, or one not sent. NULL is fine. */
void rdmamsg_msg_free(struct rdmamsg_msg *msg);

void *rdmamsg_msg_data(const struct rdmamsg_msg *msg);
size_t rdmamsg_msg_len(const struct rdmamsg_msg *msg);
uint32_t rdmamsg_msg_tag(const struct rdmamsg_msg *msg);
/*
 * Of an allocated message up to the bytes that it was allocated with, of a
 * received one up to those that it has: -EINVAL when more.
 */
int rdmamsg_msg_set_len(struct rdmamsg_msg *msg, size_t len);

/* ---- listening -------------------------------------------------------- */

struct rdmamsg_listen_options {
	size_t size;
	void *user;
	/*
	 * Somebody wants to connect: accept, reject or move the request, now
	 * or later, within the peer's patience (its timeout_ms); one that has
	 * gone makes rdmamsg_accept() return -ECONNRESET. Without this handler
	 * requests are accepted with 'ep', or, if that is NULL as well, wait
	 * for rdmamsg_accept_wait().
	 */
	void (*on_request)(struct rdmamsg_listener *listener,
			   struct rdmamsg_request *req);
	/* The listener is dead: its device was removed. */
	void (*on_failed)(struct rdmamsg_listener *listener, int error);
	const struct rdmamsg_ep_options *ep;
	uint32_t backlog;		/* 128 */
	const char *device;		/* only this RDMA device */
	/*
	 * A request could not be accepted with 'ep'; the peer was rejected.
	 * 'why' is valid during the callback. The listener listens on.
	 */
	void (*on_accept_failed)(struct rdmamsg_listener *listener,
				 const struct rdmamsg_reason *why);
	/* limits on strangers; RDMAMSG_NONE: no limit */
	uint32_t max_requests;		/* not answered by the program; 128 */
	uint32_t max_half_open;		/* requests, and no SETUP yet; 128 */
	uint32_t setup_timeout_ms;	/* from accepting until SETUP; 5000 */
	uint32_t max_endpoints;		/* all connections; RDMAMSG_NONE */
	uint32_t max_per_source;	/* of one address; 2/3 of each limit */
	uint32_t slow_ms;		/* pause after a wrong key; 100 */
};

/*
 * Listens on service at host, NULL for every address and device. service
 * "0" takes a free port. A host that is a name is looked up before the call
 * returns, which may take up to 10 s. ret may be NULL, here and in
 * rdmamsg_accept() and rdmamsg_connect().
 * -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV, -EACCES, -EPERM, -EOPNOTSUPP,
 * -ETIMEDOUT, -ENOMEM, -EMFILE.
 */
int rdmamsg_listen(struct rdmamsg *ctx, const char *host, const char *service,
		   const struct rdmamsg_listen_options *opts,
		   struct rdmamsg_listener **ret);

/*
 * Stops listening and rejects what waits for rdmamsg_accept_wait(). Requests
 * given to on_request and endpoints live on. NULL is fine.
 */
void rdmamsg_listener_close(struct rdmamsg_listener *listener);

void *rdmamsg_listener_user(const struct rdmamsg_listener *listener);
uint16_t rdmamsg_listener_port(const struct rdmamsg_listener *listener);

/*
 * Both end the request, whatever they return. The request decides the device,
 * the local address and the type of service: 'source', 'device' and 'tos' have
 * no effect (after rdmamsg_oob_listen(): 'source'). -ECONNRESET: the peer has
 * gone; -ENOMEM, -ENOBUFS, -EMFILE.
 */
int rdmamsg_accept(struct rdmamsg_request *req,
		   const struct rdmamsg_ep_options *opts,
		   struct rdmamsg_ep **ret);
/* data: up to RDMAMSG_HELLO_DATA_MAX bytes for the peer's close reason. */
int rdmamsg_reject(struct rdmamsg_request *req, const void *data, size_t len);

/* ---- without a loop --------------------------------------------------- */

/*
 * Each drives the context until it is done or timeout_ms (< 0: no bound)
 * has passed: -ETIMEDOUT. Other endpoints' callbacks run meanwhile.
 * -EDEADLK inside a callback. Endpoints they return are held for the
 * caller, who ends with rdmamsg_close_wait().
 */
int rdmamsg_connect_wait(struct rdmamsg *ctx, const char *host,
			 const char *service,
			 const struct rdmamsg_ep_options *opts, int timeout_ms,
			 struct rdmamsg_ep **ret);
/* 'opts' as for rdmamsg_accept(). */
int rdmamsg_accept_wait(struct rdmamsg_listener *listener,
			const struct rdmamsg_ep_options *opts, int timeout_ms,
			struct rdmamsg_ep **ret);
/* Any size. Returns when the peer has it; -ETIMEDOUT ends the endpoint. */
int rdmamsg_send_wait(struct rdmamsg_ep *ep, const void *buf, size_t len,
		      uint32_t tag, int timeout_ms);
/*
 * For endpoints without on_message. -ESHUTDOWN: the peer has closed, and all
 * that it sent has been returned; another error: the connection has broken.
 */
int rdmamsg_recv_wait(struct rdmamsg_ep *ep, int timeout_ms,
		      struct rdmamsg_msg **ret);
/*
 * rdmamsg_ep_close(), waits for the end, rdmamsg_ep_release(). 0 if graceful.
 */
int rdmamsg_close_wait(struct rdmamsg_ep *ep, int timeout_ms);
/*
 * Why the last *_wait() call of the context that failed did: the reason of its
 * endpoint, with a reject's data; or cause NONE and the call's error, if it
 * ended no connection. Valid until the next one that fails. Never NULL.
 */
const struct rdmamsg_reason *rdmamsg_wait_reason(const struct rdmamsg *ctx);

/* ---- diagnosis -------------------------------------------------------- */

/*
 * The text of the last call that failed in this thread. A call that succeeds,
 * and -EAGAIN of a send, leave it as it was. Never NULL.
 */
const char *rdmamsg_error(void);

struct rdmamsg_counters {
	size_t size;
	uint64_t msgs_sent;
	uint64_t msgs_received;
	uint64_t bytes_sent;		/* payload */
	uint64_t bytes_received;
	uint64_t bytes_copied;		/* payload copied by the library */
	uint64_t sent_inline;		/* messages, by path */
	uint64_t sent_eager;
	uint64_t sent_rendezvous;
	uint64_t received_rendezvous;
	uint64_t sends_refused;		/* -EAGAIN */
	uint64_t credit_stalls;		/* of these, for want of credits */
	uint64_t credit_msgs;		/* sent only to return credits */
	uint64_t keepalives;
	uint64_t pings;			/* with on_stalled, peer_timeout_ms */
	uint64_t rnr_errors;		/* 0 unless a peer floods */
	uint64_t stalls;		/* on_stalled */
	uint64_t completions;
	uint64_t wakeups;		/* context: process() had work */
	uint64_t endpoints;		/* context: now */
	uint64_t msgs_lent;		/* received and not freed, now */
	uint64_t bytes_registered;	/* context: pool memory, now */
	uint64_t rma_writes;		/* one-sided operations accepted */
	uint64_t rma_reads;
	uint64_t rma_atomics;
	uint64_t rma_bytes;		/* of them */
};

int rdmamsg_stats(const struct rdmamsg *ctx, struct rdmamsg_counters *stats);
#ifdef __cplusplus
}
#endif

#endif
