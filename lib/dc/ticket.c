/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/list.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/ticket.h"
#include "session/door.h"
#include "session/ep.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

/* as long as a sender waits for WELCOME, and twice */
#define TICKS	(DCF_FORGET_MS / PORT_TICK_MS)

struct ticket {
	struct list node;		/* of the target, until it is used */
	struct visitor visitor;		/* of the target's door */
	struct sockaddr_storage from;
	uint64_t value;
	uint64_t sender;
	uint32_t ticks;
};

int rdmamsg__ticket_new(struct rdmamsg_dc_target *t,
			const struct sockaddr_storage *from, uint64_t sender,
			uint64_t *ret)
{
	struct visitor v = { .door = NULL };
	int limit = rdmamsg__door_admit(t->door, from, DOOR_HALF_OPEN, &v);
	struct ticket *k;

	if (limit > 0)
		return rdmamsg__fail(-EBUSY, "this target limits %s",
				     rdmamsg__limit_text((uint32_t)limit));
	k = limit ? NULL : calloc(1, sizeof(*k));
	if (!k) {
		rdmamsg__visitor_leave(&v);
		return rdmamsg__fail(-ENOMEM, "no memory for a session of DC");
	}
	if (getrandom(&k->value, sizeof(k->value), GRND_NONBLOCK) !=
	    sizeof(k->value)) {
		rdmamsg__visitor_leave(&v);
		free(k);
		return rdmamsg__fail(-EAGAIN, "getrandom: the kernel has no "
				     "random bytes for a session of DC");
	}
	rdmamsg__visitor_pass(&v, &k->visitor);
	k->sender = sender;
	k->from = *from;
	list_add_tail(&t->tickets, &k->node);
	*ret = k->value;
	return 0;
}

struct ticket *rdmamsg__ticket_take(struct rdmamsg_dc_target *t, uint64_t value,
				    uint64_t sender)
{
	struct list *n;

	list_for_each(n, &t->tickets) {
		struct ticket *k = list_entry(n, struct ticket, node);

		if (k->value != value || k->sender != sender)
			continue;
		list_del(&k->node);
		rdmamsg__visitor_move(&k->visitor, DOOR_OPEN);
		return k;
	}
	return NULL;
}

void **rdmamsg__ticket_slot(struct ticket *k)
{
	return rdmamsg__visitor_slot(&k->visitor);
}

void rdmamsg__ticket_free(struct ticket *k)
{
	if (!k)
		return;
	list_del(&k->node);
	rdmamsg__visitor_leave(&k->visitor);
	free(k);
}

const struct sockaddr_storage *rdmamsg__ticket_from(const struct ticket *k)
{
	return &k->from;
}

void rdmamsg__tickets_drop_like(struct rdmamsg_dc_target *t,
				const struct ticket *k)
{
	struct list *n, *s;

	list_for_each_safe(n, s, &t->tickets) {
		struct ticket *other = list_entry(n, struct ticket, node);

		if (other->visitor.source == k->visitor.source)
			rdmamsg__ticket_free(other);
	}
}

void rdmamsg__tickets_tick(struct rdmamsg_dc_target *t)
{
	struct list *n, *s;

	list_for_each_safe(n, s, &t->tickets) {
		struct ticket *k = list_entry(n, struct ticket, node);

		if (++k->ticks > TICKS)
			rdmamsg__ticket_free(k);
	}
}

void rdmamsg__tickets_drop(struct rdmamsg_dc_target *t)
{
	while (!list_empty(&t->tickets))
		rdmamsg__ticket_free(list_first(&t->tickets, struct ticket,
						node));
}
