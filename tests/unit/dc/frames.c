/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: frames that break the protocol of DC end the session that sends
 * them and nothing else. Packets with another key are counted and told, and a
 * removed device ends what uses it.
 */
#include "config.h"

#include "../../dc_post.h"
#include "../own_fabric.h"
#include "pair.h"
#include "stranger.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/session.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "soft/control/soft_ctl.h"
#include "wire/dc.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

/* ---- tests ------------------------------------------------------------- */

static void frame__numbered_wrongly_ENDS_ITS_SESSION(void **state)
{
	/* a number that is not the next, and one without a credit */
	for (unsigned int i = 0; i < 2; i++) {
		open_both();
		say_here(DCF_DATA, 0, "y", 1);
		WAIT_FOR(messages == 2 + 2 * i);
		say_here(DCF_DATA, i ? 0 : 2, "y", 1);
		WAIT_FOR(byes == 1 && target->sessions == 1);
		assert_int_equal(got.tag, 1);
		assert_int_equal(messages, 2 + 2 * i);
		/* its handle is nobody's now */
		say_here(DCF_DATA, 1, "y", 1);
		close_both();
	}
}

static void frame__beyond_the_credits_ENDS_ITS_SESSION(void **state)
{
	static uint8_t memory[100000];
	struct ibv_mr *mr;
	struct proto_rndv wire = { .total = sizeof(memory), .count = 1 };
	uint8_t body[PROTO_RNDV_MAX];
	size_t len;

	open_both();
	assert_int_equal(got.number, CREDITS);
	assert_int_equal(rdmamsg__v_reg_mr(port->dev->device->v, port->dev->pd,
					   memory, sizeof(memory),
					   IBV_ACCESS_REMOTE_READ, &mr), 0);
	wire.keys[0] = (struct proto_key){
		.access = PROTO_KEY_READ, .rkey = mr->rkey,
		.addr = (uintptr_t)memory, .len = sizeof(memory),
	};
	len = rdmamsg__rndv_encode(&wire, body);
	/* a large message keeps its credit until it has arrived */
	sent = 0;
	for (uint32_t n = 0; n <= CREDITS; n++)
		post(frame_here(DCF_RNDV, n), body, len);
	WAIT_FOR(sent == CREDITS + 1 && byes == 1 && target->sessions == 1);
	assert_int_equal(rdmamsg__v_dereg_mr(port->dev->device->v, mr), 0);
	close_both();
}

static void rndv__key_of_nobody_ENDS_ITS_SESSION(void **state)
{
	struct proto_rndv wire = {
		.total = 100000, .count = 1,
		.keys = { { .access = PROTO_KEY_READ, .rkey = 0xdeadbe,
			    .addr = 0x10000, .len = 100000 } },
	};
	uint8_t body[PROTO_RNDV_MAX];
	size_t len;

	open_both();
	len = rdmamsg__rndv_encode(&wire, body);
	say_here(DCF_RNDV, 0, body, len);
	say_here(DCF_DATA, 1, "behind", 6);
	WAIT_FOR(target->sessions == 1);
	assert_int_equal(messages, 1);
	close_both();
}

static void rndv__too_large_OR_BROKEN_ENDS_ITS_SESSION(void **state)
{
	struct proto_rndv wire = {
		.total = PROTO_MSG_MAX, .count = 1,
		.keys = { { .access = PROTO_KEY_READ, .rkey = 1,
			    .addr = 0x10000, .len = PROTO_MSG_MAX } },
	};
	uint8_t body[PROTO_RNDV_MAX];
	size_t len;

	for (int i = 0; i < 2; i++) {
		open_both();
		len = rdmamsg__rndv_encode(&wire, body);
		say_here(DCF_RNDV, 0, body, i ? len : len - 1);
		WAIT_FOR(byes == 1 && target->sessions == 1);
		close_both();
	}
}

static void frame__random_bytes_IGNORED(void **state)
{
	uint8_t junk[256];

	open_both();
	for (unsigned int i = 0; i < 300; i++) {
		struct dc_frame f;

		(void)!getrandom(junk, sizeof(junk), 0);
		f = (struct dc_frame){
			.type = (uint8_t)(junk[0] % (DCF_TYPE_MAX + 3)),
			.token = junk[1], .handle = junk[2] % 8,
			.number = junk[3], .tag = junk[4],
		};
		say(f, junk, junk[5] % 128);
	}
	assert_int_equal(lost, 0);
	/* a HELLO of these has no port, so it is no session */
	WAIT_FOR(target->sessions <= 2);
	close_both();
}

static void sender__forged_frames_NO_EFFECT(void **state)
{
	struct dc_session *x = list_first(&sender->sessions, struct dc_session,
					  node);
	struct dc_place place;

	rdmamsg__port_place(x->peer.port, &place);
	open_stranger(&place, x->peer.port->key);
	for (unsigned int type = 0; type < DCF_TYPE_MAX + 2; type++)
		for (uint32_t handle = 0; handle < 4; handle++)
			say((struct dc_frame){
				.type = (uint8_t)type, .handle = handle,
				.token = x->peer.token + 1,
				.number = 1000,
			}, "1234567890123456", 16);
	/* with the right handle: credits beyond reason, an unknown DONE */
	say((struct dc_frame){
		.type = DCF_CREDIT, .handle = x->peer.handle,
		.token = x->peer.token, .number = 0x7fffffff,
	}, NULL, 0);
	say((struct dc_frame){
		.type = DCF_DONE, .handle = x->peer.handle,
		.token = x->peer.token, .number = 1,
	}, NULL, 0);
	assert_true(x->credit - x->number <= DCF_CREDITS_MAX);
	close_both();
}

/*
 * A stranger has the access key, and knows the handle of another's session,
 * which are small numbers. Of the token it knows all bits but one.
 */
static void session__of_another_CANNOT_BE_GUESSED(void **state)
{
	const struct dc_session *x = list_first(&sender->sessions,
						struct dc_session, node);
	const unsigned int before = messages;
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	for (unsigned int bit = 0; bit < 64; bit++) {
		struct dc_frame f = {
			.type = DCF_DATA, .handle = x->far_handle,
			.token = x->far_token ^ 1ull << bit,
			.number = x->number,
		};

		say(f, "forged", 6);
		f.type = DCF_BYE;
		say(f, NULL, 0);
	}
	assert_int_equal(lost, 0);
	send_one();
	assert_int_equal(messages, before + 1);
	assert_int_equal(target->sessions, 1);
	/* all bits: this test would notice */
	say((struct dc_frame){
		.type = DCF_DATA, .handle = x->far_handle,
		.token = x->far_token, .number = x->number,
	}, "forged", 6);
	WAIT_FOR(messages == before + 2);
	close_stranger();
}

static struct rdmamsg_reason refusal;
static char refused_with[64];

static void on_refused(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	refusal = *why;
	memcpy(refused_with, why->data, min(why->data_len, 63));
}

/* A sender of the library before asks, whose frames have version 1. */
static void sender__with_older_frames_REFUSED(void **state)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_closed = on_refused,
	};
	const struct dc_hello h = {
		.access_key = KEY, .sender = 5, .asks = true,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.hello_data_len = DC_HELLO_LEN,
	};
	uint8_t hello[DC_HELLO_LEN];

	rdmamsg__dc_hello_encode(&h, hello);
	hello[4] = '1';
	opts.hello_data = hello;
	refusal.cause = 0;
	assert_int_equal(rdmamsg_connect(near, "127.0.0.1", service, &opts,
					 NULL), 0);
	WAIT_FOR(refusal.cause);
	assert_int_equal(refusal.cause, RDMAMSG_CAUSE_REJECTED);
	assert_string_equal(refused_with, "DC frames: version 2, not 1");
	assert_int_equal(target->sessions + target->connections, 1);
}

static void access_key__of_a_packet_COUNTED_AND_TOLD(void **state)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY + 1);
	for (unsigned int i = 1; i <= 3; i++) {
		if (i == 2)
			assert_int_equal(rdmamsg_dc_target_arm(target), 0);
		say((struct dc_frame){ .type = DCF_BYE }, NULL, 0);
		assert_int_equal(lost, i);
		WAIT_FOR(violations == (i > 1));
		assert_int_equal(rdmamsg_dc_target_query(target, &a), 0);
		assert_int_equal(a.key_violations, i);
		assert_int_equal(a.armed, 0);
	}
	close_both();
}

static void device__removed_ENDS_ALL(void **state)
{
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(own_fabric, &ctl), 0);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	WAIT_FOR(!target->sessions && !target->dc && !sender->session_count);
	assert_int_equal(failed, 1);
	assert_true(list_empty(&sender->ports));
	soft_ctl_close(ctl);
}

static void deliver(struct rdmamsg_dc_address *a)
{
	const unsigned int before = completed;

	assert_int_equal(rdmamsg_dc_send(a, "x", 1, 0, &status), 0);
	WAIT_FOR(completed == before + 1);
	assert_int_equal(status, 0);
}

/* With one initiator, a session and a connection take turns. */
static void session__connection_is_idle_TAKES_ITS_PLACE(void **state)
{
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = KEY, .on_message = on_message,
		.path = RDMAMSG_DC_CONNECTIONS,
		.on_destroyed = on_target_destroyed,
	};
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_complete = on_complete,
		.on_failed = on_failed, .path = RDMAMSG_DC_NATIVE,
		.on_destroyed = on_sender_destroyed, .initiators = 1,
	};
	struct rdmamsg_dc_address *native, *other;
	struct rdmamsg_dc_target *plain;
	struct rdmamsg_dc_sender *s;
	char at[8];

	assert_int_equal(rdmamsg_dc_target_create(far, "127.0.0.1", "0", &to,
						  &plain), 0);
	(void)snprintf(at, sizeof(at), "%u", rdmamsg_dc_target_port(plain));
	assert_int_equal(rdmamsg_dc_sender_create(near, &so, &s), 0);
	assert_int_equal(rdmamsg_dc_address_create(s, "127.0.0.1", service, KEY,
						   NULL, &native), 0);
	assert_int_equal(rdmamsg_dc_address_create(s, "127.0.0.1", at, KEY,
						   NULL, &other), 0);
	for (int i = 0; i < 3; i++) {
		deliver(native);
		deliver(other);
	}
	assert_int_equal(s->session_count, 1);
	assert_int_equal(failed, 0);
	rdmamsg_dc_sender_destroy(s);
	WAIT_FOR(gone == 1);
	rdmamsg_dc_target_destroy(plain);
	WAIT_FOR(gone == 2);
	gone = 0;
}

static struct ibv_mr *no_mr(struct ibv_pd *pd, void *addr, size_t len,
			    uint64_t iova, int access)
{
	errno = EAGAIN;
	return NULL;
}

/* A message that cannot be registered is refused, and is nobody's then. */
static void registration__fails_for_now_REFUSED(void **state)
{
	static uint8_t memory[100000];
	const struct iovec iov = { memory, sizeof(memory) };
	struct rdmamsg_device *d = address->session->peer.port->dev->device;
	const struct verbs_api *v = d->v;
	struct verbs_api fails = *v;

	fails.reg_mr_iova = no_mr;
	d->v = &fails;
	assert_int_equal(dc_sendv(address, &iov, 1, 0, &status),
			 -ENOMEM);
	d->v = v;
	send_one();
	assert_int_equal(completed, 2);
}

/* The request finds its device by address, and so does the session. */
static void device__not_named_FOUND(void **state)
{
	/* else another device may be found */
	if (!access("/sys/class/infiniband_verbs", F_OK))
		skip();
	(void)unsetenv("RDMAMSG_DEVICE");
	start(state);
	assert_int_equal(sender->session_count, 1);
	finish(state);
}

int main(void)
{
#ifndef HAVE_MLX5DV
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
#endif
#define WITH_BOTH(fn)	\
	cmocka_unit_test_setup_teardown(fn, start, finish_passing)
	const struct CMUnitTest tests[] = {
		WITH_BOTH(frame__numbered_wrongly_ENDS_ITS_SESSION),
		WITH_BOTH(frame__beyond_the_credits_ENDS_ITS_SESSION),
		WITH_BOTH(rndv__key_of_nobody_ENDS_ITS_SESSION),
		WITH_BOTH(rndv__too_large_OR_BROKEN_ENDS_ITS_SESSION),
		WITH_BOTH(frame__random_bytes_IGNORED),
		WITH_BOTH(sender__forged_frames_NO_EFFECT),
		WITH_BOTH(session__of_another_CANNOT_BE_GUESSED),
		WITH_BOTH(sender__with_older_frames_REFUSED),
		WITH_BOTH(access_key__of_a_packet_COUNTED_AND_TOLD),
		WITH_BOTH(device__removed_ENDS_ALL),
		WITH_BOTH(session__connection_is_idle_TAKES_ITS_PLACE),
		WITH_BOTH(registration__fails_for_now_REFUSED),
		cmocka_unit_test(device__not_named_FOUND),
	};

	join_own_fabric("frames");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
