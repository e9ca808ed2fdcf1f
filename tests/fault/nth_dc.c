/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios of targets and senders: messages to one target and then the other,
 * and one-sided operations. Both also over queue pairs of DC.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/rma.h>

#include "base/list.h"
#include "dc/dc.h"
#include "dc/session.h"
#include "faulty.h"
#include "nth.h"
#include "../dc_post.h"

#define TARGETS	2
#define SENT	6u
#define LEN	20000u		/* by rendezvous or in pieces */
#define SMALL	8u

static struct {
	struct rdmamsg_dc_target *target;	/* NULL: none, or freed */
	unsigned int messages;
} halls[TARGETS];

static struct rdmamsg_dc_sender *sender;	/* NULL: none, or freed */
static unsigned int accepted, completed, lost, failed;
static uint32_t path;

static void on_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		       uint64_t id)
{
	const size_t len = rdmamsg_msg_len(msg);

	if ((len != LEN && len != SMALL) ||
	    memcmp(rdmamsg_msg_data(msg), pattern, len))
		fail("a message to a target is another one");
	halls[(uintptr_t)rdmamsg_dc_target_user(t)].messages++;
	rdmamsg_msg_free(msg);
}

static void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	halls[(uintptr_t)rdmamsg_dc_target_user(t)].target = NULL;
}

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int status)
{
	completed++;
	lost += status != 0;
	reported += status != 0;
}

static void on_failed(struct rdmamsg_dc_sender *s,
		      struct rdmamsg_dc_address *a,
		      const struct rdmamsg_reason *why)
{
	failed++;
	reported++;
}

static void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	sender = NULL;
}

static bool all_complete(void)
{
	return completed == accepted;
}

/* Messages that were lost may have arrived, too. */
static bool all_arrived(void)
{
	return halls[0].messages + halls[1].messages + lost >= accepted;
}

static bool all_ended(void)
{
	return !sender && !halls[0].target && !halls[1].target;
}

static int open_target(int i, char port[static 8])
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .user = (void *)(uintptr_t)i,
		.on_message = on_message, .on_destroyed = on_target_destroyed,
		.path = path,
	};
	int ret = told(rdmamsg_dc_target_create(ctxs[SERVER], address, "0",
						&opts, &halls[i].target));

	if (ret)
		halls[i].target = NULL;
	else
		snprintf(port, 8, "%u",
			 rdmamsg_dc_target_port(halls[i].target));
	return ret;
}

/* Asks devices about queue pairs, whatever state they are in. */
static void query_all(struct rdmamsg_dc_address *const a[static TARGETS])
{
	for (int i = 0; i < TARGETS; i++) {
		struct rdmamsg_dc_target_attr t = { .size = sizeof(t) };
		struct rdmamsg_dc_address_attr x = { .size = sizeof(x) };
		struct rdmamsg_masked_attr m = { .size = sizeof(m) };

		(void)told(rdmamsg_dc_target_query(halls[i].target, &t));
		if (!told(rdmamsg_dc_address_query(a[i], &x)) &&
		    x.state == RDMAMSG_DC_OPEN)
			(void)told(rdmamsg_dc_address_masked_query(a[i], &m));
	}
}

/* Over DC, these are in doubt until the targets have answered. */
static void send_small(struct rdmamsg_dc_address *const a[static TARGETS])
{
	struct list *n;

	list_for_each(n, &sender->sessions)
		list_entry(n, struct dc_session, node)->lease.until = 1;
	for (unsigned int i = 0; i < TARGETS; i++)
		if (!told(rdmamsg_dc_send(a[i], pattern, SMALL, i, &halls[i])))
			accepted++;
	if (!drive(all_complete, BODY_MS) && !failure[0])
		fail("%u messages have not completed", accepted - completed);
}

/* One initiator serves two targets in turn. */
static void send_all(char port[][8])
{
	const struct iovec iov = { pattern, LEN };
	struct rdmamsg_dc_address *a[TARGETS];

	for (int i = 0; i < TARGETS; i++)
		if (told(rdmamsg_dc_address_create(sender, address, port[i], 0,
						   NULL, &a[i])))
			return;
	for (unsigned int i = 0; i < SENT; i++)
		if (!told(dc_sendv(a[i % TARGETS], &iov, 1, i, &a[0])))
			accepted++;
	query_all(a);
	if (drive(all_complete, SHORTAGE_MS) || failure[0]) {
		query_all(a);
		send_small(a);
		return;
	}
	/* a receiver without memory for a large message waits for some */
	if (faulty_disarm())
		reported++;
	if (!drive(all_complete, BODY_MS) && !failure[0])
		fail("%u messages have not completed", accepted - completed);
}

static void do_dc(void)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .on_complete = on_complete,
		.on_failed = on_failed, .on_destroyed = on_sender_destroyed,
		.path = path,
		.initiators = 1,
	};
	char port[TARGETS][8];
	int ret = 0;

	memset(halls, 0, sizeof(halls));
	accepted = completed = lost = failed = 0;
	for (int i = 0; i < TARGETS && !ret; i++)
		ret = open_target(i, port[i]);
	if (!ret && told(rdmamsg_dc_sender_create(ctxs[CLIENT], &opts,
						  &sender)))
		sender = NULL;
	if (sender)
		send_all(port);
	/*
	 * The target's device has what is complete; its program may come to it
	 * later. What is in the target's memory ends with a connection that
	 * fails.
	 */
	if ((!failed && !drive(all_arrived, BODY_MS)) ||
	    halls[0].messages + halls[1].messages > accepted)
		fail("%u and %u messages of %u have arrived, %u were lost",
		     halls[0].messages, halls[1].messages, accepted, lost);
	rdmamsg_dc_sender_destroy(sender);
	for (int i = 0; i < TARGETS; i++)
		rdmamsg_dc_target_destroy(halls[i].target);
	if (!drive(all_ended, BODY_MS) && !failure[0])
		fail("a target or sender has not ended");
}

#define PART	512u

/* Writes a copy of a part, and reads it back into a region. */
static void write_and_read(struct rdmamsg_dc_address *a,
			   const struct rdmamsg_key *key,
			   struct rdmamsg_region *into, uint8_t *back)
{
	const struct rdmamsg_sge out = { pattern, PART, NULL };
	const struct rdmamsg_sge in = { back, PART, into };

	if (!told(dc_write(a, &out, 1, key, 64, 0, a)))
		accepted++;
	if (accepted && !told(dc_read(a, &in, 1, key, 64, 0, a)))
		accepted++;
	if (!drive(all_complete, BODY_MS) && !failure[0])
		fail("%u operations have not completed", accepted - completed);
	if (accepted == 2 && !lost && memcmp(back, pattern, PART))
		fail("the bytes read are not those written");
}

/* An addition, which is tries of compare-and-swap on some paths. */
static void add_field(struct rdmamsg_dc_address *a,
		      const struct rdmamsg_key *key, const uint64_t *word)
{
	const uint64_t five = 5;
	static uint64_t was;

	if (!told(dc_add_fields(a, key, 0, sizeof(five), &five, NULL, &was, 0,
				a)))
		accepted++;
	if (!drive(all_complete, BODY_MS) && !failure[0])
		fail("%u operations have not completed", accepted - completed);
	if (accepted == 3 && !lost && *word != 5)
		fail("an addition is not done");
	if (*word && *word != 5)
		fail("an addition is done twice");
}

static void do_dc_onesided(void)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .on_complete = on_complete,
		.on_failed = on_failed, .on_destroyed = on_sender_destroyed,
		.path = path,
	};
	static uint8_t there[2 * PART] __attribute__((aligned(8))), back[PART];
	struct rdmamsg_region *far, *near;
	struct rdmamsg_dc_address *a;
	struct rdmamsg_key key;
	char port[8];

	memset(halls, 0, sizeof(halls));
	memset(there, 0, sizeof(there));
	memset(back, 0, sizeof(back));
	accepted = completed = lost = failed = 0;
	sender = NULL;
	if (!open_target(0, port) &&
	    !told(rdmamsg_region_create(ctxs[SERVER], there, sizeof(there),
					RDMAMSG_ACCESS_READ |
					RDMAMSG_ACCESS_WRITE |
					RDMAMSG_ACCESS_ATOMIC, &far)) &&
	    !told(rdmamsg_dc_target_get_key(halls[0].target, far, &key)) &&
	    !told(rdmamsg_region_create(ctxs[CLIENT], back, sizeof(back),
					RDMAMSG_ACCESS_LOCAL_WRITE, &near)) &&
	    told(rdmamsg_dc_sender_create(ctxs[CLIENT], &opts, &sender)))
		sender = NULL;
	if (sender && !told(rdmamsg_dc_address_create(sender, address, port, 0,
						      NULL, &a))) {
		write_and_read(a, &key, near, back);
		add_field(a, &key, (const uint64_t *)(const void *)there);
	}
	rdmamsg_dc_sender_destroy(sender);
	rdmamsg_dc_target_destroy(halls[0].target);
	if (!drive(all_ended, BODY_MS) && !failure[0])
		fail("a target or sender has not ended");
}

static void do_dc_native(void)
{
	path = RDMAMSG_DC_NATIVE;
	do_dc();
	path = RDMAMSG_DC_AUTO;
}

static void do_dc_native_onesided(void)
{
	path = RDMAMSG_DC_NATIVE;
	do_dc_onesided();
	path = RDMAMSG_DC_AUTO;
}

const struct scenario dc_scenarios[] = {
	{ "dc", OPEN, do_dc },
	{ "dc-onesided", OPEN, do_dc_onesided },
	{ "dc-native", OPEN, do_dc_native, .native = true },
	{ "dc-native-onesided", OPEN, do_dc_native_onesided, .native = true,
	  .calls = " post_send poll_cq wc_send create_qp mlx5_create_qp "
		   "modify_qp reg_mr malloc calloc realloc mmap " },
	{ NULL },
};
