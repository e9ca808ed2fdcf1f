/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg sends whole messages over RDMA connections. Most programs need only
 * this header. The others add functions for
 *
 *	<rdmamsg/endpoint.h>	state, reason and attributes of an endpoint
 *	<rdmamsg/flow.h>	pause, cancel, cork, how far messages are
 *	<rdmamsg/post.h>	every operation as a struct, with a deadline
 *	<rdmamsg/timer.h>	timers of a context
 *	<rdmamsg/listener.h>	connection requests, counters of a listener
 *	<rdmamsg/device.h>	devices and their events
 *	<rdmamsg/diag.h>	log, dump, version
 *	<rdmamsg/memory.h>	shared receive queues, pools, protection domains
 *	<rdmamsg/rma.h>		one-sided operations
 *	<rdmamsg/layout.h>	regions composed of many blocks
 *	<rdmamsg/group.h>	publish and subscribe on multicast
 *	<rdmamsg/chain.h>	chains, collective operations of a team
 *	<rdmamsg/dc.h>		targets and senders, connected on demand
 *	<rdmamsg/oob.h>		connections without the connection manager
 *	<rdmamsg/verbs.h>	verbs objects, queue pairs without an endpoint
 *	<rdmamsg/failover.h>	connections that survive a failed path
 *	<rdmamsg/fast.h>	the fast path, inlined
 *	<rdmamsg/ev.h>		libev; likewise event.h, glib.h and uv.h
 *
 * Conventions of every call, unless its comment says otherwise:
 *
 * - A call returns 0 or a count on success, and a negative errno on failure.
 *   After a failure rdmamsg_error() returns a sentence that says what to do.
 *   A call writes its outputs on success only. An argument out of range gives
 *   -EINVAL.
 * - A context and everything made from it belong to one thread. Only
 *   rdmamsg_submit(), rdmamsg_submit_wait(), rdmamsg_stop(),
 *   rdmamsg_request_move() and freeing a message of rdmamsg_msg_ref() cross
 *   threads.
 * - Callbacks run in that thread, only inside calls that drive the context:
 *   rdmamsg_process(), rdmamsg_poll(), rdmamsg_wait(), rdmamsg_run(), a
 *   *_wait() helper except rdmamsg_submit_wait(), or rdmamsg_close(). Callbacks
 *   may make every other call. In a callback, the calls that drive the context
 *   return -EDEADLK, and rdmamsg_close() only logs an error.
 * - Options and handlers are structs whose first member is their size. A zero
 *   field means the default. RDMAMSG_NONE means none, off or zero, where that
 *   has a meaning. A NULL pointer to the struct means all defaults. The call
 *   copies the struct. Structs that a call fills have a size too, which the
 *   caller sets.
 * - The comment of an option ends with its default and its range, if any.
 * - A child of fork() cannot use what its parent opened: calls return -ECHILD.
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
struct rdmamsg_request;		/* a peer's request, not yet accepted */
struct rdmamsg_ep;		/* endpoint: a session with a peer */
struct rdmamsg_msg;		/* a message in registered memory */
struct rdmamsg_srq;		/* receives shared by endpoints */
struct rdmamsg_pool;		/* registered buffers, made by the program */
struct rdmamsg_pd;		/* protection domain of regions, endpoints */
struct rdmamsg_window;		/* memory window: access to part of a region */
struct rdmamsg_qp;		/* <rdmamsg/verbs.h> */
struct rdmamsg_event;		/* <rdmamsg/device.h> */
struct rdmamsg_srq_options;	/* <rdmamsg/memory.h> */
struct rdmamsg_path;		/* <rdmamsg/oob.h> */
struct rdmamsg_failover;	/* <rdmamsg/failover.h> */
struct rdmamsg_path_event;	/* <rdmamsg/failover.h> */
struct rdmamsg_reconnect;	/* <rdmamsg/failover.h> */
struct rdmamsg_on_demand;	/* <rdmamsg/failover.h> */
struct rdmamsg_disconnect_event;	/* <rdmamsg/failover.h> */
struct rdmamsg_ep_dc;		/* <rdmamsg/dc.h> */
struct rdmamsg_listen_dc;	/* <rdmamsg/dc.h> */

#define RDMAMSG_NONE		UINT32_MAX	/* none, off, or zero */
#define RDMAMSG_MSG_MAX		0x7fffffffu	/* bytes in a message */
#define RDMAMSG_SEGMENTS_MAX	16		/* of rdmamsg_sendv() */
#define RDMAMSG_HELLO_DATA_MAX	32		/* bytes, before accepting */
#define RDMAMSG_SETUP_DATA_MAX	4096		/* bytes, before connected */

/* ---- context ---------------------------------------------------------- */

struct rdmamsg_ctx_handlers {
	size_t size;

	/*
	 * Reports events of devices, ports and endpoints. After the event of a
	 * failure the library ends the endpoints concerned.
	 */
	void (*on_event)(struct rdmamsg *ctx, const struct rdmamsg_event *ev);

	/*
	 * rdmamsg_shutdown() or rdmamsg_shutdown_wait() has come to its end.
	 * 'failed' is the number of connections and groups that did not end
	 * gracefully. Only rdmamsg_close() is left to do, outside of callbacks.
	 */
	void (*on_shutdown)(struct rdmamsg *ctx, uint32_t failed);
};

struct rdmamsg_options {
	size_t size;
	void *user;
	const struct rdmamsg_ctx_handlers *handlers;
	uint32_t spin_us;	/* rdmamsg_wait(): poll before sleeping; 0 */
	uint32_t submit_depth;	/* rdmamsg_submit() queue; 1024 */
	size_t max_registered;	/* bytes of pool memory; 2 GB */
	size_t max_send_registered;	/* share for sending; a quarter */
	/* shared receive queue of endpoints that name no other; NULL: none */
	const struct rdmamsg_srq_options *srq;
	/*
	 * Pre-shared key: each peer must prove that it has the same key. The
	 * library copies what it needs. Give the bytes, 16 to 4096, or a file
	 * that only its owner can read.
	 */
	const void *key;
	size_t key_len;
	const char *key_file;
	/* of endpoints with 'on_demand' or 'dc'; -EOPNOTSUPP as yet */
	uint32_t max_lanes;
	/* datagrams/s of all groups together; no limit, 100..100000000 */
	uint32_t group_rate;
};

/*
 * Writes a new context to *ret. The library opens a device when the first
 * connection or listener needs it. -EMFILE, -ENFILE, -ENOMEM; -ECHILD: the
 * process was forked from one that uses RDMA; -EACCES, -ENOENT: key_file.
 */
int rdmamsg_open(struct rdmamsg **ret, const struct rdmamsg_options *opts);

/*
 * Begins to end the context gracefully, and returns at once. Peers that connect
 * are rejected, and nothing new begins: such calls return -ESHUTDOWN. The
 * library leaves groups, and closes endpoints as rdmamsg_ep_close() does: both
 * sides deliver what they have accepted. After timeout_ms it aborts those that
 * are left. With timeout_ms < 0 only the endpoints' options limit the time.
 * on_shutdown follows, once. The next call replaces timeout_ms. Callbacks may
 * make the call. -EINVAL: ctx is NULL; -ENOMEM: nothing has begun.
 */
int rdmamsg_shutdown(struct rdmamsg *ctx, int timeout_ms);

/*
 * Aborts open endpoints, calls on_closed for each, and frees the context in a
 * bounded time. Listeners and requests end first, so on_closed must not use
 * them. Messages that the program still has become invalid, except those of
 * rdmamsg_msg_ref(). ctx may be NULL. In a callback the call only logs an
 * error.
 */
void rdmamsg_close(struct rdmamsg *ctx);

void *rdmamsg_user(const struct rdmamsg *ctx);

/*
 * Returns the descriptor of the context, for any event loop. When the
 * descriptor is readable (level-triggered), call rdmamsg_process(). Nothing
 * has to be armed. The descriptor belongs to the context and stays the same
 * until rdmamsg_close().
 */
int rdmamsg_fd(const struct rdmamsg *ctx);

/* Handles pending events without waiting. Returns the number of events. */
int rdmamsg_process(struct rdmamsg *ctx);

/*
 * Polls the completion queues once, without a system call. At least every
 * 1024th call also handles connection events, timers and submitted functions.
 * Returns the number of completions and of these events.
 */
int rdmamsg_poll(struct rdmamsg *ctx);

/*
 * Handles pending events. If there are none, polls for spin_us and then sleeps
 * for up to timeout_ms. timeout_ms < 0 waits without limit. Returns the number
 * of events, 0 on timeout, -EINTR on a signal, -EDEADLK in a callback.
 */
int rdmamsg_wait(struct rdmamsg *ctx, int timeout_ms);

/* Calls rdmamsg_wait() until rdmamsg_stop(). -EDEADLK in a callback. */
int rdmamsg_run(struct rdmamsg *ctx);

/* Makes rdmamsg_run() return: the running call or the next. Any thread. */
void rdmamsg_stop(struct rdmamsg *ctx);

/*
 * Runs fn(ctx, arg) once in the context's thread. Functions of one thread run
 * in the order of submission. Any thread; the context must stay open until the
 * call returns. rdmamsg_close() runs functions that are still queued. -EAGAIN:
 * the queue is full.
 */
int rdmamsg_submit(struct rdmamsg *ctx,
		   void (*fn)(struct rdmamsg *ctx, void *arg), void *arg);
/*
 * The same, for other threads, but waits for room: timeout_ms, or without a
 * limit if it is below 0. -ETIMEDOUT: the queue was full for that time.
 * -EDEADLK: it is full, and the caller is in a callback of the context; or this
 * thread has opened the context or handled its events last, and no other thread
 * has handled them for 5 s.
 */
int rdmamsg_submit_wait(struct rdmamsg *ctx,
			void (*fn)(struct rdmamsg *ctx, void *arg), void *arg,
			int timeout_ms);

/* ---- why a connection ended ------------------------------------------- */

enum rdmamsg_who {
	RDMAMSG_WHO_NONE,	/* the connection has not begun to end */
	RDMAMSG_WHO_LOCAL,	/* this program, or one of its limits */
	RDMAMSG_WHO_PEER,	/* the peer closed, rejected or misbehaved */
	RDMAMSG_WHO_NETWORK,	/* nothing arrives from the peer */
	RDMAMSG_WHO_DEVICE,	/* the local device failed or was removed */
};

enum rdmamsg_cause {
	RDMAMSG_CAUSE_NONE,		/* the end has not begun */
	RDMAMSG_CAUSE_CLOSED,		/* graceful, nothing was lost */
	RDMAMSG_CAUSE_ABORTED,		/* an abort, crash or kill */
	RDMAMSG_CAUSE_TIMEOUT,		/* a deadline of this endpoint passed */
	RDMAMSG_CAUSE_ADDRESS,		/* no such name, address or device */
	RDMAMSG_CAUSE_REFUSED,		/* -ECONNREFUSED: no listener */
	RDMAMSG_CAUSE_REJECTED,		/* -ECONNABORTED: by peer's program */
	RDMAMSG_CAUSE_UNREACHABLE,	/* -EHOSTUNREACH: no answer */
	RDMAMSG_CAUSE_PROTOCOL,		/* the peer broke the protocol */
	RDMAMSG_CAUSE_VERSION,		/* no common protocol version */
	RDMAMSG_CAUSE_TRANSPORT,	/* retries exhausted, remote error */
	RDMAMSG_CAUSE_ACCESS,		/* a device refused a key */
	RDMAMSG_CAUSE_SILENT,		/* no answer for peer_timeout_ms */
	RDMAMSG_CAUSE_REMOVED,		/* device removed or fatal */
	RDMAMSG_CAUSE_RESOURCES,	/* no memory or permission, a limit */
	RDMAMSG_CAUSE_AUTH,		/* no pre-shared key, or another one */
	RDMAMSG_CAUSE_CRC,		/* a message has changed on its way */
};

struct rdmamsg_reason {
	size_t size;
	enum rdmamsg_who who;
	enum rdmamsg_cause cause;
	int error;		/* negative errno that fits best, 0 if CLOSED */
	int cm_event;		/* enum rdma_cm_event_type, -1 if none */
	int cm_status;		/* of cm_event: reject reason or -errno */
	int wc_status;		/* enum ibv_wc_status, 0 if none */
	uint32_t vendor_err;	/* of the failed completion */
	/* of the peer's rdmamsg_request_reject(), or with its code */
	const void *data;
	size_t data_len;
	char text[192];		/* the failure and the likely cause */
	/* the operation of the failed completion: "read"; NULL: none */
	const char *operation;
	/* of the peer's rdmamsg_ep_close_with() or _abort_with(); 0: none */
	uint32_t code;
};

/* ---- endpoints -------------------------------------------------------- */

/* Memory for an incoming message, see on_incoming. */
struct rdmamsg_buffer {
	void *data;		/* NULL: the library's memory */
};

struct rdmamsg_ep_handlers {
	size_t size;

	/* Both sides are ready, and the program can send. */
	void (*on_connected)(struct rdmamsg_ep *ep);

	/*
	 * The next message, in the order of sending. The message is the
	 * program's until rdmamsg_msg_free(). Without this handler messages
	 * wait for rdmamsg_recv_wait().
	 */
	void (*on_message)(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);

	/*
	 * The peer has announced a large message of len bytes. To receive the
	 * message in memory of the program, set dst->data to at least len bytes
	 * and return 0. The library borrows this memory until the message is
	 * freed, or until on_closed. To receive it in a layout, call
	 * rdmamsg_layout_recv() of <rdmamsg/layout.h>, and return 0. To receive
	 * it in memory of the library, return 0. To refuse this one message,
	 * return a negative errno: the sender's operation completes with
	 * -ECANCELED.
	 */
	int (*on_incoming)(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
			   struct rdmamsg_buffer *dst);

	/*
	 * An accepted send or one-sided operation has completed, or
	 * rdmamsg_layout_get_key() of <rdmamsg/layout.h>. The library calls
	 * this once for each operation with a non-NULL cookie. A large message
	 * may complete after later, smaller messages.
	 *
	 * status 0: the message is in the peer's memory, or the one-sided
	 * operation is done. -ECANCELED: the connection ended, and the peer
	 * may or may not have the message; or the peer's on_incoming refused
	 * it; or rdmamsg_ep_cancel() cancelled it. -EACCES: the peer's device
	 * refused the key, which ends the connection. Either the key is wrong
	 * or the peer's process was killed.
	 * RDMAMSG_IN_DOUBT of <rdmamsg/failover.h>: an atomic operation.
	 * RDMAMSG_TIMED_OUT and RDMAMSG_OVERDUE of <rdmamsg/post.h>: its
	 * timeout_ms has passed.
	 */
	void (*on_complete)(struct rdmamsg_ep *ep, void *cookie, int status);

	/* The program can repeat a send that failed with -EAGAIN. */
	void (*on_writable)(struct rdmamsg_ep *ep);

	/* The peer's program has not answered for silent_ms milliseconds. */
	void (*on_stalled)(struct rdmamsg_ep *ep, uint32_t silent_ms);
	/* The peer's program answers again. */
	void (*on_resumed)(struct rdmamsg_ep *ep);

	/*
	 * The connection has ended, or connecting has failed. In the second
	 * case on_connected was not called. This is the last call for the
	 * endpoint. The library frees the endpoint when the handler returns,
	 * unless the program holds it (rdmamsg_ep_hold()).
	 */
	void (*on_closed)(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why);

	/*
	 * The peer has posted a write with RDMAMSG_OP_NOTIFY and this value.
	 * That write and all earlier writes of the peer are in memory. The call
	 * comes in order with the messages.
	 */
	void (*on_written)(struct rdmamsg_ep *ep, uint32_t value);

	/*
	 * A message of the peer has invalidated this window. The program can
	 * bind the window again. The program can destroy it after on_complete
	 * of the binding. That message follows, in order with the other
	 * messages.
	 */
	void (*on_invalidated)(struct rdmamsg_ep *ep,
			       struct rdmamsg_window *window);

	/*
	 * The endpoint has migrated to its alternate path, or an alternate path
	 * was armed or lost. See opts->failover.
	 */
	void (*on_path)(struct rdmamsg_ep *ep,
			const struct rdmamsg_path_event *event);

	/*
	 * opts->reconnect: the endpoint has lost its connection, and connects
	 * again. on_connected or on_closed follows. This version never calls
	 * it.
	 */
	void (*on_disconnected)(struct rdmamsg_ep *ep,
				const struct rdmamsg_disconnect_event *event);
};

enum rdmamsg_ep_flags {
	RDMAMSG_EP_SIGNAL_ALL = 1u << 0,	/* a completion for each send */
	RDMAMSG_EP_OWN_CQ = 1u << 1,		/* own completion queue */
	/* own protection domain: no other peer reaches the memory in it */
	RDMAMSG_EP_GUARD = 1u << 2,
	/* a header in each message, as between devices without immediates */
	RDMAMSG_EP_FULL_HEADERS = 1u << 3,
	/*
	 * A CRC-32C over each message, from the memory of the sending program
	 * to that of the receiving one. Both sides must ask for it. If a
	 * message has changed, the connection ends.
	 */
	RDMAMSG_EP_CRC = 1u << 4,
	/*
	 * Connecting: as long as nobody listens there, the listener drains, or
	 * the host does not answer, tries again until timeout_ms.
	 */
	RDMAMSG_EP_RETRY = 1u << 5,
};

/*
 * How the library and the device do their work: queues, limits, liveness,
 * attributes of the queue pair. A program that sets none of it works well.
 * rdmamsg_ep_options has what a program decides.
 */
struct rdmamsg_ep_tuning {
	size_t size;

	/* messages */
	uint32_t max_copy;		/* limit of rdmamsg_send(); 65536 */
	uint32_t inline_max;		/* largest sent inline; 240, 0..512 */
	uint32_t eager_max;		/* largest sent by copy; 8176, ..1 MB */
	/* largest sent in pieces; the device kind's, ..1 MB, RDMAMSG_NONE */
	uint32_t pieces_max;
	uint32_t recv_depth;		/* the peer's credits; 64, 1..65536 */
	uint32_t send_depth;		/* sends in flight; 128, 1..65536 */
	uint32_t max_lent;		/* most received bytes kept; 64 MB */
	struct rdmamsg_pool *ctrl_pool;	/* control messages; send_pool */

	/* liveness, beside dead_after_ms */
	uint32_t stall_after_ms;	/* program silent: on_stalled; 5000 */
	uint32_t peer_timeout_ms;	/* program silent: end; RDMAMSG_NONE */
	uint32_t fetch_timeout_ms;	/* large message, + 1 s/MB; 60000 */

	/* the queue pair */
	uint32_t ack_timeout;		/* 4.096 us * 2^n; from dead_after_ms */
	uint32_t retry_count;		/* 7, 0..7 */
	/* 7 is without end; 6, or 7 if the peer has an SRQ; 0..7 */
	uint32_t rnr_retry_count;
	uint32_t min_rnr_timer;		/* code; 12 is 0.64 ms, 0..31 */
	uint32_t responder_resources;	/* reads served at once; 16, 1..255 */
	uint32_t initiator_depth;	/* reads issued at once; 16, 1..255 */
	uint32_t tos;			/* connect: IP TOS; system default */
	/* of the completion queue; contexts take turns, RDMAMSG_NONE: 0 */
	uint32_t comp_vector;
	uint32_t create_flags;		/* enum ibv_qp_create_flags; 0 */
};

struct rdmamsg_ep_options {
	size_t size;
	void *user;
	const struct rdmamsg_ep_handlers *handlers;
	uint32_t flags;			/* enum rdmamsg_ep_flags */

	uint32_t timeout_ms;		/* until connected; 10000 */
	const char *source;		/* connect: numeric local address */
	const char *device;		/* connect: name of the RDMA device */
	/* of rdmamsg_oob_*() and DC; elsewhere pkey alone */
	const struct rdmamsg_path *path;
	const void *hello_data;		/* the peer has it before it accepts */
	size_t hello_data_len;		/* up to RDMAMSG_HELLO_DATA_MAX */
	const void *setup_data;		/* the peer has it when connected */
	size_t setup_data_len;		/* up to RDMAMSG_SETUP_DATA_MAX */

	uint32_t max_msg_size;		/* largest to receive; 64 MB */
	uint32_t send_queue;		/* kept before -EAGAIN; 0, ..65536 */
	/* peer's device silent: end; 20000. iWARP: its program; 60000 */
	uint32_t dead_after_ms;
	uint32_t close_timeout_ms;	/* of rdmamsg_ep_close(); 10000 */
	const struct rdmamsg_failover *failover;	/* NULL: off */

	/* objects of the program */
	struct rdmamsg_srq *srq;	/* srq of the context, or none */
	/* pools of the buffers; NULL: the library's own */
	struct rdmamsg_pool *recv_pool;	/* excludes srq */
	struct rdmamsg_pool *send_pool;	/* copies and rdmamsg_msg_alloc() */
	struct rdmamsg_pd *pd;		/* NULL: the device's */

	const struct rdmamsg_ep_tuning *tuning;	/* NULL: all defaults */

	/* declared, and not built yet: this version answers -EOPNOTSUPP */
	const struct rdmamsg_reconnect *reconnect;	/* NULL: off */
	const struct rdmamsg_on_demand *on_demand;	/* NULL: off */
	const struct rdmamsg_ep_dc *dc;		/* NULL: a connection */
};

/*
 * Starts to connect to service (name or port number) on host (name or
 * address), and writes the endpoint to *ret. on_connected or on_closed follows
 * within timeout_ms. The library frees the endpoint after on_closed. It retries
 * after a reject because of a stale connection or of a limit of the peer that
 * may pass.
 *
 * The call fails at once for bad arguments, and if this host lacks something:
 * -EINVAL, -ENODEV, -EADDRNOTAVAIL, -EACCES, -EPERM, -ENOMEM, -EMFILE; -ENXIO:
 * there are devices, and none has the name in the options.
 * on_closed reports failures of the network and of the peer.
 */
int rdmamsg_connect(struct rdmamsg *ctx, const char *host, const char *service,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret);

/*
 * Closes gracefully: both sides deliver the messages that they have accepted,
 * then on_closed follows. Further sends fail with -ESHUTDOWN, at the peer as
 * soon as it learns of the close. After close_timeout_ms the close becomes an
 * abort. Does nothing if the endpoint is closing already.
 */
void rdmamsg_ep_close(struct rdmamsg_ep *ep);

/* Ends the connection now: outstanding sends complete with -ECANCELED. */
void rdmamsg_ep_abort(struct rdmamsg_ep *ep);

/*
 * As the two calls above, and tell the peer's program why: its rdmamsg_reason
 * has the code and up to RDMAMSG_HELLO_DATA_MAX bytes of data, which the calls
 * copy. The library does not interpret either. A peer that is not connected, or
 * whose library does not know these calls, is told without them, and those of
 * an abort may be lost with the connection. -EINVAL: too long. -ESHUTDOWN: the
 * endpoint ends already, or for rdmamsg_ep_close_with() is closing. After an
 * error the call has done nothing.
 */
int rdmamsg_ep_close_with(struct rdmamsg_ep *ep, uint32_t code,
			  const void *data, size_t len);
int rdmamsg_ep_abort_with(struct rdmamsg_ep *ep, uint32_t code,
			  const void *data, size_t len);

void *rdmamsg_ep_user(const struct rdmamsg_ep *ep);
void rdmamsg_ep_set_user(struct rdmamsg_ep *ep, void *user);

/* ---- sending ---------------------------------------------------------- */

/*
 * Each of the three calls sends one message of 0 bytes up to max_send of
 * rdmamsg_ep_query(). The library does not interpret the tag. The cookie comes
 * back in on_complete; with NULL there is no on_complete. Messages of one
 * endpoint arrive whole and in the order of the calls.
 *
 * -EAGAIN: nothing was accepted, and on_writable follows; rdmamsg_error() does
 * not change. -EMSGSIZE: too large. -ENOTCONN, -ESHUTDOWN. Large messages also
 * give -ENOBUFS: a copy can never fit into max_send_registered; -ENOMEM,
 * -EACCES, -EFAULT, -EIO: the device did not register the memory.
 */

/* Copies up to max_copy bytes. The caller's memory is free on return. */
int rdmamsg_send(struct rdmamsg_ep *ep, const void *buf, size_t len,
		 uint32_t tag, void *cookie);

/*
 * Sends up to RDMAMSG_SEGMENTS_MAX segments as one message of any size. The
 * library borrows the memory until on_complete, or until on_closed if there is
 * no cookie.
 */
int rdmamsg_sendv(struct rdmamsg_ep *ep, const struct iovec *iov, int iovcnt,
		  uint32_t tag, void *cookie);

/*
 * Sends an allocated or received message. Does not copy a message of this
 * endpoint's device and protection domain, unless it was received and goes in
 * pieces. On success the message is the library's.
 */
int rdmamsg_msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     uint32_t tag, void *cookie);

/* ---- messages --------------------------------------------------------- */

/*
 * Allocates a message of len bytes in memory registered for the device of a
 * connected endpoint. -EAGAIN: max_send_registered is reached, and on_writable
 * follows; -ENOBUFS: the message can never fit. -EMSGSIZE, -ENOTCONN,
 * -ESHUTDOWN, -ENOMEM.
 */
int rdmamsg_msg_alloc(struct rdmamsg_ep *ep, size_t len,
		      struct rdmamsg_msg **ret);

/*
 * Frees a received message, or one that was not sent. msg may be NULL. The
 * context's thread, before rdmamsg_close(). For a message of rdmamsg_msg_ref()
 * drops one reference, in any thread, also after rdmamsg_close().
 */
void rdmamsg_msg_free(struct rdmamsg_msg *msg);
/*
 * Adds a reference, so that several owners have the message, and one message
 * can be sent to many endpoints. Each reference ends with rdmamsg_msg_free(),
 * or with rdmamsg_msg_send() that succeeds. Nobody may write to the message
 * while it has other references or is being sent. Any thread that has a
 * reference; before the first call, the thread that has the message. -EINVAL,
 * -ENOMEM.
 */
int rdmamsg_msg_ref(struct rdmamsg_msg *msg);

void *rdmamsg_msg_data(const struct rdmamsg_msg *msg);
size_t rdmamsg_msg_len(const struct rdmamsg_msg *msg);
uint32_t rdmamsg_msg_tag(const struct rdmamsg_msg *msg);
/*
 * Sets the length of a message. An allocated message can have up to the length
 * that was allocated. A received message can only become shorter. -EINVAL: len
 * is above that. -EBUSY: the message has other references, or is being sent.
 */
int rdmamsg_msg_set_len(struct rdmamsg_msg *msg, size_t len);

/* ---- listening -------------------------------------------------------- */

enum rdmamsg_listen_flags {
	/*
	 * Listeners of several contexts share the port. Each request goes to
	 * one of them: to each in turn, or else to the one whose context has
	 * the fewest endpoints and unanswered requests.
	 */
	RDMAMSG_LISTEN_SHARED = 1u << 0,
	RDMAMSG_LISTEN_BY_LOAD = 1u << 1,	/* with SHARED */
};

struct rdmamsg_listener_handlers {
	size_t size;

	/*
	 * A peer asks for a connection. The program accepts, rejects or moves
	 * the request, now or later. The peer waits for at most its timeout_ms.
	 * If the peer has gone, rdmamsg_request_accept() returns -ECONNRESET.
	 * Without this handler the listener accepts requests with 'ep'. If 'ep'
	 * is NULL as well, requests wait for rdmamsg_listener_accept_wait().
	 */
	void (*on_request)(struct rdmamsg_listener *listener,
			   struct rdmamsg_request *req);

	/*
	 * The listener's device was removed. The listener takes no requests
	 * until the address is back, and listens there again by itself.
	 */
	void (*on_failed)(struct rdmamsg_listener *listener, int error);

	/*
	 * The library could not accept a request with 'ep'. The peer was
	 * rejected or had gone. 'why' is valid during the callback. The
	 * listener continues.
	 */
	void (*on_accept_failed)(struct rdmamsg_listener *listener,
				 const struct rdmamsg_reason *why);

	/*
	 * A sender at this address has used another access key of 'dc', and the
	 * listener was armed. AF_UNSPEC: the device has counted it, and does
	 * not know the sender. This version never calls it.
	 */
	void (*on_violation)(struct rdmamsg_listener *listener,
			     const struct sockaddr_storage *from);
};

struct rdmamsg_listen_options {
	size_t size;
	void *user;
	const struct rdmamsg_listener_handlers *handlers;
	const struct rdmamsg_ep_options *ep;
	uint32_t backlog;		/* 128 */
	const char *device;		/* only this RDMA device */
	/* limits for unknown peers; RDMAMSG_NONE: no limit */
	uint32_t max_requests;		/* unanswered requests; 128 */
	uint32_t max_half_open;		/* these, and no SETUP yet; 128 */
	uint32_t setup_timeout_ms;	/* from accepting until SETUP; 5000 */
	uint32_t max_endpoints;		/* all connections; 65536 */
	uint32_t max_per_source;	/* of one address; 2/3 of each limit */
	uint32_t slow_ms;		/* rejects after an offence; 100 */
	/* pre-shared key of its peers; the context's */
	const void *key;
	size_t key_len;
	const char *key_file;
	uint32_t flags;			/* enum rdmamsg_listen_flags */
	/* the listener is a DC target; NULL: not. -EOPNOTSUPP as yet */
	const struct rdmamsg_listen_dc *dc;
};

/*
 * Listens on service at host. A NULL host means every address and device.
 * Service "0" takes a free port. If host is a name, the call looks it up before
 * it returns, which may take up to 10 s. ret may be NULL, here and in
 * rdmamsg_request_accept() and rdmamsg_connect().
 * -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV, -ENXIO, -EACCES, -EPERM, -EOPNOTSUPP,
 * -ETIMEDOUT, -ENOMEM, -EMFILE.
 */
int rdmamsg_listen(struct rdmamsg *ctx, const char *host, const char *service,
		   const struct rdmamsg_listen_options *opts,
		   struct rdmamsg_listener **ret);

/*
 * Stops listening and rejects requests that wait for
 * rdmamsg_listener_accept_wait(). Requests given to on_request stay valid, and
 * endpoints stay connected. listener may be NULL.
 */
void rdmamsg_listener_close(struct rdmamsg_listener *listener);

void *rdmamsg_listener_user(const struct rdmamsg_listener *listener);
uint16_t rdmamsg_listener_port(const struct rdmamsg_listener *listener);

/*
 * rdmamsg_request_accept() and rdmamsg_request_reject() end the request,
 * whatever they return. The request decides the device, the local address and
 * the type of service, so 'source', 'device' and the tuning's 'tos' have no
 * effect. For a request of rdmamsg_oob_listen() only 'source' has no effect.
 * -ECONNRESET: the peer has gone; -ENOMEM, -ENOBUFS, -EMFILE.
 */
int rdmamsg_request_accept(struct rdmamsg_request *req,
			   const struct rdmamsg_ep_options *opts,
			   struct rdmamsg_ep **ret);
/* data: up to RDMAMSG_HELLO_DATA_MAX bytes for the peer's rdmamsg_reason. */
int rdmamsg_request_reject(struct rdmamsg_request *req, const void *data,
			   size_t len);

/* ---- without a loop --------------------------------------------------- */

/*
 * Each *_wait() call drives the context until the work is done or timeout_ms
 * has passed (-ETIMEDOUT). With timeout_ms < 0 only the endpoint's options
 * limit the time. Callbacks of all endpoints run meanwhile. -EDEADLK in a
 * callback. The library holds the endpoints that these calls return, and the
 * caller ends them with rdmamsg_ep_close_wait().
 */
int rdmamsg_connect_wait(struct rdmamsg *ctx, const char *host,
			 const char *service,
			 const struct rdmamsg_ep_options *opts, int timeout_ms,
			 struct rdmamsg_ep **ret);
/* 'opts' as for rdmamsg_request_accept(). */
int rdmamsg_listener_accept_wait(struct rdmamsg_listener *listener,
				 const struct rdmamsg_ep_options *opts,
				 int timeout_ms,
				 struct rdmamsg_ep **ret);
/*
 * Sends a message of any size and returns when the peer has it. -ETIMEDOUT ends
 * the endpoint.
 */
int rdmamsg_send_wait(struct rdmamsg_ep *ep, const void *buf, size_t len,
		      uint32_t tag, int timeout_ms);
/*
 * Receives the next message of an endpoint without on_message. -ETIMEDOUT: no
 * message has come, and the connection goes on. -ESHUTDOWN: the peer has
 * closed, and the program has all its messages. Another error: the connection
 * has broken.
 */
int rdmamsg_recv_wait(struct rdmamsg_ep *ep, int timeout_ms,
		      struct rdmamsg_msg **ret);
/*
 * Returns when the peer's program has called it, too, with the same point: a
 * rendezvous of the two programs, behind all messages that the peer has sent
 * before. Without on_message only. -EPROTO: the peer is at another point, or
 * has sent a message, which stays for rdmamsg_recv_wait(). -ETIMEDOUT ends the
 * endpoint. Others as rdmamsg_recv_wait().
 */
int rdmamsg_ep_meet_wait(struct rdmamsg_ep *ep, uint32_t point, int timeout_ms);
/*
 * Calls rdmamsg_ep_close(), waits for the end, calls rdmamsg_ep_release().
 * After timeout_ms the call aborts the endpoint. Returns 0 if the close was
 * graceful.
 */
int rdmamsg_ep_close_wait(struct rdmamsg_ep *ep, int timeout_ms);
/*
 * Calls rdmamsg_shutdown() and waits for the end of it. Returns the number of
 * connections and groups that did not end gracefully. The caller still calls
 * rdmamsg_close().
 */
int rdmamsg_shutdown_wait(struct rdmamsg *ctx, int timeout_ms);
/*
 * Returns the reason of the last *_wait() call that failed in the context. This
 * is the reason of the endpoint, with the data of a reject. If the call ended
 * no connection, cause is RDMAMSG_CAUSE_NONE and error is the error of the
 * call. Valid until the next *_wait() call that fails. Never NULL.
 */
const struct rdmamsg_reason *rdmamsg_wait_reason(const struct rdmamsg *ctx);

/* ---- diagnosis -------------------------------------------------------- */

/*
 * Returns the text of the last call that failed in this thread. A call that
 * succeeds does not change the text, nor does -EAGAIN of a send. Never NULL.
 */
const char *rdmamsg_error(void);

struct rdmamsg_stats {
	size_t size;
	uint64_t msgs_sent;
	uint64_t msgs_received;
	uint64_t bytes_sent;		/* payload */
	uint64_t bytes_received;
	uint64_t bytes_copied;		/* payload that the library copied */
	uint64_t sent_inline;		/* messages sent, by path */
	uint64_t sent_eager;
	uint64_t sent_rendezvous;
	uint64_t received_rendezvous;
	uint64_t sends_refused;		/* -EAGAIN */
	uint64_t credit_stalls;		/* of sends_refused: no credit */
	uint64_t credit_msgs;		/* only to return credits */
	uint64_t keepalives;
	uint64_t pings;			/* PING messages sent */
	uint64_t rnr_errors;		/* ended: no receive at the peer */
	uint64_t stalls;		/* calls of on_stalled */
	uint64_t completions;
	uint64_t wakeups;		/* context: process() had events */
	uint64_t endpoints;		/* context: not closed, now */
	uint64_t msgs_lent;		/* context: the program has, now */
	uint64_t bytes_registered;	/* context: pool memory, now */
	uint64_t rma_writes;		/* one-sided operations accepted */
	uint64_t rma_reads;
	uint64_t rma_atomics;
	uint64_t rma_bytes;		/* bytes of rma_* operations */
	uint64_t sent_pieces;		/* messages sent in pieces */
	uint64_t received_pieces;
	uint64_t lanes_lost;		/* failover: connections lost or left */
	uint64_t lanes_resumed;		/* others that took over */
	uint64_t msgs_repeated;		/* messages sent again over them */

	/*
	 * Context: endpoints that have ended, each once in ended[enum
	 * rdmamsg_cause] and once in ended_by[enum rdmamsg_who].
	 */
	uint64_t ended[32];
	uint64_t ended_by[8];
	uint64_t connects_failed;	/* of these, never connected: dialled, */
	uint64_t accepts_failed;	/* and accepted */
	uint64_t connects_repeated;	/* tries after the first one */
	uint64_t requests_rejected;	/* by the program */
	uint64_t requests_limited;	/* by a limit of a listener */
	uint64_t requests_unusable;	/* by the library, for another cause */
};

int rdmamsg_get_stats(const struct rdmamsg *ctx, struct rdmamsg_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
