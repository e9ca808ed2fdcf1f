/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: rdmamsg_post() does what the short form of its kind does, and
 * refuses every field that the kind does not use, by its name.
 */
#include "device/verbs_api.h"
#include "../own_fabric.h"
#include "../two_ends.h"
#include "../../op_fields.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define ROOM		4096u

static uint64_t here[ROOM / 8], there[ROOM / 8];
static struct rdmamsg_region *to, *from;
static struct rdmamsg_key key;
static char last[64];			/* message of the client */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	(void)snprintf(last, sizeof(last), "%.*s %u",
		       (int)rdmamsg_msg_len(msg),
		       (const char *)rdmamsg_msg_data(msg),
		       rdmamsg_msg_tag(msg));
	rdmamsg_msg_free(msg);
}

static int set_up(void **state)
{
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	memset(here, 0, sizeof(here));
	memset(there, 0, sizeof(there));
	connect_anew(on_message, (struct rdmamsg_ep_options){ 0 });
	share_memory(there, here, ROOM, RDMAMSG_ACCESS_READ |
		     RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_ATOMIC, &key, &to,
		     &from);
	return 0;
}

static void post(struct rdmamsg_op op)
{
	const unsigned int sent = client.sent;

	op.size = sizeof(op);
	op.cookie = &client;
	assert_int_equal(rdmamsg_post(client.ep, &op), 0);
	WAIT_FOR(client.sent > sent);
	assert_int_equal(client.status, 0);
}

/* ---- what the kinds do -------------------------------------------------- */

static void send__of_entries_ARRIVES(void **state)
{
	char second[] = "two";
	struct rdmamsg_sge s[] = {
		{ here, 4, NULL }, { second, 3, NULL },
	};

	assert_int_equal(rdmamsg_region_create(client.ctx, here, sizeof(here),
					       RDMAMSG_ACCESS_READ,
					       &s[0].region), 0);
	assert_int_equal(rdmamsg_region_register(s[0].region, client.ep), 0);
	memcpy(here, "one ", 4);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_SEND, .sge = s, .count = 2, .tag = 7,
	});
	WAIT_FOR(server.messages == 1);
	assert_string_equal(last, "one two 7");
	post((struct rdmamsg_op){ .kind = RDMAMSG_OP_SEND });
	WAIT_FOR(server.messages == 2);
	assert_string_equal(last, " 0");
}

static void write__and_read_MOVE_BYTES(void **state)
{
	const struct rdmamsg_sge s = { here, 16, from };

	memset(here, 0xab, 16);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_WRITE, .sge = &s, .count = 1,
		.key = &key, .offset = 8,
	});
	post((struct rdmamsg_op){ .kind = RDMAMSG_OP_FLUSH });
	assert_memory_equal(&there[1], here, 16);
	assert_int_equal(there[0], 0);
	memset(here, 0, 16);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_READ, .flags = RDMAMSG_FENCE, .sge = &s,
		.count = 1, .key = &key, .offset = 8,
	});
	assert_memory_equal(&there[1], here, 16);
}

static void atomics__of_8_bytes_CHANGE_THE_NUMBER(void **state)
{
	uint64_t was = 1, add = 5, expected = 5, desired = 9;

	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_FETCH_ADD, .key = &key, .offset = 24,
		.operand = &add, .result = &was,
	});
	assert_int_equal(was, 0);
	assert_int_equal(there[3], 5);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_COMPARE_SWAP, .key = &key, .offset = 24,
		.operand = &desired, .compare = &expected, .result = &was,
	});
	assert_int_equal(was, 5);
	assert_int_equal(there[3], 9);
}

static void atomics__with_masks_CHANGE_THE_BITS(void **state)
{
	uint32_t was = 1, add = 0x01ff, tops = 0x8080, set = 0x30, any = 0;

	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_FETCH_ADD, .key = &key, .offset = 4,
		.width = 4, .operand = &add, .mask = &tops, .result = &was,
	});
	assert_int_equal(was, 0);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_FETCH_ADD, .key = &key, .offset = 4,
		.width = 4, .operand = &add, .mask = &tops, .result = &was,
	});
	assert_int_equal(was, 0x01ff);
	assert_int_equal(there[0] >> 32, 0x02fe);
	post((struct rdmamsg_op){
		.kind = RDMAMSG_OP_COMPARE_SWAP, .key = &key, .offset = 4,
		.width = 4, .operand = &set, .compare = &any,
		.compare_mask = &any, .mask = &set, .result = &was,
	});
	assert_int_equal(was, 0x02fe);
	assert_int_equal(there[0] >> 32, 0x02fe | 0x30);
}

/* ---- what they refuse --------------------------------------------------- */

/* by kind, with what else is set: the fields that it does not use */
static const struct {
	struct rdmamsg_op op;
	const char *unused;
} cases[] = {
	{ { .kind = RDMAMSG_OP_SEND }, " flags imm width offset len operand "
	  "compare mask compare_mask result " },
	{ { .kind = RDMAMSG_OP_WRITE, .key = &key }, " tag imm width layout "
	  "len operand compare mask compare_mask result " },
	{ { .kind = RDMAMSG_OP_READ, .key = &key }, " tag imm width layout "
	  "len operand compare mask compare_mask result " },
	{ { .kind = RDMAMSG_OP_FETCH_ADD, .key = &key }, " sge count tag imm "
	  "layout len compare mask compare_mask " },
	{ { .kind = RDMAMSG_OP_FETCH_ADD, .key = &key, .width = 8 },
	  " sge count tag imm layout len compare compare_mask " },
	{ { .kind = RDMAMSG_OP_COMPARE_SWAP, .key = &key }, " sge count tag "
	  "imm layout len mask compare_mask " },
	{ { .kind = RDMAMSG_OP_FLUSH }, " flags sge count tag imm width key "
	  "offset layout len operand compare mask compare_mask result " },
};

static int post_it(void *ep, const struct rdmamsg_op *op)
{
	return rdmamsg_post(ep, op);
}

static void field__that_is_not_used_IS_NAMED(void **state)
{
	for (size_t i = 0; i < COUNT(cases); i++)
		op_fields_refused(post_it, client.ep, cases[i].op,
				  cases[i].unused);
	assert_int_equal(client.sent, 0);
}

static void refused(struct rdmamsg_op op, const char *text)
{
	if (!op.size)
		op.size = sizeof(op);
	if (rdmamsg_post(client.ep, &op) != -EINVAL ||
	    !strstr(rdmamsg_error(), text))
		fail_msg("%s: %s", text, rdmamsg_error());
}

static void arguments__that_are_wrong_ARE_TOLD(void **state)
{
	const struct rdmamsg_sge s[17] = { { NULL, 0, NULL } };
	struct rdmamsg_op op = { .size = sizeof(op), .kind = RDMAMSG_OP_SEND };

	refused((struct rdmamsg_op){ .kind = 0 }, "no kind 0");
	refused((struct rdmamsg_op){ .kind = 7 }, "no kind 7");
	refused((struct rdmamsg_op){ .kind = UINT32_MAX }, "no kind");
	refused((struct rdmamsg_op){ .size = 3, .kind = RDMAMSG_OP_SEND },
		"size is 3");
	refused((struct rdmamsg_op){
		.kind = RDMAMSG_OP_SEND, .sge = s, .count = 17,
	}, "17 gather entries");
	refused((struct rdmamsg_op){ .kind = RDMAMSG_OP_SEND, .count = 1 },
		"sge is NULL");
	refused((struct rdmamsg_op){ .kind = RDMAMSG_OP_WRITE }, "key");
	refused((struct rdmamsg_op){
		.kind = RDMAMSG_OP_FETCH_ADD, .key = &key,
	}, "operand is NULL");
	refused((struct rdmamsg_op){
		.kind = RDMAMSG_OP_COMPARE_SWAP, .key = &key, .operand = here,
	}, "compare is NULL");
	refused((struct rdmamsg_op){
		.kind = RDMAMSG_OP_FETCH_ADD, .key = &key, .width = 5,
		.operand = here,
	}, "4, 8, 16 or 32");
	assert_int_equal(rdmamsg_post(NULL, &op), -EINVAL);
	assert_int_equal(rdmamsg_post(client.ep, NULL), -EINVAL);
	rdmamsg_ep_close(client.ep);
	assert_int_equal(rdmamsg_post(client.ep, &op), -ESHUTDOWN);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, leave_soft)
	const struct CMUnitTest tests[] = {
		CASE(send__of_entries_ARRIVES),
		CASE(write__and_read_MOVE_BYTES),
		CASE(atomics__of_8_bytes_CHANGE_THE_NUMBER),
		CASE(atomics__with_masks_CHANGE_THE_BITS),
		CASE(field__that_is_not_used_IS_NAMED),
		CASE(arguments__that_are_wrong_ARE_TOLD),
	};

	join_own_fabric("post");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
