/* SPDX-License-Identifier: BSD-2-Clause */
/* Dynamically connected transport, tried with a message to the device itself */
#include "base/base.h"
#include "base/util.h"
#include "device/dc.h"
#include "device/loopback.h"
#include "device/path.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define KEY	0x6463742d74726961u	/* any */
#define LEN	8u
#define WAIT_MS	5000
#define READS_MAX	255	/* of a queue pair */

struct dc_trial {
	struct ibv_srq *srq;
	struct ibv_qp *dct;
	struct dci dci;
	struct ibv_ah *ah;
};

static int make(struct trial *t, struct dc_trial *x)
{
	struct ibv_srq_init_attr srq = { .attr = { 1, 1, 0 } };
	struct dct_attr attr = { .pd = t->d.pd, .cq = t->cq, .key = KEY };
	const struct dci_attr usual = { .depth = 0 };
	struct ibv_ah_attr to;
	struct oob path;
	int err = rdmamsg__dc_supported(&t->d);

	if (!err)
		err = rdmamsg__loopback_path(&t->d, 0, &path);
	if (err)
		return err;
	err = rdmamsg__v_create_srq(t->d.v, t->d.pd, &srq, &x->srq);
	if (err)
		return rdmamsg__refused(err, "a shared receive queue");
	attr.srq = x->srq;
	err = rdmamsg__dct_open(&t->d, &attr, &path, &x->dct);
	if (!err)
		err = rdmamsg__dci_open(&t->d, t->d.pd, t->cq, 1, &x->dci);
	if (!err)
		err = rdmamsg__dci_start(&t->d, &x->dci, &usual, &path);
	if (err)
		return err;
	rdmamsg__loopback_address(&path, &to);
	err = rdmamsg__v_create_ah(t->d.v, t->d.pd, &to, &x->ah);
	return err ? rdmamsg__refused(err, "an address handle") : 0;
}

/* Returns 0 when both completions have come. */
static int wait_for_both(struct trial *t)
{
	const uint64_t until = rdmamsg__now_ms() + WAIT_MS;
	struct ibv_wc wc;
	int seen = 0, n;

	while (seen < 2) {
		n = ibv_poll_cq(t->cq, 1, &wc);
		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			return rdmamsg__fail(-EIO, "a message failed: %s",
					     n < 0 ? "polling" :
					     rdmamsg__wc_text(wc.status));
		if (!n && rdmamsg__now_ms() >= until)
			return rdmamsg__fail(-ETIMEDOUT, "a message does not "
					     "arrive");
		if (!n)
			(void)poll(NULL, 0, 1);
		seen += n;
	}
	return 0;
}

static int message(struct trial *t, const struct dc_trial *x)
{
	const struct dc_to to = { x->ah, x->dct->qp_num, KEY };
	struct ibv_sge in = {
		(uintptr_t)t->mem + TRIAL_RECV, LEN, t->mr->lkey,
	};
	struct ibv_sge out = { (uintptr_t)t->mem, LEN, t->mr->lkey };
	struct ibv_recv_wr *bad, rwr = { .sg_list = &in, .num_sge = 1 };
	struct ibv_send_wr wr = {
		.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int err = rdmamsg__verbs_ret(ibv_post_srq_recv(x->srq, &rwr, &bad));

	memset(t->mem, 0, TRIAL_MEM);
	memset(t->mem, 0x5a, LEN);
	if (!err)
		err = rdmamsg__dci_post(&x->dci, &wr, &to);
	if (err)
		return rdmamsg__refused(err, "a message");
	err = wait_for_both(t);
	if (!err && memcmp(t->mem, t->mem + TRIAL_RECV, LEN))
		err = rdmamsg__fail(-EIO, "a message arrived with other bytes");
	return err;
}

static void drop(struct trial *t, const struct dc_trial *x)
{
	if (x->dci.qp)
		(void)rdmamsg__v_destroy_qp(t->d.v, x->dci.qp);
	if (x->dct)
		(void)rdmamsg__v_destroy_qp(t->d.v, x->dct);
	if (x->srq)
		(void)rdmamsg__v_destroy_srq(t->d.v, x->srq);
	if (x->ah)
		(void)rdmamsg__v_destroy_ah(t->d.v, x->ah);
}

/* Returns true if the device counts packets with another access key. */
static bool counts_violations(const struct trial *t, const struct dc_trial *x)
{
	uint32_t n;

	return !rdmamsg__try(rdmamsg__dct_violations(&t->d, x->dct, &n));
}

static void set_limits(const struct trial *t, struct rdmamsg_cap_dc *ret)
{
	ret->initiator_depth =
		(uint32_t)min(max(t->d.attr.max_qp_init_rd_atom, 0), READS_MAX);
	ret->responder_resources =
		(uint32_t)min(max(t->d.attr.max_qp_rd_atom, 0), READS_MAX);
	/* connections tell of them */
	ret->violations = 1;
}

int rdmamsg__try_dc(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct dc_trial x = { .srq = NULL };
	int err = make(t, &x);

	if (!err)
		err = message(t, &x);
	set_limits(t, &ret->limits.dc);
	if (!err)
		ret->limits.dc.violations = counts_violations(t, &x);
	drop(t, &x);
	if (!err)
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 1, "a message "
					"of DC worked; a sender with more "
					"addresses than initiators uses it");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0, "the library "
				"makes RC connections on demand: %s",
				rdmamsg__text());
}
