/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios without the CM: endpoints, and the program's own queue pairs. */

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
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .type = IBV_QPT_UD,
		.flags = RDMAMSG_QP_TWO_CQS, .send_ops = IBV_QP_EX_WITH_SEND,
		.on_completion = on_completion,
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

const struct scenario oob_scenarios[] = {
	{ "qp", OPEN, do_qp },
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
