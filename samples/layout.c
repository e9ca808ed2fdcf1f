/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two halves of a grid, each in a process. 'layout ADDR' has the left half,
 * 'layout ADDR PORT' the right one. First the right side reads one column out
 * of the left half. Then in each step every cell becomes the mean of its four
 * neighbours. For that both sides need the column next to the border, so each
 * writes its own into the other's halo. In the end the left side sends a column
 * as one message, and the right side receives it in a column of its own. Layouts
 * describe all these columns.
 */
#include "usage.h"

#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/layout.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/post.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define TIMEOUT_MS	10000
#define ROWS		20u
#define COLUMNS		16u	/* of a half */
#define STEPS		50u
#define PICKED		5u	/* the column that the right side reads */
#define SENT		64u	/* longer messages are announced */
#define COLUMN_LEN	(2 * ROWS * sizeof(uint32_t))
#define COLUMN_TAG	7u

/*
 * Cells of a half, and the halos. The peer writes the halo of a step while this
 * side may still work on the step before, so there are two.
 */
static struct half {
	uint32_t cell[2][ROWS][COLUMNS];
	uint32_t halo[ROWS][2];
	uint32_t picked[ROWS];
} half;

static struct rdmamsg *ctx;
static struct rdmamsg_ep *ep;
static struct rdmamsg_region *region;
static struct rdmamsg_layout *receives;	/* the column, or NULL */
static uint32_t written;	/* steps whose halo the peer has written */
static int operations;		/* under way */
static int status;

static int fail(const char *what)
{
	fprintf(stderr, "layout: %s: %s\n", what, rdmamsg_error());
	return 1;
}

static void on_complete(struct rdmamsg_ep *of, void *cookie, int how)
{
	operations--;
	status = how ? how : status;
}

static void on_written(struct rdmamsg_ep *of, uint32_t step)
{
	written = step + 1;
}

/* The column goes straight to its cells, and other messages do not. */
static int on_incoming(struct rdmamsg_ep *of, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	return receives && tag == COLUMN_TAG ?
	       rdmamsg_layout_recv(of, receives, 0) : 0;
}

static void on_closed(struct rdmamsg_ep *of, const struct rdmamsg_reason *why)
{
	ep = NULL;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_complete = on_complete,
	.on_written = on_written, .on_incoming = on_incoming,
	.on_closed = on_closed,
};

/* Waits for the steps of the peer, and for all operations of this side. */
static int await(uint32_t steps)
{
	while (ep && !status && (written < steps || operations))
		if (rdmamsg_wait(ctx, TIMEOUT_MS) <= 0)
			return -1;
	return operations || written < steps ? -1 : status;
}

/* ---- layouts ----------------------------------------------------------- */

/* One column of both arrays of cells, or both halos one after the other. */
static struct rdmamsg_layout *column(const void *first, size_t stride,
				     size_t other)
{
	const struct rdmamsg_layout_options opts = {
		.size = sizeof(opts),
		.access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
			  RDMAMSG_ACCESS_LOCAL_WRITE,
	};
	const struct rdmamsg_layout_part part = {
		.region = region, .len = sizeof(uint32_t),
		.offset = (size_t)((const uint8_t *)first - (uint8_t *)&half),
		.dims = 2, .count = { 2, ROWS }, .stride = { other, stride },
	};
	struct rdmamsg_layout *ret;

	if (rdmamsg_layout_create(ctx, &opts, &ret) ||
	    rdmamsg_layout_define(ret, &part, 1, 1) ||
	    rdmamsg_layout_register(ret, ep))
		return NULL;
	return ret;
}

static struct rdmamsg_layout *cells(uint32_t number)
{
	return column(&half.cell[0][0][number], sizeof(half.cell[0][0]),
		      sizeof(half.cell[0]));
}

static int give_key(struct rdmamsg_layout *layout)
{
	uint8_t key[256];
	size_t len;
	int ret = rdmamsg_layout_get_key(layout, ep, key, sizeof(key), &len,
					 key);

	if (ret)
		return ret;
	operations++;
	ret = await(0);
	return ret ? ret : rdmamsg_send_wait(ep, key, len, 0, TIMEOUT_MS);
}

static int take_key(struct rdmamsg_key *ret)
{
	struct rdmamsg_msg *msg;
	int err = rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg);

	if (err)
		return err;
	err = rdmamsg_layout_import(ctx, rdmamsg_msg_data(msg),
				    rdmamsg_msg_len(msg), ret);
	rdmamsg_msg_free(msg);
	return err;
}

/* ---- steps ------------------------------------------------------------- */

static uint32_t start_value(uint32_t row, uint32_t column)
{
	return 1000 * row + 7 * column * column;
}

/* The cells around the grid are 0. */
static uint32_t mean(uint32_t up, uint32_t down, uint32_t left, uint32_t right)
{
	return (up + down + left + right) / 4;
}

static void step(uint32_t number, bool is_right)
{
	uint32_t (*from)[COLUMNS] = half.cell[number % 2];
	uint32_t (*to)[COLUMNS] = half.cell[1 - number % 2];

	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t c = 0; c < COLUMNS; c++) {
			const uint32_t halo = half.halo[r][number % 2];
			const uint32_t left = c ? from[r][c - 1] :
					      is_right ? halo : 0;
			const uint32_t right = c < COLUMNS - 1 ?
					       from[r][c + 1] :
					       is_right ? 0 : halo;

			to[r][c] = mean(r ? from[r - 1][c] : 0,
					r < ROWS - 1 ? from[r + 1][c] : 0,
					left, right);
		}
}

/* Computes the grid as a whole. Returns true if this half is the same. */
static bool is_right_result(bool is_right)
{
	static uint32_t all[2][ROWS][2 * COLUMNS];
	const uint32_t first = is_right ? COLUMNS : 0;

	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t c = 0; c < 2 * COLUMNS; c++)
			all[0][r][c] = start_value(r, c);
	for (uint32_t n = 0; n < STEPS; n++) {
		uint32_t (*from)[2 * COLUMNS] = all[n % 2];

		for (uint32_t r = 0; r < ROWS; r++)
			for (uint32_t c = 0; c < 2 * COLUMNS; c++)
				all[1 - n % 2][r][c] =
					mean(r ? from[r - 1][c] : 0,
					     r < ROWS - 1 ? from[r + 1][c] : 0,
					     c ? from[r][c - 1] : 0,
					     c < 2 * COLUMNS - 1 ?
					     from[r][c + 1] : 0);
	}
	for (uint32_t r = 0; r < ROWS; r++)
		if (memcmp(half.cell[STEPS % 2][r], &all[STEPS % 2][r][first],
			   sizeof(half.cell[0][r])))
			return false;
	return true;
}

static int exchange(const struct rdmamsg_key *halo,
		    struct rdmamsg_layout *border, bool is_right)
{
	const size_t len = ROWS * sizeof(uint32_t);

	for (uint32_t n = 0; n < STEPS; n++) {
		const uint64_t at = n % 2 * len;
		const struct rdmamsg_sge s = {
			(void *)(uintptr_t)at, len,
			rdmamsg_layout_region(border),
		};
		const struct rdmamsg_op op = {
			.size = sizeof(op), .kind = RDMAMSG_OP_WRITE,
			.flags = RDMAMSG_OP_NOTIFY, .imm = n,
			.sge = &s, .count = 1,
			.key = halo, .offset = at, .cookie = &half,
		};

		operations++;
		if (rdmamsg_post(ep, &op))
			return fail("write");
		if (await(n + 1))
			return fail("waiting for the peer");
		step(n, is_right);
	}
	if (!is_right_result(is_right)) {
		fprintf(stderr, "layout: wrong cells after the steps\n");
		return 1;
	}
	printf("halo: %u steps, as in one piece\n", STEPS);
	return 0;
}

/* Reads a column of the peer into memory in one piece. */
static int pick(const struct rdmamsg_key *of)
{
	const struct rdmamsg_sge s = {
		half.picked, sizeof(half.picked), region,
	};
	uint32_t sum = 0;

	operations++;
	if (rdmamsg_read(ep, &s, 1, of, 0, 0, &half) || await(0))
		return fail("read");
	for (uint32_t r = 0; r < ROWS; r++)
		sum += half.picked[r];
	printf("column %u: %u to %u, sum %u\n", PICKED, half.picked[0],
	       half.picked[ROWS - 1], sum);
	return 0;
}

static uint32_t sum_of_column(void)
{
	uint32_t sum = 0;

	for (uint32_t r = 0; r < ROWS; r++)
		sum += half.cell[0][r][PICKED] + half.cell[1][r][PICKED];
	return sum;
}

static int send_column(struct rdmamsg_layout *column)
{
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND,
		.layout = column, .len = COLUMN_LEN, .tag = COLUMN_TAG,
		.cookie = &half,
	};

	operations++;
	if (rdmamsg_post(ep, &op) || await(0))
		return fail("sending a column");
	printf("sent a column of sum %u\n", sum_of_column());
	return 0;
}

static int receive_column(void)
{
	struct rdmamsg_msg *msg;
	bool is_in_place;

	if (rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg))
		return fail("receiving a column");
	is_in_place = !rdmamsg_msg_data(msg) &&
		      rdmamsg_msg_len(msg) == COLUMN_LEN;
	rdmamsg_msg_free(msg);
	if (!is_in_place) {
		fprintf(stderr, "layout: the column is not in its place\n");
		return 1;
	}
	printf("received a column of sum %u\n", sum_of_column());
	return 0;
}

static int work(bool is_right)
{
	struct rdmamsg_layout *halo, *border, *picked;
	struct rdmamsg_key key;

	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t c = 0; c < COLUMNS; c++)
			half.cell[0][r][c] = start_value(
				r, c + (is_right ? COLUMNS : 0));
	if (rdmamsg_region_create(ctx, &half, sizeof(half),
				  RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
				  RDMAMSG_ACCESS_LOCAL_WRITE, &region) ||
	    rdmamsg_region_register(region, ep))
		return fail("region");
	halo = column(&half.halo[0][0], sizeof(half.halo[0]),
		      sizeof(half.halo[0][0]));
	border = cells(is_right ? 0 : COLUMNS - 1);
	picked = cells(PICKED);
	if (!halo || !border || !picked)
		return fail("layout");
	if (is_right ? take_key(&key) : give_key(picked))
		return fail("key of the column");
	if (is_right && pick(&key))
		return 1;
	if (give_key(halo) || take_key(&key))
		return fail("key of the halo");
	receives = is_right ? picked : NULL;
	if (exchange(&key, border, is_right) ||
	    rdmamsg_ep_meet_wait(ep, STEPS, TIMEOUT_MS))
		return 1;
	return is_right ? receive_column() : send_column(picked);
}

/* ---- connecting -------------------------------------------------------- */

static int serve(const char *addr, const struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_listener *listener;

	if (rdmamsg_listen(ctx, addr, "0", NULL, &listener))
		return fail("listen");
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	fflush(stdout);
	return rdmamsg_listener_accept_wait(listener, opts, -1, &ep) ? fail("accept") : 0;
}

int main(int argc, char **argv)
{
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .inline_max = SENT, .eager_max = SENT,
		.pieces_max = RDMAMSG_NONE,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .tuning = &tuning,
	};
	int ret;

	usage(argc, argv, "layout ADDR [PORT]", 1, 2);
	if (rdmamsg_open(&ctx, NULL))
		return fail("open");
	if (argc == 2)
		ret = serve(argv[1], &opts);
	else
		ret = rdmamsg_connect_wait(ctx, argv[1], argv[2], &opts,
					   TIMEOUT_MS, &ep) ?
		      fail("connect") : 0;
	if (!ret)
		ret = work(argc > 2);
	if (!ret && ep)
		ret = rdmamsg_ep_close_wait(ep, TIMEOUT_MS) ? fail("close") : 0;
	rdmamsg_close(ctx);
	return ret;
}
