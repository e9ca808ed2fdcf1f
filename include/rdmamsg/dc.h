/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets and senders, as of dynamically connected transport (DC): a target
 * receives from any number of senders, and a sender sends to any number of
 * targets, without connections that the program sees. Messages are whole, of
 * any size, and arrive once and in order for each sender and address.
 *
 * The library makes connections when they are needed. A sender has at most
 * 'initiators' of them, and closes the one that was used the longest time ago
 * if another address needs one. An address without a connection costs little
 * memory, so a sender can have many thousands of them. A sender with more
 * addresses than initiators uses queue pairs of DC, which need no connection,
 * where both devices have them.
 *
 * All calls are made in the context's thread.
 */
#ifndef RDMAMSG_DC_H
#define RDMAMSG_DC_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_dc_target;
struct rdmamsg_dc_sender;
struct rdmamsg_dc_address;	/* of a target, for one sender */
struct rdmamsg_layout;		/* <rdmamsg/layout.h> */
struct rdmamsg_region;		/* these: <rdmamsg/rma.h> */
struct rdmamsg_key;
struct rdmamsg_masked_attr;
struct rdmamsg_masked_swap;
struct rdmamsg_sge;

/* How senders reach targets. */
enum rdmamsg_dc_path {
	/*
	 * As RDMAMSG_DC_CONNECTIONS while a sender has at most as many
	 * addresses as initiators, because these cost less for each message.
	 * With more addresses as RDMAMSG_DC_NATIVE. A target serves both. With
	 * options of connections that DC ignores: connections.
	 */
	RDMAMSG_DC_AUTO,
	/* one connection for each address, made on demand */
	RDMAMSG_DC_CONNECTIONS,
	/*
	 * Dynamically connected queue pairs of the device, if it has them and
	 * both sides ask for them; else connections. See rdmamsg_dc(7).
	 */
	RDMAMSG_DC_NATIVE,
};

/* ---- endpoints -------------------------------------------------------- */

/*
 * DC as a kind of endpoint: a listener with 'dc' is a target, an endpoint with
 * 'dc' is an address of it. All else is as with a connection: sends, one-sided
 * operations, options, handlers.
 *
 * Declared for programs and bindings to come. In this version calls with these
 * options answer -EOPNOTSUPP. Use targets and senders, below.
 */

/* In rdmamsg_ep_options. */
struct rdmamsg_ep_dc {
	size_t size;
	uint64_t access_key;		/* of the target; 0 */
	uint32_t path;			/* enum rdmamsg_dc_path; AUTO */
};

/* In rdmamsg_listen_options. */
struct rdmamsg_listen_dc {
	size_t size;
	uint64_t access_key;		/* refuses senders with another; 0 */
	uint32_t path;			/* enum rdmamsg_dc_path; AUTO */
};

/* ---- targets ---------------------------------------------------------- */

struct rdmamsg_dc_target_options {
	size_t size;
	void *user;
	/* senders with another key are refused; like a Q_Key, but 64 bits; 0 */
	uint64_t access_key;
	/*
	 * A message of the sender with this random number. The message is the
	 * program's until rdmamsg_msg_free().
	 */
	void (*on_message)(struct rdmamsg_dc_target *target,
			   struct rdmamsg_msg *msg, uint64_t sender);
	/*
	 * A sender at this address has used another access key. Only while the
	 * target is armed. The target is not armed any more then. AF_UNSPEC:
	 * the device has counted it, and does not know the sender.
	 */
	void (*on_violation)(struct rdmamsg_dc_target *target,
			     const struct sockaddr_storage *from);
	/*
	 * The last call for the target, after rdmamsg_dc_target_destroy() or in
	 * rdmamsg_close(). The library frees the target when it returns.
	 */
	void (*on_destroyed)(struct rdmamsg_dc_target *target);
	const char *device;		/* only this RDMA device; NULL: any */
	uint32_t max_senders;		/* with a connection; 65536 */
	/*
	 * Of the connections: queues, limits, shared receives. 'user',
	 * 'handlers', 'hello_data' and 'setup_data' are the library's. Some
	 * are also of queue pairs of DC: rdmamsg_dc(7).
	 */
	const struct rdmamsg_ep_options *ep;
	/* a write that notifies, of the sender with this random number */
	void (*on_written)(struct rdmamsg_dc_target *target, uint32_t value,
			   uint64_t sender);
	uint32_t path;			/* enum rdmamsg_dc_path */
	/*
	 * rdmamsg_dc_target_get_layout_key() with this cookie has ended: once
	 * for each accepted call. status as of rdmamsg_layout_get_key().
	 */
	void (*on_complete)(struct rdmamsg_dc_target *target, void *cookie,
			    int status);
};

/*
 * Makes a target at service on host, as rdmamsg_listen() does, and writes it to
 * *ret. Errors as rdmamsg_listen().
 */
int rdmamsg_dc_target_create(struct rdmamsg *ctx, const char *host,
			     const char *service,
			     const struct rdmamsg_dc_target_options *opts,
			     struct rdmamsg_dc_target **ret);
/*
 * Refuses further senders, closes all connections and frees the target when the
 * last has ended. on_destroyed follows. Messages that senders have on the way
 * still arrive. target may be NULL.
 */
void rdmamsg_dc_target_destroy(struct rdmamsg_dc_target *target);
void *rdmamsg_dc_target_user(const struct rdmamsg_dc_target *target);
uint16_t rdmamsg_dc_target_port(const struct rdmamsg_dc_target *target);

/*
 * The next use of another access key is told by on_violation. -EOPNOTSUPP: with
 * RDMAMSG_DC_NATIVE, the device does not count such uses, and the target is not
 * armed. If the device of the target is not known yet, the call succeeds.
 * -EINVAL: no on_violation; -ESHUTDOWN: the target was destroyed.
 */
int rdmamsg_dc_target_arm(struct rdmamsg_dc_target *target);

/*
 * Registers the region if necessary, and writes a key with the region's remote
 * access to *ret. Every sender with a connection to the target can use the key,
 * until the region is revoked or the target destroyed. The key is of the device
 * in the options, or of the one with the address that the target was made for,
 * or of the first connection. -ENOTCONN: neither of them is known yet. Other
 * errors as rdmamsg_region_get_key().
 */
int rdmamsg_dc_target_get_key(struct rdmamsg_dc_target *target,
			      struct rdmamsg_region *region,
			      struct rdmamsg_key *ret);

/*
 * Writes the key of a layout to buf, as rdmamsg_layout_get_key() does, for the
 * same senders, and ends with on_complete of the target. They make a key of it
 * with rdmamsg_layout_import(). Errors of both calls.
 */
int rdmamsg_dc_target_get_layout_key(struct rdmamsg_dc_target *target,
				     struct rdmamsg_layout *layout, void *buf,
				     size_t room, size_t *ret_len,
				     void *cookie);

struct rdmamsg_dc_target_attr {
	size_t size;
	uint64_t access_key;
	uint32_t armed;			/* 1: on_violation may follow */
	uint32_t connections;		/* now */
	/* since the target was made */
	uint64_t key_violations;
	uint64_t messages;
	uint32_t sessions;		/* of the connections: native */

	struct rdmamsg_pd *pd;		/* of the options; NULL: the device's */
	/*
	 * The DCT of the native path, as the device tells it. NATIVE: the
	 * target has one, since a sender has asked for it. Otherwise these
	 * fields are 0 and CONNECTIONS.
	 */
	uint32_t path;			/* enum rdmamsg_dc_path */
	uint32_t dct_num;
	char device[64];
	uint32_t state;			/* enum ibv_qp_state */
	uint32_t access;		/* enum ibv_access_flags */
	uint32_t port;
	uint32_t mtu;			/* bytes */
	uint32_t pkey_index;
	uint32_t min_rnr_timer;		/* code */
	uint32_t service_level;
	uint32_t gid_index;
	uint32_t traffic_class;
	uint32_t flow_label;
	uint32_t hop_limit;
	uint32_t receives;		/* of the shared queue, posted now */
	uint32_t max_receives;
	uint32_t cq_entries;
	uint32_t counts_violations;	/* 1: the device does */
};

/*
 * Fills *attr. -EINVAL: size is not set, or an argument is NULL. Other errors:
 * of the device, which was asked about the DCT.
 */
int rdmamsg_dc_target_query(const struct rdmamsg_dc_target *target,
			    struct rdmamsg_dc_target_attr *attr);

/* ---- senders ---------------------------------------------------------- */

struct rdmamsg_dc_sender_options {
	size_t size;
	void *user;
	/*
	 * An accepted message has completed: once for each one with a non-NULL
	 * cookie. status 0: it is in the target's memory. -EACCES: the target
	 * has another access key. -ECANCELED: the connection has ended, and the
	 * target may or may not have the message. -EMSGSIZE: the target takes
	 * no message of this size. Other values: the target was not reached.
	 */
	void (*on_complete)(struct rdmamsg_dc_sender *sender,
			    struct rdmamsg_dc_address *address, void *cookie,
			    int status);
	/* The program can repeat a call that failed with -EAGAIN. */
	void (*on_writable)(struct rdmamsg_dc_sender *sender);
	/*
	 * The connection to the address has failed, or could not be made. The
	 * messages to it that were not complete end with on_complete before
	 * this call. Later messages make the next connection.
	 */
	void (*on_failed)(struct rdmamsg_dc_sender *sender,
			  struct rdmamsg_dc_address *address,
			  const struct rdmamsg_reason *why);
	/* The last call for the sender, as of targets. */
	void (*on_destroyed)(struct rdmamsg_dc_sender *sender);
	uint32_t initiators;	/* connections at a time; 16, 1..65536 */
	uint32_t queue;		/* messages that wait; 1024, 1..1048576 */
	/*
	 * Of the connections. 'user', 'handlers', 'hello_data' and 'setup_data'
	 * are the library's. As of targets, some are also of queue pairs of DC.
	 */
	const struct rdmamsg_ep_options *ep;
	/*
	 * Bytes that the library has copied for messages that wait; 16 MB. A
	 * larger message waits alone.
	 */
	size_t queue_bytes;
	uint32_t path;			/* enum rdmamsg_dc_path */
};

/* Makes a sender and writes it to *ret. -EINVAL, -ENOMEM. */
int rdmamsg_dc_sender_create(struct rdmamsg *ctx,
			     const struct rdmamsg_dc_sender_options *opts,
			     struct rdmamsg_dc_sender **ret);
/*
 * Cancels messages that wait, closes all connections, and frees the sender and
 * its addresses when the last connection has ended. on_destroyed follows.
 * sender may be NULL.
 */
void rdmamsg_dc_sender_destroy(struct rdmamsg_dc_sender *sender);
void *rdmamsg_dc_sender_user(const struct rdmamsg_dc_sender *sender);

struct rdmamsg_dc_sender_attr {
	size_t size;
	uint64_t id;			/* on_message of targets gives it */
	uint32_t addresses;		/* now */
	uint32_t connections;
	uint32_t queued;		/* messages that wait */
	/* since the sender was made */
	uint64_t connects;		/* connections begun */
	uint64_t evictions;		/* connections closed for another one */
	uint64_t queued_bytes;		/* now: copies of messages that wait */
	uint32_t sessions;		/* now: with targets on native paths */
};

/* Fills *attr. -EINVAL: size is not set, or an argument is NULL. */
int rdmamsg_dc_sender_query(const struct rdmamsg_dc_sender *sender,
			    struct rdmamsg_dc_sender_attr *attr);

/*
 * Names the target at service on host with this access key, and writes it to
 * *ret. Does not connect. -EINVAL, -ENOMEM; -ESHUTDOWN: the sender is being
 * destroyed.
 */
int rdmamsg_dc_address_create(struct rdmamsg_dc_sender *sender,
			      const char *host, const char *service,
			      uint64_t access_key, void *user,
			      struct rdmamsg_dc_address **ret);
/*
 * Accepted messages to the address are still sent, and complete. Then the
 * library closes the connection and frees the address. The program does not use
 * the address in calls any more. address may be NULL.
 */
void rdmamsg_dc_address_destroy(struct rdmamsg_dc_address *address);
void *rdmamsg_dc_address_user(const struct rdmamsg_dc_address *address);

enum rdmamsg_dc_state {
	RDMAMSG_DC_IDLE,		/* no connection, and none is due */
	RDMAMSG_DC_WAITING,		/* messages wait for an initiator */
	RDMAMSG_DC_CONNECTING,
	RDMAMSG_DC_OPEN,
	RDMAMSG_DC_CLOSING,
};

struct rdmamsg_dc_address_attr {
	size_t size;
	uint64_t access_key;
	uint32_t state;			/* enum rdmamsg_dc_state */
	/* the connection or session; AUTO: there is none */
	uint32_t path;			/* enum rdmamsg_dc_path */
	uint32_t queued;		/* messages that wait */
	/* OPEN: */
	uint32_t max_send;		/* largest message that it takes */
	uint32_t peer_qp_num;		/* of the target; 0: iWARP */
	/*
	 * The queue pair of the initiator, as the device tells it. 0: the
	 * address has none at this moment.
	 */
	uint32_t qp_num;
	char device[64];
	uint32_t qp_state;		/* enum ibv_qp_state */
	uint32_t port;
	uint32_t mtu;			/* bytes */
	uint32_t pkey_index;
	uint32_t ack_timeout;		/* 4.096 us * 2^n */
	uint32_t retry_count;
	uint32_t rnr_retry_count;
	uint32_t initiator_depth;	/* reads and atomics under way */
	uint32_t service_level;
	uint32_t gid_index;
	uint32_t traffic_class;
	uint32_t flow_label;
	uint32_t hop_limit;
};

/*
 * Fills *attr. -EINVAL, -ESHUTDOWN; other errors: of the device, which was
 * asked about the initiator.
 */
int rdmamsg_dc_address_query(const struct rdmamsg_dc_address *address,
			     struct rdmamsg_dc_address_attr *attr);

/*
 * Sends a message as rdmamsg_send() does. Without a connection the message
 * waits, and is copied. -EAGAIN: 'queue' messages or 'queue_bytes' wait, and
 * on_writable follows. -EMSGSIZE, -ESHUTDOWN, -ENOMEM.
 */
int rdmamsg_dc_send(struct rdmamsg_dc_address *address, const void *buf,
		    size_t len, uint32_t tag, void *cookie);

struct rdmamsg_op;

/*
 * Begins an operation, as rdmamsg_post() does: a SEND from memory without
 * regions, a WRITE, after which on_written of the target can follow, a READ,
 * FETCH_ADD or COMPARE_SWAP. The last four reach memory of the target behind a
 * key of rdmamsg_dc_target_get_key(). Operations begin in the order of the
 * calls to this address. The library registers the regions of gather entries.
 * An operation needs a cookie, and ends with on_complete. Without a connection
 * it waits, and the library copies entries without a region, up to max_copy
 * bytes, but not those of a SEND, which are lent. Extended atomics without
 * connections are in software, with operands of 4 and 8 bytes; -EOPNOTSUPP:
 * another size, or timeout_ms. An error that the library finds after that
 * arrives as the status. Errors of rdmamsg_dc_send() and of rdmamsg_post().
 */
int rdmamsg_dc_post(struct rdmamsg_dc_address *address,
		    const struct rdmamsg_op *op);

/*
 * Masked atomics of the address, as rdmamsg_ep_masked_query() tells those of an
 * endpoint. -ENOTCONN: the address has no connection or session, and so no
 * answer. -EINVAL, -ESHUTDOWN.
 */
int rdmamsg_dc_address_masked_query(const struct rdmamsg_dc_address *address,
				    struct rdmamsg_masked_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
