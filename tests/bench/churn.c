/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of taking and freeing messages of a pool, in nanoseconds a message,
 * for five patterns of use. Each message is written to, once a page. The pool
 * belongs to an endpoint that is connected to its own process.
 *
 *	one	a message, again and again
 *	half	of a slab, all taken, then all freed
 *	wave	of several slabs, likewise
 *	sizes	the whole pool in 4 KB, then the whole pool in 64 KB
 *	mixed	a random message is freed, another one of a random size taken
 *
 * Usage: churn [SECONDS [HOST]], with seconds for each pattern and the address of
 * an RDMA device of this machine
 */
#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define MAX_BYTES	((size_t)16 << 20)
#define PAGE		4096
#define HEADER		64		/* fits a buffer of the size class */
#define MESSAGES	4096

static struct rdmamsg *ctx;
static struct rdmamsg_pool *pool;
static struct rdmamsg_ep *ep;
static struct rdmamsg_msg *held[MESSAGES];
static uint64_t taken, refused;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns 0, or -1 if the pool has no room. */
static int take(int slot, size_t class)
{
	size_t len = class - HEADER;
	int ret = rdmamsg_pool_alloc(pool, ep, len, &held[slot]);
	volatile uint8_t *data;

	if (ret == -EAGAIN || ret == -ENOBUFS) {
		held[slot] = NULL;
		refused++;
		return -1;
	}
	if (ret)
		errx(1, "%s", rdmamsg_error());
	data = rdmamsg_msg_data(held[slot]);
	for (size_t at = 0; at < len; at += PAGE)
		data[at] = 1;
	taken++;
	return 0;
}

static void drop(int slot)
{
	rdmamsg_msg_free(held[slot]);
	held[slot] = NULL;
}

static void wave(int n, size_t class)
{
	int i = 0;

	while (i < n && !take(i, class))
		i++;
	while (i)
		drop(--i);
}

static void one(void)
{
	wave(1, 4096);
}

static void half(void)
{
	wave(32, 4096);
}

static void several(void)
{
	wave(1024, 4096);
}

static void sizes(void)
{
	wave(MAX_BYTES / 4096, 4096);
	wave(MAX_BYTES / 65536, 65536);
}

static void mixed(void)
{
	static const size_t classes[] = { 1024, 4096, 16384, 65536 };
	static uint64_t seed = 7;
	int slot;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	slot = (int)(seed >> 33) % 512;
	drop(slot);
	(void)take(slot, classes[seed >> 60 & 3]);
}

static void measure(const char *name, void (*pattern)(void), uint64_t ns)
{
	uint64_t begin, end, rounds = 0;

	pattern();
	taken = refused = 0;
	begin = now_ns();
	do {
		pattern();
		rounds++;
		end = now_ns();
	} while (end - begin < ns);
	printf("%-8s %10.1f ns a message %10llu refused of %llu\n", name,
	       (double)(end - begin) / (double)(taken ? taken : 1),
	       (unsigned long long)refused,
	       (unsigned long long)(taken + refused));
	for (int i = 0; i < MESSAGES; i++)
		drop(i);
	(void)rdmamsg_process(ctx);
}

int main(int argc, char **argv)
{
	uint64_t ns = (argc > 1 ? strtoul(argv[1], NULL, 0) : 2) * 1000000000u;
	const char *host = argc > 2 ? argv[2] : "127.0.0.1";
	struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = MAX_BYTES,
	};
	struct rdmamsg_ep_options eo = { .size = sizeof(eo) };
	const struct rdmamsg_ep_options peer = { .size = sizeof(peer) };
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &peer,
	};
	struct rdmamsg_listener *l;
	char port[8];

	if (rdmamsg_open(&ctx, NULL) || rdmamsg_pool_create(ctx, &po, &pool) ||
	    rdmamsg_listen(ctx, host, "0", &lo, &l))
		errx(1, "%s", rdmamsg_error());
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	eo.send_pool = pool;
	if (rdmamsg_connect_wait(ctx, host, port, &eo, 10000, &ep))
		errx(1, "%s", rdmamsg_error());
	measure("one", one, ns);
	measure("half", half, ns);
	measure("wave", several, ns);
	measure("sizes", sizes, ns);
	measure("mixed", mixed, ns);
	rdmamsg_ep_abort(ep);
	rdmamsg_close(ctx);
	return 0;
}
