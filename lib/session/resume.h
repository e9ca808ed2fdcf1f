/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session that goes on over another lane. The endpoint takes these steps:
 *
 * 1. The lane is lost. The endpoint stays open, drains and frees the lane, and
 *    keeps the operations that it has accepted: resume.c, lost.c.
 * 2. A carrier connects to the peer. A carrier is an endpoint of its own that
 *    the program does not see: redial.c.
 * 3. Over the carrier, both sides tell which message they expect next. Then the
 *    lane of the carrier becomes the lane of the endpoint, and the carrier
 *    ends: carrier.c.
 * 4. The endpoint posts again what the peer lacks: replay.c.
 *
 * In move.c the program begins these steps. resume.c decides when each begins.
 */
#ifndef RDMAMSG_LIB_RESUME_H
#define RDMAMSG_LIB_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/timer.h"
#include "session/given.h"
#include "session/keep.h"
#include "session/secret.h"
#include "wire/addresses.h"
#include "wire/flight.h"
#include "wire/resume.h"

struct dev;
struct op;
struct proto_setup;
struct sockaddr_storage;
struct rdmamsg_region;
struct rma;
struct rdmamsg_ep;
struct rdmamsg_msg;

enum lane_state {
	LANE_UP,
	LANE_FAILING,			/* the loop drains it soon */
	LANE_DRAINING,
	LANE_DOWN,			/* freed; waits for a carrier */
};

struct resume {
	struct rdmamsg_ep *ep;
	struct rdmamsg_failover opts;	/* its strings are below */
	char *host, *service, *source, *device;
	bool agreed;			/* both sides keep messages */
	bool over;			/* the endpoint ends */
	uint32_t forgiven;		/* number of the lane, from 1; or 0 */
	enum lane_state lane;
	bool down;			/* as on_path has told last */
	struct keep keep;
	struct list parked;		/* struct op: one-sided, to repeat */
	uint32_t begun;			/* one-sided operations so far */
	/* rendezvous of the peer that this side has refused; a ring */
	uint32_t refused[RNDV_MAX];
	uint32_t refusals;
	/* DONE messages that are sent again */
	struct again {
		uint32_t number;
		uint8_t how;		/* enum proto_done */
	} again[RNDV_MAX];
	uint32_t again_count;

	struct list node;		/* registry.c */
	uint8_t session[16];
	uint8_t nonce[32];
	struct secret secret;
	struct secret key;		/* if has_key: AUTH on lanes proves it */
	bool has_key;
	uint32_t epoch;			/* of the last try */
	/*
	 * Of the last try that the peer is known to have made. A stranger can
	 * give any epoch until its key is asked for.
	 */
	uint32_t proven_epoch;

	/* keys of regions that the peer has, and those that it has renewed */
	struct given given;
	struct proto_renewed *renewed, *renewing;
	uint32_t renewed_count, renewing_count;

	struct rdmamsg_ep *carrier;	/* NULL: none */
	bool said, heard;		/* RESUME went, RESUME came */
	bool answered;			/* a PONG came over the lane in use */
	bool taking;			/* a lane: keys are not renewed yet */
	uint64_t said_at;		/* ms */
	uint32_t peer_next;
	uint8_t *entries;		/* of the peer's RESUME */
	size_t entries_len;

	struct timer timer;
	uint64_t since;			/* ms: when the lane was lost */
	uint64_t again_at;		/* ms: when the next try begins */
	uint32_t wait_ms;		/* pause after that try */
	uint32_t tries;
	uint32_t target;		/* of the try: targets.c */
	uint32_t lane_target;		/* to which the lane leads */
	bool stayed;			/* the last loss led to it first */
	bool moving;			/* by plan: move.c */
	bool moved;			/* the lane was left by plan */
	bool ask_move;			/* the next PING asks for a move */
	uint32_t denied;		/* targets without the session */
	uint32_t tried;			/* since the lane was lost; bits */
	struct rdmamsg_reason denial;	/* the last */
	/* tries since the lane was lost that have ended so */
	uint32_t met[RDMAMSG_CAUSE_CRC + 1];
	char more[192];			/* behind the reason of the end */
	struct proto_addresses announce;	/* by option; port 0: ours */
	struct proto_addresses offered;	/* in the last SETUP */
	struct proto_addresses announced;	/* those that can be dialled */
	uint32_t lanes;			/* after the first, with the present */
	uint32_t resumes;		/* as on_path has told */
	struct rdmamsg_reason why;	/* of the last loss */
};

#define TRY_MS		3000	/* longest time of one try */
#define WAIT_FIRST_MS	10	/* before a second try */

/* ---- resumable.c: what an endpoint needs for another lane --------------- */

/* -EINVAL, -ENOMEM. Sets ep->resume if the options ask for it. */
int rdmamsg__resume_new(struct rdmamsg_ep *ep,
			const struct rdmamsg_failover *opts);
void rdmamsg__resume_free(struct rdmamsg_ep *ep);
/* The endpoint ends, and with it carrier, timer and registry entry. */
void rdmamsg__resume_end(struct rdmamsg_ep *ep);
/* Frees the other address: the one that rdmamsg_connect() did not have. */
void rdmamsg__resume_forget_address(struct resume *r);
/* Fills in the item of our SETUP if failover is on. */
void rdmamsg__resume_setup(const struct rdmamsg_ep *ep,
			   struct proto_resumable *ret);
/* Both sides have exchanged SETUP. -ENOMEM */
int rdmamsg__resume_begin(struct rdmamsg_ep *ep);
/* Computes or checks a proof for 'epoch'. -EACCES, -ENOMEM */
int rdmamsg__lane_prove(const struct resume *r, bool initiator, uint32_t epoch,
			uint8_t out[static PROTO_LANE_DATA_LEN]);
int rdmamsg__lane_verify(const struct resume *r, bool initiator,
			 uint32_t epoch, const uint8_t *data, size_t len);

/*
 * Lets the carrier of the session demand and prove what the first connection
 * did, whatever the key of its context or of the listener is. -ENOMEM
 */
int rdmamsg__lane_auth(struct rdmamsg_ep *carrier, const struct resume *r);

/* ---- resume.c: the state of the lane ------------------------------------ */

/* The endpoint is open. */
void rdmamsg__resume_start(struct rdmamsg_ep *ep);
/* A PONG has come: the peer has read our RESUME, which was before the PING. */
void rdmamsg__resume_answered(struct rdmamsg_ep *ep);
/* Returns true if the endpoint goes on when its lane is lost. */
bool rdmamsg__resume_goes_on(const struct rdmamsg_ep *ep);
/*
 * Returns true if this side needs no lane to end, but the peer may not know of
 * the end. The endpoint then waits a while for the peer to come back.
 */
bool rdmamsg__resume_lingers(const struct rdmamsg_ep *ep);
/*
 * Something ends the endpoint. Returns true if another lane may take over. Then
 * the endpoint loses its lane, and stays open.
 */
bool rdmamsg__resume_instead(struct rdmamsg_ep *ep);
/* Returns true if a carrier that was made in advance can take over. */
bool rdmamsg__resume_stands_by(const struct resume *r);
/*
 * The port of the lane is down. Needs not wait for requests to fail if a carrier
 * over another port can take over.
 */
void rdmamsg__resume_port_down(struct rdmamsg_ep *ep);
/*
 * The peer's device has refused a request of op, or ours has refused the peer:
 * then op is NULL. Returns true if another lane shall show whether that was
 * the end of a process or of a device, or a wrong key.
 */
bool rdmamsg__resume_forgives(struct rdmamsg_ep *ep, struct op *op);
/* Takes the steps that are due. Returns true if the endpoint has a lane. */
bool rdmamsg__resume_progress(struct rdmamsg_ep *ep);
/* Calls rdmamsg__resume_progress() soon. */
void rdmamsg__resume_wake(struct rdmamsg_ep *ep);
void rdmamsg__resume_timer(struct timer *t);
/* A RESUME has come on a carrier. */
void rdmamsg__resume_take(struct rdmamsg_ep *carrier, const void *buf,
			  size_t len);
/* Calls on_path. */
void rdmamsg__path_tell(struct rdmamsg_ep *ep,
			const struct rdmamsg_path_event *ev);
void rdmamsg__resume_tell(struct rdmamsg_ep *ep,
			  enum rdmamsg_path_change change, const char *text);

/* ---- redial.c: tries to get another lane -------------------------------- */

/* Makes a carrier. Returns a negative errno. */
int rdmamsg__redial(struct rdmamsg_ep *ep);
/* Makes a carrier. If that fails at once, sets the time of the next try. */
void rdmamsg__redial_now(struct rdmamsg_ep *ep);
void rdmamsg__redial_later(struct resume *r);
/* Ends the endpoint, because timeout_ms is over. */
void rdmamsg__redial_over(struct rdmamsg_ep *ep);
/* Returns how much later the peer may notice that the lane is lost, in ms. */
uint32_t rdmamsg__resume_notice_ms(const struct rdmamsg_ep *ep);
/* Returns how long after the loss of a lane the endpoint ends, in ms. */
uint32_t rdmamsg__resume_ms(const struct rdmamsg_ep *ep);
/* Ends a planned move. The endpoint keeps its lane. */
void rdmamsg__redial_in_vain(struct rdmamsg_ep *ep, const char *why);
/* A carrier has connected, or has ended. */
void rdmamsg__carrier_open(struct rdmamsg_ep *carrier);
void rdmamsg__carrier_ended(struct rdmamsg_ep *carrier);
/* Options of a carrier, which point to the other members. */
struct carrier_options {
	struct rdmamsg_ep_options ep;
	struct rdmamsg_ep_tuning tuning;
	uint8_t hello[PROTO_LANE_DATA_LEN];	/* proof of this side */
};
/* Sets the options of a carrier. -ENOMEM */
int rdmamsg__carrier_options(const struct resume *r, bool initiator,
			     uint32_t epoch, struct carrier_options *ret);
/* Separates the session from its carrier. */
void rdmamsg__carrier_forget(struct resume *r);
/* Ends the carrier, if there is one. */
void rdmamsg__carrier_drop(struct resume *r);
/* The initiator tries again: ends the carrier of its last try. */
void rdmamsg__resume_renew(struct resume *r, uint32_t epoch);

/* ---- announce.c: addresses of this side ---------------------------------- */

/* Parses the option. NULL and "" give no address. -EINVAL */
int rdmamsg__announce_parse(const char *list, struct proto_addresses *ret);
/* Gives the addresses for our SETUP, if the peer may connect again. */
void rdmamsg__announce(const struct rdmamsg_ep *ep,
		       struct proto_addresses *ret);
/* Parses a numeric address. Returns false if it is none. */
bool rdmamsg__address_parse(const char *host, const char *service,
			    struct proto_address *ret);
void rdmamsg__address_of(const struct sockaddr *addr,
			 struct proto_address *ret);
/* Adds an address, if there is room and it is new and sane. */
void rdmamsg__announce_put(struct proto_addresses *a,
			   const struct proto_address *one);
void rdmamsg__announce_add(struct proto_addresses *a,
			   const struct sockaddr_storage *addr, uint16_t port);

/* ---- targets.c: addresses to dial ---------------------------------------- */

enum {
	TARGET_FIRST,			/* of rdmamsg_connect() */
	TARGET_OTHER,			/* of the option, if there is one */
	TARGET_ANNOUNCED,		/* and after it: by the peer */
	TARGET_NONE = UINT32_MAX,	/* the lane leads to a former target */
};

struct target {
	const char *host, *service, *source, *device;
	char ip[64], port[8];		/* 'host' and 'service' may be these */
};

/* SETUP of ep has come, which may be a carrier. Keeps its addresses. */
void rdmamsg__targets_hear(struct rdmamsg_ep *ep, const void *setup,
			   size_t len);
/* A lane is in use. Takes the addresses that its SETUP announced. */
void rdmamsg__targets_learn(struct rdmamsg_ep *ep);
uint32_t rdmamsg__targets_count(const struct resume *r);
/* Returns the target after 't'. After the last comes the first. */
uint32_t rdmamsg__target_next(const struct resume *r, uint32_t t);
/* Returns the target, if it is not that of the lane, else the next. */
uint32_t rdmamsg__target_apart(const struct resume *r, uint32_t t);
void rdmamsg__target_get(const struct rdmamsg_ep *ep, uint32_t t,
			 struct target *ret);

/* ---- lost.c ------------------------------------------------------------ */

/* A request of an accepted message has failed with the lane. */
void rdmamsg__lost_eager(struct rdmamsg_ep *ep, struct op *op);
/*
 * The peer has the messages before 'next'. Completes those whose requests have
 * failed.
 */
void rdmamsg__lost_confirm(struct rdmamsg_ep *ep, uint32_t next);
void rdmamsg__lost_rma(struct rdmamsg_ep *ep, struct rma *r);
/* The lane is drained. Frees it, and what its device has registered. */
void rdmamsg__lane_down(struct rdmamsg_ep *ep);
/* Returns true if an operation that waits for another lane has the cookie. */
bool rdmamsg__lost_has(const struct resume *r, const void *cookie);
/* Ends the operations that wait for another lane. */
void rdmamsg__lost_cancel(struct rdmamsg_ep *ep, int status);

/* ---- carrier.c --------------------------------------------------------- */

/* Sends RESUME. Returns false if it must be tried again. */
bool rdmamsg__carrier_say(struct rdmamsg_ep *ep);
/* The carrier has ended: ends the registrations that its RESUME announced. */
void rdmamsg__carrier_unkey(struct rdmamsg_ep *ep);
/* Moves the lane of the carrier to ep, which has none. */
void rdmamsg__carrier_give(struct rdmamsg_ep *ep);

/* ---- renew.c: keys of regions ------------------------------------------ */

/*
 * Registers the region of given key 'at' with a device, and returns the rkey
 * that it has there.
 */
void rdmamsg__renew_key(struct rdmamsg_ep *ep, struct dev *dev, uint32_t at,
			struct proto_renewed *ret);
/* Adds a key that the peer has renewed. -ENOMEM, -EPROTO */
int rdmamsg__renew_take(struct resume *r, const struct proto_renewed *k);
/* All renewed keys have come. They replace those of the last resume. */
void rdmamsg__renew_done(struct resume *r);
void rdmamsg__renew_forget(struct resume *r);
/* Replaces *rkey by the present one. -EACCES: the peer has revoked the key. */
int rdmamsg__renew_find(const struct rdmamsg_ep *ep, uint64_t region,
			uint32_t *rkey);

/* ---- replay.c ---------------------------------------------------------- */

/* Posts messages and one-sided operations again, as far as there is room. */
void rdmamsg__replay(struct rdmamsg_ep *ep);
/*
 * Prepares an operation of send.queue for the device of the lane. Returns false
 * if it must wait for memory, or if the endpoint ends.
 */
bool rdmamsg__replay_ready(struct rdmamsg_ep *ep, struct op *op);

/* ---- registry.c: sessions that this process has accepted ---------------- */

void rdmamsg__registry_add(struct resume *r);
void rdmamsg__registry_del(struct resume *r);
/*
 * Calls fn with the context of the session, which does not end meanwhile.
 * Returns its result, or -ENOENT.
 */
int rdmamsg__registry_find(const uint8_t session[static 16],
			   int (*fn)(struct rdmamsg *ctx, void *arg),
			   void *arg);

#endif
