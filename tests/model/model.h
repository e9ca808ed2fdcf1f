/* SPDX-License-Identifier: BSD-2-Clause */
/* The program at both ends of a session, and what must be true of it. */
#ifndef RDMAMSG_TESTS_MODEL_MODEL_H
#define RDMAMSG_TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define MESSAGES	32		/* most in one direction */
#define SIZE_MAX_MSG	4096
#define HELD		4		/* received messages that are kept */
#define EAGER_MAX	1024
#define TAG_FULL	(1u << 16)	/* such tags need the full form */
#define TOUCHES		24		/* one-sided operations, likewise */
#define SLOTS		4
#define SLOT_MAX	2000
#define WORDS		2		/* of each kind */
#define MOVES		6		/* planned moves that a side tries */
#define INSIDE_CALLS	12		/* kinds of calls in callbacks */

enum cookie { COOKIE_NONE, COOKIE_OUT, COOKIE_OVERDUE, COOKIE_BACK };

enum touch_kind {
	TOUCH_WRITE, TOUCH_READ, TOUCH_ADD, TOUCH_SWAP, TOUCH_KINDS
};

#define VERSIONS	(TOUCHES + MESSAGES + 1)	/* of a slot, at most */

/* A one-sided operation. */
struct touch {
	enum touch_kind kind;
	enum cookie cookie;
	uint32_t slot;			/* or word */
	/* written; a read has this one or a later one; an addition's field */
	uint32_t version;
	uint32_t fence;			/* a read sees no write from this on */
	int status;
	bool timed;			/* has a timeout */
	uint64_t result;
	bool half;			/* an addition with 4 bytes */
	struct {
		uint64_t expected, desired, compare, replace;
	} swap;
};

/* The peer's one-sided operations reach this memory. */
struct board {
	uint64_t words[WORDS], swaps[WORDS];
	uint8_t slots[SLOTS][SLOT_MAX];
};

struct end {
	int index;			/* 0: has connected, 1: has listened */
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	uint32_t to_send, sent;
	uint32_t received;
	bool may_close, closing;	/* closes itself; has done so */
	bool blocked;			/* waits for on_writable */
	bool connected, closed;
	struct rdmamsg_reason why;
	unsigned int resumes;
	uint32_t moves;			/* planned moves to try */
	bool asked;			/* for one, with success */
	bool waits;			/* for its move, before it closes */
	bool moving;			/* has asked, and was not told yet */
	bool down;			/* between two lanes */
	/* flow.c: left to do */
	uint32_t pauses, cancels;
	bool may_abort, may_quit, aborts;
	bool left;			/* called abort, be it the cause or not */
	bool paused;
	bool calling;			/* a call, which runs no callback */
	/* inside.c */
	uint32_t inside;		/* most calls in a callback */
	uint32_t weights[INSIDE_CALLS];
	bool within;			/* a callback, after its own checks */
	bool stubborn, hasty;
	struct {
		uint32_t len;
		enum cookie cookie;
		bool value;		/* of a write, instead of a message */
		bool canceled;
		bool timed, timed_out;	/* has a timeout; was taken back */
		uint8_t versions[SLOTS];	/* of the peer's board */
		uint8_t *borrowed;
	} out[MESSAGES];
	/* incoming.c: messages of the peer */
	struct {
		bool asked, refused, rewritten;
		uint8_t *memory;	/* of the program, lent */
		size_t bytes;		/* of memory */
		struct rdmamsg_region *region;	/* memory, for a layout */
		struct rdmamsg_layout *layout;
	} in[MESSAGES];
	uint32_t refusals;		/* left to do */
	bool times;			/* some operations have a timeout */
	bool lends;
	struct rdmamsg_msg *held[HELD];
	unsigned int held_count;
	/* onesided.c */
	struct rdmamsg_region *board, *local, *bytes;
	struct rdmamsg_key key;		/* of the board, for the peer */
	uint32_t to_touch, touched;
	struct touch touch[TOUCHES];
	/* of the peer's board: accepted writes and atomics */
	uint32_t versions[SLOTS], adds[WORDS];
	uint32_t sure[SLOTS];		/* these writes have completed */
	bool taken[SLOTS][VERSIONS];	/* these writes have timed out */
};

extern struct end ends[2];
extern struct rdmamsg_listener *listener;
extern bool plain;			/* no failover, and no lane dies */

/* Returns the number of the message with this tag. */
static inline uint32_t number_of(uint32_t tag)
{
	return tag & (TAG_FULL - 1);
}

/* ---- ends.c ------------------------------------------------------------ */

void ends_open(void);
/* on_late */
void ends_late(struct rdmamsg_ep *ep, void *cookie, int status);
/* Returns true if the peer must have a write that has completed. */
bool ends_prove_writes(void);
/* Returns the bytes of message n. */
const uint8_t *bytes_of(const struct end *from, uint32_t n);
bool end_can_send(const struct end *e);
void end_send(struct end *e);
bool end_can_free(const struct end *e);
void end_free(struct end *e);
bool end_can_close(const struct end *e);
void end_close(struct end *e);
bool end_can_move(const struct end *e);
void end_move(struct end *e);
/* Both have closed: checks the lists, closes the contexts. */
void ends_check(void);
void ends_close(void);

/* ---- onesided.c -------------------------------------------------------- */

void onesided_open(struct end *e);
void onesided_connected(struct end *e);
bool end_can_touch(const struct end *e);
void end_touch(struct end *e);
/* Message n becomes the value of a write. */
int onesided_write_imm(struct end *e, uint32_t n, void *cookie);
/* Returns false if the cookie is of a message. */
bool onesided_complete(struct end *e, void *cookie, int status);
/* The same in on_late. */
bool onesided_late(struct end *e, void *cookie, int status);
/* The writes that the peer must have when it gets a message sent now. */
void onesided_note(const struct end *e, uint8_t versions[SLOTS]);
void onesided_check_noted(const struct end *from, const uint8_t *versions);
void onesided_check(const struct end *e);
/* Returns the board that the operations of e reach. */
struct board *board_for(const struct end *e);

/* ---- atomics.c --------------------------------------------------------- */

int atomic_begin(struct end *e, struct touch *t, void *cookie);
/* t was taken back. */
void atomic_check_untouched(const struct end *e, const struct touch *t);
/* t has completed with success. */
void atomic_check_result(const struct end *e, const struct touch *t);
void atomics_check(const struct end *e);

/* ---- flow.c ------------------------------------------------------------ */

extern bool aborted;			/* an end has called abort */

void flow_open(struct end *e);
bool end_can_pause(const struct end *e);
void end_pause(struct end *e);
bool end_can_resume(const struct end *e);
void end_resume(struct end *e);
bool end_can_cancel(const struct end *e);
void end_cancel(struct end *e);
bool end_can_abort(const struct end *e);
bool end_can_quit(const struct end *e);
void end_quit(struct end *e);
void end_abort(struct end *e);
/* A message or value is delivered. */
void flow_check_delivery(const struct end *e);
/* Counts messages that do not come as received. */
void flow_skip_canceled(struct end *e);
/* Returns true if e may be closed for its reason. */
bool flow_may_end(const struct end *e);
/* Returns true if message n of e may end so. */
bool flow_may_have(const struct end *e, uint32_t n, int status);

/* ---- late.c ------------------------------------------------------------ */

void late_open(struct end *e);
/* Gives some operations a timeout. Returns true if this one has it. */
bool late_give(const struct end *e, struct rdmamsg_op *op);
/*
 * on_complete. Returns true if the operation has ended: its memory is the
 * program's again.
 */
bool late_complete(const struct end *e, enum cookie *cookie, bool timed,
		   int status);
/* Message n of e was taken back, so the peer has nothing of it. */
void late_check_taken(const struct end *e, uint32_t n);

/* ---- incoming.c -------------------------------------------------------- */

void incoming_open(struct end *e);
/* on_incoming */
int incoming_ask(struct end *e, struct rdmamsg_ep *ep, uint32_t n, size_t len,
		 void **ret);
void incoming_check(const struct end *e, const struct rdmamsg_msg *msg);
void incoming_free(struct end *e, struct rdmamsg_msg *msg);
/* Returns a message that was kept, to be sent again, or NULL. */
struct rdmamsg_msg *incoming_take(struct end *e, uint32_t len);
/* on_closed: the memory of the program is its own again. */
void incoming_closed(struct end *e);

/* ---- inside.c ---------------------------------------------------------- */

void inside_open(struct end *e);
/* Makes some calls at the end of a callback. */
void inside_callback(struct end *e);
/* Makes some calls between cork and uncork. */
void inside_cork(struct end *e);
/* In on_closed. */
void inside_closed(struct end *e, struct rdmamsg_ep *ep);

/* ---- steps.c ----------------------------------------------------------- */

struct totals {
	uint64_t steps, messages, operations, doubts, deaths, moves, resumes;
	uint64_t pauses, cancels, aborts, quits;
	uint64_t calls;			/* in callbacks */
	uint64_t refusals;
	uint64_t timed_out, overdue, late;
};

extern struct totals totals;
extern uint32_t deaths_done;		/* in this schedule */
extern bool all_loose;			/* main.c: no device is in order */

/* Carries out the schedule of this seed. Does not return if it fails. */
void schedule_run(uint64_t seed);

#endif
