/* SPDX-License-Identifier: BSD-2-Clause */
/* The program at both ends of a session, and what must be true of it. */
#ifndef RDMAMSG_TESTS_MODEL_MODEL_H
#define RDMAMSG_TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#define MESSAGES	32		/* most in one direction */
#define HELD		4		/* received messages that are kept */

enum cookie { COOKIE_NONE, COOKIE_OUT, COOKIE_BACK };

struct end {
	int index;			/* 0: has connected, 1: has listened */
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	uint32_t to_send, sent;
	uint32_t received;
	bool may_close, closing;	/* closes itself; has done so */
	bool blocked;			/* waits for on_writable */
	bool connected, closed;
	bool quiet;			/* sends nothing from callbacks */
	struct rdmamsg_reason why;
	unsigned int resumes;
	struct {
		uint32_t len;
		enum cookie cookie;
		uint8_t *borrowed;
	} out[MESSAGES];
	struct rdmamsg_msg *held[HELD];
	unsigned int held_count;
};

extern struct end ends[2];
extern struct rdmamsg_listener *listener;

/* ---- ends.c ------------------------------------------------------------ */

void ends_open(void);
bool end_can_send(const struct end *e);
void end_send(struct end *e);
bool end_can_free(const struct end *e);
void end_free(struct end *e);
bool end_can_close(const struct end *e);
void end_close(struct end *e);
/* Both have closed: checks the lists, closes the contexts. */
void ends_check(void);
void ends_close(void);

/* ---- steps.c ----------------------------------------------------------- */

struct totals {
	uint64_t steps, messages, deaths, resumes;
};

extern struct totals totals;

/* Carries out the schedule of this seed. Does not return if it fails. */
void schedule_run(uint64_t seed);

#endif
