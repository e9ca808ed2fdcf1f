/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations of the two-host peer, in both modes. */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

/* Size of the memory that a target exports, and of an RMA peer's buffer. */
#define RMA_BYTES	((size_t)1 << 20)
#define RMA_IN_FLIGHT	6
/* With -M: parts of that memory, each in one use only. */
#define WRITTEN		(RMA_BYTES / 4)	/* where the peer writes */
#define WRITE_BYTES	((size_t)65536)
#define CONSTANT	(RMA_BYTES / 2)	/* where the peer reads */

static struct rdmamsg_region *region, *sink;
static _Alignas(8) uint8_t memory[RMA_BYTES], scratch[RMA_BYTES];

void onesided_send_key(struct conn *c)
{
	struct rdmamsg_key key;

	if (rdmamsg_region_get_key(region, c->ep, &key) ||
	    rdmamsg_send(c->ep, &key, sizeof(key), KEY_TAG, NULL))
		fail("key: %s", rdmamsg_error());
}

void onesided_take_key(struct conn *c, const struct rdmamsg_msg *msg)
{
	c->have_key = !rdmamsg_key_import(rdmamsg_msg_data(msg),
					  rdmamsg_msg_len(msg), &c->key);
	if (!c->have_key || rdmamsg_region_register(region, c->ep) ||
	    rdmamsg_region_register(sink, c->ep))
		fail("key: %s", rdmamsg_error());
}

/*
 * Starts a large or small operation of any kind, with or without a completion.
 */
static int one_sided(struct conn *c)
{
	struct rdmamsg_sge s = { memory, 65536, region };
	void *cookie = malloc(1);
	int ret;

	if (!cookie)
		return -ENOMEM;
	switch (c->sent % 5) {
	case 0:
		ret = rdmamsg_write(c->ep, &s, 1, &c->key, 0, 0, cookie);
		break;
	case 1:
		ret = rdmamsg_read(c->ep, &s, 1, &c->key, 0, 0, cookie);
		break;
	case 2:
		ret = rdmamsg_fetch_add(c->ep, &c->key, 0, 1, NULL, 0, cookie);
		if (ret != -EOPNOTSUPP)
			break;
		s.len = sizeof(uint64_t);
		ret = rdmamsg_read(c->ep, &s, 1, &c->key, 0, 0, cookie);
		break;
	case 3:
		s.len = RMA_BYTES;
		ret = rdmamsg_read(c->ep, &s, 1, &c->key, 0, 0, cookie);
		break;
	default:
		s.len = 100;
		ret = rdmamsg_write(c->ep, &s, 1, &c->key, 0, 0, NULL);
		free(cookie);
		cookie = NULL;
	}
	if (ret)
		free(cookie);
	c->sent += !ret;
	c->accepted += !ret && cookie;
	return ret;
}

void onesided_go(struct conn *c)
{
	int ret = 0;

	while (!ret && c->have_key && !held_back &&
	       rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED &&
	       c->accepted - c->completed < RMA_IN_FLIGHT)
		ret = one_sided(c);
	if (ret && ret != -EAGAIN)
		fail("one-sided: %s", rdmamsg_error());
}

/* Adds to the counter. A device without atomics reads it: it stays zero. */
static int count(struct conn *c)
{
	const struct rdmamsg_sge s = { scratch, sizeof(c->was), sink };
	int ret = rdmamsg_fetch_add(c->ep, &c->key, 0, 1, &c->was, 0, &c->step);

	c->no_atomics = ret == -EOPNOTSUPP;
	return c->no_atomics ?
	       rdmamsg_read(c->ep, &s, 1, &c->key, 0, 0, &c->step) : ret;
}

static void counted(struct conn *c)
{
	if (c->no_atomics)
		memcpy(&c->was, scratch, sizeof(c->was));
	if (c->was < c->added || c->was > c->added + c->doubt)
		fail("an add found %llu after %llu and %llu in doubt",
		     (unsigned long long)c->was, (unsigned long long)c->added,
		     (unsigned long long)c->doubt);
	c->added += !c->no_atomics;
}

/*
 * Operations one after another, each checked: a write, the same bytes read
 * back, a large read of what nobody writes, an add.
 */
static int mixed(struct conn *c)
{
	struct rdmamsg_sge s = { scratch, WRITE_BYTES, sink };

	switch (c->step % 4) {
	case 0:
		fill(scratch, WRITE_BYTES, c->step);
		return rdmamsg_write(c->ep, &s, 1, &c->key, WRITTEN, 0,
				     &c->step);
	case 1:
		s.data = scratch + WRITTEN;
		return rdmamsg_read(c->ep, &s, 1, &c->key, WRITTEN, 0,
				    &c->step);
	case 2:
		s.data = scratch + CONSTANT;
		s.len = CONSTANT;
		return rdmamsg_read(c->ep, &s, 1, &c->key, CONSTANT, 0,
				    &c->step);
	default:
		return count(c);
	}
}

void mixed_go(struct conn *c)
{
	int ret;

	if (c->busy || !c->have_key || finishing ||
	    rdmamsg_ep_state(c->ep) != RDMAMSG_CONNECTED)
		return;
	ret = mixed(c);
	c->busy = !ret;
	/* EIO: the device has gone, and on_path or on_closed follows */
	if (ret && ret != -EAGAIN && ret != -EIO)
		fail("one-sided: %s", rdmamsg_error());
}

static void expect(const uint8_t *data, size_t len, uint32_t seq)
{
	size_t at = first_wrong(data, len, seq);

	if (at < len)
		fail("one-sided operation %u: byte %zu is wrong", seq, at);
}

void mixed_done(struct conn *c, int status)
{
	c->busy = false;
	if (status == RDMAMSG_IN_DOUBT && c->step % 4 == 3) {
		c->doubt++;
	} else if (status) {
		/* the peer may close first */
		if (rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED)
			fail("one-sided operation %u: %s", c->step,
			     strerror(-status));
		return;
	} else if (c->step % 4 == 1) {
		expect(scratch + WRITTEN, WRITE_BYTES, c->step - 1);
		memset(scratch + WRITTEN, 0, WRITE_BYTES);
	} else if (c->step % 4 == 2) {
		expect(scratch + CONSTANT, CONSTANT, 0);
		memset(scratch + CONSTANT, 0, CONSTANT);
	} else if (c->step % 4 == 3) {
		counted(c);
	}
	c->step++;
	if (!opt.pace_ms)
		mixed_go(c);
}

void mixed_report(const struct conn *c)
{
	printf("one-sided %u %llu %llu %llu\n", c->step,
	       (unsigned long long)c->added, (unsigned long long)c->doubt,
	       (unsigned long long)*(const uint64_t *)memory);
}

int onesided_open(void)
{
	int ret = rdmamsg_region_create(ctx, memory, sizeof(memory),
					RDMAMSG_ACCESS_READ |
					RDMAMSG_ACCESS_WRITE |
					RDMAMSG_ACCESS_ATOMIC |
					RDMAMSG_ACCESS_LOCAL_WRITE, &region);

	fill(memory + CONSTANT, CONSTANT, 0);
	return ret ? ret :
	       rdmamsg_region_create(ctx, scratch, sizeof(scratch),
				     RDMAMSG_ACCESS_LOCAL_WRITE, &sink);
}
