/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: memberships of a context, and the senders that they hear. */
#ifndef RDMAMSG_LIB_GROUP_H
#define RDMAMSG_LIB_GROUP_H

#include <netinet/in.h>
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

struct hmac;
struct parity;
struct rdmamsg_device;
struct secret;
struct subscriber;
struct unicast;

#define SILENT_MS	10000u	/* nothing is heard: the publisher is gone */

/* The groups of a context. */
struct groups {
	struct list carriers;
	struct handles table;		/* carriers, by index */
	struct list dead;		/* groups to free when settling */
	struct list homeless;		/* lost groups without a carrier */
	struct pace pace;		/* of all */
};

enum group_state {
	GROUP_WAITING,			/* for the carrier */
	GROUP_JOINING,
	GROUP_JOINED,
	GROUP_LOST,			/* will be joined again */
	GROUP_LEAVING,			/* still repairs, or drains */
	GROUP_ENDED,
};

/* Another member, a sender that was heard. */
struct member {
	struct list node;		/* of the group */
	struct rdmamsg_group *group;
	struct rdmamsg_group_sender who;
	struct stream stream;
	uint64_t heard;			/* ms, last datagram */
	struct carrier_peer from;
	struct carrier_to way;		/* to it; no ah: not known */
	uint8_t audience;		/* as its frames tell */
	/* requests, see ask.c */
	uint64_t ask_at;		/* us; 0: all missing was asked for */
	uint64_t again_at;		/* us; 0: no request is under way */
	uint64_t asked_at;		/* us, the last one */
	struct stream_place asked_to;	/* all that is missing before */
	uint32_t put_off;		/* times that one of them was moved */
	uint32_t put_off_next;		/* stream.next then */
	uint32_t asked;			/* requests since the last progress */
	uint32_t asked_next;		/* stream.next at the last request */
	/* reports, see report.c */
	uint64_t report_at;		/* us; 0: none is due */
	uint64_t reported_at;		/* us; 0: no answer is due */
	uint64_t way_at;		/* us, when the way was found */
	uint32_t reports;
	uint32_t unanswered;		/* the first ones */
	uint32_t rtt;			/* us; 0: not known */
	uint32_t token;			/* for the next one, without multicast */
	bool known;			/* to the publisher, by its token */
	bool owes;			/* a report, when this one is due: */
	uint32_t owed;
	bool owes_now;			/* and one before */
	/* with a key, see proof.c */
	uint64_t challenge;
	bool challenged;		/* it is not answered yet */
	bool unproven;			/* it may be the replay of another */
	uint64_t asked_there;		/* us, at another place */
	uint64_t here;			/* ms, a frame of its place */
	uint64_t elsewhere;		/* ms, the first since of another; or 0 */
	uint64_t came;			/* ms, any frame, new or not */
	uint64_t began;			/* ms, when it was heard first */
	struct parity *parity;		/* NULL: it has sent none */
	uint32_t evicted;		/* stream.evicted at the last parity */
	/* the backlog, see backlog.c */
	bool wishes;			/* frames wait for the offer */
	bool in_backlog;
	uint32_t joined_at;		/* the first number that was heard */
	uint32_t held_up;		/* frames of messages below, as above */
	uint64_t nonce;			/* of the offer; 0: none yet */
	struct rdmamsg_group_stats st;
	bool ended;			/* END has come: only late frames */
};

struct rdmamsg_group {
	struct list node;		/* in carrier, or in ctx->groups */
	struct list wait_node;		/* in carrier->waiting or ->draining */
	struct rdmamsg *ctx;
	struct carrier *carrier;
	struct rdmamsg_group_options opts;
	struct rdmamsg_group_handlers on;
	void *user;
	enum group_state state;
	struct timer timer;		/* deadline of the join, or next try */
	struct sockaddr_storage addr;
	struct sockaddr_storage join_addr;	/* for the CM */
	bool is_mgid;			/* addr is the MGID: do not map it */
	bool unicast;			/* addr is where the publisher listens */
	struct unicast *rendezvous;	/* if so, or NULL */
	uint64_t publisher;		/* if so: id of that which was joined */
	struct rdmamsg_reason reason;
	struct rdmamsg_group_stats st;
	bool lost;			/* at least once */
	bool lost_told;
	bool closed_told;
	uint32_t tries;			/* tries to join again */
	uint32_t unanswered;		/* the device did not answer: again.c */
	uint64_t joined_at;		/* ms, last join */

	/* once joined */
	union ibv_gid mgid;
	uint16_t mlid;
	bool attached, listed;		/* to the queue pair; with the CM */
	bool alone;			/* joined without the CM: roce6.c */
	int socket;			/* for roce6.c, or -1 */
	struct carrier_to to;
	uint8_t sl;
	uint32_t mtu;			/* of the first join; never changes */
	struct secret *key;		/* or NULL */
	struct hmac *seal;		/* from the first join; with a key */
	uint64_t proved_at;		/* us, to one that is not counted */

	/* publishing */
	struct pace pace;
	struct timer pace_timer;	/* until pace has tokens */
	uint64_t id;			/* random, of this sender */
	uint64_t report_id;		/* random, of this subscriber */
	uint32_t reports;		/* sent, with this id */
	uint32_t number;		/* of the next message */
	struct pending *pending;	/* not sent completely, or NULL */
	struct parity *parity;		/* NULL: it sends none */
	uint64_t fragments;		/* sent, without repetitions and copies */
	uint32_t copied;		/* datagrams sent as copies */
	bool want_writable;
	uint64_t untold;		/* the first message without on_sent */
	uint32_t untold_count;		/* that was sent, and those behind it */
	bool leaving_sent;		/* no more repairs are asked for */
	bool end_pauses;		/* more END frames follow: leave.c */
	uint8_t end_rounds;		/* of END frames that were sent */
	uint32_t drained_at;		/* leave when carrier.done reaches it */
	struct repair *repair;		/* NULL: no repairs */
	struct audience *audience;	/* likewise */
	struct {
		bool runs;
		uint32_t end;		/* all messages below */
		uint32_t gone;		/* members, without having them */
		uint64_t by;		/* us, deadline */
	} flush;
	struct {
		uint32_t floor;		/* those that count have all below */
		uint64_t allowed;	/* published ones; they find receives */
		uint32_t asked;		/* the message that asked last */
		uint64_t asked_at;	/* published before it */
		uint32_t receives;	/* least of those that count */
		uint64_t blocked;	/* us, since when; 0: it is not */
	} flow;
	struct {
		uint32_t pause;		/* us, until they are asked again */
		struct timer timer;	/* the next question, or flush.by */
	} asking;

	/* subscribing */
	struct list members;
	uint32_t member_count;
	uint32_t ended_count;		/* of these */
	struct stream_room room;
	struct timer ask;		/* next request to a sender */
	struct timer report;		/* next report to a sender */
	struct timer sweep;		/* looks whether senders are gone */
	uint64_t went_on;		/* ms, after this process stood still */
	uint64_t seed;			/* for random pauses */
	uint32_t object;		/* number in the context */
};

/* address.c */
#define GROUP_UNICAST	"unicast:"	/* an address follows, with its port */
struct group_address {
	struct sockaddr_storage addr;
	bool is_group, is_mgid;
	bool unicast;			/* where a publisher listens */
};

/* Returns false if text is not an address in numbers, of a group or not. */
bool rdmamsg__group_parse(const char *text, struct group_address *ret);
/*
 * Parses an address, or finds the topic of this name. g->opts must be set.
 * -EINVAL, and the errors of rdmamsg__topic_find().
 */
int rdmamsg__group_address(struct rdmamsg_group *g, const char *text);
/* Writes the address as text. */
void rdmamsg__group_text(const struct rdmamsg_group *g,
			 char text[static INET6_ADDRSTRLEN]);
/* Sets and returns g->join_addr, which depends on the carrier's link layer. */
const struct sockaddr *rdmamsg__group_sockaddr(struct rdmamsg_group *g);

/* join.c */
void rdmamsg__group_ready(struct rdmamsg_group *g);
void rdmamsg__group_event(struct rdmamsg_group *g, const struct cm_event *ev);
/* Ends the group. on_closed follows when settling. */
void rdmamsg__group_end(struct rdmamsg_group *g, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error, const char *fmt,
			...) __attribute__((format(printf, 5, 6)));
/*
 * Ends the group if it was never joined. Else marks it as lost, to join it
 * again.
 */
void rdmamsg__group_fail(struct rdmamsg_group *g, enum rdmamsg_who who,
			 enum rdmamsg_cause cause, int error, const char *fmt,
			 ...) __attribute__((format(printf, 5, 6)));
/* Starts to join. Returns 0 or -errno. */
int rdmamsg__group_start(struct rdmamsg_group *g);
/* Leaves the group and its carrier. */
void rdmamsg__group_quit(struct rdmamsg_group *g);
/* Calls on_closed and frees groups that have ended. */
void rdmamsg__groups_settle(struct rdmamsg *ctx);
/* Returns a group that has not ended, or NULL. */
struct rdmamsg_group *rdmamsg__group_any(struct rdmamsg *ctx);
void rdmamsg__groups_free(struct rdmamsg *ctx);

/* leave.c */
/* Leaves all groups. The caller is in a call, so that none is freed yet. */
void rdmamsg__groups_leave(struct rdmamsg *ctx);
/* Only the pending message is still to be sent. */
void rdmamsg__leave_sent(struct rdmamsg_group *g);
void rdmamsg__group_left(struct rdmamsg_group *g);
/* The timer of a group that is being left has expired. */
void rdmamsg__leave_timeout(struct rdmamsg_group *g);

/* again.c */
/* g->reason has the cause. Makes no callback. */
void rdmamsg__group_lost(struct rdmamsg_group *g);
/* Joins again, when the pause is over. */
void rdmamsg__group_again(struct rdmamsg_group *g);
/* Handles an async event of a device. */
void rdmamsg__groups_event(struct rdmamsg *ctx,
			   const struct rdmamsg_device *d, int type,
			   uint32_t port);
void rdmamsg__groups_removed(struct rdmamsg *ctx,
			     const struct rdmamsg_device *d);
/* The queue delivers no more completions. */
void rdmamsg__groups_cq_failed(struct rdmamsg *ctx, const struct cq *cq,
			       int err, const char *what);

/* roce6.c: returns true if it can join a group whose join failed with err */
bool rdmamsg__roce6_serves(const struct rdmamsg_group *g, int err);
int rdmamsg__roce6_join(struct rdmamsg_group *g, struct rdma_ud_param *ret);
void rdmamsg__roce6_leave(struct rdmamsg_group *g);

/* join.c, for unicast.c */
/* Once g->mgid is set. */
int rdmamsg__group_prepare(struct rdmamsg_group *g);
/* ud: NULL without multicast; then it is prepared. */
void rdmamsg__group_joined(struct rdmamsg_group *g,
			   const struct rdma_ud_param *ud);

/* unicast.c: groups without multicast */
/* The carrier is ready: listens as the publisher, else looks it up. */
int rdmamsg__unicast_start(struct rdmamsg_group *g);
void rdmamsg__unicast_quit(struct rdmamsg_group *g);
/* The publisher of a subscriber has gone. */
void rdmamsg__unicast_lost(struct rdmamsg_group *g, bool has_left);

/* publish.c */
/* All messages below this number have been sent whole. */
uint32_t rdmamsg__group_sent(const struct rdmamsg_group *g);
/* Call it when the device is known. */
void rdmamsg__group_pace_init(struct rdmamsg_group *g);
void rdmamsg__group_writable(struct rdmamsg_group *g);
/* The last datagram of the message has completed. Calls on_sent. */
void rdmamsg__group_was_sent(struct rdmamsg_group *g, uint64_t message);
/*
 * The same inside a call: rdmamsg__group_tell_sent() calls on_sent later.
 * Returns false if the message is not the next one; then nothing is changed.
 */
bool rdmamsg__group_sent_early(struct rdmamsg_group *g, uint64_t message);
void rdmamsg__group_tell_sent(struct rdmamsg_group *g);
/* Requests that a datagram to all takes, at most. */
uint32_t rdmamsg__group_copies(const struct rdmamsg_group *g);
/* No message follows soon: sends the parity of those before, if it can. */
void rdmamsg__group_end_block(struct rdmamsg_group *g);
/* Sends a HEARTBEAT. Returns 0 or -errno, without a text. */
int rdmamsg__group_say(struct rdmamsg_group *g);
struct gather;
/*
 * Sends fragments of a message from *index to 'last', while there is room.
 * *index becomes the next fragment. to->note is for the message's last one.
 * Returns 0, -EAGAIN or -errno.
 */
int rdmamsg__group_send(struct rdmamsg_group *g, const struct carrier_to *to,
			uint32_t number, const struct gather *from,
			uint8_t flags, uint32_t *index, uint32_t last);
/* Sends a frame with the payload at its 'data'. Returns 0, -EAGAIN or -errno. */
int rdmamsg__group_send_frame(struct rdmamsg_group *g,
			      const struct carrier_to *to,
			      const struct frame *f);

/*
 * Most bytes of a fragment. Fragments keep their size, because they may be
 * repeated.
 */
static inline uint16_t rdmamsg__group_fragment(const struct rdmamsg_group *g)
{
	return (uint16_t)(g->mtu - FRAME_HDR_LEN -
			  (g->seal ? FRAME_SEAL_LEN : 0) -
			  (g->opts.parity ? FRAME_PARITY_LEN : 0));
}

/* repair.c: the repairs of a publisher */
struct kept;
int rdmamsg__repair_new(struct rdmamsg_group *g);
void rdmamsg__repair_free(struct rdmamsg_group *g);
/* Keeps the message that is to be sent. -ENOMEM, -EAGAIN */
int rdmamsg__repair_keep(struct rdmamsg_group *g, const struct gather *from,
			 const struct kept **ret);
/* Datagrams before this message, or before the oldest one that is kept. */
uint64_t rdmamsg__repair_before(const struct rdmamsg_group *g, uint32_t number);
/* Forgets the message kept last, of which nothing was sent. */
void rdmamsg__repair_take_back(struct rdmamsg_group *g);
uint32_t rdmamsg__repair_oldest(const struct rdmamsg_group *g);
void rdmamsg__repair_nack(struct rdmamsg_group *g, const struct frame *f,
			  const struct datagram *d);
/* A subscriber wants something: a group that is being left stays. */
void rdmamsg__repair_wanted(struct rdmamsg_group *g);
/* A message was sent: a heartbeat follows, if no other message does. */
void rdmamsg__repair_beat(struct rdmamsg_group *g);
/*
 * An asker has proved its address: returns the first of the messages below
 * 'end' that it wants and that are kept, and allows it to ask for them. Sets
 * *less if there were more.
 */
uint32_t rdmamsg__repair_grant(struct rdmamsg_group *g,
			       const struct carrier_peer *at, uint32_t end,
			       const struct frame_wish *w, bool *less);
/* Returns true if requests wait for their answers. */
bool rdmamsg__repair_pending(const struct rdmamsg_group *g);
/*
 * Returns the number of requested ranges that were dropped for lack of room, or
 * because their asker has got its part.
 */
uint64_t rdmamsg__repair_dropped(const struct rdmamsg_group *g);
/* The group was joined again, or lost. */
void rdmamsg__repair_joined(struct rdmamsg_group *g);
void rdmamsg__repair_lost(struct rdmamsg_group *g);
/* Answers requests while there is room. */
void rdmamsg__repair_pump(struct rdmamsg_group *g);
/*
 * Repairs have their own rate. So subscribers that ask for much, or forged
 * requests, leave room for new messages.
 */
void rdmamsg__repair_pace(struct rdmamsg_group *g, uint32_t rate);
bool rdmamsg__repair_may_send(struct rdmamsg_group *g);
void rdmamsg__repair_sent(struct rdmamsg_group *g);
/*
 * rdmamsg__leave_sent() follows when no more repairs are asked for. Call it
 * again when the pending message has been sent.
 */
void rdmamsg__repair_leave(struct rdmamsg_group *g);

/* subscribers.c: the subscribers of a publisher with repair */
int rdmamsg__subscribers_new(struct rdmamsg_group *g);
struct rdmamsg_group_member
rdmamsg__subscriber_told(const struct subscriber *s);
/* Asks them to report, again and again while a flush or the flow waits. */
void rdmamsg__subscribers_ask(struct rdmamsg_group *g);
void rdmamsg__subscribers_free(struct rdmamsg_group *g);
/* How many there are, for frames: rdmamsg__audience_announced(). */
uint8_t rdmamsg__subscribers(const struct rdmamsg_group *g);
void rdmamsg__subscriber_report(struct rdmamsg_group *g, const struct frame *f,
				const struct datagram *d);
/* Returns the way to a subscriber that reports, or NULL. */
const struct carrier_to *rdmamsg__subscriber_way(struct rdmamsg_group *g,
						 const struct carrier_peer *at);
/* The same of one that is known. */
const struct carrier_to *rdmamsg__way_to(struct rdmamsg_group *g,
					 struct subscriber *s);
/* The group was joined again: they were not heard meanwhile. */
void rdmamsg__subscribers_joined(struct rdmamsg_group *g);
/* Forgets those that are gone. May call on_laggard and on_flushed. */
void rdmamsg__subscribers_look(struct rdmamsg_group *g);
/* The carrier goes: forgets the ways to them. */
void rdmamsg__subscribers_quit(struct rdmamsg_group *g);
/* The membership ends: calls on_flushed, if a flush runs. */
void rdmamsg__flush_end(struct rdmamsg_group *g);

/* ask.c: the requests of a subscriber */
void rdmamsg__ask_init(struct rdmamsg_group *g);
/* The group was joined again. */
void rdmamsg__ask_joined(struct rdmamsg_group *g);
/* A frame of this member has arrived. 'repaired': it was missing. */
void rdmamsg__ask_heard(struct member *m, bool repaired);

/* It waits with a request, and nothing will come before it asks. */
void rdmamsg__ask_now(struct member *m);

/* Datagrams that are not repeated. */
static inline uint64_t rdmamsg__published(const struct rdmamsg_group *g)
{
	return g->unicast ? g->fragments :
	       g->st.sent_datagrams - g->st.sent_repeated;
}

/* flow.c: how far a publisher may be ahead of its subscribers */
void rdmamsg__flow_init(struct rdmamsg_group *g);
bool rdmamsg__flow_blocks(struct rdmamsg_group *g);
/* Returns true if another message may be published now. */
static inline bool rdmamsg__flow_allows(struct rdmamsg_group *g)
{
	return likely(g->opts.flow == RDMAMSG_GROUP_FLOW_RATE ||
		      (g->number - g->flow.floor < g->opts.flow_window &&
		       rdmamsg__published(g) < g->flow.allowed)) ||
	       !rdmamsg__flow_blocks(g);
}

/*
 * Returns true if the subscriber belongs to those that the flow waits for.
 * Without a flow all do: a tag is only a subscriber's own, then.
 */
bool rdmamsg__flow_has(const struct rdmamsg_group *g,
		       const struct subscriber *s);
/* Flags of a new message: whether it asks for reports. */
uint8_t rdmamsg__flow_asks(struct rdmamsg_group *g, uint32_t number);
static inline uint8_t rdmamsg__flow_flags(struct rdmamsg_group *g,
					  uint32_t number)
{
	return likely(g->opts.flow == RDMAMSG_GROUP_FLOW_RATE) ? 0 :
	       rdmamsg__flow_asks(g, number);
}

/* Calls on_laggard for laggards; 'due' is when this should have happened. */
void rdmamsg__flow_tell(struct rdmamsg_group *g, uint64_t due);
/* Returns true if on_laggard tells a subscriber that is silent for too long. */
bool rdmamsg__flow_lags(const struct rdmamsg_group *g,
			const struct subscriber *s);
/* A subscriber has advanced. */
void rdmamsg__flow_advanced(struct rdmamsg_group *g, struct subscriber *s);
/* Subscribers have reported, or gone: calls on_writable, if they allow it. */
void rdmamsg__flow_look(struct rdmamsg_group *g);

/* backlog.c: what a publisher has kept, for a subscriber that joins */
/* The first frame of a member: it may wish for a backlog. */
void rdmamsg__backlog_begin(struct member *m, const struct frame *f);
/* This frame of a member comes too early, and will be repeated. */
void rdmamsg__backlog_held(struct member *m, const struct frame *f);
/* Returns true if it does. */
bool rdmamsg__backlog_holds(struct member *m, const struct frame *f);
/* The answer to a REPORT. */
void rdmamsg__backlog_offered(struct member *m, const struct frame *f);
/* The publisher has not answered for long. */
void rdmamsg__backlog_give_up(struct member *m);

/* proof.c: with a key, that a sender is no replay of an earlier one */
/* The first frame of a member. */
void rdmamsg__proof_begin(struct member *m);
/* For a REPORT: the same until it is answered. */
uint64_t rdmamsg__proof_challenge(struct member *m);
/* An answer to a REPORT. Returns true if it may be believed. */
bool rdmamsg__proof_answered(struct member *m, const struct frame *f);
/* Answers the REPORT of a subscriber that is not counted. */
void rdmamsg__proof_give(struct rdmamsg_group *g, const struct frame *f,
			 const struct carrier_peer *at);

/* report.c: the reports of a subscriber */
void rdmamsg__report_init(struct rdmamsg_group *g);
/* The group was joined again. */
void rdmamsg__report_joined(struct rdmamsg_group *g);
/* A frame of this member has arrived. */
void rdmamsg__report_heard(struct member *m);
/* Reports now. */
void rdmamsg__report(struct member *m);
/* Likewise to another place, and its own is due as before. */
void rdmamsg__report_to(struct member *m, const struct carrier_peer *at);
/*
 * It wants a report once the program was given all below this number, and one
 * at once if 'now'.
 */
void rdmamsg__report_asked(struct member *m, uint32_t number, bool now);
/* The group is being left: tells all publishers. */
void rdmamsg__report_left(struct rdmamsg_group *g);
/* It has answered a report. */
void rdmamsg__report_answered(struct member *m);

/* receive.c */
void rdmamsg__group_datagram(struct rdmamsg_group *g,
			     const struct datagram *d);
/* The datagram was for the queue pair, not for one of its groups. */
void rdmamsg__group_unicast(struct carrier *c, const struct datagram *d);
/*
 * Returns for how many ms the sender is silent. The time in which this process
 * did not run is not its silence.
 */
uint64_t rdmamsg__member_silence(const struct member *m, uint64_t now);
/*
 * Gives up incomplete messages of senders that are silent for SILENT_MS. Runs
 * from one datagram on until all senders are.
 */
void rdmamsg__members_sweep(struct timer *t);
struct member *rdmamsg__member_find(const struct rdmamsg_group *g, uint64_t id);
/* A publisher whose place is known before its first frame. */
bool rdmamsg__member_expect(struct rdmamsg_group *g, const struct frame *f,
			    const struct datagram *d);
/* Sends a frame to this member alone. Returns 0, -EAGAIN or -errno. */
int rdmamsg__member_send(struct member *m, const struct frame *f);
/* The carrier goes: forgets the ways to members. */
void rdmamsg__members_quit(struct rdmamsg_group *g);
void rdmamsg__members_free(struct rdmamsg_group *g);

#endif
