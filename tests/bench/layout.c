/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided writes of 64 KB: in one piece, as 64 writes of 1 KB awaited
 * together, and through layouts of 64 blocks of 1 KB, which are 2 KB apart.
 * Both contexts are in one thread, which polls them in turn, so a figure is the
 * work of both sides and of the device. Takes turns, and prints the medians of
 * the rates and of their ratios. RDMAMSG_SOFT_LAYOUTS=none: the peer's layout
 * in software.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rdmamsg/device.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "median.h"

#define BLOCKS		64u
#define BLOCK		1024u
#define STRIDE		2048u
#define BYTES		(BLOCKS * BLOCK)
#define WRITES		200u	/* of 64 KB, in a turn */
#define TURNS		101u	/* short ones, between other programs */
#define DEPTH		256u	/* of the send queue */

/* Of SINGLES each has a cookie, of UNSIGNALED only the last one. */
enum way { ONE_PIECE, SINGLES, UNSIGNALED, FROM_LAYOUT, TO_LAYOUT, WAYS };

static const char *const names[WAYS] = {
	"one piece", "single writes", "same, one cookie", "from a layout",
	"to a layout",
};

static struct rdmamsg *near, *far;
static struct rdmamsg_ep *near_ep, *far_ep;
static _Alignas(4096) uint8_t near_mem[BLOCKS * STRIDE];
static _Alignas(4096) uint8_t far_mem[BLOCKS * STRIDE];
static struct rdmamsg_region *near_region, *layout_region;
static struct rdmamsg_key piece, blocks;
static uint32_t connected, done;

static void die(const char *what)
{
	fprintf(stderr, "layout: %s: %s\n", what, rdmamsg_error());
	exit(1);
}

static void pump(void)
{
	if (rdmamsg_fast_poll(near) < 0 || rdmamsg_fast_poll(far) < 0)
		die("rdmamsg_fast_poll");
}

/* ---- making all -------------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	if (ep != near_ep)
		far_ep = ep;
	connected++;
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	(void)ep;
	(void)cookie;
	if (status)
		die("an operation");
	done++;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_complete = on_complete,
};

static const struct rdmamsg_ep_tuning tuning = {
	.size = sizeof(tuning), .send_depth = DEPTH,
};

static const struct rdmamsg_ep_options ep_options = {
	.size = sizeof(ep_options), .handlers = &handlers, .tuning = &tuning,
};

static void connect_both(void)
{
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep_options,
	};
	struct rdmamsg_listener *l;
	char port[8];

	if (rdmamsg_open(&near, NULL) || rdmamsg_open(&far, NULL))
		die("rdmamsg_open");
	if (rdmamsg_listen(far, "127.0.0.1", "0", &opts, &l))
		die("rdmamsg_listen");
	(void)snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	if (rdmamsg_connect(near, "127.0.0.1", port, &ep_options, &near_ep))
		die("rdmamsg_connect");
	while (connected < 2)
		pump();
}

static struct rdmamsg_region *region(struct rdmamsg *ctx, uint8_t *mem)
{
	struct rdmamsg_region *ret;

	if (rdmamsg_region_create(ctx, mem, BLOCKS * STRIDE,
				  RDMAMSG_ACCESS_WRITE, &ret))
		die("rdmamsg_region_create");
	return ret;
}

static struct rdmamsg_layout *layout(struct rdmamsg *ctx,
				     struct rdmamsg_region *of)
{
	const struct rdmamsg_layout_options opts = {
		.size = sizeof(opts), .access = RDMAMSG_ACCESS_WRITE,
	};
	const struct rdmamsg_layout_part part = {
		.region = of, .len = BLOCK, .dims = 1, .count = { BLOCKS },
		.stride = { STRIDE },
	};
	struct rdmamsg_layout *ret;

	if (rdmamsg_layout_create(ctx, &opts, &ret) ||
	    rdmamsg_layout_define(ret, &part, 1, 1))
		die("rdmamsg_layout_define");
	return ret;
}

static void make_keys(void)
{
	struct rdmamsg_region *r = region(far, far_mem);
	uint8_t bytes[1024];
	size_t len;

	if (rdmamsg_region_get_key(r, far_ep, &piece))
		die("rdmamsg_region_get_key");
	if (rdmamsg_layout_get_key(layout(far, r), far_ep, bytes,
				   sizeof(bytes), &len, bytes))
		die("rdmamsg_layout_get_key");
	while (!done)
		pump();
	done = 0;
	if (rdmamsg_layout_import(near, bytes, len, &blocks))
		die("rdmamsg_layout_import");
	printf("the peer's layout is %s\n", len == sizeof(piece) ?
	       "native" : "in software");
}

static void make_sources(void)
{
	struct rdmamsg_layout *l;

	near_region = region(near, near_mem);
	l = layout(near, near_region);
	layout_region = rdmamsg_layout_region(l);
	if (rdmamsg_region_register(near_region, near_ep) ||
	    rdmamsg_layout_register(l, near_ep))
		die("rdmamsg_layout_register");
}

/* ---- figures ----------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void post(struct rdmamsg_sge s, const struct rdmamsg_key *to,
		 uint64_t offset, void *cookie)
{
	int ret;

	while ((ret = rdmamsg_write(near_ep, &s, 1, to, offset, 0, cookie)) ==
	       -EAGAIN)
		pump();
	if (ret)
		die("rdmamsg_write");
}

static void write_singles(enum way way)
{
	struct rdmamsg_sge s = { near_mem, BLOCK, near_region };

	for (uint32_t i = 0; i < BLOCKS; i++) {
		s.data = near_mem + (size_t)i * STRIDE;
		post(s, &piece, (uint64_t)i * BLOCK,
		     way == SINGLES || i == BLOCKS - 1 ? near_mem : NULL);
	}
}

/* Writes 64 KB. */
static void write_all(enum way way)
{
	struct rdmamsg_sge s = { near_mem, BYTES, near_region };

	switch (way) {
	case SINGLES:
	case UNSIGNALED:
		write_singles(way);
		break;
	case FROM_LAYOUT:
		s.data = NULL;
		s.region = layout_region;
		post(s, &piece, 0, near_mem);
		break;
	default:
		post(s, way == TO_LAYOUT ? &blocks : &piece, 0, near_mem);
	}
}

/* Returns bytes per nanosecond, which are GB/s. */
static double turn(enum way way, uint32_t writes)
{
	const uint32_t each = way == SINGLES ? BLOCKS : 1;
	const double begin = now();

	for (uint32_t i = 0; i < writes; i++) {
		done = 0;
		write_all(way);
		while (done < each)
			pump();
	}
	return (double)writes * BYTES / (now() - begin);
}

static void print(enum way way, double *rate, double *to_piece,
		  double *to_singles)
{
	const int is_layout = way >= FROM_LAYOUT;

	printf("%-17s %5.2f GB/s, %.2f of one piece%s, %.2f of single writes"
	       "%s\n", names[way], median(rate, TURNS), median(to_piece, TURNS),
	       is_layout ? " (goal 0.8)" : "", median(to_singles, TURNS),
	       is_layout ? " (goal 3)" : "");
}

int main(void)
{
	double rate[WAYS][TURNS], to_piece[WAYS][TURNS];
	double to_singles[WAYS][TURNS];

	connect_both();
	make_sources();
	make_keys();
	for (uint32_t way = 0; way < WAYS; way++)
		(void)turn(way, WRITES);
	for (uint32_t i = 0; i < TURNS; i++) {
		for (uint32_t way = 0; way < WAYS; way++)
			rate[way][i] = turn(way, WRITES);
		for (uint32_t way = 0; way < WAYS; way++) {
			to_piece[way][i] = rate[way][i] / rate[ONE_PIECE][i];
			to_singles[way][i] = rate[way][i] / rate[SINGLES][i];
		}
	}
	for (uint32_t way = 0; way < WAYS; way++)
		print(way, rate[way], to_piece[way], to_singles[way]);
	rdmamsg_close(near);
	rdmamsg_close(far);
	return 0;
}
