/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The well-behaved processes: a server that echoes, and an innocent client that
 * talks to it all the time and must not notice anything. A raw peer misbehaves
 * towards the server, or towards a second connection of that client. All
 * processes share a page with their state.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GUARDED	"guarded"	/* in a hello: guard the endpoint */
#define DEEP	"deep"		/* hello data: a recv_depth of 32 */
#define KEY_TAG	6		/* the answer is a key to write with */
#define SINK_TAG	3000	/* the server does not echo it */
#define BUSY_TAG	3001	/* its handler waits for 'release' */
#define REASONS		256
#define MAX_MSG		(4u << 20)
#define TIMEOUT_MS	2000	/* of a victim, for each step that never comes */
#define PATIENT_MS	20000	/* for a step that a slow machine delays */

struct ending {
	int who, cause, error;
	bool connected;		/* the connection was established */
	char text[192];
};

enum wish { WISH_NONE, WISH_STATS, WISH_CONNECT, WISH_SEND, WISH_CLOSE };

struct shared {
	_Atomic uint32_t port;		/* of the server */
	_Atomic uint32_t timeout_ms;	/* of the next connection to the raw peer */
	_Atomic uint32_t rounds;	/* rounds of the innocent client */
	_Atomic bool harmed; /* the innocent client noticed a fault */
	char harm[256];
	_Atomic uint32_t ended;		/* connections to the raw peer */
	struct ending endings[REASONS];
	_Atomic uint32_t connected; /* those of them that were established */
	_Atomic uint32_t accepted, done; /* cookies */
	_Atomic bool quit;
	_Atomic bool busy, release;	/* handler of BUSY_TAG, and its end */
	_Atomic bool busy_sent; /* on_complete of a large one is busy as well */
	/* wishes of the test, for the server and the client */
	_Atomic int wish_server, wish_client;
	_Atomic uint16_t raw_port;
	struct rdmamsg_stats stats;
	struct rdmamsg_srq_stats srq;	/* with TEST_SRQ */
	int fds;
	_Atomic uint64_t large;		/* address of the last one echoed */
};

extern struct shared *victims;

/* Returns the depth of the shared receive queue (TEST_SRQ), or 0: none. */
uint32_t victims_srq_depth(void);

void victims_start(const char *address);
/* Ends both victims. Returns true if neither has found a fault. */
bool victims_stop(void);

/* Waits until 'count' connections have ended. Returns false after a while. */
bool victims_ended(uint32_t count);
/* Returns true if the innocent peer finishes several rounds from now on. */
bool victims_innocent_goes_on(void);
void victims_wish(_Atomic int *of, enum wish wish);
/* Returns true if a victim is in the handler of BUSY_TAG. */
bool victims_busy(void);

#endif
