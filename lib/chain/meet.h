/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Before its first native run with an endpoint, a chain meets the peer. In two
 * rounds both sides tell each other whether they can, with their ends of the
 * channel, and whether the channel is connected. Both then know the same.
 *
 * The members of a team meet all at once. Each says yes only if it can with all
 * others, so that all members know the same of the team.
 */
#ifndef RDMAMSG_LIB_MEET_H
#define RDMAMSG_LIB_MEET_H

#include <stdbool.h>
#include <stdint.h>

struct chain_ep;
struct rdmamsg_chain;

/*
 * Makes a meeting for the chain, which must be held until it is over, with up
 * to 'most' endpoints. -ENOMEM with a text.
 */
int rdmamsg__meeting_new(struct rdmamsg_chain *c, uint32_t most);
void rdmamsg__meeting_add(struct rdmamsg_chain *c, struct chain_ep *end);
/* rdmamsg__chain_met() follows, or the run fails. */
void rdmamsg__meeting_start(struct rdmamsg_chain *c);
/* The chain of a meeting has ended. */
void rdmamsg__meeting_told(struct rdmamsg_chain *of_meeting);
/*
 * Ends the meeting. Returns true if it had begun: the peers may know something
 * else than this side. Has no effect if the chain has none.
 */
bool rdmamsg__meeting_free(struct rdmamsg_chain *c);

#endif
