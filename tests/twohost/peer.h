/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the two-host peer share: options, connections, bytes. */
#ifndef TESTS_TWOHOST_PEER_H
#define TESTS_TWOHOST_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define SIZES_MAX	32
#define KEY_TAG		UINT32_MAX	/* a message with a key */

enum mode { IDLE, ECHO, PING, SEND, RECV, TARGET, RMA };

struct conn {
	struct conn *next;
	struct rdmamsg_ep *ep;
	uint32_t sent, received;
	uint32_t accepted, completed;	/* operations with a cookie */
	bool have_key;
	struct rdmamsg_key key;
	/* with -M */
	uint32_t step;			/* of the operation under way, or next */
	bool busy;
	uint64_t was, added, doubt;
	bool no_atomics;
};

struct options {
	enum mode mode;
	const char *host, *port;
	size_t sizes[SIZES_MAX];
	uint32_t size_count;
	uint32_t count;			/* messages to send, 0: endless */
	uint32_t every;
	uint32_t connections;		/* the program ends after so many */
	uint32_t reconnect; /* connects again until so many were made */
	uint32_t pace_ms;
	bool mix;			/* one-sided operations too */
	uint32_t close_code, abort_code;	/* of the word at the end */
	struct rdmamsg_ep_options ep;
	struct rdmamsg_ep_tuning tuning;	/* ep.tuning */
};

/* ---- peer.c ------------------------------------------------------------ */

extern struct options opt;
extern struct rdmamsg *ctx;
extern bool held_back, finishing;

/* Prints an error. The exit status will be 1. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Fills in the bytes of message or operation 'seq'. */
void fill(uint8_t *buf, size_t len, uint32_t seq);
/* Returns the place of the first byte that is not of 'seq', or len. */
size_t first_wrong(const uint8_t *data, size_t len, uint32_t seq);

/* ---- onesided.c -------------------------------------------------------- */

/* Creates the regions. Returns -errno. */
int onesided_open(void);
/* Gives the peer the key of our memory. */
void onesided_send_key(struct conn *c);
/* Takes the peer's key from its message. */
void onesided_take_key(struct conn *c, const struct rdmamsg_msg *msg);
/* Keeps operations of all kinds under way. */
void onesided_go(struct conn *c);
/* With -M: starts the next checked operation, whose cookie is &c->step. */
void mixed_go(struct conn *c);
void mixed_done(struct conn *c, int status);
/* Prints the result of -M. */
void mixed_report(const struct conn *c);

#endif
