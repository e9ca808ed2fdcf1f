/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that the program receives: on_incoming gives memory of the program
 * or a layout to a large one, or refuses it, and is called once for each. A
 * message that the program keeps stays as it is, whatever happens to the lane.
 */
#include "model.h"
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/rma.h>

#define REFUSALS	3		/* most of a side */
#define BLOCKS		20		/* most of a layout, about */

void incoming_open(struct end *e)
{
	e->refusals = sim_once_in(2) ? sim_below(REFUSALS + 1) : 0;
	e->lends = sim_once_in(2);
}

static void must(int ret, const struct end *e, uint32_t n)
{
	if (ret)
		sim_fail("%d: layout of message %u: %s", e->index, n,
			 rdmamsg_error());
}

/* Every other block of the memory is one of the layout. */
static void lend_layout(struct end *e, struct rdmamsg_ep *ep, uint32_t n,
			size_t len)
{
	static const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = RDMAMSG_ACCESS_LOCAL_WRITE,
	};
	const size_t block = 1 + len / (1 + sim_below(BLOCKS));
	const size_t count = (len + block - 1) / block;
	struct rdmamsg_layout_part part = {
		.len = block, .dims = 1, .count = { count },
		.stride = { 2 * block },
	};

	e->in[n].bytes = 2 * block * count;
	e->in[n].memory = malloc(e->in[n].bytes);
	must(rdmamsg_region_create(rdmamsg_ep_ctx(ep), e->in[n].memory,
				   e->in[n].bytes, o.access, &part.region),
	     e, n);
	must(rdmamsg_layout_create(rdmamsg_ep_ctx(ep), &o, &e->in[n].layout),
	     e, n);
	must(rdmamsg_layout_define(e->in[n].layout, &part, 1, 1), e, n);
	must(rdmamsg_layout_recv(ep, e->in[n].layout, 0), e, n);
	e->in[n].region = part.region;
}

static void *lend(struct end *e, struct rdmamsg_ep *ep, uint32_t n, size_t len)
{
	if (sim_once_in(2)) {
		lend_layout(e, ep, n, len);
		return NULL;
	}
	e->in[n].bytes = len;
	e->in[n].memory = malloc(len);
	return e->in[n].memory;
}

int incoming_ask(struct end *e, struct rdmamsg_ep *ep, uint32_t n, size_t len,
		 void **ret)
{
	const struct end *from = &ends[!e->index];

	flow_check_delivery(e);
	if (n >= from->sent || n < e->received || from->out[n].value ||
	    from->out[n].canceled || from->out[n].timed_out ||
	    len != from->out[n].len)
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
		*ret = lend(e, ep, n, len);
	return 0;
}

static void give_back(struct end *e, uint32_t n)
{
	if (e->in[n].layout) {
		must(rdmamsg_layout_destroy(e->in[n].layout), e, n);
		must(rdmamsg_region_destroy(e->in[n].region), e, n);
	}
	/* finds a later use of this memory */
	if (e->in[n].memory)
		memset(e->in[n].memory, 0xee, e->in[n].bytes);
	free(e->in[n].memory);
	e->in[n].memory = NULL;
	e->in[n].layout = NULL;
}

/* Returns the place of the message, or NULL if it is in other memory. */
static const uint8_t *find(const struct end *e, uint32_t n,
			   const struct rdmamsg_msg *msg)
{
	static uint8_t copy[SIZE_MAX_MSG];
	const size_t len = rdmamsg_msg_len(msg);

	if (!e->in[n].layout)
		return !e->in[n].memory ||
		       rdmamsg_msg_data(msg) == e->in[n].memory ?
		       rdmamsg_msg_data(msg) : NULL;
	if (rdmamsg_msg_data(msg) || len > sizeof(copy))
		return NULL;
	must(rdmamsg_layout_copy_out(e->in[n].layout, 0, copy, len), e, n);
	return copy;
}

void incoming_check(const struct end *e, const struct rdmamsg_msg *msg)
{
	const struct end *from = &ends[!e->index];
	uint32_t n = number_of(rdmamsg_msg_tag(msg));
	size_t len = rdmamsg_msg_len(msg);
	const uint8_t *bytes;

	if (n >= from->sent || from->out[n].value || e->in[n].refused ||
	    from->out[n].timed_out)
		sim_fail("%d: message %u was never sent", e->index, n);
	if (len != from->out[n].len)
		sim_fail("%d: message %u has %zu bytes of %u", e->index, n, len,
			 from->out[n].len);
	bytes = find(e, n, msg);
	if (!bytes)
		sim_fail("%d: message %u is in other memory", e->index, n);
	if (memcmp(bytes, bytes_of(from, n), len))
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
