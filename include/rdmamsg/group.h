/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups: publish and subscribe on RDMA multicast. A publisher's message goes
 * to every subscriber of the group. Nothing is acknowledged. A subscriber is
 * told which messages it has lost.
 *
 * All calls are made in the context's thread, and all handlers are called in
 * it, by rdmamsg_process() and the calls that wait.
 */
#ifndef RDMAMSG_GROUP_H
#define RDMAMSG_GROUP_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_group;

enum rdmamsg_group_flags {
	/* neither PUBLISH nor SUBSCRIBE: both */
	RDMAMSG_GROUP_PUBLISH = 1u << 0,
	RDMAMSG_GROUP_SUBSCRIBE = 1u << 1,
	RDMAMSG_GROUP_OWN = 1u << 2,	/* receives its own messages, too */
	RDMAMSG_GROUP_RAW = 1u << 3,	/* datagrams without frames */
	RDMAMSG_GROUP_REPAIR = 1u << 4,	/* asks for what is missing */
	RDMAMSG_GROUP_IPOIB = 1u << 5,	/* in IPoIB's port space, not UDP's */
	RDMAMSG_GROUP_UNORDERED = 1u << 6,	/* repairs hold up nothing */
};

/* A publisher of a group, or in raw mode the source of a datagram. */
struct rdmamsg_group_sender {
	uint64_t id;			/* random; 0 in raw mode */
	uint8_t gid[16];
	uint32_t qp_num;
};

struct rdmamsg_group_message {
	const void *data;		/* valid during the call */
	size_t len;			/* bytes */
	uint32_t number;		/* from 0 for each sender; 0 if raw */
	const struct rdmamsg_group_sender *sender;	/* during the call */
	/* of raw mode */
	int has_imm;
	uint32_t imm;			/* immediate data, host order */
	const void *grh;		/* the datagram's GRH, 40 bytes */
	int is_backlog;			/* see on_backlog */
};

/* How far a publisher with RDMAMSG_GROUP_REPAIR may be ahead. */
enum rdmamsg_group_flow {
	RDMAMSG_GROUP_FLOW_RATE,	/* the rate alone bounds it */
	/*
	 * by flow_window messages, of the slowest subscriber that counts, and
	 * by so many datagrams as it has receives for
	 */
	RDMAMSG_GROUP_FLOW_SLOWEST,
	/* likewise, of as many as flow_quorum, the fastest ones */
	RDMAMSG_GROUP_FLOW_QUORUM,
};

/* A subscriber with repair, by its last report: at least one a second. */
struct rdmamsg_group_member {
	size_t size;
	uint64_t id;			/* random, of its membership */
	uint8_t gid[16];
	uint32_t qp_num;
	uint32_t lag;			/* messages sent, not given to it */
	uint32_t lost;			/* messages that it was told as lost */
	uint32_t rtt_us;		/* round trip; 0: not measured yet */
	uint32_t age_ms;		/* of the report */
	int is_laggard;			/* see on_laggard */
	uint64_t tag;			/* of its options */
	/*
	 * Of its receives, which hold a datagram each, its part for this
	 * publisher; at most 65535, 0: not known.
	 */
	uint32_t receives;
};

/* The result of rdmamsg_group_flush(). */
struct rdmamsg_group_flushed {
	size_t size;
	uint32_t end;			/* it was for all messages below */
	uint32_t members;		/* subscribers that report */
	uint32_t behind;		/* of these, that lack some of them */
	uint32_t gone;			/* of these, that left or went silent */
	int uncounted;			/* there are more than a group counts */
};

/* Each may be NULL. The group may be left in any of them. */
struct rdmamsg_group_handlers {
	size_t size;

	/*
	 * The group is joined: it can publish, and messages that others publish
	 * from now on arrive. The call repeats after each on_lost.
	 */
	void (*on_joined)(struct rdmamsg_group *group);
	/*
	 * The membership is lost: a port, an address or the subnet manager has
	 * changed. The library joins again. Until on_joined nothing arrives,
	 * and rdmamsg_group_publish() gives -EAGAIN.
	 */
	void (*on_lost)(struct rdmamsg_group *group,
			const struct rdmamsg_reason *why);
	/*
	 * A message. rdmamsg_group_user() returns 'user' of the options: a
	 * program with several groups gives each its own, and so knows the
	 * topic without a table.
	 */
	void (*on_message)(struct rdmamsg_group *group,
			   const struct rdmamsg_group_message *msg);
	/* These messages of the sender, both included, will not come. */
	void (*on_gap)(struct rdmamsg_group *group,
		       const struct rdmamsg_group_sender *sender,
		       uint32_t first, uint32_t last);
	/* rdmamsg_group_publish() gave -EAGAIN, and may now be tried again. */
	void (*on_writable)(struct rdmamsg_group *group);
	/*
	 * The membership is over, or was never made. Nothing comes after it,
	 * and the group is freed when it returns.
	 */
	void (*on_closed)(struct rdmamsg_group *group,
			  const struct rdmamsg_reason *why);
	/*
	 * The device has sent the n-th published message, all of its datagrams:
	 * n as in sent_messages, from 1. In order, once for each message,
	 * before on_closed. One that was in the queue at on_lost may be left
	 * out.
	 */
	void (*on_sent)(struct rdmamsg_group *group, uint64_t n);
	/*
	 * The flush is over: if behind, gone and uncounted are 0, each
	 * subscriber with repair was given all messages below flushed->end.
	 */
	void (*on_flushed)(struct rdmamsg_group *group,
			   const struct rdmamsg_group_flushed *flushed);
	/*
	 * With the option backlog, before the first message of each sender:
	 * 'count' messages from 'first' on were published before this member
	 * has heard the sender. They follow, with is_backlog. less: older ones
	 * may have been wanted, and are not kept any more.
	 */
	void (*on_backlog)(struct rdmamsg_group *group,
			   const struct rdmamsg_group_sender *sender,
			   uint32_t first, uint32_t count, int less);
	/*
	 * With RDMAMSG_GROUP_FLOW_SLOWEST: this subscriber has held up the
	 * publisher for flow_limit_ms, and does not count any more until it has
	 * caught up; or it has not everything, and nothing has come from it for
	 * 4 s or more (m->age_ms), so that it is forgotten. *m is valid during
	 * the call.
	 */
	void (*on_laggard)(struct rdmamsg_group *group,
			   const struct rdmamsg_group_member *m);
};

/* 0 and NULL: the default, which the comment gives. */
struct rdmamsg_group_options {
	size_t size;
	void *user;
	const struct rdmamsg_group_handlers *handlers;
	uint32_t flags;			/* enum rdmamsg_group_flags */
	const char *source;		/* local address; by the route */
	const char *device;		/* RDMA device; by the address */
	uint32_t timeout_ms;		/* until joined; 10000 */
	uint32_t max_message;		/* bytes; 1 MB, at most 16 MB */
	uint32_t max_held;		/* bytes of incomplete ones; 16 MB */
	uint32_t max_senders;		/* that are followed; 64 */
	uint32_t recv_depth;		/* datagrams; 1024, 16..65536 */
	uint32_t send_depth;		/* datagrams; 256, 16..65536 */
	/*
	 * Datagrams a second that are published, repeated ones included. The
	 * default is 25,000 on Soft-RoCE and 200,000 elsewhere.
	 * RDMAMSG_NONE: as many as the device sends.
	 */
	uint32_t rate;
	/* a publisher with RDMAMSG_GROUP_REPAIR keeps the last ones for it */
	uint32_t history;		/* messages; 16384, 16..16384 */
	uint32_t history_bytes;		/* 16 MB */
	uint32_t history_ms;		/* each at least; 100 */
	uint32_t linger_ms;		/* repairs after leaving; 500 */
	uint32_t pkey;			/* P_Key on the way; any */
	/*
	 * A subscriber with RDMAMSG_GROUP_REPAIR gets the last messages first
	 * that each publisher has kept: at most so many, with so many bytes,
	 * and not older than that. 0: no such bound; all three 0: none.
	 */
	uint32_t backlog;		/* messages */
	uint32_t backlog_bytes;
	uint32_t backlog_ms;
	/* a publisher with RDMAMSG_GROUP_REPAIR waits for subscribers */
	uint32_t flow;			/* enum rdmamsg_group_flow; RATE */
	uint32_t flow_quorum;		/* subscribers; 1, ..254 */
	uint32_t flow_window;		/* messages; 512, ..16384 */
	uint32_t flow_limit_ms;		/* for a laggard; 1000, RDMAMSG_NONE */
	/*
	 * Of a subscriber: any number. Of a publisher with flow: only
	 * subscribers with this tag count for it, and for flushes; 0: all.
	 */
	uint64_t tag;
	/*
	 * Pre-shared key of all members: 16 to 4096 bytes at 'key', or in a
	 * file, as in the options of rdmamsg_open(). What others send, change
	 * or replay is dropped. The call copies it.
	 */
	const void *key;
	size_t key_len;
	const char *key_file;
	/*
	 * A publisher with RDMAMSG_GROUP_REPAIR sends one more datagram behind
	 * so many, from which a subscriber that lacks one of them makes it
	 * without asking; 0: none, ..32.
	 */
	uint32_t parity;
};

/*
 * Joins a group. 'address' is an IPv4 or IPv6 multicast address, or an MGID:
 * "ff..." with all of its eight parts, which needs source or device. A port may
 * follow, as in 239.1.2.3:7000 or [ff15::1]:7000, and is ignored. Or it is a
 * topic's name, of which the file of topics has the address. Or, without
 * multicast, "unicast:" and the address with port at which the only publisher
 * listens, as in unicast:10.0.0.1:7000: there a member either publishes or
 * subscribes, with RDMAMSG_GROUP_REPAIR. on_joined or on_closed tells the
 * result within timeout_ms: with -EOPNOTSUPP, the device has no multicast.
 * These errors come at once: -EINVAL: not a multicast address, or a wrong
 * option; -ENODEV, -ENXIO, -EADDRNOTAVAIL, -EACCES, -ENOMEM, -EMFILE; -EACCES,
 * -ENOENT: key_file; for a topic those of rdmamsg_topics_each(), and -ENOENT if
 * the file does not have it.
 */
int rdmamsg_group_join(struct rdmamsg *ctx, const char *address,
		       const struct rdmamsg_group_options *opts,
		       struct rdmamsg_group **ret);
/* Leaves, after the published messages are sent. on_closed follows. */
void rdmamsg_group_leave(struct rdmamsg_group *group);
void *rdmamsg_group_user(const struct rdmamsg_group *group);

/*
 * Calls on_topic for each topic that the pattern matches, in the order of the
 * file of topics: that which RDMAMSG_TOPICS names, or /etc/rdmamsg/topics. A
 * line of it is 'name address [port] [key file]', with 'address' as
 * rdmamsg_group_join() takes it. A name has labels, as in "ticks.eur.usd". A
 * pattern is a name, of which a label may be "*": any label, and as the last
 * one any number of them, at least one. name and address are valid during the
 * call, which may join the group: by its name, with the key. Returns the number
 * of matches, or what on_topic has returned, if that was not 0: nothing is
 * called after it. Errors, before the first call: -EINVAL: no pattern, not a
 * regular file, or a line of it that rdmamsg_error() names; -EFBIG: above 1 MB;
 * -ENOMEM; -ENOENT, -EACCES and others of open(2). Any thread.
 */
int rdmamsg_topics_each(const char *pattern,
			int (*on_topic)(const char *name, const char *address,
					void *user),
			void *user);

/*
 * Sends a copy of 'len' bytes to the group. -EAGAIN: no room now, on_writable
 * follows; -EMSGSIZE: larger than max_message, or in raw mode than the
 * path's MTU; -ENOTCONN: not joined; -EPERM: it does not publish.
 */
int rdmamsg_group_publish(struct rdmamsg_group *group, const void *data,
			  size_t len);

struct rdmamsg_op;

/*
 * The same of the struct of <rdmamsg/post.h>, kind RDMAMSG_OP_SEND: one message
 * from up to RDMAMSG_SEGMENTS_MAX entries without regions. All is copied, so
 * that the memory is free when the call returns, and there is no cookie;
 * on_sent counts the messages. In raw mode with RDMAMSG_OP_IMM the datagram has
 * 'imm'. The errors of rdmamsg_group_publish(). -EINVAL: a field is not 0 that
 * is not used here, which rdmamsg_error() names; -EOPNOTSUPP: another kind, or
 * RDMAMSG_OP_IMM without raw mode.
 */
int rdmamsg_group_post(struct rdmamsg_group *group,
		       const struct rdmamsg_op *op);

/*
 * Asks all subscribers with repair to tell when they have what was published
 * until now. on_flushed follows when all have, when timeout_ms are over
 * (RDMAMSG_NONE: never), or before on_closed. A subscriber has a message when
 * its on_message has returned. Subscribers without RDMAMSG_GROUP_REPAIR, or
 * that have joined a moment ago and not reported yet, do not count. With flow
 * and a tag, only those with the tag do. -EBUSY: a flush runs; -EOPNOTSUPP: the
 * group publishes without repair; -ENOTCONN: not joined.
 */
int rdmamsg_group_flush(struct rdmamsg_group *group, uint32_t timeout_ms);

/* ---- diagnosis -------------------------------------------------------- */

/*
 * Calls on_member for each subscriber that reports to this publisher, at most
 * 254. *m is valid during the call, in which the group is only read. A value
 * that is not 0 ends it, and is returned. None without RDMAMSG_GROUP_REPAIR.
 */
int rdmamsg_group_members(const struct rdmamsg_group *group,
			  int (*on_member)(const struct rdmamsg_group_member *m,
					   void *user), void *user);

struct rdmamsg_group_attr {
	size_t size;
	int joined;
	uint64_t id;			/* of this sender */
	uint8_t mgid[16];
	uint16_t mlid;			/* 0 on Ethernet */
	uint8_t sl;			/* service level */
	uint8_t port;
	uint32_t qkey;
	uint32_t qp_num;		/* other groups may share it */
	uint32_t mtu;			/* bytes of a datagram */
	uint32_t rate;			/* datagrams a second, 0: any number */
	const char *device;		/* until on_lost, on_closed; or NULL */
};

/* -ENOTCONN: it was never joined. */
int rdmamsg_group_query(const struct rdmamsg_group *group,
			struct rdmamsg_group_attr *attr);

struct rdmamsg_group_stats {
	size_t size;
	uint64_t joins;			/* more than 1: after on_lost */
	/* publishing */
	uint64_t sent_messages;
	uint64_t sent_bytes;		/* of messages */
	uint64_t sent_datagrams;	/* all of this group */
	uint64_t sent_repeated;		/* of these: repairs */
	uint64_t sent_failed;		/* refused by the device */
	uint64_t refused;		/* -EAGAIN */
	uint64_t requests;		/* NACKs that have come */
	uint64_t requests_dropped;	/* ranges, for want of room */
	/* subscribing */
	uint64_t received_messages;
	uint64_t received_bytes;	/* of messages */
	uint64_t received_datagrams;	/* all of this group */
	uint64_t received_repeated;	/* of these: repairs */
	uint64_t gaps;			/* calls of on_gap */
	uint64_t lost_messages;		/* in them */
	uint64_t asked;			/* NACKs sent */
	/* datagrams received and dropped, by cause */
	uint64_t dropped_own;
	uint64_t dropped_double;
	uint64_t dropped_late;		/* delivered or given up before */
	uint64_t dropped_malformed;	/* no frame, or it contradicts others */
	uint64_t dropped_forged;	/* the sender's id from another place */
	uint64_t dropped_large;		/* of a message above max_message */
	uint64_t dropped_memory;	/* max_held, or no memory */
	uint64_t dropped_senders;	/* max_senders */
	uint64_t senders;		/* followed now */
	uint64_t dropped_key;		/* made with no key, or another one */
	uint64_t dropped_unproven;	/* replays, or of an unproven sender */
	uint64_t sent_parity;		/* of sent_datagrams */
	uint64_t recovered;		/* made from parity */
};

int rdmamsg_group_get_stats(const struct rdmamsg_group *group,
			    struct rdmamsg_group_stats *stats);
/*
 * Likewise of one sender: the counters from received_messages to lost_messages,
 * and those of drops. The others are 0. -ENOENT: it is not followed.
 */
int rdmamsg_group_get_sender_stats(const struct rdmamsg_group *group,
				   uint64_t id,
				   struct rdmamsg_group_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
