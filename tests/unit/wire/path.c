/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the alternate path on the wire, alone and as item of SETUP. */
#include "wire.h"

DEFINE_REFUSED(path)

static const struct proto_path a_path = {
	.migrations = 0x1020304, .offer = 0x5060708, .seen = 0x90a0b0c,
	.state = PROTO_PATH_ARMED, .flags = PROTO_PATH_SAME, .port = 2,
	.lid = 0xbffe,
	.gid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
};

static const uint8_t a_path_wire[PROTO_PATH_LEN] = {
	4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 2, 1, 2, 0,
	0xfe, 0xbf, 0, 0,
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};

enum { AT_OFFER = 4, AT_SEEN = 8, AT_STATE = 12, AT_FLAGS, AT_PORT, AT_ZERO,
       AT_LID };

static void assert_path_equal(const struct proto_path *a,
			      const struct proto_path *b)
{
	assert_int_equal(a->migrations, b->migrations);
	assert_int_equal(a->offer, b->offer);
	assert_int_equal(a->seen, b->seen);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->port, b->port);
	assert_int_equal(a->lid, b->lid);
	assert_memory_equal(a->gid, b->gid, sizeof(a->gid));
}

static void path_accepted(const uint8_t *bytes, size_t len,
			  const struct proto_path *want)
{
	struct input in = input_new(bytes, len);
	struct proto_path got;

	assert_int_equal(rdmamsg__path_decode(&got, in.bytes, len), 0);
	assert_path_equal(&got, want);
	free(in.mem);
}

static void path_encode__any_LAYOUT(void **state)
{
	uint8_t out[PROTO_PATH_LEN];

	rdmamsg__path_encode(&a_path, out);
	assert_memory_equal(out, a_path_wire, sizeof(out));
	path_accepted(out, sizeof(out), &a_path);
}

static void path_decode__shorter_EPROTO(void **state)
{
	for (size_t len = 0; len < PROTO_PATH_LEN; len++)
		path_refused(a_path_wire, len);
}

static void path_decode__unknown_parts_SKIPPED(void **state)
{
	uint8_t b[PROTO_PATH_LEN + 5];

	memset(b, 0xff, sizeof(b));
	memcpy(b, a_path_wire, PROTO_PATH_LEN);
	b[AT_FLAGS] = 0xff;
	b[AT_ZERO] = 0xff;
	b[AT_LID + 2] = b[AT_LID + 3] = 0xff;
	path_accepted(b, sizeof(b), &a_path);
}

static void refuse_with(size_t at, uint32_t value, size_t len)
{
	uint8_t b[PROTO_PATH_LEN];

	memcpy(b, a_path_wire, sizeof(b));
	value = htole32(value);
	memcpy(b + at, &value, len);
	path_refused(b, sizeof(b));
}

static void path_decode__senseless_EPROTO(void **state)
{
	refuse_with(AT_OFFER, 0, 4);
	/* loaded for no offer of the other side, and without a port */
	refuse_with(AT_SEEN, 0, 4);
	refuse_with(AT_PORT, 0, 1);
	for (uint32_t i = PROTO_PATH_STATES; i < 256; i++)
		refuse_with(AT_STATE, i, 1);
	/* no LID, and the LIDs of groups */
	refuse_with(AT_LID, 0, 2);
	refuse_with(AT_LID, 0xc000, 2);
	refuse_with(AT_LID, 0xffff, 2);
}

static void path_decode__no_port_OK(void **state)
{
	struct proto_path none = { .offer = 1 };
	uint8_t out[PROTO_PATH_LEN];

	rdmamsg__path_encode(&none, out);
	path_accepted(out, sizeof(out), &none);
	out[AT_LID] = 1;
	path_refused(out, sizeof(out));
}

/* ---- in SETUP --------------------------------------------------------- */

static const struct proto_setup a_setup = {
	.recv_size = PROTO_RECV_MIN, .recv_depth = 1, .max_msg = 1,
};

static void setup__with_a_path_SAME(void **state)
{
	static const uint8_t head[] = {
		PROTO_SETUP_PATH, 0, PROTO_PATH_LEN, 0,
	};
	struct proto_setup s = a_setup, got;
	uint8_t out[PROTO_SETUP_MAX];
	size_t without = rdmamsg__setup_encode(&s, out), len;

	s.path = a_path;
	len = rdmamsg__setup_encode(&s, out);
	assert_int_equal(len, without + sizeof(head) + PROTO_PATH_LEN);
	assert_memory_equal(out + without, head, sizeof(head));
	assert_memory_equal(out + without + sizeof(head), a_path_wire,
			    PROTO_PATH_LEN);
	assert_int_equal(rdmamsg__setup_decode(&got, out, len), 0);
	assert_path_equal(&got.path, &a_path);
	assert_int_equal(rdmamsg__setup_decode(&got, out, without), 0);
	assert_int_equal(got.path.offer, 0);
}

static void setup__with_a_broken_path_EPROTO(void **state)
{
	struct proto_setup s = a_setup, got;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	s.path = a_path;
	len = rdmamsg__setup_encode(&s, out);
	out[len - PROTO_PATH_LEN + AT_STATE] = 0xff;
	assert_int_equal(rdmamsg__setup_decode(&got, out, len), -EPROTO);
}

/* ---- random ----------------------------------------------------------- */

/* The encoder returns no length, because each path has the same. */
static size_t encode(const struct proto_path *p, uint8_t *out)
{
	rdmamsg__path_encode(p, out);
	return PROTO_PATH_LEN;
}
#define rdmamsg__path_encode(p, out) encode(p, out)
DEFINE_DAMAGED(path, PROTO_PATH_LEN)
#undef rdmamsg__path_encode

static void path__random_SAME(void **state)
{
	uint8_t out[PROTO_PATH_LEN];

	for (int i = 0; i < ROUNDS; i++) {
		struct proto_path p = {
			.migrations = rnd_edgy(0, UINT32_MAX),
			.offer = rnd_edgy(1, UINT32_MAX),
			.seen = rnd_edgy(1, UINT32_MAX),
			.state = rnd() % PROTO_PATH_STATES,
			.flags = rnd() % 2, .port = rnd_edgy(1, UINT8_MAX),
			.lid = rnd_edgy(1, PROTO_LID_MAX),
		};

		rnd_bytes(p.gid, sizeof(p.gid));
		rdmamsg__path_encode(&p, out);
		path_accepted(out, sizeof(out), &p);
		path_damaged(out, sizeof(out));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_encode__any_LAYOUT),
		cmocka_unit_test(path_decode__shorter_EPROTO),
		cmocka_unit_test(path_decode__unknown_parts_SKIPPED),
		cmocka_unit_test(path_decode__senseless_EPROTO),
		cmocka_unit_test(path_decode__no_port_OK),
		cmocka_unit_test(setup__with_a_path_SAME),
		cmocka_unit_test(setup__with_a_broken_path_EPROTO),
		cmocka_unit_test_setup(path__random_SAME, seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
