/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Seats in the memory of a server, which its clients take without its program.
 * 'atomics ADDR' serves. 'atomics ADDR PORT' takes the first free seat: a
 * masked compare-and-swap sets one bit. An addition of fields then counts the
 * client in one of four counters of 16 bits.
 */
#include "usage.h"

#include <stdint.h>

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define TIMEOUT_MS	10000
#define SEATS		64u
#define COUNTERS	4u

static struct {
	uint64_t seats;			/* a bit for each */
	uint64_t counters;		/* of seats 0 to 15, 16 to 31, ... */
} table;

static int fail(const char *what)
{
	fprintf(stderr, "atomics: %s: %s\n", what, rdmamsg_error());
	return 1;
}

/* ---- server ------------------------------------------------------------ */

static struct rdmamsg_region *region;

/* Each client gets a key of the table. */
static void on_connected(struct rdmamsg_ep *ep)
{
	struct rdmamsg_key key;

	if (rdmamsg_region_get_key(region, ep, &key) ||
	    rdmamsg_send(ep, &key, sizeof(key), 0, NULL)) {
		(void)fail("key");
		rdmamsg_ep_abort(ep);
	}
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	printf("seats %llx", (unsigned long long)table.seats);
	for (uint32_t i = 0; i < COUNTERS; i++)
		printf(" %u", (unsigned int)(table.counters >> 16 * i) &
		       0xffff);
	printf("\n");
	fflush(stdout);
}

static int serve(struct rdmamsg *ctx, const char *addr)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
	};
	struct rdmamsg_listener *listener;

	if (rdmamsg_region_create(ctx, &table, sizeof(table),
				  RDMAMSG_ACCESS_ATOMIC, &region) ||
	    rdmamsg_listen(ctx, addr, "0", &opts, &listener))
		return fail("listen");
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	fflush(stdout);
	rdmamsg_run(ctx);
	return 0;
}

/* ---- client ------------------------------------------------------------ */

static struct rdmamsg_key key;
static bool done;
static int status;

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int how)
{
	done = true;
	status = how;
}

/* Returns the result of the operation, which the call has accepted or not. */
static int finish(struct rdmamsg *ctx, int ret)
{
	while (!ret && !done)
		ret = rdmamsg_wait(ctx, TIMEOUT_MS) > 0 ? 0 : -1;
	done = false;
	return ret ? ret : status;
}

/* Sets the bit if it is 0. *ret has all bits as they were. */
static int try_seat(struct rdmamsg *ctx, struct rdmamsg_ep *ep, uint32_t seat,
		    uint64_t *ret)
{
	const uint64_t empty = 0, bit = 1ull << seat;
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_COMPARE_SWAP,
		.key = &key, .width = sizeof(bit),
		.compare = &empty, .compare_mask = &bit,
		.operand = &bit, .mask = &bit,
		.result = ret, .cookie = &key,
	};

	return finish(ctx, rdmamsg_post(ep, &op));
}

/* Adds 1 to the counter of the seat. A full counter begins again at 0. */
static int count(struct rdmamsg *ctx, struct rdmamsg_ep *ep, uint32_t seat)
{
	const uint64_t boundary = 0x8000800080008000ull;
	const uint64_t one = 1ull << seat / 16 * 16;

	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_FETCH_ADD,
		.key = &key, .offset = 8, .width = sizeof(one),
		.operand = &one, .mask = &boundary, .cookie = &key,
	};

	return finish(ctx, rdmamsg_post(ep, &op));
}

static int take_seat(struct rdmamsg *ctx, struct rdmamsg_ep *ep)
{
	uint64_t was = 0;
	uint32_t seat = 0;

	/* passes the seats that the last try has seen taken */
	while (seat < SEATS) {
		if (was >> seat & 1) {
			seat++;
			continue;
		}
		if (try_seat(ctx, ep, seat, &was))
			return fail("masked compare-and-swap");
		if (!(was >> seat & 1))
			break;
	}
	if (seat == SEATS) {
		fprintf(stderr, "atomics: all seats are taken\n");
		return 1;
	}
	if (count(ctx, ep, seat))
		return fail("addition of fields");
	printf("seat %u\n", seat);
	return 0;
}

static int get_key(struct rdmamsg_ep *ep)
{
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };
	struct rdmamsg_msg *msg;
	int ret;

	if (rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg))
		return fail("key");
	ret = rdmamsg_key_import(rdmamsg_msg_data(msg), rdmamsg_msg_len(msg),
				 &key);
	rdmamsg_msg_free(msg);
	if (ret || rdmamsg_ep_masked_query(ep, &can))
		return fail("key");
	printf("extended atomics: %s\n",
	       rdmamsg_name(RDMAMSG_NAME_CAP_HOW, can.how));
	return 0;
}

static int visit(struct rdmamsg *ctx, const char *addr, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_complete = on_complete,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg_ep *ep;

	if (rdmamsg_connect_wait(ctx, addr, port, &opts, TIMEOUT_MS, &ep))
		return fail("connect");
	if (get_key(ep) || take_seat(ctx, ep))
		return 1;
	return rdmamsg_ep_close_wait(ep, TIMEOUT_MS) ? fail("close") : 0;
}

int main(int argc, char **argv)
{
	struct rdmamsg *ctx;
	int ret;

	usage(argc, argv, "atomics ADDR [PORT]", 1, 2);
	if (rdmamsg_open(&ctx, NULL))
		return fail("open");
	ret = argc > 2 ? visit(ctx, argv[1], argv[2]) : serve(ctx, argv[1]);
	rdmamsg_close(ctx);
	return ret;
}
