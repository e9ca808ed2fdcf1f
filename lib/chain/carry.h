/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carried runs: the loop runs the steps, and channels carry the messages. The
 * peer's chain may run natively, and sees no difference. The peer's chain may
 * also be carried: then messages can have more than CHANNEL_BYTES.
 */
#ifndef RDMAMSG_LIB_CARRY_H
#define RDMAMSG_LIB_CARRY_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* In wr_id, beside CHAIN_KEY: a carried run is to be woken. */
#define CARRY_WAKES	(1u << 31)

struct chain_ep;
struct channel;
struct rdmamsg;
struct rdmamsg_chain;

/*
 * Starts the steps of a run that has begun. Endpoints without a channel have
 * ordinary messages. -errno with a text: nothing was posted.
 */
int rdmamsg__carry_start(struct rdmamsg_chain *c);
/*
 * Return true if the step is done. Else its queue waits, or the run has ended.
 * The endpoint of the step has a channel.
 */
bool rdmamsg__carry_send(struct rdmamsg_chain *c, uint32_t queue,
			 uint32_t number);
bool rdmamsg__carry_recv(struct rdmamsg_chain *c, uint32_t queue,
			 uint32_t number);
/*
 * All steps are done. Ends the carrying and returns true if the peers have all
 * messages. Else a completion wakes the run.
 */
bool rdmamsg__carry_ends(struct rdmamsg_chain *c);
/* The run ends early. Closes its channels. Their endpoints end, too. */
void rdmamsg__carry_spoil(struct rdmamsg_chain *c);
/* Returns a queue that waits for the channel, or NO_QUEUE. */
uint8_t rdmamsg__carry_waits(const struct chain_ep *end);
/* Returns true if messages of the run are lost. */
bool rdmamsg__carry_broken(const struct chain_ep *end);
/* Has no effect if the channel has carried no run. */
void rdmamsg__carry_close(struct channel *ch);
/* Handles a completion with CARRY_WAKES. */
void rdmamsg__carry_woken(struct rdmamsg *ctx, const struct ibv_wc *wc);

#endif
