/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs objects under an endpoint, for what rdmamsg does not cover. They
 * are borrowed: valid from on_connected to on_closed, in the context's
 * thread, and nothing may be posted to the queue pair or changed in it.
 */
#ifndef RDMAMSG_VERBS_H
#define RDMAMSG_VERBS_H

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL before there is one. */
struct ibv_qp *rdmamsg_ep_qp(const struct rdmamsg_ep *ep);
struct ibv_pd *rdmamsg_ep_pd(const struct rdmamsg_ep *ep);

#ifdef __cplusplus
}
#endif

#endif
