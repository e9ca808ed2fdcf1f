/* SPDX-License-Identifier: BSD-2-Clause */
/* A sender, and halls: targets with memory that it reaches. */
#ifndef DC_HALLS_H
#define DC_HALLS_H

#include "abilities.h"
#include "common.h"
#include "../dc_post.h"

#include <rdmamsg/dc.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#ifndef DC_PATH
#define DC_PATH	RDMAMSG_DC_CONNECTIONS
#endif
#define HALLS	5u
#define BYTES	65536u

/* A target with memory that senders reach. */
struct hall {
	struct rdmamsg_dc_target *target;
	struct rdmamsg_region *region;
	struct rdmamsg_key key;
	uint64_t memory[BYTES / 8];
	char port[8];
	unsigned int messages, written, destroyed;
	uint32_t value;			/* of the last on_written */
	uint64_t seen;			/* memory[0] when it was called */
};

static struct rdmamsg *near, *far;
static struct hall halls[HALLS];
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *to[HALLS];
static uint8_t local[BYTES];
static struct rdmamsg_region *mine;
static unsigned int completed, failed, gone;
static bool atomics;			/* false: the device has none */

static inline void on_message(struct rdmamsg_dc_target *t,
			      struct rdmamsg_msg *msg, uint64_t from)
{
	struct hall *h = rdmamsg_dc_target_user(t);

	(void)from;
	h->messages++;
	h->seen = h->memory[0];
	rdmamsg_msg_free(msg);
}

static inline void on_written(struct rdmamsg_dc_target *t, uint32_t value,
			      uint64_t from)
{
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };
	struct hall *h = rdmamsg_dc_target_user(t);

	assert_int_equal(rdmamsg_dc_sender_query(sender, &a), 0);
	if (from != a.id)
		note("written by another sender");
	h->written++;
	h->value = value;
	h->seen = h->memory[0];
}

static inline void on_target_complete(struct rdmamsg_dc_target *t,
				      void *cookie, int status)
{
	struct hall *h = rdmamsg_dc_target_user(t);
	struct cookie *c = cookie;

	if (c->count++ || h->destroyed)
		note("a key has completed twice, or late");
	c->status = status;
}

static inline void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	struct hall *h = rdmamsg_dc_target_user(t);

	h->destroyed++;
}

static inline void on_complete(struct rdmamsg_dc_sender *s,
			       struct rdmamsg_dc_address *a, void *cookie,
			       int status)
{
	struct cookie *c = cookie;

	(void)s;
	(void)a;
	if (c->count++)
		note("an operation has completed twice");
	c->status = status;
	completed++;
	failed += status != 0;
}

static inline void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	(void)s;
	gone++;
}

static inline struct rdmamsg_dc_address *address_of(const struct hall *h)
{
	struct rdmamsg_dc_address *a;

	assert_int_equal(rdmamsg_dc_address_create(sender, test_addr(), h->port,
						   7, NULL, &a), 0);
	return a;
}

/* Some devices are not known before the first sender has come. */
static inline void visit(struct hall *h)
{
	struct rdmamsg_dc_address *a = address_of(h);

	assert_int_equal(rdmamsg_dc_send(a, NULL, 0, 0, NULL), 0);
	rdmamsg_dc_address_destroy(a);
	WAIT_FOR(h->messages == 1);
	h->messages = 0;
}

static inline void open_hall(struct hall *h)
{
	const uint32_t access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
				RDMAMSG_ACCESS_ATOMIC;
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .user = h, .access_key = 7,
		.on_message = on_message, .on_written = on_written,
		.on_complete = on_target_complete,
		.on_destroyed = on_target_destroyed, .path = DC_PATH,
	};
	int ret;

	memset(h, 0, sizeof(*h));
	assert_int_equal(rdmamsg_dc_target_create(far, test_addr(), "0", &opts,
						  &h->target), 0);
	(void)snprintf(h->port, sizeof(h->port), "%u",
		       rdmamsg_dc_target_port(h->target));
	assert_int_equal(rdmamsg_region_create(far, h->memory,
					       sizeof(h->memory), access,
					       &h->region), 0);
	ret = rdmamsg_dc_target_get_key(h->target, h->region, &h->key);
	if (ret == -ENOTCONN) {
		visit(h);
		ret = rdmamsg_dc_target_get_key(h->target, h->region, &h->key);
	}
	assert_int_equal(ret, 0);
}

/* Asks the device of the connection, which the program does not see. */
static inline bool has_atomics(const struct hall *h)
{
	struct rdmamsg_dc_address *a = address_of(h);
	struct cookie c = { 0 };

	assert_int_equal(dc_fetch_add(a, &h->key, BYTES - 8, 0, NULL, 0, &c),
			 0);
	rdmamsg_dc_address_destroy(a);
	WAIT_FOR(c.count);
	completed = failed = 0;
	if (c.status)
		assert_int_equal(c.status, -EOPNOTSUPP);
	return !c.status;
}

static inline void start(uint32_t targets, uint32_t initiators,
			 size_t queue_bytes)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .on_complete = on_complete,
		.on_destroyed = on_sender_destroyed, .initiators = initiators,
		.queue_bytes = queue_bytes, .path = DC_PATH,
	};

	near = test_open(NULL);
	far = test_open(NULL);
	completed = failed = gone = 0;
	assert_int_equal(rdmamsg_dc_sender_create(near, &opts, &sender), 0);
	assert_int_equal(rdmamsg_region_create(near, local, sizeof(local),
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &mine), 0);
	for (uint32_t i = 0; i < targets; i++) {
		open_hall(&halls[i]);
		to[i] = address_of(&halls[i]);
	}
	atomics = test_ability(RDMAMSG_CAP_ATOMICS, RDMAMSG_CAP_NATIVE,
			       has_atomics(&halls[0]));
	if (DC_PATH == RDMAMSG_DC_NATIVE)
		(void)test_has(RDMAMSG_CAP_DC, RDMAMSG_CAP_NATIVE);
}

/* After start(). */
static inline void need_atomics(void)
{
	if (!atomics)
		skip_because(test_iwarp() ? NO_ATOMICS :
			     "no atomic operations");
}

static inline void finish(uint32_t targets)
{
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	for (uint32_t i = 0; i < targets; i++)
		rdmamsg_dc_target_destroy(halls[i].target);
	for (uint32_t i = 0; i < targets; i++)
		WAIT_PASSING(halls[i].destroyed == 1);
	test_close(near);
	test_close(far);
}

/* dc_layout.c */
void runs__to_more_targets_than_initiators_BEFORE_THEIR_MESSAGES(void **state);
void run__when_its_sender_is_destroyed_CANCELLED(void **state);
void layouts__of_both_sides_AS_IN_ONE_PIECE(void **state);
void layouts__in_software_AS_IN_ONE_PIECE(void **state);

/* dc_masked.c */
void masked__each_AS_LISTED(void **state);
void masked__among_others_IN_ORDER(void **state);
void masked__of_rivals_ADD_UP(void **state);
void masked__sender_destroyed_EACH_ENDS(void **state);
void masked__bad_arguments_ARE_TOLD(void **state);

/* dc_query.c */
void address__query_FOLLOWS_ITS_STATE(void **state);
void address__query_of_no_use_REFUSED(void **state);
void target__query_TELLS_OF_ITS_DCT(void **state);
void options__of_connections_ARE_THOSE_OF_DC(void **state);
void options__out_of_range_REFUSED_AT_ONCE(void **state);
void masked__sizes_ARE_THOSE_THAT_WORK(void **state);

#endif
