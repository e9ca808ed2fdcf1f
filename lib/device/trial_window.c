/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows of type 2, tried over a pair: bounds and remote invalidate. */
#include "base/base.h"
#include "device/quirks.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define LEN	64u	/* bytes of the window, and of a request */
#define TARGET	1024u	/* offset of the window */

/* Binds the window for the requests of queue pair 0. */
static int bind_window(struct trial *t, struct ibv_mw *mw, uint32_t *ret_rkey)
{
	const uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw, .rkey = rkey,
			.bind_info = {
				.mr = t->mr,
				.addr = (uintptr_t)t->mem + TARGET,
				.length = LEN,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};
	struct ibv_wc wc;
	int err = rdmamsg__pair_do(t, 1, &wr, false, &wc);

	if (!err)
		*ret_rkey = rkey;
	return err;
}

static int write_at(struct trial *t, uint32_t rkey, uint32_t offset)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->mem, .length = LEN, .lkey = t->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {
			.remote_addr = (uintptr_t)t->mem + TARGET + offset,
			.rkey = rkey,
		},
	};
	struct ibv_wc wc;

	return rdmamsg__pair_do(t, 0, &wr, false, &wc);
}

/* Expects that a write fails, which ends the pair. */
static int write_fails(struct trial *t, uint32_t rkey, uint32_t offset,
		       const char *or_else)
{
	int err = write_at(t, rkey, offset);

	if (!err)
		return rdmamsg__fail(-EIO, "%s", or_else);
	return err == -EREMOTEIO ? 0 : err;
}

/* Only the peer's request beyond the window shows that bounds are checked. */
static int use_window(struct trial *t, struct ibv_mw *mw)
{
	uint32_t rkey;
	int err = bind_window(t, mw, &rkey);

	if (!err)
		err = write_at(t, rkey, 0);
	return err ? err : write_fails(t, rkey, 1, "a bound window gave access "
				       "beyond its bounds");
}

static int invalidate(struct trial *t, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey,
	};
	struct ibv_wc wc;
	int err = rdmamsg__pair_do(t, 0, &wr, true, &wc);

	if (!err && (!(wc.wc_flags & IBV_WC_WITH_INV) ||
		     wc.invalidated_rkey != rkey))
		return rdmamsg__fail(-EIO, "a completion did not tell which "
				     "key the peer invalidated");
	return err;
}

static int use_invalidate(struct trial *t, struct ibv_mw *mw)
{
	uint32_t rkey;
	int err = bind_window(t, mw, &rkey);

	if (!err)
		err = invalidate(t, rkey);
	return err ? err : write_fails(t, rkey, 0, "an invalidated window gave "
				       "access");
}

/*
 * Sets *ret_untried if there is no way to use the window, which could be
 * allocated.
 */
static int with_window(struct trial *t,
		       int (*use)(struct trial *t, struct ibv_mw *mw),
		       bool *ret_untried)
{
	struct ibv_mw *mw;
	int err = rdmamsg__v_alloc_mw(t->d.pd, IBV_MW_TYPE_2, &mw);

	if (err)
		return rdmamsg__refused(err, "allocating a memory window");
	err = rdmamsg__pair_get(t);
	if (err)
		*ret_untried = t->pair.no_path;
	else
		err = use(t, mw);
	/* the window may be bound, so it must end before its region */
	(void)rdmamsg__v_dealloc_mw(mw);
	return err;
}

static int answer(struct trial *t, struct rdmamsg_device_cap_attr *ret,
		  const char *lack,
		  int (*use)(struct trial *t, struct ibv_mw *mw),
		  const char *done)
{
	bool untried = false;
	int err;

	if (lack)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0,
					    "device %s: %s", t->d.name, lack);
	err = with_window(t, use, &untried);
	if (untried)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_NATIVE, 0,
					    "the device reports it; not tried: "
					    "%s", t->pair.text);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "%s",
					    done);
}

int rdmamsg__try_windows(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	return answer(t, ret, rdmamsg__window_lack(&t->d), use_window,
		      "a write through a window arrived, and a write beyond it "
		      "was refused");
}

int rdmamsg__try_invalidate(struct trial *t,
			    struct rdmamsg_device_cap_attr *ret)
{
	const char *lack = rdmamsg__window_lack(&t->d);

	if (!lack &&
	    !(t->d.attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS))
		lack = "it does not report IBV_DEVICE_MEM_MGT_EXTENSIONS, "
		       "which endpoints need";
	return answer(t, ret, lack, use_invalidate, "a message invalidated a "
		      "window, and a write through it was refused");
}
