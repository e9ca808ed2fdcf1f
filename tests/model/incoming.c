/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that the program receives: on_incoming gives memory of the program
 * to a large one, or refuses it, and is called once for each. A message that
 * the program keeps stays as it is, whatever happens to the lane.
 */
#include "model.h"
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REFUSALS	3		/* most of a side */

void incoming_open(struct end *e)
{
	e->refusals = sim_once_in(2) ? sim_below(REFUSALS + 1) : 0;
	e->lends = sim_once_in(2);
}

int incoming_ask(struct end *e, uint32_t n, size_t len, void **ret)
{
	const struct end *from = &ends[!e->index];

	flow_check_delivery(e);
	if (n >= from->sent || n < e->received || from->out[n].value ||
	    from->out[n].canceled || len != from->out[n].len)
		sim_fail("%d: announced is message %u of %zu bytes", e->index,
			 n, len);
	if (e->in[n].asked)
		sim_fail("%d: message %u is announced twice", e->index, n);
	e->in[n].asked = true;
	if (e->refusals && sim_once_in(4)) {
		e->refusals--;
		e->in[n].refused = true;
		totals.refusals++;
		sim_trace("%d: refuses message %u\n", e->index, n);
		return -EPERM;
	}
	if (e->lends && sim_once_in(2))
		*ret = e->in[n].memory = malloc(len);
	return 0;
}

static void give_back(struct end *e, uint32_t n)
{
	/* finds a later use of this memory */
	if (e->in[n].memory)
		memset(e->in[n].memory, 0xee, ends[!e->index].out[n].len);
	free(e->in[n].memory);
	e->in[n].memory = NULL;
}

void incoming_check(const struct end *e, const struct rdmamsg_msg *msg)
{
	const struct end *from = &ends[!e->index];
	uint32_t n = number_of(rdmamsg_msg_tag(msg));
	size_t len = rdmamsg_msg_len(msg);

	if (n >= from->sent || from->out[n].value || e->in[n].refused)
		sim_fail("%d: message %u was never sent", e->index, n);
	if (len != from->out[n].len)
		sim_fail("%d: message %u has %zu bytes of %u", e->index, n, len,
			 from->out[n].len);
	if (e->in[n].memory && rdmamsg_msg_data(msg) != e->in[n].memory)
		sim_fail("%d: message %u is in other memory", e->index, n);
	if (memcmp(rdmamsg_msg_data(msg), bytes_of(from, n), len))
		sim_fail("%d: message %u has other bytes", e->index, n);
}

void incoming_free(struct end *e, struct rdmamsg_msg *msg)
{
	uint32_t n = number_of(rdmamsg_msg_tag(msg));

	/* on_closed has given the memory of the program back */
	if (!e->closed && !e->in[n].rewritten)
		incoming_check(e, msg);
	e->calling = true;
	rdmamsg_msg_free(msg);
	e->calling = false;
	give_back(e, n);
}

struct rdmamsg_msg *incoming_take(struct end *e, uint32_t len)
{
	uint32_t at = e->held_count ? sim_below(e->held_count) : 0, n;
	struct rdmamsg_msg *msg = e->held[at];

	if (!e->held_count || rdmamsg_msg_len(msg) < len)
		return NULL;
	n = number_of(rdmamsg_msg_tag(msg));
	if (e->in[n].memory)
		return NULL;
	e->in[n].rewritten = true;
	e->held[at] = e->held[--e->held_count];
	if (rdmamsg_msg_set_len(msg, len))
		sim_fail("%d: shortening a message: %s", e->index,
			 rdmamsg_error());
	return msg;
}

void incoming_closed(struct end *e)
{
	for (uint32_t n = 0; n < MESSAGES; n++)
		give_back(e, n);
}
