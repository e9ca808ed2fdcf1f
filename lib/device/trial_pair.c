/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of one device, connected to each other over one of its ports.
 * They have a protection domain, a completion queue and memory of their own.
 */
#include "base/base.h"
#include "base/util.h"
#include "device/loopback.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#define WAIT_MS		5000u	/* for a completion: more than all retries */
#define LOOKS		64u	/* empty ones, after the time */
#define INLINE_MOST	1024u	/* bytes asked for */
#define INLINE_LEAST	32u
#define RECEIVED	1u	/* bit of wr_id */

/* ---- making the pair -------------------------------------------------- */

/* The first takes raw requests, too, if the device has them. */
static int create(struct trial *t, int side, uint32_t max_inline)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = t->cq, .recv_cq = t->cq, .qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
			.max_recv_sge = 1, .max_inline_data = max_inline,
		},
		.pd = t->d.pd, .comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	int err = side ? -EOPNOTSUPP :
		  rdmamsg__raw_create_qp(&t->d, &attr, &t->pair.qp[0]);

	if (!side)
		t->pair.raw = !err;
	if (err)
		err = rdmamsg__v_create_qp(t->d.v, t->d.pd,
					   (struct ibv_qp_init_attr *)&attr,
					   &t->pair.qp[side]);
	if (!err && !side)
		t->pair.max_inline = attr.cap.max_inline_data;
	return err;
}

/* No attribute tells the largest inline size, so try smaller sizes. */
static int create_pair(struct trial *t)
{
	uint32_t max_inline = INLINE_MOST;
	int err = create(t, 0, max_inline);

	while (err && max_inline) {
		max_inline = max_inline > INLINE_LEAST ? max_inline / 2 : 0;
		err = create(t, 0, max_inline);
	}
	if (!err)
		err = create(t, 1, 0);
	return err ? rdmamsg__refused(err, "creating a queue pair of type RC") :
	       0;
}

static int connect_pair(struct trial *t, const struct oob *path)
{
	int err = 0;

	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		for (int i = 0; i < 2 && !err; i++)
			err = rdmamsg__loopback_step(&t->d, t->pair.qp[i], path,
						     t->pair.qp[!i]->qp_num,
						     to);
	return err;
}

/* A message of 0 bytes shows whether the device delivers to itself. */
static int greet(struct trial *t)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	return rdmamsg__pair_do(t, 0, &wr, true, &wc);
}

static int make(struct trial *t)
{
	int err = create_pair(t);
	struct oob path;

	if (err)
		return err;
	err = rdmamsg__loopback_path(&t->d, 0, &path);
	t->pair.no_path = err;
	if (!err)
		err = connect_pair(t, &path);
	if (err)
		return err;
	err = greet(t);
	t->pair.no_path = err == -EHOSTUNREACH || err == -ETIMEDOUT;
	return err;
}

int rdmamsg__pair_get(struct trial *t)
{
	struct trial_pair *p = &t->pair;

	if (p->error)
		return rdmamsg__fail(p->error, "%s", p->text);
	if (p->broken)
		rdmamsg__pair_drop(t);
	if (p->qp[0])
		return 0;
	p->error = make(t);
	if (!p->error)
		return 0;
	snprintf(p->text, sizeof(p->text), "%s", rdmamsg__text());
	rdmamsg__pair_drop(t);
	return p->error;
}

void rdmamsg__pair_drop(struct trial *t)
{
	for (int i = 0; i < 2; i++)
		if (t->pair.qp[i])
			(void)rdmamsg__v_destroy_qp(t->d.v, t->pair.qp[i]);
	t->pair.qp[0] = t->pair.qp[1] = NULL;
	t->pair.broken = false;
	t->pair.round++;
}

/* ---- requests --------------------------------------------------------- */

static uint64_t id_of(const struct trial *t, uint32_t kind)
{
	return (uint64_t)t->pair.round << 1 | kind;
}

static int receive(struct trial *t, struct ibv_qp *qp)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->mem + TRIAL_RECV,
		.length = TRIAL_MEM - TRIAL_RECV, .lkey = t->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id_of(t, RECEIVED), .sg_list = &sge, .num_sge = 1,
	};

	return rdmamsg__verbs_ret(ibv_post_recv(qp, &wr, &bad));
}

/*
 * Waits for the next completion of this pair. The completion queue may still
 * have completions of earlier pairs. On a busy host the time may be over before
 * the first look, so it takes some empty ones as well to call a device silent.
 */
static int next(struct trial *t, uint64_t until, struct ibv_wc *ret)
{
	for (unsigned int late = 0;;) {
		int n = ibv_poll_cq(t->cq, 1, ret);

		if (n < 0)
			return rdmamsg__fail(-EIO, "the completion queue "
					     "failed");
		if (n && ret->wr_id >> 1 == t->pair.round)
			break;
		if (!n && rdmamsg__now_ms() >= until && ++late == LOOKS)
			return rdmamsg__fail(-ETIMEDOUT, "the device has not "
					     "completed a request to itself in "
					     "time");
		if (!n)
			(void)sched_yield();
	}
	if (ret->status == IBV_WC_SUCCESS)
		return 0;
	return rdmamsg__fail(ret->status == IBV_WC_RETRY_EXC_ERR ?
			     -EHOSTUNREACH : -EREMOTEIO, "a request of the "
			     "device to itself failed: %s",
			     rdmamsg__wc_text(ret->status));
}

static int wait_for(struct trial *t, bool receives, struct ibv_wc *ret)
{
	const uint64_t most = rdmamsg__now_ms() + WAIT_MS;
	const uint64_t until = t->until ? min(t->until, most) : most;
	bool sent = false, received = !receives;
	struct ibv_wc wc;

	while (!sent || !received) {
		int err = next(t, until, &wc);

		if (err || (wc.wr_id & RECEIVED) || !receives)
			*ret = wc;
		if (err)
			return err;
		if (wc.wr_id & RECEIVED)
			received = true;
		else
			sent = true;
	}
	return 0;
}

int rdmamsg__trial_send(struct trial *t, struct ibv_qp *from, struct ibv_qp *to,
			struct ibv_send_wr *wr, struct ibv_wc *ret)
{
	struct ibv_send_wr *bad;
	int err = 0;

	memset(ret, 0, sizeof(*ret));
	wr->wr_id = id_of(t, 0);
	wr->send_flags |= IBV_SEND_SIGNALED;
	if (to)
		err = receive(t, to);
	if (!err)
		err = rdmamsg__verbs_ret(ibv_post_send(from, wr, &bad));
	if (err)
		return rdmamsg__refused(err, "posting a request");
	return wait_for(t, to, ret);
}

int rdmamsg__pair_do(struct trial *t, int side, struct ibv_send_wr *wr,
		     bool receives, struct ibv_wc *ret)
{
	struct trial_pair *p = &t->pair;
	int err = rdmamsg__trial_send(t, p->qp[side],
				      receives ? p->qp[!side] : NULL, wr, ret);

	p->broken = err;
	return err;
}

int rdmamsg__pair_masked(struct trial *t, struct ibv_send_wr *wr,
			 const struct masked *m)
{
	struct ibv_wc wc;
	int err;

	wr->wr_id = id_of(t, 0);
	wr->send_flags |= IBV_SEND_SIGNALED;
	err = rdmamsg__post_masked(t->d.v, t->pair.qp[0], t->pair.raw, wr, m);
	err = err ? rdmamsg__refused(err, "posting a masked atomic") :
	      wait_for(t, false, &wc);
	t->pair.broken = err;
	return err;
}
