/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic path migration, tried over a pair. */
#include "base/base.h"
#include "base/util.h"
#include "device/loopback.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define ARM_MS		5000u	/* until both ends are armed, at most */
#define ALT_TIMEOUT	16

/*
 * Finds the alternate path: over another active port, else over the port in
 * use.
 */
static int alternate(const struct trial *t, struct oob *ret)
{
	struct oob other;
	int err = rdmamsg__loopback_path(&t->d, 0, ret);

	for (uint32_t p = 1; !err && p <= t->d.attr.phys_port_cnt; p++)
		if (p != ret->port &&
		    !rdmamsg__try(rdmamsg__loopback_path(&t->d, p, &other))) {
			*ret = other;
			break;
		}
	return err;
}

static int load(struct trial *t, int side, const struct oob *path)
{
	struct ibv_qp_attr attr = {
		.alt_port_num = path->port, .alt_pkey_index = path->pkey_index,
		.alt_timeout = ALT_TIMEOUT, .path_mig_state = IBV_MIG_REARM,
	};
	int err;

	rdmamsg__loopback_address(path, &attr.alt_ah_attr);
	err = rdmamsg__v_modify_qp(t->d.v, t->pair.qp[side], &attr,
				   IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	if (!err)
		return 0;
	return rdmamsg__refused(err, path->local.link == PROTO_OOB_ETHERNET ?
				"loading an alternate path (which Linux "
				"permits on InfiniBand only)" :
				"loading an alternate path");
}

static int send_both_ways(struct trial *t)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	int err = rdmamsg__pair_do(t, 0, &wr, true, &wc);

	return err ? err : rdmamsg__pair_do(t, 1, &wr, true, &wc);
}

static int count_armed(struct trial *t, int *ret)
{
	int n = 0;

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr;
		int err = rdmamsg__v_query_qp(t->d.v, t->pair.qp[i], &attr,
					      IBV_QP_PATH_MIG_STATE);

		if (err)
			return rdmamsg__refused(err, "the migration state of a "
						"queue pair");
		n += attr.path_mig_state == IBV_MIG_ARMED;
	}
	*ret = n;
	return 0;
}

/* Messages tell each end that the other has loaded its path. */
static int arm(struct trial *t)
{
	const uint64_t until = rdmamsg__now_ms() + ARM_MS;
	int armed = 0, err = send_both_ways(t);

	while (!err && armed < 2) {
		err = count_armed(t, &armed);
		if (err || armed == 2)
			break;
		if (rdmamsg__now_ms() >= until)
			return rdmamsg__fail(-ETIMEDOUT, "an alternate path "
					     "was loaded, but not armed in %u "
					     "ms", ARM_MS);
		(void)poll(NULL, 0, 1);
	}
	return err;
}

static int migrate(struct trial *t)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	int err = rdmamsg__v_modify_qp(t->d.v, t->pair.qp[0], &attr,
				       IBV_QP_PATH_MIG_STATE);

	if (err)
		return rdmamsg__refused(err, "migrating to the alternate path");
	return send_both_ways(t);
}

/* Soft-RoCE reports the flag, too, so the flag alone is not enough. */
static int untried(const struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	const bool has = t->d.attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG;

	return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0, "not tried: "
				    "%s; the device %s "
				    "IBV_DEVICE_AUTO_PATH_MIG", t->pair.text,
				    has ? "reports" : "does not report");
}

int rdmamsg__try_apm(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct oob path;
	int err = rdmamsg__pair_get(t);

	if (err && t->pair.no_path)
		return untried(t, ret);
	if (!err)
		err = alternate(t, &path);
	for (int i = 0; i < 2 && !err; i++)
		err = load(t, i, &path);
	if (!err)
		err = arm(t);
	if (!err)
		err = migrate(t);
	/* the pair is not what it was */
	t->pair.broken |= t->pair.qp[0] != NULL;
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "two "
					    "queue pairs armed an alternate "
					    "path on port %u and migrated to "
					    "it; a program does so with "
					    "ibv_modify_qp()", path.port);
}
