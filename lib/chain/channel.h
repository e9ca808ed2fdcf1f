/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel is two queue pairs beside an endpoint, connected to two of the
 * peer's, for the messages of native runs. One only sends and one only
 * receives: when a send fails, all requests of its queue pair complete, and
 * requests that wait for messages would take completions of receives for these.
 * Errors have a text.
 *
 * Words of 8 bytes are in network order in a message, because devices calculate
 * so. A step with more than CHANNEL_BYTES sends pieces, which only the loop
 * does: each but the last has CHANNEL_BYTES, and the length of all of them is
 * before the first, in network order. No other message is as long as that one.
 */
#ifndef RDMAMSG_LIB_CHANNEL_H
#define RDMAMSG_LIB_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/cross.h"

/* A run has at most half of each, so that not every run has to tidy up. */
#define CHANNEL_SLOTS	16u		/* receives posted */
#define CHANNEL_SENDS	64u		/* requests posted, waits too */
#define CHANNEL_BYTES	4096u		/* of a message, at most */
#define CHANNEL_FIRST	(CHANNEL_BYTES + 8) /* the first of several pieces */

struct carry;
struct chain_ep;
struct dev;
struct proto_team_meet;

/* The last mark and condition that the requests of a queue pair wait for. */
struct seen {
	uint32_t mark, conds;
};

/* All counts are of the channel's life and wrap. */
struct channel {
	struct dev *dev;
	struct cross cross;		/* sends */
	struct cross in;		/* receives */
	struct ibv_cq *send_cq, *recv_cq;
	uint32_t send_num, recv_num;	/* of these queues, in requests */
	uint32_t psn;			/* first of this side */
	uint32_t sent;			/* sends posted, all signaled */
	uint32_t confirmed;		/* of these: completions polled */
	uint32_t used;			/* receives that runs wait for */
	uint32_t arrived;		/* receives polled */
	uint32_t posted;
	uint32_t undrained;		/* requests since send_cq was polled */
	struct {
		uint32_t len, tag;
	} got[CHANNEL_SLOTS];		/* arrived, by slot */
	uint8_t *slots;
	struct ibv_mr *mr;
	struct carry *carry;		/* NULL: no run in the loop so far */

	/* the native run */
	bool in_run;
	uint32_t was_sent, was_used;	/* before it */
	uint32_t requests;
	struct seen seen;
};

/*
 * Makes a channel of the endpoint. -EOPNOTSUPP: the device has none, or the
 * endpoint can move to another device.
 */
int rdmamsg__channel_open(struct chain_ep *end);
/* Fills in what the peer has to know. */
void rdmamsg__channel_offer(struct channel *ch, struct proto_team_meet *ret);
/* Connects the channel of an endpoint that has not ended. */
int rdmamsg__channel_connect(const struct chain_ep *end,
			     const struct proto_team_meet *peer);
/* Posts receives for the slots that no run needs any more. */
int rdmamsg__channel_refill(struct channel *ch);
/*
 * Poll one of its queues empty. Return the status of the first completion that
 * failed, or IBV_WC_SUCCESS.
 */
enum ibv_wc_status rdmamsg__channel_poll_sends(struct channel *ch);
enum ibv_wc_status rdmamsg__channel_poll_receives(struct channel *ch);
/* Copies memory of the program to a message, or back. */
void rdmamsg__channel_copy(uint8_t *to, const uint8_t *from, size_t len);
/* Returns the length of the step that has sent the message in the slot. */
size_t rdmamsg__channel_len(const uint8_t *slot, uint32_t len);
/* Its requests end, and nothing waits for another queue any more. */
void rdmamsg__channel_stop(struct channel *ch);
/* Has no effect if the endpoint has no channel. */
void rdmamsg__channel_close(struct chain_ep *end);

static inline uint8_t *rdmamsg__channel_slot(const struct channel *ch,
					     uint32_t index)
{
	return ch->slots + (size_t)(index % CHANNEL_SLOTS) * CHANNEL_FIRST;
}

/* Returns true if the receive of this number has been polled. */
static inline bool rdmamsg__channel_has(const struct channel *ch,
					uint32_t index)
{
	return (int32_t)(ch->arrived - index) > 0;
}

/* A queue that nobody arms, and its number. */
int rdmamsg__channel_cq(const struct dev *dev, uint32_t entries,
			struct ibv_cq **ret, uint32_t *number);
/* Opens a queue pair that is connected to itself. */
int rdmamsg__channel_circle(const struct dev *dev, struct ibv_cq *cq,
			    uint32_t sends, struct cross *ret);
/* Registers memory for requests of runs. access: enum ibv_access_flags */
int rdmamsg__channel_memory(const struct dev *dev, size_t size, int access,
			    uint8_t **ret, struct ibv_mr **ret_mr);
/* Undo both. cq, mem and mr may be NULL. */
void rdmamsg__channel_drop(const struct dev *dev, struct ibv_cq *cq);
void rdmamsg__channel_unmap(const struct dev *dev, uint8_t *mem, size_t size,
			    struct ibv_mr *mr);

#endif
