/* SPDX-License-Identifier: BSD-2-Clause */
/* The data path, through the ops of opened devices. */
#include "faulty_call.h"

#include <errno.h>

/* The driver's ops. All devices of a test have the same driver. */
struct ibv_context_ops faulty_ops;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	if (faulty_fails(FAULTY_post_send)) {
		/* the driver posts the requests before the last one */
		struct ibv_send_wr *w = wr, *before = NULL;
		int ret = 0;

		while (w->next) {
			before = w;
			w = w->next;
		}
		if (before) {
			before->next = NULL;
			ret = faulty_ops.post_send(qp, wr, bad);
			before->next = w;
		}
		if (!ret)
			*bad = w;
		return faulty_errors[FAULTY_post_send];
	}
	return faulty_ops.post_send(qp, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	if (faulty_fails(FAULTY_post_recv)) {
		*bad = wr;
		return faulty_errors[FAULTY_post_recv];
	}
	return faulty_ops.post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	if (faulty_fails(FAULTY_post_srq_recv)) {
		*bad = wr;
		return faulty_errors[FAULTY_post_srq_recv];
	}
	return faulty_ops.post_srq_recv(srq, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n;

	if (faulty_delayed())
		return 0;
	FAIL_M(poll_cq);
	n = faulty_ops.poll_cq(cq, room, wc);
	for (int i = 0; i < n; i++) {
		enum faulty_call call = wc[i].wr_id & 0x80000000u ?
			FAULTY_wc_recv : FAULTY_wc_send;

		if (wc[i].status == IBV_WC_SUCCESS && faulty_fails(call)) {
			wc[i].status = (enum ibv_wc_status)faulty_errors[call];
			wc[i].vendor_err = 0xfa;
		}
	}
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	FAIL_P(req_notify_cq);
	return faulty_ops.req_notify_cq(cq, solicited);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	MAKE(alloc_mw, FAULTY_MWS, struct ibv_mw,
	     faulty_ops.alloc_mw(pd, type));
}

static int dealloc_mw(struct ibv_mw *mw)
{
	UNMAKE(dealloc_mw, FAULTY_MWS, mw, faulty_ops.dealloc_mw(mw));
}

/* The driver's. All extended queue pairs of a test have the same. */
static int (*complete)(struct ibv_qp_ex *ex);

static int wr_complete(struct ibv_qp_ex *ex)
{
	if (faulty_fails(FAULTY_wr_complete)) {
		ibv_wr_abort(ex);
		return faulty_errors[FAULTY_wr_complete];
	}
	return complete(ex);
}

void faulty_patch_ex(struct ibv_qp_ex *ex)
{
	if (!ex || ex->wr_complete == wr_complete)
		return;
	complete = ex->wr_complete;
	ex->wr_complete = wr_complete;
}

void faulty_patch(struct ibv_context *verbs)
{
	struct ibv_context_ops *ops = &verbs->ops;

	if (ops->post_send == post_send)
		return;
	faulty_ops = *ops;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->alloc_mw = alloc_mw;
	ops->dealloc_mw = dealloc_mw;
}
