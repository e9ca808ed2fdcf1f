/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of chains, tried with two cross-channel queue pairs, each of which
 * is connected to itself. The first calculates. The second waits for that, and
 * calculates with the result.
 */
#include "base/base.h"
#include "base/util.h"
#include "device/cross.h"
#include "device/loopback.h"
#include "device/path.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>

#define WAIT_MS	5000

/* Values in the memory of the trial. */
enum { START, STEP, ALL, ANY, DIFFERENT, SUM, SUM_AGAIN, VALUES };

/*
 * Both additions carry into another byte, so they show the byte order. All
 * operations have different results.
 */
static const uint64_t start = 0xff, step = 0x1f1;

struct half {
	struct ibv_cq *cq;
	uint32_t number;		/* of the completion queue */
	struct cross cross;
};

/* ---- objects ----------------------------------------------------------- */

static int open_half(struct trial *t, struct half *ret)
{
	struct cross_attr attr = {
		.pd = t->d.pd,
		.cap = {
			.max_send_wr = 4, .max_recv_wr = 1,
			.max_send_sge = 2, .max_recv_sge = 1,
		},
	};
	int err = rdmamsg__v_create_cq(t->d.v, t->d.verbs, 4, NULL, NULL, 0,
				       &ret->cq);

	if (err)
		return rdmamsg__refused(err, "a completion queue");
	attr.send_cq = attr.recv_cq = ret->cq;
	err = rdmamsg__cross_open(&t->d, &attr, &ret->cross);
	return err ? err : rdmamsg__cross_number(&t->d, ret->cq, &ret->number);
}

static int open_halves(struct trial *t, struct half half[static 2])
{
	struct oob path;
	int err = open_half(t, &half[0]);

	if (!err)
		err = open_half(t, &half[1]);
	if (!err)
		err = rdmamsg__loopback_path(&t->d, 0, &path);
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		for (int i = 0; i < 2 && !err; i++) {
			struct ibv_qp *qp = half[i].cross.qp;

			err = rdmamsg__loopback_step(&t->d, qp, &path,
						     qp->qp_num, to);
		}
	return err;
}

/* A queue that a request waits for can go after the queue pairs. */
static void drop(struct trial *t, struct half half[static 2])
{
	for (int i = 0; i < 2; i++)
		rdmamsg__cross_close(&t->d, &half[i].cross);
	for (int i = 0; i < 2; i++)
		if (half[i].cq)
			(void)rdmamsg__v_destroy_cq(t->d.v, half[i].cq);
}

/* ---- requests ---------------------------------------------------------- */

/* Calculates with STEP. */
static void calc(struct trial *t, const struct half *h, enum cross_op op,
		 uint32_t a, uint32_t to)
{
	const uint64_t mem = (uintptr_t)t->mem;
	const struct cross_calc c = {
		.op = op,
		.a = mem + a * sizeof(uint64_t),
		.b = mem + STEP * sizeof(uint64_t), .a_lkey = t->mr->lkey,
		.b_lkey = t->mr->lkey,
		.to = mem + to * sizeof(uint64_t), .rkey = t->mr->rkey,
	};

	rdmamsg__cross_calc(&h->cross, op == CROSS_ADD, &c);
}

/* The wait comes first, or it would find what it waits for. */
static int post(struct trial *t, const struct half half[static 2])
{
	int err;

	rdmamsg__cross_begin(&half[1].cross, 0);
	rdmamsg__cross_wait(&half[1].cross, false, half[0].number, 1);
	calc(t, &half[1], CROSS_ADD, SUM, SUM_AGAIN);
	err = rdmamsg__cross_end(&half[1].cross);
	if (err)
		return rdmamsg__refused(err, "posting a wait");
	rdmamsg__cross_begin(&half[0].cross, 0);
	calc(t, &half[0], CROSS_AND, START, ALL);
	calc(t, &half[0], CROSS_OR, START, ANY);
	calc(t, &half[0], CROSS_XOR, START, DIFFERENT);
	calc(t, &half[0], CROSS_ADD, START, SUM);
	err = rdmamsg__cross_end(&half[0].cross);
	return err ? rdmamsg__refused(err, "posting a calculation") : 0;
}

static int wait_for(const struct half *h, const char *what, uint64_t until)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(h->cq, 1, &wc);

	while (!n && rdmamsg__now_ms() < until) {
		(void)poll(NULL, 0, 1);
		n = ibv_poll_cq(h->cq, 1, &wc);
	}
	if (!n)
		return rdmamsg__fail(-ETIMEDOUT, "%s does not end", what);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		return rdmamsg__fail(-EIO, "%s failed: %s", what, n < 0 ?
				     "polling" : rdmamsg__wc_text(wc.status));
	return 0;
}

static int run_halves(struct trial *t, const struct half half[static 2])
{
	const uint64_t until = rdmamsg__now_ms() + WAIT_MS;
	const uint64_t expected[VALUES] = {
		htobe64(start), htobe64(step), htobe64(start & step),
		htobe64(start | step), htobe64(start ^ step),
		htobe64(start + step), htobe64(start + step + step),
	};
	int err;

	memset(t->mem, 0, TRIAL_MEM);
	memcpy(t->mem, expected, ALL * sizeof(expected[0]));
	err = post(t, half);
	if (!err)
		err = wait_for(&half[0], "a calculation", until);
	if (!err)
		err = wait_for(&half[1], "a wait", until);
	if (!err && memcmp(t->mem, expected, sizeof(expected)))
		err = rdmamsg__fail(-EIO, "a calculation gave a wrong result");
	return err;
}

/* ---- the ability ------------------------------------------------------- */

#define OP(op)		(1u << RDMAMSG_CALC_##op)
#define TYPE(type)	(1u << RDMAMSG_CALC_##type)
#define BIT_OPS		(OP(AND) | OP(OR) | OP(XOR))
#define ALL_OPS		(BIT_OPS | OP(ADD) | OP(MIN) | OP(MAX))

/* lib/chain/compile.c leaves all others to the loop. */
static void set_limits(struct rdmamsg_cap_chains *ret, bool native)
{
	ret->types = TYPE(INT) | TYPE(UINT) | TYPE(DOUBLE);
	ret->sizes = sizeof(uint64_t);
	ret->int_ops = ret->uint_ops = native ? BIT_OPS | OP(ADD) : ALL_OPS;
	ret->double_ops = native ? BIT_OPS : ALL_OPS;
}

int rdmamsg__try_chains(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct half half[2] = { { .cq = NULL } };
	int err = open_halves(t, half);

	if (!err)
		err = run_halves(t, half);
	drop(t, half);
	set_limits(&ret->limits.chains, !err);
	if (!err)
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 1, "all "
					"calculations and a wait worked; "
					"chains and teams use them if asked, "
					"else the loop runs chains");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0, "the library "
				"runs chains in the loop of the context: %s",
				rdmamsg__text());
}
