/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an address to a connected endpoint: what both connectors share.
 */
#ifndef RDMAMSG_CM_CONNECT_H
#define RDMAMSG_CM_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "device/verbs_api.h"
#include "session/connector.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/given.h"
#include "base/timer.h"
#include "wire/proto.h"

struct addrinfo;
struct oob_conn;
struct oob_listen;
struct port_watch;
struct resolve;
struct shared_port;

/*
 * The ids that listen on a port: one for each verbs table in use, and a second
 * one for IPv4 where the wildcard of IPv6 does not include it.
 */
struct listen_ids {
	struct cm_owner owner;
	struct listen_id {
		const struct verbs_api *v;
		struct rdma_cm_id *id;
		bool lost;		/* its device was removed */
	} at[TABLES][2];
};

struct rdmamsg_listener {
	const struct connector *by;
	struct list node;
	struct rdmamsg *ctx;
	struct listen_ids ids;		/* unless 'shared' is set */
	/* addresses of the ids, or of those of 'shared' */
	struct listen_place {
		const struct verbs_api *v;	/* NULL: no id */
		struct sockaddr_storage at;
	} places[TABLES];
	struct shared_port *shared;	/* shared_port.h; NULL: its own port */
	struct list shared_node;	/* of shared->listeners */
	uint32_t offered;		/* last shared->offer that was here */
	struct port_watch *watches[TABLES];
	struct mail *removal;		/* NULL while it is on its way */
	struct listen_again {
		struct timer timer;
		struct sockaddr_storage at;	/* with the port */
		uint32_t wait_ms;
		int error;		/* of the last try */
		bool reserved;		/* room for the timer */
	} again;
	struct rdmamsg_listen_options opts;
	struct rdmamsg_listener_handlers on;
	struct rdmamsg_ep_options ep;	/* points to copies: */
	struct rdmamsg_ep_tuning ep_tuning;
	struct rdmamsg_ep_handlers ep_on;
	uint8_t ep_hello[PROTO_HELLO_DATA_MAX];
	void *ep_setup;
	char *device, *announce;
	uint16_t port;
	/* addresses of a listener at no address; reach.c */
	struct reach {
		struct proto_addresses addresses;
		uint64_t at;		/* ms; 0: never */
	} reach[TABLES][2];		/* [][1]: for peers of this host */
	struct rdmamsg_path ep_path;
	struct rdmamsg_failover ep_failover;
	struct oob_listen *oob;		/* in place of ids */
	struct door *door;
	struct secret *secret;		/* own key; NULL: the context's */
	bool auto_accept;
	_Atomic bool draining;		/* no more requests */
	bool dead;			/* an id is lost */
	uint64_t removed;		/* times */
	bool waiting;			/* for rdmamsg_listener_accept_wait() */
	bool closed;			/* if waiting: that call frees it */
	struct list requests;		/* that wait for that call */
	uint32_t object;		/* number in the context */
};

struct rdmamsg_request {
	const struct connector *by;
	struct cm_owner owner;
	struct list node;		/* of its context */
	struct list wait_node;		/* of the listener, for accept_wait */
	struct rdmamsg *ctx;
	const struct verbs_api *v;
	struct rdma_cm_id *id;
	struct oob_conn *oob;		/* in place of id */
	struct visitor visitor;
	struct auth *auth;		/* NULL: the listener has no key */
	struct proto_hello hello;
	uint8_t data[PROTO_HELLO_DATA_MAX];
	uint8_t resp_res, init_depth;
	struct sockaddr_storage peer, local;
	uint32_t limit;			/* enum proto_limit, of a reject */
	struct request_keys {
		struct dev *dev;	/* held; NULL: no key was made */
		struct rdmamsg_pd *pd;	/* of dev, held */
		struct given given;
	} keys;
	struct shared_port *shared;	/* while on its way to a listener */
	const struct shared_port *came_to;	/* of a lane; only compared */
	bool draining;			/* its listener */
	bool dead;			/* the peer gave up; id may be gone */
};

/* request.c */
/*
 * Accepts the request as an endpoint of the program, or as a carrier of a
 * session. Does not free the request.
 */
int rdmamsg__request_accept(struct rdmamsg_request *req,
			    const struct rdmamsg_ep_options *opts,
			    struct rdmamsg_ep *session,
			    struct rdmamsg_ep **ret);
void rdmamsg__request_free(struct rdmamsg_request *req);
/* Counts a request that any connector rejects, and writes a line of the log. */
void rdmamsg__note_reject(struct rdmamsg *ctx,
			  const struct sockaddr_storage *from,
			  enum proto_reject code, uint32_t limit);
/*
 * Admits a request to *v. Returns 0, -ENOMEM, or the enum proto_limit that is
 * reached.
 */
int rdmamsg__request_admit(struct rdmamsg_listener *l,
			   const struct sockaddr_storage *from,
			   struct visitor *v);
/*
 * Creates a request. The caller has checked the version of the hello. On
 * success the request takes over *v. Then rdmamsg__request_arrived() gives the
 * request to the program.
 */
int rdmamsg__request_new(struct rdmamsg_listener *l,
			 const struct proto_hello *hello, struct visitor *v,
			 struct rdmamsg_request **ret);
void rdmamsg__accept_failed(struct rdmamsg_listener *l, int err);
/* The context shuts down: rejects what the program has not answered. */
void rdmamsg__requests_turn_away(struct rdmamsg *ctx);
void rdmamsg__request_arrived(struct rdmamsg_listener *l,
			      struct rdmamsg_request *req);
/*
 * Moves the request to another context. fn ends the request, whatever the state
 * of that context is by then. The caller keeps the context open until this
 * returns. -EAGAIN, -ENOMEM, -errno: the request stays.
 */
int rdmamsg__request_hand_over(struct rdmamsg_request *req, struct rdmamsg *to,
			       void (*fn)(struct rdmamsg *ctx,
					  struct rdmamsg_request *req,
					  void *arg),
			       void *arg);
int rdmamsg__request_check(const struct rdmamsg_request *req);
/* -ESHUTDOWN, -ECONNRESET: the request cannot be accepted any more. */
int rdmamsg__request_is_open(const struct rdmamsg_request *req);

/* request_key.c */
/*
 * Passes the keys to the endpoint that the request becomes. -EPERM: they do not
 * serve its peer.
 */
int rdmamsg__request_keys_pass(struct rdmamsg_request *req,
			       struct rdmamsg_ep *ep);
/* In the thread of the context that has made the keys. */
void rdmamsg__request_keys_drop(struct rdmamsg_request *req);

/* listen.c */
int rdmamsg__listen(struct rdmamsg *ctx, const struct connector *by,
		    const char *host, const char *service,
		    const struct rdmamsg_listen_options *opts,
		    struct rdmamsg_listener **ret);
void rdmamsg__listener_free(struct rdmamsg_listener *l);
/* Its own key, else the context's, else NULL. */
const struct secret *rdmamsg__listener_secret(const struct rdmamsg_listener *l);
/* The context shuts down: rejects new requests, and at its end hears none. */
void rdmamsg__listeners_drain(struct rdmamsg *ctx);
void rdmamsg__listeners_stop(struct rdmamsg *ctx);

/* hello.c */
/* Takes the hello of the peer's answer. On failure, sets the reason. */
int rdmamsg__hello_check(struct rdmamsg_ep *ep, const void *data, size_t len);
/* Returns PROTO_FEATURE_* of this side, for its hello. */
uint32_t rdmamsg__features(const struct rdmamsg_ep *ep);
/*
 * Sets the features of both sides, and OVERCOMMIT if the peer has it. Call it
 * before rdmamsg__qp_ready().
 */
void rdmamsg__features_take(struct rdmamsg_ep *ep, const struct proto_hello *h);
/* -EPROTONOSUPPORT: this side asks for a CRC, and the request does not. */
int rdmamsg__crc_check(struct rdmamsg_ep *ep, const struct proto_hello *peer);
void rdmamsg__hello_fill(struct rdmamsg_ep *ep,
			 uint8_t out[static PROTO_HELLO_MAX], uint8_t *ret_len);
/* Returns true if the reason passes; then the endpoint tries again later. */
bool rdmamsg__rejected_for_now(struct rdmamsg_ep *ep,
			       const struct proto_hello *h);
/* Notes why the peer has refused. Returns false if it does not say. */
bool rdmamsg__rejected(struct rdmamsg_ep *ep, const struct proto_hello *h);

/* lane.c */
/* Member 'another' of connectors that can. */
int rdmamsg__dial_lane(struct rdmamsg_ep *ep, const char *host,
		       const char *service,
		       const struct rdmamsg_ep_options *opts,
		       struct rdmamsg_ep **ret);
/* A request for another lane of a session of this process. Takes over req. */
void rdmamsg__lane_arrived(struct rdmamsg_request *req);

/* dial.c */
/* Creates an endpoint with host and service. Does not dial yet. */
int rdmamsg__dial_new(struct rdmamsg *ctx, const struct connector *by,
		      const char *host, const char *service,
		      const struct rdmamsg_ep_options *opts,
		      struct rdmamsg_ep **ret);
int rdmamsg__dial_start(struct rdmamsg_ep *ep);
int rdmamsg__connect(struct rdmamsg *ctx, const struct connector *by,
		     const char *host, const char *service,
		     const struct rdmamsg_ep_options *opts,
		     struct rdmamsg_ep **ret);
/* Members 'again', 'refused' and 'cancel' of both connectors. */
void rdmamsg__dial_again(struct rdmamsg_ep *ep);
bool rdmamsg__dial_refused(struct rdmamsg_ep *ep);
void rdmamsg__dial_stop(struct rdmamsg_ep *ep);
/*
 * Tries the same address again after a back-off, because of a stale connection
 * or of a limit of the peer (enum proto_limit) that may pass.
 */
void rdmamsg__dial_back_off(struct rdmamsg_ep *ep, uint32_t limit);
/*
 * Address resolution timed out. Returns false if there is another address to
 * try, or no time left.
 */
bool rdmamsg__dial_unanswered(struct rdmamsg_ep *ep);
/* Free receives and queue pair of a failed try. */
void rdmamsg__drop_receives(struct rdmamsg_ep *ep);
void rdmamsg__drop_try(struct rdmamsg_ep *ep);
/* Returns true if err means no route to the address, or no answer. */
bool rdmamsg__is_unreachable(int err);
/*
 * Ends an endpoint that failed to connect, with the reason that is set. With
 * RDMAMSG_EP_RETRY it may try again later instead.
 */
void rdmamsg__dial_end(struct rdmamsg_ep *ep);
/*
 * The same, with the text of rdmamsg__text() as the reason. If rdmamsg__is_unreachable(err), the cause is RDMAMSG_CAUSE_UNREACHABLE.
 */
void rdmamsg__dial_failed(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
			  int err);

/* resolve.c: resolves names in a thread */
bool rdmamsg__service_ok(const char *service);
int rdmamsg__fail_service(const char *service);
int rdmamsg__resolve_numeric(const char *host, const char *service, int flags,
			     struct addrinfo **ret);
int rdmamsg__resolve_start(struct rdmamsg_ep *ep, struct resolve **ret);
void rdmamsg__resolve_abandon(struct resolve *r);
/*
 * Resolves and waits. -ETIMEDOUT, -ENOMEM; *ret_gai: of getaddrinfo(), or a
 * positive errno instead of EAI_SYSTEM.
 */
int rdmamsg__resolve_wait(const char *host, const char *service,
			  const struct addrinfo *hints, int timeout_ms,
			  int *ret_gai, struct addrinfo **ret);
void rdmamsg__resolved(struct rdmamsg_ep *ep, int gai, struct addrinfo *addrs);

#endif
