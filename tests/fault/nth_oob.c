/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios without the CM: endpoints, and the program's own queue pairs. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/verbs.h>

#include "nth.h"

static void on_completion(struct rdmamsg_qp *qp, struct ibv_cq *cq)
{
}

/* Two UD queue pairs of the program, connected by records. */
static void do_qp(void)
{
	static const struct rdmamsg_qp_handlers on = {
		.size = sizeof(on), .on_completion = on_completion,
	};
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .handlers = &on, .type = IBV_QPT_UD,
		.flags = RDMAMSG_QP_TWO_CQS, .send_ops = IBV_QP_EX_WITH_SEND,
	};
	struct rdmamsg_qp *qp[2] = { NULL, NULL };
	uint8_t record[RDMAMSG_OOB_MAX];

	for (int i = 0; i < 2; i++)
		if (told(rdmamsg_qp_create(ctxs[CLIENT], &o, &qp[i])))
			qp[i] = NULL;
	if (qp[0] && qp[1]) {
		int len = rdmamsg_qp_record(qp[1], record, sizeof(record));

		told(rdmamsg_qp_connect(qp[0], record, (size_t)len));
	}
	/* if this fails, rdmamsg_close() destroys the queue pair */
	for (int i = 0; i < 2; i++)
		told(rdmamsg_qp_destroy(qp[i]));
}

/*
 * A domain with a queue pair. Shared receive queues of XRC are created by an
 * inline of verbs.h, which nothing here counts.
 */
static void do_xrc(void)
{
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .type = IBV_QPT_XRC_RECV,
	};
	struct rdmamsg_xrc_srq_objects v = { .size = sizeof(v) };
	struct rdmamsg_xrc_srq *srq = NULL;
	struct rdmamsg_xrcd *x = NULL;
	struct rdmamsg_qp *qp = NULL;

	int ret = rdmamsg_xrcd_open(ctxs[CLIENT], NULL, &x);

	/* Soft-RoCE has no XRC */
	if (ret == -EOPNOTSUPP || told(ret))
		return;
	if (!told(rdmamsg_xrc_srq_create(x, NULL, &srq)))
		(void)rdmamsg_xrc_srq_verbs(srq, &v);
	o.xrcd = v.xrcd;
	if (told(rdmamsg_qp_create(ctxs[CLIENT], &o, &qp)))
		qp = NULL;
	/* if one of these fails, rdmamsg_close() does the rest */
	told(rdmamsg_qp_destroy(qp));
	told(rdmamsg_xrc_srq_destroy(srq));
	told(rdmamsg_xrcd_close(x));
}

/* A queue pair with receive queues, a multicast group, and their teardown. */
static void do_rss(void)
{
	static const uint8_t key[40] = { 1 };
	static const struct rdmamsg_rss rss = {
		.size = sizeof(rss), .queues = 2, .key = key,
		.key_len = sizeof(key),
		.function = IBV_RX_HASH_FUNC_TOEPLITZ,
		.fields = IBV_RX_HASH_SRC_IPV4,
	};
	const union ibv_gid gid = { .raw = { 0xff, 0x0e, [15] = 9 } };
	static const struct rdmamsg_qp_handlers on = {
		.size = sizeof(on), .on_completion = on_completion,
	};
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .handlers = &on, .type = IBV_QPT_RAW_PACKET,
		.rss = &rss,
	};
	struct rdmamsg_qp *qp[2] = { NULL, NULL };

	if (told(rdmamsg_qp_create(ctxs[CLIENT], &o, &qp[0])))
		qp[0] = NULL;
	o.type = IBV_QPT_UD;
	o.rss = NULL;
	if (told(rdmamsg_qp_create(ctxs[CLIENT], &o, &qp[1])))
		qp[1] = NULL;
	if (qp[1])
		told(rdmamsg_qp_attach(qp[1], &gid, 0));
	for (int i = 0; i < 2; i++)
		told(rdmamsg_qp_destroy(qp[i]));
}

const struct scenario oob_scenarios[] = {
	{ "qp", OPEN, do_qp },
	/* not destroy_srq: rdmamsg_close() tries it again */
	{ "xrc", OPEN, do_xrc,
	  .calls = " open_device query_device alloc_pd create_comp_channel "
		   "create_cq destroy_cq create_srq_ex calloc epoll_ctl " },
	{ "qp-rss", OPEN, do_rss },
	{ "oob-listen", OPEN, do_listen, .oob = true },
	{ "oob", LISTENING, do_connect, .oob = true },
	{ "oob-move", LISTENING, do_connect, .oob = true, .moving = true,
	  .calls = " malloc create_qp mlx5_create_qp modify_qp epoll_ctl "
		   "send recv " },
	{ "oob-close", CONNECTED, do_close, .oob = true },
	{ "oob-teardown", CONNECTED, do_teardown, .oob = true,
	  .calls = " destroy_qp dereg_mr modify_qp " },
	{ NULL },
};
