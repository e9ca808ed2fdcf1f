/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends with memory. The client has a key of the server's memory. */
#ifndef RMA_PAIR_H
#define RMA_PAIR_H

#include "common.h"

#include <endian.h>
#include <rdmamsg/rma.h>

#define ROOM		((size_t)6 << 20) /* more than one request carries */

static struct pair p;
static uint8_t *far, *near;		/* the server's memory, the client's */
static struct rdmamsg_region *far_region, *near_region;
static struct rdmamsg_key key;
static uint32_t values[1024]; /* immediate values of on_written at the server */
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

/* Gives the key to the client, as if it came in a message. */
static inline void export_key(uint32_t access)
{
	struct rdmamsg_key theirs;

	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, access,
					       &far_region), 0);
	assert_int_equal(rdmamsg_region_get_key(far_region, p.s.ep, &theirs), 0);
	assert_int_equal(rdmamsg_key_import(&theirs, sizeof(theirs), &key), 0);
}

static inline void rma_open(const struct rdmamsg_options *opts)
{
	pair_init(&p, opts);
	p.s.on.on_written = on_written;
	value_count = 0;
	far = aligned_alloc(4096, ROOM);	/* for atomics of all sizes */
	memset(far, 0, ROOM);
	near = calloc(1, ROOM);
}

static inline void rma_start(void)
{
	pair_listen(&p);
	pair_connect(&p);
	export_key(ACCESS_ALL);
	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, ROOM,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_register(near_region, p.c.ep), 0);
}

static inline void rma_fini(void)
{
	assert_int_equal(rdmamsg_region_destroy(far_region), 0);
	assert_int_equal(rdmamsg_region_destroy(near_region), 0);
	pair_fini(&p);
	free(far);
	free(near);
}

static inline void rma_pair(void)
{
	rma_open(NULL);
	rma_start();
}

/*
 * The client of a server in another process. on_key() imports the key, sets
 * e->arg, and frees the message.
 */
static inline void rma_connect(const char *port,
			       void (*on_key)(struct end *e,
					      struct rdmamsg_msg *msg))
{
	memset(&p, 0, sizeof(p));
	p.c.ctx = test_open(NULL);
	end_init(&p.c, "client", p.c.ctx);
	p.c.expect_nothing = true;
	p.c.then_message = on_key;
	if (rdmamsg_connect(p.c.ctx, test_addr(), port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.arg);
}

static inline void rma_end(void)
{
	pair_close(&p);
	rma_fini();
}

/* Returns a cookie for a call that will be accepted. */
static inline struct cookie *cookie(void)
{
	p.c.sent++;
	return end_cookie(&p.c);
}

static inline void wait_cookie(const struct cookie *c, int status)
{
	WAIT_FOR(c->count);
	assert_int_equal(c->status, status);
}

/* Repeats the call of the client while too many operations are out. */
#define UNTIL_POSTED(call) \
	do { \
		int ret_; \
		while ((ret_ = (call)) == -EAGAIN) { \
			const unsigned int told_ = p.c.writable; \
			WAIT_FOR(p.c.writable != told_); \
		} \
		if (ret_) \
			fail_msg("%s", rdmamsg_error()); \
	} while (0)

/* Returns true if the text names two possible regions, one of them this id. */
static inline bool names_region(const char *text, uint64_t id)
{
	const char *at = strstr(text, "region ");

	for (; at && *at; at++) {
		char *end;

		if (*at < '0' || *at > '9')
			continue;
		if (strtoull(at, &end, 10) == id)
			return true;
		at = end - 1;
	}
	return false;
}

/* The write ends the connection, with the reason on both sides. */
static inline void expect_refused(int op)
{
	struct rdmamsg_sge s = { near, 64, near_region };
	struct rdmamsg_key_attr info = { .size = sizeof(info) };
	struct cookie *c = cookie();
	uint64_t was = 0x5555;
	char region[64];
	int ret;

	assert_int_equal(rdmamsg_key_query(&key, &info), 0);
	snprintf(region, sizeof(region), "region %llu ",
		 (unsigned long long)info.region);
	ret = op == 'w' ? rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c) :
	      op == 'r' ? rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, c) :
	      rdmamsg_fetch_add(p.c.ep, &key, 0, 1, &was, 0, c);
	assert_int_equal(ret, 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(c->count, 1);
	/* on iWARP a write completes before the peer's device has it */
	if (op == 'w' && test_iwarp() && !c->status)
		return;
	/* siw flushes what the peer refuses (Linux 6.1, siw_qp_llp_close()) */
	if (test_on_siw() && c->status == -ECANCELED)
		return;
	assert_int_equal(c->status, -EACCES);
	assert_int_equal(was, 0x5555);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	if (!strstr(p.c.why.text, region))
		fail_msg("no '%s' in '%s'", region, p.c.why.text);
	if (p.s.why.cause != RDMAMSG_CAUSE_ACCESS ||
	    !names_region(p.s.why.text, info.region))
		fail_msg("the server was told: %d, %s", p.s.why.cause,
			 p.s.why.text);
}

/* Changes the key at the offset that rdmamsg-proto(7) names. */
static inline void forge(size_t offset, uint64_t value, size_t len)
{
	value = htole64(value);
	memcpy(key.bytes + offset, &value, len);
}

#endif
