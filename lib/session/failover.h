/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The alternate path of an endpoint. Both sides tell each other their alternate
 * port, in SETUP and in PATH messages. When each has the port of the other,
 * both load the path into their queue pairs. After a migration, after a change
 * of a port, and on another lane, this begins again. A carrier tells its port
 * in SETUP, but loads no path before its session takes it over.
 */
#ifndef RDMAMSG_LIB_FAILOVER_H
#define RDMAMSG_LIB_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/failover.h>

#include "base/timer.h"
#include "lane/migrate.h"
#include "wire/path.h"

struct rdmamsg;
struct rdmamsg_device;
struct rdmamsg_ep;

struct failover {
	struct rdmamsg_ep *ep;
	struct rdmamsg_failover opts;
	struct timer timer;		/* until the device arms the path */
	uint32_t wait_ms;
	struct route route;
	struct proto_path own, peer;	/* offer 0: none yet */
	struct proto_path sent;		/* 'own' as the peer has it */
	struct proto_path loaded;	/* 'own' as loaded; offer 0: nothing */
	uint32_t former;		/* port before the last migration */
	uint32_t migrations;		/* of lanes before the present one */
	bool due;			/* rdmamsg__failover_pump() has work */
	bool look;			/* a port may have changed */
	bool renew;			/* 'own' needs a new offer */
	bool migrated;			/* has migrated, is not armed again */
	bool possible;			/* the link has alternate paths */
	bool broken;			/* these offers cannot be used */
	bool ended;			/* the timer is released */
	enum rdmamsg_path_state state;
	char text[192];			/* the reason for it */
	char lack[192];			/* the reason for own.port == 0 */
};

/* Both sides have told each other that their links have alternate paths. */
static inline bool rdmamsg__has_paths(const struct failover *f)
{
	return f && f->possible && f->peer.offer;
}

/* Copies and checks the options. -EINVAL */
int rdmamsg__failover_copy(struct rdmamsg_failover *dst,
			   const struct rdmamsg_failover *src);
/* -EINVAL, -ENOMEM. Sets ep->failover if the options ask for it. */
int rdmamsg__failover_new(struct rdmamsg_ep *ep,
			  const struct rdmamsg_failover *opts);
void rdmamsg__failover_free(struct rdmamsg_ep *ep);
/* The endpoint ends. */
void rdmamsg__failover_end(struct rdmamsg_ep *ep);
/* The port is known. -EINVAL, -ENETDOWN: the alternate port cannot be used. */
int rdmamsg__failover_check(struct rdmamsg_ep *ep);
/* Returns true if the transport must leave time for a migration. */
bool rdmamsg__failover_agreed(const struct rdmamsg_ep *ep);
/* Sets the item for SETUP if the endpoint can have an alternate path. */
void rdmamsg__failover_setup(struct rdmamsg_ep *ep, struct proto_path *ret);
/* The peer's SETUP has come. */
void rdmamsg__failover_begin(struct rdmamsg_ep *ep,
			     const struct proto_path *peer);
/* Both sides have exchanged SETUP. */
void rdmamsg__failover_start(struct rdmamsg_ep *ep);
/* A PATH message of the peer. */
void rdmamsg__failover_take(struct rdmamsg_ep *ep, const void *buf, size_t len,
			    uint32_t tag);
/* Takes the steps that are due. Calls on_path. */
void rdmamsg__failover_pump(struct rdmamsg_ep *ep);
/* Returns true if the peer does not have the latest state. */
bool rdmamsg__failover_unsaid(const struct rdmamsg_ep *ep);
/* Encodes a PATH message, which the caller sends. */
void rdmamsg__failover_say(struct rdmamsg_ep *ep,
			   uint8_t out[static PROTO_PATH_LEN]);
/* The program wants another alternate path. port and lid: 0: any. */
void rdmamsg__failover_set(struct rdmamsg_ep *ep, uint32_t port, uint32_t lid);
/* The device of this side migrates: rdmamsg_ep_migrate() was called. */
void rdmamsg__failover_migrating(struct rdmamsg_ep *ep);
/* The endpoint has lost its lane. */
void rdmamsg__failover_down(struct rdmamsg_ep *ep);
/*
 * The endpoint has the lane of the carrier, and takes over what the two sides
 * have told each other about its alternate paths.
 */
void rdmamsg__failover_moved(struct rdmamsg_ep *ep, struct rdmamsg_ep *carrier);
/* Async events of the queue pair, and of a port of the device. */
void rdmamsg__failover_event(struct rdmamsg_ep *ep, int type);
void rdmamsg__failover_port(struct rdmamsg *ctx, const struct rdmamsg_device *d,
			    int type, uint32_t port);

#endif
