/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: what they do, in which order, and what refuses them. */
#include "common.h"

#include <endian.h>

#define ROOM		((size_t)6 << 20)	/* more than one request takes */

static struct pair p;
static uint8_t *far, *near;		/* the server's memory, the client's */
static struct rdmamsg_region *far_region, *near_region;
static struct rdmamsg_key key;
static uint32_t values[1024];		/* that on_written has told the server */
static size_t value_count;

#define ACCESS_ALL	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_ATOMIC)

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	if (rdmamsg_ep_user(ep) != &p.s)
		note("on_written at the wrong end");
	if (value_count < ARRAY_SIZE(values))
		values[value_count] = value;
	value_count++;
}

/* As if it came in a message. */
static void export_key(uint32_t access)
{
	struct rdmamsg_key theirs;

	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, access,
					       &far_region), 0);
	assert_int_equal(rdmamsg_region_export(far_region, p.s.ep, &theirs), 0);
	assert_int_equal(rdmamsg_key_import(&theirs, sizeof(theirs), &key), 0);
}

static void rma_open(const struct rdmamsg_options *opts)
{
	pair_init(&p, opts);
	p.s.on.on_written = on_written;
	value_count = 0;
	far = calloc(1, ROOM);
	near = calloc(1, ROOM);
}

static void rma_start(void)
{
	pair_listen(&p);
	pair_connect(&p);
	export_key(ACCESS_ALL);
	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, ROOM,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_attach(near_region, p.c.ep), 0);
}

static void rma_fini(void)
{
	assert_int_equal(rdmamsg_region_destroy(far_region), 0);
	assert_int_equal(rdmamsg_region_destroy(near_region), 0);
	pair_fini(&p);
	free(far);
	free(near);
}

static void rma_pair(void)
{
	rma_open(NULL);
	rma_start();
}

static void rma_end(void)
{
	pair_close(&p);
	rma_fini();
}

/* Cuts [0, len) of the client's memory into slices, the last takes the rest. */
static int cut(struct rdmamsg_slice *s, int count, size_t len, bool region)
{
	size_t at = 0;

	for (int i = 0; i < count; i++) {
		size_t n = i == count - 1 ? len - at : len / (size_t)count;

		s[i].data = near + at;
		s[i].len = n;
		s[i].region = region ? near_region : NULL;
		at += n;
	}
	return count;
}

/* For a call that is going to be accepted. */
static struct cookie *cookie(void)
{
	p.c.sent++;
	return end_cookie(&p.c);
}

static void wait_cookie(const struct cookie *c, int status)
{
	WAIT_FOR(c->count);
	assert_int_equal(c->status, status);
}

static struct cookie *write_now(size_t len, int slices, bool region,
				uint64_t offset, uint32_t tag)
{
	struct rdmamsg_slice s[RDMAMSG_SEGMENTS_MAX];
	struct cookie *c = cookie();

	memcpy(near, pattern(tag), len);
	memset(far + offset, 0, len);
	if (rdmamsg_write(p.c.ep, s, cut(s, slices, len, region), &key, offset,
			  0, c))
		fail_msg("rdmamsg_write: %s", rdmamsg_error());
	if (!region)
		memset(near, 0xee, len);	/* it was copied */
	return c;
}

static const size_t sizes[] = {
	0, 1, 7, 8, 9, 240, 241, 4096, 8176, 8177, 65536, (1 << 20) - 1,
	1 << 20, (1 << 20) + 1, (5 << 20) + 3,
};

static void write__any_size_IS_THERE(void **state)
{
	rma_pair();
	assert_int_equal(end_info(&p.c).one_sided, 1);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		wait_cookie(write_now(sizes[i], 1, true, i, (uint32_t)i), 0);
		assert_memory_equal(far + i, pattern((uint32_t)i), sizes[i]);
		assert_int_equal(far[i + sizes[i]], 0);
	}
	rma_end();
}

static void write__without_region_IS_COPIED(void **state)
{
	struct rdmamsg_slice s = { near, 8177, NULL };

	rma_pair();
	for (size_t i = 0; sizes[i] <= 8176; i++) {
		wait_cookie(write_now(sizes[i], 1 + (int)i, false, 0,
				      (uint32_t)i), 0);
		assert_memory_equal(far, pattern((uint32_t)i), sizes[i]);
	}
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), -EMSGSIZE,
		     "region");
	rma_end();
}

static void write__in_slices_IS_ONE(void **state)
{
	rma_pair();
	for (int n = 1; n <= RDMAMSG_SEGMENTS_MAX; n++) {
		size_t len = n % 2 ? 1000 : (3 << 20) + 5;

		wait_cookie(write_now(len, n, true, 3, (uint32_t)n), 0);
		assert_memory_equal(far + 3, pattern((uint32_t)n), len);
	}
	rma_end();
}

static void read__any_size_and_slices_IS_THERE(void **state)
{
	struct rdmamsg_slice s[RDMAMSG_SEGMENTS_MAX];

	rma_pair();
	memcpy(far, pattern(1), ROOM);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct cookie *c = cookie();
		int n = cut(s, (int)i + 1, sizes[i], true);

		memset(near, 0, ROOM);
		assert_int_equal(rdmamsg_read(p.c.ep, s, n, &key, 5, 0, c), 0);
		wait_cookie(c, 0);
		assert_memory_equal(near, pattern(1) + 5, sizes[i]);
		assert_int_equal(near[sizes[i]], 0);
	}
	rma_end();
}

/* More than the depth: the device sees to it, and is not asked about each. */
static void read__many_small_ONE_COMPLETION(void **state)
{
	struct rdmamsg_stats before = { .size = sizeof(before) }, after = before;

	rma_open(NULL);
	p.c.opts.initiator_depth = 2;
	rma_start();
	memcpy(far, pattern(6), 4000);
	assert_int_equal(rdmamsg_ep_stats(p.c.ep, &before), 0);
	for (size_t i = 0; i < 40; i++) {
		struct rdmamsg_slice s = { near + i * 100, 100, near_region };

		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, i * 100, 0,
					      i == 39 ? cookie() : NULL), 0);
	}
	WAIT_FOR(p.c.sent_ok == 1);
	assert_memory_equal(near, pattern(6), 4000);
	assert_int_equal(rdmamsg_ep_stats(p.c.ep, &after), 0);
	assert_in_range(after.completions - before.completions, 1, 10);
	rma_end();
}

/* What a message behind a write says is there, is there. */
static void check_written(struct end *e, struct rdmamsg_msg *msg)
{
	if (memcmp(far, pattern(9), (2 << 20) + 1))
		note("the message came before what was written");
	rdmamsg_msg_free(msg);
}

static void write__before_a_message_IS_THERE_FIRST(void **state)
{
	rma_pair();
	p.s.then_message = check_written;
	(void)write_now((2 << 20) + 1, 3, true, 0, 9);
	end_send_all(&p.c, HOW_SEND, 10, 3);
	rma_end();
	assert_int_equal(p.s.received, 1);
}

/* More than credits, in turn with messages small and large. */
static void write_imm__beyond_credits_IN_ORDER(void **state)
{
	rma_pair();
	for (uint32_t i = 0; i < 300; i++) {
		struct rdmamsg_slice s = { near, i % 3 * 100, near_region };
		struct cookie *c = cookie();
		int ret;

		while ((ret = rdmamsg_write_imm(p.c.ep, &s, 1, &key, i, i, 0,
						c)) == -EAGAIN) {
			unsigned int told = p.c.writable;

			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
		if (i % 50 == 0)
			end_send_all(&p.c, HOW_SENDV, i % 100 ? 20 : 200000, i);
	}
	WAIT_FOR(value_count == 300);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(values[i], i);
	WAIT_FOR(p.c.sent_ok == p.c.sent);
	end_check_cookies(&p.c);
	rma_end();
}

static void atomics__give_what_was_BEFORE(void **state)
{
	uint64_t *word, was = 1;
	struct cookie *c;

	rma_pair();
	word = (uint64_t *)(far + 64);
	assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTED);
	assert_true(end_info(&p.s).atomic_scope != RDMAMSG_ATOMIC_NONE);
	*word = 40;
	c = cookie();
	assert_int_equal(rdmamsg_fetch_add(p.c.ep, &key, 64, 2, &was, 0, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(was, 40);
	assert_int_equal(*word, 42);
	c = cookie();
	assert_int_equal(rdmamsg_compare_swap(p.c.ep, &key, 64, 41, 7, &was, 0,
					      c), 0);
	wait_cookie(c, 0);
	assert_int_equal(was, 42);
	assert_int_equal(*word, 42);
	c = cookie();
	assert_int_equal(rdmamsg_compare_swap(p.c.ep, &key, 64, 42, 7, &was,
					      RDMAMSG_FENCE, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(was, 42);
	assert_int_equal(*word, 7);
	assert_error(rdmamsg_fetch_add(p.c.ep, &key, 65, 2, NULL, 0, NULL),
		     -EINVAL, "multiple of 8");
	assert_error(rdmamsg_fetch_add(p.c.ep, &key, ROOM - 4, 2, NULL, 0,
				       NULL), -ERANGE, "reaches");
	rma_end();
}

/* Each sees another number, and all are counted. */
static void atomics__many_EACH_ONCE(void **state)
{
	static uint64_t was[500];
	uint64_t sum = 0;

	rma_pair();
	for (size_t i = 0; i < ARRAY_SIZE(was); i++) {
		struct cookie *c = cookie();
		int ret;

		while ((ret = rdmamsg_fetch_add(p.c.ep, &key, 0, 1, &was[i], 0,
						c)) == -EAGAIN) {
			unsigned int told = p.c.writable;

			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
	}
	WAIT_FOR(p.c.sent_ok == ARRAY_SIZE(was));
	for (size_t i = 0; i < ARRAY_SIZE(was); i++)
		sum += was[i];
	assert_int_equal(sum, ARRAY_SIZE(was) * (ARRAY_SIZE(was) - 1) / 2);
	assert_int_equal(*(uint64_t *)far, ARRAY_SIZE(was));
	rma_end();
}

/* Large messages are read by the library: both kinds of reads go on. */
static void read__with_large_messages_BOTH(void **state)
{
	struct rdmamsg_slice s;

	rma_open(NULL);
	p.c.opts.initiator_depth = 2;
	rma_start();
	memcpy(far, pattern(4), ROOM);
	for (uint32_t i = 0; i < 40; i++) {
		s = (struct rdmamsg_slice){
			near + i * 100000, 100000, near_region,
		};
		end_send_all(&p.s, HOW_SENDV, 1 << 20, i);
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key,
					      i * 100000, 0,
					      cookie()), 0);
	}
	WAIT_FOR(p.c.sent_ok == 40 && p.c.received == 40);
	assert_memory_equal(near, pattern(4), 4000000);
	rma_end();
}

/* Behind a large message that waits each keeps its credit, or no end of them. */
static void write_imm__behind_one_that_waits_BOUNDED(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 7 << 20,
	};
	uint32_t accepted = 0, idle = 0;

	rma_open(&opts);
	p.s.keep = true;
	rma_start();
	end_send_all(&p.c, HOW_SENDV, 4 << 20, 1);
	WAIT_FOR(p.s.kept_count == 1);
	/* there is memory for one */
	end_send_all(&p.c, HOW_SENDV, 4 << 20, 2);
	while (accepted < 3000 && idle < 20) {
		int ret = rdmamsg_write_imm(p.c.ep, NULL, 0, &key, 0, accepted,
					    0, NULL);

		if (!ret) {
			accepted++;
			idle = 0;
			continue;
		}
		assert_int_equal(ret, -EAGAIN);
		test_pump(100);
		idle++;
	}
	/* recv_depth, and what waits here */
	if (accepted > 64 + 128)
		fail_msg("%u were taken", accepted);
	assert_int_equal(value_count, 0);
	end_release(&p.s);
	WAIT_FOR(value_count == accepted);
	for (uint32_t i = 0; i < accepted; i++)
		assert_int_equal(values[i], i);
	rma_end();
}

static void write__full_EAGAIN_THEN_WRITABLE(void **state)
{
	struct rdmamsg_slice s;
	unsigned int refused = 0;

	rma_open(NULL);
	p.c.opts.send_depth = 4;
	rma_start();
	for (uint32_t i = 0; i < 200; i++) {
		struct cookie *c = cookie();
		int ret;

		s = (struct rdmamsg_slice){ near, 1000, near_region };
		while ((ret = rdmamsg_write(p.c.ep, &s, 1, &key, i, 0, c)) ==
		       -EAGAIN) {
			unsigned int told = p.c.writable;

			refused++;
			WAIT_FOR(p.c.writable != told);
		}
		assert_int_equal(ret, 0);
	}
	assert_true(refused > 0);
	rma_end();
	assert_int_equal(p.c.sent_ok, 200);
}

/* What was accepted is done before a graceful end, and cancelled by another. */
static void close__with_operations_DONE(void **state)
{
	struct rdmamsg_slice s;

	rma_pair();
	for (uint32_t i = 0; i < 30; i++) {
		s = (struct rdmamsg_slice){ near, 1 << 20, near_region };
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0,
					      cookie()), 0);
		assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0,
					       cookie()), 0);
	}
	assert_error(rdmamsg_region_revoke(near_region), -EBUSY, "on_sent");
	rma_end();
	assert_int_equal(p.c.sent_ok, 60);
}

static void abort__with_operations_EACH_ENDS(void **state)
{
	struct rdmamsg_slice s;

	rma_pair();
	for (uint32_t i = 0; i < 60; i++) {
		s = (struct rdmamsg_slice){ near, 3 << 20, near_region };
		assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0,
					      cookie()), 0);
		assert_int_equal(rdmamsg_write_imm(p.c.ep, &s, 1, &key, 0, 1, 0,
						   cookie()), 0);
	}
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	rma_fini();
}

/* ---- refused ---------------------------------------------------------- */

/* The write ends the connection, with the reason on both sides. */
static void expect_refused(int op)
{
	struct rdmamsg_slice s = { near, 64, near_region };
	struct rdmamsg_key_info info = { .size = sizeof(info) };
	struct cookie *c = cookie();
	char region[64];
	int ret;

	assert_int_equal(rdmamsg_key_info(&key, &info), 0);
	snprintf(region, sizeof(region), "region %llu ",
		 (unsigned long long)info.region);
	ret = op == 'w' ? rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c) :
	      op == 'r' ? rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, c) :
	      rdmamsg_fetch_add(p.c.ep, &key, 0, 1, NULL, 0, c);
	assert_int_equal(ret, 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(c->count, 1);
	assert_int_equal(c->status, -EACCES);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	if (!strstr(p.c.why.text, region))
		fail_msg("no '%s' in '%s'", region, p.c.why.text);
	if (p.s.why.cause != RDMAMSG_CAUSE_ACCESS)
		fail_msg("the server was told: %d, %s", p.s.why.cause,
			 p.s.why.text);
}

static void key__revoked_ACCESS(void **state)
{
	rma_pair();
	wait_cookie(write_now(64, 1, true, 0, 1), 0);
	assert_int_equal(rdmamsg_region_revoke(far_region), 0);
	memset(far, 0x55, 64);
	memset(near, 0xaa, 64);
	expect_refused('w');
	assert_int_equal(far[0], 0x55);
	rma_fini();
}

/* The bytes of a key are where rdmamsg-proto(7) says they are. */
static void forge(size_t offset, uint64_t value, size_t len)
{
	value = htole64(value);
	memcpy(key.bytes + offset, &value, len);
}

static void key__wrong_rkey_ACCESS(void **state)
{
	rma_pair();
	key.bytes[5] ^= 0x40;
	expect_refused('w');
	rma_fini();
}

static void key__out_of_range_ACCESS(void **state)
{
	rma_pair();
	forge(16, (uintptr_t)far + ROOM - 8, 8);
	expect_refused('r');
	rma_fini();
}

static void key__too_weak_ACCESS(void **state)
{
	static const struct {
		uint32_t access;
		int op;
	} weak[] = {
		{ RDMAMSG_ACCESS_READ, 'w' }, { RDMAMSG_ACCESS_WRITE, 'r' },
		{ RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE, 'a' },
	};

	for (size_t i = 0; i < ARRAY_SIZE(weak); i++) {
		rma_pair();
		assert_int_equal(rdmamsg_region_destroy(far_region), 0);
		export_key(weak[i].access);
		forge(1, ACCESS_ALL, 1);
		expect_refused(weak[i].op);
		rma_fini();
	}
}

static void calls__bad_arguments_ARE_TOLD(void **state)
{
	struct rdmamsg_slice s = { near, 64, near_region };
	struct rdmamsg_region *other, *weak;
	struct rdmamsg_key bad;
	struct rdmamsg_key_info info = { .size = sizeof(info) };

	rma_pair();
	assert_int_equal(rdmamsg_key_info(&key, &info), 0);
	assert_int_equal(info.len, ROOM);
	assert_int_equal(info.access, ACCESS_ALL);
	assert_error(rdmamsg_key_info(NULL, &info), -EINVAL, "NULL");
	bad = key;
	bad.bytes[0] = 9;
	assert_error(rdmamsg_key_import(&bad, 32, &bad), -EPROTO, "no key");
	assert_error(rdmamsg_key_import(&key, 31, &bad), -EPROTO, "no key");
	assert_error(rdmamsg_key_info(&bad, &info), -EPROTO, "no key");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &bad, 0, 0, NULL), -EINVAL,
		     "key");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, NULL, 0, 0, NULL), -EINVAL,
		     "key");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, ROOM + 1, 0, NULL),
		     -ERANGE, "reaches");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, ROOM - 63, 0, NULL),
		     -ERANGE, "reaches");
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 2, NULL), -EINVAL,
		     "flags");
	assert_error(rdmamsg_write(p.c.ep, &s, 17, &key, 0, 0, NULL), -EINVAL,
		     "16");
	assert_error(rdmamsg_write(p.c.ep, NULL, 1, &key, 0, 0, NULL), -EINVAL,
		     "NULL");
	s.region = NULL;
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "region");
	s.region = near_region;
	s.data = near + ROOM - 1;
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "outside");
	s.data = near;
	s.region = far_region;
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "outside");

	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, 64, 0, &weak), 0);
	s.region = weak;
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), -EINVAL,
		     "attach");
	assert_error(rdmamsg_region_export(weak, p.c.ep, &bad), -EINVAL,
		     "nothing");
	assert_int_equal(rdmamsg_region_attach(weak, p.c.ep), 0);
	assert_error(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, NULL), -EACCES,
		     "LOCAL_WRITE");
	assert_error(rdmamsg_region_attach(weak, p.s.ep), -EINVAL, "context");
	assert_int_equal(rdmamsg_region_destroy(weak), 0);
	assert_int_equal(rdmamsg_region_destroy(NULL), 0);
	assert_error(rdmamsg_region_create(p.c.ctx, NULL, 64, 0, &other),
		     -EINVAL, "NULL");
	assert_error(rdmamsg_region_create(p.c.ctx, near, 64, 1u << 30, &other),
		     -EINVAL, "access");

	assert_int_equal(rdmamsg_region_destroy(far_region), 0);
	export_key(RDMAMSG_ACCESS_READ);
	s.region = near_region;
	assert_error(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, NULL), -EACCES,
		     "allow");
	rma_end();
}

static void region__again_OTHER_KEY(void **state)
{
	struct rdmamsg_key old;

	rma_pair();
	old = key;
	assert_int_equal(rdmamsg_region_revoke(far_region), 0);
	assert_int_equal(rdmamsg_region_export(far_region, p.s.ep, &key), 0);
	assert_memory_not_equal(&old, &key, sizeof(key));
	wait_cookie(write_now(100, 1, true, 0, 1), 0);
	/* left to the context, it ends with it */
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, 0,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_attach(near_region, p.s.ep), 0);
	near_region = NULL;
	rma_end();
}

/* No device that the tests run on takes one. */
static void dmabuf__not_taken_EOPNOTSUPP(void **state)
{
	struct rdmamsg_region *region;
	int fds = open_fds();

	rma_pair();
	assert_error(rdmamsg_region_dmabuf(p.c.ctx, -1, 0, 4096, 0, &region),
		     -EBADF, "fd");
	assert_error(rdmamsg_region_dmabuf(p.c.ctx, 0, 0, 0, 0, &region),
		     -EINVAL, "len");
	assert_int_equal(rdmamsg_region_dmabuf(p.c.ctx, 0, 0, 4096,
					       RDMAMSG_ACCESS_READ, &region), 0);
	assert_error(rdmamsg_region_attach(region, p.c.ep), -EOPNOTSUPP,
		     "dmabuf");
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	rma_end();
	assert_int_equal(open_fds(), fds);
}

/* ---- windows ---------------------------------------------------------- */

static struct rdmamsg_window *window;
static struct rdmamsg_region *windowed;	/* all of the server's memory */

/* False on a device that has none: that is told, and nothing else happens. */
static bool window_open(void)
{
	rma_pair();
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM,
					       RDMAMSG_ACCESS_WINDOW,
					       &windowed), 0);
	if (strncmp(rdmamsg_device_name(p.s.ep), "soft", 4)) {
		assert_error(rdmamsg_window_create(p.s.ep, &window),
			     -EOPNOTSUPP, "window");
		assert_int_equal(rdmamsg_region_destroy(windowed), 0);
		rma_end();
		return false;
	}
	assert_int_equal(rdmamsg_region_attach(windowed, p.s.ep), 0);
	assert_int_equal(rdmamsg_window_create(p.s.ep, &window), 0);
	return true;
}

static struct cookie *server_cookie(void)
{
	p.s.sent++;
	return end_cookie(&p.s);
}

static void window_bind(size_t offset, size_t len, uint32_t access)
{
	struct cookie *c = server_cookie();

	if (rdmamsg_window_bind(window, windowed, offset, len, access, &key, c))
		fail_msg("rdmamsg_window_bind: %s", rdmamsg_error());
	wait_cookie(c, 0);
}

static void window__bound_and_again_GIVES_ACCESS(void **state)
{
	struct rdmamsg_key other;
	struct cookie *c;

	if (!window_open())
		return;
	for (int i = 0; i < 3; i++) {
		window_bind(4096, 1000, RDMAMSG_ACCESS_WRITE);
		memcpy(near, pattern(3), 1000);
		memset(far, 0, 8192);
		{
			struct rdmamsg_slice s = { near, 1000, near_region };

			c = cookie();
			assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0,
						       0, c), 0);
			wait_cookie(c, 0);
		}
		assert_memory_equal(far + 4096, pattern(3), 1000);
		assert_error(rdmamsg_region_revoke(windowed), -EBUSY,
			     "operations");
		assert_error(rdmamsg_window_bind(window, windowed, 0, 8,
						 RDMAMSG_ACCESS_READ, &other,
						 NULL), -EBUSY, "bound");
		c = server_cookie();
		assert_int_equal(rdmamsg_window_invalidate(window, c), 0);
		assert_error(rdmamsg_window_destroy(window), -EBUSY, "over");
		wait_cookie(c, 0);
		assert_error(rdmamsg_window_invalidate(window, NULL), -EINVAL,
			     "not bound");
	}
	assert_error(rdmamsg_window_bind(window, windowed, ROOM, 1,
					 RDMAMSG_ACCESS_READ, &other, NULL),
		     -EINVAL, "not in it");
	assert_error(rdmamsg_window_bind(window, far_region, 0, 1,
					 RDMAMSG_ACCESS_READ, &other, NULL),
		     -EACCES, "WINDOW");
	assert_error(rdmamsg_window_bind(window, windowed, 0, 1, 0, &other,
					 NULL), -EINVAL, "access");
	assert_int_equal(rdmamsg_window_destroy(window), 0);
	assert_int_equal(rdmamsg_window_destroy(NULL), 0);
	assert_int_equal(rdmamsg_region_destroy(windowed), 0);
	rma_end();
}

static void window__invalidated_ACCESS(void **state)
{
	struct cookie *c;

	if (!window_open())
		return;
	window_bind(0, 1000, RDMAMSG_ACCESS_WRITE);
	c = server_cookie();
	assert_int_equal(rdmamsg_window_invalidate(window, c), 0);
	wait_cookie(c, 0);
	expect_refused('w');
	rma_fini();
}

static void window__beyond_it_ACCESS(void **state)
{
	if (!window_open())
		return;
	window_bind(0, 100, RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_READ);
	forge(24, 1000, 8);
	forge(16, (uintptr_t)far + 60, 8);
	expect_refused('r');
	rma_fini();
}

/* Its access is its own, and it ends with the endpoint. */
static void window__too_weak_ACCESS(void **state)
{
	if (!window_open())
		return;
	window_bind(0, 100, RDMAMSG_ACCESS_READ);
	forge(1, ACCESS_ALL, 1);
	expect_refused('w');
	assert_int_equal(rdmamsg_region_destroy(windowed), 0);
	rma_fini();
}

/* ---- the cache -------------------------------------------------------- */

static struct rdmamsg_cache_info cache_info(const struct rdmamsg_cache *cache)
{
	struct rdmamsg_cache_info i = { .size = sizeof(i) };

	assert_int_equal(rdmamsg_cache_info(cache, &i), 0);
	return i;
}

static struct rdmamsg_region *get(struct rdmamsg_cache *cache, size_t at,
				  size_t len)
{
	struct rdmamsg_region *region;

	if (rdmamsg_cache_get(cache, p.c.ep, near + at, len,
			      RDMAMSG_ACCESS_LOCAL_WRITE, &region))
		fail_msg("rdmamsg_cache_get: %s", rdmamsg_error());
	return region;
}

static void cache__full_LEAST_RECENT_GOES(void **state)
{
	const struct rdmamsg_cache_options opts = {
		.size = sizeof(opts), .max_bytes = 100000, .max_regions = 3,
	};
	struct rdmamsg_region *a, *b;
	struct rdmamsg_slice s;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, &opts, &cache), 0);
	a = get(cache, 0, 40000);
	b = get(cache, 100, 1000);		/* inside of it */
	assert_ptr_equal(a, b);
	assert_int_equal(cache_info(cache).hits, 1);
	assert_int_equal(rdmamsg_cache_put(cache, a), 0);
	/* usable as any other region */
	s = (struct rdmamsg_slice){ near, 40000, b };
	memcpy(far, pattern(2), 40000);
	assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, cookie()), 0);
	assert_int_equal(rdmamsg_cache_put(cache, b), 0);
	/* what an operation uses stays */
	assert_error(rdmamsg_cache_invalidate(cache, near + 39999, 1), -EBUSY,
		     "in use");
	WAIT_FOR(p.c.sent_ok == 1);
	assert_memory_equal(near, pattern(2), 40000);

	assert_int_equal(rdmamsg_cache_put(cache, get(cache, 50000, 40000)), 0);
	assert_int_equal(rdmamsg_cache_put(cache, get(cache, 0, 40000)), 0);
	assert_int_equal(cache_info(cache).hits, 2);
	/* 80000 are in: the second, not the first, makes room */
	a = get(cache, 100000, 30000);
	assert_int_equal(cache_info(cache).evictions, 1);
	assert_int_equal(cache_info(cache).bytes, 70000);
	b = get(cache, 0, 10);
	assert_int_equal(cache_info(cache).hits, 3);
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near + 200000, 40000, 0,
				       &near_region), -ENOBUFS, "fit");
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near + 200000, 400000, 0,
				       &near_region), -ENOBUFS, "fit");
	assert_error(rdmamsg_region_destroy(a), -EINVAL, "cache");
	assert_error(rdmamsg_cache_destroy(cache), -EBUSY, "in use");
	assert_int_equal(rdmamsg_cache_put(cache, a), 0);
	assert_error(rdmamsg_cache_put(cache, a), -EINVAL, "not got");
	assert_int_equal(rdmamsg_cache_put(cache, b), 0);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 100, 1), 0);
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 40000, 1000), 0);
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	assert_int_equal(rdmamsg_cache_destroy(NULL), 0);
	/* left to the context, with something in it */
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, NULL, &cache), 0);
	(void)get(cache, 0, 1000);
	rma_end();
}

static uint64_t key_len(struct rdmamsg_region *region, uint32_t access)
{
	struct rdmamsg_key_info info = { .size = sizeof(info) };
	struct rdmamsg_key k;

	assert_int_equal(rdmamsg_region_export(region, p.c.ep, &k), 0);
	assert_int_equal(rdmamsg_key_info(&k, &info), 0);
	assert_int_equal(info.access, access);
	return info.len;
}

static struct rdmamsg_region *get_for(struct rdmamsg_cache *cache, size_t at,
				      size_t len, uint32_t access)
{
	struct rdmamsg_region *region;

	assert_int_equal(rdmamsg_cache_get(cache, p.c.ep, near + at, len,
					   access, &region), 0);
	assert_int_equal(rdmamsg_cache_put(cache, region), 0);
	return region;
}

/* A key does not reach more than what was asked for. */
static void cache__for_a_peer_NOTHING_MORE(void **state)
{
	struct rdmamsg_region *all, *part;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, NULL, &cache), 0);
	all = get_for(cache, 0, 40000, ACCESS_ALL);
	assert_int_equal(key_len(all, ACCESS_ALL), 40000);
	part = get_for(cache, 4096, 4096, RDMAMSG_ACCESS_READ);
	assert_int_equal(key_len(part, RDMAMSG_ACCESS_READ), 4096);
	assert_int_equal(key_len(get_for(cache, 0, 40000, RDMAMSG_ACCESS_READ),
				 RDMAMSG_ACCESS_READ), 40000);
	assert_int_equal(cache_info(cache).hits, 0);
	assert_ptr_equal(get_for(cache, 4096, 4096, RDMAMSG_ACCESS_READ), part);
	assert_int_equal(cache_info(cache).hits, 1);
	/* nor is one for its own use given away */
	assert_error(rdmamsg_region_export(get_for(cache, 0, 10, 0), p.c.ep,
					   &key), -EINVAL, "nothing");
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	rma_end();
}

static void cache__lengths_beyond_all_ARE_TAKEN(void **state)
{
	const struct rdmamsg_cache_options opts = {
		.size = sizeof(opts), .max_bytes = 100000,
	};
	struct rdmamsg_region *region;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, &opts, &cache), 0);
	(void)get_for(cache, 0, 1000, 0);
	/* nothing goes for what cannot come */
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near, 100001, 0, &region),
		     -ENOBUFS, "fit");
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 1000, SIZE_MAX -
						  (uintptr_t)near - 1000), 0);
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 500, SIZE_MAX),
			 0);
	assert_int_equal(cache_info(cache).regions, 0);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	rma_end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(write__any_size_IS_THERE),
		TEST(write__without_region_IS_COPIED),
		TEST(write__in_slices_IS_ONE),
		TEST(write__before_a_message_IS_THERE_FIRST),
		TEST(write__full_EAGAIN_THEN_WRITABLE),
		TEST(write_imm__beyond_credits_IN_ORDER),
		TEST(write_imm__behind_one_that_waits_BOUNDED),
		TEST(read__any_size_and_slices_IS_THERE),
		TEST(read__many_small_ONE_COMPLETION),
		TEST(read__with_large_messages_BOTH),
		TEST(atomics__give_what_was_BEFORE),
		TEST(atomics__many_EACH_ONCE),
		TEST(close__with_operations_DONE),
		TEST(abort__with_operations_EACH_ENDS),
		TEST(key__revoked_ACCESS),
		TEST(key__wrong_rkey_ACCESS),
		TEST(key__out_of_range_ACCESS),
		TEST(key__too_weak_ACCESS),
		TEST(calls__bad_arguments_ARE_TOLD),
		TEST(region__again_OTHER_KEY),
		TEST(dmabuf__not_taken_EOPNOTSUPP),
		TEST(window__bound_and_again_GIVES_ACCESS),
		TEST(window__invalidated_ACCESS),
		TEST(window__beyond_it_ACCESS),
		TEST(window__too_weak_ACCESS),
		TEST(cache__full_LEAST_RECENT_GOES),
		TEST(cache__for_a_peer_NOTHING_MORE),
		TEST(cache__lengths_beyond_all_ARE_TAKEN),
	};

	return test_main(tests, NULL, argc, argv);
}
