/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: memberships of a context, and whom they have heard of. */
#ifndef RDMAMSG_LIB_GROUP_H
#define RDMAMSG_LIB_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/group.h>
#include <rdmamsg/rdmamsg.h>

#include "base/handles.h"
#include "base/list.h"
#include "base/timer.h"
#include "group/carrier.h"
#include "group/pace.h"
#include "group/stream.h"
#include "wire/frame.h"

struct rdmamsg_device;

/* The part of a context. */
struct groups {
	struct list carriers;
	struct handles table;		/* of carriers, by index */
	struct list dead;		/* groups to be freed when settling */
	struct list homeless;		/* lost ones without a carrier */
};

enum group_state {
	GROUP_WAITING,			/* for its carrier */
	GROUP_JOINING,
	GROUP_JOINED,
	GROUP_LOST,			/* will be joined again */
	GROUP_LEAVING,			/* still repairs */
	GROUP_ENDED,
};

/* Another member, as it is heard. */
struct member {
	struct list node;		/* of the group */
	struct rdmamsg_group *group;
	struct rdmamsg_group_sender who;
	struct stream stream;
	uint64_t heard;			/* ms */
	struct carrier_peer from;
	uint64_t ask_at;		/* ms, 0: nothing is missing */
	uint32_t asked;			/* times since something came */
	uint32_t asked_next;		/* stream.next at that time */
	struct rdmamsg_group_counters st;
};

struct rdmamsg_group {
	struct list node;		/* of the carrier, or of the context */
	struct list wait_node;		/* of the carrier: for completions */
	struct rdmamsg *ctx;
	struct carrier *carrier;
	struct rdmamsg_group_options opts;
	struct rdmamsg_group_handlers on;
	void *user;
	enum group_state state;
	struct timer timer;		/* deadline of the join, or the next */
	struct sockaddr_storage addr;
	struct sockaddr_storage join_addr;	/* as the CM takes it */
	bool is_mgid;			/* addr is one, and is not mapped */
	struct rdmamsg_reason reason;
	struct rdmamsg_group_counters st;
	bool lost;			/* once or more */
	bool lost_told;
	uint32_t tries;			/* to join again */
	uint64_t joined_at;		/* ms, the last time */

	/* once joined */
	union ibv_gid mgid;
	uint16_t mlid;
	bool attached, listed;		/* at the queue pair; at the CM */
	bool alone;			/* without the CM: roce6.c */
	int socket;			/* of that, or -1 */
	struct carrier_to to;
	uint8_t sl;
	uint32_t mtu;			/* of the first join, for good */

	/* publishing */
	struct pace pace;
	struct timer pace_timer;	/* its tokens have come */
	uint64_t id;			/* random */
	uint32_t number;		/* of the next message */
	struct pending *pending;	/* not sent whole yet, or NULL */
	bool want_writable;
	bool leaving_sent;		/* nobody asks for repairs any more */
	uint32_t drained_at;		/* carrier.done, when it may go */
	struct repair *repair;		/* NULL: it repeats nothing */

	/* subscribing */
	struct list members;
	uint32_t member_count;
	struct stream_room room;
	struct timer ask;		/* of members that lack something */
	uint64_t seed;			/* of random pauses */
};

/* address.c */
/* g->opts are taken. -EINVAL */
int rdmamsg__group_address(struct rdmamsg_group *g, const char *text);
/* Sets g->join_addr, for the carrier's kind of link. */
const struct sockaddr *rdmamsg__group_sockaddr(struct rdmamsg_group *g);

/* join.c */
void rdmamsg__group_ready(struct rdmamsg_group *g);
void rdmamsg__group_event(struct rdmamsg_group *g, const struct cm_event *ev);
/* It ends; on_closed follows when settling. */
void rdmamsg__group_end(struct rdmamsg_group *g, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error, const char *fmt,
			...) __attribute__((format(printf, 5, 6)));
/* It ends if it was never joined. Else it is lost, and joined again. */
void rdmamsg__group_fail(struct rdmamsg_group *g, enum rdmamsg_who who,
			 enum rdmamsg_cause cause, int error, const char *fmt,
			 ...) __attribute__((format(printf, 5, 6)));
/* Joins. -errno */
int rdmamsg__group_start(struct rdmamsg_group *g);
/* Leaves, and has no carrier any more. */
void rdmamsg__group_quit(struct rdmamsg_group *g);
/* on_closed, and free. */
void rdmamsg__groups_settle(struct rdmamsg *ctx);
void rdmamsg__groups_free(struct rdmamsg *ctx);

/* leave.c */
/* Nothing is to be sent any more but what is pending. */
void rdmamsg__leave_sent(struct rdmamsg_group *g);
void rdmamsg__group_left(struct rdmamsg_group *g);

/* again.c */
/* g->reason says why. No callback from here. */
void rdmamsg__group_lost(struct rdmamsg_group *g);
/* It is time to join again. */
void rdmamsg__group_again(struct rdmamsg_group *g);
/* An async event of a device. */
void rdmamsg__groups_event(struct rdmamsg *ctx,
			   const struct rdmamsg_device *d, int type,
			   uint32_t port);
void rdmamsg__groups_removed(struct rdmamsg *ctx,
			     const struct rdmamsg_device *d);
/* No more completions come from the queue. */
void rdmamsg__groups_cq_failed(struct rdmamsg *ctx, const struct cq *cq,
			       int err, const char *what);

/* roce6.c: whether it can join what has failed with err, and how */
bool rdmamsg__roce6_serves(const struct rdmamsg_group *g, int err);
int rdmamsg__roce6_join(struct rdmamsg_group *g, struct rdma_ud_param *ret);
void rdmamsg__roce6_leave(struct rdmamsg_group *g);

/* publish.c */
/* Once there is a device. */
void rdmamsg__group_pace_init(struct rdmamsg_group *g);
void rdmamsg__group_writable(struct rdmamsg_group *g);
/*
 * Sends fragments of a message from *index up to 'last', as long as there is
 * room; *index is then the next one. -EAGAIN, -errno
 */
int rdmamsg__group_send(struct rdmamsg_group *g, const struct carrier_to *to,
			uint32_t number, const uint8_t *data, uint32_t len,
			uint8_t flags, uint32_t *index, uint32_t last);
/* A frame without payload, or with one that is there already. -EAGAIN, -errno */
int rdmamsg__group_send_frame(struct rdmamsg_group *g,
			      const struct carrier_to *to,
			      const struct frame *f);

/* repair.c: what a publisher repeats */
struct kept;
int rdmamsg__repair_new(struct rdmamsg_group *g);
void rdmamsg__repair_free(struct rdmamsg_group *g);
/* Keeps the message that is about to be sent. -ENOMEM */
int rdmamsg__repair_keep(struct rdmamsg_group *g, const void *data,
			 uint32_t len, const struct kept **ret);
uint32_t rdmamsg__repair_oldest(const struct rdmamsg_group *g);
void rdmamsg__repair_nack(struct rdmamsg_group *g, const struct frame *f,
			  const struct datagram *d);
/* Ranges that nobody could keep. */
uint64_t rdmamsg__repair_dropped(const struct rdmamsg_group *g);
/* The group is joined again, or lost. */
void rdmamsg__repair_joined(struct rdmamsg_group *g);
void rdmamsg__repair_lost(struct rdmamsg_group *g);
/* There is room again. */
void rdmamsg__repair_pump(struct rdmamsg_group *g);
/*
 * Repairs have a rate of their own, so that subscribers that ask for much, or
 * forge requests, leave room for new messages.
 */
void rdmamsg__repair_pace(struct rdmamsg_group *g, uint32_t rate);
bool rdmamsg__repair_may_send(struct rdmamsg_group *g);
void rdmamsg__repair_sent(struct rdmamsg_group *g);
/* rdmamsg__leave_sent() follows when nobody asks any more. */
void rdmamsg__repair_leave(struct rdmamsg_group *g);

/* ask.c: what a subscriber asks for */
void rdmamsg__ask_init(struct rdmamsg_group *g);
/* The group is joined again. */
void rdmamsg__ask_joined(struct rdmamsg_group *g);
/* Something of this member has come. */
void rdmamsg__ask_heard(struct member *m, bool repeated);

/* receive.c */
void rdmamsg__group_datagram(struct rdmamsg_group *g,
			     const struct datagram *d);
/* It came to the queue pair, to none of its groups. */
void rdmamsg__group_unicast(struct carrier *c, const struct datagram *d);
struct member *rdmamsg__member_find(const struct rdmamsg_group *g, uint64_t id);
void rdmamsg__members_free(struct rdmamsg_group *g);

#endif
